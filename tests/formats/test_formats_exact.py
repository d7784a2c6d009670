# SPDX-License-Identifier: Apache-2.0
"""A document comes back byte for byte, and its arrays where they stood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain import formats
from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats.document import Manifest, fill, lift, manifest, open_manifest, spelled
from omsgrain.formats.json_text import Style, spell, style_of
from omsgrain.formats.source import float32, pack, same, unpack
from support import mif1_documents as mif1
from support import mif2_documents as mif2
from support import mif_ld_documents as mif_ld

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["a, b: c", "http://a/b", "\\/", "\x7f"]),
)
KEYS = st.sampled_from(["a", "b/c", "~", "m", ""])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, TREES, max_size=4)
STYLES = [
    Style(),
    Style(comma=", ", colon=": ", ascii=True),
    Style(indent="  ", colon=": ", end="\n"),
    Style(indent="\t", colon=": ", ascii=True, end="\r\n"),
    Style(colon=": "),
    Style(ascii=True, slash=True),
]
POINTERS = ("/memories", "/graph/entities", "/a~1b/~0")


def kept(data: bytes, arrays: dict[str, list[str]] | None = None) -> tuple[Manifest, Any]:
    """The manifest of a document that is to come back byte for byte, and what gives its grains."""
    document = json.loads(data)
    style = style_of(data, document)
    whole = Manifest("example", "1", document, arrays or {}, style)
    text = None if style else data
    grains = manifest(whole, created_at=7, user_id="u", text=text)
    get = {one.address: one for one in grains}.__getitem__
    found = open_manifest(grains[-1], get)
    assert found is not None
    return found, get


@given(OBJECTS, st.sampled_from(STYLES))
def test_the_style_of_a_writer_is_detected(document: Any, style: Style) -> None:
    data = spell(document, style)
    found = style_of(data, document)
    assert found is not None
    assert spell(document, found) == data
    assert Style.of(json.loads(json.dumps(found))) == found


@given(OBJECTS, st.sampled_from(STYLES))
def test_a_text_comes_back(document: Any, style: Style) -> None:
    found, get = kept(spell(document, style))
    assert spelled(found, document, get) == spell(document, style)


@pytest.mark.parametrize(
    "text",
    [
        '{ "a":1}',
        '{"a":1.50}',
        '{"a":1e2}',
        '{"a":"\\u00E9"}',
        '{"a":[1, 2],"b":[1,2]}',
        '\n{"a":1}',
        '{"a":1}' + " " * 9,
        '{"a":-0}',
    ],
)
def test_a_text_in_no_style_is_kept_whole(text: str) -> None:
    data = text.encode()
    document = json.loads(data)
    assert style_of(data, document) is None
    found, get = kept(data)
    assert spelled(found, document, get) == data
    # What is no longer what the text says is not given back as if it were.
    assert json.loads(spelled(found, document | {"z": None}, get)) == document | {"z": None}


@pytest.mark.parametrize("values", [None, [], 1, [None, ",", ":", False, False, 1], ["a"] * 7])
def test_invalid_styles(values: Any) -> None:
    assert Style.of(values) is None


def test_a_large_text_is_kept_in_parts() -> None:
    data = b'{ "a": "' + b"x" * 2_000_000 + b'"}'
    found, get = kept(data)
    assert len(found.text) == 3
    assert spelled(found, json.loads(data), get) == data


def test_a_manifest_without_style_is_what_it_was() -> None:
    whole = Manifest("example", "1", {"a": 1}, {"/m": []})
    grains = manifest(whole, created_at=7, user_id=None)
    assert not {"x_style", "x_text"} & set(grains[-1])
    assert open_manifest(grains[-1], {g.address: g for g in grains}.__getitem__) == whole


@given(OBJECTS, st.lists(TREES, max_size=3), st.lists(TREES, max_size=3))
def test_arrays_are_lifted_and_filled_in(document: Any, memories: Any, entities: Any) -> None:
    document = {"x": 1, "memories": memories, **document, "graph": {"k": 2, "entities": entities}}
    before = json.dumps(document)
    envelope, arrays = lift(document, POINTERS)
    assert arrays == {"/memories": memories, "/graph/entities": entities}
    assert envelope["memories"] == envelope["graph"]["entities"] == []
    assert same(fill(envelope, arrays), document)
    assert json.dumps(document) == before


def test_values_that_are_no_array_stay() -> None:
    document = {"memories": None, "graph": [{"entities": [1]}], "a/b": {"~": [1]}}
    envelope, arrays = lift(document, POINTERS)
    assert arrays == {"/a~1b/~0": [1]}
    assert envelope == document | {"a/b": {"~": []}}
    with pytest.raises(FormatError):
        fill(envelope, {"/memories": []})
    with pytest.raises(FormatError):
        fill(envelope, {"/graph/0": []})


@given(st.lists(st.floats(-(2.0**126), 2.0**126, width=32, allow_subnormal=False), min_size=1))
def test_numbers_with_the_text_of_a_float32_take_four_bytes(values: list[float]) -> None:
    said = [float(f"{value:.6g}") for value in values]
    packed = pack(said)
    assert packed is not None
    assert packed[0] == "f"
    assert same(unpack(packed), said)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_other_numbers_take_eight(values: list[float]) -> None:
    packed = pack(values)
    assert packed is not None
    assert same(unpack(packed), values)


@pytest.mark.parametrize("values", [None, [], "a", [1], [0.5, 1], [0.5, None], [True]])
def test_values_that_are_not_packed(values: Any) -> None:
    assert pack(values) is None


@pytest.mark.parametrize("text", ["", "x", "fAAA", "fAA==", "dAAAA", "gAAAA", "f\u00e9"])
def test_invalid_packed_arrays(text: str) -> None:
    with pytest.raises(FormatError):
        unpack(text)


def test_what_a_store_searches_by() -> None:
    assert float32([1, 0.5]) == b"\0\0\x80\x3f\0\0\0\x3f"
    for values in ([], None, [None], [True], ["a"], [1e39], [10**400]):
        assert float32(values) is None


BAD: dict[str, Any] = {"id": 5}
ODD: dict[str, tuple[str, Any]] = {
    "mif2": ("memories", {"mif_version": "2.0", "memories": [mif2.MINIMAL["memories"][0], BAD]}),
    "mif1": ("memories", mif1.MINIMAL | {"memories": [mif1.MINIMAL["memories"][0], BAD]}),
    "mif-ld": ("", [mif_ld.MINIMAL, BAD]),
}


@pytest.mark.parametrize("format", ODD)
def test_without_a_bad_record_it_is_not_spelled_as_it_was(format: str) -> None:
    """A bad record is left out, so the text that was kept is not the document any more."""
    odd = json.dumps(ODD[format][1]).replace(", ", ",  ").encode()
    loaded = formats.load(odd, format=format, exact=True)
    assert loaded.problems
    with pytest.raises(SchemaError):
        formats.dump(loaded, format=format, exact=True)
    assert formats.load(formats.dump(loaded, format=format).data, format=format).problems == ()
