# SPDX-License-Identifier: Apache-2.0
"""Find the differences of two stores, by feed positions or by range-based set reconciliation.

A comparison is negentropy version 1. Items are ordered by the time of their grain, then by id:

    16 bytes   of the address, or of the mark of a tombstone
     8 bytes   of a digest of the state, the holds or the tombstone, with the first 16 bytes
     8 bytes   of a digest of the signers, with the first 16 bytes

Without a state or signers an id has zeros there.

So an id shows which grain it is about, and what of it differs. Two stores of a million grains that
differ in one grain find it in five steps of sixteen fingerprints each.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain, islice
from typing import Any, Final, TypeAlias, TypeVar

import blake3
import msgpack

from omsgrain import _core
from omsgrain.errors import IntegrityError, OmsError, RangeError, SchemaError, StoreError
from omsgrain.grain import Grain, stored_grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import DELETED, EVENTS, META, REMOVALS, SEQUENCE, TOMBSTONES, event_of
from omsgrain.sync import states
from omsgrain.sync.peer import (
    FRAME,
    HAS,
    ID,
    SHORT,
    START,
    Hello,
    Peer,
    Position,
    Reconciled,
    Space,
)

T = TypeVar("T")

PREFIX: Final = 16
"""Bytes of a key in an id."""
_STATE, _SIGNERS = PREFIX, PREFIX + states.VERSION
"""Where an id has its digests."""
_ID: Final = PREFIX + 2 * states.VERSION
_NONE = bytes(states.VERSION)
_DAMAGED = b"\xff" * states.VERSION
_ITEM = 48
"""About how many bytes of memory an item takes."""
_ROUNDS = 64
"""Responses in a row without a new id; two honest stores of any size need fewer."""
_MOST = 1 << 28
"""Bytes of ids that a comparison may find."""
_GRAIN = 6
"""About how many times as long as an id a grain is."""
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
        if any("\ud800" <= char <= "\udfff" for name in names for char in name):
            raise SchemaError("a namespace is no Unicode text", field="/namespaces")
        self._exact = frozenset(one for one in names if not one.endswith(_FAMILY))
        self._families = tuple(one[:-1] for one in names if one.endswith(_FAMILY))

    @property
    def everything(self) -> bool:
        """Whether no grain is left out."""
        return self.namespaces is None

    def numbers(self, reader: Reader, after: int, last: int) -> list[int] | None:
        """Return the numbers of its grains by the index; None where a scan is cheaper."""
        if self.namespaces is None or self._families or reader.raw is not reader:
            return None
        terms = [_core.term("namespace", name) for name in self.namespaces]
        if _WORTH * sum(reader.term_count(term) for term in terms) > last - after:
            return None
        places = (place for term in terms for place in reader.places(term, None, False))
        return sorted(int.from_bytes(place[12:], "big") for place in places)

    def count(self, reader: Reader) -> int:
        """Return the number of its grains, or of all grains where counting would be a scan."""
        if self.namespaces is None or self._families or reader.raw is not reader:
            return reader.count()
        return sum(reader.term_count(_core.term("namespace", name)) for name in self.namespaces)

    def has(self, name: str) -> bool:
        """Whether the grains of a namespace, or of a family of them, are in scope."""
        return name in self._exact or name.startswith(self._families or ("\0",))

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
        return isinstance(name, str) and self.has(name)


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
    except (ValueError, TypeError):
        raise StoreError("a row about an earlier sync is damaged") from None


Turn: TypeAlias = Callable[[bytes], Reconciled]
"""Answers a message of a comparison; an empty one begins it."""


def differences(first: Turn, second: Turn) -> tuple[bytes, bytes]:
    """Return the ids that only the first side has, and those that only the second has."""
    have, need, idle = bytearray(), bytearray(), 0
    message = first(b"").message
    while len(message) > 1:
        said = first(second(message).message)
        have += said.have
        need += said.need
        idle = 0 if said.have or said.need else idle + 1
        if idle > _ROUNDS:
            raise StoreError("the comparison with the other store makes no progress")
        if len(have) + len(need) > _MOST:
            raise RangeError(
                "the stores differ in too many grains: sync some namespaces at a time",
                expected=f"at most {_MOST // _ID}",
            )
        message = said.message
    return bytes(have), bytes(need)


def listed(peer: Peer, space: Space, hello: Hello) -> list[bytes]:
    """Return the short keys of all items: a comparison with a store that has none."""
    empty = _core.SyncItems()

    def first(message: bytes) -> Reconciled:
        if not message:
            return Reconciled(empty.initiate())
        return Reconciled(*empty.answer(message, True, FRAME))

    _, need = differences(first, lambda message: peer.reconcile(space, message, hello))
    return short_keys(need)


def short_keys(ids: bytes) -> list[bytes]:
    return [ids[at : at + SHORT] for at in range(0, len(ids), _ID)]


def sorted_out(ids: bytes, others: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return short keys of the grains to send, and of those whose states are enough.

    A grain is sent if the other side lacks it, or has other signers of it.
    """
    there = {
        others[at : at + PREFIX]: others[at + _SIGNERS : at + _ID]
        for at in range(0, len(others), _ID)
    }
    grains, changed = list[bytes](), list[bytes]()
    for at in range(0, len(ids), _ID):
        same = there.get(ids[at : at + PREFIX]) == ids[at + _SIGNERS : at + _ID]
        (changed if same else grains).append(ids[at : at + SHORT])
    return grains, changed


def pays(answers: bytes, sampled: int, other: int) -> bool:
    """Whether a comparison costs less than sending grains that both sides have.

    The answers are those of the other store about a sample of one; the numbers count their grains.
    """
    shared = answers.count(HAS) * sampled
    return shared * _GRAIN >= len(answers) * (sampled + other) and shared > 0


class ItemView:
    """The items of one snapshot, in the order of a comparison."""

    def __init__(self, last: int = 0) -> None:
        self.items = _core.SyncItems()
        self.last = last  # the end of the feed that it reaches

    @property
    def weight(self) -> int:
        return _ITEM * len(self.items)

    @property
    def digest(self) -> bytes:
        """The fingerprint of all items; empty without any."""
        return self.items.whole() if len(self.items) else b""


def view(
    reader: Reader, space: Space, scope: NamespaceScope, before: ItemView | None = None
) -> ItemView:
    """Make the view of a snapshot; a view of grains continues an earlier one."""
    if space == "grains":
        return _grains(reader, scope, before)
    found = ItemView(reader.last_seq())
    if space == "tombstones":
        stones = (states.tombstone_of(mark, row) for mark, row in reader.rows(TOMBSTONES))
        taken = (one for one in stones if scope.takes_hint(one.hint))
        for page in _paged((max(one.at, 0), one.mark, states.version(one)) for one in taken):
            found.items.add(page)
        return found
    held = ((seq, reader.blob_at(seq)) for seq in states.numbers(reader, states.HOLD_TABLES))
    open_ = ((seq, blob) for seq, blob in held if blob and scope.takes(reader, seq, blob))
    for rows in _paged(_with_holds(reader, open_)):
        found.items.add_blobs([seq for seq, _, _ in rows], [blob for _, blob, _ in rows])
        found.items.set_parts(_STATE, [(seq, version) for seq, _, version in rows])
    return found


def _with_holds(
    reader: Reader, grains: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the grains that have holds, with the version of these."""
    for seq, blob in grains:
        with suppress(IntegrityError):  # reading the grain reports the damage
            if held := states.reported_holds(reader, seq):
                yield seq, blob, states.version(held)


def _grains(reader: Reader, scope: NamespaceScope, before: ItemView | None) -> ItemView:
    changed = None if before is None else _changed(reader, before.last)
    if before is None or changed is None:
        before, changed = ItemView(), set()
    items, after, before.last = before.items, before.last, reader.last_seq()
    fresh = None if scope.everything else set[int]()
    for page in _pages(reader, scope, after, before.last):
        seqs = [seq for seq, _ in page]
        items.add_blobs(seqs, [blob for _, blob in page])
        if fresh is not None:
            fresh.update(seqs)
    later = states.numbers(reader, states.STATE_TABLES, after)
    numbers = chain(changed, (seq for seq in later if fresh is None or seq in fresh))
    for parts in _paged((seq, _state_part(reader, seq)) for seq in numbers):
        items.set_parts(_STATE, parts)
    again = ((seq, states.signers(reader, seq)) for seq in changed)
    for parts in _paged(chain(again, states.signed(reader, after))):
        items.set_parts(_SIGNERS, parts)
    return before


def _state_part(reader: Reader, seq: int) -> bytes:
    """Return the version of a state, or zeros."""
    blob = reader.blob_at(seq)
    if blob is None:
        return _NONE
    try:
        state = states.reported_state(reader, seq, sha256(blob).digest())
    except IntegrityError:
        return _DAMAGED  # so it is sent, which reports the damage
    return states.version(state) if state is not None and states.is_compared(state) else _NONE


def _paged(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while page := list(islice(rest, _PAGE)):
        yield page


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


def _changed(reader: Reader, after: int) -> set[int] | None:
    """Return the grains with an event after a number; None if a grain was removed."""
    if next(reader.rows(REMOVALS, SEQUENCE.pack(after)), None) is not None:
        return None
    found = set()
    for _, row in reader.rows(EVENTS, SEQUENCE.pack(after)):
        kind, seq, _ = event_of(row)
        if kind == DELETED:
            return None
        found.add(seq)
    return found
