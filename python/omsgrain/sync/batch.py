# SPDX-License-Identifier: Apache-2.0
"""Batches: read from a snapshot of a store, and written to a store in one commit.

A batch is written in this order:

    tombstones
    holds        of grains that are there
    grains       as ``store.put`` writes them; superseding grains wait for their states
    states       as the policies of the store allow
    restrictions and the holds of new grains

Refused items are listed and do not stop the rest; an error of the store rolls back the whole
batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from omsgrain import policy
from omsgrain.container.read import blob_of
from omsgrain.errors import (
    ErasedError,
    IntegrityError,
    InvalidationDeniedError,
    OmsError,
    UnsupportedError,
)
from omsgrain.grain import Grain, text_marks
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
from omsgrain.store import export_filter, state_merge
from omsgrain.store.context import context_of
from omsgrain.store.mg_files import in_envelopes
from omsgrain.store.prepared import PreparedGrains, superseding
from omsgrain.store.privacy import removal
from omsgrain.store.state_merge import Claim
from omsgrain.store.write import prepare, prepare_one, put_admitted, write_grains
from omsgrain.sync import erasures, reconcile, states
from omsgrain.sync.peer import (
    ITEMS,
    KEY,
    PLACE,
    START,
    Batch,
    BatchResult,
    GrainState,
    Hello,
    Kind,
    PeerTerms,
    Position,
    Refusal,
)
from omsgrain.sync.reconcile import NamespaceScope
from omsgrain.sync.states import StateMerge

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.store import GrainStore
    from omsgrain.store.context import Settings

_STATE_BYTES: Final = 2 << 20
"""About how many bytes of states a batch has; as Python objects they take many times as much."""
_MOST_GIVEN: Final = ITEMS  # grains, states or events of a batch
_PROFILE: Final = b"profile:"
_SHARING: Final = export_filter.SHARING.encode()
_OWN: Final = ("move", "access")
"""Purposes for which restricted grains are sent."""
_REASON = "sync"
_MARKS = text_marks(["hold"])
"""The name of the mode; very few grains contain it."""


Row = tuple[int, bytes, bytes]
"""A row of the feed: its number, and a blob or an event; the other part is empty."""


def digests(grains: Sequence[bytes]) -> list[bytes]:
    """Return the addresses of blobs and envelopes; for a broken envelope its own hash."""
    return [sha256(_blob_of(grain)).digest() for grain in grains]


def _blob_of(grain: bytes) -> bytes:
    with suppress(OmsError):  # the receiver refuses a broken envelope alone
        return blob_of(grain)
    return grain


def changes(
    reader: Reader, settings: Settings, since: Position, hello: Hello, size: int, purpose: Purpose
) -> Batch:
    """Make the batch of the rows after a position of the feed."""
    own = reconcile.store_id(reader) or b""
    last = reader.last_seq()
    if since != START and (
        since.seq > last or not since.mark or reconcile.mark_at(reader, since.seq) != since.mark
    ):
        return Batch(own, hello.namespaces, known=False)
    scope = NamespaceScope(hello.namespaces)
    making = _BatchMaker(reader, settings, scope, purpose, size)
    spans, at = reconcile.came(reader, hello.store), since.seq
    chosen = scope.numbers(reader, at, last) if size else None
    while at < last and not making.is_full:
        begin = at
        rows, at = _rows(reader, at, last, spans, chosen)
        making.with_states = None if chosen is not None else states.with_states(reader, begin, at)
        for seq, blob, event in rows:
            if making.is_full:
                break
            if blob:
                making.grain(seq, blob)
            else:
                making.event(event)
            done = seq
        else:
            done = at
        at = done
    return replace(
        making.batch(own, hello),
        until=None if at == since.seq else Position(at, reconcile.mark_at(reader, at)),
        taken=reconcile.seen(reader, hello.store, hello.namespaces) if hello.store else None,
        rest=making.rest,
        more=at < last,
    )


def stones(reader: Reader, keys: Sequence[bytes], hello: Hello) -> Batch:
    """Make the batch of some tombstones."""
    rows = [row for key in keys for row in reader.rows(TOMBSTONES, prefix=key[:KEY])]
    found = tuple(states.tombstone_of(mark, row) for mark, row in rows)
    return Batch(reconcile.store_id(reader) or b"", hello.namespaces, tombstones=found)


def items(
    reader: Reader,
    settings: Settings,
    kind: Kind,
    found: Sequence[tuple[int, bytes]],
    hello: Hello,
    size: int,
    purpose: Purpose,
) -> Batch:
    """Make the batch of some items, by the numbers and keys of their grains, in order."""
    making = _BatchMaker(reader, settings, NamespaceScope(hello.namespaces), purpose, size)
    rest: list[bytes] = []
    for seq, key in found:
        blob = reader.blob_at(seq) or b""
        if making.is_full:
            rest.append(sha256(blob).digest() + key[KEY:])
        elif kind == "holds":
            making.holds(seq, int.from_bytes(key[KEY:], "big"))
        elif kind == "states" or len(key) > KEY:
            making.state(seq, int.from_bytes(key[KEY:], "big"))
        else:
            making.grain(seq, blob)
    rest += [key if len(key) > KEY else key + bytes(PLACE) for key in making.rest]
    own = reconcile.store_id(reader) or b""
    return replace(making.batch(own, hello), rest=tuple(rest))


def _rows(
    reader: Reader, after: int, last: int, spans: reconcile.Spans, chosen: Sequence[int] | None
) -> tuple[Iterator[Row], int]:
    """Return the next rows of the feed outside the spans, and the last number read."""
    starts = [first for first, _ in spans]

    def within(seq: int) -> int:
        """Return the end of the span that contains a number; 0 without one."""
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
    start = bisect_right(chosen, after)
    blobs = ((seq, reader.blob_at(seq)) for seq in chosen[start : start + PAGE_GRAINS])
    return [(seq, blob) for seq, blob in blobs if blob is not None]


class _BatchMaker:
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
        self._bytes = self._state_bytes = 0
        self._over = erasure_queue.retention_over(reader, settings.clock())
        self.with_states: set[int] | None = None
        """The grains that may have a state; None: any."""

    @property
    def is_full(self) -> bool:
        count = len(self._met) + len(self._states) + len(self._rest)
        return self._bytes >= self._size or self._has_states or count >= _MOST_GIVEN

    @property
    def _has_states(self) -> bool:
        return self._state_bytes >= min(self._size, _STATE_BYTES)

    @property
    def rest(self) -> tuple[bytes, ...]:
        """Return the keys of incomplete states, each with the offset of its rest."""
        return tuple(
            key + at.to_bytes(PLACE, "big") if at else key for key, at in self._rest.items()
        )

    def grain(self, seq: int, blob: bytes) -> None:
        """Add a grain with its state, unless a rule keeps it in the store."""
        if seq in self._met or not blob or not self._scope.takes(self._reader, seq, blob):
            return
        self._met.add(seq)
        digest = sha256(blob).digest()
        more = self.with_states is None or seq in self.with_states
        try:
            state = self._state_of(seq, digest) if more else None
            frames = in_envelopes(self._reader, seq, blob)
        except IntegrityError as damage:  # the other grains are still sent
            self._withheld[digest] = Refusal("grain", digest, damage.code, damage.rule)
            return
        rule = self._kept(seq, blob, state)
        if rule is not None:
            code = UnsupportedError.code
            self._withheld[digest] = Refusal("grain", digest, code, rule)
            return
        self._grains += frames
        self._bytes += sum(map(len, frames))
        if state is not None:
            self._add(state)
        for n, (old, address) in enumerate(states.predecessors(self._reader, seq) if more else ()):
            if n and (self._has_states or len(self._states) >= _MOST_GIVEN):
                self._rest.setdefault(address, 0)  # it may have superseded thousands
            else:
                self._before(old, address, digest)

    def _before(self, old: int, address: bytes, new: bytes) -> None:
        """Add the state of a grain that a grain of the batch superseded."""
        if (state := self._state_at(old)) is None:
            return
        self._add(state)
        if not any(new in one.successors for one in self._states[address]):
            if new in state.successors:
                self._states[address].append(replace(state, successors=(new,), holds=()))

    def event(self, row: bytes) -> None:
        """Add the state of the grain of an event."""
        kind, seq, _ = event_of(row)
        if kind in (DELETED, EMBEDDED):
            return
        blob = self._reader.blob_at(seq) or b""
        if kind == RESTRICTED and self._purpose not in _OWN:
            self.grain(seq, blob)  # the restriction may have withheld it
        if kind == SIGNED and blob and blob[1] & SIGNED_BIT:  # encrypted signatures are not sent
            self.grain(seq, blob)
        self.state(seq)

    def state(self, seq: int, start: int = 0) -> None:
        """Add the state of a grain, even if the grain may not be sent: others may have it."""
        if (state := self._state_at(seq)) is not None:
            self._add(state, start)

    def holds(self, seq: int, start: int = 0) -> None:
        if (state := self._state_at(seq)) is not None and state.holds:
            self._add(GrainState(state.address, holds=state.holds), start)

    def batch(self, own: bytes, hello: Hello) -> Batch:
        return Batch(
            own,
            hello.namespaces,
            grains=tuple(self._grains),
            states=tuple(chain.from_iterable(self._states.values())),
            withheld=tuple(self._withheld.values()),
        )

    def _state_at(self, seq: int) -> GrainState | None:
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
        """Return the state of a grain, cached: all grains that superseded it need it."""
        if seq not in self._known:
            self._known[seq] = states.reported_state(self._reader, seq, digest)
        return self._known[seq]

    def _add(self, state: GrainState, start: int = 0) -> None:
        """Add a state, or as many pieces of it as fit, at least one."""
        if state.address in self._states:
            return
        self._rest.pop(state.address, None)
        pieces = self._states[state.address] = []
        while True:
            piece, start = states.cut(state, start)
            pieces.append(piece)
            self._state_bytes += states.weight(piece)
            if not start or self._has_states:
                break
        if start:
            self._rest[state.address] = start

    def _kept(self, seq: int, blob: bytes, state: GrainState | None) -> str | None:
        """Return the rule that keeps a grain in the store, if there is one."""
        held = state is not None and any(hold.epoch % 2 for hold in state.holds)
        if state is not None and state.restricted % 2 and self._purpose not in _OWN:
            return "restricted"
        if seq in self._over and not (held and self._purpose in _OWN):
            return "retention"
        if self._settings.preset is None and not blob[1] & (ENCRYPTED_BIT | COMPRESSED_BIT):
            if _PROFILE not in blob and _SHARING not in blob:
                return None  # no rule applies
        grain = removal.readable(self._reader, seq)
        if grain is None or grain.sealed:
            return None  # sent as ciphertext; its rules bind the key's owner
        try:
            export_filter.check(self._settings, grain, held, self._purpose)
        except UnsupportedError as error:
            return error.rule or error.code
        return None


def put(store: GrainStore, batch: Batch, terms: PeerTerms) -> BatchResult:
    with context_of(store).storage.read() as reader:
        reported = [state for state in batch.states if not _was_erased(reader, state.address)]
    given = _sort(store, batch.grains, reported, binds="holds" in terms.rights)
    new = [
        Claim(state.address.hex(), one, "unverified", given.apart[one])
        for state in reported
        for one in map(bytes.hex, state.successors)
        if one in given.apart
    ]
    coming = state_merge.claimed_grains(new, context_of(store).settings.resolver)

    incoming = PreparedGrains.joined([given.given, coming.given])

    def work(writer: Writer) -> BatchResult:
        return _PutTransaction(store, writer, batch, given, terms).run(reported, incoming, coming)

    return write_grains(context_of(store), incoming, work)


@dataclass(slots=True)
class _SortedGrains:
    """The grains of a batch, verified."""

    given: PreparedGrains  # the grains to write
    digests: list[bytes]  # their addresses
    refused: list[Refusal]  # the grains that fail verification
    # grains that only a supersession can store, by address, as the batch has them
    apart: dict[str, tuple[bytes, ...]]


def _sort(
    store: GrainStore, grains: Sequence[bytes], reported: Sequence[GrainState], *, binds: bool
) -> _SortedGrains:
    """Verify grains, and separate those that supersede others."""
    found = _SortedGrains(PreparedGrains([]), [], [], {})
    grains, blobs = _blobs(grains, found.refused)
    if not binds and (wide := _wide_holds(blobs)):
        denied = InvalidationDeniedError(
            "a grain of the batch is a hold over other grains", rule="reach"
        )
        found.refused += [_refusal(sha256(blobs[i]).digest(), denied) for i in sorted(wide)]
        grains = [grain for i, grain in enumerate(grains) if i not in wide]
        blobs = [blob for i, blob in enumerate(blobs) if i not in wide]
    digests = [sha256(blob).digest() for blob in blobs]
    named = {successor for state in reported for successor in state.successors}
    marked = superseding(blobs)
    resolver = context_of(store).settings.resolver
    plain = [i for i in range(len(grains)) if i not in marked]
    parts = list(prepare([grains[i] for i in plain], max(len(plain), 1), resolver))
    for part in parts:
        found.digests += [digests[plain[i]] for i in part.places]
        found.refused += [_refusal(digests[plain[bad.index]], bad.error) for bad in part.errors]
    for i in sorted(marked):
        address = digests[i].hex()
        if digests[i] in named:
            found.apart[address] = (*found.apart.get(address, ()), grains[i])
            continue
        try:  # the predecessor was erased: stored as a new grain
            parts.append(prepare_one(grains[i], replacing=True, resolver=resolver))
            found.digests.append(digests[i])
        except OmsError as error:
            found.refused.append(_refusal(digests[i], error))
    if parts:
        found.given = PreparedGrains.joined(parts)
    return found


def _wide_holds(blobs: list[bytes]) -> set[int]:
    """Return the positions of the grains with a hold over other grains."""
    found = set()
    for i in _MARKS.find(blobs):
        if blobs[i][1] & ENCRYPTED_BIT:  # only a holder of the key could write it
            continue
        with suppress(OmsError):  # verification refuses a broken grain
            if policy.holds_others(Grain(blobs[i])):
                found.add(i)
    return found


def _blobs(grains: Sequence[bytes], refused: list[Refusal]) -> tuple[list[bytes], list[bytes]]:
    """Return the readable grains and their blobs; add the others to ``refused``."""
    kept, blobs = list[bytes](), list[bytes]()
    for grain in grains:
        try:
            blobs.append(blob_of(grain))
        except OmsError as error:
            refused.append(_refusal(sha256(grain).digest(), error))
        else:
            kept.append(grain)
    return kept, blobs


class _PutTransaction:
    def __init__(
        self,
        store: GrainStore,
        writer: Writer,
        batch: Batch,
        given: _SortedGrains,
        terms: PeerTerms,
    ) -> None:
        self._store, self._writer = store, writer
        self._batch, self._given, self._terms = batch, given, terms
        self._refused = list(given.refused)

    def run(
        self,
        reported: Sequence[GrainState],
        incoming: PreparedGrains,
        coming: state_merge.ClaimedGrains,
    ) -> BatchResult:
        writer, batch = self._writer, self._batch
        first = writer.last_seq() + 1
        stones = erasures.take_tombstones(writer, batch.tombstones) if batch.tombstones else 0
        fresh = self._absent()
        done = StateMerge(writer, context_of(self._store).settings, self._terms, self._note)
        done.merge_holds(reported)
        put = len(self._given.digests)
        stored, duplicates = self._put(incoming.only(range(put)))
        middle = writer.last_seq()
        arrivals = coming.split(incoming.only(range(put, len(incoming.pairs))))
        done.merge(reported, self._given.apart, arrivals, fresh, first - 1)
        done.merge_holds(reported)
        changed = done.changed | self._signed(first)
        last = writer.last_seq()
        spans = [(first, last)]
        if not self._agrees(reported, middle):  # the grains are from there, the states are not
            late = writer.find([bytes.fromhex(address) for address in self._given.apart])
            came = sorted(seq for seq in late if seq is not None and seq > middle)
            spans = [(first, middle), *((seq, seq) for seq in came)]
        if batch.store:
            reconcile.add_came(writer, batch.store, spans, batch.taken)
        if batch.until is not None and batch.store:
            reconcile.see(writer, batch.store, batch.namespaces, batch.until)
        if batch.followed and batch.store:
            reconcile.follow(writer, batch.store, batch.namespaces, batch.followed)
        apart = self._given.apart
        known = len(apart) - done.stored - len(done.waiting)
        known -= len({one.address for one in done.refused if one.address.hex() in apart})
        return BatchResult(
            stored + done.stored,
            duplicates + max(known, 0),
            len(changed),
            stones,
            0,
            tuple(dict.fromkeys((*self._refused, *done.refused, *done.holds_refused))),
            tuple(sorted(done.waiting)),
            done.unproven + sum(not one.proven for one in incoming.signatures.values()),
        )

    def _absent(self) -> frozenset[bytes]:
        """Return the grains of the batch that the store does not have."""
        digests = [*self._given.digests, *map(bytes.fromhex, self._given.apart)]
        found = self._writer.find(digests) if digests else ()
        return frozenset(one for one, seq in zip(digests, found, strict=True) if seq is None)

    def _put(self, given: PreparedGrains) -> tuple[int, int]:
        """Write grains; return how many are new, and how many the store had."""
        writer = self._writer
        digests = [digest for digest, _ in given.pairs]
        if not digests:
            return 0, 0
        erased = tombstones.refused(writer, digests)
        gone = {i for i in erased if writer.raw.find([digests[i]])[0] is None}
        which = [i for i in range(len(digests)) if i not in gone]
        outcome = put_admitted(context_of(self._store), writer, given.only(which), False, False)
        refused = {which[n]: error for n, error in outcome.refused.items()}
        refused |= {i: ErasedError("this grain was erased") for i in gone}
        for i, error in sorted(refused.items()):
            self._refused.append(_refusal(self._given.digests[i], error))
        stored = sum(outcome.new)
        return stored, len(digests) - len(refused) - stored

    def _signed(self, first: int) -> set[bytes]:
        """Return the grains that got another signature since a number."""
        events = (event_of(row) for _, row in self._writer.rows(EVENTS, SEQUENCE.pack(first - 1)))
        return {address for kind, _, address in events if kind == SIGNED}

    def _agrees(self, reported: Sequence[GrainState], middle: int) -> bool:
        """Whether the changed states now equal those of the other side."""
        writer = self._writer
        theirs = {key: states.version(one) for key, one in states.joined(reported).items()}
        events = (event_of(row) for _, row in writer.rows(EVENTS, SEQUENCE.pack(middle)))
        for seq, address in {seq: address for _, seq, address in events}.items():
            mine = states.reported_state(writer, seq, address)
            if mine is not None and states.version(mine) != theirs.get(address):
                return False
        return True

    def _note(self, operation: str, digests: list[bytes]) -> None:
        context_of(self._store).note(self._writer, operation, digests, reason_code=_REASON)


def _was_erased(reader: Reader, address: bytes) -> bool:
    return reader.find([address])[0] is None and bool(tombstones.refused(reader, [address]))


def _refusal(digest: bytes, error: OmsError) -> Refusal:
    return Refusal("grain", digest, error.code, error.rule)
