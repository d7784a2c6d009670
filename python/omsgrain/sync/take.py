# SPDX-License-Identifier: Apache-2.0
"""A batch into a store: one commit, with how far the other's feed is taken now.

    holds        of grains that are here
    grains       as `put` takes them; those that only superseding can store wait for their states
    states       by the policies of this store
    restrictions and the holds of grains that came with the batch

What is refused is told and does not stop the rest; an error of the store takes all of it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from omsgrain import _core, policy
from omsgrain.container.read import blob_of
from omsgrain.errors import (
    ErasedError,
    IntegrityError,
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import records, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import GrainStatus, unpack
from omsgrain.storage.tables import (
    EVENTS,
    RELEASED,
    RESTRICTED,
    SEQUENCE,
    SIGNED,
    STATES,
    event_of,
)
from omsgrain.store import holds, lifecycle, state_merge
from omsgrain.store.context import check_reason, context_of
from omsgrain.store.holds import Hold
from omsgrain.store.prepared import Incoming, Intake, intakes, superseding, take_one
from omsgrain.store.state_merge import Claim
from omsgrain.store.write import bring, joined
from omsgrain.store.write import take as put_admitted
from omsgrain.sync import blind, erasures, states
from omsgrain.sync import states as received
from omsgrain.sync.blind import BlindOutcome
from omsgrain.sync.peer import Batch, BatchResult, GrainState, HoldToggle, PeerTerms, Refusal

if TYPE_CHECKING:
    from omsgrain.store import GrainStore
    from omsgrain.store.context import Settings

_RANK = {"verified": 0, "unverified": 0, "contested": 1, "retracted": 2}


def holds_first(
    writer: Writer,
    settings: Settings,
    told: Iterable[GrainState],
    terms: PeerTerms,
    note: state_merge.Note,
    refused: dict[Refusal, None],
) -> set[bytes]:
    """Take over holds and their ends."""
    changed = set()
    ends = "releases" in terms.rights and (
        not settings.hold_authorities or terms.signer in settings.hold_authorities
    )
    for state in told if "holds" in terms.rights else ():
        seq = writer.find([state.address])[0]
        if seq is None:
            continue
        for one in state.holds:
            try:
                done, late = _hold(writer, seq, state.address, one, ends)
            except StoreError:
                raise
            except OmsError as error:
                done, late = None, error
            if late is not None:
                refused[Refusal("hold", state.address, late.code, late.rule)] = None
            if done is not None:
                note(done, [state.address])
                changed.add(state.address)
    return changed


def _hold(
    writer: Writer, seq: int, address: bytes, told: HoldToggle, ends: bool
) -> tuple[Literal["hold", "release"] | None, OmsError | None]:
    """Take over a hold, or its end."""
    what = records.hold_of(told.authority)
    held = {one.authority: one for one in holds.holds(writer, seq)}
    mine = held.get(told.authority)
    turn = records.toggle_epoch(writer, seq, what, mine is not None)
    wanted = Hold(told.authority, told.reason_code, told.since)
    if told.turn < turn or told.turn < 1:
        return None, None
    if told.turn == turn:
        if mine is None or told.turn % 2 == 0 or _later(mine) >= _later(wanted):
            return None, None
    at = records.taken(turn, told.turn)
    late = None if at == told.turn else RangeError("nobody holds a grain so often")
    if told.turn % 2:
        if not told.authority.strip():
            raise SchemaError("a hold names who asks for it", field="/authority")
        check_reason(told.reason_code)
        if late is not None and mine is not None:
            return None, late
        holds.hold(writer, address, wanted)
    elif not ends:
        if mine is None:
            return None, None  # nothing ends here, and no number bars a hold to come
        raise InvalidationDeniedError("its authority ends a hold, nobody else", rule="release")
    elif late is not None:
        return None, late
    elif mine is not None:
        holds.release(writer, address, wanted)
    else:
        writer.event(RELEASED, seq, address)
    records.put(writer, seq, what, at, told.authority)
    return "hold" if told.turn % 2 else "release", late


def _later(hold: Hold) -> tuple[int, str]:
    return hold.since, hold.reason_code


def take_states(
    writer: Writer,
    settings: Settings,
    told: Sequence[GrainState],
    apart: Mapping[str, tuple[bytes, ...]],
    arrivals: state_merge.Arrivals,
    terms: PeerTerms,
    note: state_merge.Note,
    fresh: Collection[bytes],
    last: int,
) -> BlindOutcome:
    """Take over what others tell of grains, as far as the rules allow."""
    done = BlindOutcome()
    if "states" in terms.rights:
        since = None if "holds" in terms.rights else last
        _supersede(writer, settings, told, apart, arrivals, terms.trusted, since, note, done)
    for state in told:
        if "restrictions" not in terms.rights:
            if state.address not in fresh or state.restricted % 2 == 0:
                continue
            state = replace(state, restricted=1)
        try:
            changed, late = _restrict(writer, settings, state)
        except StoreError:
            raise
        except OmsError as refusal:
            changed, late = False, refusal
        if late is not None:
            done.refused.append(Refusal("restriction", state.address, late.code, late.rule))
        if changed:
            note("restrict", [state.address])
            done.changed.add(state.address)
    return done


def _supersede(
    writer: Writer,
    settings: Settings,
    told: Sequence[GrainState],
    apart: Mapping[str, tuple[bytes, ...]],
    arrivals: state_merge.Arrivals,
    trusted: bool,
    since: int | None,
    note: state_merge.Note,
    done: BlindOutcome,
) -> None:
    """Offer the claims until none of those that wait can be taken over any more."""
    offered: list[tuple[GrainState, Claim]] = []
    sound: list[GrainState] = []
    for state in told:
        try:
            offered += [(state, claim) for claim in _claims(writer, state, apart, trusted)]
        except IntegrityError as damage:
            done.refused.append(Refusal("state", state.address, damage.code, damage.rule))
        else:
            sound.append(state)
    refused: list[tuple[GrainState, Claim, OmsError]] = []
    came: set[str] = set()
    while offered:
        waiting = []
        for state, claim in offered:
            merged = state_merge.merge_claims(
                writer, settings, [claim], arrivals, note, trusted=trusted, since=since
            )
            done.stored += merged.stored
            done.unproven += merged.unproven
            if merged.taken:
                done.changed.add(state.address)
            if merged.refused:
                refused.append((state, claim, merged.refused[0][1]))
            elif merged.waiting:
                waiting.append((state, claim))
            elif claim.superseded_by is not None:
                came.add(claim.superseded_by)
        if len(waiting) == len(offered):
            break
        offered = waiting
    else:
        waiting = []
    for state, claim, error in refused:
        new = claim.superseded_by
        given = arrivals.get(new) if new is not None else None
        if isinstance(error, KeyMissingError) and not isinstance(given, OmsError):
            if blind.pass_on(writer, settings, state, claim, given, note, done):
                came.update(filter(None, [new]))
        elif new in apart and new not in came and new is not None:
            done.refused.append(Refusal("grain", bytes.fromhex(new), error.code, error.rule))
        else:
            done.refused.append(Refusal("state", state.address, error.code, error.rule))
    for state in sound:
        blind.erased_successors(writer, settings, state, note, done)
    named = {claim.superseded_by for _, claim in waiting} - came
    done.waiting = {bytes.fromhex(new) for new in named if new in apart and new is not None}


def _claims(
    reader: Reader, state: GrainState, apart: Mapping[str, tuple[bytes, ...]], trusted: bool
) -> Iterator[Claim]:
    """What a state says that is not so here, one thing a claim; the grain may be still to come."""
    seq = reader.find([state.address])[0]
    mine = GrainStatus() if seq is None else unpack(reader.row(STATES, SEQUENCE.pack(seq)))
    address = state.address.hex()
    if state.status == "verified":
        if trusted and mine.verification_status == "unverified":
            yield Claim(address, None, "verified")
    elif state.status and _RANK[state.status] > _RANK[mine.verification_status]:
        yield Claim(address, None, state.status)
    known = frozenset(mine.successors)
    named = [successor.hex() for successor in state.successors]
    here = reader.find(state.successors) if state.successors else ()
    for new, there in zip(named, here, strict=True):
        if new in apart or (new not in known and there is not None):
            yield Claim(address, new, "unverified", apart.get(new, ()))


def _restrict(
    writer: Writer, settings: Settings, told: GrainState
) -> tuple[bool, OmsError | None]:
    """Take over a restriction, or its end: whether anything changed, and why its number cannot be.

    Raises:
        IntegrityError: a row of the grain is damaged.
        InvalidationDeniedError: it is about nobody, and its policy refuses.
    """
    seq = writer.find([told.address])[0]
    if seq is None:
        return False, None
    on = unpack(writer.row(STATES, SEQUENCE.pack(seq))).restricted
    turn = records.toggle_epoch(writer, seq, records.RESTRICTION, on)
    if told.restricted <= turn:
        return False, None
    at = records.taken(turn, told.restricted)
    late = None if at == told.restricted else RangeError("nobody restricts a grain so often")
    if at == turn:
        return False, late
    if lifecycle.restrict_asked(writer, settings, seq, bool(at % 2), None) is None:
        writer.event(RESTRICTED, seq, told.address)  # it is so already, and was not in between
    records.put(writer, seq, records.RESTRICTION, at)
    return True, late


_REASON = "sync"
_MARKS = _core.Marks([b"\xa4hold", b"\x64hold"])
"""The name of the mode as MessagePack and CBOR write it: nearly every grain is without."""


@dataclass(slots=True)
class _Sorted:
    """The grains of a batch, verified.

    Attributes:
        intake: those that are put.
        digests: the addresses of those of them that are good.
        refused: the others.
        apart: those that only superseding can store, by address: as they stand in the batch.
    """

    intake: Intake
    digests: list[bytes]
    refused: list[Refusal]
    apart: dict[str, tuple[bytes, ...]]


def take(store: GrainStore, batch: Batch, terms: PeerTerms) -> BatchResult:
    """Take a batch into a store."""
    with context_of(store).storage.read() as reader:
        told = [state for state in batch.states if not _was_erased(reader, state.address)]
    given = _sort(store, batch.grains, told, binds="holds" in terms.rights)
    new = [
        Claim(state.address.hex(), one, "unverified", given.apart[one])
        for state in told
        for one in map(bytes.hex, state.successors)
        if one in given.apart
    ]
    coming = state_merge.arriving(new, context_of(store).settings.resolver)

    def work(writer: Writer, incoming: Incoming) -> BatchResult:
        return _TakeTransaction(store, writer, batch, given, terms).run(told, incoming, coming)

    if not batch.grains:
        return context_of(store).storage.write(lambda writer: work(writer, Incoming([])))
    return bring(context_of(store), joined([given.intake, coming.intake]), work)


def _sort(
    store: GrainStore, grains: Sequence[bytes], told: Sequence[GrainState], *, binds: bool
) -> _Sorted:
    """Verify grains, and set those apart that are said to supersede others."""
    found = _Sorted(Intake([], [], []), [], [], {})
    grains, blobs = _blobs(grains, found.refused)
    if not binds and (wide := _wide_holds(blobs)):
        denied = InvalidationDeniedError("a hold over other grains", rule="reach")
        found.refused += [_refusal(sha256(blobs[i]).digest(), denied) for i in sorted(wide)]
        grains = [grain for i, grain in enumerate(grains) if i not in wide]
        blobs = [blob for i, blob in enumerate(blobs) if i not in wide]
    digests = [sha256(blob).digest() for blob in blobs]
    named = {successor for state in told for successor in state.successors}
    marked = superseding(blobs)
    resolver = context_of(store).settings.resolver
    plain = [i for i in range(len(grains)) if i not in marked]
    parts = list(intakes([grains[i] for i in plain], max(len(plain), 1), resolver))
    for part in parts:
        found.digests += [digests[plain[i]] for i in part.good()]
        found.refused += [_refusal(digests[plain[bad.index]], bad.error) for bad in part.errors]
    for i in sorted(marked):
        address = digests[i].hex()
        if digests[i] in named:
            found.apart[address] = (*found.apart.get(address, ()), grains[i])
            continue
        try:  # what it superseded was erased: it stands for itself
            parts.append(take_one(grains[i], replacing=True, resolver=resolver))
            found.digests.append(digests[i])
        except OmsError as error:
            found.refused.append(_refusal(digests[i], error))
    if parts:
        found.intake = joined(parts)
    return found


def _wide_holds(blobs: list[bytes]) -> set[int]:
    """The grains with a hold that reaches beyond them, by position."""
    found = set()
    for i in _MARKS.find(blobs):
        if blobs[i][1] & ENCRYPTED_BIT:  # opened by a key of here: somebody of the house wrote it
            continue
        with suppress(OmsError):  # what is no grain is refused as that
            if policy.holds_others(Grain(blobs[i])):
                found.add(i)
    return found


def _blobs(grains: Sequence[bytes], refused: list[Refusal]) -> tuple[list[bytes], list[bytes]]:
    """Grains with their blobs; of a broken envelope only its own hash can be told."""
    kept, blobs = list[bytes](), list[bytes]()
    for grain in grains:
        try:
            blobs.append(blob_of(grain))
        except OmsError as error:
            refused.append(_refusal(sha256(grain).digest(), error))
        else:
            kept.append(grain)
    return kept, blobs


class _TakeTransaction:
    """One transaction."""

    def __init__(
        self,
        store: GrainStore,
        writer: Writer,
        batch: Batch,
        given: _Sorted,
        terms: PeerTerms,
    ) -> None:
        self._store, self._writer = store, writer
        self._batch, self._given, self._terms = batch, given, terms
        self._refused = list(given.refused)

    def run(
        self, told: Sequence[GrainState], incoming: Incoming, coming: state_merge.Arriving
    ) -> BatchResult:
        writer, batch, terms = self._writer, self._batch, self._terms
        settings, first = context_of(self._store).settings, writer.last_seq() + 1
        unheld: dict[Refusal, None] = {}
        stones = erasures.take_tombstones(writer, batch.tombstones) if batch.tombstones else 0
        fresh = self._absent()
        changed = holds_first(writer, settings, told, terms, self._note, unheld)
        put = len(self._given.digests)
        stored, duplicates = self._put(incoming.only(range(put)))
        middle = writer.last_seq()
        arrivals = coming.split(incoming.only(range(put, len(incoming.pairs))))
        done = take_states(
            writer,
            settings,
            told,
            self._given.apart,
            arrivals,
            terms,
            self._note,
            fresh,
            first - 1,
        )
        changed |= done.changed
        changed |= holds_first(writer, settings, told, terms, self._note, unheld)
        changed |= self._signed(first)
        last = writer.last_seq()
        spans = [(first, last)]
        if not self._agrees(told, middle):  # these grains came from there; what they did is told
            late = writer.find([bytes.fromhex(address) for address in self._given.apart])
            came = sorted(seq for seq in late if seq is not None and seq > middle)
            spans = [(first, middle), *((seq, seq) for seq in came)]
        if batch.store:
            received.add_came(writer, batch.store, spans, batch.taken)
        if batch.until is not None and batch.store:
            received.see(writer, batch.store, batch.namespaces, batch.until)
        if batch.followed and batch.store:
            received.follow(writer, batch.store, batch.namespaces, batch.followed)
        known = len(self._given.apart) - done.stored - len(done.waiting)
        known -= self._refused_apart(done.refused)
        return BatchResult(
            stored + done.stored,
            duplicates + max(known, 0),
            len(changed),
            stones,
            0,
            tuple(dict.fromkeys((*self._refused, *done.refused, *unheld))),
            tuple(sorted(done.waiting)),
            done.unproven + sum(not one.proven for one in incoming.signatures.values()),
        )

    def _absent(self) -> frozenset[bytes]:
        """The grains of the batch that are not here yet."""
        digests = [*self._given.digests, *map(bytes.fromhex, self._given.apart)]
        found = self._writer.find(digests) if digests else ()
        return frozenset(one for one, seq in zip(digests, found, strict=True) if seq is None)

    def _put(self, given: Incoming) -> tuple[int, int]:
        """Put grains: how many are new, and how many were there."""
        writer = self._writer
        below: Reader = getattr(writer, "inner", writer)
        digests = [digest for digest, _ in given.pairs]
        if not digests:
            return 0, 0
        gone = {
            i for i in tombstones.refused(writer, digests) if below.find([digests[i]])[0] is None
        }
        which = [i for i in range(len(digests)) if i not in gone]
        outcome = put_admitted(context_of(self._store), writer, given.only(which), False, False)
        refused = {which[n]: error for n, error in outcome.refused.items()}
        refused |= {i: ErasedError("this grain was erased") for i in gone}
        for i, error in sorted(refused.items()):
            self._refused.append(_refusal(self._given.digests[i], error))
        stored = sum(outcome.new)
        return stored, len(digests) - len(refused) - stored

    def _signed(self, first: int) -> set[bytes]:
        """The grains that were here and got a further signature, since a number."""
        events = (event_of(row) for _, row in self._writer.rows(EVENTS, SEQUENCE.pack(first - 1)))
        return {address for kind, _, address in events if kind == SIGNED}

    def _agrees(self, told: Sequence[GrainState], middle: int) -> bool:
        """Whether the states that were changed last are now those that were told."""
        writer = self._writer
        said = {key: states.version(one) for key, one in states.joined(told).items()}
        events = (event_of(row) for _, row in writer.rows(EVENTS, SEQUENCE.pack(middle)))
        for seq, address in {seq: address for _, seq, address in events}.items():
            mine = states.state_told(writer, seq, address)
            if mine is not None and states.version(mine) != said.get(address):
                return False
        return True

    def _refused_apart(self, refused: Sequence[Refusal]) -> int:
        apart = self._given.apart
        return len({one.address for one in refused if one.address.hex() in apart})

    def _note(self, operation: str, digests: list[bytes]) -> None:
        context_of(self._store).note(self._writer, operation, digests, reason_code=_REASON)


def _was_erased(reader: Reader, address: bytes) -> bool:
    return reader.find([address])[0] is None and bool(tombstones.refused(reader, [address]))


def _refusal(digest: bytes, error: OmsError) -> Refusal:
    return Refusal("grain", digest, error.code, error.rule)
