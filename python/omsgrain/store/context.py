# SPDX-License-Identifier: Apache-2.0
"""What the verbs and parts of a store share: its storage, settings, indexes and read counts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from omsgrain import _core
from omsgrain.errors import (
    ErasedError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    SchemaError,
    StoreError,
)
from omsgrain.storage.base import KeyedReader, Reader, Storage, Writer
from omsgrain.storage.lmdb.budget import Budget
from omsgrain.storage.tables import COUNTER, COUNTERS, SEQUENCE

if TYPE_CHECKING:
    from typing_extensions import Self

    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.policy.presets import Preset
    from omsgrain.search.nearest import Nearest
    from omsgrain.search.text import TextIndex
    from omsgrain.store.signature_policy import Required

MANY = 4_096
"""Grains whose counts are gathered before they are written."""


class ReadCounts:
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


class Context:
    """What the store's verbs and parts work with: the storage, the settings, the search indexes.

    Args:
        storage: where the blobs are kept.
        settings: how the store behaves.
    """

    __slots__ = (
        "_indexes",
        "_nearest",
        "_reads",
        "_texts",
        "counts_reads",
        "inner",
        "settings",
        "storage",
    )

    def __init__(self, storage: Storage, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        #: The storage as it is opened: encrypted grains are closed in it.
        self.inner = storage
        #: The storage as the holder of the keys sees it.
        self.storage = storage
        if self.settings.keys is not None:
            from omsgrain.storage.encrypted import EncryptedStorage

            self.storage = EncryptedStorage(storage, self.settings.keys)
        self._reads = ReadCounts(self.settings.budget.counts)
        self.counts_reads = self.settings.count_access and not storage.readonly
        self._texts: TextIndex | None = None
        self._nearest: Nearest | None = None
        self._indexes = threading.Lock()

    def count_reads(self, digests: Sequence[bytes]) -> None:
        """Count reads by a user, where they are counted."""
        if self.counts_reads and self._reads.count(digests, self.settings.clock()):
            self.write_counts()

    def reads_of(self, digest: bytes) -> tuple[int, int]:
        """How often a grain was read, and when last, as far as it is not written."""
        return self._reads.of(digest)

    def write_counts(self) -> None:
        """Write the counts that have gathered; what cannot be written now is written later."""
        if not self._reads.take():
            return
        done = False
        try:
            self.storage.write(self._reads.write)
            done = True
        except StoreError:
            pass  # reading must not fail because its count cannot be written
        finally:
            self._reads.written(done)

    def note(
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
        """Add an entry to the audit trail, in the transaction that it describes."""
        if not self.settings.audit:
            return
        from omsgrain.storage import audit

        audit.append(
            writer,
            operation=operation,
            actor=self.settings.actor if actor is None else actor,
            digests=digests,
            reason_code=reason_code,
            note=note,
            time=self.settings.clock(),
            details=details,
        )

    def has_index(self, name: str) -> bool:
        """Whether the store may have search indexes of a name; a search makes them.

        One that is made later has nothing of what was removed before.
        """
        there = self.inner.sidecar
        if self._texts is not None or self._nearest is not None or there.database is not None:
            return True
        return there.folder is not None and any(there.folder.glob(name))

    def texts(self) -> TextIndex:
        """The text index, opened when it is first asked for."""
        with self._indexes:
            if self._texts is None:
                from omsgrain.search.text import texts_of

                self._texts = texts_of(self.inner, self.settings.budget)
            return self._texts

    def nearest(self) -> Nearest:
        """The vector index, opened when it is first asked for."""
        with self._indexes:
            if self._nearest is None:
                from omsgrain.search.nearest import vectors_of

                self._nearest = vectors_of(self.inner)
            return self._nearest

    def close(self) -> None:
        """Close the indexes and the storage; a second call does nothing."""
        try:
            with suppress(OmsError):  # the next search catches up
                if self._texts is not None and not self.storage.readonly:
                    self._texts.catch_up(self.storage.read)
                if self._nearest is not None:
                    self._nearest.catch_up(self.storage, make=False)
        finally:
            if self._texts is not None:
                self._texts.close()
            if self._nearest is not None:
                self._nearest.close()
            try:
                self.write_counts()
            finally:
                self.storage.close()


class StorePart:
    """Verbs of a store that belong together, such as ``store.holds``."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context


def context_of(part: StorePart) -> Context:
    """Return the context of a store or of one of its parts."""
    return part._context


P = TypeVar("P")


class Lazy(Generic[P]):
    """An attribute of a store that gives a part of it, whose module is loaded on first use."""

    def __init__(self, module: str, name: str, doc: str) -> None:
        self._module, self._name, self.__doc__ = f"omsgrain.store.{module}", name, doc

    @overload
    def __get__(self, store: None, owner: type[StorePart]) -> Self: ...

    @overload
    def __get__(self, store: StorePart, owner: type[StorePart]) -> P: ...

    def __get__(self, store: StorePart | None, owner: type[StorePart]) -> Self | P:
        if store is None:
            return self
        make: Callable[[Context], P] = getattr(import_module(self._module), self._name)
        return make(store._context)


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


def destroyed(reader: Reader, seq: int) -> bool:
    """Whether the key that sealed a grain is known to be destroyed, so that nobody can read it."""
    if not isinstance(reader, KeyedReader):
        return False
    try:
        reader.keys_of(seq)
    except ErasedError:
        return True
    except KeyMissingError:
        pass
    return False


def address_of(reader: Reader, seq: int) -> str:
    """Return the address that a grain is stored under, whichever of its two it was found by."""
    blob = reader.blob_at(seq)
    if blob is None:
        raise NotFoundError("no grain with this number is in the store")
    return _core.address(blob)


def stored_digest(reader: Reader, digest: bytes) -> bytes:
    """Return the digest that a grain is stored under, given its stored or its plain one."""
    return bytes.fromhex(address_of(reader, seq_of(reader, digest)))


def seq_of(reader: Reader, digest: bytes) -> int:
    """Return the number of a grain."""
    seq = reader.find([digest])[0]
    if seq is None:
        raise absent(digest)
    return seq


def absent(digest: bytes) -> NotFoundError:
    """Make the error for an address that no grain of the store has."""
    return NotFoundError("no grain with this address is in the store", expected=digest.hex())
