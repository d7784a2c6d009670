# SPDX-License-Identifier: Apache-2.0
"""Where two stores differ: found by digests of ranges, a hexadecimal digit at a time.

Two stores of a million grains that differ in one say so in five steps of sixteen digests each. A
range of few items is listed instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Final

import blake3

from omsgrain import _core
from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import DELETED, EVENTS, SEQUENCE, TOMBSTONES, event_of
from omsgrain.sync import states
from omsgrain.sync.parts import NamespaceScope
from omsgrain.sync.peer import HAS, ITEMS, LACKS, Hello, Peer, Range, Space, SyncItem

_FEW = 32
"""Items of a range that are listed: sixteen ranges deeper would be about as many bytes."""
_SOME = 64
"""Grains that are asked for to tell whether two stores share any."""
_DIGITS = "0123456789abcdef"
_LISTED = 50 * ITEMS  # items asked for at once, about: a third of what may be


def differing(
    giver: Peer, taker: Peer, space: Space, asks: Hello, asked: Hello
) -> Iterator[Sequence[str]]:
    """Walk the ranges in which the giver may have what the taker has not, to be listed together.

    Args:
        giver: one side.
        taker: the other.
        space: of what.
        asks: who the taker is, for the giver.
        asked: who the giver is, for the taker.
    """
    few: list[tuple[str, int]] = []
    waiting = [""]
    while waiting:
        prefixes, waiting = waiting[:ITEMS], waiting[ITEMS:]
        theirs = giver.ranges(space, prefixes, asks)
        mine = taker.ranges(space, prefixes, asked)
        deeper = []
        for prefix, there, here in zip(prefixes, theirs, mine, strict=True):
            if there == here or not there.count:
                continue
            if there.count <= _FEW or _is_new(there, here):
                few.append((prefix, there.count))
            else:
                deeper += [prefix + digit for digit in _DIGITS]
        waiting = deeper + waiting
        while few and (not waiting or sum(count for _, count in few) >= _LISTED):
            together = [few.pop()]
            while few and sum(count for _, count in together) + few[-1][1] <= _LISTED:
                together.append(few.pop())
            yield [prefix for prefix, _ in together]


def _is_new(there: Range, here: Range) -> bool:
    """Whether the taker has nothing in a range that can be listed."""
    return not here.count and there.count <= _LISTED


def lacked(
    giver: Peer, taker: Peer, space: Space, asks: Hello, asked: Hello
) -> tuple[list[SyncItem], list[bytes]]:
    """Find what the giver has and the taker has not, or not so; arguments as ``differing``."""
    found: list[SyncItem] = []
    erased: list[bytes] = []
    for prefixes in differing(giver, taker, space, asks, asked):
        items = iter(giver.listing(space, prefixes, asks))
        while page := list(islice(items, ITEMS)):
            asked_for = [replace(item, seq=0) for item in page]
            for item, answer in zip(page, taker.lacking(space, asked_for), strict=True):
                if answer == LACKS:
                    found.append(item)
                elif answer != HAS:
                    erased.append(item.key)
    found.sort(key=lambda item: item.seq)
    return found, erased


def shares_none(giver: Peer, taker: Peer, grains: int, asks: Hello) -> bool:
    """Tell whether two stores that never met seem to have no grain in common.

    Some are asked for. Then the feed can be followed from its start, and costs no addresses.
    """
    prefix = ""
    while grains > _SOME * len(_DIGITS) ** len(prefix):
        prefix += "7"
    listed = giver.listing("grains", [prefix], asks)[:_SOME]
    items = [SyncItem(item.key) for item in listed]
    return bool(items) and set(taker.lacking("grains", items)) == {LACKS}


_KEY = 32
_VERSION = states.VERSION
_ITEM = _KEY + _VERSION + SEQUENCE.size
_NONE = bytes(_VERSION)
_DIGEST = 16
_HEX_DIGITS = frozenset("0123456789abcdef")
_PAGE: Final = 10_000


class ItemView:
    """The items of one snapshot.

    Attributes:
        last: the end of the feed that it reaches to.
        weight: bytes of its items, as ``view`` gave it.
    """

    def __init__(self, *, versioned: bool) -> None:
        self.last = self.weight = 0
        self._shelves: dict[int, bytearray] = {}  # by the first byte of their keys
        self._unsorted: set[int] = set()
        self._versioned = versioned

    def add(self, key: bytes, version: bytes, seq: int) -> None:
        """Add an item whose key is not there yet."""
        shelf = self._shelves.setdefault(key[0], bytearray())
        shelf += key + version + SEQUENCE.pack(seq)
        self._unsorted.add(key[0])

    def weigh(self) -> None:
        """Note how many bytes there are by now."""
        self.weight = sum(map(len, self._shelves.values()))

    def range(self, prefix: str) -> Range:
        """Return the range of the keys that begin with some hexadecimal digits."""
        whole, count = blake3.blake3(), 0
        end = _KEY + _VERSION if self._versioned else _KEY
        for items in self._under(prefix):
            count += len(items) // _ITEM
            for at in range(0, len(items), _ITEM):
                whole.update(items[at : at + end])
        return Range(count, whole.digest(_DIGEST))

    def items(self, prefix: str) -> Iterator[SyncItem]:
        """Walk the items whose keys begin with some digits; errors as of ``range``."""
        for items in self._under(prefix):
            for at in range(0, len(items), _ITEM):
                key, rest = items[at : at + _KEY], items[at + _KEY : at + _ITEM]
                version = rest[:_VERSION] if self._versioned else b""
                yield SyncItem(bytes(key), bytes(version), SEQUENCE.unpack(rest[_VERSION:])[0])

    def _under(self, prefix: str) -> Iterator[bytearray]:
        if len(prefix) > 2 * _KEY or not _HEX_DIGITS.issuperset(prefix):
            raise SchemaError("not the beginning of an address", expected="hexadecimal digits")
        low, high = (int(prefix.ljust(2, end)[:2], 16) for end in "0f")
        for shelf in sorted(one for one in self._shelves if low <= one <= high):
            items = self._in_order(shelf)
            if len(prefix) <= 2:
                yield items
                continue
            first, last = (bytes.fromhex(prefix.ljust(2 * _KEY, end)) for end in "0f")
            begin = _place(items, first)
            finish = _place(items, last)
            finish += items[finish * _ITEM : finish * _ITEM + _KEY] == last
            yield items[begin * _ITEM : finish * _ITEM]

    def _in_order(self, shelf: int) -> bytearray:
        if shelf in self._unsorted:
            items = self._shelves[shelf]
            parts = sorted(bytes(items[at : at + _ITEM]) for at in range(0, len(items), _ITEM))
            self._shelves[shelf] = bytearray().join(parts)
            self._unsorted.discard(shelf)
        return self._shelves[shelf]


def _place(items: bytearray, key: bytes) -> int:
    """How many items have lower keys."""
    count = len(items) // _ITEM
    return bisect_left(range(count), key, key=lambda i: bytes(items[i * _ITEM : i * _ITEM + _KEY]))


def view(
    reader: Reader, space: Space, scope: NamespaceScope, before: ItemView | None = None
) -> ItemView:
    """Make the view of a snapshot."""
    found = _grains(reader, scope, before) if space == "grains" else _told(reader, space, scope)
    found.weigh()
    return found


def _told(reader: Reader, space: Space, scope: NamespaceScope) -> ItemView:
    """The view of what is told of grains, or of what was erased."""
    found = ItemView(versioned=True)
    found.last = reader.last_seq()
    if space == "tombstones":
        for mark, row in reader.rows(TOMBSTONES):
            stone = states.tombstone_of(mark, row)
            if scope.takes_hint(stone.hint):
                found.add(mark, states.version(stone), 0)
        return found
    if space == "signatures":
        for seq, version in states.signed(reader):
            blob = reader.blob_at(seq)
            if blob is not None and scope.takes(reader, seq, blob):
                found.add(sha256(blob).digest(), version, seq)
        return found
    for seq in states.numbers(reader, space):
        blob = reader.blob_at(seq)
        if blob is None or not scope.takes(reader, seq, blob):
            continue
        address = sha256(blob).digest()
        try:
            told = _version(reader, space, seq, address)
        except IntegrityError:
            continue  # whoever gives it tells the damage
        if told is not None:
            found.add(address, told, seq)
    return found


def _version(reader: Reader, space: Space, seq: int, address: bytes) -> bytes | None:
    """What tells a state, or holds, from others; None where there are none."""
    if space == "holds":
        held = states.holds_told(reader, seq)
        return states.version(held) if held else None
    told = states.state_told(reader, seq, address)
    return states.version(told) if told is not None and states.is_compared(told) else None


def _grains(reader: Reader, scope: NamespaceScope, before: ItemView | None) -> ItemView:
    if before is None or _was_removed(reader, before.last):
        before = ItemView(versioned=False)
    last = reader.last_seq()
    after, before.last = before.last, last
    for page in _pages(reader, scope, after, last):
        digests = _core.address_many([blob for _, blob in page])
        for (seq, _), address in zip(page, digests, strict=True):
            before.add(bytes.fromhex(address), _NONE, seq)
    return before


def _pages(
    reader: Reader, scope: NamespaceScope, after: int, last: int
) -> Iterator[list[tuple[int, bytes]]]:
    """Walk the grains of some namespaces that came after a number."""
    chosen = scope.numbers(reader, after, last)
    for seq in chosen or ():
        if seq > after and (blob := reader.blob_at(seq)) is not None:
            yield [(seq, blob)]
    while chosen is None and (page := reader.page(after, _PAGE)):
        after = page[-1][0]
        if not scope.everything:
            page = [(seq, blob) for seq, blob in page if scope.takes(reader, seq, blob)]
        yield page


def _was_removed(reader: Reader, after: int) -> bool:
    """Whether any grain was removed since a number was given."""
    rows: Sequence[tuple[bytes, bytes]]
    while rows := list(islice(reader.rows(EVENTS, SEQUENCE.pack(after)), _PAGE)):
        if any(event_of(row)[0] == DELETED for _, row in rows):
            return True
        (after,) = SEQUENCE.unpack(rows[-1][0])
    return False
