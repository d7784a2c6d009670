# SPDX-License-Identifier: Apache-2.0
"""Rules of AIMEM: bundles, checksums, bundles by lines, signatures, stores and servers.

The sample is a bundle that holds a bit of everything; ``rules/aimem.json`` changes it. Each fault
breaks one rule at one place. Where the draft forbids something, the status is the draft's. Where
it is silent, the basis is a ``recommendation`` of ours, which other servers need not follow.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

import omsgrain as og
from omsgrain import formats
from omsgrain.conformance.bench import ADA, NOW, Bench, ada, ben, by_hand
from omsgrain.conformance.rule import (
    TAKEN,
    Entry,
    Tried,
    documents,
    edited,
    refuses,
    table,
    takes,
    value_of,
)
from omsgrain.conformance.vectors import data
from omsgrain.crypto import signers, trust
from omsgrain.formats.aimem import document, signature
from omsgrain.formats.aimem.check import RULES
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.problems import DocumentError
from omsgrain.interchange import aimem

PRODUCER: Final = "probe"
TENANT: Final = "11111111-1111-4111-8111-111111111111"

Document = dict[str, Any]
Basis = Literal["draft", "recommendation"]


@dataclass(frozen=True, slots=True)
class Good:
    """One change after which a bundle is as good as before.

    Attributes:
        name: in short.
        section: of the draft.
        basis: the draft, or a recommendation.
        change: what is set and removed.
        warning: the rule that a reader warns of.
    """

    name: str
    section: str
    basis: Basis
    change: Mapping[str, Any]
    warning: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One change that makes a bundle bad.

    Attributes:
        name: in short.
        section: of the draft.
        basis: the draft, or a recommendation.
        change: what is set and removed.
        rule: our id of the rule.
        pointer: where the defect is.
        status: of the answer.
    """

    name: str
    section: str
    basis: Basis
    change: Mapping[str, Any]
    rule: str
    pointer: str
    status: int


@dataclass(frozen=True, slots=True)
class TextFault:
    """One change of the text, which is no bundle then."""

    name: str
    section: str
    basis: Basis
    old: str
    new: str
    rule: str


def _basis(row: Mapping[str, Any]) -> Basis:
    return "recommendation" if row.get("basis") == "recommendation" else "draft"


GOODS: Final = tuple(
    Good(row["name"], row["section"], _basis(row), row, row.get("warns"))
    for row in table("aimem")["accepted"]
)
FAULTS: Final = tuple(
    Fault(
        row["name"],
        row["section"],
        _basis(row),
        row,
        row["rule"],
        row["at"],
        row.get("status", 422),
    )
    for row in table("aimem")["refused"]
)
TEXTS: Final = tuple(
    TextFault(
        row["name"],
        row["section"],
        _basis(row),
        row["old"],
        "".join(map(value_of, row["new"])),
        row["rule"],
    )
    for row in table("aimem")["texts"]
)


def sample() -> Document:
    """A good bundle."""
    whole: Document = copy.deepcopy(documents("aimem")["sample"])
    return whole


def chunk(local: str, content: str, **more: Any) -> Document:
    """A chunk with what must be there, and its hash."""
    return {
        "id": f"urn:aimem:{PRODUCER}:{local}",
        "content": content,
        "content_hash": f"sha256:{sha256(content.encode()).hexdigest()}",
        "memory_type": "fact",
        "created_at": "2026-04-01T09:30:00Z",
        **more,
    }


def one_chunk(**more: Any) -> Document:
    """A bundle of one chunk."""
    whole: Document = documents("aimem")["one chunk"]
    return whole | {"chunks": [chunk("c1", "The lamp is on.", **more)]}


def renamed(document: Document, producer: str) -> Document:
    """The same of another producer, so that a server has seen none of it."""
    text = json.dumps(document).replace(f"urn:aimem:{PRODUCER}:", f"urn:aimem:{producer}:")
    whole: Document = json.loads(text)
    return {**whole, "producer": producer} if whole.get("producer") == PRODUCER else whole


def sealed(document: Document) -> Document:
    """The same with its checksum."""
    return document | {"checksum": checksum_of(spelled(document))}


def changed(change: Mapping[str, Any]) -> Document:
    """The sample with a change, and with its checksum."""
    return resealed(edited(sample(), change), change)


def resealed(document: Document, change: Mapping[str, Any]) -> Document:
    """The changed document with its checksum, unless the change is about that."""
    places = [*change.get("set", {}), *change.get("remove", ())]
    return document if "/checksum" in places else sealed(document)


def spelled(document: Any) -> bytes:
    """As JSON."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


_GOODS: Final = {one.name: one for one in GOODS}
_FAULTS: Final = {one.name: one for one in FAULTS}
_TEXTS: Final = {one.name: one for one in TEXTS}

# bundles


def rules(text: bytes) -> list[str]:
    """The rules that a bundle breaks."""
    return [one.rule for one in document.validate(text).problems]


def _first(text: bytes) -> str:
    """The rule that a bundle is refused by, or ``taken``."""
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
    fault = _FAULTS[name]
    problems = document.validate(spelled(changed(fault.change))).problems
    found = [(one.rule, one.pointer, RULES[one.rule].status) for one in problems]
    return Tried(name, [(fault.rule, fault.pointer, fault.status)], found)


def _accepted(name: str) -> Iterator[Tried]:
    """No problem, and no warning but the expected one."""
    good = _GOODS[name]
    verdict = document.validate(spelled(changed(good.change)))
    problems = [one.rule for one in verdict.problems]
    warnings = [one.rule for one in verdict.warnings]
    unexpected = [f"~{rule}" for rule in warnings if rule != good.warning]
    yield Tried(name, TAKEN, next(iter((*problems, *unexpected)), TAKEN))
    if good.warning is not None:
        yield Tried(f"{name}: its warning", [good.warning], warnings)


def _no_text(name: str) -> Tried:
    fault = _TEXTS[name]
    text = spelled(sample()).decode().replace(fault.old, fault.new, 1)
    return Tried(name, [fault.rule], rules(text.encode()))


def embedding_floats(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The floats of an embedding as bytes."""
    found = AIMEM.load(spelled(sample()))
    floats = [one.data.hex() for one in found.vectors.values()]
    yield Tried("AACAPwAAAEA= is 1.0, 2.0", entry["hex"], floats)


# checksums, and bundles by lines


def checksums(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The checksums of bundles that another program made."""
    for one in data("bundles"):
        text = one["bundle"].encode()
        yield Tried(one["description"], one["checksum"], checksum_of(text))
        yield Tried("taken with it", TAKEN, _first(text))


def canonical(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The checksum of a text is that of its canonical form, which is written beside it."""
    for case in entry["cases"]:
        wanted = sha256("".join(case["canonical"]).encode()).hexdigest()
        found = checksum_of("".join(case["json"]).encode())
        yield Tried(case["try"], f"sha256:{wanted}", found)


_KINDS: Final = {
    "chunks": "chunk",
    "edges": "edge",
    "entities": "entity",
    "chunk_entities": "chunk_entity",
}


def _lines(whole: Document) -> bytes:
    envelope = {name: value for name, value in whole.items() if name not in _KINDS}
    records = [{"_kind": kind} | one for name, kind in _KINDS.items() for one in whole[name]]
    return b"".join(json.dumps(one).encode() + b"\n" for one in (envelope, *records))


def _scanned(text: bytes) -> str:
    try:
        document.scan(io.BytesIO(text))
    except DocumentError as error:
        return str(error.rule)
    return TAKEN


def lines(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Bundles by lines are read; a record of an unknown kind is refused."""
    for one in data("bundles"):
        whole = json.loads(one["bundle"])
        if set(_KINDS) <= set(whole):
            yield Tried(one["description"], TAKEN, _scanned(_lines(whole)))
    text = _lines(json.loads(data("bundles")[0]["bundle"])).decode()
    for case in entry["cases"]:
        found = _scanned(text.replace(case["old"], case["new"], 1).encode())
        yield Tried(case["try"], "unknown_kind", found)


def lines_cut(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A bundle by lines with a line missing, or two swapped, has another checksum."""
    text = _lines(json.loads(data("bundles")[0]["bundle"])).splitlines(keepends=True)
    swapped = [text[0], text[2], text[1], *text[3:]]
    for what, left in (("the last line left out", text[:-1]), ("two lines swapped", swapped)):
        yield Tried(what, "checksum_mismatch", _scanned(b"".join(left)))


# signatures


def _canonical() -> bytes:
    return signature.canonical(spelled(sample()))


def _known() -> trust.Trust:
    return trust.Trust(tuple(signers.loads_public(ADA.encode())))


def signature_payload(_: Bench, entry: Entry) -> Iterator[Tried]:
    """An envelope made by hand over the canonical text is the one that we make."""
    rest = {name: value for name, value in sample().items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    by_others = by_hand({1: -8, 4: ADA.encode()}, None, ada(), detached=text)
    proof = trust.check(by_others, _canonical(), _known())
    yield Tried("one made by hand", ADA, proof.signer if proof else "no signer")
    yield Tried("one of ours", by_others, signature.sign_bundle(_canonical(), ada()))


def signature_refused(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Signatures that do not count."""
    adas, bens = (signature.sign_bundle(_canonical(), one) for one in (ada(), ben()))
    text, known = _canonical(), _known()
    yield refuses("over another text", "signature_invalid", trust.check, adas, text + b" ", known)
    yield refuses("by somebody else", "signature_untrusted", trust.check, bens, text, known)
    what = "none, where one is asked for"
    yield refuses(what, "signature_missing", trust.check, None, text, known, required=True)
    yield takes("none, where none is", trust.check, None, text, known)


def signature_header(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The HTTP header of a signature."""
    yield Tried("its name", "AIMEM-Signature", signature.HEADER)
    yield Tried("fb ff fe in base64url", "-__-", signature.to_header(b"\xfb\xff\xfe"))
    yield Tried("read again", b"\xfb\xff\xfe", signature.from_header("-__-"))


# a store


def read(whole: Document) -> document.Bundle:
    """The bundle that a document is, with its checksum."""
    return document.read_bundle(spelled(sealed(whole)))


def exported(store: og.GrainStore, **options: Any) -> Document:
    """The export of the sample's tenant and producer, unless others are given."""
    given = {"tenant": TENANT, "only_producer": "probe", "now": NOW, **options}
    (found,) = aimem.export_bundle(store, given.pop("tenant"), **given)
    whole: Document = json.loads(document.write_bundle(found))
    return whole


def export_checksum(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Anybody can make the checksum of an export."""
    store = bench.store()
    aimem.import_bundle(store, read(sample()))
    # No number of the sample but 0.42 and 2, no key beyond ASCII: json spells it as RFC 8785 does.
    found = exported(store, include_embeddings=True)
    rest = {name: value for name, value in found.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    wanted = f"sha256:{sha256(text.encode()).hexdigest()}"
    yield Tried("the sample exported", wanted, found["checksum"])


def conflict(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A chunk imported again with other fields: the reason in the summary, the content kept."""
    store, first = bench.store(), one_chunk(**entry.get("first", {}))
    aimem.import_bundle(store, read(first))
    other = edited(first, {
        "set": {f"/chunks/0/{name}": value for name, value in entry["then"].items()},
        "remove": ["/chunks/0/content_hash"],
    })  # fmt: skip
    summary = aimem.import_bundle(store, read(other), **entry.get("options", {})).to_dict()
    reasons = [one["reason"] for one in summary["conflicts"]]
    yield Tried(
        "reasons in the summary", [] if entry["reason"] is None else [entry["reason"]], reasons
    )
    yield Tried("kept", entry["kept"], exported(store)["chunks"][0]["content"])


def erase_audit(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """The erasure of a tenant in the audit trail."""
    store = bench.store()
    aimem.import_bundle(store, read(sample()))
    aimem.erase_tenant(store, TENANT, reason_code="gdpr17")
    reasons = {one.reason_code for one in store.audit.entries() if one.operation == "erase"}
    yield Tried("entries", {"gdpr17"}, reasons)
    yield Tried("the trail", True, store.audit.verify().ok)
    raw = bench.audit_rows(store)
    for what, text in (("the tenant", TENANT), ("a content", sample()["chunks"][0]["content"])):
        yield Tried(f"{what} in all rows of the trail", False, text.encode() in raw)


def round_documents(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Bundles that another program made become grains and come back equal."""
    for one in data("bundles"):
        if "legacy_format" in one["warnings"]:
            continue  # it leaves under the name of today
        found = formats.load(one["bundle"].encode(), format="aimem")
        again = formats.dump(found, format="aimem", embeddings=True)
        yield Tried(one["description"], json.loads(one["bundle"]), json.loads(again.data))
