# SPDX-License-Identifier: Apache-2.0
"""A store as a peer: of the process that syncs, or behind a service."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import blake3

from omsgrain.errors import (
    IntegrityError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
    UnsupportedError,
)
from omsgrain.grain import Grain
from omsgrain.header import COMPRESSED_BIT, ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.storage import erasure_queue, tombstones
from omsgrain.storage.base import PAGE_GRAINS, Reader, Writer
from omsgrain.storage.tables import (
    DELETED,
    EMBEDDED,
    EVENTS,
    RESTRICTED,
    SEQUENCE,
    SIGNED,
    TOMBSTONES,
    event_of,
)
from omsgrain.store import export_filter
from omsgrain.store.context import context_of
from omsgrain.store.mg_files import in_envelopes
from omsgrain.sync import erasures, parts, peer, states
from omsgrain.sync import states as records
from omsgrain.sync.parts import NamespaceScope
from omsgrain.sync.peer import (
    EVERYTHING,
    HAS,
    ITEMS,
    LACKS,
    PLACE,
    SIZE,
    START,
    VERSION,
    WAS_ERASED,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    PeerTerms,
    Position,
    Range,
    Refusal,
    Right,
    Space,
    SyncItem,
)
from omsgrain.sync.reconcile import ItemView, view
from omsgrain.sync.take import take

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.store import GrainStore
    from omsgrain.store.context import Settings

_KEY: Final = 32
_TOLD: Final = 2 << 20
"""Bytes of states in a batch, about: as Python objects they take many times as much."""
_MOST_GIVEN: Final = ITEMS
"""Grains, states or events of a batch, at the most."""
_PROFILE: Final = b"profile:"
_SHARING: Final = export_filter.SHARING.encode()
_HOUSE: Final = ("move", "access")
"""Purposes for which restricted grains go along."""

Row = tuple[int, bytes, bytes]
"""A number of the feed, the blob that stands there, and the event that does; one is empty."""


def changes(
    reader: Reader, settings: Settings, since: Position, hello: Hello, size: int, purpose: Purpose
) -> Batch:
    """Make the batch of what came after a position of the feed."""
    own = records.store_id(reader) or b""
    last = reader.last_seq()
    if since != START and (
        since.seq > last or not since.mark or records.mark_at(reader, since.seq) != since.mark
    ):
        return Batch(own, hello.namespaces, known=False)
    scope = NamespaceScope(hello.namespaces)
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
    packing = _Packing(reader, settings, NamespaceScope(hello.namespaces), purpose, size)
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
    """The next rows of the feed that did not come from who asks, and the number they reach."""
    starts = [first for first, _ in spans]

    def within(seq: int) -> int:
        """The end of the span that a number lies in; 0 in none."""
        i = bisect_right(starts, seq) - 1
        return spans[i][1] if i >= 0 and seq <= spans[i][1] else 0

    while end := within(after + 1):
        after = end
    page = reader.page(after) if chosen is None else _page(reader, chosen, after)
    events = list(islice(reader.rows(EVENTS, SEQUENCE.pack(after)), _MOST_GIVEN))
    bound = page[-1][0] if page else last
    if len(events) == _MOST_GIVEN:
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
    """A batch that is put together out of one snapshot."""

    def __init__(
        self,
        reader: Reader,
        settings: Settings,
        scope: NamespaceScope,
        purpose: Purpose,
        size: int,
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
        self._over = erasure_queue.retention_over(reader, settings.clock())
        self.storied: set[int] | None = None
        """The grains of which there may be more to tell; None: any."""

    @property
    def is_full(self) -> bool:
        """Whether it should take no more."""
        count = len(self._met) + len(self._states) + len(self._rest)
        return self._bytes >= self._size or self._is_told or count >= _MOST_GIVEN

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
            if n and (self._is_told or len(self._states) >= _MOST_GIVEN):
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
            export_filter.check(self._settings, grain, held, self._purpose)
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


K = TypeVar("K")

_LISTED: Final = 100 * ITEMS
_DIGEST = 16
_REASON = "sync"
Notes: TypeAlias = Literal["tried", "must", "never"]

_VIEWS, _WEIGHT = 1_000, 256 << 20
"""Views that are kept of a store, and of a peer, and their bytes together: each choice of
namespaces has one, and who asks names these."""
_grains: WeakKeyDictionary[Any, dict[tuple[str, ...] | None, ItemView]] = WeakKeyDictionary()
"""Views of the grains of open stores, by namespaces: they grow with the store."""
_looking = threading.Lock()
"""Held while a view is looked at, since it may be put in order, or grow, by that."""


class LocalPeer:
    """One side of a sync that is a store in this process.

    Args:
        store: an open one.
        rights: what the other side may do. A store that is read-only takes nothing.
        purpose: why grains leave: ``move`` to another store of the same house, with restricted
            ones; ``transfer`` to somebody else.
        shares: whether the keys of tombstones are shared.
        signer: the DID that is proved to have signed what comes, where somebody has. Ends of holds
            count from ``hold_authorities`` of the store alone, and erasures from its
            ``erasure_authorities``, where these are set.
        trusted: whether it is believed that a grain was verified on the other side.
        notes: whether the audit trail tells of grains before they are given, as of an export.
            ``tried``: where it can be written; the grains on a full disk can still be brought
            away. ``must``: or they are not given. ``never``: they are only counted.
        owned: close the store with the peer.

    Raises:
        SchemaError: no such right.
    """

    def __init__(
        self,
        store: GrainStore,
        *,
        rights: Iterable[Right] = EVERYTHING,
        purpose: Purpose = "move",
        shares: bool = True,
        signer: str | None = None,
        trusted: bool = False,
        notes: Notes = "tried",
        owned: bool = False,
    ) -> None:
        self._store = store
        given = frozenset(rights)
        if not given <= set(EVERYTHING):
            raise SchemaError("no such right", field="/rights", expected=", ".join(EVERYTHING))
        self._given = given
        self._rights = _lets(store, given, signer)
        self._terms = PeerTerms(self._rights, signer, trusted)
        self._purpose: Purpose = purpose
        self._shares = shares
        self._notes: Notes = notes
        self._owned = owned
        self._views: dict[tuple[Space, tuple[str, ...] | None], ItemView] = {}

    def narrowed(self, terms: PeerTerms) -> LocalPeer:
        """Return the same store for what somebody brings on terms of their own."""
        made = copy(self)
        made._rights = _lets(self._store, self._given & terms.rights, terms.signer)
        made._terms = replace(terms, rights=made._rights)
        made._views, made._owned = {}, False
        return made

    def greet(self, hello: Hello) -> Greeting:
        """Say who is here, after finishing what was cut off."""
        self._views.clear()
        if not context_of(self._store).storage.readonly:
            self._finish()
        scope = NamespaceScope(hello.namespaces)
        with context_of(self._store).storage.read() as reader:
            last = reader.last_seq()
            keys = sorted(tombstones.common(reader)) if self._shares else []
            return Greeting(
                states.store_id(reader) or b"",
                VERSION,
                Position(last, states.mark_at(reader, last)),
                reader.count(),
                states.seen(reader, hello.store, hello.namespaces) if hello.store else None,
                tuple(one for one in EVERYTHING if one in self._rights and one != "releases"),
                blake3.blake3(b"".join(keys)).digest(_DIGEST) if keys else b"",
                _digest(view(reader, "tombstones", scope)),
                _digest(view(reader, "holds", scope)),
                states.followed(reader, hello.store, hello.namespaces) if hello.store else b"",
            )

    def _finish(self) -> None:
        with context_of(self._store).storage.read() as reader:
            known = states.store_id(reader) is not None
            left = bool(states.erasing(reader))
        if not known:
            context_of(self._store).storage.write(states.identify)
        if left:
            erasures.erase_marked(self._store, again=True)
        erasures.erase_released(self._store)
        erasures.sweep_destroyed(self._store)

    def share(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """Take over keys of tombstones, and tell all that are here."""
        if not self._shares:
            return ()
        with context_of(self._store).storage.read() as reader:
            known = tombstones.common(reader)
        if (known and set(keys) <= set(known)) or "erasures" not in self._rights:
            return known

        def work(writer: Writer) -> tuple[bytes, ...]:
            tombstones.adopt(writer, keys)
            tombstones.key(writer)
            return tombstones.common(writer)

        try:
            return context_of(self._store).storage.write(work)
        except RangeError:
            return known  # too many: who syncs tells that they are not shared

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """Return what came after a position of the feed, but for what came from who asks."""
        self._refuse("give")
        with context_of(self._store).storage.read() as reader:
            settings = context_of(self._store).settings
            batch = changes(reader, settings, since, hello, size, self._purpose)
        return self._noted(batch, hello)

    def ranges(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Range, ...]:
        """Return the ranges of items whose keys begin so."""
        if len(prefixes) > ITEMS:
            raise RangeError("too many ranges at once", expected=f"at most {ITEMS}")
        with _looking, context_of(self._store).storage.read() as reader:
            found = self._view(reader, space, hello)
            return tuple(found.range(prefix) for prefix in prefixes)

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[SyncItem, ...]:
        """Return the items whose keys begin with one of these."""
        self._refuse("give")
        with _looking, context_of(self._store).storage.read() as reader:
            found = self._view(reader, space, hello)
            items = (item for prefix in prefixes for item in found.items(prefix))
            listed = tuple(islice(items, _LISTED + 1))
        if len(listed) > _LISTED:
            raise RangeError("too many items in one listing", expected=f"at most {_LISTED}")
        return listed

    def lacking(self, space: Space, items: Sequence[SyncItem]) -> bytes:
        """Tell of each item whether it is here."""
        _refuse_many(items)
        keys = [item.key for item in items]
        if any(len(key) != _KEY for key in keys):
            raise SchemaError("not the key of an item", expected=f"{_KEY} bytes")
        with context_of(self._store).storage.read() as reader:
            if space != "grains":
                found = self._view(reader, space, Hello())
                mine = {one.key: one.version for key in keys for one in found.items(key.hex())}
                there = self._there(reader, space, keys)
                return bytes(
                    LACKS if here and mine.get(item.key) != item.version else HAS
                    for item, here in zip(items, there, strict=True)
                )
            gone = tombstones.refused(reader, keys)
            return bytes(
                HAS if seq is not None else WAS_ERASED if i in gone else LACKS
                for i, seq in enumerate(reader.find(keys))
            )

    def _there(self, reader: Reader, space: Space, keys: list[bytes]) -> list[bool]:
        """Whether there is something that each could be about."""
        if space == "tombstones":
            return [True] * len(keys)
        return [seq is not None for seq in reader.find(keys)]

    def give(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """Return items by their keys."""
        self._refuse("give")
        _refuse_many(keys)
        settings = context_of(self._store).settings
        with context_of(self._store).storage.read() as reader:
            batch = give(reader, settings, space, keys, hello, SIZE, self._purpose)
        return self._noted(batch, hello)

    def _noted(self, batch: Batch, hello: Hello) -> Batch:
        """Tell the audit trail what leaves, before it does."""
        store = self._store
        if batch.grains and self._notes != "never" and not context_of(store).storage.readonly:
            told: dict[str, int | str] = {
                "grains": len(set(parts.digests(batch.grains))),
                "purpose": self._purpose,
            }
            if hello.store:
                told["store"] = hello.store.hex()
            note = partial(context_of(store).note, operation="export", digests=(), details=told)
            try:
                context_of(store).storage.write(partial(note, reason_code=_REASON))
            except StoreError:
                if self._notes == "must":
                    raise
        return batch

    def take(self, batch: Batch) -> BatchResult:
        """Take a batch.

        Raises:
            SchemaError, RangeError: something in it cannot be; nothing of it was taken.
        """
        peer.check(batch)
        peer.check_count(batch.grains, peer.GRAINS)
        if batch.grains:
            self._refuse("grains")
        if batch.tombstones:
            self._refuse("erasures")
        self._views.clear()
        taken = take(self._store, batch, self._terms)
        if batch.tombstones and not batch.more:
            erased, kept = erasures.erase_marked(self._store)
            taken = replace(taken, erased=erased, refused=(*taken.refused, *kept))
        return taken

    def close(self) -> None:
        """Let go of what was remembered, and of the store if it is owned."""
        self._views.clear()
        if self._owned:
            self._store.close()

    def _refuse(self, right: Right) -> None:
        if right not in self._rights:
            raise UnsupportedError("the other store does not allow this", expected=right)

    def _view(self, reader: Reader, space: Space, hello: Hello) -> ItemView:
        scope = NamespaceScope(hello.namespaces)
        if space == "grains":
            known = _grains.setdefault(self._store, {})
            before = known.pop(scope.namespaces, None)
            if before is None or before.last < reader.last_seq():
                before = view(reader, space, scope, before)
            _keep(known, scope.namespaces, before)
            return before
        found = self._views.pop((space, scope.namespaces), None)
        if found is None or found.last != reader.last_seq():
            found = view(reader, space, scope)
        _keep(self._views, (space, scope.namespaces), found)
        return found


def _lets(store: GrainStore, rights: frozenset[Right], signer: str | None) -> frozenset[Right]:
    """What of some rights a store can give to who is proved to be somebody, or nobody."""
    orders = context_of(store).settings.erasure_authorities
    if orders and signer not in orders:
        rights -= {"erasures"}
    return rights & {"give"} if context_of(store).storage.readonly else rights


def _keep(views: dict[K, ItemView], key: K, latest: ItemView) -> None:
    """Keep a view as the last of some, and let go of those that were not looked at for longest."""
    views[key] = latest
    weight = sum(one.weight for one in views.values())
    while len(views) > 1 and (len(views) > _VIEWS or weight > _WEIGHT):
        weight -= views.pop(next(iter(views))).weight


def _digest(found: ItemView) -> bytes:
    whole = found.range("")
    return whole.digest if whole.count else b""


def _refuse_many(items: Sequence[object]) -> None:
    if len(items) > ITEMS:
        raise RangeError(
            "too many items at once", expected=f"at most {ITEMS}", found=str(len(items))
        )
