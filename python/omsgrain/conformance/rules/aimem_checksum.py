# SPDX-License-Identifier: Apache-2.0
"""AIMEM, level 2: the checksum, the order of checks, and bundles by lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.sample import bundle as sample
from omsgrain.conformance.http.sample import spelled
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.aimem_bundle import first_rule
from omsgrain.conformance.rules.vectors import data
from omsgrain.formats.aimem import checksum
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.problems import DocumentError

_rule: Final = Table("aimem", 2)
RULES: Final = _rule.rules


@_rule("checksum.made", "2.8", "SHA-256 of the canonical text (RFC 8785) without the checksum")
def _checksums(_: Bench) -> Iterator[Tried]:
    for one in data("bundles"):
        yield Tried(
            one["description"], one["checksum"], checksum.of_document(one["bundle"].encode())
        )
        yield Tried("taken with it", "taken", first_rule(one["bundle"].encode()))


@_rule("checksum.canonical", "2.8", "Numbers, strings and keys stand as RFC 8785 has them")
def _canonical(_: Bench) -> Iterator[Tried]:
    given = (r'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
             r'"string":"\u20ac$\u000F\u000aA' r"'" r'\u0042\u0022\u005c\\\"\/",'
             r'"literals":[null,true,false]}')  # fmt: skip
    text = ('{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}')  # fmt: skip
    yield Tried("the example of RFC 8785 §3.2.2", _sum(text), checksum.of_document(given.encode()))
    keys = '{"\\u20ac":1,"\\r":2,"\\ufb33":3,"1":4,"\\ud83d\\ude00":5,"\\u0080":6,"\\u00f6":7}'
    ordered = '{"\\r":2,"1":4,"\x80":6,"\xf6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'
    yield Tried(
        "keys by their UTF-16 units, §3.2.3", _sum(ordered), checksum.of_document(keys.encode())
    )
    for number, spelling in (
        ("1e-7", "1e-7"),
        ("0.000001", "0.000001"),
        ("1e21", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("-0", "0"),
        ("1.0", "1"),
        ("5e-324", "5e-324"),
        ("9007199254740993", "9007199254740992"),
    ):
        yield Tried(
            f"{number} as {spelling}",
            _sum(f'{{"n":{spelling}}}'),
            checksum.of_document(f'{{"n":{number}}}'.encode()),
        )
    yield Tried(
        "the checksum itself left out",
        _sum('{"a":1}'),
        checksum.of_document(b'{"checksum":"x","a":1}'),
    )


def _sum(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


@_rule("order", "3.2", "Envelope before checksum, checksum before records", must=False)
def _order(_: Bench) -> Iterator[Tried]:
    wrong = {"checksum": "sha256:" + "0" * 64}
    both = edited(sample(), {"/version": "2", "/chunks/0/zone": "x"}) | wrong
    yield Tried("all three wrong", "unsupported_version", first_rule(spelled(both)))
    yield Tried(
        "two wrong",
        "checksum_mismatch",
        first_rule(spelled(edited(sample(), {"/chunks/0/zone": "x"}) | wrong)),
    )


# by lines
_KINDS = {
    "chunks": "chunk",
    "edges": "edge",
    "entities": "entity",
    "chunk_entities": "chunk_entity",
}


def _lines(document: dict[str, Any]) -> bytes:
    envelope = {k: v for k, v in document.items() if k not in _KINDS}
    records = [{"_kind": kind} | one for name, kind in _KINDS.items() for one in document[name]]
    return b"".join(json.dumps(one).encode() + b"\n" for one in (envelope, *records))


def _scanned(text: bytes) -> str:
    try:
        stream.scan(io.BytesIO(text))
    except DocumentError as error:
        return str(error.rule)
    return "taken"


@_rule("lines", "3.1", "By lines: the envelope without arrays, then records with their _kind")
def _by_lines(_: Bench) -> Iterator[Tried]:
    for one in data("bundles"):
        document = json.loads(one["bundle"])
        if set(_KINDS) <= set(document):
            yield Tried(one["description"], "taken", _scanned(_lines(document)))
    whole = _lines(json.loads(data("bundles")[0]["bundle"]))
    yield Tried(
        "a _kind that is none",
        "unknown_kind",
        _scanned(whole.replace(b'"_kind": "chunk"', b'"_kind": "note"', 1)),
    )
    yield Tried("no _kind", "unknown_kind", _scanned(whole.replace(b'"_kind": "chunk", ', b"", 1)))


@_rule(
    "lines.checksum",
    "2.8",
    "The checksum by lines is that of the whole: a cut is found",
    must=False,
)
def _cut(_: Bench) -> Iterator[Tried]:
    whole = _lines(json.loads(data("bundles")[0]["bundle"]))
    lines = whole.splitlines(keepends=True)
    yield Tried("the last line left out", "checksum_mismatch", _scanned(b"".join(lines[:-1])))
    yield Tried(
        "two lines swapped",
        "checksum_mismatch",
        _scanned(b"".join([lines[0], lines[2], lines[1], *lines[3:]])),
    )
