# SPDX-License-Identifier: Apache-2.0
"""MIF documents into a store: twice, in batches, killed half-way, with bad records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import KeyMissingError, NotFoundError, RangeError, SchemaError, StoreError
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.storage import erasure_queue
from omsgrain.store import import_batch
from omsgrain.store.context import context_of
from support.aimem_imports import holdings
from support.child_process import ended
from support.mif_imports import MAKERS, NOW, USER, Maker, contents, current, fates, opened
from support.paths import TESTS

DAY = 86_400_000


makers = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)


def many(maker: Maker, count: int) -> list[dict[str, Any]]:
    return [maker.memory(n, f"content {n}") for n in range(count)]


@makers
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batches(store: og.GrainStore, maker: Maker, size: int) -> None:
    memories = [*many(maker, 7), maker.memory(20, "content 3")]
    todos = [maker.todo(n, "the same") for n in range(3)]
    report = maker.take(store, *memories, todos=todos, batch_size=size)
    assert fates(report) == ["imported"] * 7 + ["duplicate"] + ["imported"] * 3
    assert contents(store) == sorted(f"content {n}" for n in range(7))
    before = holdings(store)
    again = maker.take(store, *memories, todos=todos, batch_size=size)
    assert fates(again) == ["unchanged"] * 7 + ["duplicate"] + ["unchanged"] * 3
    assert holdings(store) == before
    assert store.maintenance.check().ok
    assert store.audit.verify().ok


@makers
def test_the_report_names_what_the_formats_name(store: og.GrainStore, maker: Maker) -> None:
    report = maker.take(store, *many(maker, 2), todos=[maker.todo(9, "buy tea")])
    told = report.to_dict()
    assert told["memories_imported"] == 2
    assert told["todos_imported"] == 1
    assert (told["entities_imported"], told["relationships_imported"]) == (0, 0)
    assert (told["duplicates_skipped"], told["errors"]) == (0, [])
    assert [one.pointer for one in report.records] == ["/memories/0", "/memories/1", "/todos/0"]
    told = maker.take(store, *many(maker, 2)).to_dict()
    assert (told["memories_imported"], told["duplicates_skipped"]) == (0, 2)


@makers
def test_one_bad_record_of_many(store: og.GrainStore, maker: Maker) -> None:
    memories = many(maker, 30)
    del memories[17]["content"]
    report = maker.take(store, *memories)
    assert report.count("imported") == 29
    (bad,) = report.errors
    assert (bad.pointer, bad.fate, bad.reason) == ("/memories/17", "refused", "invalid")
    assert bad.code == report.problems[0].rule
    assert [one.pointer for one in report.records] == [f"/memories/{n}" for n in range(30)]
    (told,) = report.to_dict()["errors"]
    assert told["pointer"].startswith("/memories/17")
    assert "content 16" not in json.dumps(report.to_dict())
    assert report.warnings[-1].rule == "document_kept_in_part"


@makers
def test_every_bad_record_is_reported(store: og.GrainStore, maker: Maker) -> None:
    memories = many(maker, 1_204)
    memories[0]["tags"] = [1] * 1_500
    for memory in memories[1:1_203]:
        del memory["content"]
    report = maker.take(store, *memories)
    assert fates(report) == ["refused"] * 1_203 + ["imported"]
    assert [one.pointer for one in report.records] == [f"/memories/{n}" for n in range(1_204)]
    errors = report.to_dict()["errors"]
    assert [one["pointer"] for one in errors[:2]] == ["/memories/0/tags/0", "/memories/1/content"]


def test_every_bad_line_is_reported(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    header = {"type": "header", **maker.document()}
    lines = [json.dumps(header), "rubbish", json.dumps({"type": "what"}), '{"type": "footer"}']
    report = import_document(store, "\n".join(lines).encode(), user_id=USER)
    told = [(one["rule"], one["line"]) for one in report.to_dict()["errors"]]
    assert told == [("not_json", 2), ("unknown_line", 3)]


@makers
def test_a_document_of_bad_records_alone(
    monkeypatch: pytest.MonkeyPatch, store: og.GrainStore, maker: Maker
) -> None:
    monkeypatch.setattr("omsgrain.formats.schema.MOST", 5)
    monkeypatch.setattr("omsgrain.formats.mif.FIRSTS", 9)
    memories: list[dict[str, Any]] = [{} for _ in range(7)]
    with pytest.raises(DocumentError) as error:
        maker.take(store, *memories)
    assert error.value.problems[0].rule == "too_many_bad"
    assert maker.take(store, *memories[1:]).count("refused") == 6


@makers
def test_policy_refusals_are_reported(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"))
    store.holds.add(current(store, maker.id(1)).address, authority="court", reason_code="case")
    report = maker.take(
        store, maker.memory(1, "coffee"), maker.memory(2, "cream"), maker.memory(3, "sugar")
    )
    assert fates(report) == ["refused", "updated", "imported"]
    assert (report.records[0].reason, report.records[0].code is None) == ("refused", False)
    assert contents(store) == ["cream", "sugar", "tea"]


@makers
def test_times_and_ids_are_kept(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea", created_at="2020-01-02T03:04:05.678+02:00"))
    grain = current(store, maker.id(1))
    assert grain["created_at"] == 1_577_927_045_678
    assert maker.load(maker.document()).format == maker.format


def test_reads_are_counted_on(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    told = {"access_count": 7, "accessed_at": "2026-03-05T00:00:00Z"}
    maker.take(store, maker.memory(1, "tea", **told), maker.memory(2, "milk"))
    state = store.status(current(store, maker.id(1)).address)
    assert (state.access_count, state.last_accessed_at) == (7, 1_772_668_800_000)
    assert store.status(current(store, maker.id(2)).address).access_count == 0
    two = MAKERS[0]
    about = {two.id(5): {"access_count": 3, "last_accessed": "2026-03-05T00:00:00Z"}}
    two.take(
        store,
        two.memory(5, "water"),
        vendor_extensions={"shodh-memory": {"memory_metadata": about}},
    )
    assert store.status(current(store, two.id(5)).address).access_count == 3


@makers
def test_embeddings_are_searched_by_their_model(store: og.GrainStore, maker: Maker) -> None:
    name = "embeddings" if maker.format == "mif2" else "embedding"
    vectors = {1: [1.0, 0.5], 2: [0.0, 1.0]}
    memories = [
        maker.memory(n, f"text {n}", **{name: {"model": "m", "dimensions": 2, "vector": vector}})
        for n, vector in vectors.items()
    ]
    wrong = {"model": "m", "dimensions": 9, "vector": [1.0, 1.0]}
    maker.take(store, *memories, maker.memory(3, "text 3", **{name: wrong}))
    assert list(store.vectors.get(current(store, maker.id(1)).address)["m"]) == [1.0, 0.5]
    assert not store.vectors.get(current(store, maker.id(3)).address)


@makers
def test_erased_grains_stay_erased(store: og.GrainStore, maker: Maker) -> None:
    """Under the same id, and with the same text under another one."""
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"), keep_document=False)
    store.privacy.erase([USER], reason_code="asked", scrub="queued", ciphertext=True)
    report = maker.take(
        store, maker.memory(1, "another tea"), maker.memory(7, "milk"), maker.memory(8, "new")
    )
    assert fates(report) == ["erased", "erased", "imported"]
    assert contents(store) == ["new"]
    back = maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"), allow_erased=True)
    assert fates(back) == ["imported", "imported"]
    again = maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"))
    assert fates(again) == ["unchanged", "unchanged"]


def test_grains_of_others_and_natives(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    store.put({"type": "event", "content": "tea", "user_id": "grace", "created_at": 1})
    assert fates(maker.take(store, maker.memory(1, "tea"))) == ["imported"]
    belief = {"type": "belief", "subject": "ada", "relation": "mg:knows", "object": "milk"}
    store.put({**belief, "confidence": 1.0, "user_id": USER, "created_at": 1})
    report = maker.take(store, maker.memory(2, "milk"), maker.memory(3, "tea"))
    assert fates(report) == ["duplicate", "duplicate"]


@makers
@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite", "rename"])
def test_records_without_a_text_go_by_their_ids(
    store: og.GrainStore, maker: Maker, strategy: str
) -> None:
    first, second = maker.todo(1, "buy tea"), maker.todo(2, "buy tea")
    report = maker.take(store, todos=[first, second])
    assert fates(report) == ["imported", "imported"]
    done = maker.todo(1, "buy tea", status="done")
    wanted = "renamed" if strategy == "rename" else "updated"
    assert fates(maker.take(store, todos=[done], merge_strategy=strategy)) == [wanted]
    before = holdings(store)
    again = maker.take(store, todos=[done], merge_strategy=strategy)
    assert fates(again) == ["unchanged"]
    assert holdings(store) == before


def test_a_document_for_somebody_else(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    read = maker.load(maker.document(maker.memory(1, "tea")))
    import_document(store, read, user_id="grace")
    assert contents(store) == []
    assert contents(store, "grace") == ["tea"]


@pytest.mark.parametrize("size", [0, -1, True])
def test_no_such_batch(store: og.GrainStore, size: Any) -> None:
    with pytest.raises(RangeError):
        MAKERS[0].take(store, batch_size=size)


def test_a_document_without_a_user_is_refused(store: og.GrainStore) -> None:
    read = MAKERS[0].load({"mif_version": "2.0", "memories": []})
    with pytest.raises(SchemaError) as error:
        import_document(store, read)
    assert error.value.field == "/user_id"
    with pytest.raises(SchemaError):
        import_document(store, og.formats.Import("aimem", []), user_id=USER)


def test_without_the_keys_nothing_is_doubled(ring: KeyRing, tmp_path: Path) -> None:
    maker = MAKERS[0]
    with og.open(tmp_path / "m.omsg", keys=ring) as store:
        maker.take(store, maker.memory(1, "tea"))
    with og.open(tmp_path / "m.omsg") as store, pytest.raises(KeyMissingError):
        maker.take(store, maker.memory(1, "tea"))


# -- consent --------------------------------------------------------------------------------------


def test_retention_of_a_consent_binds(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    maker.take(store, maker.memory(1, "mine already"))
    consent = {"retention_days": 30, "timestamp": "2026-06-01T00:00:00Z"}
    start = 1_780_272_000_000
    report = maker.take(
        store, maker.memory(2, "for a month"), maker.memory(1, "mine already"), consent=consent
    )
    assert not any(one.rule == "retention_over" for one in report.warnings)
    with context_of(store).storage.read() as reader:
        entries = list(erasure_queue.due(reader))
    assert {entry.deadline for entry in entries} == {start + 30 * DAY}
    assert store.privacy.run_due(now=start + 29 * DAY).expired == 0
    assert contents(store) == ["for a month", "mine already"]
    done = store.privacy.run_due(now=start + 30 * DAY)
    assert done.complete
    assert done.expired == len(entries)
    assert contents(store) == ["mine already"]
    again = maker.take(store, maker.memory(2, "for a month"))
    assert fates(again) == ["erased"]


def test_an_expired_retention_is_reported(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    consent = {"retention_days": 1, "timestamp": "2020-01-01T00:00:00Z"}
    report = maker.take(store, maker.memory(1, "old"), consent=consent)
    assert any(one.rule == "retention_over" for one in report.warnings)
    assert contents(store) == ["old"]
    # It is still here, and leaves no more.
    assert json.loads(export_document(store, USER, format="mif1")[0].data)["memories"] == []
    with pytest.raises(NotFoundError):
        export_document(store, USER, document="exp_a1b2")[0]
    store.privacy.run_due(now=NOW)
    assert contents(store) == []


def test_expired_grains_are_exported_only_for_access(store: og.GrainStore, tmp_path: Path) -> None:
    maker = MAKERS[1]
    maker.take(store, maker.memory(1, "stays here"), consent={"retention_days": 0})
    maker.take(store, maker.memory(2, "leaves"))
    with context_of(store).storage.read() as reader:
        over = {entry.seq for entry in erasure_queue.due(reader)}
    (found,) = export_bundle(store, USER, tenant_id=str(UUID(int=1)))
    said = [record["content"] for record in found.records["chunk"]]
    assert any(text.endswith("leaves") for text in said)
    assert not any("stays here" in text for text in said)
    file, count = tmp_path / "x.mg", len(store) - len(over)
    for purpose in ("transfer", "move"):
        assert store.export_mg(file, purpose=purpose).grains == count
        assert store.export_mg(file, purpose=purpose, user_id=USER).grains == count
    assert store.export_mg(file, purpose="access").grains == len(store)
    # What somebody holds is evidence, and goes where the memory goes.
    address = current(store, maker.id(1)).address
    store.holds.add(address, authority="court", reason_code="case")
    assert store.export_mg(file, purpose="move").grains == count + 1
    assert store.export_mg(file, purpose="transfer").grains == count


# -- killed ---------------------------------------------------------------------------------------

KILLED = """
import os, sys
import omsgrain as og
from omsgrain.store import import_batch
from support.mif_imports import Maker
path, format, batches, file = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
record, done = import_batch.record, 0
def counted(*args, **options):
    global done
    if done == batches:
        os.kill(os.getpid(), 9)
    done += 1
    return record(*args, **options)
import_batch.record = counted
import json
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange.mif_import import import_document
with og.open(path) as store:
    import_document(store, Maker(format).load(json.load(open(file))), batch_size=5)
"""


@makers
def test_killed_between_batches_and_run_again(tmp_path: Path, maker: Maker) -> None:
    document = maker.document(*many(maker, 12), maker.memory(30, "content 1"))
    path, file = tmp_path / "m.omsg", tmp_path / "d.json"
    file.write_text(json.dumps(document))
    for batches in (1, 1):
        done = ended(KILLED, path, maker.format, batches, file, cwd=TESTS)
        assert done.returncode == -9
    with og.open(path) as store, opened() as once:
        report = import_document(store, maker.load(document))
        assert fates(report) == ["unchanged"] * 10 + ["imported"] * 2 + ["duplicate"]
        import_document(once, maker.load(document))
        assert holdings(store) == holdings(once)
        assert store.maintenance.check().ok
        assert store.audit.verify().ok


def test_a_failure_leaves_whole_batches(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, calls, record = MAKERS[0], 0, import_batch.record

    def failing(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StoreError("the disk is full")
        return record(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(import_batch, "record", failing)
        with pytest.raises(StoreError):
            maker.take(store, *many(maker, 10), batch_size=3)
    assert len(contents(store)) == 6
    report = maker.take(store, *many(maker, 10), batch_size=3)
    assert fates(report) == ["unchanged"] * 6 + ["imported"] * 4


# -- a model --------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(["tea", "coffee", "milk", ""])
_MEMORIES = st.lists(st.tuples(st.integers(1, 3), _TEXTS), max_size=4)
_IMPORTS = st.lists(st.tuples(_MEMORIES, st.sampled_from(["skip_duplicates", "overwrite"])),
                    min_size=1, max_size=4)  # fmt: skip


@given(imports=_IMPORTS)
def test_imports_against_a_model(imports: list[tuple[list[tuple[int, str]], str]]) -> None:
    """Current records after any imports, against a dict of ids and texts."""
    maker = MAKERS[0]
    with opened() as store:
        model: dict[int, str] = {}
        seen: set[tuple[int, str]] = set()  # versions that are in the history
        for memories, strategy in imports:
            given_: dict[int, str] = {}
            for number, content in memories:  # ids and texts stand once in a document
                if content not in given_.values():
                    given_.setdefault(number, content)
            maker.take(
                store,
                *(maker.memory(*one) for one in given_.items()),
                merge_strategy=strategy,
                batch_size=2,
            )
            for number in given_:
                apply(model, seen, given_, number, strategy)
            assert contents(store) == sorted(model.values())
        assert store.maintenance.check().ok


def apply(
    model: dict[int, str],
    seen: set[tuple[int, str]],
    document: dict[int, str],
    number: int,
    strategy: str,
) -> None:
    """One memory into the model, by the table of decisions."""
    content = document[number]
    # What the document itself gives another text holds this one no longer.
    others = (n for n, text in model.items() if text == content and n not in document)
    holder = next(others, None)
    if model.get(number) == content or (number, content) in seen:
        return
    if number in model and (holder is None or strategy == "overwrite"):
        seen |= {(number, model[number]), (number, content)}
        model[number] = content
    elif holder is None:
        seen.add((number, content))
        model[number] = content
