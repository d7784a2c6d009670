# SPDX-License-Identifier: Apache-2.0
"""States that cannot be looked into: what superseded a grain was erased, or is sealed.

What cannot be read here is passed on as it was told: who can read it asks the policies again. A
grain that can be read is asked for its own policy, as if it were retracted; of one that cannot, a
hold is all that keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omsgrain import policy
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    StoreError,
)
from omsgrain.storage import tombstones
from omsgrain.storage.base import Writer
from omsgrain.storage.records import (
    PAST,
    GrainStatus,
    pack,
    unpack,
)
from omsgrain.storage.tables import (
    HOLDS,
    SEQUENCE,
    STATES,
    SUPERSEDED,
    SUPERSEDES,
    TOMBSTONES,
    VERIFIED,
)
from omsgrain.store import reviews, state_merge
from omsgrain.store.policy_context import PolicyContext
from omsgrain.store.prepared import Incoming
from omsgrain.store.state_merge import Claim
from omsgrain.store.write import admit, place
from omsgrain.sync.peer import GrainState, Refusal

if TYPE_CHECKING:
    from omsgrain.store.context import Settings

_ACTS = {"verified": "verify", "contested": "contest", "retracted": "retract"}


@dataclass(slots=True)
class BlindOutcome:
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


def erased_successors(
    writer: Writer,
    settings: Settings,
    state: GrainState,
    note: state_merge.Note,
    done: BlindOutcome,
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
    reason = "what superseded it was erased"
    rules = _allowed(writer, settings, seq, state, done, reason)
    if rules is None:
        return
    _add_successors(writer, seq, before, gone, state.valid_to)
    number = writer.event(SUPERSEDED, seq, state.address)
    if rules:  # nobody can look at what superseded it: somebody looks at this
        address, now = state.address.hex(), settings.clock()
        reviews.add(writer, reviews.Review(number, "supersede", address, None, reason, now, rules))
    note("supersede", [state.address])
    done.changed.add(state.address)


def pass_on(
    writer: Writer,
    settings: Settings,
    state: GrainState,
    claim: Claim,
    given: Incoming | None,
    note: state_merge.Note,
    done: BlindOutcome,
) -> bool:
    """Take over what nobody can look into here, with the superseding grain if it came along."""
    seq = writer.find([state.address])[0]
    if seq is None or _allowed(writer, settings, seq, state, done, None) is None:
        return False
    if given is not None and writer.find([given.pairs[0][0]])[0] is None:
        for error in admit(writer, settings, given).refused.values():
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
        note(_ACTS[claim.verification_status], [state.address])
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
    done: BlindOutcome,
    justification: str | None,
) -> tuple[str, ...] | None:
    """The rules that ask for a review if a grain loses its place; None if it may not.

    What takes its place cannot be looked into. If the grain itself cannot be read either, a hold
    is all that keeps it.
    """
    address = state.address.hex()
    act = policy.Act("retract", address, justification=justification, now=settings.clock())
    refusal: OmsError | None = None
    rules: tuple[str, ...] = ()
    try:
        verdict = policy.check(
            PolicyContext(writer), act, hold_authorities=settings.hold_authorities
        )
        rules = verdict.rules if verdict.review else ()
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
        return None
    return rules


def _add_successors(
    writer: Writer, seq: int, before: GrainStatus, more: set[bytes], valid_to: int | None
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


def _set(writer: Writer, seq: int, before: GrainStatus, after: GrainStatus) -> None:
    writer.set_row(STATES, SEQUENCE.pack(seq), pack(after))
    past = bool(after.bits & PAST)
    if past != bool(before.bits & PAST):
        writer.set_past(seq, past)
