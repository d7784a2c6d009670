# SPDX-License-Identifier: Apache-2.0
"""Find the differences of two stores, by feed positions or by digests of ranges.

Ranges are compared one hexadecimal digit at a time. Two stores of a million grains that differ in
one grain find it in five steps of sixteen digests each. A short range is listed instead.
"""

from __future__ import annotations

import os
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Any, Final, TypeAlias

import blake3
import msgpack

from omsgrain import _core
from omsgrain.errors import IntegrityError, OmsError, SchemaError, StoreError
from omsgrain.grain import Grain, stored_grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage.base import KeyedReader, Reader, Writer
from omsgrain.storage.tables import DELETED, EVENTS, META, REMOVALS, SEQUENCE, TOMBSTONES, event_of
from omsgrain.sync import protocol, states
from omsgrain.sync.peer import (
    HAS,
    ID,
    ITEMS,
    KEY,
    LACKS,
    START,
    Hello,
    Peer,
    Position,
    Range,
    Space,
    SyncItem,
)

_FEW = 32
"""Items of a range that is listed: sixteen ranges of the next digit take as many bytes."""
_SOME = 64
"""The size of the sample that shows whether two stores share any grain."""
_DIGITS = "0123456789abcdef"
_LISTED = 50 * ITEMS  # about how many items are listed at once, half of the limit of a peer
_VERSION = states.VERSION
_ITEM = KEY + _VERSION + SEQUENCE.size
_NONE = bytes(_VERSION)
_DIGEST = 16
_PAGE: Final = 10_000
_FAMILY = ":*"
_WORTH = 4
"""The index pays only if this many times more grains arrived than the scope has."""
_STORE_ID = b"sync.id"
_SEEN = b"sync.seen."
_FOLLOWED = b"sync.followed."
_CAME = b"sync.came."
_SHORT = 8
_BACK = 64  # how many numbers to look back for a row
Spans: TypeAlias = list[tuple[int, int]]
"""First and last numbers, both inclusive, rising."""


class NamespaceScope:
    """A choice of namespaces."""

    __slots__ = ("_exact", "_families", "namespaces")

    def __init__(self, namespaces: Iterable[str] | None) -> None:
        if isinstance(namespaces, str):
            raise SchemaError(
                "expected a list of namespaces", field="/namespaces", found="one text"
            )
        self.namespaces = None if namespaces is None else tuple(sorted(set(namespaces)))
        names = self.namespaces or ()
        if self.namespaces == () or not all(isinstance(one, str) and one for one in names):
            raise SchemaError("no namespaces given", field="/namespaces")
        self._exact = frozenset(one for one in names if not one.endswith(_FAMILY))
        self._families = tuple(one[:-1] for one in names if one.endswith(_FAMILY))

    @property
    def everything(self) -> bool:
        """Whether no grain is left out."""
        return self.namespaces is None

    def numbers(self, reader: Reader, after: int, last: int) -> list[int] | None:
        """Return the numbers of its grains by the index; None where a scan is cheaper."""
        if self.namespaces is None or self._families or isinstance(reader, KeyedReader):
            return None
        terms = [_core.term("namespace", name) for name in self.namespaces]
        if _WORTH * sum(reader.term_count(term) for term in terms) > last - after:
            return None
        places = (place for term in terms for place in reader.places(term, None, False))
        return sorted(int.from_bytes(place[12:], "big") for place in places)

    def takes_hint(self, hint: bytes) -> bool:
        """Whether an erased grain may have been in scope, by the hash of its namespace."""
        if self.namespaces is None or self._families or not hint:
            return True
        names = (unicodedata.normalize("NFC", name).encode("utf-8") for name in self._exact)
        return any(sha256(name).digest()[: len(hint)] == hint for name in names)

    def takes(self, reader: Reader, seq: int, blob: bytes) -> bool:
        """Whether a grain is in scope; an encrypted grain that cannot be opened is not."""
        if self.namespaces is None:
            return True
        grain: Grain | None
        if blob[1] & ENCRYPTED_BIT:
            try:
                grain = reader.grain(seq)
            except StoreError:
                raise
            except OmsError:  # its key was destroyed
                return False
            if grain is None or grain.sealed:
                return False
        else:
            grain = stored_grain(blob, "")
        name = grain.get("namespace")
        return isinstance(name, str) and (
            name in self._exact or name.startswith(self._families or ("\0",))
        )


def store_id(reader: Reader) -> bytes | None:
    """Return the id of a store; None before its first sync."""
    return reader.row(META, _STORE_ID)


def identify(writer: Writer) -> bytes:
    """Return the id of a store; create it if there is none."""
    found = store_id(writer)
    if found is None:
        found = os.urandom(ID)
        writer.set_row(META, _STORE_ID, found)
    return found


def seen(reader: Reader, store: bytes, namespaces: Sequence[str] | None) -> Position | None:
    """Return how far the feed of another store was read."""
    row = reader.row(META, _SEEN + store + _scope(namespaces))
    return None if row is None else Position(*_read(row))


def see(
    writer: Writer, store: bytes, namespaces: Sequence[str] | None, position: Position
) -> None:
    """Remember how far the feed of another store was read."""
    packed = msgpack.packb([position.seq, position.mark])
    writer.set_row(META, _SEEN + store + _scope(namespaces), packed)


def followed(reader: Reader, store: bytes, namespaces: Sequence[str] | None) -> bytes:
    """Return the digest of another store's tombstones when all were read, or empty bytes."""
    return reader.row(META, _FOLLOWED + store + _scope(namespaces)) or b""


def follow(writer: Writer, store: bytes, namespaces: Sequence[str] | None, digest: bytes) -> None:
    """Remember that all tombstones of another store were read."""
    writer.set_row(META, _FOLLOWED + store + _scope(namespaces), digest)


def came(reader: Reader, store: bytes) -> Spans:
    """Return the numbers of the rows that came from another store."""
    row = reader.row(META, _CAME + store)
    return [] if row is None or not store else [(first, last) for first, last in _read(row)]


def add_came(writer: Writer, store: bytes, fresh: Spans, taken: Position | None) -> None:
    end = START.seq if taken is None else taken.seq
    spans: Spans = []
    for first, last in (*came(writer, store), *fresh):
        if last <= end or last < first:
            continue
        if spans and spans[-1][1] + 1 >= first:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    writer.set_row(META, _CAME + store, msgpack.packb(spans) if spans else None)


def mark_at(reader: Reader, seq: int) -> bytes:
    """Return a digest of the row at a number, or of the nearest row before it; empty if too far.

    A store restored from a backup has another history, and so another digest.
    """
    for at in range(seq, max(seq - _BACK, 0), -1):
        key = SEQUENCE.pack(at)
        row = reader.row(EVENTS, key) or reader.row(REMOVALS, key) or reader.blob_at(at)
        if row is not None:
            return blake3.blake3(SEQUENCE.pack(at) + row).digest(_SHORT)
    return b""


def _scope(namespaces: Sequence[str] | None) -> bytes:
    if namespaces is None:
        return b""
    return blake3.blake3(msgpack.packb(sorted(set(namespaces)))).digest(_SHORT)


def _read(row: bytes) -> Iterator[Any]:
    try:
        return iter(msgpack.unpackb(row, use_list=False))
    except (ValueError, TypeError, msgpack.UnpackException):
        raise StoreError("a row about an earlier sync is damaged") from None


def differing(
    giver: Peer, taker: Peer, space: Space, asks: Hello, asked: Hello
) -> Iterator[Sequence[str]]:
    """Yield prefixes of ranges in which the sender may have items that the receiver lacks."""
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
            lacks_all = not here.count and there.count <= _LISTED
            if there.count <= _FEW or lacks_all:
                few.append((prefix, there.count))
            else:
                deeper += [prefix + digit for digit in _DIGITS]
        waiting = deeper + waiting
        while few and (not waiting or sum(count for _, count in few) >= _LISTED):
            together = [few.pop()]
            while few and sum(count for _, count in together) + few[-1][1] <= _LISTED:
                together.append(few.pop())
            yield [prefix for prefix, _ in together]


def lacked(
    giver: Peer, taker: Peer, space: Space, asks: Hello, asked: Hello
) -> tuple[list[SyncItem], list[bytes]]:
    """Find items that the receiver lacks or has in another version, and those it erased."""
    found: list[SyncItem] = []
    erased: list[bytes] = []
    for prefixes in differing(giver, taker, space, asks, asked):
        items = iter(giver.listing(space, prefixes, asks))
        while page := list(islice(items, ITEMS)):
            asked_for = [replace(item, seq=0) for item in page]
            for item, answer in zip(page, taker.missing(space, asked_for), strict=True):
                if answer == LACKS:
                    found.append(item)
                elif answer != HAS:
                    erased.append(item.key)
    found.sort(key=lambda item: item.seq)
    return found, erased


def shares_none(giver: Peer, taker: Peer, grains: int, asks: Hello) -> bool:
    """Whether two stores that never synced seem to share no grain, by a sample.

    Then the feed is read from its start, which costs no addresses.
    """
    prefix = ""
    while grains > _SOME * len(_DIGITS) ** len(prefix):
        prefix += "7"
    listed = giver.listing("grains", [prefix], asks)[:_SOME]
    items = [SyncItem(item.key) for item in listed]
    return bool(items) and set(taker.missing("grains", items)) == {LACKS}


class ItemView:
    """The items of one snapshot."""

    def __init__(self, *, versioned: bool) -> None:
        self.last = 0  # the end of the feed that it reaches
        self.weight = 0  # bytes of its items, when ``view`` returned it
        self._shelves: dict[int, bytearray] = {}  # by the first byte of their keys
        self._unsorted: set[int] = set()
        self._versioned = versioned

    def add(self, key: bytes, version: bytes, seq: int) -> None:
        """Add an item with a new key."""
        shelf = self._shelves.setdefault(key[0], bytearray())
        shelf += key + version + SEQUENCE.pack(seq)
        self._unsorted.add(key[0])

    def weigh(self) -> None:
        self.weight = sum(map(len, self._shelves.values()))

    def range(self, prefix: str) -> Range:
        whole, count = blake3.blake3(), 0
        end = KEY + _VERSION if self._versioned else KEY
        for items in self._under(prefix):
            count += len(items) // _ITEM
            for at in range(0, len(items), _ITEM):
                whole.update(items[at : at + end])
        return Range(count, whole.digest(_DIGEST))

    def items(self, prefix: str) -> Iterator[SyncItem]:
        for items in self._under(prefix):
            for at in range(0, len(items), _ITEM):
                key, rest = items[at : at + KEY], items[at + KEY : at + _ITEM]
                version = rest[:_VERSION] if self._versioned else b""
                yield SyncItem(bytes(key), bytes(version), SEQUENCE.unpack(rest[_VERSION:])[0])

    def _under(self, prefix: str) -> Iterator[bytearray]:
        protocol.check_prefixes([prefix])
        low, high = (int(prefix.ljust(2, end)[:2], 16) for end in "0f")
        for shelf in sorted(one for one in self._shelves if low <= one <= high):
            items = self._in_order(shelf)
            if len(prefix) <= 2:
                yield items
                continue
            first, last = (bytes.fromhex(prefix.ljust(2 * KEY, end)) for end in "0f")
            begin = _place(items, first)
            finish = _place(items, last)
            finish += items[finish * _ITEM : finish * _ITEM + KEY] == last
            yield items[begin * _ITEM : finish * _ITEM]

    def _in_order(self, shelf: int) -> bytearray:
        if shelf in self._unsorted:
            items = self._shelves[shelf]
            parts = sorted(bytes(items[at : at + _ITEM]) for at in range(0, len(items), _ITEM))
            self._shelves[shelf] = bytearray().join(parts)
            self._unsorted.discard(shelf)
        return self._shelves[shelf]


def _place(items: bytearray, key: bytes) -> int:
    """Return how many items have a lower key."""
    count = len(items) // _ITEM
    return bisect_left(range(count), key, key=lambda i: bytes(items[i * _ITEM : i * _ITEM + KEY]))


def view(
    reader: Reader, space: Space, scope: NamespaceScope, before: ItemView | None = None
) -> ItemView:
    found = _grains(reader, scope, before) if space == "grains" else _others(reader, space, scope)
    found.weigh()
    return found


def _others(reader: Reader, space: Space, scope: NamespaceScope) -> ItemView:
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
            latest = _version(reader, space, seq, address)
        except IntegrityError:
            continue  # reading the grain reports the damage
        if latest is not None:
            found.add(address, latest, seq)
    return found


def _version(reader: Reader, space: Space, seq: int, address: bytes) -> bytes | None:
    """Return the version of a state or of holds; None without any."""
    if space == "holds":
        held = states.reported_holds(reader, seq)
        return states.version(held) if held else None
    state = states.reported_state(reader, seq, address)
    return states.version(state) if state is not None and states.is_compared(state) else None


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
    """Whether any grain was removed after a number."""
    if next(reader.rows(REMOVALS, SEQUENCE.pack(after)), None) is not None:
        return True
    rows: Sequence[tuple[bytes, bytes]]
    while rows := list(islice(reader.rows(EVENTS, SEQUENCE.pack(after)), _PAGE)):
        if any(event_of(row)[0] == DELETED for _, row in rows):
            return True
        (after,) = SEQUENCE.unpack(rows[-1][0])
    return False
