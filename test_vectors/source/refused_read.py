# SPDX-License-Identifier: Apache-2.0
"""Bytes that a reader must refuse: the frame of the blob, the schema, compression.

What is wrong inside MessagePack and CBOR stands in refused_codec.py.
"""

from __future__ import annotations

import struct

import oracle
from source.forms import Vector, refused_read
from source.frames import (
    COMPRESSED,
    MSGPACK,
    blob,
    bomb,
    msgpack,
    raw_frame,
    sizeless_bomb,
    sizeless_frame,
)
from source.types import AT, HASH

_PAYLOAD = msgpack()[9:]
_NS = {"ns": b"\xa6shared"}
_REF = {"cr": b"\x91" + oracle.pack_msgpack({"u": "cas://x", "m": "image"})}
_VECTOR = {"er": b"\x91" + oracle.pack_msgpack({"vi": "v", "mo": "m", "dm": 3})}


def _field(key: str, value: object) -> bytes:
    return msgpack({key: oracle.pack_msgpack(value)})


def _of_type(name: str, kind: int, **fields: object) -> bytes:
    """A grain of another type: only what is given, and created_at."""
    left_out: dict[str, bytes | None] = dict.fromkeys(MSGPACK)
    given = {key: oracle.pack_msgpack(value) for key, value in fields.items()}
    return msgpack(left_out | {"t": oracle.pack_msgpack(name), "ca": MSGPACK["ca"]} | given, kind)


_FRAME: tuple[tuple[str, str, str, bytes], ...] = (
    ("001-empty", "ERR_TOO_SHORT", "no byte at all", b""),
    ("002-header-cut", "ERR_TOO_SHORT", "five bytes of a header", msgpack()[:5]),
    ("003-header-alone", "ERR_TOO_SHORT", "a header without payload", msgpack()[:9]),
    ("004-version-0", "ERR_VERSION", "version 0", b"\x00" + msgpack()[1:]),
    ("005-version-2", "ERR_VERSION", "version 2", b"\x02" + msgpack()[1:]),
    ("006-type-0", "ERR_UNKNOWN_TYPE", "type byte 0", msgpack(kind=0)),
    ("007-type-differs", "ERR_CORRUPT", "type byte of an event, payload of a belief",
     msgpack(kind=2)),
    ("008-type-reserved", "ERR_CORRUPT", "a reserved type byte over a known type",
     msgpack(kind=0x0B)),
    ("009-type-domain", "ERR_CORRUPT", "a domain type byte over a known type", msgpack(kind=0xF0)),
    ("010-no-type", "ERR_NO_TYPE", "no type in the payload", msgpack({"t": None})),
    ("011-ns-hash", "ERR_CORRUPT", "ns_hash is not the namespace's", msgpack(_NS)),
    ("012-ns-hash-none", "ERR_CORRUPT", "ns_hash of a namespace that is absent",
     blob(_PAYLOAD, ns=b"\x12\x34")),
    ("013-created-at", "ERR_CORRUPT", "created_at of the header is a second off",
     blob(_PAYLOAD, at=AT // 1000 + 1)),
    ("014-content-bit", "ERR_CORRUPT", "bit 3 without content_refs", msgpack(flags=8)),
    ("015-content-bit-missing", "ERR_CORRUPT", "content_refs without bit 3", msgpack(_REF)),
    ("016-embedding-bit", "ERR_CORRUPT", "bit 4 without embedding_refs", msgpack(flags=16)),
    ("017-embedding-bit-missing", "ERR_CORRUPT", "embedding_refs without bit 4", msgpack(_VECTOR)),
    ("018-sensitivity-low", "ERR_SENSITIVITY_MISMATCH", "a phi: tag under level 0",
     _field("tags", ["phi:mrn"])),
    ("019-sensitivity-lower", "ERR_SENSITIVITY_MISMATCH", "a pii: tag under level 1",
     msgpack({"tags": oracle.pack_msgpack(["pii:email"])}, flags=0x40)),
    ("020-truncated", "ERR_CORRUPT", "the last byte is missing", msgpack()[:-1]),
    ("021-trailing", "ERR_CORRUPT", "a byte after the payload", msgpack() + b"\x00"),
    ("022-array", "ERR_NOT_MAP", "the payload is an array", blob(b"\x93\x01\x02\x03")),
    ("023-string", "ERR_NOT_MAP", "the payload is a string", blob(b"\xa3abc")),
)  # fmt: skip

_SCHEMA: tuple[tuple[str, str, str, bytes], ...] = (
    ("201-full-name", "ERR_CORRUPT", "a full name where a short key belongs",
     msgpack({"s": None, "subject": b"\xa1s"})),
    ("202-full-name-nested", "ERR_CORRUPT", "a full name in an entry of related_to",
     _field("rt", [{"hash": HASH, "rl": "similar"}])),
    ("203-int-for-float", "ERR_CORRUPT", "an integer in a float64 field", msgpack({"c": b"\x01"})),
    ("204-index-layer", "ERR_SCHEMA", "verification_status is kept by the store",
     _field("vstatus", "verified")),
    ("205-required", "ERR_SCHEMA", "a belief without a subject", msgpack({"s": None})),
    ("206-empty", "ERR_EMPTY", "an empty subject", _field("s", "")),
    ("207-confidence", "ERR_RANGE", "confidence over 1", _field("c", 1.5)),
    ("208-created-at-negative", "ERR_RANGE", "created_at before 1970",
     blob(msgpack({"ca": oracle.pack_msgpack(-1000)})[9:], at=0xFFFFFFFF)),
    ("209-kind", "ERR_SCHEMA", "a number for a string", _field("s", 7)),
    ("210-closed-enum", "ERR_SCHEMA", "a temporal_type that does not exist", _field("tt", "past")),
    ("211-hash-format", "ERR_HASH_FORMAT", "an address in upper case", _field("df",
     [HASH.upper()])),
    ("212-hash-length", "ERR_HASH_LENGTH", "an address of 63 characters", _field("df",
     [HASH[:-1]])),
    ("213-did", "ERR_DID", "a DID without its prefix", _field("adid", "key:z6Mk")),
    ("214-uint8", "ERR_RANGE", "256 in a uint8 field", _field("cat", 256)),
    ("215-text-time", "ERR_SCHEMA", "a time as text in a payload", _field("vf",
     "2026-01-15T10:00:00Z")),
    ("216-old-field-name", "ERR_SCHEMA",
     "a 1.1 field name under a 1.2 type name: input is missing",
     _of_type("action", 5, tn="lift", arguments={}, cnt="", iserr=False)),
    ("217-no-created-at", "ERR_SCHEMA", "no created_at",
     blob(msgpack({"ca": None})[9:], at=0)),
    ("218-steps", "ERR_EMPTY", "a workflow without steps",
     _of_type("workflow", 4, steps=[], trigger="x")),
    ("219-relation-type", "ERR_SCHEMA", "a relation_type that does not exist",
     _field("rt", [{"h": HASH, "rl": "likes"}])),
    ("220-content-ref", "ERR_SCHEMA", "a content_ref without modality",
     blob(msgpack({"cr": b"\x91" + oracle.pack_msgpack({"u": "cas://x"})})[9:], flags=8)),
)  # fmt: skip

_FRAMES: tuple[tuple[str, str, str, bytes], ...] = (
    ("302-trailing", "ERR_CORRUPT", "a byte after the frame", raw_frame(_PAYLOAD) + b"\x00"),
    ("303-two-frames", "ERR_CORRUPT", "two frames",
     raw_frame(_PAYLOAD[:20]) + raw_frame(_PAYLOAD[20:])),
    ("304-size-too-small", "ERR_CORRUPT", "the frame holds more than it states",
     raw_frame(_PAYLOAD, len(_PAYLOAD) - 1)),
    ("305-size-too-big", "ERR_CORRUPT", "the frame holds less than it states",
     raw_frame(_PAYLOAD, len(_PAYLOAD) + 1)),
    ("306-bomb", "ERR_TOO_LARGE", "2 KB that unpack to 64 MiB", bomb(64 << 20)),
    ("307-not-zstd", "ERR_CORRUPT", "a payload that is not compressed", _PAYLOAD),
    ("308-cut", "ERR_CORRUPT", "a frame cut short", raw_frame(_PAYLOAD)[:-1]),
    ("309-not-canonical", "ERR_CORRUPT", "what is unpacked is read as strictly",
     raw_frame(_PAYLOAD.replace(b"\xa1s\xa1s", b"\xa1s\xd9\x01s"))),
    ("310-skippable", "ERR_CORRUPT", "a skippable frame before the frame",
     b"\x50\x2a\x4d\x18" + struct.pack("<I", 1) + b"x" + raw_frame(_PAYLOAD)),
    ("311-no-size-cut", "ERR_CORRUPT", "a frame that does not state its content size, cut short",
     sizeless_frame(_PAYLOAD)[:-1]),
    ("312-no-size-trailing", "ERR_CORRUPT", "a byte after a frame that does not state its size",
     sizeless_frame(_PAYLOAD) + b"\x00"),
    ("313-no-size-bomb", "ERR_TOO_LARGE", "2 KB that unpack to 64 MiB and do not say so",
     sizeless_bomb(64 << 20)),
)  # fmt: skip


def vectors() -> list[Vector]:
    """By header and frame, by schema, by compression, by address."""
    out = [refused_read(f"refusals/read/{name}", *rest) for name, *rest in _FRAME + _SCHEMA]
    out += [
        refused_read(f"refusals/read/{name}", code, text, blob(frame, COMPRESSED))
        for name, code, text, frame in _FRAMES
    ]
    good = msgpack()
    address = oracle.address(good)
    wrong = address[:-1] + ("0" if address[-1] != "0" else "1")
    for name, code, text, given in (
        ("401-address", "ERR_INTEGRITY", "another address", wrong),
        ("402-address-upper", "ERR_HASH_FORMAT", "the address in upper case", address.upper()),
        ("403-address-short", "ERR_HASH_LENGTH", "63 characters", address[:-1]),
        ("404-address-prefix", "ERR_HASH_LENGTH", "a prefix before it", "sha256:" + address),
    ):
        out.append(refused_read(f"refusals/read/{name}", code, text, good, given))
    return out
