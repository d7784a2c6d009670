# SPDX-License-Identifier: Apache-2.0
"""Rules of AIMEM: bundles, checksums, NDJSON bundles, signatures, stores and servers.

``rules/aimem.json`` changes a sample bundle. Each fault breaks one rule at one place. If the draft
forbids the fault, the status is the draft's. If the draft says nothing, the basis is our own
``recommendation``, which other servers need not follow.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Literal

import omsgrain as og
from omsgrain.conformance.bench import ADA, NOW, TENANT, Bench, ada, by_hand
from omsgrain.conformance.rule import (
    TAKEN,
    Entry,
    Tried,
    documents,
    edited,
    spelled,
    table,
    value_of,
)
from omsgrain.conformance.vectors import bundles
from omsgrain.crypto import signers, trust
from omsgrain.formats.aimem import document, signature
from omsgrain.formats.aimem.check import RULES
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.aimem.fields import ARRAYS
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle

PRODUCER: Final = "probe"

Document = dict[str, Any]
Basis = Literal["draft", "recommendation"]


_USUAL: Final[Entry] = {"basis": "draft", "at": "", "status": 422, "warns": None}
GOODS: Final[list[Entry]] = [{**_USUAL, **row} for row in table("aimem")["accepted"]]
"""Changes of the sample that a server must accept, some with the rule of a warning (``warns``)."""
FAULTS: Final[list[Entry]] = [{**_USUAL, **row} for row in table("aimem")["refused"]]
"""Changes that break a ``rule``, with the place of the defect (``at``), and the status for it."""
TEXTS: Final[list[Entry]] = [{**_USUAL, **row} for row in table("aimem")["texts"]]
"""Texts of the sample to replace, so that it is not valid JSON."""


def sample() -> Document:
    whole: Document = copy.deepcopy(documents("aimem")["sample"])
    return whole


def chunk(local: str, content: str, **more: Any) -> Document:
    """Make a chunk with its required members and its hash."""
    return {
        "id": f"urn:aimem:{PRODUCER}:{local}",
        "content": content,
        "content_hash": f"sha256:{sha256(content.encode()).hexdigest()}",
        "memory_type": "fact",
        "created_at": "2026-04-01T09:30:00Z",
        **more,
    }


def one_chunk(**more: Any) -> Document:
    whole: Document = documents("aimem")["one chunk"]
    return whole | {"chunks": [chunk("c1", "The lamp is on.", **more)]}


def renamed(document: Document, producer: str) -> Document:
    """Change the producer, so that all records are new to a server."""
    text = json.dumps(document).replace(f"urn:aimem:{PRODUCER}:", f"urn:aimem:{producer}:")
    whole: Document = json.loads(text)
    return {**whole, "producer": producer} if whole.get("producer") == PRODUCER else whole


def sealed(document: Document) -> Document:
    """Add the checksum."""
    return document | {"checksum": checksum_of(spelled(document))}


def changed(change: Mapping[str, Any]) -> Document:
    """Return the changed sample with its checksum."""
    return resealed(edited(sample(), change), change)


def resealed(document: Document, change: Mapping[str, Any]) -> Document:
    """Update the checksum, unless the change is about the checksum."""
    places = [*change.get("set", {}), *change.get("remove", ())]
    return document if "/checksum" in places else sealed(document)


_NAMED: Final = {one["name"]: one for one in (*GOODS, *FAULTS, *TEXTS)}

# bundles


def replaced(document: Document, fault: Entry) -> bytes:
    """Write a document, with one of its texts replaced."""
    new = "".join(map(value_of, fault["new"]))
    return spelled(document).decode().replace(fault["old"], new, 1).encode()


def rules(text: bytes) -> list[str]:
    return [one.rule for one in document.validate(text).problems]


def _first(text: bytes) -> str:
    """Return the first rule that a bundle breaks, or ``taken``."""
    return next(iter(rules(text)), TAKEN)


def bundle(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``bundle``: changes of a good bundle that must be accepted or refused."""
    for group, names in entry.items():
        if group == "refused":
            yield from map(_refused, names)
        elif group == "accepted":
            for name in names:
                yield from _accepted(name)
        elif group == "texts":
            yield from map(_no_text, names)
        elif group == "cases":
            for case in names:
                found = _first(spelled(changed(case)))
                yield Tried(case["try"], case.get("refused", TAKEN), found)


def _refused(name: str) -> Tried:
    """One defect is one problem, at its place, with its status."""
    fault = _NAMED[name]
    problems = document.validate(spelled(changed(fault))).problems
    found = [(one.rule, one.pointer, RULES[one.rule].status) for one in problems]
    return Tried(name, [(fault["rule"], fault["at"], fault["status"])], found)


def _accepted(name: str) -> Iterator[Tried]:
    """An accepted bundle has no problem, and only the expected warning."""
    warned = _NAMED[name]["warns"]
    verdict = document.validate(spelled(changed(_NAMED[name])))
    problems = [one.rule for one in verdict.problems]
    warnings = [one.rule for one in verdict.warnings]
    unexpected = [f"~{rule}" for rule in warnings if rule != warned]
    yield Tried(name, TAKEN, next(iter((*problems, *unexpected)), TAKEN))
    if warned is not None:
        yield Tried(f"{name}: its warning", [warned], warnings)


def _no_text(name: str) -> Tried:
    fault = _NAMED[name]
    return Tried(name, [fault["rule"]], rules(replaced(sample(), fault)))


def embedding_floats(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The bytes of an embedding's floats."""
    found = AIMEM.load(spelled(sample()))
    floats = [one.data.hex() for one in found.vectors.values()]
    yield Tried("AACAPwAAAEA= is 1.0, 2.0", entry["hex"], floats)


# checksums, and NDJSON bundles


def canonical(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The checksum of a text is that of its canonical form."""
    for case in entry["cases"]:
        wanted = sha256("".join(case["canonical"]).encode()).hexdigest()
        found = checksum_of("".join(case["json"]).encode())
        yield Tried(case["try"], f"sha256:{wanted}", found)


def by_lines(document: Document) -> bytes:
    """Write a bundle as NDJSON, in the order of its members."""
    envelope = {name: value for name, value in document.items() if name not in ARRAYS}
    records = [{"_kind": kind} | one for name, kind in ARRAYS.items() for one in document[name]]
    return b"".join(spelled(one) + b"\n" for one in (envelope, *records))


def _scanned(text: bytes) -> str:
    try:
        document.scan(io.BytesIO(text))
    except DocumentError as error:
        return str(error.rule)
    return TAKEN


def lines(_: Bench, entry: Entry) -> Iterator[Tried]:
    """NDJSON bundles are read; a record of an unknown kind is refused."""
    for one in bundles():
        whole = json.loads(one["bundle"])
        if set(ARRAYS) <= set(whole):
            yield Tried(one["description"], TAKEN, _scanned(by_lines(whole)))
    text = by_lines(json.loads(bundles()[0]["bundle"])).decode()
    for case in entry["cases"]:
        found = _scanned(text.replace(case["old"], case["new"], 1).encode())
        yield Tried(case["try"], "unknown_kind", found)


def lines_cut(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An NDJSON bundle with a missing line or two swapped lines has another checksum."""
    text = by_lines(json.loads(bundles()[0]["bundle"])).splitlines(keepends=True)
    swapped = [text[0], text[2], text[1], *text[3:]]
    for what, left in (("the last line left out", text[:-1]), ("two lines swapped", swapped)):
        yield Tried(what, "checksum_mismatch", _scanned(b"".join(left)))


# signatures


def _canonical() -> bytes:
    return signature.canonical(spelled(sample()))


def _known() -> trust.Trust:
    return trust.Trust(tuple(signers.loads_public(ADA.encode())))


def signature_payload(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A COSE envelope made by hand over the canonical text equals ours."""
    rest = {name: value for name, value in sample().items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    by_others = by_hand({1: -8, 4: ADA.encode()}, None, ada(), detached=text)
    proof = trust.check(by_others, _canonical(), _known())
    yield Tried("one made by hand", ADA, proof.signer if proof else "no signer")
    yield Tried("one of ours", by_others, signature.sign_bundle(_canonical(), ada()))


# a store


def read(whole: Document) -> document.Bundle:
    """Read a document as a bundle, with its checksum."""
    return document.read_bundle(spelled(sealed(whole)))


def exported(store: og.GrainStore, **options: Any) -> Document:
    """Export the sample's tenant and producer, unless others are given."""
    given = {"tenant": TENANT, "only_producer": "probe", "now": NOW, **options}
    (found,) = export_bundle(store, given.pop("tenant"), **given)
    whole: Document = json.loads(document.write_bundle(found))
    return whole


def export_checksum(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """The checksum of an export can be recomputed independently."""
    store = bench.store()
    import_bundle(store, read(sample()))
    # The sample has only the numbers 0.42 and 2, and ASCII keys: json.dumps follows RFC 8785.
    found = exported(store, include_embeddings=True)
    rest = {name: value for name, value in found.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    wanted = f"sha256:{sha256(text.encode()).hexdigest()}"
    yield Tried("the sample exported", wanted, found["checksum"])


def conflict(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A chunk imported again with other fields: the summary's reason, and the kept content."""
    store, first = bench.store(), one_chunk(**entry.get("first", {}))
    import_bundle(store, read(first))
    other = edited(first, {
        "set": {f"/chunks/0/{name}": value for name, value in entry["then"].items()},
        "remove": ["/chunks/0/content_hash"],
    })  # fmt: skip
    summary = import_bundle(store, read(other), **entry.get("options", {})).to_dict()
    reasons = [one["reason"] for one in summary["conflicts"]]
    yield Tried(
        "reasons in the summary", [] if entry["reason"] is None else [entry["reason"]], reasons
    )
    yield Tried("kept", entry["kept"], exported(store)["chunks"][0]["content"])
