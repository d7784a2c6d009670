# SPDX-License-Identifier: Apache-2.0
"""``og.Mapping``: rows of other programs become grains, and bad rows are named by their lines."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.errors import OmsError, SchemaError
from omsgrain.interchange.field_map import Mapping, SourceColumn, constant
from omsgrain.interchange.rows import row_chunks
from omsgrain.interchange.suggestion import suggest

READINGS = Mapping(
    "observation",
    {"created_at": "ts", "observer_id": "device", "object.temp": "temp"},
    {"observer_type": "temperature", "namespace": "plant:7"},
    {"created_at": "s"},
)
ROW = {"ts": "1768471200", "device": "t-7", "temp": "21.5"}
GRAIN = {
    "type": "observation",
    "observer_type": "temperature",
    "namespace": "plant:7",
    "created_at": 1768471200000,
    "observer_id": "t-7",
    "object": {"temp": 21.5},
}


def test_a_row_becomes_the_fields_of_a_grain() -> None:
    assert READINGS.apply(ROW) == GRAIN
    assert og.decode(og.encode(GRAIN))["observer_id"] == "t-7"


def test_empty_cells_and_nulls_give_no_field() -> None:
    assert "object" not in READINGS.apply(ROW | {"temp": ""})
    assert "object" not in READINGS.apply(ROW | {"temp": None})


@pytest.mark.parametrize(
    ("unit", "value", "ms"),
    [
        ("s", "1768471200", 1768471200000),
        ("s", 1768471200.25, 1768471200250),
        ("s", "1768471200.25", 1768471200250),
        ("ms", 1768471200001, 1768471200001),
        ("us", "1768471200000999", 1768471200001),
        ("ns", 1768471200000000000, 1768471200000),
        (None, "2026-01-15T10:00:00Z", 1768471200000),
        (None, "2026-01-15T11:00:00+01:00", 1768471200000),
        ("utc", "2026-01-15 10:00:00", 1768471200000),
        ("utc", "2026-01-15", 1768435200000),
        ("utc", datetime(2026, 1, 15, 10), 1768471200000),
        (None, datetime(2026, 1, 15, 10, tzinfo=timezone.utc), 1768471200000),
    ],
)
def test_times(unit: str | None, value: Any, ms: int) -> None:
    mapping = Mapping("event", {"created_at": SourceColumn("at", unit=unit), "content": "says"})
    row = {"at": value, "says": "hello"}
    assert mapping.apply(row)["created_at"] == ms
    assert mapping.apply_many([row]) == [mapping.apply(row)]


@pytest.mark.parametrize("value", ["1768471200", 1768471200, "2026-01-15 10:00:00", True, "soon"])
def test_a_time_without_unit_or_zone_is_refused(value: Any) -> None:
    mapping = Mapping("event", {"created_at": "at"})
    with pytest.raises(SchemaError) as caught:
        mapping.apply({"at": value})
    assert (caught.value.code, caught.value.field) == ("ERR_SCHEMA", "/created_at")
    (error,) = mapping.apply_many([{"at": value}])
    assert isinstance(error, SchemaError)


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("text", "007", "007"),
        ("text", "21", "21"),
        ("text", 21, "21"),
        ("number", "21", 21.0),
        ("decimal_comma", "21", 21.0),
        ("decimal_comma", " -1.234.567,25 ", -1234567.25),
        ("decimal_comma", "1\u202f234,5", 1234.5),
        ("decimal_comma", 21.5, 21.5),
        ("int", "21", 21),
        ("int", 21.0, 21),
        ("bool", "True", True),
        ("bool", "0", False),
        ("json", '{"a": [1]}', {"a": [1]}),
        (None, "007", "007"),
        (None, "21", 21),
        (None, "-2.5e3", -2500.0),
        (None, "warm", "warm"),
        (None, [1, 2], [1, 2]),
    ],
)
def test_types_of_members(type: str | None, value: Any, expected: Any) -> None:
    mapping = Mapping("event", {"object.x": SourceColumn("x", type)})
    made = mapping.apply({"x": value})["object"]["x"]
    assert (made, made.__class__) == (expected, expected.__class__)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("number", "warm"),
        ("decimal_comma", "warm"),
        ("decimal_comma", "12.34,5"),
        ("decimal_comma", "1.2"),
        ("decimal_comma", "1,"),
        ("int", "2.5"),
        ("bool", "yes"),
        ("json", "{"),
        ("text", [1]),
        ("int", True),
    ],
)
def test_a_value_of_another_type_names_the_field_and_no_content(type: str, value: Any) -> None:
    mapping = Mapping("event", {"object.x": SourceColumn("x", type)})
    with pytest.raises(OmsError) as caught:
        mapping.apply({"x": value})
    assert (caught.value.code, caught.value.field) == ("ERR_SCHEMA", "/object/x")
    assert "warm" not in str(caught.value)


def test_a_column_inside_an_object() -> None:
    mapping = Mapping("event", {"content": "message.text", "user_id": "message.from.id"})
    row = {"message": {"text": "hello", "from": {"id": 7}}}
    expected = {"type": "event", "content": "hello", "user_id": "7"}
    assert mapping.apply(row) == expected
    assert mapping.apply_many([row, {"message": 1}]) == [expected, {"type": "event"}]
    assert mapping.apply({"message.text": "a column of this name"})["content"].startswith("a col")


def test_a_constant_object_is_not_shared_by_rows() -> None:
    mapping = Mapping("event", {"context.note": "n"}, {"context": {"a": 1}, "content": "x"})
    first, second = mapping.apply_many([{"n": "one"}, {"n": ""}])
    assert isinstance(first, dict) and isinstance(second, dict)
    assert (first["context"], second["context"]) == ({"a": 1, "note": "one"}, {"a": 1})


def test_other_columns_are_kept_under_a_prefix() -> None:
    mapping = Mapping("event", {"content": "says"}, rest="x:")
    made = mapping.apply({"says": "hello", "id": 7, "empty": None})
    assert made == {"type": "event", "content": "hello", "x:id": 7}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("dream", {}), "/type"),
        (("event", {"contant": "says"}), "/contant"),
        (("event", {"content.x": "says"}), "/content"),
        (("event", {"type": "kind"}), "/type"),
        (("event", {"content": "says"}, {"content": "always"}), "/content"),
        (("observation", {"object.a.b": "x", "object.a": "y"}), "/object/a"),
        (("observation", {"object.a": "x"}, {"object": 5}), "/object"),
        (("observation", {"object": "x"}, {"object": {"a": 5}}), "/object"),
        (("event", {"content": "says"}, {}, {"created_at": "s"}), "/created_at"),
        (("event", {"content": "says"}, {}, {"content": "s"}), "/content"),
        (("event", {"created_at": "at"}, {}, {"created_at": "days"}), "/created_at"),
        (("event", {"object.x": "x"}, {}, {}, {"object.x": "color"}), "/object/x"),
        (("event", {}, {}, {}, {}, "no prefix"), "/rest"),
    ],
)
def test_a_wrong_mapping_is_refused_before_the_first_row(given: Any, field: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Mapping(*given)
    assert caught.value.field == field


def test_a_constant_has_the_kind_of_its_field() -> None:
    assert constant("belief", "confidence", "0.9") == 0.9
    assert constant("observation", "namespace", "7") == "7"
    assert constant("event", "structural_tags", "a") == ["a"]


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.from_regex(r"-?[0-9]{1,20}([.,][0-9]{0,3})?(e[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(
        ["", "2026-01-15T10:00:00Z", "-0", "-0.0", "1e999", "{}", "[1", "\ud800", "٣"]
    ),
    st.lists(st.integers(), max_size=2),
)
ALL = Mapping(
    "observation",
    {
        "created_at": "s",
        "valid_from": "ns",
        "valid_to": "rfc",
        "observer_id": "text",
        "object.number": SourceColumn("number", "number"),
        "object.comma": SourceColumn("comma", "decimal_comma"),
        "object.any": "any",
        "object.int": SourceColumn("int", "int"),
        "x:own": "own.inner",
    },
    {"observer_type": "x:sensor"},
    {"created_at": "s", "valid_from": "ns"},
)


@given(st.dictionaries(st.sampled_from(ALL.columns), CELLS))
@example({"s": 2**53 + 1, "ns": -1, "any": "-0"})
@example({"s": 1.8e305})
@example({"ns": 10**400})
@example({"ns": "1768471200000500000", "number": "123456789012345678"})
def test_the_core_maps_a_row_as_python_does(row: dict[str, Any]) -> None:
    (made,) = ALL.apply_many([row])
    try:
        expected: Any = ALL.apply(row)
    except OmsError as error:
        assert isinstance(made, OmsError)
        assert (made.code, made.field) == (error.code, error.field)
    else:
        assert repr(made) == repr(expected)  # also 1 and 1.0, 0.0 and -0.0


def test_bad_rows_are_named_by_their_lines(tmp_path: Path) -> None:
    (file := tmp_path / "readings.csv").write_text(
        "\ufeffts,device,temp\n"
        "1768471200,t-7,21.5\n"
        "1768471260,t-7\n"
        "\n"
        '1768471320,"t-8\nupstairs",20\n'
        "soon,t-8,20\n"
        ",t-8,20\n"
        '1768471380,"t"8,20\n'
        "1768471440,t-9,20\n"
    )
    with og.open(":memory:") as store:
        (step,) = READINGS.ingest(store, file, errors="collect")
        assert (step.stored, step.duplicates, step.consumed) == (3, 0, file.stat().st_size)
        assert [(e.line, e.code, e.field) for e in step.rejected] == [
            (3, "ERR_FORMAT", None),
            (7, "ERR_SCHEMA", "/created_at"),
            (8, "ERR_SCHEMA", "/created_at"),
            (9, "ERR_FORMAT", None),
        ]
        assert {grain["observer_id"] for grain in store} == {"t-7", "t-8\nupstairs", "t-9"}
        again = list(READINGS.ingest(store, file, errors="collect"))
        assert sum(step.duplicates for step in again) == 3


def test_the_first_bad_row_stops_and_nothing_is_stored(tmp_path: Path) -> None:
    (file := tmp_path / "readings.tsv").write_text("ts\tdevice\ttemp\n1\tt\t1\nx\tt\t1\ny\tt\t1\n")
    with og.open(":memory:") as store:
        with pytest.raises(OmsError) as caught:
            list(READINGS.ingest(store, file))
        assert (caught.value.line, len(store)) == (3, 0)


@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_a_refusal_of_the_store_has_the_line_of_its_row(tmp_path: Path, errors: Any) -> None:
    """The field is valid, but only in a grain that supersedes another."""
    columns = {"content": "says", "supersession_justification": "why"}
    (file := tmp_path / "says.csv").write_text("says,why\na,\nb,because\nc,\n")
    mapping = Mapping("event", columns, {"created_at": 1768471200000})
    with og.open(":memory:") as store:
        try:
            (step,) = mapping.ingest(store, file, errors=errors)
        except OmsError as error:
            assert (errors, error.line, len(store)) == ("raise", 3, 0)
        else:
            assert [(e.line, e.code) for e in step.rejected] == [(3, "ERR_SCHEMA")]
            assert (errors, len(store)) == ("collect", 2)


@pytest.mark.parametrize(
    "text",
    [b"", b"a,a\n1,2\n", b"ts,device\n1,2\n", b'"ts,device,temp\n'],
    ids=["empty", "two columns of one name", "a missing column", "a quote without end"],
)
def test_a_table_that_does_not_fit_is_refused(text: bytes) -> None:
    with pytest.raises(OmsError) as caught:
        list(row_chunks(io.BytesIO(text), "csv", READINGS.columns))
    assert (caught.value.code, caught.value.line) in {("ERR_FORMAT", 1), ("ERR_SCHEMA", 1)}


def test_a_line_without_end_is_cut_in_bounded_memory() -> None:
    text = b"a,b\n" + b"x" * (3 << 20) + b"\n1,2\n"
    (chunk,) = row_chunks(io.BytesIO(text), "csv", None)
    assert [error.line for error in chunk.errors] == [2]
    assert (chunk.rows, chunk.lines) == ([{"a": "1", "b": "2"}], [3])


def test_bytes_that_are_no_text_spoil_their_row_alone(tmp_path: Path) -> None:
    (file := tmp_path / "readings.csv").write_bytes(b"ts,device,temp\n1,\xff,1\n2,b,1\n")
    with og.open(":memory:") as store:
        (step,) = READINGS.ingest(store, file, errors="collect")
        assert (step.stored, [error.line for error in step.rejected]) == (1, [2])


def test_json_lines_and_arrays(tmp_path: Path) -> None:
    rows = [{"ts": 1, "device": "a", "temp": 2}, 7, {"ts": 3, "device": "c", "temp": None}]
    (lines := tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n{]")
    (array := tmp_path / "r.json").write_text(json.dumps(rows, indent=1))
    for file, bad in ((lines, [2, 4]), (array, [7])):
        with og.open(":memory:") as store:
            steps = list(READINGS.ingest(store, file, errors="collect"))
            assert sum(step.stored for step in steps) == 2
            assert [error.line for step in steps for error in step.rejected] == bad


def test_parquet(tmp_path: Path) -> None:
    at = pa.array([datetime(2026, 1, 15, 10), datetime(2026, 1, 15, 11)], pa.timestamp("us"))
    table = pa.table({"ts": at, "device": ["a", "b"], "temp": [21.5, None], "more": [1, 2]})
    pq.write_table(table, file := tmp_path / "readings.parquet")
    mapping = Mapping(READINGS.type, READINGS.map, READINGS.set, {"created_at": "utc"})
    with og.open(":memory:") as store:
        (step,) = mapping.ingest(store, file)
        assert (step.stored, step.consumed) == (2, file.stat().st_size)
        assert [grain["created_at"] for grain in store] == [1768471200000, 1768474800000]
    file.write_bytes(file.read_bytes()[:-8])
    with og.open(":memory:") as store, pytest.raises(OmsError) as caught:
        list(mapping.ingest(store, file))
    assert caught.value.code == "ERR_FORMAT"


def test_a_mapping_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (file := tmp_path / "m.toml").write_text("type = 'event'\n", encoding="utf-8-sig")
    assert Mapping.read(file).type == "event"


def test_a_mapping_survives_its_file(tmp_path: Path) -> None:
    mapping = Mapping(
        "observation",
        {"created_at": SourceColumn("t s", unit="s"), 'object.a"b': SourceColumn("x", "number")},
        {"observer_type": "x:s", "observer_id": "é\n", "context": {"a": [1, True]}},
        rest="x:",
    )
    (file := tmp_path / "m.toml").write_text(mapping.to_toml(), encoding="utf-8")
    read = Mapping.read(file)
    assert (read.to_toml(), read.set, read.rest) == (mapping.to_toml(), mapping.set, "x:")
    row = {"t s": 1, "x": "2", "y": "3"}
    assert read.apply(row) == mapping.apply(row)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("type = ", "ERR_FORMAT"),
        ("x = 1", "ERR_SCHEMA"),
        ("[map]\n", "ERR_SCHEMA"),
        ("type = 'event'\nmap = 1", "ERR_SCHEMA"),
        ("type = 'event'\n[map]\ncontent = 1", "ERR_SCHEMA"),
        ("type = 'event'\n[map]\ncontent = { column = 'a', kind = 'b' }", "ERR_SCHEMA"),
        ("a" * (1 << 20) + "= 1", "ERR_FORMAT"),
    ],
)
def test_a_wrong_mapping_file_is_refused(tmp_path: Path, text: str, code: str) -> None:
    (file := tmp_path / "m.toml").write_text(text)
    with pytest.raises(OmsError) as caught:
        Mapping.read(file)
    assert caught.value.code == code


def test_a_suggestion_for_parquet_stores_its_rows(tmp_path: Path) -> None:
    at = datetime(2026, 1, 15, 10, tzinfo=timezone.utc)
    rows = [
        {"day": at.date(), "t": at + timedelta(seconds=n), "until": at + timedelta(days=1),
         "machine": f"m{n % 3}", "torque": None if n == 3 else n * 1.5, "price": Decimal(n) / 4,
         "pose": {"x": n, "yaw": -0.5}, "ok": n % 2 == 0, "raw": bytes([n]), "tags": ["a", "b"]}
        for n in range(20)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), file := tmp_path / "m.parquet")
    with file.open("rb") as stream:
        made = suggest(stream, name=file.name)
    assert len(made.notes) == 1 and "'raw'" in made.notes[0]
    with og.open(":memory:") as store:
        assert [step.stored for step in made.mapping.ingest(store, file)] == [20]
        newest = store.query().results[0].grain
    assert newest["created_at"] == 1768471219000
    assert newest["object"] == {"torque": 28.5, "price": 4.75, "pose_x": 19.0, "pose_yaw": -0.5}
    assert newest["context"] == {
        "day": "2026-01-15", "until": 1768557600000, "ok": False, "tags": ["a", "b"]
    }  # fmt: skip


def test_the_rest_of_a_row_of_parquet_is_kept(tmp_path: Path) -> None:
    at = datetime(2026, 1, 15, 10)
    row = {"ts": at.replace(tzinfo=timezone.utc), "message": "left the dock", "raw": b"x"}
    row |= {"seen": at, "day": at.date(), "cost": Decimal("0.25"), "steps": [{"at": at}]}
    pq.write_table(pa.Table.from_pylist([row]), file := tmp_path / "m.parquet")
    with file.open("rb") as stream:
        mapping = suggest(stream, name=file.name).mapping
    with og.open(":memory:") as store:
        assert [step.stored for step in mapping.ingest(store, file)] == [1]
        (grain,) = store
    assert (grain["content"], grain["x:raw"], grain["x:cost"]) == ("left the dock", b"x", 0.25)
    assert (grain["x:seen"], grain["x:day"]) == ("2026-01-15T10:00:00", "2026-01-15")
    assert grain["x:steps"] == [{"at": "2026-01-15T10:00:00"}]


def test_members_may_be_tables_in_the_file(tmp_path: Path) -> None:
    (file := tmp_path / "m.toml").write_text(
        "type = 'event'\n[map]\ncontent = 'says'\n"
        "object.temp = { column = 't', type = 'number' }\n"
    )
    assert Mapping.read(file).apply({"says": "x", "t": "1"})["object"] == {"temp": 1.0}


def test_numbers_of_a_device_are_suggested_as_observations() -> None:
    rows = "".join(f"{1768471200 + i},dev-{i % 3},{20 + i}.5,fine\n" for i in range(200))
    text = "ts,device,temperature,note\n" + rows.replace("120.5", "warm")
    mapping = suggest(io.BytesIO(text.encode()), name="readings.csv").mapping
    assert mapping.type == "observation"
    assert mapping.set == {"observer_type": "temperature"}
    made = mapping.apply({"ts": "1", "device": "d", "temperature": "2", "note": "fine"})
    assert made["created_at"] == 1000
    assert (made["object"], made["context"]) == ({"temperature": 2.0}, {"note": "fine"})
    with pytest.raises(SchemaError):
        mapping.apply({"ts": "1", "device": "d", "temperature": "warm"})


def test_a_table_of_a_german_spreadsheet() -> None:
    lines = [
        f"{1768471200000 + 1500 * n};Pumpe-{n % 3};{20 + n % 7},{n % 10};1.{200 + n},5;;an"
        for n in range(60)
    ]
    lines[7] = '1768471210500;Pumpe-1;;1.207,5;"zwei\nZeilen";an'
    lines[9] = "1768471213500;Pumpe-0;kaputt;1,5;;aus"
    text = "\ufeffZeit;Gerät;Temperatur °C;Füllstand;Bemerkung;Läuft\r\n" + "\r\n".join(lines)
    made = suggest(io.BytesIO(text.encode()), name="werte.csv")
    assert (made.mapping.type, made.notes) == ("observation", ())
    row = {"Zeit": "1768471200000", "Gerät": "Pumpe-0", "Läuft": "an"}
    row |= {"Temperatur °C": "-20,5", "Füllstand": "1.200,05"}
    fields = made.mapping.apply(row)
    assert (fields["created_at"], fields["observer_id"]) == (1768471200000, "Pumpe-0")
    assert fields["object"] == {"Temperatur_C": -20.5, "Füllstand": 1200.05}
    assert fields["context"] == {"Läuft": "an"}
    with pytest.raises(SchemaError):
        made.mapping.apply(row | {"Füllstand": "1.20,5"})


def test_one_bad_cell_in_a_short_file_changes_no_type() -> None:
    rows = "".join(f"2026-01-15 10:00:{n:02},st-{n % 2},{400 + n},true\n" for n in range(10))
    text = "when,station,ppm,valid\n" + rows.replace(",404,", ",NaN,").replace("10:00:07", "later")
    made = suggest(io.BytesIO(text.encode()), name="x.csv").mapping
    fields = made.apply({"when": "2026-01-15 10:00:00", "ppm": "4", "valid": "false"})
    assert (fields["created_at"], fields["object"]) == (1768471200000, {"ppm": 4.0})
    assert fields["context"] == {"valid": False}


def test_a_comment_on_some_readings_does_not_make_them_events() -> None:
    rows = [
        {"stamp": {"sec": 1768471200 + n}, "frame_id": f"lidar-{n % 2}", "range": 2 + n / 20}
        | ({"note": "a person passed"} if n % 3 == 0 else {"note": None})
        for n in range(20)
    ]
    data = "\n".join(map(json.dumps, rows)).encode()
    mapping = suggest(io.BytesIO(data), name="scans.jsonl").mapping
    made = [mapping.apply(row) for row in rows]
    assert {(one["type"], one["observer_id"]) for one in made} == {
        ("observation", "lidar-0"), ("observation", "lidar-1")
    }  # fmt: skip
    assert made[0]["context"] == {"note": "a person passed"}


def test_texts_are_suggested_as_events() -> None:
    rows = [
        {
            "id": i,
            "from": {"user": f"u{i % 3}"},
            "text": f"message {i}",
            "at": "2026-01-15T10:00:00Z",
        }
        for i in range(20)
    ]
    mapping = suggest(io.BytesIO(json.dumps(rows).encode()), name="chat.json").mapping
    assert mapping.type == "event"
    made = mapping.apply(rows[0])
    assert (made["content"], made["user_id"], made["x:id"]) == ("message 0", "u0", 0)
    assert made["created_at"] == "2026-01-15T10:00:00Z" or made["created_at"] == 1768471200000


def test_numbers_without_device_are_of_the_file() -> None:
    mapping = suggest(io.BytesIO(b"v\n1\n2\n"), name="boiler.csv").mapping
    assert mapping.apply({"v": "1"})["observer_id"] == "boiler"


def test_no_row_no_suggestion() -> None:
    for text in (b"a,b\n", b"{}"):
        with pytest.raises(SchemaError):
            suggest(io.BytesIO(text), name="x.csv" if b"," in text else "x.json")


@given(st.lists(st.dictionaries(st.text(max_size=4), CELLS, max_size=4), max_size=5))
def test_a_suggestion_always_fits_a_mapping_file(rows: list[dict[str, Any]]) -> None:
    text = "\n".join(json.dumps(row, default=str) for row in rows).replace("NaN", "0")
    text = text.replace("-Infinity", "0").replace("Infinity", "0")
    try:
        mapping = suggest(io.BytesIO(text.encode()), name="x.jsonl").mapping
    except OmsError:
        return
    with TemporaryDirectory() as folder:
        (file := Path(folder, "m.toml")).write_text(mapping.to_toml(), encoding="utf-8")
        read = Mapping.read(file)
    assert read.to_toml() == mapping.to_toml()
