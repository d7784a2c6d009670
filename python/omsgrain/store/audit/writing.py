# SPDX-License-Identifier: Apache-2.0
"""Adding to the audit trail."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgpack

from omsgrain.errors import SchemaError, StoreError
from omsgrain.store.audit.entry import (
    HEAD_RECORD,
    HEAD_VALUE,
    KEY_BYTES,
    KEY_RECORD,
    NOTHING,
    NUMBER,
    SALT,
    STORING,
    TAG,
    check_operation,
    hmac,
    link,
    note_hash,
)
from omsgrain.store.base import Writer
from omsgrain.store.tables import AUDIT, META, NOTES

__all__ = ["MOST_TAGS", "append", "erase_notes"]

MOST_TAGS = 1_000
"""Addresses that an entry can tag one by one; an operation on more is split into several entries,
or has one tag over all, by which none of them is found again."""

_MOST_STORED = 16  # these are found by their sequence numbers, and a tag costs 2 us
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
    """Add an entry, in the transaction of its work and after all else in it.

    Args:
        writer: the transaction; what it holds now is what the entry says the store held.
        operation: what was done, one of ``OPERATIONS``.
        actor: who did it: a DID, a user, a service.
        time: ms since 1970.
        digests: the grains that it is about; of a put and an import those that were new, in the
            order in which they were put.
        reason_code: a word for the reason.
        note: the reason in words, which can be erased later.
        details: what else is to be known; numbers, and names without white space.

    Returns:
        The number of the entry.

    Raises:
        SchemaError: an operation that there is not, or a text that does not belong in the chain.
        StoreError: the end of the chain, or the key of its tags, is damaged or gone.
    """
    return _append(writer, _body(operation, actor, time, reason_code, details), digests, note)


def _body(
    operation: str,
    actor: str | None,
    time: int,
    reason_code: str | None,
    details: Mapping[str, int | str] | None,
) -> dict[str, object]:
    check_operation(operation)
    body: dict[str, object] = {"i": 0, "t": time, "o": operation}
    if actor is not None:
        if _ACTOR.fullmatch(actor) is None:
            raise SchemaError("not a name", field="/actor", expected="a line of 1 to 256 letters")
        body["a"] = actor
    if reason_code is not None:
        body["r"] = _name(reason_code, "/reason_code")
    if details:
        if len(details) > _MOST_DETAILS or not all(map(_KEY.fullmatch, details)):
            expected = f"{_MOST_DETAILS} names at the most, of a-z, 0-9 and _"
            raise SchemaError("not the names of details", field="/details", expected=expected)
        body["d"] = {key: _detail(value, f"/details/{key}") for key, value in details.items()}
    return body


def _name(value: str, field: str) -> str:
    if _NAME.fullmatch(value) is None:
        expected = f"1 to {_MOST_TEXT} letters without white space; prose belongs in the note"
        raise SchemaError("not a word for the audit trail", field=field, expected=expected)
    return value


def _detail(value: int | str, field: str) -> int | str:
    if type(value) is not int:
        return _name(str(value), field)
    if not -(2**63) <= value < 2**64:
        raise SchemaError("not a number of 64 bits", field=field)
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
        raise StoreError("the end of the audit trail, or the key of its tags, is damaged")
    else:
        number, previous = HEAD_VALUE.unpack(head)
        number += 1
    body["i"] = number
    count = len(digests)
    if count == 1:
        body["g"] = hmac(key, digests[0])[:TAG]
    elif count > (_MOST_STORED if body["o"] in STORING else MOST_TAGS):
        body["n"], body["h"] = count, hmac(key, b"".join(digests))
    elif count:
        body["g"] = b"".join([hmac(key, digest)[:TAG] for digest in digests])
    place = NUMBER.pack(number)
    if note is not None:
        row = os.urandom(SALT) + note.encode("utf-8", "replace")
        if len(row) > _MOST_NOTE:
            raise SchemaError("the note is too long", field="/note", expected="64 KiB at the most")
        body["m"] = note_hash(row)
        writer.set_row(NOTES, place, row)
    body["s"], body["c"] = writer.last_seq(), writer.count()
    packed: bytes = msgpack.packb(body)
    digest = link(previous, packed)
    writer.set_row(AUDIT, place, digest + packed)
    writer.set_row(META, HEAD_RECORD, HEAD_VALUE.pack(number, digest))
    return number


def _begin(writer: Writer) -> bytes:
    """Make the key of the tags; an old trail that lost its end is not written over."""
    if writer.last_row(AUDIT) is not None:
        raise StoreError("there is an audit trail, and the record of its end is gone")
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
    """Erase the notes of entries, and add an entry that says how many.

    Returns:
        How many notes there were to erase; with none, no entry is added.
    """
    places = {NUMBER.pack(number) for number in numbers if 0 < number < 2**64}
    there = [place for place in places if writer.row(NOTES, place) is not None]
    for place in there:
        writer.set_row(NOTES, place, None)
    if there:
        body = _body("erase", actor, time, reason_code, None)
        body["x"] = len(there)
        _append(writer, body, (), None)
    return len(there)
