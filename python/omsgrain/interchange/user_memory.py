# SPDX-License-Identifier: Apache-2.0
"""The memory of one user as it was at one moment, read by pages.

The numbers of the current grains are in memory, 8 bytes each. Grains never change, so a later read
returns the same bytes. The read fails if a grain was removed, erased or restricted meanwhile. No
snapshot stays open between two pages, so a slow reader does not block writers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from unicodedata import normalize

from omsgrain import _core
from omsgrain.errors import ErasedError, KeyMissingError, NotFoundError, StoreError
from omsgrain.formats.mif1.document import is_consent
from omsgrain.formats.source import is_beside
from omsgrain.grain import Grain
from omsgrain.search.vectors import Model, models
from omsgrain.storage import tombstones
from omsgrain.storage.base import Reader
from omsgrain.storage.blind_index import key_numbers
from omsgrain.storage.encrypted import DecryptingReader
from omsgrain.storage.erasure_queue import retention_over
from omsgrain.storage.records import PAST, RESTRICTED
from omsgrain.storage.tables import (
    COUNTERS,
    HOLDS,
    META,
    SEQUENCE,
    STATES,
    VECTORS,
    VEILED,
    counter_of,
)
from omsgrain.store import export_filter
from omsgrain.store.context import context_of
from omsgrain.store.privacy.erasure import under_way
from omsgrain.store.source_index import SourceSnapshot, check_tenant, open_sources
from omsgrain.store.vectors import sealer_of

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.store import GrainStore

T = TypeVar("T")

_PAGE = 256  # grains
_STATES = 1_000  # states that are read at once
_BYTES = 1 << 20  # of grains and their parts, after which a page ends


class MemoryPage:
    """A snapshot for some grains, and what belongs to them."""

    def __init__(self, snapshot: SourceSnapshot, over: frozenset[int]) -> None:
        self._snapshot, self._reader, self._over = snapshot, snapshot.reader, over
        self.weight = 0  # bytes of what was read

    @cached_property
    def models(self) -> list[Model]:
        return models(self._reader)

    def get(self, address: str) -> Grain:
        """Return a grain of the tenant that another one names."""
        (seq,) = self._reader.find([_core.parse_address(address)])
        grain = None if seq is None or seq in self._over else self._snapshot.grain(seq)
        if grain is None:
            raise NotFoundError("a part of a record is not there")
        self.weight += len(grain.blob)
        return grain

    def held(self, seq: int) -> bool:
        """Whether there is a hold on a grain."""
        return self._reader.row(HOLDS, SEQUENCE.pack(seq)) is not None

    def state_at(self, address: str) -> tuple[bool, bool]:
        """Whether there is a hold on the grain at an address, and whether it is restricted."""
        (seq,) = self._reader.find([_core.parse_address(address)])
        if seq is None:
            return False, False
        row = self._reader.row(STATES, SEQUENCE.pack(seq))
        return self.held(seq), bool(row and row[0] & RESTRICTED)

    def reads(self, seq: int) -> tuple[int, int | None]:
        """How often a grain was read, and when last in ms since 1970."""
        count, last = counter_of(self._reader.row(COUNTERS, SEQUENCE.pack(seq)))
        return count, last or None

    def has_vector(self, seq: int, model: Model) -> bool:
        """Whether a grain has a vector of a model."""
        key = model.key(seq)
        return any(self._reader.row(table, key) is not None for table in (VECTORS, VEILED))

    def vector(self, seq: int, model: Model) -> bytes | None:
        """Return the vector of a grain: float32, little-endian."""
        key = model.key(seq)
        veiled = self._reader.row(VEILED, key)
        if veiled is None:
            return self._reader.row(VECTORS, key)
        sealer = sealer_of(self._reader, seq)
        if sealer is None:
            raise KeyMissingError("a vector is sealed, and its key is not here")
        return bytes(sealer.unseal_vector(veiled, key))


class UserMemory:
    """The current grains of a tenant, by their rising numbers ``seqs``.

    Restricted grains, and those whose retention is over, are only for the tenant's own access.
    With ``origin`` only the grains with this id, which are looked up.
    """

    def __init__(
        self,
        store: GrainStore,
        tenant: str,
        alive: Callable[[], None] = lambda: None,
        purpose: Purpose = "transfer",
        origin: str | None = None,
    ) -> None:
        check_tenant(tenant)
        self._all = purpose == "access"
        self._context = context_of(store)
        self._alive = alive
        self._tenant = normalize("NFC", tenant)
        self._origin = origin
        with self._open() as snapshot:
            reader = snapshot.reader
            self._erasures = self._times(reader)
            # An erasure that is under way has been counted.
            doomed = under_way(reader, self._tenant) if self._erasures else 0
            self._over = frozenset[int]()
            if not self._all:
                self._over = retention_over(reader, self._context.settings.clock())
            if isinstance(reader, DecryptingReader):
                _refuse_unknown(reader)
            current = array("Q", (s for s in snapshot.numbers("current", origin) if s > doomed))
            if self._all:
                current.extend(seq for seq in self._restricted(snapshot) if seq > doomed)
        self._doomed, self._late = doomed, [seq for seq in current if seq in self._over]
        found = array("Q", (seq for seq in current if seq not in self._over))
        rising = all(found[i - 1] < found[i] for i in range(1, len(found)))
        self.seqs = found if rising else array("Q", sorted(found))

    def _open(self) -> AbstractContextManager[SourceSnapshot]:
        return open_sources(self._context, self._tenant)

    def _times(self, reader: Reader) -> int:
        if reader.row(META, tombstones.KEY_RECORD) is None:
            return 0  # the store has no tombstones
        return tombstones.times(reader, "identity", self._tenant)

    def check(self) -> None:
        """Raise ErasedError if the tenant was erased meanwhile."""
        with self._context.storage.read() as reader:
            if self._times(reader) != self._erasures:
                raise ErasedError("the tenant was erased meanwhile")

    def withheld(self) -> dict[str, int]:
        """How many memories of the tenant are not read, by reason."""
        with self._open() as snapshot:
            idle = [] if self._all else self._restricted(snapshot)
            idle = [seq for seq in idle if seq > self._doomed and seq not in self._over]
            counts = {
                export_filter.OVER: sum(_is_memory(snapshot, seq) for seq in self._late),
                export_filter.RESTRICTED: sum(_is_memory(snapshot, seq) for seq in idle),
            }
        return {reason: number for reason, number in counts.items() if number}

    def each(
        self,
        seqs: Sequence[int],
        work: Callable[[MemoryPage, int, Grain], T],
        *,
        strict: bool = True,
    ) -> Iterator[T]:
        """Call a function with each of some grains, in their order, and yield the results."""
        at = 0
        while at < len(seqs):
            done: list[T] = []
            start = at
            self._alive()
            with self._open() as snapshot:
                page = MemoryPage(snapshot, self._over)
                while at < len(seqs) and at - start < _PAGE and page.weight < _BYTES:
                    seq = seqs[at]
                    at += 1
                    grain = self._grain(snapshot, seq)
                    if grain is not None:
                        page.weight += len(grain.blob)
                        done.append(work(page, seq, grain))
                    elif strict:
                        break
            if len(done) < at - start and strict:
                self.check()
                raise StoreError("a grain was removed or restricted while it was exported")
            yield from done

    def _grain(self, snapshot: SourceSnapshot, seq: int) -> Grain | None:
        """A grain; None if it may not be read, or is another tenant's."""
        row = snapshot.reader.row(STATES, SEQUENCE.pack(seq))
        if row and row[0] & RESTRICTED and not self._all:
            return None
        return snapshot.grain(seq)

    def _restricted(self, snapshot: SourceSnapshot) -> list[int]:
        """The numbers of the grains that would be current if they were not restricted."""
        found: list[int] = []
        past = snapshot.numbers("past", self._origin)
        while keys := [SEQUENCE.pack(seq) for seq in islice(past, _STATES)]:
            rows = snapshot.reader.some_rows(STATES, keys)
            found += (SEQUENCE.unpack(key)[0] for key in keys
                      if key in rows and rows[key][0] & PAST == RESTRICTED)  # fmt: skip
        return found


def _is_memory(snapshot: SourceSnapshot, seq: int) -> bool:
    grain = snapshot.grain(seq)
    return grain is not None and not is_beside(grain) and not is_consent(grain)


def _refuse_unknown(reader: DecryptingReader) -> None:
    """Refuse a store with grains that were encrypted with keys of another key file."""
    for number in key_numbers(reader) if isinstance(reader, DecryptingReader) else ():
        with suppress(ErasedError):
            reader.ring.by_number(number)
