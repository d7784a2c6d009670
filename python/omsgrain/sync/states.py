# SPDX-License-Identifier: Apache-2.0
"""The states of grains: sent to other stores, and merged from them.

A state from another store is a claim: the policies of this store decide, as if its own user made
the change. If the superseding grain was erased or cannot be read here, the policy of the
superseded grain decides alone, as for a retraction. If that cannot be read either, only a hold
keeps it. A store with the keys applies the policies again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

import blake3

from omsgrain import policy
from omsgrain.errors import (
    IntegrityError,
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
)
from omsgrain.storage import records, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import GrainStatus, unpack
from omsgrain.storage.signatures import SEALED
from omsgrain.storage.tables import (
    HOLDS,
    RELEASED,
    RESTRICTED,
    SEQUENCE,
    SIGNATURES,
    STATES,
    SUPERSEDED,
    SUPERSEDES,
    TOGGLES,
    TOMBSTONES,
    VERIFIED,
    Table,
)
from omsgrain.store import holds, lifecycle, reviews, state_merge
from omsgrain.store.context import check_reason
from omsgrain.store.holds import Hold
from omsgrain.store.policy_context import PolicyContext
from omsgrain.store.prepared import PreparedGrains
from omsgrain.store.state_merge import Claim
from omsgrain.store.write import admit, place
from omsgrain.sync.peer import GrainState, HoldToggle, PeerTerms, Refusal, Tombstone
from omsgrain.sync.protocol import pack_value

if TYPE_CHECKING:
    from omsgrain.store.context import Settings

VERSION: Final = 8
"""Bytes of the version of signatures, a state, holds or a tombstone."""
_PIECE: Final = 64 << 10
"""About how many bytes a piece of a state has: small enough for a bad connection."""
_ITEMS: Final = 1_000
"""The most successors and holds, together, in a piece of a state."""
_NAME: Final = 64
"""Bytes of an address in a message, with its flags."""
HOLD_TABLES: Final = (HOLDS, TOGGLES)
STATE_TABLES: Final = (STATES, *HOLD_TABLES)
_RANK = {"verified": 0, "unverified": 0, "contested": 1, "retracted": 2}
_OPERATIONS = {"verified": "verify", "contested": "contest", "retracted": "retract"}


def reported_state(reader: Reader, seq: int, address: bytes) -> GrainState | None:
    """Return the state of a grain to send; None if it has none."""
    status = unpack(reader.row(STATES, SEQUENCE.pack(seq)))
    state = GrainState(
        address,
        tuple(sorted(_shown(reader, status.successors))),
        status.system_valid_to,
        "" if status.verification_status == "unverified" else status.verification_status,
        records.toggle_epoch(reader, seq, records.RESTRICTION, status.restricted),
        reported_holds(reader, seq),
    )
    return None if state == GrainState(address) else state


def _shown(reader: Reader, successors: Sequence[str]) -> Iterator[bytes]:
    """Yield the addresses of successors; for an erased one its mark."""
    digests = [bytes.fromhex(one) for one in successors]
    for digest, seq in zip(digests, reader.raw.find(digests) if digests else (), strict=True):
        if seq is None and tombstones.refused(reader, [digest]):
            yield tombstones.mark_of(reader, digest) or digest
        else:
            yield digest


def reported_holds(reader: Reader, seq: int) -> tuple[HoldToggle, ...]:
    """Return the present and past holds of a grain."""
    held = {one.authority: one for one in holds.holds(reader, seq)}
    epochs = dict(records.named(reader, seq))
    found = []
    for authority in sorted(held.keys() | epochs.keys()):
        hold, epoch = held.get(authority), epochs.get(authority, 1)
        if hold is None:
            found.append(HoldToggle(authority, epoch))
        else:
            found.append(HoldToggle(authority, epoch, hold.reason_code, hold.since))
    return tuple(found)


def predecessors(reader: Reader, seq: int) -> Iterator[tuple[int, bytes]]:
    """Yield the grains that a grain superseded: number and address."""
    for row, _ in reader.rows(SUPERSEDES, prefix=SEQUENCE.pack(seq)):
        (old,) = SEQUENCE.unpack(row[SEQUENCE.size :])
        blob = reader.blob_at(old)
        if blob is not None:
            yield old, sha256(blob).digest()


def with_states(reader: Reader, first: int, last: int) -> set[int]:
    """Return the numbers in a range of the grains that may have a state to send.

    Most grains have none, and are not looked up.
    """
    found: set[int] = set()
    for table in (*STATE_TABLES, SUPERSEDES):
        for key, _ in reader.rows(table, SEQUENCE.pack(max(first - 1, 0))):
            (seq,) = SEQUENCE.unpack(key[: SEQUENCE.size])
            if seq > last:
                break
            found.add(seq)
    return found


def numbers(reader: Reader, tables: Iterable[Table], after: int = 0) -> Iterator[int]:
    """Yield the numbers of the grains with rows in some tables, for each table once."""
    first = SEQUENCE.pack(after)
    for table in tables:
        rows = (key[: SEQUENCE.size] for key, _ in reader.rows(table, first))
        yield from (SEQUENCE.unpack(number)[0] for number, _ in groupby(rows) if number > first)


def signed(reader: Reader, after: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the signed grains: the number, and a digest of the signers.

    Encrypted signatures are left out: they are bound to their place in this store.
    """
    found = _signers(reader.rows(SIGNATURES, SEQUENCE.pack(after)))
    return ((seq, digest) for seq, digest in found if seq > after)


def signers(reader: Reader, seq: int) -> bytes:
    """Return the digest of a grain's signers; zeros without any."""
    found = _signers(reader.rows(SIGNATURES, prefix=SEQUENCE.pack(seq)))
    return next((digest for _, digest in found), bytes(VERSION))


def _signers(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[int, bytes]]:
    open_ = (key for key, row in rows if row[:1] != SEALED)
    for number, keys in groupby(open_, key=lambda key: key[: SEQUENCE.size]):
        names = b"".join(key[SEQUENCE.size :] for key in keys)
        yield SEQUENCE.unpack(number)[0], blake3.blake3(names).digest(VERSION)


def version(item: GrainState | Tombstone | tuple[HoldToggle, ...]) -> bytes:
    """Return a short digest of a state, a tombstone or holds."""
    if isinstance(item, GrainState):
        # valid_to follows from the rest; "verified" is the judgement of one store.
        status = "" if item.status == "verified" else item.status
        item = replace(item, valid_to=None, status=status)
    return blake3.blake3(pack_value(item)).digest(VERSION)


def weight(state: GrainState) -> int:
    """Return about how many bytes a state takes in a message."""
    return _NAME * (1 + len(state.successors)) + sum(map(_weight_of_hold, state.holds))


def _weight_of_hold(toggle: HoldToggle) -> int:
    return _NAME + len(toggle.authority.encode()) + len(toggle.reason_code.encode())


def cut(state: GrainState, start: int) -> tuple[GrainState, int]:
    """Cut a piece from a state with more successors or holds than one message can have.

    Each piece is a state. The order of merging does not matter.
    """
    first_hold = max(0, start - len(state.successors))
    successors, held = state.successors[start:], state.holds[first_hold:]
    count = size = 0
    for one in (*(_NAME for _ in successors[:_ITEMS]), *map(_weight_of_hold, held[:_ITEMS])):
        if count == _ITEMS or (count and size + one > _PIECE):
            break
        size += one
        count += 1
    if count == len(successors) + len(held):
        return replace(state, successors=successors, holds=held), 0
    after = max(0, count - len(successors))
    return replace(state, successors=successors[:count], holds=held[:after]), start + count


def joined(pieces: Iterable[GrainState]) -> dict[bytes, GrainState]:
    found: dict[bytes, GrainState] = {}
    for one in pieces:
        if (before := found.get(one.address)) is not None:
            successors = tuple(sorted({*before.successors, *one.successors}))
            held = tuple(sorted({*before.holds, *one.holds}, key=lambda hold: hold.authority))
            one = replace(one, successors=successors, holds=held)
        found[one.address] = one
    return found


def is_compared(state: GrainState) -> bool:
    """Whether a state counts in a comparison of two stores; "verified" alone does not."""
    status = "" if state.status == "verified" else state.status
    return replace(state, status=status) != GrainState(state.address)


def tombstone_of(mark: bytes, row: bytes) -> Tombstone:
    return Tombstone(mark, *tombstones.read_row(row))


class StateMerge:
    """Merges the states of a batch, in one transaction."""

    def __init__(
        self, writer: Writer, settings: Settings, terms: PeerTerms, note: state_merge.Note
    ) -> None:
        self._writer, self._settings, self._terms, self._note = writer, settings, terms, note
        self.stored = 0  # grains stored by a supersession
        self.unproven = 0  # signatures on them whose signers could not be resolved
        self.changed: set[bytes] = set()  # addresses of grains whose state changed
        self.refused: list[Refusal] = []  # states that a rule refuses
        self.holds_refused: list[Refusal] = []  # holds and their ends that a rule refuses
        self.waiting: set[bytes] = set()  # superseding grains without their predecessors

    def merge_holds(self, reported: Iterable[GrainState]) -> None:
        """Merge holds and their ends, of grains that the store has."""
        authorities = self._settings.hold_authorities
        ends = "releases" in self._terms.rights and (
            not authorities or self._terms.signer in authorities
        )
        for state in reported if "holds" in self._terms.rights else ():
            seq = self._writer.find([state.address])[0]
            if seq is None:
                continue
            for one in state.holds:
                try:
                    done, late = _hold(self._writer, seq, state.address, one, ends)
                except StoreError:
                    raise
                except OmsError as error:
                    done, late = None, error
                if late is not None:
                    refusal = Refusal("hold", state.address, late.code, late.rule)
                    self.holds_refused.append(refusal)
                if done is not None:
                    self._note(done, [state.address])
                    self.changed.add(state.address)

    def merge(
        self,
        reported: Sequence[GrainState],
        apart: Mapping[str, tuple[bytes, ...]],
        arrivals: state_merge.GrainsByAddress,
        fresh: Collection[bytes],
        last: int,
    ) -> None:
        """Merge successors, statuses and restrictions.

        The superseding grains of the batch are ``apart``, as the batch has them, and ``arrivals``,
        verified. Before the batch the store ended at ``last`` and lacked ``fresh``.
        """
        if "states" in self._terms.rights:
            binding = None if "holds" in self._terms.rights else last
            self._supersede(reported, apart, arrivals, binding)
        for state in reported:
            if "restrictions" not in self._terms.rights:
                if state.address not in fresh or state.restricted % 2 == 0:
                    continue
                state = replace(state, restricted=1)
            try:
                changed, late = self._restrict(state)
            except StoreError:
                raise
            except OmsError as refusal:
                changed, late = False, refusal
            if late is not None:
                self.refused.append(Refusal("restriction", state.address, late.code, late.rule))
            if changed:
                self._note("restrict", [state.address])
                self.changed.add(state.address)

    def _supersede(
        self,
        reported: Sequence[GrainState],
        apart: Mapping[str, tuple[bytes, ...]],
        arrivals: state_merge.GrainsByAddress,
        since: int | None,
    ) -> None:
        """Merge the claims; repeat while a waiting claim could be merged."""
        offered: list[tuple[GrainState, Claim]] = []
        sound: list[GrainState] = []
        for state in reported:
            try:
                offered += [(state, claim) for claim in self._claims(state, apart)]
            except IntegrityError as damage:
                self.refused.append(Refusal("state", state.address, damage.code, damage.rule))
            else:
                sound.append(state)
        refused: list[tuple[GrainState, Claim, OmsError]] = []
        came: set[str] = set()
        waiting: list[tuple[GrainState, Claim]] = []
        while offered:
            waiting = []
            for state, claim in offered:
                merged = state_merge.merge_claims(
                    self._writer,
                    self._settings,
                    [claim],
                    arrivals,
                    self._note,
                    trusted=self._terms.trusted,
                    since=since,
                )
                self.stored += merged.stored
                self.unproven += merged.unproven
                if merged.taken:
                    self.changed.add(state.address)
                if merged.refused:
                    refused.append((state, claim, merged.refused[0][1]))
                elif merged.waiting:
                    waiting.append((state, claim))
                elif claim.superseded_by is not None:
                    came.add(claim.superseded_by)
            if len(waiting) == len(offered):
                break
            offered = waiting
        for state, claim, error in refused:
            new = claim.superseded_by
            given = arrivals.get(new) if new is not None else None
            if isinstance(error, KeyMissingError) and not isinstance(given, OmsError):
                if self._pass_on(state, claim, given):
                    came.update(filter(None, [new]))
            elif new in apart and new not in came and new is not None:
                self.refused.append(Refusal("grain", bytes.fromhex(new), error.code, error.rule))
            else:
                self.refused.append(Refusal("state", state.address, error.code, error.rule))
        for state in sound:
            self.supersede_by_erased(state)
        named = {claim.superseded_by for _, claim in waiting} - came
        self.waiting = {bytes.fromhex(new) for new in named if new in apart and new is not None}

    def _claims(
        self, state: GrainState, apart: Mapping[str, tuple[bytes, ...]]
    ) -> Iterator[Claim]:
        """Yield the claims of a state that are new here."""
        reader = self._writer
        seq = reader.find([state.address])[0]
        mine = GrainStatus() if seq is None else unpack(reader.row(STATES, SEQUENCE.pack(seq)))
        address = state.address.hex()
        if state.status == "verified":
            if self._terms.trusted and mine.verification_status == "unverified":
                yield Claim(address, None, "verified")
        elif state.status and _RANK[state.status] > _RANK[mine.verification_status]:
            yield Claim(address, None, state.status)
        known = frozenset(mine.successors)
        named = [successor.hex() for successor in state.successors]
        here = reader.find(state.successors) if state.successors else ()
        for new, there in zip(named, here, strict=True):
            if new in apart or (new not in known and there is not None):
                yield Claim(address, new, "unverified", apart.get(new, ()))

    def supersede_by_erased(self, state: GrainState) -> None:
        """Merge that a grain was superseded by one that was erased since."""
        writer = self._writer
        seq = writer.find([state.address])[0]
        if seq is None or not state.successors:
            return
        before = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
        known = {bytes.fromhex(one) for one in before.successors}
        here = known | {
            tombstones.mark(shared, "address", one)
            for shared in tombstones.keys(writer)
            for one in known
        }
        gone = set()
        for successor in state.successors:
            if successor in here or writer.find([successor])[0] is not None:
                continue
            if writer.row(TOMBSTONES, successor) is not None:
                gone.add(successor)
            elif tombstones.has(writer, "address", successor):
                mark = tombstones.mark_of(writer, successor)
                if mark is not None and mark not in known:
                    gone.add(mark)
        if not gone:
            return
        reason = "the superseding grain was erased"
        rules = self._allowed(seq, state.address, reason)
        if rules is None:
            return
        self._add_successors(seq, before, gone, state.valid_to)
        number = writer.event(SUPERSEDED, seq, state.address)
        if rules:  # the successor cannot be reviewed, so this grain is
            address, now = state.address.hex(), self._settings.clock()
            review = reviews.Review(number, "supersede", address, None, reason, now, rules)
            reviews.add(writer, review)
        self._note("supersede", [state.address])
        self.changed.add(state.address)

    def _pass_on(self, state: GrainState, claim: Claim, given: PreparedGrains | None) -> bool:
        """Merge a claim that cannot be checked here, with the superseding grain of the batch."""
        writer = self._writer
        seq = writer.find([state.address])[0]
        if seq is None or self._allowed(seq, state.address, None) is None:
            return False
        if given is not None and writer.find([given.pairs[0][0]])[0] is None:
            address = given.pairs[0][0]
            for error in admit(writer, self._settings, given)[0].values():
                self.refused.append(Refusal("grain", address, error.code, error.rule))
                return False
            place(writer, given, range(len(given.pairs)))
            self._note("put", [address])
            self.stored += 1
        before = unpack(writer.row(STATES, SEQUENCE.pack(seq)))
        if claim.superseded_by is None:
            after = replace(before, verification_status=claim.verification_status)
            lifecycle.set_state(self._writer, seq, before, after)
            writer.event(VERIFIED, seq, state.address)
            self._note(_OPERATIONS[claim.verification_status], [state.address])
        else:
            new = bytes.fromhex(claim.superseded_by)
            self._add_successors(seq, before, {new}, state.valid_to)
            later = writer.find([new])[0]
            if later is not None:
                writer.set_row(SUPERSEDES, SEQUENCE.pack(later) + SEQUENCE.pack(seq), b"")
            writer.event(SUPERSEDED, seq, state.address)
            self._note("supersede", [state.address, new])
        self.changed.add(state.address)
        return True

    def _allowed(
        self, seq: int, address: bytes, justification: str | None
    ) -> tuple[str, ...] | None:
        """Return the rules that require a review; None if the grain must not change."""
        settings = self._settings
        act = policy.Act(
            "retract", address.hex(), justification=justification, now=settings.clock()
        )
        refusal: OmsError | None = None
        rules: tuple[str, ...] = ()
        try:
            verdict = policy.check(
                PolicyContext(self._writer), act, hold_authorities=settings.hold_authorities
            )
            rules = verdict.rules if verdict.review else ()
        except KeyMissingError:
            if self._writer.row(HOLDS, SEQUENCE.pack(seq)) is not None:
                refusal = InvalidationDeniedError("the store holds the grain", rule="hold")
        except StoreError as error:
            if not isinstance(error, NotFoundError):  # its key was destroyed: no rule applies
                raise
        except OmsError as error:
            refusal = error
        if refusal is not None:
            self.refused.append(Refusal("state", address, refusal.code, refusal.rule))
            return None
        return rules

    def _add_successors(
        self, seq: int, before: GrainStatus, more: set[bytes], valid_to: int | None
    ) -> None:
        successors = tuple(sorted({*before.successors, *(one.hex() for one in more)}))
        ends = [one for one in (before.system_valid_to, valid_to) if one is not None]
        after = replace(
            before,
            superseded_by=successors[0],
            successors=successors,
            system_valid_to=min(ends, default=None),
        )
        lifecycle.set_state(self._writer, seq, before, after)

    def _restrict(self, state: GrainState) -> tuple[bool, OmsError | None]:
        """Merge a restriction, or its end; return whether it changed, and a refusal."""
        writer = self._writer
        seq = writer.find([state.address])[0]
        if seq is None:
            return False, None
        on = unpack(writer.row(STATES, SEQUENCE.pack(seq))).restricted
        epoch = records.toggle_epoch(writer, seq, records.RESTRICTION, on)
        if state.restricted <= epoch:
            return False, None
        at = records.taken(epoch, state.restricted)
        late = None if at == state.restricted else RangeError("not an epoch of a restriction")
        if at == epoch:
            return False, late
        if lifecycle.restrict_asked(writer, self._settings, seq, bool(at % 2), None) is None:
            writer.event(RESTRICTED, seq, state.address)  # no change, but a higher epoch
        records.put(writer, seq, records.RESTRICTION, at)
        return True, late


def _hold(
    writer: Writer, seq: int, address: bytes, toggle: HoldToggle, ends: bool
) -> tuple[Literal["hold", "release"] | None, OmsError | None]:
    """Merge a hold, or its end if this side may end holds."""
    what = records.hold_of(toggle.authority)
    mine = {one.authority: one for one in holds.holds(writer, seq)}.get(toggle.authority)
    epoch = records.toggle_epoch(writer, seq, what, mine is not None)
    wanted = Hold(toggle.authority, toggle.reason_code, toggle.since)
    if toggle.epoch < epoch or toggle.epoch < 1:
        return None, None
    if toggle.epoch == epoch:
        if mine is None or toggle.epoch % 2 == 0 or _later(mine) >= _later(wanted):
            return None, None
    at = records.taken(epoch, toggle.epoch)
    late = None if at == toggle.epoch else RangeError("not an epoch of a hold")
    if toggle.epoch % 2:
        if not toggle.authority.strip():
            raise SchemaError("a hold needs an authority", field="/authority")
        check_reason(toggle.reason_code)
        if late is not None and mine is not None:
            return None, late
        holds.hold(writer, address, wanted)
    elif not ends:
        if mine is None:
            return None, None  # no hold ends, and no epoch prevents a later hold
        raise InvalidationDeniedError("only its authority ends a hold", rule="release")
    elif late is not None:
        return None, late
    elif mine is not None:
        holds.release(writer, address, wanted)
    else:
        writer.event(RELEASED, seq, address)
    records.put(writer, seq, what, at, toggle.authority)
    return "hold" if toggle.epoch % 2 else "release", late


def _later(hold: Hold) -> tuple[int, str]:
    return hold.since, hold.reason_code
