# SPDX-License-Identifier: Apache-2.0
"""No value of a row is lost or changed unseen: digits, zones, spellings, and types of Parquet."""

from __future__ import annotations

import io
import json
import os
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omsgrain as og
from omsgrain.errors import OmsError, UnsupportedError
from omsgrain.interchange.rows import row_chunks
from omsgrain.interchange.suggestion import SuggestedMapping, suggest

NS = 1_768_471_200_123_456_789
MS = NS // 1_000_000


def suggested(text: str, name: str = "x.csv") -> SuggestedMapping:
    return suggest(io.BytesIO(text.encode()), name=name)


def number(type: str) -> og.Mapping:
    return og.Mapping("event", {"object.n": "n"}, types={"object.n": type})


@pytest.mark.parametrize(
    "value", [2**53 + 1, 1 - 2**63, 10**400, Decimal("0.12345678901234567890")], ids=range(4)
)
def test_a_number_with_more_digits_than_a_float_is_refused(value: Any) -> None:
    with pytest.raises(OmsError) as caught:
        number("number").apply({"n": value})
    assert (caught.value.code, caught.value.field) == ("ERR_RANGE", "/object/n")


@pytest.mark.parametrize("text", ["9007199254740993", "-9007199254740993", "123456789012345678"])
@pytest.mark.parametrize("type", ["number", "decimal_comma"])
def test_so_is_its_text(text: str, type: str) -> None:
    (made,) = number(type).apply_many([{"n": text}])
    assert isinstance(made, OmsError) and made.code == "ERR_RANGE"
    (kept,) = number("int").apply_many([{"n": text}])
    assert not isinstance(kept, OmsError) and kept["object"] == {"n": int(text)}


@pytest.mark.parametrize("value", [2**53, "9007199254740992", 7, "-7", 2**60, Decimal("0.1"), 0.1])
def test_a_number_that_a_float_has_is_a_float(value: Any) -> None:
    (made,) = number("number").apply_many([{"n": value}])
    assert not isinstance(made, OmsError) and made == number("number").apply({"n": value})
    assert type(made["object"]["n"]) is float and made["object"]["n"] == float(value)


@pytest.mark.parametrize(
    ("values", "member", "type"),
    [
        (["1", "9007199254740993"], "object.n", "int"),
        (["1", "18446744073709551615"], "context.n", "text"),
        (["1", "9" * 5_000], "context.n", "text"),
        (["1", "2.5"], "object.n", "number"),
        (["1.9", "1.10", "1.10.1"], "context.n", "text"),
        (["1e5", "a3f"], "context.n", "text"),
        (["[WARN] low", "ok"], "context.n", "text"),
    ],
)
def test_a_suggestion_keeps_each_cell(values: list[str], member: str, type: str) -> None:
    rows = "".join(f"2026-01-15T10:00:00Z,a,{value},1\n" for value in values)
    mapping = suggested(f"time,sensor,n,v\n{rows}").mapping
    assert f'"{member}" = {{ column = "n", type = "{type}" }}' in mapping.to_toml()
    place, name = member.split(".")
    for value in values:
        made = mapping.apply({"time": "2026-01-15T10:00:00Z", "sensor": "a", "n": value})
        assert str(made[place][name]) == (f"{float(value)}" if type == "number" else value)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-15 10:00:00.123456789", MS),
        ("2026-01-15 10:00:00.123", MS),
        ("2026-01-15 12:00:00.123+02:00", MS),
        ("2026-01-15T10:00:00.123Z", MS),
        ("2026-01-15 10:00", MS - 123),
    ],
)
def test_a_zone_in_a_column_without_zones_counts(text: str, ms: int) -> None:
    mapping = og.Mapping("event", {"created_at": "t"}, units={"created_at": "utc"})
    fields = mapping.apply({"t": text})
    assert fields["created_at"] == ms and mapping.apply_many([{"t": text}]) == [fields]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (["2026-01-15T10:00:00.1234Z", "2026-01-15T10:00:00.1236Z"], "2026-01-15T10:00:00.1236Z"),
        (['"2026-01-15 10:00:00,1234"', '"2026-01-15 10:00:00,1236"'], "2026-01-15 10:00:00,1236"),
        (["1768471200123456", "1768471200123457"], "1768471200123457"),
        (["1768471200.1234", "1768471200.1236"], "1768471200.1236"),
    ],
)
def test_times_finer_than_milliseconds_stay_apart(cells: list[str], text: str) -> None:
    mapping = suggested("time,sensor,v\n" + "".join(f"{cell},a,1\n" for cell in cells)).mapping
    made = [mapping.apply({"time": cell.strip('"'), "sensor": "a", "v": "1"}) for cell in cells]
    assert made[0] != made[1] and made[1]["context"]["time"] == text
    assert len({fields["created_at"] // 10 for fields in made}) == 1


@pytest.mark.parametrize("cell", ["2026-01-15T10:00:00.123Z", "2026-01-15T10:00:00.100000Z"])
def test_times_of_milliseconds_are_stored_once(cell: str) -> None:
    made = suggested(f"time,sensor,v\n{cell},a,1\n")
    assert "context.time" not in made.mapping.map and not made.notes


def test_some_bad_times_do_not_give_all_rows_the_time_of_the_file() -> None:
    rows = [f"2026-01-15T10:00:{n:02},a,{n}" for n in range(30)]
    rows[3:6] = ["yesterday,a,1", "later,a,1", "0,a,1"]
    made = suggest(io.BytesIO("\n".join(["time,sensor,v", *rows]).encode()),
                   name="x.csv", changed="2026-01-15T10:00:00Z")  # fmt: skip
    assert "created_at" in made.mapping.map and "created_at" not in made.mapping.set
    assert len(made.notes) == 1 and "'time': 3 of 30" in made.notes[0]


def test_a_null_object_is_no_column_beside_its_members() -> None:
    rows: list[dict[str, Any]] = [{"n": n, "pos": {"x": n, "at": {"y": n}}} for n in range(3)]
    rows += [{"n": 4, "pos": None}, {"n": 5, "pos": {"x": 5, "at": None}}]
    mapping = suggested("\n".join(map(json.dumps, rows)), "x.jsonl").mapping
    assert set(mapping.columns) == {"n", "pos.x", "pos.at.y"}


def test_types_of_parquet(tmp_path: Path) -> None:
    at = pa.timestamp("ns", tz="Asia/Kolkata")
    inner = pa.struct([("at", at), ("d", pa.duration("us"))])
    columns = {
        "t": pa.array([NS, NS + 1], at),
        "sensor": pa.array(["a", "b"]).dictionary_encode(),
        "n": pa.array([1.5, 2.5]),
        "plain": pa.array([NS, None], pa.timestamp("ns")).dictionary_encode(),
        "clock": pa.array([5, 7], pa.time64("ns")),
        "span": pa.array([5, None], pa.duration("ms")),
        "many": pa.array([[{"at": NS, "d": 5}], None], pa.list_(inner)),
        "map": pa.array([[("k", NS)], []], pa.map_(pa.string(), pa.timestamp("ns"))),
        "pair": pa.array([[NS, NS], [NS, NS]], pa.list_(pa.timestamp("ns"), 2)),
        "large": pa.array([[1], []], pa.large_list(pa.int8())),
        "big": pa.array([2**64 - 1, 1], pa.uint64()),
        "money": pa.array([Decimal("12345678901234567890.25"), Decimal(1)], pa.decimal128(38, 2)),
    }
    pq.write_table(pa.table(columns), file := tmp_path / "x.parquet")
    with file.open("rb") as stream:
        mapping = suggest(stream, name=file.name).mapping
    with og.open(":memory:") as store:
        assert [step.stored for step in mapping.ingest(store, file)] == [2]
        first, second = sorted(store, key=lambda grain: str(grain["subject"]))
    text = "2026-01-15 10:00:00.123456789"
    assert first["created_at"] == second["created_at"] == MS
    assert first["object"] == {"n": 1.5, "span": 5.0} and second["object"] == {"n": 2.5}
    assert first["context"] == {
        "t": f"{text}Z", "plain": text, "clock": "00:00:00.000000005",
        "many": [{"at": f"{text}Z", "d": 5}], "map": [["k", text]], "pair": [text, text],
        "large": [1], "big": "18446744073709551615", "money": "12345678901234567890.25",
    }  # fmt: skip
    assert second["context"]["t"] == "2026-01-15 10:00:00.123456790Z"


def test_uuids_of_parquet_are_text(tmp_path: Path) -> None:
    at = datetime(2026, 1, 15, 10, tzinfo=timezone.utc)
    table = pa.table(
        {"t": [at], "sensor": ["a"], "n": [1], "id": pa.array([b"0" * 16], pa.uuid())}
    )
    pq.write_table(table, file := tmp_path / "x.parquet")
    with file.open("rb") as stream:
        mapping = suggest(stream, name=file.name).mapping
    with og.open(":memory:") as store:
        assert [step.stored for step in mapping.ingest(store, file)] == [1]
        (grain,) = store
    assert grain["context"] == {"id": "30303030-3030-3030-3030-303030303030"}


def test_parquet_in_a_pipe_is_not_called_damaged() -> None:
    read, write = os.pipe()
    with open(write, "wb") as end:
        end.write(b"PAR1")
    with open(read, "rb") as stream, pytest.raises(UnsupportedError):
        list(row_chunks(stream, "parquet", None))


def test_a_cell_too_long_says_how_long_it_may_be() -> None:
    text = b"a,b\n1," + b"x" * 200_000 + b"\n3,4\n"
    (chunk,) = row_chunks(io.BytesIO(text), "csv", None)
    assert (chunk.lines, [error.line for error in chunk.errors]) == ([3], [2])
    assert "131,072" in (chunk.errors[0].expected or "")
