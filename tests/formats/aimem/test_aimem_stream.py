# SPDX-License-Identifier: Apache-2.0
"""Bundles by lines: the same as in one document, in any order, and cut at every byte."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

import jcs
from omsgrain.conformance.aimem import FAULTS, changed, sample, sealed
from omsgrain.conformance.rule import spelled
from omsgrain.formats import DocumentError
from omsgrain.formats.aimem import check
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem.fields import ARRAYS, AimemLimits, Hashed, Kind
from support.aimem_strategies import documents
from support.edited_documents import placed

Document = dict[str, Any]
ENTITY = sample()["entities"][0]
NOTHING: dict[Kind, list[Document]] = {kind: [] for kind in ARRAYS.values()}


def lines_of(document: Document) -> list[bytes]:
    """A document whose checksum is there already, by lines."""
    envelope = {name: value for name, value in document.items() if name not in ARRAYS}
    records = [
        {"_kind": kind, **record} if isinstance(record, dict) else record
        for name, kind in ARRAYS.items()
        for record in document.get(name, [])
    ]
    return [spelled(one) + b"\n" for one in [envelope, *records]]


def text_of(document: Document) -> bytes:
    return b"".join(lines_of(document))


def problems(text: bytes, limits: AimemLimits | None = None) -> list[tuple[str, str, int | None]]:
    try:
        stream.scan(io.BytesIO(text), *(() if limits is None else (limits,)))
    except DocumentError as error:
        return [(one.rule, one.pointer, one.line) for one in error.problems]
    return []


def whole(document: Document) -> Document:
    """With all arrays, as lines cannot say that one is absent."""
    document = {name: [] for name in ARRAYS} | document
    return document | {"checksum": jcs.checksum(document)}


@given(documents())
def test_a_good_document_is_good_by_lines(document: Document) -> None:
    document = whole(document)
    source = io.BytesIO(text_of(document))
    scan = stream.scan(source)
    assert scan.counts == {kind: len(document[name]) for name, kind in ARRAYS.items()}
    source.seek(0)
    read: dict[str, list[Document]] = {name: [] for name in ARRAYS}
    names = {kind: name for name, kind in ARRAYS.items()}
    for kind, record in stream.records(source):
        read[names[kind]].append(record)
    assert jcs.checksum(scan.envelope | read) == document["checksum"]
    written = b"".join(stream.write_lines(scan.envelope, lambda kind: read[names[kind]]))
    again = json.loads(written.splitlines()[0])
    assert again["checksum"] == document["checksum"]
    assert problems(written) == []


# What lines cannot say, or say in another way.
_ELSEWHERE = ("/chunk_entities", "/edges")


@pytest.mark.parametrize(
    "fault",
    [fault for fault in FAULTS if fault["at"] not in _ELSEWHERE],
    ids=lambda fault: fault["name"].replace("\n", ""),
)
def test_one_defect_is_one_problem_with_its_line(fault: dict[str, Any]) -> None:
    document = changed(fault)
    ((rule, pointer, line),) = problems(text_of(document))
    if rule == "not_object":  # a line that is no object has no kind either
        assert fault["rule"] == "invalid_type" and line is not None
        return
    assert (rule, pointer) == (fault["rule"], fault["at"])
    name = pointer.split("/")[1]
    if name in ARRAYS:
        before = list(ARRAYS)[: list(ARRAYS).index(name)]
        at = int(pointer.split("/")[2])
        assert line == 2 + at + sum(len(document[other]) for other in before)
    elif rule != "embedding_envelope_missing":
        assert line == 1


def test_cut_at_every_byte() -> None:
    text = text_of(sealed(sample()))
    for end in range(len(text) - 1):
        found = [rule for rule, _, _ in problems(text[:end])]
        assert found and found[0] in ("not_json", "checksum_mismatch")
        first_line = end <= text.index(b"\n")
        assert (found[0] == "not_json") is (first_line and end < text.index(b"\n"))
    assert problems(text[:-1]) == []  # all but the last line's end


@given(documents())
def test_kinds_in_any_order(document: Document) -> None:
    """The order within a kind counts, that of the kinds does not."""
    document = whole(document)
    first, *rest = lines_of(document)
    rng = random.Random(len(rest))
    queues = {
        kind: [x for x in rest if json.loads(x)["_kind"] == kind] for kind in ARRAYS.values()
    }
    mixed = []
    while any(queues.values()):
        mixed.append(queues[rng.choice([kind for kind, left in queues.items() if left])].pop(0))
    assert problems(b"".join([first, *mixed])) == []


def test_edges_before_their_chunks() -> None:
    first, *rest = lines_of(sealed(sample()))
    assert problems(b"".join([first, *rest[::-1][:3], *rest[:3]])) == []
    unknown = sealed(placed(sample(), {"/edges/0/target_id": "urn:aimem:probe:c9"}))
    first, *rest = lines_of(unknown)
    text = b"".join([first, *rest[3:], *rest[:3]])
    assert problems(text) == [("edge_target_unknown", "/edges/0/target_id", 2)]


def test_repeated_names_are_reported_at_the_repetition() -> None:
    twice = placed(sample(), {"/chunks/-": sample()["chunks"][0], "/entities/-": ENTITY})
    text = text_of(sealed(placed(twice, {"/chunks/-": sample()["chunks"][0]})))
    count = len(sample()["chunks"])
    told = [one for one in problems(text) if one[0].startswith("duplicate")]
    assert [(rule, pointer) for rule, pointer, _ in told] == [
        ("duplicate_chunk_id", f"/chunks/{count}/id"),
        ("duplicate_chunk_id", f"/chunks/{count + 1}/id"),
        ("duplicate_entity_id", f"/entities/{len(sample()['entities'])}/id"),
    ]
    assert [line for _, _, line in told][:2] == [count + 2, count + 3]


def test_names_with_equal_hashes_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of hashes only makes one look again."""
    monkeypatch.setattr("omsgrain.formats.aimem.fields.hash", lambda name: 7, raising=False)
    text = text_of(sealed(sample()))
    assert len(sample()["chunks"]) > 2
    assert problems(text) == []
    again = sealed(placed(sample(), {"/chunks/-": sample()["chunks"][1]}))
    ((rule, pointer, _),) = problems(text_of(again))
    assert (rule, pointer) == ("duplicate_chunk_id", f"/chunks/{len(sample()['chunks'])}/id")


@pytest.mark.parametrize("count", [1, 100, 5_000])
def test_a_set_of_hashed_names(count: int) -> None:
    names = Hashed()
    assert all(names.add(str(n)) for n in range(count))
    assert not any(names.add(str(n)) for n in range(count))
    assert all(str(n) in names for n in range(count))
    assert not any(str(n) in names for n in range(count, 2 * count))


def test_chunks_in_another_order_are_another_bundle() -> None:
    first, *rest = lines_of(sealed(sample()))
    text = b"".join([first, rest[1], rest[0], *rest[2:]])
    assert problems(text) == [("checksum_mismatch", "/checksum", 1)]


def test_a_line_that_says_nothing() -> None:
    first, second, *rest = lines_of(sealed(sample()))
    tail = b"".join(rest)
    assert problems(first + b"\n \r\n" + second + b"\n" + tail) == []
    assert problems(first + b"{\n" + second + tail) == [("not_json", "", 2)]
    assert problems(first + b"[]\n" + second + tail) == [("not_object", "", 2)]
    for odd in (b'{"_kind":"note"}', b"{}", b'{"_kind":["chunk"]}', b'{"_kind":null}'):
        assert problems(first + odd + b"\n" + second + tail) == [("unknown_kind", "/_kind", 2)]
    assert problems(b"\n" + first + second + tail)[0][0] == "not_json"
    twice = second.replace(b'"_kind":"chunk"', b'"_kind":"chunk","_kind":"chunk"')
    assert problems(first + twice + tail)[0] == ("not_json", "/_kind", 2)


def test_arrays_in_the_envelope() -> None:
    first, *rest = lines_of(sealed(sample()))
    envelope = spelled(json.loads(first) | {"chunks": []}) + b"\n"
    assert problems(envelope + b"".join(rest))[0] == ("invalid_type", "/chunks", 1)


def test_limits() -> None:
    text = text_of(sealed(sample()))
    longest = max(map(len, text.splitlines(keepends=True)))
    assert problems(text, AimemLimits(line=longest)) == []
    assert problems(text, AimemLimits(line=longest - 1))[0][0] == "too_large"
    deep = sealed(placed(sample(), {"/chunks/0/x": [[[[[]]]]]}))
    assert problems(text_of(deep), AimemLimits(depth=5))[0][0] == "too_deep"
    assert problems(text_of(deep), AimemLimits(depth=6)) == []
    many = lines_of(sealed(sample()))[0] + b"7\n" * 3_000
    with pytest.raises(DocumentError) as caught:
        stream.scan(io.BytesIO(many))
    assert (len(caught.value.problems), caught.value.total) == (
        1_000,
        1_000,
    )  # the check has ended


def test_the_check_stops_after_many_problems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A body of gigabytes can be lines of two bytes, and each problem takes its time."""
    for module, name in ((stream, "_BLANK"), (stream, "MOST"), (check, "MOST")):
        monkeypatch.setattr(module, name, 50)
    first, chunk, *_ = lines_of(sealed(sample()))
    bad = json.loads(chunk) | {"memory_type": "rumour"}
    for line in (b"x\n", spelled(bad) + b"\n", b"\n"):
        source = io.BytesIO(first + line * 500)
        with pytest.raises(DocumentError) as caught:
            stream.scan(source)
        assert caught.value.total <= 2 * 50 + 1
        assert caught.value.rule in ("not_json", "invalid_memory_type", "too_large")
    assert problems(first + b"\n" * 50 + b"".join(lines_of(sealed(sample()))[1:])) == []


def test_a_kind_of_ones_own_is_left_out() -> None:
    chunk = sample()["chunks"][0] | {"_kind": "mine"}
    envelope = {k: v for k, v in sample().items() if k not in ARRAYS}
    written = b"".join(stream.write_lines(envelope, {**NOTHING, "chunk": [chunk]}.__getitem__))
    assert problems(written) == []
    assert json.loads(written.splitlines()[1])["_kind"] == "chunk"
    assert written.splitlines()[1].startswith(b'{"_kind":"chunk",')


def test_memory_is_bounded(long: bool) -> None:
    """A record needs the hash of its name: 24 bytes, and half of that while the table grows."""
    count = 400_000 if long else 3_000
    envelope = {name: value for name, value in sample().items() if name not in ARRAYS}
    base = sample()["chunks"][0] | {"x": "y" * 2_000}

    def parts(kind: Kind) -> Iterator[Document]:
        for i in range(count if kind == "chunk" else 0):
            yield base | {"id": f"urn:aimem:probe:c{i}"}

    class Lines(io.RawIOBase):
        """Made as they are read."""

        def __init__(self) -> None:
            self.lines = stream.write_lines(envelope, parts)

        def tell(self) -> int:
            return 0

        def readline(self, size: int | None = -1) -> bytes:
            return next(self.lines, b"")

    tracemalloc.start()
    try:
        scan = stream.scan(Lines())  # type: ignore[arg-type]
        assert scan.counts["chunk"] == count
        assert tracemalloc.get_traced_memory()[1] < 8_000_000 + 40 * count
    finally:
        tracemalloc.stop()
