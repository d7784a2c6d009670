# SPDX-License-Identifier: Apache-2.0
"""What a store takes over of the states that another one tells it. ``docs/sync.md`` has the rules.

A state from outside is a claim: it counts no more than the same act of whoever syncs. That a grain
was superseded, contested or retracted passes the policies that are here, as in an import. What
cannot be looked into here is for ``blind.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from omsgrain.engine import acts, holding, merging
from omsgrain.engine.holding import Hold
from omsgrain.errors import KeyMissingError, OmsError
from omsgrain.exchange import Claim
from omsgrain.store import toggles
from omsgrain.store.base import Reader, Writer
from omsgrain.store.state import State, unpack
from omsgrain.store.tables import RELEASED, RESTRICTED, SEQUENCE, STATES
from omsgrain.sync import blind
from omsgrain.sync.blind import Outcome
from omsgrain.sync.peer import GrainState, HoldTurn, Refusal, Right

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["holds_first", "take_states"]

_RANK = {"": 0, "contested": 1, "retracted": 2}


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
            if blind.pass_on(writer, settings, state, claim, given, note, done):
                came.update(filter(None, [new]))
        elif new in apart and new not in came and new is not None:
            done.refused.append(Refusal("grain", bytes.fromhex(new), error.code, error.rule))
        else:
            done.refused.append(Refusal("state", state.address, error.code, error.rule))
    for state in told:
        blind.erased_successors(writer, settings, state, note, done)
    named = {claim.superseded_by for _, claim in waiting} - came
    done.waiting = {bytes.fromhex(new) for new in named if new in apart and new is not None}


def _claims(
    reader: Reader, state: GrainState, apart: Mapping[str, tuple[bytes, ...]]
) -> Iterator[Claim]:
    """What a state says that is not so here, one thing a claim; the grain may be still to come."""
    seq = reader.find([state.address])[0]
    mine = State() if seq is None else unpack(reader.row(STATES, SEQUENCE.pack(seq)))
    address = state.address.hex()
    if _RANK[state.status] > _RANK.get(mine.verification_status, 0):
        yield Claim(address, None, state.status)  # type: ignore[arg-type]  # not the empty one
    for successor in state.successors:
        new = successor.hex()
        if new in apart or (
            new not in mine.successors and reader.find([successor])[0] is not None
        ):
            yield Claim(address, new, "unverified", apart.get(new, ()))


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
