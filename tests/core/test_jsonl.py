# SPDX-License-Identifier: Apache-2.0
"""JSON lines straight to grains: what they may hold, and how a bad line is named."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omsgrain as og
import oracle
from omsgrain.errors import OmsError
from support.minimal_grains import minimal
from support.random_grains import grains, json_line
from support.refusals import CORRUPT, EMPTY, FLOAT, FORMAT, RANGE, SCHEMA

GOOD = json.dumps(minimal("belief")).encode()
BLOB = oracle.encode(minimal("belief"))


def with_value(text: str) -> bytes:
    """The good line with an unknown field of this JSON text."""
    return GOOD[:-1] + b', "x_value": ' + text.encode() + b"}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0", 0), ("0", 0), ("-0.0", -0.0), ("1E2", 100.0), ("1.5e-3", 0.0015), ("1e22", 1e22),
        ("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)),
        ("9007199254740993", 2**53 + 1), ("2.2250738585072011e-308", 2.225073858507201e-308),
        ("5e-324", 5e-324), ("1e-400", 0.0), ("0.1", 0.1),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("123456789012345678901234567890.0", 123456789012345678901234567890.0),
        ('"\\u00e9\\ud83e\\udd16\\/\\b\\f\\n\\r\\t\\"\\\\"', 'é🤖/\b\f\n\r\t"\\'),
        ('"e\\u0301"', "é"),
        ('"\\u0000\u2028"', "\0\u2028"), ("null", None),
        ("[null, true, false]", [None, True, False]),
        ('{"$bytes": "AAEC/w=="}', b"\x00\x01\x02\xff"), ('{"$bytes": ""}', b""),
        ('[{"$bytes": "YQ=="}]', [b"a"]), (' [ 1 ,\t{ "a" : { } } ] ', [1, {"a": {}}]),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    expected = oracle.encode(minimal("belief", x_value=value))
    assert og.encode_jsonl(with_value(text)).blobs == [expected]


MALFORMED = (
    "", "{", "[", "[1,]", "[1 2]", "{,}", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", "{'a':1}",
    "nul", "True", "NaN", "Infinity", "-Infinity", "-", "+1", "01", "1.", ".5", "1e", "1e+",
    "0x10", "1_000", '"', '"\\x"', '"\\u12"', '"\\u12g4"', '"\t"', '"\0"', "1 1", "/* */ 1", "--1",
)  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_values(text: str) -> None:
    assert refused(with_value(text)) == FORMAT


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (b"{", {FORMAT}), (b"}", {FORMAT}), (GOOD + b"}", {FORMAT}), (GOOD + b" x", {FORMAT}),
        (GOOD + GOOD, {FORMAT}), (GOOD[:-1], {FORMAT}), (b"\xff", {FORMAT}),
        (with_value('"x"').replace(b'"x"', b'"\xff"'), {FORMAT}),
        (with_value('"x"').replace(b'"x"', b'"\xed\xa0\x80"'), {FORMAT}),
        (b"5", {"ERR_NOT_MAP"}), (b"[]", {"ERR_NOT_MAP"}), (b'"x"', {"ERR_NOT_MAP"}),
        (b"null", {"ERR_NOT_MAP"}), (b"true", {"ERR_NOT_MAP"}), (b"{}", {"ERR_NO_TYPE"}),
        (GOOD[:-1] + b', "subject": "t"}', {CORRUPT}), (with_value('{"a":1,"a":1}'), {CORRUPT}),
        (with_value('{"\\u00e9":1,"e\\u0301":1}'), {CORRUPT}), (with_value('"\ufeff"'), {CORRUPT}),
        (with_value("[" * 31 + "]" * 31), {""}), (with_value("[" * 32 + "]" * 32), {CORRUPT}),
        (with_value("[" * 100_000), {CORRUPT, FORMAT}),
        (with_value("18446744073709551616"), {RANGE}),
        (with_value("-9223372036854775809"), {RANGE}),
        (with_value("1e400"), {FLOAT, RANGE, FORMAT}), (with_value('"\\ud800"'), {SCHEMA, FORMAT}),
        (with_value('"\\ud800\\u0041"'), {SCHEMA, FORMAT}),
        (with_value('{"$bytes": "AAE"}'), {FORMAT, SCHEMA}),
        (with_value('{"$bytes": "A*=="}'), {FORMAT, SCHEMA}),
        (with_value('{"$bytes": "AB=="}'), {FORMAT, SCHEMA}),
        (GOOD.replace(b'"created_at": 0', b'"created_at": 0.0'), {SCHEMA}),
        (GOOD.replace(b'"created_at": 0', b'"created_at": "1970-01-01"'), {SCHEMA}),
        (GOOD.replace(b'"subject": "s"', b'"subject": ""'), {EMPTY}),
        (GOOD.replace(b'"subject": "s"', b'"s": "s"'), {SCHEMA}),
    ],
    ids=lambda v: "",
)  # fmt: skip
def test_bad_lines(line: bytes, codes: set[str]) -> None:
    assert refused(line) in codes


def refused(line: bytes) -> str:
    """The code of the refusal ("" if there is none), which names the line in any position."""
    batch = og.encode_jsonl(GOOD + b"\n\n" + line + b"\n" + GOOD, errors="collect")
    if not batch.errors:
        return ""
    assert batch.blobs == [BLOB, BLOB]
    assert batch.indices == [0, 2]
    (item,) = batch.errors
    assert (item.index, item.line, item.error.line) == (1, 3, 3)
    if item.error.code == FORMAT:
        assert item.error.offset is not None
    with pytest.raises(OmsError) as caught:
        og.encode_jsonl(GOOD + b"\n" + line)
    assert (caught.value.code, caught.value.line) == (item.error.code, 2)
    return item.error.code


def test_line_ends(tmp_path: Path) -> None:
    for data, count in (
        (b"", 0), (b"\n", 0), (b" \t\r\n\n", 0), (GOOD, 1), (GOOD + b"\n", 1),
        (GOOD + b"\r\n" + GOOD + b"\r\n", 2), (b"\n\n" + GOOD + b"\n \n" + GOOD, 2),
        (b"  " + GOOD + b"  ", 1),
    ):  # fmt: skip
        assert og.encode_jsonl(data).blobs == [BLOB] * count
        (path := tmp_path / "lines.jsonl").write_bytes(data)
        assert og.encode_jsonl(path).blobs == [BLOB] * count


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", str(tmp_path / "none.jsonl")):
        with pytest.raises((OSError, OmsError)):
            og.encode_jsonl(path)


def test_options_hold_for_every_line() -> None:
    fact = GOOD.replace(b"belief", b"fact")
    cases: list[dict[str, Any]] = [
        {"encoding": "cbor", "sensitivity": 1}, {"sensitivity": 3}, {"keep_type_name": True},
    ]  # fmt: skip
    for options in cases:
        expected = oracle.encode(minimal("belief", type="fact"), **options)
        assert og.encode_jsonl(fact, **options).blobs == [expected]
    assert og.encode_jsonl(GOOD, compress=True).blobs == [
        og.encode(minimal("belief"), compress=True)
    ]
    opaque = og.encode_jsonl(b'{"x_mine": 1}', type_byte=0xF0)
    assert opaque.blobs == [oracle.encode({"x_mine": 1}, type_byte=0xF0)]


def test_many_lines_keep_their_order() -> None:
    numbers = range(5000)
    lines = b"\n".join(json.dumps(minimal("reasoning", x_number=n)).encode() for n in numbers)
    batch = og.encode_jsonl(lines)
    assert [og.decode(blob)["x_number"] for blob in batch.blobs] == list(numbers)


@pytest.mark.skipif(sys.platform == "win32", reason="the clock of a thread is coarse")
def test_a_batch_uses_no_more_threads_than_it_may() -> None:
    code = f"""
import time
import omsgrain as og
lines = {GOOD!r} + b"\\n"
begun = time.process_time() - time.thread_time()
batch = og.encode_jsonl(lines * 20_000)
others = time.process_time() - time.thread_time() - begun
print(len(batch.blobs), others / time.thread_time())
"""
    environment = {**os.environ, "OMSGRAIN_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    count, share = done.stdout.split()
    assert int(count) == 20_000
    assert float(share) < 0.05


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.one_of(grains().map(json_line), st.text(max_size=40)), max_size=8))
def test_lines_come_to_what_their_dicts_do(texts: list[str]) -> None:
    lines = [t for text in texts if (t := "".join(text.splitlines())).strip(" \t\x0b\x0c")]
    lines = [line for line in lines for _ in range(2)]  # the second time the shape is known
    found = og.encode_jsonl("\n".join(lines).encode(), errors="collect")
    given_as_dicts = []
    for line in lines:
        try:
            given_as_dicts.append(json.loads(line, object_hook=as_bytes))
        except ValueError:
            given_as_dicts.append(None)
    expected = og.encode_many(given_as_dicts, errors="collect")
    assert (found.blobs, found.indices) == (expected.blobs, expected.indices)
    assert [e.index for e in found.errors] == [e.index for e in expected.errors]
    assert [w.message for w in found.warnings] == [w.message for w in expected.warnings]


def as_bytes(entries: dict[str, Any]) -> Any:
    return base64.b64decode(entries["$bytes"]) if entries.keys() == {"$bytes"} else entries
