# SPDX-License-Identifier: Apache-2.0
"""Decisions about imported records: every row of the table, and all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange.aimem_import import decide, import_bundle
from omsgrain.memory.removal import erase_tenant
from omsgrain.storage.memory import MemoryStorage
from support.aimem_imports import (
    NEWER,
    OLDER,
    TIME,
    chunk,
    edge,
    entity,
    fates,
    holdings,
    link,
    made,
    reasons,
    stored,
    take,
    urn,
)
from support.aimem_strategies import TENANT, embedding
from support.origins import find_origins

OTHER = "22222222-2222-4222-8222-222222222222"


@pytest.fixture(params=["memory", "disk", "sealed"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, ring: KeyRing
) -> Iterator[og.GrainStore]:
    if request.param == "memory":
        with og.GrainStore(MemoryStorage()) as store:
            yield store
        return
    keys = ring if request.param == "sealed" else None
    with og.open(tmp_path / "memory.omsg", keys=keys, durability="relaxed") as store:
        yield store


#: What comes upon `chunk()`, what becomes of it, why, and which fields differ.
ROWS: list[tuple[str, dict[str, Any], str, str | None, tuple[str, ...]]] = [
    ("the same", {}, "unchanged", None, ()),
    ("the same, older", {"created_at": OLDER}, "unchanged", None, ()),
    ("the same, newer", {"created_at": NEWER}, "unchanged", None, ()),
    ("the same instant", {"created_at": "2026-04-02T09:30:00.0+00:00"}, "unchanged", None, ()),
    ("no hash", {"content_hash": None}, "unchanged", None, ()),
    ("nulls", {"zone": None, "tags": None, "embedding": None}, "unchanged", None, ()),
    ("said outright", {"is_pinned": False, "tags": []}, "unchanged", None, ()),
    ("tags", {"tags": ["db"]}, "conflict", "field_conflict", ("tags",)),
    ("a zone", {"zone": "critical"}, "conflict", "field_conflict", ("zone",)),
    ("pinned", {"is_pinned": True}, "conflict", "field_conflict", ("is_pinned",)),
    (
        "a type, and something unknown",
        {"memory_type": "goal", "x": [1]},
        "conflict",
        "field_conflict",
        ("memory_type", "x"),
    ),
    ("content", {"content": "coffee"}, "conflict", "created_at_conflict", ()),
    ("content, newer", {"content": "coffee", "created_at": NEWER}, "updated", None, ()),
    ("content, older", {"content": "coffee", "created_at": OLDER}, "conflict", "older", ()),
    ("tags, newer", {"tags": ["db"], "created_at": NEWER}, "updated", None, ()),
    ("pinned, newer", {"is_pinned": True, "created_at": NEWER}, "updated", None, ()),
    ("tags, older", {"tags": ["db"], "created_at": OLDER}, "conflict", "older", ()),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_chunk_that_is_there(store: og.GrainStore, row: Any) -> None:
    _, changed, fate, reason, fields = row
    assert fates(take(store, chunk())) == {"chunk inserted": 1}
    before = holdings(store)
    record = chunk() | changed
    if "content" in changed:
        del record["content_hash"]
    summary = take(store, record)
    assert fates(summary) == {f"chunk {fate}": 1}
    assert reasons(summary) == ([] if reason is None else [(urn(1), reason, fields)])
    if fate == "updated":
        assert stored(store, urn(1))["object"] == record["content"]
        assert stored(store, urn(1)).get("structural_tags", []) == changed.get("tags", [])
        assert len(store.history(stored(store, urn(1)).address)) == 2
        assert fates(take(store, record)) == {"chunk unchanged": 1}
        assert reasons(take(store, chunk())) == [(urn(1), "older", ())]
    else:
        assert holdings(store) == before
    assert store.audit.verify().ok


def test_the_text_of_a_conflict_is_bounded(store: og.GrainStore) -> None:
    take(store, chunk())
    odd: dict[str, Any] = {f"{'x' * 5_000}{n}": n for n in range(100)}
    ((_, reason, fields),) = reasons(take(store, chunk(**odd)))
    assert reason == "field_conflict"
    assert (len(fields), max(map(len, fields))) == (20, 64)


@pytest.mark.parametrize("tenant", ["", "\udcff", "x" * 2_049])
def test_invalid_tenants_are_refused(store: og.GrainStore, tenant: str) -> None:
    with pytest.raises(err.SchemaError) as caught:
        take(store, chunk(), tenant=tenant)
    assert (caught.value.rule, len(store)) == ("invalid_tenant", 0)


def test_without_the_keys_of_the_store(tmp_path: Path, ring: KeyRing) -> None:
    """Else all would be stored again, beside what is sealed and in the clear."""
    path = tmp_path / "m.omsg"
    with og.open(path, keys=ring) as store:
        take(store, chunk())
    with og.open(path) as store:
        with pytest.raises(err.KeyMissingError):
            take(store, chunk())
        assert len(store) == 1


PROTECTED = [
    {"memory_type": "preference"},
    {"memory_type": "decision"},
    {"memory_type": "identity"},
    {"memory_type": "pitfall"},
    {"memory_type": "procedure"},
    {"is_pinned": True},
    {"memory_type": "goal", "is_pinned": True},
]


@pytest.mark.parametrize("fields", PROTECTED, ids=str)
def test_grains_that_are_never_silently_superseded(
    store: og.GrainStore, fields: dict[str, Any]
) -> None:
    take(store, chunk(**fields))
    before = holdings(store)
    newer = chunk(content="coffee", created_at=NEWER, **fields)
    summary = take(store, newer, chunk(2))
    assert reasons(summary) == [(urn(1), "dna_conflict", ())]
    assert fates(summary) == {"chunk conflict": 1, "chunk inserted": 1}
    assert {name: holdings(store)[name] for name in before} == before
    tagged = chunk(created_at=NEWER, tags=["db"], **fields)
    assert reasons(take(store, tagged)) == [(urn(1), "dna_conflict", ())]
    assert fates(take(store, newer, allow_dna_updates=True)) == {"chunk updated": 1}
    assert [review.operation for review in store.reviews.pending()] == ["supersede"]
    assert fates(take(store, newer)) == {"chunk unchanged": 1}


def test_every_kind(store: og.GrainStore) -> None:
    given: dict[str, Any] = {
        "edges": [edge(), edge(2, 1)],
        "entities": [entity(), entity("f")],
        "links": [link(), link(2, "f")],
    }
    counted = {"chunk": 2, "edge": 2, "entity": 2, "chunk_entity": 2}
    summary = take(store, chunk(), chunk(2), **given)
    assert fates(summary) == {f"{kind} inserted": n for kind, n in counted.items()}
    told = summary.to_dict()
    assert {name: told[name] for name in told if name.endswith("_inserted")} == {
        "chunks_inserted": 2, "edges_inserted": 2, "entities_inserted": 2,
        "chunk_entities_inserted": 2,
    }  # fmt: skip
    before = holdings(store)
    again = take(store, chunk(), chunk(2), **given)
    assert fates(again) == {f"{kind} unchanged": n for kind, n in counted.items()}
    assert holdings(store) == before
    assert (told["conflicts"], told["chunks_rejected_conflict"]) == ([], [])
    assert again.to_dict()["chunk_entities_skipped_idempotent"] == 2


def test_other_kinds_change_with_their_times(store: og.GrainStore) -> None:
    chunks = chunk(), chunk(2)
    take(store, *chunks, edges=[edge()], entities=[entity()], links=[link()])
    summary = take(
        store,
        *chunks,
        edges=[edge(weight=0.6)],
        entities=[entity(name="Grace")],
        links=[link(note="x")],
    )
    assert reasons(summary) == [
        (f"{urn(1)} {urn(2)} causal", "field_conflict", ("weight",)),
        (urn("e"), "field_conflict", ("name",)),
        (f"{urn(1)} {urn('e')}", "field_conflict", ("note",)),
    ]
    assert summary.to_dict()["edges_rejected_conflict"] == 1
    newer: dict[str, Any] = {
        "edges": [edge(weight=0.6, created_at=NEWER)],
        "entities": [entity(name="Grace", created_at=NEWER)],
    }
    assert fates(take(store, *chunks, **newer)) == {
        "chunk unchanged": 2, "edge updated": 1, "entity updated": 1,
    }  # fmt: skip
    assert stored(store, urn("e"))["object"]["name"] == "Grace"
    assert stored(store, f"{urn(1)} {urn(2)} causal")["confidence"] == 0.6
    older = take(store, *chunks, edges=[edge(created_at=OLDER, weight=0.1)])
    assert [reason for _, reason, _ in reasons(older)] == ["older"]
    same = take(store, *chunks, edges=[edge(weight=6e-1, created_at=OLDER)])
    assert fates(same) == {"chunk unchanged": 2, "edge unchanged": 1}


def test_edges_of_a_chunk_in_conflict_are_stored(store: og.GrainStore) -> None:
    take(store, chunk())
    changed = chunk(content="coffee")
    summary = take(store, changed, chunk(2), edges=[edge()], entities=[entity()], links=[link()])
    assert fates(summary) == {
        "chunk conflict": 1, "chunk inserted": 1, "edge inserted": 1, "entity inserted": 1,
        "chunk_entity inserted": 1,
    }  # fmt: skip
    told = summary.to_dict()
    assert told["chunks_rejected_conflict"] == [urn(1)]
    assert [(one["id"], one["reason"]) for one in told["conflicts"]] == [
        (urn(1), "created_at_conflict")
    ]


def test_a_chunk_and_an_entity_of_one_name(store: og.GrainStore) -> None:
    given: dict[str, Any] = {"entities": [entity(1)], "links": [link(1, 1)]}
    take(store, chunk(), **given)
    assert len(find_origins(store, [urn(1)], user_id=TENANT)[urn(1)]) == 2
    assert fates(take(store, chunk(), **given)) == {
        "chunk unchanged": 1, "entity unchanged": 1, "chunk_entity unchanged": 1,
    }  # fmt: skip
    newer = take(store, chunk(content="coffee", created_at=NEWER), **given)
    assert fates(newer)["chunk updated"] == fates(newer)["entity unchanged"] == 1


def test_the_same_edge_several_times_in_one_bundle(store: og.GrainStore) -> None:
    chunks = chunk(), chunk(2)
    edges = [
        edge(),
        edge(),
        edge(weight=0.6),
        edge(weight=0.7, created_at=NEWER),
        edge(weight=0.7, created_at=NEWER),
    ]
    summary = take(store, *chunks, edges=edges)
    assert fates(summary) == {
        "chunk inserted": 2, "edge inserted": 1, "edge unchanged": 2, "edge conflict": 1,
        "edge updated": 1,
    }  # fmt: skip
    before = holdings(store)
    take(store, *chunks, edges=edges)
    assert holdings(store) == before
    assert stored(store, f"{urn(1)} {urn(2)} causal")["confidence"] == 0.7


def test_a_large_record_comes_in_parts(store: og.GrainStore) -> None:
    large = chunk(memory_type="preference", extra="x" * 2_000_000)
    assert fates(take(store, large)) == {"chunk inserted": 1}
    before = holdings(store)
    assert len(before) > 2
    assert fates(take(store, large)) == {"chunk unchanged": 1}
    other = take(store, large | {"extra": "y" * 2_000_000})
    assert reasons(other) == [(urn(1), "field_conflict", ("extra",))]
    assert holdings(store) == before
    coffee = chunk(memory_type="preference", content="coffee", extra="y" * 2_000_000)
    newer = coffee | {"created_at": NEWER}
    assert fates(take(store, newer, allow_dna_updates=True)) == {"chunk updated": 1}
    assert fates(take(store, newer)) == {"chunk unchanged": 1}


def test_tenants_are_kept_apart(store: og.GrainStore) -> None:
    take(store, chunk())
    other = take(store, chunk(content="coffee"), tenant=OTHER)
    assert fates(other) == {"chunk inserted": 1}
    assert stored(store, urn(1))["object"] == "tea at four"
    assert stored(store, urn(1), OTHER)["object"] == "coffee"
    assert stored(store, urn(1), OTHER)["user_id"] == OTHER
    assert find_origins(store, [urn(1)], user_id="nobody") == {}


def test_retracted_grains_are_not_brought_back(store: og.GrainStore) -> None:
    take(store, chunk(), chunk(2))
    store.retract(stored(store, urn(1)).address)
    mine = og.Belief(
        subject="a", relation="b", object="my own", confidence=1, user_id=TENANT, created_at=1
    )
    store.supersede(stored(store, urn(2)).address, mine)
    before = holdings(store)
    assert fates(take(store, chunk(), chunk(2))) == {"chunk unchanged": 2}
    newer = take(store, *(chunk(n, "coffee", created_at=NEWER) for n in (1, 2)))
    assert reasons(newer) == [(urn(1), "withdrawn", ()), (urn(2), "withdrawn", ())]
    assert holdings(store) == before


def test_held_grains_stay(store: og.GrainStore) -> None:
    take(store, chunk())
    store.holds.add(stored(store, urn(1)).address, authority="court", reason_code="litigation")
    summary = take(store, chunk(content="coffee", created_at=NEWER), chunk(2))
    assert reasons(summary) == [(urn(1), "refused", ())]
    assert summary.conflicts[0].code == "ERR_INVALIDATION_DENIED"
    assert stored(store, urn(1))["object"] == "tea at four"
    assert fates(summary)["chunk inserted"] == 1


def test_erased_records_return_only_with_allow_erased(store: og.GrainStore) -> None:
    given: dict[str, Any] = {"edges": [edge()], "entities": [entity()], "links": [link()]}
    take(store, chunk(), chunk(2), **given)
    erase_tenant(store, TENANT, reason_code="asked")
    assert len(store) == 0
    changed = chunk(2, tags=["new"])  # another grain, and the same record
    summary = take(store, chunk(), changed, chunk(3), **given)
    assert {reason for _, reason, _ in reasons(summary)} == {"erased"}
    assert fates(summary) == {
        "chunk conflict": 2, "chunk inserted": 1, "edge conflict": 1, "entity conflict": 1,
        "chunk_entity conflict": 1,
    }  # fmt: skip
    touching = take(store, changed, chunk(3), edges=[edge(2, 3)])
    assert fates(touching)["edge conflict"] == 1
    assert fates(take(store, chunk(), tenant=OTHER)) == {"chunk inserted": 1}
    back = take(store, chunk(), changed, chunk(3), **given, allow_erased=True)
    assert fates(back) == {
        "chunk inserted": 2, "chunk unchanged": 1, "edge inserted": 1, "entity inserted": 1,
        "chunk_entity inserted": 1,
    }  # fmt: skip
    assert fates(take(store, chunk(), changed)) == {"chunk unchanged": 2}


def test_embeddings(store: og.GrainStore) -> None:
    one = embedding([1.0, -0.0])
    take(store, chunk(), chunk(2, embedding=one))
    assert [store.vectors.get(stored(store, urn(n)).address) for n in (1, 2)] == [
        {}, {"small": pytest.approx([1.0, 0.0])},
    ]  # fmt: skip
    before = holdings(store)
    assert fates(take(store, chunk(2))) == {"chunk unchanged": 1}
    assert fates(take(store, chunk(2, embedding=one))) == {"chunk unchanged": 1}
    other = take(store, chunk(2, embedding=embedding([0.0, 1.0])))
    assert reasons(other) == [(urn(2), "field_conflict", ("embedding",))]
    assert holdings(store) == before
    given: dict[str, Any] = {"embedding_model": "large", "embedding_dim": 1}
    large = made(chunk(embedding=embedding([7])), chunk(2, embedding=embedding([7])), **given)
    assert fates(import_bundle(store, large)) == {"chunk unchanged": 2}
    assert sorted(store.vectors.get(stored(store, urn(2)).address)) == ["large", "small"]
    update = chunk(2, "coffee", created_at=NEWER, embedding=one)
    assert fates(take(store, update)) == {"chunk updated": 1}
    assert sorted(store.vectors.get(stored(store, urn(2)).address)) == ["small"]


@pytest.mark.parametrize(
    ("values", "rule"),
    [([0.0, 0.0], "zero_embedding"), ([1.0] * 9_000, "unsupported_model")],
    ids=["no direction", "too many values"],
)
def test_embeddings_that_are_not_kept(
    store: og.GrainStore, values: list[float], rule: str
) -> None:
    take(store, chunk(embedding=embedding([1.0, 2.0])))
    given = chunk(2, embedding=embedding(values)), chunk(3, embedding=embedding(values))
    whole = made(*given, embedding_dim=len(values))
    for fate in ("inserted", "unchanged"):
        summary = import_bundle(store, whole)
        assert fates(summary) == {f"chunk {fate}": 2}
        assert [one.rule for one in summary.warnings] == [rule]
        assert summary.to_dict()["warnings"][0]["pointer"] == "/embedding_model"
    assert store.vectors.get(stored(store, urn(2)).address) == {}


def test_a_bad_bundle_stores_nothing(store: og.GrainStore) -> None:
    from support.aimem_imports import lines

    whole = lines(made(chunk(), chunk(2), edges=[edge()]))
    cut = whole.getvalue()[:-300]
    whole.truncate(0)
    whole.write(cut[: cut.rindex(b"\n") + 1])
    whole.seek(0)
    with pytest.raises(DocumentError) as refused:
        import_bundle(store, whole)
    assert refused.value.rule == "checksum_mismatch"
    assert (len(store), list(store.audit.entries())) == (0, [])


def test_the_audit_trail_has_one_entry_without_content(store: og.GrainStore) -> None:
    take(store, chunk(), chunk(2), edges=[edge()], actor="ada", signature="verified")
    take(store, chunk(content="coffee"), actor="ada")
    entries = [entry for entry in store.audit.entries() if entry.operation == "import"]
    assert [entry.details for entry in entries] == [
        {"chunks_inserted": 2, "edges_inserted": 1, "signature": "verified"},
        {"chunks_conflict": 1},
    ]
    assert {entry.actor for entry in store.audit.entries()} == {"ada"}
    assert store.audit.verify().ok


def test_a_dry_run_changes_nothing(store: og.GrainStore) -> None:
    take(store, chunk())
    before, trail = holdings(store), len(list(store.audit.entries()))
    summary = take(store, chunk(content="coffee", created_at=NEWER), chunk(2), dry_run=True)
    assert fates(summary) == {"chunk updated": 1, "chunk inserted": 1}
    assert (holdings(store), len(list(store.audit.entries()))) == (before, trail)


def test_deciding_needs_nothing_but_the_two() -> None:
    edge_of_ints = edge(weight=1) | {"x": {"a": [1, None]}}
    same = edge(weight=1.0, created_at=NEWER) | {"x": {"a": [1.0, None]}}
    assert decide("edge", edge_of_ints, same).fate == "unchanged"
    assert decide("edge", edge(weight=0), edge(weight=-0.0)).fate == "unchanged"
    assert decide("edge", edge() | {"x": 1}, edge() | {"x": True}).fields == ("x",)
    assert decide("edge", edge() | {"x": None}, edge()).fields == ("x",)
    assert decide("chunk", None, chunk()).fate == "inserted"
    assert TIME > OLDER
