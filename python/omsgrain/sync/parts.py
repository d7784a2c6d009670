# SPDX-License-Identifier: Apache-2.0
"""A batch in parts, for a line that does not carry all of it at once.

A part is a batch of its own: grains with the states that speak of them, or states, or tombstones.
How far the feed is taken is told with the last part alone, so a sync that ends between two parts
goes on from where the batch began, and what was taken already is there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from omsgrain import _core
from omsgrain.container.read import blob_of
from omsgrain.errors import OmsError, SchemaError, StoreError
from omsgrain.grain import Grain, stored_grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage.base import KeyedReader, Reader
from omsgrain.sync import states
from omsgrain.sync.peer import Batch, BatchResult, GrainState

_ABOUT = 64  # bytes that a tombstone takes in a message
_LENGTH = 4


def digests(grains: Sequence[bytes]) -> list[bytes]:
    """The addresses of blobs and envelopes, 32 bytes each; of a broken envelope its own hash."""
    return [sha256(_blob_of(grain)).digest() for grain in grains]


def _blob_of(grain: bytes) -> bytes:
    try:
        return blob_of(grain)
    except OmsError:  # who takes it refuses it, and not all that came with it
        return grain


def cut(batch: Batch, size: int) -> tuple[Batch, Batch | None]:
    """Cut a batch."""
    if _weight(batch) <= size or _things(batch) <= 1:
        return batch, None
    early = Batch(batch.store, batch.namespaces, more=True)
    if batch.grains:
        count = _fitting([len(grain) + _LENGTH for grain in batch.grains], size)
        part, later = batch.grains[:count], batch.grains[count:]
        told = _about(batch.states, set(digests(part)))
        # One that speaks of a later grain, too, goes again with that: now it cannot count.
        others = set(batch.states) - set(told) | set(_about(told, set(digests(later))))
        first = replace(early, grains=part, states=told)
        left = tuple(state for state in batch.states if state in others)
        rest = replace(batch, grains=later, states=left)
    elif batch.states:
        count = _fitting([states.weight(state) for state in batch.states], size)
        first = replace(early, states=batch.states[:count])
        rest = replace(batch, states=batch.states[count:])
    else:
        count = max(1, size // _ABOUT)
        first = replace(early, tombstones=batch.tombstones[:count])
        rest = replace(batch, tombstones=batch.tombstones[count:])
    return first, rest


def put_off(part: Batch, done: BatchResult) -> Batch:
    """What of a part is to be offered again with the last: it may have come before its time."""
    late = {one.address for one in done.refused} | set(done.waiting)
    if not late:
        return Batch(part.store)
    grains = tuple(
        grain
        for grain, digest in zip(part.grains, digests(part.grains), strict=True)
        if digest in late
    )
    return Batch(part.store, grains=grains, states=_about(part.states, late))


def together(first: Batch, batch: Batch) -> Batch:
    """A batch with what was put off before its own grains and states."""
    return replace(batch, grains=first.grains + batch.grains, states=first.states + batch.states)


def added(before: BatchResult, done: BatchResult, *, last: bool) -> BatchResult:
    """What became of several parts; refusals of all but the last were put off."""
    return BatchResult(
        before.stored + done.stored,
        before.duplicates + done.duplicates,
        before.states + done.states,
        before.tombstones + done.tombstones,
        before.erased + done.erased,
        done.refused if last else (),
        done.waiting if last else (),
        before.unproven + done.unproven,
    )


def _about(told: Sequence[GrainState], of: Collection[bytes]) -> tuple[GrainState, ...]:
    """Those that speak of some grains."""
    return tuple(
        state
        for state in told
        if state.address in of or any(one in of for one in state.successors)
    )


def _weight(batch: Batch) -> int:
    grains = sum(map(len, batch.grains)) + _LENGTH * len(batch.grains)
    return grains + sum(map(states.weight, batch.states)) + _ABOUT * len(batch.tombstones)


def _things(batch: Batch) -> int:
    return len(batch.grains) + len(batch.states) + len(batch.tombstones)


def _fitting(sizes: Sequence[int], size: int) -> int:
    """How many fit, at least one."""
    count = total = 0
    for one in sizes:
        total += one
        if count and total > size:
            break
        count += 1
    return count


_FAMILY = ":*"
_WORTH = 4
"""Times as many grains that must have come, for the index to be asked."""


class NamespaceScope:
    """A choice of namespaces."""

    __slots__ = ("_exact", "_families", "namespaces")

    def __init__(self, namespaces: Iterable[str] | None) -> None:
        if isinstance(namespaces, str):
            raise SchemaError("a list of namespaces", field="/namespaces", found="one text")
        self.namespaces = None if namespaces is None else tuple(sorted(set(namespaces)))
        names = self.namespaces or ()
        if self.namespaces == () or not all(isinstance(one, str) and one for one in names):
            raise SchemaError("a choice of namespaces names some", field="/namespaces")
        self._exact = frozenset(one for one in names if not one.endswith(_FAMILY))
        self._families = tuple(one[:-1] for one in names if one.endswith(_FAMILY))

    @property
    def everything(self) -> bool:
        """Whether no grain is left out."""
        return self.namespaces is None

    def numbers(self, reader: Reader, after: int, last: int) -> list[int] | None:
        """The numbers of all grains of them, told by the index."""
        if self.namespaces is None or self._families or isinstance(reader, KeyedReader):
            return None
        terms = [_core.term("namespace", name) for name in self.namespaces]
        if _WORTH * sum(reader.term_count(term) for term in terms) > last - after:
            return None
        places = (place for term in terms for place in reader.places(term, None, False))
        return sorted(int.from_bytes(place[12:], "big") for place in places)

    def takes_hint(self, hint: bytes) -> bool:
        """Whether what was erased may have been of one of them, by the hash of its namespace."""
        if self.namespaces is None or self._families or not hint:
            return True
        names = (unicodedata.normalize("NFC", name).encode("utf-8") for name in self._exact)
        return any(sha256(name).digest()[: len(hint)] == hint for name in names)

    def takes(self, reader: Reader, seq: int, blob: bytes) -> bool:
        """Whether a grain is one of them; one that cannot be opened is none."""
        if self.namespaces is None:
            return True
        grain: Grain | None
        if blob[1] & ENCRYPTED_BIT:
            try:
                grain = reader.grain(seq)
            except StoreError:
                raise
            except OmsError:  # its key opens it no more
                return False
            if grain is None or grain.sealed:
                return False
        else:
            grain = stored_grain(blob, "")
        name = grain.get("namespace")
        return isinstance(name, str) and (
            name in self._exact or name.startswith(self._families or ("\0",))
        )
