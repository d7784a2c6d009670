# SPDX-License-Identifier: Apache-2.0
"""Grains as Arrow batches: typed, whole, chosen by the index; sealed ones show nothing unasked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pytest

import omsgrain as og
from omsgrain import _core, registry
from omsgrain.errors import OmsError, SchemaError, StoreError, UnsupportedError
from omsgrain.json_values import revive
from omsgrain.storage.base import PAGE_BYTES
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore, arrow
from omsgrain.store.arrow import EXTRA, STORED, chosen, columns
from omsgrain.store.context import Settings, context_of
from support.invented_people import belief, opened
from support.markdown_page import table
from support.paths import ROOT
from support.random_grains import random_grain


@pytest.fixture
def store() -> GrainStore:
    return GrainStore(MemoryStorage())


def rows(reader: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.read_all().to_pylist()
    return found


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """The fields that a row shows, as a grain has them."""
    fields: dict[str, Any] = {}
    for column in columns():
        value = row[column.name]
        if column.field is None or value is None or column.name == EXTRA:
            continue
        if column.kind == "json":
            value = revive(json.loads(value))
        fields[column.field] = value
    fields.update(revive(json.loads(row[EXTRA] or "{}")))
    return fields


def test_every_field_is_in_its_column_or_in_extra(store: GrainStore) -> None:
    """Nothing is lost, and nothing is made up."""
    rng = Random(10)
    store.put_many([random_grain(rng) for _ in range(400)], errors="collect")
    assert len(store) > 300
    found = store.to_arrow().read_all()
    times = [c.name for c in columns() if c.kind == "time"]
    for name in times:  # Python's times end in the year 9999, and those of grains do not
        place = found.schema.get_field_index(name)
        found = found.set_column(place, name, found[name].cast(pa.int64()))
    for grain, row in zip(store, found.to_pylist(), strict=True):
        assert (row["address"], row["blob"]) == (grain.address, grain.blob)
        assert row["type"] == grain.type
        expected = dict(grain.fields) | {"type": grain.type}
        assert shown(row) == expected


def test_columns_are_those_of_the_registry() -> None:
    form = GrainStore(MemoryStorage()).to_arrow().schema
    assert form.names == [column.name for column in columns()]
    fields = [*registry.FIELDS, *(f for profile in registry.PROFILES for f in profile.fields)]
    assert {field.name for field in fields} <= set(form.names)
    for name, kind in {
        "subject": pa.string(),
        "confidence": pa.float64(),
        "created_at": pa.timestamp("ms", tz="UTC"),
        "structural_tags": pa.list_(pa.string()),
        "requires_human_review": pa.bool_(),
        "priority": pa.int64(),
        "context": pa.string(),
        "object": pa.string(),
        "object_json": pa.string(),
        "rob:battery_pct": pa.float64(),
        "superseded_by": pa.string(),
        "blob": pa.binary(),
    }.items():
        assert form.field(name).type == kind, name


def test_values_that_do_not_fit_are_in_extra(store: GrainStore) -> None:
    """Undefined types may hold anything under any name."""
    fields = {
        "type": "x_probe", "confidence": "high", "created_at": 5, "structural_tags": ["a", 1],
        "priority": 2**63, "x_more": {"depth": b"\x00"}, "importance": 1, "subject": 7,
    }  # fmt: skip
    store.put(og.encode(fields, type_byte=200))
    (row,) = rows(store.to_arrow())
    assert (row["type"], row["importance"]) == ("x_probe", 1.0)
    assert json.loads(row[EXTRA]) == {
        "confidence": "high", "structural_tags": ["a", 1], "priority": 2**63, "subject": 7,
        "x_more": {"depth": {"$bytes": "AA=="}},
    }  # fmt: skip
    assert rows(store.to_arrow(columns=[EXTRA])) == [{EXTRA: row[EXTRA]}]


def test_an_own_field_with_the_name_of_the_column_extra(store: GrainStore) -> None:
    store.put({"type": "event", "content": "a", "extra": 5, "x_n": 1, "created_at": 1})
    (row,) = rows(store.to_arrow())
    assert json.loads(row[EXTRA]) == {"extra": 5, "x_n": 1}


def test_the_index_chooses(store: GrainStore) -> None:
    for n in range(30):
        store.put(belief(str(n), subject=f"s{n % 3}", created_at=n))
    found = store.to_arrow(columns=["object", "subject"], subject="s1").read_all()
    assert found.column_names == ["object", "subject"]
    assert found["object"].to_pylist() == [str(n) for n in range(1, 30, 3)]
    assert store.to_arrow(subject="nobody").read_all().num_rows == 0


def test_states_of_grains(store: GrainStore) -> None:
    old = store.put(belief("old"))
    new = store.supersede(old, belief("new", created_at=2_000_000_000_000))
    gone = store.put(belief("wrong"))
    store.retract(gone)
    kept = store.put(belief("kept"))
    store.privacy.restrict(kept, reason_code="disputed")
    found = {row["address"]: row for row in rows(store.to_arrow())}
    assert set(found) == {old, new, gone}  # to make a table of what is restricted is to use it
    assert [found[a]["current"] for a in (old, new, gone)] == [False, True, False]
    assert found[old]["superseded_by"] == new
    assert found[gone]["verification_status"] == "retracted"
    assert [row["address"] for row in rows(store.to_arrow(current=True))] == [new]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"columns": ["subjekt"]}, "ERR_SCHEMA"),
        ({"columns": []}, "ERR_SCHEMA"),
        ({"columns": "subject"}, "ERR_SCHEMA"),
        ({"columns": ["blob", "blob"]}, "ERR_SCHEMA"),
        ({"type": "beleif"}, "ERR_SCHEMA"),
        ({"order": "any"}, "ERR_SCHEMA"),
    ],
)
def test_invalid_queries(store: GrainStore, given: dict[str, Any], code: str) -> None:
    """It is refused to who asks, not to who reads."""
    with pytest.raises(OmsError) as caught:
        store.to_arrow(**given)
    assert caught.value.code == code


def test_batches_are_bounded(store: GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_many([belief(str(n)) for n in range(25)])
    monkeypatch.setattr(arrow, "ROWS", 10)
    assert [batch.num_rows for batch in store.to_arrow()] == [10, 10, 5]


def test_batches_of_long_grains_have_fewer_rows(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_many([belief(f"{n}" + "long " * 60_000) for n in range(40)])
    monkeypatch.setattr(arrow, "BYTES", 1)
    found = list(store.to_arrow(columns=["blob"]))
    assert sum(batch.num_rows for batch in found) == 40
    assert 1 < len(found)
    assert max(batch.nbytes for batch in found) < PAGE_BYTES + (1 << 20)


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_the_core_makes_the_columns_that_decoded_grains_make(
    store: GrainStore, encoding: Literal["msgpack", "cbor"]
) -> None:
    """A column with ``extra`` beside it is made from decoded grains; alone, by the core."""
    rng, wanted = Random(11), [("type", "text"), ("created_at", "time")]
    blobs: list[bytes] = []
    for _ in range(600):
        try:
            blob = og.encode(random_grain(rng), encoding=encoding)
        except OmsError:
            continue
        if _core.field_columns([blob], wanted) is not None:
            blobs.append(blob)
    store.put_many(blobs, errors="collect")
    assert len(store) > 200
    quick = [
        c.name for c in columns() if c.kind in ("text", "float", "int", "time", "bool", "texts")
    ]
    found, decoded = store.to_arrow(columns=quick).read_all(), store.to_arrow().read_all()
    for name in quick:
        assert found[name].equals(decoded[name]), name
    found.validate(full=True)
    assert sum(found[name].null_count < found.num_rows for name in quick) > 40


def test_damaged_and_deleted_grains_do_not_mislead_the_core(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        addresses = [store.put(belief(str(n), created_at=n)) for n in range(30)]
        for n in (0, 7, 29):
            store.delete(addresses[n])
        found = store.to_arrow(columns=["address", "object", "seq", "current"]).read_all()
    assert found["object"].to_pylist() == [str(n) for n in range(30) if n not in (0, 7, 29)]
    assert found["seq"].to_pylist() == [n + 1 for n in range(30) if n not in (0, 7, 29)]
    assert found["address"].to_pylist() == [
        a for n, a in enumerate(addresses) if n not in (0, 7, 29)
    ]
    assert found["current"].to_pylist() == [True] * 27


def test_errors_while_reading_are_raised_there(tmp_path: Path) -> None:
    store = og.open(tmp_path / "m.omsg")
    store.put_many([belief(str(n)) for n in range(5)])
    reader = store.to_arrow()
    store.close()
    with pytest.raises(StoreError):
        reader.read_all()


@pytest.mark.parametrize("kind", ["sealed memory", "sealed lmdb"])
def test_sealed_grains_show_what_they_say_only_if_that_is_asked(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path, Settings()) as store:
        address = store.put(belief("secret", user_id="ann-17"))
        plain = store.put(belief("open"))
        for unsealed, objects in ((False, ["open"]), (True, ["secret", "open"])):
            found = {row["address"]: row for row in rows(store.to_arrow(unsealed=unsealed))}
            assert set(found) == {address, plain}
            assert found[address]["sealed"] and not found[plain]["sealed"]
            assert [r["object"] for r in found.values() if r["object"]] == objects
        hidden = {row["address"]: row for row in rows(store.to_arrow())}[address]
        fields = {column.name for column in columns() if column.field is not None}
        assert not any(hidden[name] for name in fields)
        assert b"secret" not in hidden["blob"]
        (row,) = rows(store.to_arrow(unsealed=True, user_id="ann-17", current=True))
        assert row["object"] == "secret"
        below = GrainStore(context_of(store).inner)
        assert [r["object"] for r in rows(below.to_arrow(unsealed=True))] == [None, "open"]


def test_columns_by_name() -> None:
    assert [column.name for column in chosen(["seq", "blob"])] == ["seq", "blob"]
    assert "access_count" not in {column.name for column in chosen(None, counts=False)}
    with pytest.raises(SchemaError):
        chosen(["access"])


def test_the_page_lists_the_columns_of_the_store() -> None:
    page = ROOT / "docs/analytics.md"
    assert table(page, "column", "type", "what") == [[c.name, c.kind, c.doc] for c in STORED]
    rows = table(page, "kind of the field", "column", "Arrow type")
    told = {kind for _, kinds, _ in rows for kind in kinds.split(" and ")}
    assert told == {c.kind for c in columns() if c.field is not None}


def test_without_the_library(store: GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError) as caught:
        store.to_arrow()
    assert "pyarrow" in str(caught.value)


def test_frames_have_the_same_rows(store: GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_many([belief(str(n)) for n in range(5)])
    frame = store.to_polars(columns=["object", "confidence"])
    assert frame.rows() == [
        (str(n), store.query().results[0].grain["confidence"]) for n in range(5)
    ]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnsupportedError):
        store.to_pandas(columns=["object"])
