# SPDX-License-Identifier: Apache-2.0
"""What every part of a GrainStore stands on: the store below, how it was opened, letting go."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from omsgrain.errors import SchemaError, StoreError
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.lmdb.budget import Budget
from omsgrain.storage.tables import COUNTER, COUNTERS, SEQUENCE

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.policy.presets import Preset
    from omsgrain.store.signature_policy import Required

MANY = 4_096
"""Grains whose counts are gathered before they are written."""


class Access:
    """How often, and when last, grains were read since the counts were written.

    Reads are only noted, since a list takes them without a lock; they are counted when somebody
    asks, or when so many were noted that they may have to be written.
    """

    __slots__ = ("_counts", "_last", "_lock", "_most", "_notes", "_room", "_writing")

    def __init__(self, most: int = MANY) -> None:
        self._most = min(MANY, most)
        self._notes: list[tuple[Sequence[bytes], int]] = []
        # Reads that may be noted before they are counted; not exact by threads.
        self._room = self._most
        self._counts: Counter[bytes] = Counter()
        self._last: dict[bytes, int] = {}
        self._writing: dict[bytes, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def count(self, digests: Sequence[bytes], when: int) -> bool:
        """Count a read of each; True when enough have gathered to be written."""
        self._notes.append((digests, when))
        self._room -= len(digests)
        if self._room > 0:
            return False
        with self._lock:
            self._gather()
            return self._room <= 0

    def _gather(self) -> None:
        """Count what was noted; with the lock."""
        noted = self._notes[:]  # others may note more meanwhile
        del self._notes[: len(noted)]
        self._counts.update(chain.from_iterable([digests for digests, _ in noted]))
        last = self._last
        for digests, when in noted:
            for digest in digests:
                last[digest] = when
        self._room = self._most - len(last)

    def of(self, digest: bytes) -> tuple[int, int]:
        """How often a grain was read, and when last, as far as it is not written."""
        with self._lock:
            self._gather()
            count, last = self._writing.get(digest, (0, 0))
            return self._counts[digest] + count, max(self._last.get(digest, 0), last)

    def take(self) -> bool:
        """Set apart what is to be written now; False if there is nothing, or it is being done."""
        with self._lock:
            self._gather()
            if self._writing or not self._counts:
                return False
            last = self._last
            self._writing = {d: (count, last[d]) for d, count in self._counts.items()}
            self._counts, self._last, self._room = Counter(), {}, self._most
            return True

    def write(self, writer: Writer) -> None:
        """Add what was set apart to the counters; grains that are gone are passed over."""
        found = zip(writer.find(list(self._writing)), self._writing.values(), strict=True)
        # A sealed grain may have been read by two addresses.
        totals: dict[int, tuple[int, int]] = {}
        for seq, (count, when) in found:
            if seq is not None:
                if seq in totals:
                    before = totals[seq]
                    count, when = before[0] + count, max(before[1], when)
                totals[seq] = count, when
        rows = []
        pack, size = COUNTER.pack, COUNTER.size
        keys = {SEQUENCE.pack(seq): totals[seq] for seq in sorted(totals)}  # neighbours together
        there = writer.some_rows(COUNTERS, list(keys))
        for key, (count, last) in keys.items():
            if (value := there.get(key)) is not None:
                if len(value) != size:  # damaged: `check` tells it, and nobody waits for a count
                    continue
                before = COUNTER.unpack(value)
                count, last = before[0] + count, max(before[1], last)
            rows.append((key, pack(count, last)))
        writer.set_rows(COUNTERS, rows)

    def written(self, done: bool) -> None:
        """Forget what was set apart if it was written; else count it on."""
        with self._lock:
            if not done:
                for digest, (count, when) in self._writing.items():
                    self._counts[digest] += count
                    self._last[digest] = max(self._last.get(digest, 0), when)
            self._writing = {}


Self = TypeVar("Self", bound="Base")
T = TypeVar("T")


def now() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a handle on a store behaves.

    Attributes:
        actor: who acts, for the audit trail: a DID, a user, a service.
        preset: rules for what is put, deleted and exported.
        hold_authorities: DIDs whose signature makes a hold inside a grain binding; if there are
            none, every such hold binds. Where there are some, they alone end holds from outside.
        erasure_authorities: DIDs whose signature makes an order to erase that comes from outside
            count; if there are none, whoever syncs may bring one.
        delegation: whether what a delegating goal allows is checked.
        count_access: whether reads are counted.
        audit: whether writes are noted in the audit trail.
        clock: gives the time in ms since 1970.
        keys: what seals grains of users, and opens them.
        plain: store users' grains in the clear, though the store has sealed grains.
        require: which grains the store takes only signed.
        resolver: finds the keys of signers whose DIDs do not hold them.
        budget: how much memory the parts may take.
    """

    actor: str | None = None
    preset: Preset | None = None
    hold_authorities: frozenset[str] = frozenset()
    erasure_authorities: frozenset[str] = frozenset()
    delegation: bool = False
    count_access: bool = True
    audit: bool = True
    clock: Callable[[], int] = now
    keys: KeyRing | None = None
    plain: bool = False
    require: Required | None = None
    resolver: Resolver | None = None
    budget: Budget = field(default_factory=Budget)


class Base:
    """A handle on a store.

    Args:
        store: where the blobs are kept; ``omsgrain.open`` gives one on disk.
        settings: how it behaves.
    """

    def __init__(self, store: Storage, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._below = store
        self._store = store
        if self._settings.keys is not None:
            from omsgrain.storage.encrypted import EncryptedStorage

            self._store = EncryptedStorage(store, self._settings.keys)
        self._access = Access(self._settings.budget.counts)
        self._counts = self._settings.count_access and not store.readonly

    def _count_reads(self, digests: Sequence[bytes]) -> None:
        """Count reads by a user, where they are counted."""
        if self._counts and self._access.count(digests, self._settings.clock()):
            self._write_counts()

    def _write_counts(self) -> None:
        """Write the counts that have gathered; what cannot be written now is written later."""
        if not self._access.take():
            return
        done = False
        try:
            self._store.write(self._access.write)
            done = True
        except StoreError:
            pass  # reading must not fail because its count cannot be written
        finally:
            self._access.written(done)

    def _note(
        self,
        writer: Writer,
        operation: str,
        digests: Sequence[bytes],
        *,
        reason_code: str | None = None,
        note: str | None = None,
        details: Mapping[str, int | str] | None = None,
        actor: str | None = None,
    ) -> None:
        """Add an entry to the audit trail, in the transaction of what it tells of."""
        if not self._settings.audit:
            return
        from omsgrain.storage import audit

        audit.append(
            writer,
            operation=operation,
            actor=self._settings.actor if actor is None else actor,
            digests=digests,
            reason_code=reason_code,
            note=note,
            time=self._settings.clock(),
            details=details,
        )

    def acting(self: Self, actor: str) -> Self:
        """Return a handle on the same store for somebody else, whom the audit trail then names.

        It shares the store below: closing either of the two closes that for both.

        Args:
            actor: who acts: a DID, a user, a service.
        """
        return type(self)(self._below, replace(self._settings, actor=actor))

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        try:
            self._write_counts()
        finally:
            self._store.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_LONGEST = 256  # letters


def check_reason(reason_code: object) -> None:
    """See that a reason can stand in the audit trail, where it stays: a word, and no sentence.

    It is asked whether or not there is an audit trail: the reason of a hold, or of an erasure that
    waits, stands in the store, too.
    """
    if (
        not isinstance(reason_code, str)
        or not 0 < len(reason_code) <= _LONGEST
        or reason_code.split() != [reason_code]
        or not reason_code.isprintable()
    ):
        raise SchemaError(
            "not a reason for the audit trail",
            field="/reason_code",
            expected="a word of 1 to 256 letters, without white space",
        )
