# SPDX-License-Identifier: Apache-2.0
"""JSON is read if its meaning is certain; other bytes are reported."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain import _core, formats
from omsgrain.formats import times
from omsgrain.formats.aimem import fields as aimem_times
from omsgrain.formats.json_text import parse, parse_canonical
from omsgrain.formats.mif1 import check as mif1
from omsgrain.formats.mif2 import check as mif2
from omsgrain.formats.mif_ld import records as mif_ld
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.source import same
from omsgrain.formats.table import sniff

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**300), 10**300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text("ab\u00e9/~", max_size=2), inner)
    ),
    max_leaves=20,
)
MOST, DEPTH = 1 << 20, 100


def refused(data: bytes, most: int = MOST, depth: int = DEPTH) -> tuple[str, str]:
    """The rule that is broken, and where."""
    with pytest.raises(DocumentError) as found:
        parse(data, most=most, depth=depth)
    assert len(found.value.problems) == 1
    return found.value.problems[0].rule, found.value.problems[0].pointer


def values_of(tree: Any) -> int:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + sum(map(values_of, inner))


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
), st.sampled_from([None, 1]))  # fmt: skip
def test_values_are_counted_before_they_are_made(tree: Any, indent: int | None) -> None:
    data = json.dumps(tree, indent=indent, ensure_ascii=False).encode("utf-8", "replace")
    assert _core.json_values(data, 1 << 30) == values_of(tree)
    # Of a short document nothing is counted: it has half as many values as bytes, at the most.
    assert values_of(tree) <= (len(data) + 1) // 2


@pytest.mark.parametrize("format", ["mif1", "mif1 by lines", "yaml", "mif2", "mif-ld", "ld lines"])
def test_every_format_bounds_the_values_of_a_document(format: str) -> None:
    """An array of zeros takes two bytes a value, and many times as much as objects of Python."""
    from support.mif1_documents import MINIMAL as MIF1
    from support.mif2_documents import MINIMAL as MIF2
    from support.mif_ld_examples import MINIMAL as LD

    name, _, lines = format.partition(" ")
    zeros = {"x_zeros": [0] * 10_000}
    if name == "mif2":
        data = json.dumps({**MIF2, **zeros}).encode()
    elif name in ("mif-ld", "ld"):
        data = json.dumps({**LD, "extensions": zeros}).encode()
        data = b"\n".join([data] * 2) if name == "ld" else data
    else:
        data = json.dumps({**MIF1, **zeros}).encode()
    if lines == "by lines":
        data = formats.dump(formats.load(data, format="mif1"), format="mif1", layout="jsonl").data
    if name == "yaml":
        data = formats.dump(formats.load(data, format="mif1"), format="mif1", layout="yaml").data
    known = {"mif2": mif2.LIMITS, "mif-ld": mif_ld.LIMITS, "ld": mif_ld.LIMITS}
    limits: Any = known.get(name, mif1.LIMITS)
    called = {"yaml": "mif1", "ld": "mif-ld"}.get(name, name)
    assert formats.load(data, format=called, limits=replace(limits, values=25_000)).grains
    with pytest.raises(DocumentError) as caught:
        formats.load(data, format=called, limits=replace(limits, values=5_000))
    assert caught.value.rule == "too_large"
    assert sniff(data) == called


@given(TREES, st.booleans(), st.sampled_from([None, 2]))
def test_a_document_is_what_the_standard_library_reads(
    tree: Any, plain: bool, indent: Any
) -> None:
    data = json.dumps(tree, ensure_ascii=plain, indent=indent).encode()
    assert same(parse(data, most=MOST, depth=DEPTH), json.loads(data))
    document, canonical = parse_canonical(data, most=MOST, depth=DEPTH, without="a")
    assert same(document, json.loads(data))
    assert canonical == _core.canonical_json(data, "a")


@pytest.mark.parametrize(
    "text",
    ["-0", "-0.0", "1.0", "1e2", "1E+2", "0.1", "5e-400", "9" * 300, "-" + "9" * 20, "1.5e308"],
)
def test_numbers(text: str) -> None:
    assert same(parse(text.encode(), most=MOST, depth=DEPTH), json.loads(text))


@pytest.mark.parametrize(
    ("text", "rule", "pointer"),
    [
        ("", "not_json", ""),
        ('{"a": [1, 2', "not_json", ""),
        ('{"a": 1} x', "not_json", ""),
        ("{'a': 1}", "not_json", ""),
        ("\ufeff\ufeff{}", "not_json", ""),
        ("{}\ufeff", "not_json", ""),
        ('{"a": [{"b": 1, "\\u0062": 2}]}', "not_json", "/a/0/b"),
        ("[NaN]", "not_json", ""),
        ("[-Infinity]", "not_json", ""),
        ('{"a": 1e400}', "not_json", "/a"),
        ('{"a": [1, ' + "9" * 400 + "]}", "not_json", "/a/1"),
        ("[" + "9" * 5_000 + "]", "not_json", ""),
        ('["\\ud800"]', "not_json", ""),
        ('{"\\udc00": 1}', "not_json", ""),
        ('["\n"]', "not_json", ""),
        ("[" * 101 + "]" * 101, "too_deep", "/0" * 100),
        ("[" * 10_000 + "]" * 10_000, "too_deep", ""),
        ('{"a":' * 10_000, "too_deep", ""),
    ],
)
def test_what_is_not_certain(text: str, rule: str, pointer: str) -> None:
    assert refused(text.encode()) == (rule, pointer)


@pytest.mark.parametrize(
    "data", [b"\xff", b'["\xc3"]', "{}".encode("utf-16"), b'["\xed\xa0\x80"]']
)
def test_texts_that_are_not_utf8(data: bytes) -> None:
    assert refused(data) == ("not_json", "")


def test_size_and_depth_have_bounds() -> None:
    assert parse(b"[[1]]", most=5, depth=2) == [[1]]
    assert refused(b"[[1]]", most=4) == ("too_large", "")
    assert refused(b"[[1]]", depth=1) == ("too_deep", "/0")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        document = parse(data, most=MOST, depth=DEPTH)
    except DocumentError:
        return
    assert same(document, json.loads(data))


def test_nothing_of_the_document_is_in_the_message() -> None:
    with pytest.raises(DocumentError) as found:
        parse(b'{"secret": nope}', most=MOST, depth=DEPTH)
    assert "nope" not in json.dumps(found.value.to_dict())


# -- times --------------------------------------------------------------------------------------

BASE = 1_775_988_000  # 2026-04-12T10:00:00Z


@pytest.mark.parametrize(
    ("text", "seconds", "fraction"),
    [
        ("2026-04-12T10:00:00Z", BASE, ""),
        ("2026-04-12t10:00:00z", BASE, ""),
        ("2026-04-12 10:00:00Z", BASE, ""),
        ("2026-04-12T12:30:00+02:30", BASE, ""),
        ("2026-04-12T12:30+0230", BASE, ""),
        ("20260412T080000-02", BASE, ""),
        ("2026-04-12T10:00:00.500Z", BASE, "5"),
        ("2026-04-12T10:00:00,123456789012+00:00", BASE, "123456789012"),
        ("2026-04-12T09:59:60Z", BASE, ""),
        ("1969-12-31T23:59:58.5Z", -2, "5"),
        ("0001-01-01T00:00:00+14:00", -62_135_596_800 - 14 * 3600, ""),
    ],
)
def test_times(text: str, seconds: int, fraction: str) -> None:
    assert times.parse(text) == (seconds, fraction)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-04-12",
        "2026-04-12T10:00:00",
        "2026-02-30T10:00:00Z",
        "2026-04-12T24:00:00Z",
        "2026-04-12T10:00:61Z",
        "2026-04-12T10:00:00+24:00",
        "2026-04-12T10:00:00+00:60",
        "2026-0412T10:00:00Z",
        "2026-04-12T10:00:00.Z",
        "2026-04-12T10:00:00Z\n",
        "\u0662026-04-12T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "yesterday",
    ],
)
def test_texts_that_are_no_time(text: str) -> None:
    assert times.parse(text) is None


def test_a_time_of_nowhere_counts_as_utc_if_that_is_asked_for() -> None:
    for text in ("2026-04-12T10:00:00", "20260412T1000", "2026-04-12 10:00"):
        assert times.parse(text, floating=True) == (BASE, "")
    for text in ("2026-04-12", "20260412"):
        assert times.parse(text, floating=True) == (BASE - 36_000, "")


def test_a_bundle_has_times_in_utc_alone() -> None:
    for text in ("2026-04-12T10:00:00Z", "2026-04-12T10:00+00", "20260412T100000-0000"):
        assert aimem_times.parse_time(text) == (BASE, "")
    for text in ("2026-04-12 10:00:00Z", "2026-04-12T12:00:00+02:00", "2026-04-12T10:00:00"):
        assert aimem_times.parse_time(text) is None


@given(st.integers(0, times.LAST))
def test_a_time_that_is_written_is_read(millis: int) -> None:
    instant = times.parse(times.spell(millis))
    assert instant is not None
    assert (instant.millis, times.of_grain(instant)) == (millis, millis)


@pytest.mark.parametrize(
    ("text", "millis", "kept"),
    [
        ("1969-12-31T23:59:58.5Z", -1500, 0),
        ("2026-04-12T10:00:00.9999Z", BASE * 1000 + 999, BASE * 1000 + 999),
        ("2200-01-01T00:00:00Z", 7_258_118_400_000, times.LAST),
    ],
)
def test_times_beyond_a_grain_become_the_nearest(text: str, millis: int, kept: int) -> None:
    instant = times.parse(text)
    assert instant is not None
    assert (instant.millis, times.of_grain(instant)) == (millis, kept)
    assert times.of_grain(None) == 0


@given(TREES)
def test_a_tree_is_spelled_as_the_standard_library_does(tree: Any) -> None:
    assert _core.spell_json(tree) in (None, json.dumps(tree, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "tree",
    [
        {"a": [1, -1, 2**63 - 1, True, False, None], "": {}, "b": [], "c": [[{}]]},
        [0.0, -0.0, 1.0, 0.1, 1e16, 1e-5, 1e22, 123456789.125, 5e-324, 1.7976931348623157e308],
        '\u00e9\u2028\U0001f600\x7f"\\/\b\f\n\r\t\x00\x1f ~',
        {"e\u0301": "\uffff"},
    ],
)
def test_what_is_spelled(tree: Any) -> None:
    assert _core.spell_json(tree) == json.dumps(tree, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "tree",
    ["\ud800", {"\ud800": 1}, float("nan"), float("inf"), 2**63, {1: 2}, (1,), b"x", object()],
)
def test_what_is_left_to_the_standard_library(tree: Any) -> None:
    assert _core.spell_json({"a": [tree]}) is None


def test_values_too_deep_to_be_written() -> None:
    tree: list[Any] = []
    for _ in range(500):
        tree = [tree]
    assert _core.spell_json(tree) is None


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(on: bool) -> None:
    data = b"[" + b"{}," * 40_000 + b"{}]"
    try:
        (gc.enable if on else gc.disable)()
        assert len(parse(data, most=MOST, depth=DEPTH)) == 40_001
        assert gc.isenabled() is on
        assert refused(data[:-1] + b',{"a":1,"a":2}]') == ("not_json", "/40001/a")
        assert gc.isenabled() is on
    finally:
        gc.enable()


@given(st.datetimes(), st.integers(0, 999))
def test_times_are_spelled_as_the_standard_library_does(time: datetime, millis: int) -> None:
    whole = time.replace(microsecond=0)
    seconds = int((whole - datetime(1970, 1, 1)).total_seconds())
    text = whole.isoformat() + "Z"
    assert times.spell(seconds * 1000) == text
    assert times.parse(text) == (seconds, "")
    spelled = times.spell(seconds * 1000 + millis)
    assert spelled == (f"{text[:-1]}.{millis:03}Z" if millis else text)
    read = times.parse(spelled)
    assert read is not None and read.millis == seconds * 1000 + millis


@pytest.mark.parametrize("year", [0, 10_000])
def test_times_that_have_no_text(year: int) -> None:
    seconds = (
        int(datetime(1, 1, 1, tzinfo=timezone.utc).timestamp()) if year == 0 else 253402300800
    )
    with pytest.raises(OverflowError):
        times.spell((seconds - (1 if year == 0 else 0)) * 1000)
