# SPDX-License-Identifier: Apache-2.0
"""What a store takes over of the states that another one tells it. ``docs/sync.md`` has the rules.

A state from outside is a claim: it counts no more than the same act of whoever syncs. That a grain
was superseded, contested or retracted passes the policies that are here, as in an import. What
cannot be looked into here is for ``blind.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from omsgrain.engine import acts, holding, merging
from omsgrain.engine.holding import Hold
from omsgrain.engine.reasons import check_reason
from omsgrain.errors import (
    IntegrityError,
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
)
from omsgrain.exchange import Claim
from omsgrain.store import toggles
from omsgrain.store.base import Reader, Writer
from omsgrain.store.state import State, unpack
from omsgrain.store.tables import RELEASED, RESTRICTED, SEQUENCE, STATES
from omsgrain.sync import blind
from omsgrain.sync.blind import Outcome
from omsgrain.sync.peer import GrainState, HoldTurn, Refusal, Terms

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["holds_first", "take_states"]

_RANK = {"verified": 0, "unverified": 0, "contested": 1, "retracted": 2}


def holds_first(
    writer: Writer,
    settings: Settings,
    told: Iterable[GrainState],
    terms: Terms,
    note: merging.Note,
    refused: dict[Refusal, None],
) -> set[bytes]:
    """Take over holds and their ends.

    Args:
        writer: the transaction.
        settings: of the handle.
        told: the states; those of grains that are not here are passed over.
        terms: on which they come.
        note: adds to the audit trail.
        refused: gets what is not taken over.

    Returns:
        The addresses of the grains that changed.
    """
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
    writer: Writer, seq: int, address: bytes, told: HoldTurn, ends: bool
) -> tuple[Literal["hold", "release"] | None, OmsError | None]:
    """Take over a hold, or its end.

    Returns:
        What was done; and that the number is none that can be. A hold is taken over nevertheless,
        with a number that can.

    Raises:
        InvalidationDeniedError: whoever brings it may not end a hold.
        SchemaError: no authority of this store could have given it, nor end it.
        IntegrityError: a row of the grain is damaged.
    """
    what = toggles.hold_of(told.authority)
    held = {one.authority: one for one in holding.holds(writer, seq)}
    mine = held.get(told.authority)
    turn = toggles.turn(writer, seq, what, mine is not None)
    wanted = Hold(told.authority, told.reason_code, told.since)
    if told.turn < turn or told.turn < 1:
        return None, None
    if told.turn == turn:
        if mine is None or told.turn % 2 == 0 or _later(mine) >= _later(wanted):
            return None, None
    at = toggles.taken(turn, told.turn)
    late = None if at == told.turn else RangeError("nobody holds a grain so often")
    if told.turn % 2:
        if not told.authority.strip():
            raise SchemaError("a hold names who asks for it", field="/authority")
        check_reason(told.reason_code)
        if late is not None and mine is not None:
            return None, late
        holding.hold(writer, address, wanted)
    elif not ends:
        if mine is None:
            return None, None  # nothing ends here, and no number bars a hold to come
        raise InvalidationDeniedError("its authority ends a hold, nobody else", rule="release")
    elif late is not None:
        return None, late
    elif mine is not None:
        holding.release(writer, address, wanted)
    else:
        writer.event(RELEASED, seq, address)
    toggles.put(writer, seq, what, at, told.authority)
    return "hold" if told.turn % 2 else "release", late


def _later(hold: Hold) -> tuple[int, str]:
    return hold.since, hold.reason_code


def take_states(
    writer: Writer,
    settings: Settings,
    told: Sequence[GrainState],
    apart: Mapping[str, tuple[bytes, ...]],
    arrivals: merging.Arrivals,
    terms: Terms,
    note: merging.Note,
    fresh: Collection[bytes],
    last: int,
) -> Outcome:
    """Take over what others tell of grains, as far as the rules allow.

    Args:
        writer: the transaction, with the grains of the batch in it.
        settings: of the handle.
        told: the states.
        apart: superseding grains that are not stored yet, by address: as they stand in the batch.
        arrivals: the same, verified.
        terms: on which they come.
        note: adds to the audit trail.
        fresh: the grains that were not here before this batch. One of them that is restricted
            there is so here: whoever may bring a grain may not bring it into use again.
        last: the number of the last grain before this batch. Without the right to bring holds no
            policy with scope ``lineage`` comes to cover grains up to it.
    """
    done = Outcome()
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
    arrivals: merging.Arrivals,
    trusted: bool,
    since: int | None,
    note: merging.Note,
    done: Outcome,
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
            merged = merging.merge(
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
    mine = State() if seq is None else unpack(reader.row(STATES, SEQUENCE.pack(seq)))
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
    turn = toggles.turn(writer, seq, toggles.RESTRICTION, on)
    if told.restricted <= turn:
        return False, None
    at = toggles.taken(turn, told.restricted)
    late = None if at == told.restricted else RangeError("nobody restricts a grain so often")
    if at == turn:
        return False, late
    if acts.restrict_asked(writer, settings, seq, bool(at % 2), None) is None:
        writer.event(RESTRICTED, seq, told.address)  # it is so already, and was not in between
    toggles.put(writer, seq, toggles.RESTRICTION, at)
    return True, late
