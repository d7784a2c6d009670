# SPDX-License-Identifier: Apache-2.0
"""Disclosures made by the oracle alone. Run it to write tests/data/disclosure.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import oracle
from oracle_tables import OLD_NAMES
from support.known_grains import DID
from support.minimal_grains import A
from support.paths import TEST_DATA

DATA = TEST_DATA / "disclosure.json"
ORACLE = "tests/disclosures.py, over an encoder in Python's standard library alone"
CORE = "omsgrain.crypto.disclosure"
AT = 1768471200000

ALICE: dict[str, Any] = {
    "type": "fact", "subject": "Alice", "relation": "works_at", "object": "ACME Corp",
    "user_id": "alice-123", "namespace": "hr", "created_at": AT, "confidence": 0.95,
}  # fmt: skip
BELIEF: dict[str, Any] = {
    "type": "belief", "subject": "Zoë", "relation": "prefers", "created_at": AT,
    "object": {"tea": ["Ceylon", None, 3], "sugar": False, "b": 2.5}, "confidence": 0.5,
    "importance": 1, "structural_tags": ["phi:mrn", "pii:name"], "valid_from": AT,
    "author_did": DID, "namespace": "zone:3", "x_note/~1": {"é": {"z": -1, "a": 2**63}},
    "related_to": [{"hash": A, "relation_type": "similar", "weight": 1, "x_why": "c"}],
    "content_refs": [{"uri": "file:a", "modality": "image", "size_bytes": 7}],
    "embedding_refs": [{"vector_id": "v", "model": "m", "dimensions": 3}],
}  # fmt: skip
EVENT: dict[str, Any] = {
    "type": "event", "content": "The shelf leans", "created_at": AT, "role": "user",
    "session_id": "s-1", "consolidated": False,
}  # fmt: skip
ACTION: dict[str, Any] = {
    "type": "action", "tool_name": "lift", "input": {"shelf": 12}, "content": {"load_kg": 12.5},
    "is_error": False, "created_at": AT, "duration_ms": 2300,
}  # fmt: skip
DOMAIN: dict[str, Any] = {"type": "drone", "subject": "d-7", "x_path": [1.5, 2], "created_at": AT}


def elision(fields: dict[str, Any], name: str, type_byte: int | None = None) -> str:
    """The hash of one value, over its bytes in the payload. Spec: OMS §10.1.1."""
    small = oracle.compact(fields, keep_type_name=True, type_byte=type_byte)
    given = "" if type_byte else fields["type"]
    value = small[oracle.short_key(OLD_NAMES.get(given, given), name)]
    return "sha256:" + hashlib.sha256(oracle.pack_msgpack(value)).hexdigest()


def view(
    fields: dict[str, Any], hide: Iterable[str], *, signed: bool = False, **options: Any
) -> tuple[bytes, dict[str, str], bytes]:
    """The whole blob, the hashes, and the blob of the view."""
    whole = oracle.encode(fields, keep_type_name=True, **options)
    level = whole[1] >> 6
    if signed:
        whole = whole[:1] + bytes((whole[1] | 1,)) + whole[2:]
    elided = {name: elision(fields, name, options.get("type_byte")) for name in hide}
    left = {name: value for name, value in fields.items() if name not in elided}
    left |= {"_elided": elided, "_disclosure_of": oracle.address(whole)}
    blob = oracle.encode(left, keep_type_name=True, **{**options, "sensitivity": level})
    return whole, elided, blob


_GOOD: tuple[tuple[str, str, dict[str, Any], tuple[str, ...], dict[str, Any]], ...] = (
    ("001-oms-example", "the example of OMS §10.1", ALICE, ("user_id", "namespace"), {}),
    ("002-oms-example-cbor", "in CBOR, with the same hashes", ALICE, ("user_id", "namespace"),
     {"encoding": "cbor"}),
    ("003-signed", "the address is that of the blob with the signed bit", ALICE, ("user_id",),
     {"signed": True}),
    ("004-map", "a map, with keys in order and a null in an array", BELIEF, ("object",), {}),
    ("005-map-cbor", "the same in CBOR", BELIEF, ("object",), {"encoding": "cbor"}),
    ("006-refs", "entries by their short keys; the refs bits go", BELIEF,
     ("related_to", "content_refs", "embedding_refs"), {}),
    ("007-refs-cbor", "the same in CBOR", BELIEF,
     ("related_to", "content_refs", "embedding_refs"), {"encoding": "cbor"}),
    ("008-tags", "the sensitivity stays without the tags", BELIEF, ("structural_tags",), {}),
    ("009-unknown-field", "a name of its own", BELIEF, ("x_note/~1",), {}),
    ("010-float", "an integer in a float64 field, and a time", BELIEF,
     ("importance", "valid_from"), {"encoding": "cbor"}),
    ("011-required", "an event without its content", EVENT, ("content", "consolidated"), {}),
    ("012-action", "content of an action", ACTION, ("content", "input", "tool_name"), {}),
    ("013-opaque", "a domain type", DOMAIN, ("subject", "x_path"), {"type_byte": 0xF1}),
)  # fmt: skip


def _forged() -> Iterable[tuple[str, str, str, dict[str, Any]]]:
    """Id, code, what is wrong, and the fields of the view."""
    elided = {"user_id": elision(ALICE, "user_id")}
    fields = {name: value for name, value in ALICE.items() if name != "user_id"}
    address = oracle.address(oracle.encode(ALICE, keep_type_name=True))
    good = fields | {"_elided": elided, "_disclosure_of": address}
    without = {name: value for name, value in good.items() if name != "namespace"}
    other = "sha256:" + "0" * 64
    yield "101-value", "ERR_INTEGRITY", "another value", good | {"object": "ACME Corp."}
    yield "102-created-at", "ERR_INTEGRITY", "another time", good | {"created_at": AT + 1}
    yield "103-hash", "ERR_INTEGRITY", "another hash", good | {"_elided": {"user_id": other}}
    yield "104-left-out", "ERR_INTEGRITY", "neither shown nor hidden", without
    yield "105-added", "ERR_INTEGRITY", "a field of its own", good | {"session_id": "s"}
    yield "106-address", "ERR_INTEGRITY", "of another grain", good | {"_disclosure_of": "0" * 64}
    yield (
        "107-hides-more",
        "ERR_SCHEMA",
        "a field that the original does not have",
        good | {"_elided": elided | {"session_id": other}},
    )
    yield (
        "108-not-elidable",
        "ERR_SCHEMA",
        "the relation is hidden",
        {name: value for name, value in good.items() if name != "relation"}
        | {"_elided": elided | {"relation": elision(ALICE, "relation")}},
    )
    yield "109-both", "ERR_SCHEMA", "shown and hidden", good | {"user_id": "alice-123"}
    yield "110-nothing-hidden", "ERR_SCHEMA", "no field is hidden", good | {"_elided": {}}
    yield (
        "111-no-original",
        "ERR_SCHEMA",
        "no original is named",
        {name: value for name, value in good.items() if name != "_disclosure_of"},
    )
    yield (
        "112-no-hashes",
        "ERR_SCHEMA",
        "no hashes",
        {name: value for name, value in good.items() if name != "_elided"},
    )
    yield (
        "113-short-key",
        "ERR_INTEGRITY",
        "a short key instead of the name",
        without | {"_elided": elided | {"ns": elision(ALICE, "namespace")}},
    )
    yield "114-type", "ERR_INTEGRITY", "the type name of 1.2", good | {"type": "belief"}
    yield (
        "115-index-layer",
        "ERR_SCHEMA",
        "a field that no blob has",
        good | {"_elided": elided | {"superseded_by": other}},
    )


def vectors() -> list[dict[str, Any]]:
    """Every vector: views to make, check and undo, then views to refuse."""
    out: list[dict[str, Any]] = []
    for id, description, fields, hide, options in _GOOD:
        whole, elided, blob = view(fields, hide, **options)
        out.append({
            "id": id, "description": description, "made_by": ORACLE, "checked_by": CORE,
            "original_hex": whole.hex(), "disclosure_of": oracle.address(whole),
            "hide": list(hide), "elided": elided, "view_hex": blob.hex(),
            "address": oracle.address(blob),
        })  # fmt: skip
    whole = oracle.encode(ALICE, keep_type_name=True)
    for id, code, description, fields in _forged():
        out.append({
            "id": id, "description": description, "made_by": ORACLE, "checked_by": CORE,
            "original_hex": whole.hex(),
            "view_hex": oracle.encode(fields, keep_type_name=True).hex(), "expect_error": code,
        })  # fmt: skip
    return out


def text() -> str:
    """The vectors of the file."""
    return json.dumps(vectors(), ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    DATA.write_text(text(), encoding="utf-8")
