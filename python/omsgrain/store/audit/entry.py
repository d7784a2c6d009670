# SPDX-License-Identifier: Apache-2.0
"""The bytes of an entry of the audit trail.

    row of audit-0 = hash, 32 bytes ++ body
    hash           = SHA-256(hash of the entry before, zeros before the first ++ body)
    body           = MessagePack map:

    "i"  number of the entry        "g"  tags of the addresses, 16 bytes each, together
    "t"  time, ms                   "n"  how many addresses, where they have no tags of their own,
    "o"  operation                  "h"  and one tag over all of them, 32 bytes
    "a"  actor                      "s"  last sequence number of the store after the work
    "r"  reason code                "c"  number of grains in the store after the work
    "m"  hash of the note           "d"  details, a map
    "x"  how many notes it erased   "k"  in the first entry: hash of the key of the tags

A tag is HMAC-SHA256 of an address under a key that only this store has, so that a copy of the
trail tells nobody which grains it is about. No content of a grain stands in an entry, since it
could not be erased without breaking the chain. A reason in words is a note, in a row of its own
that can go.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, get_args

import msgpack

from omsgrain.errors import SchemaError

__all__ = [
    "ENTRY_BYTES",
    "HASH",
    "HEAD_RECORD",
    "HEAD_VALUE",
    "KEY_BYTES",
    "KEY_RECORD",
    "NOTHING",
    "NUMBER",
    "OPERATIONS",
    "SALT",
    "STORING",
    "TAG",
    "AuditEntry",
    "Operation",
    "check_operation",
    "hmac",
    "link",
    "note_hash",
    "read_entry",
]

Operation = Literal[
    "put", "supersede", "verify", "contest", "retract", "hold", "release", "delete", "erase",
    "export", "import", "key", "restore", "compact", "policy", "restrict", "vector", "sign",
]  # fmt: skip
OPERATIONS: frozenset[str] = frozenset(get_args(Operation))
STORING = frozenset(("put", "import", "restore"))
"""Operations whose grains can be found by the sequence numbers that they took."""

HEAD_RECORD = b"audit.head"
HEAD_VALUE = struct.Struct(">Q32s")
KEY_RECORD = b"audit.key"
NUMBER = struct.Struct(">Q")
KEY_BYTES = 32
HASH = 32
TAG = 16
SALT = 16
NOTHING = bytes(HASH)
"""The hash before the first entry."""
ENTRY_BYTES = 1 << 16
"""No entry is longer: a thousand tags, and texts that are bounded."""

_BLOCK = 64  # of SHA-256
_INNER = bytes(b ^ 0x36 for b in range(256))
_OUTER = bytes(b ^ 0x5C for b in range(256))

_KINDS: dict[str, type[Any]] = {
    "i": int, "t": int, "o": str, "a": str, "r": str, "m": bytes, "g": bytes, "n": int, "h": bytes,
    "s": int, "c": int, "d": dict, "k": bytes, "x": int,
}  # fmt: skip
_ALWAYS = {"i", "t", "o", "s", "c"}
_HASHES = ("m", "h", "k")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit trail.

    Attributes:
        number: from 1, without gaps.
        sound: the row could be read; otherwise all but the number is empty.
        time: ms since 1970.
        operation: what was done.
        actor: who did it.
        count: how many grains it is about.
        tags: the tags of their addresses; empty where many were put at once.
        batch_tag: one tag over all addresses then.
        reason_code: a word for the reason.
        note: the reason in words.
        note_erased: there was a note, and it is gone.
        details: what else is to be known of the operation; numbers and names.
        last_seq: the last sequence number of the store after it.
        grains: how many grains were in the store after it.
        notes_erased: how many notes of other entries it erased.
        hash: of this entry and, by those before it, of all of them.
    """

    number: int
    sound: bool = True
    time: int = 0
    operation: str = ""
    actor: str | None = None
    count: int = 0
    tags: tuple[bytes, ...] = ()
    batch_tag: bytes | None = None
    reason_code: str | None = None
    note: str | None = None
    note_erased: bool = False
    details: Mapping[str, int | str] = field(default_factory=dict)
    last_seq: int = 0
    grains: int = 0
    notes_erased: int = 0
    hash: str = ""


def check_operation(operation: str) -> None:
    """Refuse an operation that there is not.

    Raises:
        SchemaError: there is none of that name.
    """
    if operation not in OPERATIONS:
        expected = ", ".join(sorted(OPERATIONS))
        raise SchemaError("unknown operation", field="/operation", expected=expected)


@lru_cache(maxsize=8)
def _begun(key: bytes) -> tuple[Any, Any]:
    block = key.ljust(_BLOCK, b"\0")
    return sha256(block.translate(_INNER)), sha256(block.translate(_OUTER))


def hmac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104) under a key of 32 bytes.

    Hashes that have taken in the key are kept and copied: ``hmac.digest`` begins anew each time,
    which takes half as long again, and an entry of a single put is paid for in microseconds.
    """
    inner, outer = _begun(key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(message)
    outer.update(inner.digest())
    digest: bytes = outer.digest()
    return digest


def link(previous: bytes, body: bytes) -> bytes:
    """The hash of an entry that stands behind another."""
    return sha256(previous + body).digest()


def note_hash(row: bytes) -> bytes:
    """What an entry says of its note: salted, so that a short note cannot be guessed from it."""
    return sha256(row).digest()


def read_entry(row: bytes) -> dict[str, Any] | None:
    """Read the body of a row; None if it is not one."""
    if not HASH < len(row) <= ENTRY_BYTES:
        return None
    try:
        body = msgpack.unpackb(row[HASH:])
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError):
        return None
    if type(body) is not dict or not _ALWAYS <= body.keys():
        return None
    for name, value in body.items():  # loops and not generators: a trail has millions of entries
        if type(value) is not _KINDS.get(name):
            return None
    for name in _HASHES:
        if name in body and len(body[name]) != HASH:
            return None
    tags = body.get("g")
    if ("n" in body) != ("h" in body) or (tags is not None and (len(tags) % TAG or "n" in body)):
        return None
    for name, value in body.get("d", {}).items():
        if type(name) is not str or type(value) not in (int, str):
            return None
    return body
