# SPDX-License-Identifier: Apache-2.0
"""What a store takes over of the states that another one tells it. ``docs/sync.md`` has the rules.

A state from outside is a claim: it counts no more than the same act of whoever syncs. That a grain
was superseded, contested or retracted passes the policies that are here, as in an import. What
cannot be looked into here, since it is sealed and there is no key, is passed on as it was told:
nobody can read it here, and who can asks the policies again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omsgrain.engine import acts, holding, merging
from omsgrain.engine.admission import admit
from omsgrain.engine.holding import Hold
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.placing import place
from omsgrain.engine.world import StoreWorld
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    StoreError,
)
from omsgrain.exchange import Claim
from omsgrain.index import policy
from omsgrain.store import toggles, tombstones
from omsgrain.store.base import Reader, Writer
from omsgrain.store.state import PAST, State, pack, unpack
from omsgrain.store.tables import (
    HOLDS,
    RELEASED,
    RESTRICTED,
    SEQUENCE,
    STATES,
    SUPERSEDED,
    SUPERSEDES,
    TOMBSTONES,
    VERIFIED,
)
from omsgrain.sync.peer import GrainState, HoldTurn, Refusal, Right

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["Outcome", "holds_first", "take_states"]

_RANK = {"": 0, "contested": 1, "retracted": 2}


@dataclass(slots=True)
class Outcome:
    """What became of the states of a batch.

    Attributes:
        stored: grains that came in by superseding.
        changed: addresses of grains whose state changed.
        refused: claims that were refused.
        waiting: superseding grains whose predecessors are not here.
        unproven: signatures that came with them and could not be verified.
    """

    stored: int = 0
    changed: set[bytes] = field(default_factory=set)
    refused: list[Refusal] = field(default_factory=list)
    waiting: set[bytes] = field(default_factory=set)
    unproven: int = 0


def holds_first(
    writer: Writer, told: Iterable[GrainState], rights: frozenset[Right], note: merging.Note
) -> set[bytes]:
    """Take over holds and their ends; returns the addresses of the grains that changed."""
    changed = set()
    for state in told if "holds" in rights else ():
        seq = writer.find([state.address])[0]
        if seq is None:
            continue
        for one in state.holds:
            if _hold(writer, seq, state.address, one):
                note("hold" if one.turn % 2 else "release", [state.address])
                changed.add(state.address)
    return changed


def _hold(writer: Writer, seq: int, address: bytes, told: HoldTurn) -> bool:
    what = toggles.hold_of(told.authority)
    held = {one.authority: one for one in holding.holds(writer, seq)}
    mine = held.get(told.authority)
    turn = toggles.turn(writer, seq, what, mine is not None)
    wanted = Hold(told.authority, told.reason_code, told.since)
    if told.turn < turn or told.turn < 1:
        return False
    if told.turn == turn:
        if mine is None or told.turn % 2 == 0 or _later(mine) >= _later(wanted):
            return False
    if told.turn % 2:
        holding.hold(writer, address, wanted)
    elif mine is not None:
        holding.release(writer, address, wanted)
    else:
        writer.event(RELEASED, seq, address)
    toggles.put(writer, seq, what, told.turn, told.authority)
    return True


def _later(hold: Hold) -> tuple[int, str]:
    return hold.since, hold.reason_code


def take_states(
    writer: Writer,
    settings: Settings,
    told: Sequence[GrainState],
    apart: Mapping[str, tuple[bytes, ...]],
    arrivals: merging.Arrivals,
    rights: frozenset[Right],
    note: merging.Note,
) -> Outcome:
    """Take over what others tell of grains, as far as the rules allow.

    Args:
        writer: the transaction, with the grains of the batch in it.
        settings: of the handle.
        told: the states.
        apart: superseding grains that are not stored yet, by address: as they stand in the batch.
        arrivals: the same, verified.
        rights: what the other side may bring.
        note: adds to the audit trail.
    """
    done = Outcome()
    if "states" in rights:
        _supersede(writer, settings, told, apart, arrivals, note, done)
    for state in told if "restrictions" in rights else ():
        if _restrict(writer, state):
            note("restrict", [state.address])
            done.changed.add(state.address)
    return done


def _supersede(
    writer: Writer,
    settings: Settings,
    told: Sequence[GrainState],
    apart: Mapping[str, tuple[bytes, ...]],
    arrivals: merging.Arrivals,
    note: merging.Note,
    done: Outcome,
) -> None:
    """Offer the claims until none of those that wait can be taken over any more."""
    offered = [(state, claim) for state in told for claim in _claims(writer, state, apart)]
    refused: list[tuple[GrainState, Claim, OmsError]] = []
    came: set[str] = set()
    while offered:
        waiting = []
        for state, claim in offered:
            merged = merging.merge(writer, settings, [claim], arrivals, note)
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
            if _pass_on(writer, settings, state, claim, given, note, done):
                came.update(filter(None, [new]))
        elif new in apart and new not in came and new is not None:
            done.refused.append(Refusal("grain", bytes.fromhex(new), error.code, error.rule))
        else:
            done.refused.append(Refusal("state", state.address, error.code, error.rule))
    for state in told:
        _erased_successors(writer, settings, state, note, done)
    named = {claim.superseded_by for _, claim in waiting} - came
    done.waiting = {bytes.fromhex(new) for new in named if new in apart and new is not None}


def _claims(
    reader: Reader, state: GrainState, apart: Mapping[str, tuple[bytes, ...]]
) -> Iterator[Claim]:
    """What a state says that is not so here, one thing a claim."""
    seq = reader.find([state.address])[0]
    mine = State() if seq is None else unpack(reader.row(STATES, SEQUENCE.pack(seq)))
    address = state.address.hex()
    if seq is not None and _RANK[state.status] > _RANK.get(mine.verification_status, 0):
        yield Claim(address, None, state.status)  # type: ignore[arg-type]  # not the empty one
    for successor in state.successors:
        new = successor.hex()
        if new in apart or (seq is not None and new not in mine.successors):
            if new in apart or reader.find([successor])[0] is not None:
                yield Claim(address, new, "unverified", apart.get(new, ()))


def _erased_successors(
    writer: Writer, settings: Settings, state: GrainState, note: merging.Note, done: Outcome
) -> None:
    """Take over that a grain was superseded by one that was erased since: it stays past."""
    seq = writer.find([state.address])[0]
    if seq is None or not state.successors:
        return
    key = SEQUENCE.pack(seq)
    before = unpack(writer.row(STATES, key))
    known = {bytes.fromhex(one) for one in before.successors}
    marks = {
        tombstones.mark(shared, "address", one)
        for shared in tombstones.keys(writer)
        for one in known
    }
    gone = set()
    for successor in state.successors:
        if successor in known or successor in marks or writer.find([successor])[0] is not None:
            continue
        if writer.row(TOMBSTONES, successor) is not None:
            gone.add(successor)
        elif tombstones.has(writer, "address", successor):
            mark = tombstones.mark_of(writer, successor)
            if mark is not None and mark not in known:
                gone.add(mark)
    if not gone:
        return
    if not _allowed(writer, settings, seq, state, done, "what superseded it was erased"):
        return
    _add_successors(writer, seq, before, gone, state.valid_to)
    writer.event(SUPERSEDED, seq, state.address)
    note("supersede", [state.address])
    done.changed.add(state.address)


def _pass_on(
    writer: Writer,
    settings: Settings,
    state: GrainState,
    claim: Claim,
    given: Incoming | None,
    note: merging.Note,
    done: Outcome,
) -> bool:
    """Take over what nobody can look into here, with the superseding grain if it came along."""
    seq = writer.find([state.address])[0]
    if seq is None or not _allowed(writer, settings, seq, state, done, None):
        return False
    if given is not None and writer.find([given.pairs[0][0]])[0] is None:
        for _, error in admit(writer, settings, given).refused.items():
            address = given.pairs[0][0]
            done.refused.append(Refusal("grain", address, error.code, error.rule))
            return False
        place(writer, given, range(len(given.pairs)))
        note("put", [given.pairs[0][0]])
        done.stored += 1
    before = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
    if claim.superseded_by is None:
        _set(writer, seq, before, replace(before, verification_status=claim.verification_status))
        writer.event(VERIFIED, seq, state.address)
        note("retract" if claim.verification_status == "retracted" else "contest", [state.address])
    else:
        new = bytes.fromhex(claim.superseded_by)
        _add_successors(writer, seq, before, {new}, state.valid_to)
        later = writer.find([new])[0]
        if later is not None:
            writer.set_row(SUPERSEDES, SEQUENCE.pack(later) + SEQUENCE.pack(seq), b"")
        writer.event(SUPERSEDED, seq, state.address)
        note("supersede", [state.address, new])
    done.changed.add(state.address)
    return True


def _allowed(
    writer: Writer,
    settings: Settings,
    seq: int,
    state: GrainState,
    done: Outcome,
    justification: str | None,
) -> bool:
    """Whether a grain may lose its place to what cannot be looked into.

    If the grain itself cannot be read either, a hold is all that keeps it.
    """
    address = state.address.hex()
    act = policy.Act("retract", address, justification=justification, now=settings.clock())
    refusal: OmsError | None = None
    try:
        policy.check(StoreWorld(writer), act, hold_authorities=settings.hold_authorities)
    except KeyMissingError:
        if writer.row(HOLDS, SEQUENCE.pack(seq)) is not None:
            refusal = InvalidationDeniedError("the store holds the grain", rule="hold")
    except StoreError as error:
        if not isinstance(error, NotFoundError):  # its key was destroyed: it allows all
            raise
    except OmsError as error:
        refusal = error
    if refusal is not None:
        done.refused.append(Refusal("state", state.address, refusal.code, refusal.rule))
    return refusal is None


def _add_successors(
    writer: Writer, seq: int, before: State, more: set[bytes], valid_to: int | None
) -> None:
    successors = tuple(sorted({*before.successors, *(one.hex() for one in more)}))
    ends = [one for one in (before.system_valid_to, valid_to) if one is not None]
    after = replace(
        before,
        superseded_by=successors[0],
        successors=successors,
        system_valid_to=min(ends, default=None),
    )
    _set(writer, seq, before, after)


def _set(writer: Writer, seq: int, before: State, after: State) -> None:
    writer.set_row(STATES, SEQUENCE.pack(seq), pack(after))
    past = bool(after.bits & PAST)
    if past != bool(before.bits & PAST):
        writer.set_past(seq, past)


def _restrict(writer: Writer, told: GrainState) -> bool:
    seq = writer.find([told.address])[0]
    if seq is None:
        return False
    on = unpack(writer.row(STATES, SEQUENCE.pack(seq))).restricted
    turn = toggles.turn(writer, seq, toggles.RESTRICTION, on)
    if told.restricted <= turn:
        return False
    if acts.restrict(writer, seq, bool(told.restricted % 2)) is None:
        writer.event(RESTRICTED, seq, told.address)  # it is so already, and was not in between
    toggles.put(writer, seq, toggles.RESTRICTION, told.restricted)
    return True
