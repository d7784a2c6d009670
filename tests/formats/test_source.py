# SPDX-License-Identifier: Apache-2.0
"""Cutting an input into lines: every element once, on its right line, whatever its size."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.errors import FormatError, SchemaError, TooLargeError
from omsgrain.formats import source_lines
from omsgrain.formats.source_lines import SourceLines, detect, document_lines, json_lines

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def read(data: bytes, *, lines: bool) -> list[SourceLines]:
    stream = BytesIO(data)
    head = stream.read(source_lines.PEEK)
    return list(json_lines(stream, head) if lines else document_lines(stream, head))


def elements(data: bytes) -> list[tuple[int, Any]]:
    out = []
    for chunk in read(data, lines=False):
        assert chunk.error is None
        texts = chunk.data.split(b"\n") if chunk.data else []
        out += [(n, json.loads(text)) for n, text in zip(chunk.numbers, texts, strict=True)]
    return out


@given(st.lists(JSON, max_size=6), st.sampled_from([None, 0, 2]), st.booleans())
def test_elements_are_what_json_says(values: list[Any], indent: int | None, ascii: bool) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii)
    assert [value for _, value in elements(text.encode())] == values


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4), st.sampled_from([None, 2]))
def test_one_object(value: dict[str, Any], indent: int | None) -> None:
    text = "\n " + json.dumps(value, indent=indent) + "\n"
    assert elements(text.encode()) == [(2, value)]


def test_lines_of_elements() -> None:
    text = b'[\n  {"a": 1},\n\n  {\n    "b": 2\n  }, {"c": "]}"}\n]\n'
    assert elements(text) == [(2, {"a": 1}), (4, {"b": 2}), (6, {"c": "]}"})]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"[1,\n", 2), (b"[1,\n]", 2), (b"[,1]", 1), (b"[1]\n[2]", 2), (b"[1}", 1), (b'["a]', 1),
        (b'["a\nb"]', 1), (b"{\n} x", 2), (b"{", 1), (b"x {}", 1), (b"", 1), (b"5", 1),
        (b"[1,,2]", 1),
    ],
)  # fmt: skip
def test_broken_documents(text: bytes, line: int) -> None:
    error = read(text, lines=False)[-1].error
    assert isinstance(error, FormatError)
    assert error.line == line


def test_records_before_the_break_are_kept() -> None:
    (chunk,) = read(b'[{"a": 1}, {"b": 2', lines=False)
    assert chunk.data == b'{"a": 1}'


@pytest.mark.parametrize("lines", [True, False])
def test_chunks(monkeypatch: pytest.MonkeyPatch, lines: bool) -> None:
    monkeypatch.setattr(source_lines, "CHUNK", 64)
    monkeypatch.setattr(source_lines, "PEEK", 16)
    rows = [json.dumps({"n": n, "x": "é" * (n % 40)}, ensure_ascii=False) for n in range(200)]
    text = "\n".join(rows) if lines else "[\n" + ",\n".join(rows) + "\n]"
    data = text.encode()
    chunks = read(data, lines=lines)
    assert len(chunks) > 20
    numbers = [n for chunk in chunks for n in chunk.numbers]
    assert numbers == list(range(1, 201) if lines else range(2, 202))
    assert sum(chunk.consumed for chunk in chunks) == len(data)
    got = [row for chunk in chunks for row in chunk.data.decode().split("\n") if row]
    assert got == rows


@pytest.mark.parametrize("lines", [True, False])
def test_a_chunk_has_a_bounded_number_of_lines(
    monkeypatch: pytest.MonkeyPatch, lines: bool
) -> None:
    """Each bad line becomes an error, which is many times as large as the line."""
    monkeypatch.setattr(source_lines, "MOST_LINES", 10)
    data = b"1\n" * 99 + b"1" if lines else b"[" + b"1,\n" * 99 + b"1]"
    chunks = read(data, lines=lines)
    assert max(len(chunk.numbers) for chunk in chunks) == 10
    assert [n for chunk in chunks for n in chunk.numbers] == list(range(1, 101))
    assert sum(chunk.consumed for chunk in chunks) == len(data)


@pytest.mark.parametrize("most", [4, 1_000])
@pytest.mark.parametrize("lines", [True, False])
def test_places_in_the_source(monkeypatch: pytest.MonkeyPatch, lines: bool, most: int) -> None:
    monkeypatch.setattr(source_lines, "MOST_LINES", most)
    monkeypatch.setattr(source_lines, "CHUNK", 64)
    monkeypatch.setattr(source_lines, "PEEK", 16)
    rows = [json.dumps({"n": n, "here": "@"}) for n in range(50)]
    data = ("\n".join(rows) if lines else "[\n" + ",\n\n".join(rows) + "]").encode()
    for chunk in read(data, lines=lines):
        at = -1
        for row, text in enumerate(chunk.data.split(b"\n"), 1):
            at = chunk.data.find(b"@", at + 1)
            if not text:
                continue
            error = FormatError("", line=row, offset=at)
            chunk.place(error)
            assert error.offset is not None and error.line is not None
            assert data[error.offset : error.offset + 1] == b"@"
            assert data[: error.offset].count(b"\n") + 1 == error.line


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "CHUNK", 16)
    monkeypatch.setattr(source_lines, "PEEK", 4)
    monkeypatch.setattr(source_lines, "LONGEST_LINE", 64)
    data = b'{"a": 1}\n' + b'{"b": "' + b"x" * 500 + b'"}\n' + b'{"c": 3}\n'
    chunks = read(data, lines=True)
    assert [c.data for c in chunks if c.data] == [b'{"a": 1}\n', b'{"c": 3}\n']
    (error,) = [c.error for c in chunks if c.error]
    assert isinstance(error, TooLargeError)
    assert error.line == 2
    assert [n for c in chunks for n in c.numbers] == [1, 3]
    assert sum(c.consumed for c in chunks) == len(data)


class Counted(BytesIO):
    """Knows the most bytes that were asked for at once."""

    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.most = max(self.most, len(data))
        return data


def small(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(source_lines, "CHUNK", chunk)
    monkeypatch.setattr(source_lines, "PEEK", 4)
    monkeypatch.setattr(source_lines, "LONGEST_LINE", 64)


def test_an_array_is_read_a_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 100)
    stream = Counted(json.dumps([{"n": n} for n in range(1_000)]).encode())
    for chunk in document_lines(stream, stream.read(source_lines.PEEK)):
        assert len(chunk.data) < 300
    assert stream.most <= 100


@pytest.mark.parametrize("chunk", [1, 7, 50, 10_000])
@pytest.mark.parametrize(
    "long",
    [
        b'"' + b"x" * 500 + b'"',
        rb'"' + rb"\"\\" * 50 + rb'"',
        rb'["]", "' + rb"\\" * 50 + rb'", ",", {"\"": []}]',
        b"[" + b"[1, 2], " * 40 + b"3]",
        b"\n" * 90 + b"[" + b"\n" * 90 + b"]",
        b"5" * 65,
    ],
)
def test_an_element_that_is_too_long(
    monkeypatch: pytest.MonkeyPatch, chunk: int, long: bytes
) -> None:
    small(monkeypatch, chunk)
    data = b'[{"a": 1},\n' + long + b',\n{"c": 3}, ' + long + b"]\n"
    chunks = read(data, lines=False)
    rows = [row for c in chunks if c.data for row in c.data.split(b"\n")]
    assert rows == [b'{"a": 1}', b'{"c": 3}']
    assert [n for c in chunks for n in c.numbers] == [1, 3 + long.count(b"\n")]
    assert sum(c.consumed for c in chunks) == len(data)
    errors = [c.error for c in chunks if c.error]
    assert [(type(e), e.field) for e in errors] == [(TooLargeError, "/1"), (TooLargeError, "/3")]
    body = long.lstrip()
    starts = [data.index(body), data.rindex(body)]
    assert [e.offset for e in errors] == starts
    assert [e.line for e in errors] == [1 + data[:at].count(b"\n") for at in starts]


def test_an_object_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 10)
    (first, last) = read(b'{\n"a": "' + b"x" * 100 + b'"}\n', lines=False)
    assert isinstance(first.error, TooLargeError)
    assert (first.data, first.error.field, last.data, last.error) == (b"", None, b"", None)


def test_an_error_points_at_its_element(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 40)
    data = b"[" + b", ".join(b'{"n": %d}' % n for n in range(30)) + b"]"
    index = 0
    for chunk in read(data, lines=False):
        for row, text in enumerate(chunk.data.split(b"\n") if chunk.data else [], 1):
            error = SchemaError("", field="/n", line=row)
            chunk.place(error)
            assert (error.field, error.line) == (f"/{index}/n", 1)
            assert error.offset is not None and data.startswith(text, error.offset)
            index += 1
    assert index == 30


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b"\x01\x00", "", "blob"), (b"\x01\x00", "x.jsonl", "blob"), (b"", "", "jsonl"),
        (b"\xd2\x84", "", "blob"),
        (b" \n", "", "jsonl"), (b" [", "", "json"), (b'{"a": 1}\n{"a"', "", "jsonl"),
        (b'{"a": 1}', "", "jsonl"), (b'{\n  "a"', "", "json"), (b'{"a": 1,\n "b"', "", "json"),
        (b'{"a": 1,\n "b"', "x.JSONL", "jsonl"), (b"\xef\xbb\xbf{}", "", "jsonl"),
        (b"\xef\xbb\xbf[", "", "json"), (b"junk", "x.ndjson", "jsonl"),
    ],
)  # fmt: skip
def test_detect(head: bytes, name: str, kind: str) -> None:
    assert detect(head, name) == kind


@pytest.mark.parametrize("head", [b"junk", b"\xd3\x84", b"MG\x01", b"\xff\xfe{\0", b"\0"])
def test_detect_refuses(head: bytes) -> None:
    with pytest.raises(FormatError):
        detect(head)
