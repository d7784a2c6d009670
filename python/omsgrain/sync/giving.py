# SPDX-License-Identifier: Apache-2.0
"""Batches out of a store: what came after a position, or what was asked for by its key.

Every grain comes with its state, so that a restricted one arrives restricted, and with the states
of those that it superseded, since only superseding can store some.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from omsgrain.engine import leaving
from omsgrain.engine.moving import in_envelopes
from omsgrain.errors import IntegrityError, OmsError, StoreError, UnsupportedError
from omsgrain.grain import Grain
from omsgrain.header import COMPRESSED_BIT, ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.store.base import PAGE_GRAINS, Reader
from omsgrain.store.tables import (
    DELETED,
    EMBEDDED,
    EVENTS,
    RESTRICTED,
    SEQUENCE,
    SIGNED,
    TOMBSTONES,
    event_of,
)
from omsgrain.sync import records, states
from omsgrain.sync.bounds import PLACE
from omsgrain.sync.peer import (
    ITEMS,
    START,
    Batch,
    GrainState,
    Hello,
    Position,
    Refusal,
    Space,
)
from omsgrain.sync.scope import Scope

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings
    from omsgrain.privacy import Purpose

__all__ = ["changes", "give"]

_KEY: Final = 32
_TOLD: Final = 2 << 20
"""Bytes of states in a batch, about: as Python objects they take many times as much."""
_PROFILE: Final = b"profile:"
_SHARING: Final = leaving.SHARING.encode()
_HOUSE: Final = ("move", "access")
"""Purposes for which restricted grains go along."""

Row = tuple[int, bytes, bytes]
"""A number of the feed, the blob that stands there, and the event that does; one is empty."""


def changes(
    reader: Reader, settings: Settings, since: Position, hello: Hello, size: int, purpose: Purpose
) -> Batch:
    """Make the batch of what came after a position of the feed.

    Args:
        reader: a snapshot.
        settings: of the handle.
        since: the position.
        hello: who asks; what came from there is left out.
        size: bytes of grains, about; 0: only look whether the position is known.
        purpose: why they leave, for the rules of presets and profiles.
    """
    own = records.store_id(reader) or b""
    last = reader.last_seq()
    if since != START and (
        since.seq > last or not since.mark or records.mark_at(reader, since.seq) != since.mark
    ):
        return Batch(own, hello.namespaces, known=False)
    scope = Scope(hello.namespaces)
    packing = _Packing(reader, settings, scope, purpose, size)
    spans, at = records.came(reader, hello.store), since.seq
    chosen = scope.numbers(reader, at, last) if size else None
    while at < last and not packing.is_full:
        begin = at
        rows, at = _rows(reader, at, last, spans, chosen)
        packing.storied = None if chosen is not None else states.storied(reader, begin, at)
        for seq, blob, event in rows:
            if packing.is_full:
                break
            if blob:
                packing.grain(seq, blob)
            else:
                packing.event(event)
            done = seq
        else:
            done = at
        at = done
    until = None if at == since.seq else Position(at, records.mark_at(reader, at))
    taken = records.seen(reader, hello.store, hello.namespaces) if hello.store else None
    more, rest = at < last, packing.rest
    return packing.batch(own, hello, until=until, taken=taken, rest=rest, more=more)


def give(
    reader: Reader,
    settings: Settings,
    space: Space,
    keys: Sequence[bytes],
    hello: Hello,
    size: int,
    purpose: Purpose,
) -> Batch:
    """Make the batch of some items; grains come in order of arrival. Arguments as ``changes``."""
    own = records.store_id(reader) or b""
    if space == "tombstones":
        rows = ((key, reader.row(TOMBSTONES, key)) for key in keys)
        stones = tuple(states.tombstone_of(key, row) for key, row in rows if row is not None)
        return Batch(own, hello.namespaces, tombstones=stones)
    packing = _Packing(reader, settings, Scope(hello.namespaces), purpose, size)
    below: Reader = getattr(reader, "inner", reader)
    found = zip(below.find([key[:_KEY] for key in keys]), keys, strict=True)
    seqs = sorted((seq, key) for seq, key in found if seq is not None)
    rest: list[bytes] = []
    for seq, key in seqs:
        if packing.is_full:
            rest.append(key)
        elif space in ("grains", "signatures"):
            packing.grain(seq, below.blob_at(seq) or b"")
        elif space == "states":
            packing.state(seq, int.from_bytes(key[_KEY:], "big"))
        else:
            packing.holds(seq, int.from_bytes(key[_KEY:], "big"))
    # Of a grain's state the rest is found by its digest, when the states are compared.
    pieces = () if space in ("grains", "signatures") else packing.rest
    return packing.batch(own, hello, rest=(*rest, *pieces))


def _rows(
    reader: Reader, after: int, last: int, spans: records.Spans, chosen: Sequence[int] | None
) -> tuple[Iterator[Row], int]:
    """The next rows of the feed that did not come from who asks, and the number they reach.

    Args:
        reader: the snapshot.
        after: the number before them.
        last: the end of the feed.
        spans: the numbers of what came from who asks.
        chosen: the numbers of the grains that it is about, if only some are.
    """
    starts = [first for first, _ in spans]

    def within(seq: int) -> int:
        """The end of the span that a number lies in; 0 in none."""
        i = bisect_right(starts, seq) - 1
        return spans[i][1] if i >= 0 and seq <= spans[i][1] else 0

    while end := within(after + 1):
        after = end
    page = reader.page(after) if chosen is None else _page(reader, chosen, after)
    events = list(islice(reader.rows(EVENTS, SEQUENCE.pack(after)), ITEMS))
    bound = page[-1][0] if page else last
    if len(events) == ITEMS:
        bound = min(bound, SEQUENCE.unpack(events[-1][0])[0])
    rows = [(seq, blob, b"") for seq, blob in page]
    about = None if chosen is None else frozenset(chosen)
    rows += [
        (SEQUENCE.unpack(key)[0], b"", row)
        for key, row in events
        if about is None or event_of(row)[1] in about
    ]
    rows.sort()
    return (row for row in rows if row[0] <= bound and not within(row[0])), max(bound, after)


def _page(reader: Reader, chosen: Sequence[int], after: int) -> list[tuple[int, bytes]]:
    """The next grains of some, as ``page`` gives those of all."""
    start = bisect_right(chosen, after)
    blobs = ((seq, reader.blob_at(seq)) for seq in chosen[start : start + PAGE_GRAINS])
    return [(seq, blob) for seq, blob in blobs if blob is not None]


class _Packing:
    """A batch that is put together out of one snapshot.

    Args:
        reader: the snapshot.
        settings: of the handle.
        scope: which grains it is about.
        purpose: why they leave.
        size: bytes of grains and of states, about.
    """

    def __init__(
        self, reader: Reader, settings: Settings, scope: Scope, purpose: Purpose, size: int
    ) -> None:
        self._reader, self._settings = reader, settings
        self._scope, self._purpose, self._size = scope, purpose, size
        self._grains: list[bytes] = []
        self._states: dict[bytes, list[GrainState]] = {}
        self._rest: dict[bytes, int] = {}
        self._known: dict[int, GrainState | None] = {}
        self._withheld: dict[bytes, Refusal] = {}
        self._met: set[int] = set()
        self._bytes = self._told = 0
        self._over = leaving.over(reader, settings.clock())
        self.storied: set[int] | None = None
        """The grains of which there may be more to tell; None: any."""

    @property
    def is_full(self) -> bool:
        """Whether it should take no more."""
        count = len(self._met) + len(self._states) + len(self._rest)
        return self._bytes >= self._size or self._is_told or count >= ITEMS

    @property
    def _is_told(self) -> bool:
        return self._told >= min(self._size, _TOLD)

    @property
    def rest(self) -> tuple[bytes, ...]:
        """Of which states there is more to tell, and from where on."""
        return tuple(
            key + at.to_bytes(PLACE, "big") if at else key for key, at in self._rest.items()
        )

    def grain(self, seq: int, blob: bytes) -> None:
        """Add a grain with its state, if nothing keeps it here."""
        if seq in self._met or not blob or not self._scope.takes(self._reader, seq, blob):
            return
        self._met.add(seq)
        digest = sha256(blob).digest()
        more = self.storied is None or seq in self.storied
        try:
            told = self._state_of(seq, digest) if more else None
            frames = in_envelopes(self._reader, seq, blob)
        except IntegrityError as damage:  # it holds up no other
            self._withheld[digest] = Refusal("grain", digest, damage.code, damage.rule)
            return
        rule = self._kept(seq, blob, told)
        if rule is not None:
            code = UnsupportedError.code
            self._withheld[digest] = Refusal("grain", digest, code, rule)
            return
        self._grains += frames
        self._bytes += sum(map(len, frames))
        if told is not None:
            self._add(told)
        for n, (old, address) in enumerate(states.predecessors(self._reader, seq) if more else ()):
            if n and (self._is_told or len(self._states) >= ITEMS):
                self._rest.setdefault(address, 0)  # it superseded thousands
            else:
                self._before(old, address, digest)

    def _before(self, old: int, address: bytes, new: bytes) -> None:
        """Add the state of a grain that one in the batch superseded: perhaps it needs that."""
        if (told := self._told_of(old)) is None:
            return
        self._add(told)
        if not any(new in one.successors for one in self._states[address]):
            if new in told.successors:
                self._states[address].append(replace(told, successors=(new,), holds=()))

    def event(self, row: bytes) -> None:
        """Add the state of the grain that an event is about."""
        kind, seq, _ = event_of(row)
        if kind in (DELETED, EMBEDDED):
            return
        if kind == RESTRICTED and self._purpose not in _HOUSE:
            self.grain(seq, self._reader.blob_at(seq) or b"")  # it may have been kept till now
        if kind == SIGNED:
            self._again(seq)
        self.state(seq)

    def _again(self, seq: int) -> None:
        """Add a grain that others have, for its signatures; those inside a seal stay there."""
        blob = self._reader.blob_at(seq) or b""
        if blob and blob[1] & SIGNED_BIT:
            self.grain(seq, blob)

    def state(self, seq: int, start: int = 0) -> None:
        """Add the state of a grain, whether it may leave or not: others may have it already."""
        if (told := self._told_of(seq)) is not None:
            self._add(told, start)

    def holds(self, seq: int, start: int = 0) -> None:
        """Add who holds a grain."""
        if (told := self._told_of(seq)) is not None and told.holds:
            self._add(GrainState(told.address, holds=told.holds), start)

    def batch(
        self,
        own: bytes,
        hello: Hello,
        *,
        until: Position | None = None,
        taken: Position | None = None,
        rest: tuple[bytes, ...] = (),
        more: bool = False,
    ) -> Batch:
        """Make the batch."""
        return Batch(
            own,
            hello.namespaces,
            tuple(self._grains),
            tuple(chain.from_iterable(self._states.values())),
            (),
            until,
            taken,
            tuple(self._withheld.values()),
            rest,
            more,
        )

    def _told_of(self, seq: int) -> GrainState | None:
        blob = self._reader.blob_at(seq)
        if blob is None or not self._scope.takes(self._reader, seq, blob):
            return None
        digest = sha256(blob).digest()
        try:
            return self._state_of(seq, digest)
        except IntegrityError as damage:
            self._withheld[digest] = Refusal("state", digest, damage.code, damage.rule)
            return None

    def _state_of(self, seq: int, digest: bytes) -> GrainState | None:
        """What is told of a grain; many that superseded the same one ask for it again."""
        if seq not in self._known:
            self._known[seq] = states.state_told(self._reader, seq, digest)
        return self._known[seq]

    def _add(self, told: GrainState, start: int = 0) -> None:
        """Add a state, or the pieces of it for which there is room, one at the least."""
        if told.address in self._states:
            return
        self._rest.pop(told.address, None)
        pieces = self._states[told.address] = []
        while True:
            piece, start = states.cut(told, start)
            pieces.append(piece)
            self._told += states.weight(piece)
            if not start or self._is_told:
                break
        if start:
            self._rest[told.address] = start

    def _kept(self, seq: int, blob: bytes, told: GrainState | None) -> str | None:
        """The rule that keeps a grain in the store."""
        held = told is not None and any(hold.turn % 2 for hold in told.holds)
        if told is not None and told.restricted % 2 and self._purpose not in _HOUSE:
            return "restricted"
        if seq in self._over and not (held and self._purpose in _HOUSE):
            return "retention"
        if self._settings.preset is None and not blob[1] & (ENCRYPTED_BIT | COMPRESSED_BIT):
            if _PROFILE not in blob and _SHARING not in blob:
                return None  # no rule can be about it
        grain = self._open(seq)
        if grain is None or grain.sealed:
            return None  # it goes as ciphertext; its rules bind who can read them
        try:
            leaving.check(self._settings, grain, held, self._purpose)
        except UnsupportedError as error:
            return error.rule or error.code
        return None

    def _open(self, seq: int) -> Grain | None:
        try:
            return self._reader.grain(seq)
        except StoreError:
            raise
        except OmsError:
            return None
