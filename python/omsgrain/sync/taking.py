# SPDX-License-Identifier: Apache-2.0
"""A batch into a store: one commit, with how far the other's feed is taken now.

    holds        of grains that are here
    grains       as `put` takes them; those that only superseding can store wait for their states
    states       by the policies of this store
    restrictions and the holds of grains that came with the batch

What is refused is told and does not stop the rest; an error of the store takes all of it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.container.check import blob_of
from omsgrain.engine import merging
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.putting import joined
from omsgrain.errors import ErasedError, InvalidationDeniedError, OmsError
from omsgrain.exchange import Claim
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.index import policy
from omsgrain.intake import Intake, intakes, superseding, take_one
from omsgrain.store import tombstones
from omsgrain.store.base import Reader, Writer
from omsgrain.store.tables import EVENTS, SEQUENCE, SIGNED, event_of
from omsgrain.sync import claims, erasing, records, states
from omsgrain.sync.peer import Batch, GrainState, Refusal, Taken, Terms

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = ["take"]

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


def take(store: GrainStore, batch: Batch, terms: Terms) -> Taken:
    """Take a batch into a store.

    Args:
        store: where to.
        batch: what.
        terms: on which.

    Raises:
        StoreError: read-only, full or broken; nothing of it was taken.
    """
    with store._store.read() as reader:
        told = [state for state in batch.states if not _was_erased(reader, state.address)]
    given = _sort(store, batch.grains, told, binds="holds" in terms.rights)
    new = [
        Claim(state.address.hex(), one, "unverified", given.apart[one])
        for state in told
        for one in map(bytes.hex, state.successors)
        if one in given.apart
    ]
    coming = merging.arriving(new, store._settings.resolver)

    def work(writer: Writer, incoming: Incoming) -> Taken:
        return _Turn(store, writer, batch, given, terms).run(told, incoming, coming)

    if not batch.grains:
        return store._store.write(lambda writer: work(writer, Incoming([])))
    return store._bring(joined([given.intake, coming.intake]), work)


def _sort(
    store: GrainStore, grains: Sequence[bytes], told: Sequence[GrainState], *, binds: bool
) -> _Sorted:
    """Verify grains, and set those apart that are said to supersede others.

    Args:
        store: where to.
        grains: as they stand in the batch.
        told: the states.
        binds: whether whoever brings them may bring holds.
    """
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
    resolver = store._settings.resolver
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


class _Turn:
    """One transaction."""

    def __init__(
        self,
        store: GrainStore,
        writer: Writer,
        batch: Batch,
        given: _Sorted,
        terms: Terms,
    ) -> None:
        self._store, self._writer = store, writer
        self._batch, self._given, self._terms = batch, given, terms
        self._refused = list(given.refused)

    def run(
        self, told: Sequence[GrainState], incoming: Incoming, coming: merging.Arriving
    ) -> Taken:
        writer, batch, terms = self._writer, self._batch, self._terms
        settings, first = self._store._settings, writer.last_seq() + 1
        unheld: dict[Refusal, None] = {}
        stones = erasing.take_tombstones(writer, batch.tombstones) if batch.tombstones else 0
        fresh = self._absent()
        changed = claims.holds_first(writer, settings, told, terms, self._note, unheld)
        put = len(self._given.digests)
        stored, duplicates = self._put(incoming.only(range(put)))
        middle = writer.last_seq()
        arrivals = coming.split(incoming.only(range(put, len(incoming.pairs))))
        done = claims.take_states(
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
        changed |= claims.holds_first(writer, settings, told, terms, self._note, unheld)
        changed |= self._signed(first)
        last = writer.last_seq()
        spans = [(first, last)]
        if not self._agrees(told, middle):  # these grains came from there; what they did is told
            late = writer.find([bytes.fromhex(address) for address in self._given.apart])
            came = sorted(seq for seq in late if seq is not None and seq > middle)
            spans = [(first, middle), *((seq, seq) for seq in came)]
        if batch.store:
            records.add_came(writer, batch.store, spans, batch.taken)
        if batch.until is not None and batch.store:
            records.see(writer, batch.store, batch.namespaces, batch.until)
        if batch.followed and batch.store:
            records.follow(writer, batch.store, batch.namespaces, batch.followed)
        known = len(self._given.apart) - done.stored - len(done.waiting)
        known -= self._refused_apart(done.refused)
        return Taken(
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
        outcome = self._store._take(writer, given.only(which), False, False)
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
        self._store._note(self._writer, operation, digests, reason_code=_REASON)


def _was_erased(reader: Reader, address: bytes) -> bool:
    return reader.find([address])[0] is None and bool(tombstones.refused(reader, [address]))


def _refusal(digest: bytes, error: OmsError) -> Refusal:
    return Refusal("grain", digest, error.code, error.rule)
