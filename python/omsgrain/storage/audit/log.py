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

A tag is the HMAC-SHA256 of an address under a key that only this store has. So a copy of the trail
does not reveal which grains it is about. Entries contain no content of grains, because erasing it
would break the chain. A reason in words is a note in a row of its own, which can be erased.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, get_args

import msgpack

from omsgrain import _core
from omsgrain.errors import SchemaError, StoreError
from omsgrain.storage.base import Writer
from omsgrain.storage.tables import AUDIT, META, NOTES

Operation = Literal[
    "put", "supersede", "verify", "contest", "retract", "hold", "release", "delete", "erase",
    "export", "import", "key", "restore", "compact", "index", "policy", "restrict", "vector",
    "sign", "expire", "retain",
]  # fmt: skip
OPERATIONS: frozenset[str] = frozenset(get_args(Operation))
STORING = frozenset(("put", "import", "restore"))
"""Operations whose grains can be found by their sequence numbers."""
_TOGETHER = STORING | {"retain"}
"""Operations whose entries name single grains only if there are few."""

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
"""Maximum size of an entry: a thousand tags, and limited texts."""

_BLOCK = 64  # the block size of SHA-256
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
        sound: False if the row is damaged; then only ``number`` is set.
        time: ms since 1970.
        operation: the operation.
        actor: who performed it.
        count: number of grains concerned.
        tags: the tags of their addresses; empty for large batches.
        batch_tag: for a large batch, one tag over all addresses.
        reason_code: the reason, one word.
        note: the reason in words.
        note_erased: whether the note was erased.
        details: further facts about the operation, as numbers and names.
        last_seq: the last sequence number of the store after it.
        grains: number of grains in the store after it.
        notes_erased: number of notes of other entries that it erased.
        hash: the hash of this entry, which covers all entries before it.
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
    if operation not in OPERATIONS:
        expected = ", ".join(sorted(OPERATIONS))
        raise SchemaError("unknown operation", field="/operation", expected=expected)


@lru_cache(maxsize=8)
def _begun(key: bytes) -> tuple[Any, Any]:
    block = key.ljust(_BLOCK, b"\0")
    return sha256(block.translate(_INNER)), sha256(block.translate(_OUTER))


def hmac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104) under a key of 32 bytes.

    It copies hash states that already include the key. ``hmac.digest`` starts over each time and
    takes 1.5 times as long, which counts for the entry of a single put.
    """
    inner, outer = _begun(key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(message)
    outer.update(inner.digest())
    digest: bytes = outer.digest()
    return digest


def link(previous: bytes, body: bytes) -> bytes:
    """Return the hash of an entry that follows another."""
    return sha256(previous + body).digest()


def note_hash(row: bytes) -> bytes:
    """Return the hash of a note, salted so that a short note cannot be guessed."""
    return sha256(row).digest()


def unpack_entry(row: bytes) -> dict[str, Any] | None:
    """Unpack the body of a row; None if it is no map, or lacks what each has."""
    if not HASH < len(row) <= ENTRY_BYTES:
        return None
    try:
        body = msgpack.unpackb(row[HASH:])
    except (ValueError, TypeError):
        return None
    return body if type(body) is dict and _ALWAYS <= body.keys() else None


def read_entry(row: bytes) -> dict[str, Any] | None:
    """Parse the body of a row; None if it is invalid."""
    body = unpack_entry(row)
    if body is None:
        return None
    # Loops are faster than generators; a trail has millions of entries
    for name, value in body.items():
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


MOST_TAGS = 1_000
"""Maximum number of addresses with single tags in an entry. An operation on more grains is split
into several entries, or has one tag over all, which finds none of them."""

# Kept, because making a packer takes longer than packing an entry.
_pack: Callable[[object], bytes] = msgpack.Packer().pack
_MOST_STORED = 16  # more are found by their sequence numbers; a tag costs 2 us
_MOST_TEXT = 256
_MOST_DETAILS = 16
_MOST_NOTE = 1 << 16  # bytes
_NAME = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,256}")
_ACTOR = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,256}")
_KEY = re.compile(r"[a-z][a-z0-9_]{0,31}")


def append(
    writer: Writer,
    *,
    operation: str,
    actor: str | None,
    time: int,
    digests: Sequence[bytes] = (),
    reason_code: str | None = None,
    note: str | None = None,
    details: Mapping[str, int | str] | None = None,
) -> int:
    """Add an entry, as the last step in the transaction of its work; return its number.

    ``digests`` are the grains concerned; for a put or an import the new ones, in the order of the
    put. ``reason_code`` is one word; ``note`` says the reason in words, and can be erased later.
    ``details`` are numbers, and names without spaces.
    """
    return _append(writer, _body(operation, actor, time, reason_code, details), digests, note)


def _body(
    operation: str,
    actor: str | None,
    time: int,
    reason_code: str | None,
    details: Mapping[str, int | str] | None,
) -> dict[str, object]:
    if operation not in OPERATIONS:
        check_operation(operation)
    body: dict[str, object] = {"i": 0, "t": time, "o": operation}
    if actor is not None:
        if _ACTOR.fullmatch(actor) is None:
            raise SchemaError(
                "invalid actor", field="/actor", expected="a line of 1 to 256 characters"
            )
        body["a"] = actor
    if reason_code is not None:
        body["r"] = _name(reason_code, "/reason_code")
    if details:
        if len(details) > _MOST_DETAILS or not all(map(_KEY.fullmatch, details)):
            expected = f"at most {_MOST_DETAILS} names of a-z, 0-9 and _"
            raise SchemaError("invalid names of details", field="/details", expected=expected)
        body["d"] = {key: _detail(value, f"/details/{key}") for key, value in details.items()}
    return body


def _name(value: str, field: str) -> str:
    if _NAME.fullmatch(value) is None:
        expected = f"1 to {_MOST_TEXT} characters without spaces; use the note for a sentence"
        raise SchemaError("not one word", field=field, expected=expected)
    return value


def _detail(value: int | str, field: str) -> int | str:
    if type(value) is not int:
        return _name(str(value), field)
    if not -(2**63) <= value < 2**64:
        raise SchemaError("not a 64-bit integer", field=field)
    return value


def _append(
    writer: Writer, body: dict[str, object], digests: Sequence[bytes], note: str | None
) -> int:
    head = writer.row(META, HEAD_RECORD)
    key = writer.row(META, KEY_RECORD)
    if head is None:
        number, previous, key = 1, NOTHING, _begin(writer)
        body["k"] = sha256(key).digest()
    elif len(head) != HEAD_VALUE.size or key is None or len(key) != KEY_BYTES:
        raise StoreError("the record of the audit trail's end or of its key is damaged")
    else:
        number, previous = HEAD_VALUE.unpack(head)
        number += 1
    body["i"] = number
    count = len(digests)
    if count > (_MOST_STORED if body["o"] in _TOGETHER else MOST_TAGS):
        body["n"], body["h"] = count, hmac(key, b"".join(digests))
    elif count:
        body["g"] = b"".join(_core.tokens(key, list(digests)))
    place = NUMBER.pack(number)
    if note is not None:
        row = os.urandom(SALT) + note.encode("utf-8", "replace")
        if len(row) > _MOST_NOTE:
            raise SchemaError("the note is too long", field="/note", expected="at most 64 KiB")
        body["m"] = note_hash(row)
        writer.set_row(NOTES, place, row)
    body["s"], body["c"] = writer.last_seq(), writer.count()
    packed = _pack(body)
    digest = link(previous, packed)
    writer.set_row(AUDIT, place, digest + packed)
    writer.set_row(META, HEAD_RECORD, HEAD_VALUE.pack(number, digest))
    return number


def _begin(writer: Writer) -> bytes:
    """Create the key of the tags; refuse to overwrite a trail without its end."""
    if writer.last_row(AUDIT) is not None:
        raise StoreError("the record of the audit trail's end is missing")
    key = os.urandom(KEY_BYTES)
    writer.set_row(META, KEY_RECORD, key)
    return key


def erase_notes(
    writer: Writer,
    numbers: Iterable[int],
    *,
    actor: str | None,
    time: int,
    reason_code: str | None = None,
) -> int:
    """Erase the notes of entries; if there were any, add an entry. Return their number."""
    places = {NUMBER.pack(number) for number in numbers if 0 < number < 2**64}
    there = [place for place in places if writer.row(NOTES, place) is not None]
    for place in there:
        writer.set_row(NOTES, place, None)
    if there:
        body = _body("erase", actor, time, reason_code, None)
        body["x"] = len(there)
        _append(writer, body, (), None)
    return len(there)
