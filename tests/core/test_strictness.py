# SPDX-License-Identifier: Apache-2.0
"""Refusals on reading: whatever is not the one form that a writer gives.  Spec: OMS §4."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain.errors import OmsError
from omsgrain.grain import Encoding
from support.crafted_blobs import BELIEF, belief, blob, pairs, payload, with_value
from support.known_grains import VECTORS, Vector
from support.refusals import CORRUPT, FLOAT, NO_TYPE, NOT_MAP, RANGE, SCHEMA, refused

ENCODINGS: tuple[Encoding, ...] = ("msgpack", "cbor")


def test_the_crafted_belief_is_right() -> None:
    for encoding in ENCODINGS:
        full = {"subject": "a", "relation": "b", "object": "c", "confidence": 1, "created_at": 0}
        assert belief(encoding) == og.encode({"type": "belief", **full}, encoding=encoding)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_truncation(vector: Vector, encoding: Encoding) -> None:
    whole = oracle.encode(vector.fields, encoding, keep_type_name=True)
    assert og.decode(whole).blob == whole
    for length in range(len(whole)):
        refused(whole[:length], "ERR_TOO_SHORT" if length < 10 else CORRUPT)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_change_of_the_header(vector: Vector, encoding: Encoding) -> None:
    whole = oracle.encode(vector.fields, encoding, keep_type_name=True)
    for offset in range(9):
        for value in set(range(256)) - {whole[offset]}:
            changed = whole[:offset] + bytes([value]) + whole[offset + 1 :]
            if offset == 1 and value & 0x3F == whole[1] & 0x3F:
                assert og.decode(changed).header.sensitivity == value >> 6
            else:
                refused(changed, *_header_codes(offset, value, encoding))


def _header_codes(offset: int, value: int, encoding: Encoding) -> tuple[str, ...]:
    if offset == 0:
        return ("ERR_VERSION",)
    if offset == 2 and value == 0:
        return ("ERR_UNKNOWN_TYPE",)
    if offset != 1:
        return (CORRUPT,)
    # Several wrong flags at once: which is met first is no promise.
    wrong = (value & 0x3F) ^ (32 if encoding == "cbor" else 0)
    by_bit = {
        1: "ERR_SIGNED_MISMATCH",
        2: "ERR_KEY",
        4: CORRUPT,
        8: CORRUPT,
        16: CORRUPT,
        32: NOT_MAP,
    }
    return tuple(code for bit, code in by_bit.items() if wrong & bit)


_NESTED_ARRAYS = {"msgpack": (b"\x91", b"\x90"), "cbor": (b"\x81", b"\x80")}
_NESTED_MAPS = {"msgpack": (b"\x81\xa1a", b"\x80"), "cbor": (b"\xa1\x61a", b"\xa0")}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("nested", [_NESTED_ARRAYS, _NESTED_MAPS], ids=["arrays", "maps"])
def test_depth(encoding: Encoding, nested: dict[str, tuple[bytes, bytes]]) -> None:
    outer, inner = nested[encoding]
    og.decode(with_value(encoding, outer * 30 + inner))  # with the payload map: 32
    for count in (31, 32, 300, 300_000):
        refused(with_value(encoding, outer * count + inner), CORRUPT)


def test_not_a_number() -> None:
    for value in (float("nan"), float("inf"), float("-inf")):
        refused(with_value("msgpack", b"\xcb" + struct.pack(">d", value)), FLOAT)
        refused(with_value("msgpack", b"\x91\xcb" + struct.pack(">d", value)), FLOAT)
        refused(with_value("cbor", b"\xf9" + struct.pack(">e", value)), FLOAT)
        for first, form in ((b"\xfa", ">f"), (b"\xfb", ">d")):
            refused(with_value("cbor", first + struct.pack(form, value)), FLOAT, CORRUPT)


def test_integers_beyond_64_bits() -> None:
    og.decode(with_value("cbor", bytes.fromhex("3b7fffffffffffffff")))
    refused(with_value("cbor", bytes.fromhex("3b8000000000000000")), RANGE)
    refused(with_value("cbor", bytes.fromhex("3bffffffffffffffff")), RANGE)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_payload_map(encoding: Encoding) -> None:
    items = pairs(encoding, BELIEF)
    whole = payload(encoding, items)
    for trailing in (b"\x00", b"\xc0", b"\xf6", b"\xff", whole):
        refused(blob(encoding, whole + trailing), CORRUPT)
    for n in range(len(items) - 1):
        swapped = [*items[:n], items[n + 1], items[n], *items[n + 2 :]]
        refused(blob(encoding, payload(encoding, swapped)), CORRUPT)
    for n in range(len(items)):
        doubled = [*items[: n + 1], *items[n:]]
        refused(blob(encoding, payload(encoding, doubled)), CORRUPT)
    others: tuple[Any, ...] = (None, 0, -1, 1.5, "a", b"a", [], [{}], True)
    for value in others:
        refused(blob(encoding, oracle.PACK[encoding](value)), NOT_MAP)
    refused(blob(encoding, oracle.PACK[encoding]({})), NO_TYPE)
    refused(belief(encoding, t=None), NO_TYPE)


def test_the_other_order_is_refused() -> None:
    fields = {"type": "reasoning", "created_at": 0, "x_b": 1, "x_aa": 2}
    small = oracle.compact(fields)
    by_text = sorted(small)
    assert by_text != sorted(small, key=len)
    in_text_order = [(oracle.pack_cbor(k), oracle.pack_cbor(small[k])) for k in by_text]
    refused(blob("cbor", payload("cbor", in_text_order), type_byte=8), CORRUPT)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"s": None, "subject": "a"}, (CORRUPT,)),
        ({"subject": "a"}, (CORRUPT,)),
        ({"created_at": 5}, (CORRUPT,)),
        ({"rt": [{"hash": "0" * 64, "rl": "similar"}]}, (CORRUPT,)),
        ({"rt": [{"h": "0" * 64, "relation_type": "similar"}]}, (CORRUPT,)),
        ({"rt": [{"h": "0" * 63, "rl": "similar"}]}, ("ERR_HASH_LENGTH",)),
        ({"rt": [{"h": "0" * 64, "rl": "unheard_of"}]}, (SCHEMA,)),
        ({"c": 1}, (CORRUPT,)),
        ({"im": 0}, (CORRUPT,)),
        ({"c": 1.5}, (RANGE,)),
        ({"im": -0.5}, (RANGE,)),
        ({"sb": "0" * 64}, (SCHEMA,)),
        ({"svt": 0}, (SCHEMA,)),
        ({"vstatus": "verified"}, (SCHEMA,)),
        ({"ac": 1}, (SCHEMA,)),
        ({"laa": 1}, (SCHEMA,)),
        ({"s": None}, (SCHEMA,)),
        ({"s": ""}, ("ERR_EMPTY",)),
        ({"s": 5}, (SCHEMA,)),
        ({"ca": None}, (SCHEMA,)),
        ({"ca": "1970-01-01T00:00:00Z"}, (SCHEMA, CORRUPT)),
        ({"ca": -1}, (RANGE, CORRUPT)),
        ({"vf": "1970-01-01T00:00:00Z"}, (SCHEMA, CORRUPT)),
        ({"adid": "nobody"}, ("ERR_DID",)),
        ({"df": ["F" * 64]}, ("ERR_HASH_FORMAT",)),
        ({"cl": 4}, (SCHEMA,)),
    ],
    ids=str,
)
def test_fields(encoding: Encoding, changes: dict[str, Any], codes: tuple[str, ...]) -> None:
    refused(belief(encoding, **changes), *codes)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_type_byte_and_type_name_agree(encoding: Encoding) -> None:
    right = belief(encoding)
    for byte in (*range(2, 256),):
        refused(right[:2] + bytes([byte]) + right[3:], CORRUPT)
    refused(right[:2] + b"\x00" + right[3:], "ERR_UNKNOWN_TYPE")
    refused(belief(encoding, t="x:mine"), "ERR_UNKNOWN_TYPE", CORRUPT)
    for name in ("event", "episode", "tool"):
        refused(belief(encoding, t=name), CORRUPT)
        body = payload(encoding, pairs(encoding, {"t": name, "ca": 0}))
        refused(blob(encoding, body, type_byte=0xF0), CORRUPT)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_sensitivity(encoding: Encoding) -> None:
    asked = {"phi:email": 3, "pii:x": 2, "sec:x": 2, "legal:x": 2, "reg:x": 1, "x": 0, "Phi:": 0}
    for tag, least in asked.items():
        body = belief(encoding, tags=[tag])
        for level in range(4):
            changed = body[:1] + bytes([body[1] | level << 6]) + body[2:]
            if level < least:
                refused(changed, "ERR_SENSITIVITY_MISMATCH")
            else:
                assert og.decode(changed).header.sensitivity == level


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_reference_bits(encoding: Encoding) -> None:
    content: list[Any] = [{"u": "file:a", "m": "text"}]
    embedding: list[Any] = [{"vi": "1", "mo": "m", "dm": 3}]
    for key, refs, bit in (("cr", content, 8), ("er", embedding, 16)):
        for value in (None, [], refs):
            body = belief(encoding, None, **{key: value})
            for flags in (0, bit):
                changed = body[:1] + bytes([body[1] | flags]) + body[2:]
                if bool(flags) == bool(value):
                    assert og.decode(changed).blob == changed
                else:
                    refused(changed, CORRUPT)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_namespace_hash(encoding: Encoding) -> None:
    def with_hash(namespace: str | None, ns_hash: str) -> bytes:
        body = belief(encoding, ns=namespace)
        return body[:3] + bytes.fromhex(ns_hash) + body[5:]

    for absent in (None, ""):
        for ns_hash in ("0000", "e3b0", "a4d2"):
            assert og.decode(with_hash(absent, ns_hash)).header.ns_hash == int(ns_hash, 16)
        refused(with_hash(absent, "0001"), CORRUPT)
    assert og.decode(with_hash("shared", "a4d2")).header.ns_hash == 0xA4D2
    for ns_hash in ("0000", "e3b0"):
        refused(with_hash("shared", ns_hash), CORRUPT)


def test_too_large() -> None:
    room = (1 << 20) - len(belief("cbor", x_b=bytes(1 << 17))) + (1 << 17)
    largest = belief("cbor", x_b=bytes(room))
    assert len(largest) == 1 << 20
    assert og.decode(largest).blob == largest
    refused(belief("cbor", x_b=bytes(room + 1)), "ERR_TOO_LARGE")


def test_many_collects_what_one_raises() -> None:
    bad = [b"", belief("cbor")[:-1], belief("msgpack", s=""), belief("cbor", t=None)]
    good = belief("msgpack")
    batch = og.decode_many([bad[0], good, *bad[1:]], errors="collect")
    assert [grain.blob for grain in batch.grains] == [good]
    assert batch.indices == [1]
    assert [(item.index, item.error.code) for item in batch.errors] == [
        (0, "ERR_TOO_SHORT"), (2, CORRUPT), (3, "ERR_EMPTY"), (4, NO_TYPE),
    ]  # fmt: skip
    with pytest.raises(OmsError) as caught:
        og.decode_many([good, bad[2]])
    assert caught.value.code == "ERR_EMPTY"
