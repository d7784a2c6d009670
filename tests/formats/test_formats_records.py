# SPDX-License-Identifier: Apache-2.0
"""Records of any format as grains: each comes back to the last sign, whatever it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import FormatError
from omsgrain.formats import source as raw
from omsgrain.formats.records import (
    BuiltGrain,
    Record,
    RecordShape,
    RecordTable,
    is_duplicate,
    newest,
)
from omsgrain.formats.source import Source, same
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import context_of
from omsgrain.store.source_index import open_sources

OWNER = "user-7"

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, "e\u0301", "\ufeffa", ""]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
KEYS = st.sampled_from(
    ["id", "content", "tags", "about", "weight", "embedding", "e\u0301", "r", ""]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
VECTORS = st.lists(
    st.one_of(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(-1, 1)),
    max_size=4,
)


@st.composite
def notes(draw: st.DrawFn) -> Record:
    """Records of any members, in any order; only the id and the content are what they must be."""
    note = draw(st.dictionaries(KEYS, TREES, max_size=6))
    note["id"] = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
    note["content"] = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
    if draw(st.booleans()):
        note["embedding"] = {"model": "m", "vector": draw(VECTORS), "x": draw(SCALARS)}
    names = draw(st.permutations(list(note)))
    return {name: note[name] for name in names}


def to_fields(record: Record, owner: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": "event", "created_at": 7, "namespace": "notes"}
    fields["content"] = record["content"]
    if isinstance(record.get("about"), dict):
        fields["x_about"] = record["about"]  # a grain sorts its keys, and drops its nulls
    if isinstance(record.get("weight"), int | float):
        fields["x_weight"] = record["weight"]
    if tags := record.get("tags"):
        fields["structural_tags"] = tags
    return fields if owner is None else fields | {"user_id": owner}


def from_fields(fields: Mapping[str, Any], name: str) -> Record:
    record: Record = {"id": name, "content": fields["content"]}
    for field, key in (("x_about", "about"), ("x_weight", "weight"), ("structural_tags", "tags")):
        if field in fields:
            record[key] = fields[field]
    return record


NOTE = RecordShape(
    to_fields,
    from_fields,
    lambda record: str(record["id"]),
    lambda record: record["content"] or None,
    embedding="embedding",
)
ORDERED = RecordTable("notes", {"note": NOTE}, ordered=True)
SORTED = RecordTable("notes", {"note": NOTE}, ordered=False)


@pytest.fixture(params=["memory", "disk", "sealed"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, ring: KeyRing
) -> Iterator[og.GrainStore]:
    if request.param == "memory":
        with og.GrainStore(MemoryStorage()) as store:
            yield store
        return
    keys = ring if request.param == "sealed" else None
    with og.open(tmp_path / "notes.omsg", keys=keys, durability="relaxed") as store:
        yield store


def back(built: BuiltGrain, table: RecordTable = ORDERED) -> Record:
    found = table.from_grain(built.grain, {one.address: one for one in built.parts}.__getitem__)
    assert found is not None
    assert found[0] == "note"
    return found[1]


def source_of(built: BuiltGrain) -> Source:
    source = Source.of(built.grain)
    assert source is not None
    return source


@given(st.lists(notes(), max_size=4), st.sampled_from([OWNER, None]))
def test_records_come_back_to_the_last_sign(records: list[Record], owner: str | None) -> None:
    many = ORDERED.to_grains((("note", record) for record in records), owner=owner)
    for record, built in zip(records, many, strict=True):
        assert same(back(built), record)
        assert built.grain.get("user_id") == owner
        # One at a time or many together, what is there is the same.
        alone = ORDERED.to_grain("note", record, owner=owner)
        assert same(back(alone), record)
        read = og.decode(built.grain.blob)
        assert (read.address, read["x_src"]) == (built.grain.address, built.grain["x_src"])


@given(notes())
def test_where_order_says_nothing_it_is_not_kept(record: Record) -> None:
    built = SORTED.to_grain("note", record, owner=OWNER)
    found = back(built, SORTED)
    assert SORTED.is_same(("note", found), record)
    assert json.dumps(found, sort_keys=True) == json.dumps(record, sort_keys=True)


@given(notes())
def test_the_hash_is_of_the_text_as_it_came(record: Record) -> None:
    built = ORDERED.to_grain("note", record, owner=OWNER)
    text = record["content"]
    hashed = sha256(text.encode()).hexdigest() if text else None
    assert source_of(built).hash == hashed


def test_fields_are_not_repeated() -> None:
    record = {"id": "n1", "content": "tea", "weight": 1.5, "tags": ["a"]}
    source = source_of(ORDERED.to_grain("note", record, owner=OWNER))
    assert (source.residual, source.parts, source.packed) == (None, (), None)
    turned = {name: record[name] for name in reversed(record)}
    source = source_of(ORDERED.to_grain("note", turned, owner=OWNER))
    assert source.residual == {"o": list(turned)}


def test_the_order_of_the_format_is_not_said() -> None:
    table = RecordTable(
        "notes", {"note": NOTE._replace(order=("id", "by", "content", "tags"))}, ordered=True
    )
    record = {
        "id": "n1",
        "by": None,
        "content": "tea",
        "tags": ["a"],
        "z": 1,
        "y": {"b": 1, "a": 2},
    }
    built = table.to_grain("note", record, owner=OWNER)
    assert source_of(built).residual == {"+": {"by": None, "z": 1, "y": {"b": 1, "a": 2}}}
    assert same(back(built, table), record)
    turned = {name: record[name] for name in reversed(record)}
    assert same(back(table.to_grain("note", turned, owner=OWNER), table), turned)


def test_an_embedding_keeps_its_place() -> None:
    embedding = {"model": "m", "vector": [0.1, -0.25, 3.4028235e38], "dimensions": 3}
    record = {"embedding": embedding, "id": "n1", "content": "tea"}
    built = ORDERED.to_grain("note", record, owner=OWNER)
    assert (source_of(built).packed or "")[0] == "f"
    assert "0.25" not in built.grain["x_src"].decode()
    assert same(back(built), record)
    assert record["embedding"] == embedding


@pytest.mark.parametrize("size", [700_000, 2_000_000])
def test_a_large_record_is_stored_in_parts(size: int) -> None:
    # The second is more than a grain's content can be.
    record: dict[str, Any] = {
        "id": "n1",
        "content": "a" * size,
        "more": ["\u00e9" * 100_000],
        "tags": ["b"],
    }
    (built,) = ORDERED.to_grains([("note", record)], owner=OWNER)
    assert built.parts
    assert source_of(built).id == "n1"
    assert source_of(built).hash == sha256(record["content"].encode()).hexdigest()
    assert {one.get("user_id") for one in (built.grain, *built.parts)} == {OWNER}
    assert same(back(built), record)


def test_a_tag_that_a_grain_refuses_stays_in_the_side_channel() -> None:
    record = {"id": "n1", "content": "tea", "tags": ["", "phi:x"]}
    built = ORDERED.to_grain("note", record, owner=OWNER)
    assert same(back(built), record)
    assert built.grain["content"] == "tea"


@pytest.mark.parametrize("size", [5, 700_000])
def test_a_duplicate_is_kept_and_says_nothing(size: int) -> None:
    record = {"content": "a" * size, "id": "n2", "embedding": {"vector": [0.1]}, "x": None}
    built = ORDERED.to_duplicate("note", record, of="n1", owner=OWNER)
    assert same(back(built), record)
    assert is_duplicate(built.grain)
    assert built.grain["context"]["of"] == "n1"
    assert (built.grain["type"], source_of(built).hash) == ("state", None)
    assert not is_duplicate(ORDERED.to_grain("note", record, owner=OWNER).grain)


def no_part(address: str) -> og.Grain:
    raise KeyError(address)


def test_grains_of_others_are_none() -> None:
    record = {"id": "n1", "content": "tea"}
    grain = (
        RecordTable("other", {"note": NOTE}, ordered=True)
        .to_grain("note", record, owner=None)
        .grain
    )
    assert ORDERED.from_grain(grain, no_part) is None
    assert ORDERED.from_grain(og.Event(content="tea", created_at=1), no_part) is None


def test_a_text_is_found_by_its_hash(store: og.GrainStore) -> None:
    records = [{"id": f"n{i}", "content": f"cafe\u0301 {i % 2}"} for i in range(4)]
    built = ORDERED.to_grains((("note", record) for record in records), owner=OWNER)
    store.put_many([one.grain for one in built])
    name = "sha256:" + sha256(b"cafe\xcc\x81 1").hexdigest()
    hits = [hit.grain["x_src"] for hit in store.query(origin=name, user_id=OWNER).results]
    assert set(hits) == {built[1].grain["x_src"], built[3].grain["x_src"]}
    with open_sources(context_of(store), OWNER) as snapshot:
        found = snapshot.find([name, "n0"])
    assert {one.grain["x_src"] for one in found[name]} == set(hits)
    assert [one.grain["x_src"] for one in found["n0"]] == [built[0].grain["x_src"]]
    assert store.maintenance.check().ok


def test_parts_that_are_gone() -> None:
    record = {"id": "n1", "content": "a", "more": "b" * 700_000}
    built = ORDERED.to_grain("note", record, owner=OWNER)
    other = raw.split(b"{}", created_at=7, user_id=None)[0]
    grain = og.Event(content="no part", created_at=1)
    assert back(BuiltGrain(built.grain, built.parts)) == record
    assert ORDERED.from_grain(built.grain, lambda _: other) == ("note", {})
    with pytest.raises(FormatError):
        ORDERED.from_grain(built.grain, lambda _: grain)


def test_the_newest_of_grains() -> None:
    grains = [og.Event(content="tea", created_at=ms) for ms in (5_500, 999, 5_999, 5_000)]
    assert newest(grains) == 5_999
    assert newest([]) == 0
