# SPDX-License-Identifier: Apache-2.0
"""Negentropy v1 in plain Python, written from its specification: an oracle for the core.

https://github.com/hoytech/negentropy/blob/master/docs/negentropy-protocol-v1.md

An item is ``(timestamp, id)``. A range is ``(end, mode, payload)``; its end is ``(timestamp,
prefix of an id)``, and the next range begins there. The specification leaves open how a range is
split. This follows the reference: sixteen parts, and a list below 32 items.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

Item: TypeAlias = tuple[int, bytes]
Bound: TypeAlias = tuple[int, bytes]
Range: TypeAlias = tuple[Bound, int, Any]

VERSION = 0x61
SKIP, FINGERPRINT, LIST = 0, 1, 2
INFINITY = 2**64 - 1
_PARTS = 16


def varint(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))


def fingerprint(ids: Sequence[bytes]) -> bytes:
    total = sum(int.from_bytes(one, "little") for one in ids) % 2**256
    return sha256(total.to_bytes(32, "little") + varint(len(ids))).digest()[:16]


def pack(ranges: Iterable[Range]) -> bytes:
    """Encode a message."""
    out, before = bytearray([VERSION]), 0
    for (time, prefix), mode, payload in ranges:
        out += varint(0 if time == INFINITY else 1 + time - before)
        before = time
        out += varint(len(prefix)) + prefix + varint(mode)
        if mode == FINGERPRINT:
            out += payload
        elif mode == LIST:
            out += varint(len(payload)) + b"".join(payload)
    return bytes(out)


def unpack(data: bytes) -> list[Range]:
    """Decode a message; refuse what ``pack`` cannot have written."""
    at, before, found = 1, 0, list[Range]()

    def exactly(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            raise ValueError("the message ends too early")
        at += size
        return data[at - size : at]

    def number() -> int:
        value = 0
        while True:
            (byte,) = exactly(1)
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value

    if data[:1] != bytes([VERSION]):
        raise ValueError("not version 1")
    while at < len(data):
        time = number()
        before = INFINITY if time == 0 else before + time - 1
        prefix, mode = exactly(number()), number()
        payload: Any = None
        if mode == FINGERPRINT:
            payload = exactly(16)
        elif mode == LIST:
            payload = [exactly(32) for _ in range(number())]
        elif mode != SKIP:
            raise ValueError("no such mode")
        found.append(((before, prefix), mode, payload))
    return found


class Side:
    """One side of a reconciliation, with all of its items in memory."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = sorted(set(items))
        self.have: set[bytes] = set()
        self.need: set[bytes] = set()

    def initiate(self) -> bytes:
        return pack(self._split(0, len(self.items), (INFINITY, b"")))

    def respond(self, message: bytes) -> bytes:
        """Answer the message of an initiator."""
        return self._answer(message, initiator=False)

    def reconcile(self, message: bytes) -> bytes | None:
        """Read an answer; return the next message, or None at the end."""
        answer = self._answer(message, initiator=True)
        return answer if len(answer) > 1 else None

    def _answer(self, message: bytes, *, initiator: bool) -> bytes:
        out, begin, skipped = list[Range](), 0, False
        before: Bound = (0, b"")
        for end, mode, payload in unpack(message):
            stop = max(begin, bisect_left(self.items, end))
            ids = [one for _, one in self.items[begin:stop]]
            fresh: list[Range] = []
            if mode == LIST and initiator:
                self.have |= set(ids) - set(payload)
                self.need |= set(payload) - set(ids)
            elif mode == LIST:
                fresh = [(end, LIST, ids)]
            elif mode == FINGERPRINT and fingerprint(ids) != payload:
                fresh = self._split(begin, stop, end)
            if fresh and skipped:
                out.append((before, SKIP, None))
            skipped = not fresh
            out += fresh
            begin, before = stop, end
        return pack(out)

    def _split(self, begin: int, stop: int, end: Bound) -> list[Range]:
        count = stop - begin
        if count < 2 * _PARTS:
            return [(end, LIST, [one for _, one in self.items[begin:stop]])]
        found, at = list[Range](), begin
        for part in range(_PARTS):
            size = count // _PARTS + (part < count % _PARTS)
            digest = fingerprint([one for _, one in self.items[at : at + size]])
            at += size
            found.append((end if at == stop else self._between(at), FINGERPRINT, digest))
        return found

    def _between(self, at: int) -> Bound:
        """The shortest bound between an item and the one before it."""
        (before, low), (time, high) = self.items[at - 1], self.items[at]
        if time != before:
            return time, b""
        same = next(i for i in range(32) if low[i] != high[i])
        return time, high[: same + 1]


def run(left: Iterable[Item], right: Iterable[Item]) -> tuple[set[bytes], set[bytes], int, int]:
    """What only the left has, what only the right has; bytes and messages that crossed."""
    client, server = Side(left), Side(right)
    message: bytes | None = client.initiate()
    size = count = 0
    while message is not None:
        answer = server.respond(message)
        size, count = size + len(message) + len(answer), count + 2
        message = client.reconcile(answer)
    return client.have, client.need, size, count
