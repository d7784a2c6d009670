# SPDX-License-Identifier: Apache-2.0
"""Files as other programs write them: spellings of CSV, encodings, gzip, and odd headers."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omsgrain as og
from omsgrain.errors import FormatError, OmsError, RangeError
from omsgrain.interchange.ingest import ingest
from omsgrain.interchange.rows import RowChunk, row_chunks
from omsgrain.interchange.suggestion import suggest
from support.shell import USAGE, Shell

NAMES = ("ts", "device", "temp", "note")
TIME = 1_768_471_200


def cells(n: int) -> tuple[str, ...]:
    return (str(TIME + n), f"lidar-{n % 3}", f"{20 + n / 10}", f"ok {n}")


def table(delimiter: str = ",", end: str = "\n", rows: int = 6) -> str:
    lines = [NAMES, *map(cells, range(rows))]
    return "".join(delimiter.join(line) + end for line in lines)


ROWS = [dict(zip(NAMES, cells(n), strict=True)) for n in range(6)]


def read(data: bytes, name: str = "x.csv", columns: Sequence[str] | None = None) -> RowChunk:
    kind: Literal["csv", "tsv"] = "tsv" if ".tsv" in name else "csv"
    (chunk,) = row_chunks(io.BytesIO(data), kind, columns, name=name)
    return chunk


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.csv", table().encode()),
        ("x.tsv", table("\t").encode()),
        ("x.csv", table("\t").encode()),
        ("x.csv", table(";").encode()),
        ("x.csv", table("|").encode()),
        ("x.csv", table(", ").encode()),
        ("x.csv", b"\xef\xbb\xbf" + table().encode()),
        ("x.csv", table(end="\r\n").encode()),
        ("x.csv.gz", gzip.compress(table().encode())),
        ("-", gzip.compress(table()[:50].encode()) + gzip.compress(table()[50:].encode())),
        ("x.csv", table().rstrip("\n").encode()),
    ],
)
def test_spellings_of_one_table(name: str, data: bytes) -> None:
    chunk = read(data, name)
    assert (chunk.rows, chunk.lines, chunk.errors) == (ROWS, list(range(2, 8)), [])


def test_blank_lines_before_the_header_count_as_lines() -> None:
    chunk = read(b"\n \n" + table().encode() + b"1,2\n")
    assert (chunk.rows, chunk.lines) == (ROWS, list(range(4, 10)))
    assert [error.line for error in chunk.errors] == [10]


def test_quoted_cells_hold_line_ends_and_delimiters() -> None:
    text = table(rows=1) + f'{TIME},lidar-1,20,"two\nlines; ""quotes"", commas"\n' + "1,2,3\n"
    chunk = read(text.encode())
    assert chunk.rows[1]["note"] == 'two\nlines; "quotes", commas'
    assert (chunk.lines, [error.line for error in chunk.errors]) == ([2, 3], [5])


@pytest.mark.parametrize(
    "data",
    [
        table().encode("utf-16"),
        table().encode("utf-16-le"),
        table().replace("note", "caf\u00e9").encode("latin-1"),
        table(end="\r").encode(),
        b"\n\n",
        b"",
    ],
)
def test_a_table_that_is_no_text_is_refused_at_its_header(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        read(data)
    assert caught.value.line in (1, 3) and caught.value.expected


def test_only_rows_that_are_not_utf_8_are_refused() -> None:
    text = table().replace("ok 1", "caf\u00e9").replace("ok 4", '"two\nl\u00efnes"')
    chunk = read(text.encode("latin-1"))
    assert [error.line for error in chunk.errors] == [3, 6]
    assert chunk.lines == [2, 4, 5, 8]
    many = read((table() + "\u00e9,\n" * 500 + table()).encode("latin-1"))
    assert len(many.errors) == 500 and many.lines[-1] == 514


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("ts,a,a,b", ["ts", "a", "a#2", "b"]),
        ("a,a,a,a", ["a", "a#2", "a#3", "a#4"]),
        ("a,a#2,a,", ["a", "a#2", "a#3", "#4"]),
        (",,#1,x", ["#1", "#2", "#1#2", "x"]),
    ],
)
def test_each_column_has_a_name_of_its_own(header: str, names: list[str]) -> None:
    (row,) = read(f"{header}\n1,2,3,4\n".encode()).rows
    assert list(row) == names and list(row.values()) == ["1", "2", "3", "4"]
    one = read(f"{header}\n1,2,3,4\n".encode(), columns=[names[3], names[1]])
    assert one.rows == [{names[1]: "2", names[3]: "4"}]


def test_ten_thousand_columns() -> None:
    names = [f"c{n}" for n in range(10_000)]
    text = ",".join(names) + "\n" + ",".join(map(str, range(10_000))) + "\n"
    assert read(text.encode(), columns=names[::-1]).rows[0]["c9999"] == "9999"
    suggested = suggest(io.BytesIO(text.encode()), name="wide.csv")
    assert len(suggested.mapping.columns) == 1_000 and len(suggested.notes) == 1
    same = read((",".join(["a"] * 100_000) + "\n").encode(), columns=["a#100000"])
    assert same.rows == []


class Endless(io.RawIOBase):
    """A header, and a line of so many bytes that it would not fit into memory."""

    def __init__(self, head: bytes, size: int) -> None:
        self._left = [head, *[b"y" * (1 << 20)] * (size >> 20), b"\n" + head.split(b"\n")[1]]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            return 0
        piece = self._left.pop(0)
        if len(piece) > len(buffer):
            self._left.insert(0, piece[len(buffer) :])
        taken = piece[: len(buffer)]
        buffer[: len(taken)] = taken
        return len(taken)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_line_without_end_takes_bounded_memory(form: Any) -> None:
    size = 128 << 20
    head = b'{"a": 1, "b": 2}\n{"a": 2}\n{"a": "' if form == "jsonl" else b"a,b\n1,2\n3,"
    stream = cast(BinaryIO, io.BufferedReader(Endless(head, size)))
    tracemalloc.start()
    try:
        errors = [error for chunk in row_chunks(stream, form, None) for error in chunk.errors]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(errors) == 1 and errors[0].line == 3
    assert peak < size * 3 // 4


@pytest.mark.parametrize("cut", [5, 30, -9, -1])
def test_damaged_gzip(cut: int) -> None:
    data = gzip.compress(table().encode())
    with pytest.raises(FormatError):
        read(data[:cut], "x.csv.gz")
    broken = bytearray(data)
    broken[len(data) // 2] ^= 0xFF
    with pytest.raises(OmsError):
        read(bytes(broken), "x.csv.gz")


def test_json_in_gzip_with_and_without_mapping(tmp_path: Path) -> None:
    grains = [
        {"type": "event", "content": f"door {n}", "created_at": TIME * 1000 + n} for n in range(3)
    ]
    data = gzip.compress("".join(json.dumps(one) + "\n" for one in grains).encode())
    with og.open(":memory:") as store:
        (step,) = ingest(store, io.BytesIO(data), name="doors.jsonl.gz")
        assert (step.stored, len(store)) == (3, 3)
        (step,) = ingest(store, io.BytesIO(data), name="-", format="jsonl")
        assert step.duplicates == 3
        array = gzip.compress(json.dumps(grains).encode())
        (step,) = ingest(store, io.BytesIO(array), name="doors.json.gz")
        assert step.duplicates == 3
    mapping = suggest(io.BytesIO(data), name="doors.jsonl.gz")
    assert any("mapping" in note for note in mapping.notes)


def test_rows_of_an_array_on_one_line_have_their_places() -> None:
    rows = [{"ts": TIME, "temp": 1}, {"ts": "noon", "temp": 2}, {"ts": TIME, "temp": 3}, 5]
    data = json.dumps(rows).encode()[:-1] + b', {"ts": 01}]'
    mapping = og.Mapping(
        "event", {"created_at": "ts", "content": "temp"}, units={"created_at": "s"}
    )
    with og.open(":memory:") as store:
        stream = io.BytesIO(data)
        (step,) = ingest(store, stream, name="x.json", mapping=mapping, errors="collect")
        assert (step.stored, len(step.rejected)) == (2, 3)
    places = {error.offset for error in step.rejected}
    assert places == {data.index(part) for part in (b'{"ts": "noon"', b"5, {", b"1}]")}


def test_nested_values_of_json_lines() -> None:
    row = {"ts": TIME, "meta": {"device": "d", "pos": {"x": 1, "y": [1, 2]}}, "temp": 20.5}
    mapping = suggest(io.BytesIO(json.dumps(row).encode() + b"\n"), name="x.jsonl").mapping
    made = mapping.apply(row)
    assert made["subject"] == made["observer_id"] == "d"
    assert made["object"] == {"temp": 20.5, "meta_pos_x": 1}
    assert made["context"] == {"meta_pos_y": [1, 2]}


def test_json_lines_may_begin_with_a_byte_order_mark() -> None:
    """As tables, documents and ready grains may; an error of the first row counts the mark."""
    data = b'\xef\xbb\xbf{"ts": 1}\n{"ts": 2}\n\xef\xbb\xbf{"ts": 3}\n'
    (chunk,) = row_chunks(io.BytesIO(data), "auto", None, name="x.jsonl")
    assert (chunk.rows, chunk.lines) == ([{"ts": 1}, {"ts": 2}], [1, 2])
    assert [(error.line, error.offset) for error in chunk.errors] == [(3, data.rindex(b"\xef"))]
    (chunk,) = row_chunks(io.BytesIO(data[:11] + b"!}\n"), "auto", None, name="x.jsonl")
    assert [(error.line, error.offset) for error in chunk.errors] == [(1, 11)]


def test_rows_without_a_time_get_that_of_their_file() -> None:
    text = b"device,temp\na,1\na,2\na,3\n"
    made = suggest(io.BytesIO(text), name="x.csv", changed="2026-01-15T10:00:00Z")
    assert made.mapping.set["created_at"] == "2026-01-15T10:00:00Z" and len(made.notes) == 1
    assert made.mapping.apply({"device": "a", "temp": "1"})["object"] == {"temp": 1.0}
    assert "created_at" not in suggest(io.BytesIO(text), name="x.csv").mapping.set


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("ts,device,temp\n1768471200,a,1\n", 0),
        ("ts,device,temp\n15.01.2026,a,1\n", 2),
        ("ts,device,t\n1768471200,a,20.5\n", 0),
        ("ts,device\n-5,a\n", 2),
        ("ts;device;temp\n1768471200;a;20,5\n", 0),
        ("ts;device;total\n1768471200;a;1,234\n", 1),
        ("1768471200,a,20.5\n1768471201,a,20.5\n", 1),
    ],
)
def test_a_suggestion_notes_what_looks_wrong(text: str, notes: int) -> None:
    changed = "2026-01-15T10:00:00Z"
    assert len(suggest(io.BytesIO(text.encode()), name="x.csv", changed=changed).notes) == notes


def test_a_suggestion_notes_numbers_that_are_refused() -> None:
    stream = io.BytesIO()
    readings: dict[str, list[Any]] = {
        "ts": [TIME, TIME + 1],
        "device": ["a", "a"],
        "x": [1.5, float("nan")],
    }
    pq.write_table(pa.table(readings), stream)
    stream.seek(0)
    made = suggest(stream, name="x.parquet")
    (refused,) = made.mapping.apply_many([{name: of[1] for name, of in readings.items()}])
    assert isinstance(refused, RangeError) and len(made.notes) == 1 and "'x'" in made.notes[0]


def test_the_first_bad_row_is_the_reason_for_no_suggestion() -> None:
    with pytest.raises(FormatError) as caught:
        suggest(io.BytesIO(b"# made by a logger\n" + table().encode()), name="x.csv")
    assert caught.value.line == 2


@pytest.mark.parametrize("name", ["x.txt", "x", "x.xlsx"])
def test_a_table_without_a_known_name_needs_its_format(
    shell: Shell, tmp_path: Path, name: str
) -> None:
    (file := tmp_path / name).write_bytes(table(rows=20).encode())
    assert shell.error("ingest", "--suggest", file)[1]["code"] == "ERR_FORMAT"
    assert shell("ingest", "--suggest", file, "--format", "csv") == 0
    (mapping := tmp_path / "m.toml").write_bytes(shell.out)
    stored = shell.json("ingest", tmp_path / "s.omsg", file, "--mapping", mapping,
                        "--format", "csv")  # fmt: skip
    assert stored["stored"] == 20


def test_a_stop_says_how_to_go_on(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "x.csv").write_text(table(rows=20) + f"{TIME},a,warm,x\n")
    options = ("--as", "observation", "--map", "created_at=ts", "--unit", "created_at=s",
               "--map", "observer_id=device", "--map", "object.temp=temp",
               "--type", "object.temp=number", "--set", "observer_type=x:sensor")  # fmt: skip
    store = tmp_path / "s.omsg"
    assert shell("ingest", store, file, *options) == 20
    assert b"x.csv" in shell.err and b"--errors collect" in shell.err
    assert b"'temp'" in shell.err and b"line 22" in shell.err and b"warm" not in shell.err
    assert shell("ingest", store, file, *options, "--errors", "collect") == 20
    assert shell.json("query", store, "--subject", "a")["results"] == []
    assert shell("ingest") == USAGE


@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_foreign_rows_without_a_mapping_lead_to_one(
    shell: Shell, tmp_path: Path, errors: str
) -> None:
    (file := tmp_path / "x.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert shell("ingest", tmp_path / "s.omsg", file, "--errors", errors) == 21
    assert b"--suggest" in shell.err and b"--errors" not in shell.err


def test_a_wrong_column_is_no_bad_row(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "x.csv").write_text(table())
    options = ("--as", "event", "--map", "content=nots", "--map", "created_at=ts")
    assert shell("ingest", tmp_path / "s.omsg", file, *options) == 20
    assert b"ts, device, temp, note" in shell.err and b"--errors" not in shell.err


def test_gzip_and_a_pipe_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "x.csv.gz").write_bytes(gzip.compress(table(rows=30).encode()))
    assert shell("ingest", "--suggest", file) == 0
    (mapping := tmp_path / "m.toml").write_bytes(shell.out)
    store = tmp_path / "s.omsg"
    assert shell.json("ingest", store, file, "--mapping", mapping)["stored"] == 30
    piped = ("ingest", store, "-", "--mapping", mapping, "--format", "csv")
    assert shell.json(*piped, stdin=file.read_bytes())["duplicates"] == 30
    page = shell.json("query", store, "--subject", "lidar-1", "--limit", "1")
    assert page["results"][0]["grain"]["created_at"] == (TIME + 28) * 1000


def test_parquet_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    columns = [pa.array([1]), pa.array([2])]
    pq.write_table(pa.Table.from_arrays(columns, names=["a", "a"]), tmp_path / "x.parquet")
    with (tmp_path / "x.parquet").open("rb") as stream, pytest.raises(OmsError) as caught:
        list(row_chunks(stream, "parquet", None))
    assert caught.value.code == "ERR_SCHEMA"


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    rows = "".join(f"2026-01-15T10:00:{n:02}Z,a,{n}\n" for n in range(30))
    writer = Thread(target=pipe.write_text, args=(f"time,sensor,v\n{rows}",), daemon=True)
    writer.start()
    given = ("--as", "event", "--map", "created_at=time", "--map", "content=v", "--format", "csv")
    words = [
        sys.executable,
        "-m",
        "omsgrain",
        "ingest",
        str(tmp_path / "s.omsg"),
        str(pipe),
        *given,
    ]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    with og.open(tmp_path / "s.omsg") as store:
        assert len(store) == 30
