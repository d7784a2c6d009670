# SPDX-License-Identifier: Apache-2.0
"""The context that the verbs and parts of a store share: storage, settings, indexes, counts."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, overload

from omsgrain import _core
from omsgrain.errors import (
    ErasedError,
    KeyMissingError,
    NotFoundError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
    number_found,
)
from omsgrain.grain import Grain, stored_grain, stored_grains
from omsgrain.storage.base import TEXT_FILE, CommitStorage, Reader, Storage, Transactions, Writer
from omsgrain.storage.lmdb.memtable import IdleThread
from omsgrain.storage.location import Budget
from omsgrain.storage.tables import COUNTERS

if TYPE_CHECKING:
    from typing_extensions import Self

    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.policy.presets import Preset
    from omsgrain.search.nearest import Nearest
    from omsgrain.search.text import TextIndex
    from omsgrain.search.user_texts import UserTexts
    from omsgrain.store.history_limiter import HistoryLimiter
    from omsgrain.store.history_limits import HistoryLimits
    from omsgrain.store.trust import Required

TextFeed = Literal["idle", "ingest"]

LAST_STEPS = 16
"""Steps at the end, each of at most a thousand grains, to bound the history."""

MANY = 4_096
"""Reads of so many grains are counted in memory before they are written."""


def write_reads(reads: _core.ReadCounts, writer: Writer) -> None:
    """Add the staged counts to the counters, except for removed grains.

    The writer must not have removed any itself.
    """
    numbers = writer.find(reads.digests(writer.follows()))
    there = writer.some_rows(COUNTERS, reads.keys(numbers))
    writer.set_rows(COUNTERS, reads.rows(numbers, there))


def now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a handle on a store behaves."""

    actor: str | None = None  # who acts, for the audit trail: a DID, a user or a service
    preset: Preset | None = None  # rules for puts, deletions and exports
    # DIDs whose signature makes a hold inside a grain binding. If empty, every such hold is
    # binding. If not, only they can end holds from outside.
    hold_authorities: frozenset[str] = frozenset()
    # DIDs whose signature makes an erasure order from outside valid. If empty, any sync peer may
    # send one.
    erasure_authorities: frozenset[str] = frozenset()
    delegation: bool = False  # check the limits that a delegating goal sets
    count_access: bool = True
    audit: bool = True  # write the audit trail
    clock: Callable[[], int] = now  # returns the time in ms since 1970
    keys: KeyRing | None = None  # encrypt and decrypt users' grains
    # store users' grains in plain text although the store has encrypted grains
    plain: bool = False
    require: Required | None = None  # which grains the store accepts only signed
    resolver: Resolver | None = None  # resolves DIDs that do not contain their key
    budget: Budget = field(default_factory=Budget)  # memory limits of the parts
    text_index: TextFeed = "idle"  # when the text index is fed in the background
    limits: HistoryLimits | None = None  # what bounds the history


class Context:
    """The storage, settings and search indexes that a store's verbs and parts work with."""

    __slots__ = (
        "__weakref__",
        "_append",
        "_clock",
        "_counted",
        "_due",
        "_history_thread",
        "_indexes",
        "_latest",
        "_nearest",
        "_reads",
        "_text_feed",
        "_texts",
        "_user_texts",
        "awaits_texts",
        "counts_reads",
        "history",
        "inner",
        "settings",
        "storage",
    )

    def __init__(self, storage: Storage, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        #: The storage as opened: encrypted grains stay encrypted.
        self.inner = storage
        #: Its transactions as the holder of the keys sees them.
        self.storage: Transactions = storage
        if self.settings.keys is not None:
            from omsgrain.storage.encrypted import EncryptedStorage

            self.storage = EncryptedStorage(storage, self.settings.keys)
        self._latest = self.storage.latest if isinstance(self.storage, CommitStorage) else None
        #: The first deadline of the queue of erasures, and the commit that has it.
        self._due: tuple[_core.CommitReader | None, int | None] = None, None
        self._reads = _core.ReadCounts(min(MANY, self.settings.budget.counts))
        self.counts_reads = self.settings.count_access and not storage.readonly
        self._counted = self._reads if self.counts_reads else None
        self._clock = None if self.settings.clock is now else self.settings.clock
        self._texts: TextIndex | None = None
        self._nearest: Nearest | None = None
        self._append: Callable[..., int] | None = None  # of the audit trail
        self._user_texts: UserTexts | None = None
        self._indexes = threading.Lock()
        eager = self.settings.text_index == "ingest"
        #: Whether `close` waits until the text index is complete: it was searched.
        self.awaits_texts = eager
        self._text_feed: IdleThread | None = None
        if not storage.readonly:
            # The thread must not keep a store alive that was dropped without `close`.
            me = weakref.ref(self)
            self._text_feed = IdleThread(
                partial(_feed_texts, me),
                name="text-feed",
                eager=eager,
                wanted=partial(_has_texts, me),
            )
            weakref.finalize(self, self._text_feed.end)
            storage.on_write(self._text_feed.written)
        #: Keeps the history within its limits; None without limits.
        self.history: HistoryLimiter | None = None
        self._history_thread: IdleThread | None = None
        if self.settings.limits is not None and not storage.readonly:
            self._bound_history(self.settings.limits)

    def _bound_history(self, limits: HistoryLimits) -> None:
        from omsgrain.store.history_limiter import HistoryLimiter

        self.history = HistoryLimiter(limits)
        thread = self._history_thread = IdleThread(
            partial(_limit_history, weakref.ref(self)),
            name="history",
            eager=True,
            every=self.history.every,
        )
        weakref.finalize(self, thread.end)
        feed = self._text_feed

        def written() -> None:
            thread.written()
            if feed is not None:
                feed.written()

        self.inner.on_write(written)
        thread.wake()

    def get(self, address: str) -> Grain | None:
        """Read and count a grain in one call of the core; None if a snapshot must be asked."""
        latest = None if self._latest is None else self._latest()
        if latest is None:
            return None
        clock = self._clock
        found = latest.get(address, self._counted, None if clock is None else clock())
        if self._reads.full:
            self.write_counts()
        return None if found is None else stored_grain(*found)

    def get_many(self, addresses: list[str]) -> list[Grain] | None:
        """Read and count grains, as ``get`` does."""
        latest = None if self._latest is None else self._latest()
        if latest is None:
            return None
        clock = self._clock
        found = latest.get_many(addresses, self._counted, None if clock is None else clock())
        if self._reads.full:
            self.write_counts()
        return None if found is None else stored_grains(found)

    def page(
        self, key: bytes, newest: bool, limit: int, unsure: int
    ) -> tuple[list[tuple[bytes, str]], bytes, bool] | None:
        """Read and count a page of results, as ``get`` does; ``query.PageReader`` says more."""
        latest = None if self._latest is None else self._latest()
        if latest is None:
            return None
        clock = self._clock
        when = None if clock is None else clock()
        page = latest.page(key, newest, limit, unsure, self._counted, when)
        if self._reads.full:
            self.write_counts()
        return page

    def is_overdue(self) -> bool:
        """Whether a deadline has passed, so that the lives of grains may be over."""
        latest = None if self._latest is None else self._latest()
        if latest is None:
            return True
        commit, due = self._due
        if commit is not latest:
            with self.storage.read() as reader:
                due = reader.first_due()
            self._due = latest, due
        return due is not None and due <= self.settings.clock()

    def count_reads(self, read: Sequence[bytes | str]) -> None:
        """Count reads of digests or addresses by the user, if the store counts reads."""
        if self.counts_reads and self._reads.count(read, self.settings.clock()):
            self.write_counts()

    def reads_of(self, digest: bytes) -> tuple[int, int]:
        """Return the unwritten reads of a grain, and the time of the last."""
        return self._reads.of(digest)

    def write_counts(self) -> None:
        """Write pending read counts; after a failure they are written later."""
        if not self._reads.take():
            return
        done = False
        try:
            self.storage.write(partial(write_reads, self._reads))
            done = True
            if self._latest is not None:
                with self.inner.read():  # row S4-many: so that the next read finds it ready
                    pass
        except StoreError:
            pass  # a failed count must not fail the read
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
        if self._append is None:
            from omsgrain.storage import audit

            self._append = audit.append  # kept: a put would notice what looking it up costs
        self._append(
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
        """Whether a search index may exist. The first search creates it.

        A later index never contains grains that were removed before.
        """
        there = self.inner.sidecar
        if self._texts is not None or self._nearest is not None or there.database is not None:
            return True
        return there.folder is not None and any(there.folder.glob(name))

    def feed_texts_soon(self) -> None:
        """Let the text index be fed in the next quiet moment."""
        if self._text_feed is not None:
            self._text_feed.wake()

    def texts(self) -> TextIndex:
        with self._indexes:
            if self._texts is None:
                from omsgrain.search.text import texts_of

                self._texts = texts_of(self.inner, self.settings.budget)
            return self._texts

    def user_texts(self, ring: KeyRing) -> UserTexts:
        """Return the indexes of single users' encrypted grains; the first call makes them."""
        with self._indexes:
            if self._user_texts is None:
                from omsgrain.search.user_texts import UserTexts

                self._user_texts = UserTexts(ring, self.settings.budget)
            return self._user_texts

    def drop_dead_texts(self) -> None:
        """Drop what is in memory of users whose key was destroyed."""
        if self._user_texts is not None:
            self._user_texts.drop_dead()

    def drop_vectors(self) -> None:
        """Drop the vectors in memory, which may be of erased grains."""
        if self._nearest is not None:
            self._nearest.drop()
        if self._user_texts is not None:
            self._user_texts.drop_vectors()

    def nearest(self) -> Nearest:
        with self._indexes:
            if self._nearest is None:
                from omsgrain.search.nearest import vectors_of

                self._nearest = vectors_of(self.inner, self.settings.budget)
            return self._nearest

    def close(self) -> None:
        """Close the indexes and the storage. A second call does nothing."""
        self._due = None, None
        try:
            if self._text_feed is not None:
                self._text_feed.end()
            if self._history_thread is not None:
                self._history_thread.end()
            with suppress(OmsError):  # what is left goes when the store is open again
                if self.history is not None:
                    self.history.run(self, most=LAST_STEPS)
            with suppress(OmsError):  # the next search catches up
                if self.awaits_texts and not self.storage.readonly:
                    self.texts().catch_up(self.storage.read)
                if self._nearest is not None:
                    self._nearest.catch_up(self.storage, make=False)
        finally:
            if self._texts is not None:
                self._texts.close()
            if self._user_texts is not None:
                self._user_texts.close()
            if self._nearest is not None:
                self._nearest.close()
            try:
                self.write_counts()
            finally:
                self.inner.close()


def _has_texts(of: weakref.ref[Context]) -> bool:
    context = of()
    if context is None:
        return False
    return context.settings.text_index == "ingest" or context.has_index(TEXT_FILE)


def _feed_texts(of: weakref.ref[Context], still: Callable[[], bool]) -> None:
    """Feed the text index of an open store, in the background."""
    context = of()
    if context is not None:
        texts = context.texts()
        if context.settings.text_index == "ingest" or texts.exists:
            texts.catch_up(context.inner.read, lambda done: still())


def _limit_history(of: weakref.ref[Context], still: Callable[[], bool]) -> None:
    """Keep the history of an open store within its limits, in the background."""
    context = of()
    if context is not None and context.history is not None:
        context.history.look(context, still)


class StorePart:
    """A part of a store, such as ``store.holds``."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context


def context_of(part: StorePart) -> Context:
    """Return the context of a store or of one of its parts."""
    return part._context


P = TypeVar("P")


class Lazy(Generic[P]):
    """A store attribute that imports the module of its part on first use."""

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


_LONGEST = 256  # characters


def check_reason(reason_code: object) -> None:
    """Refuse a reason code that is not one word. The audit trail keeps it forever.

    It applies without an audit trail too: holds and pending erasures also store the code.
    """
    if (
        not isinstance(reason_code, str)
        or not 0 < len(reason_code) <= _LONGEST
        or reason_code.split() != [reason_code]
        or not reason_code.isprintable()
    ):
        raise SchemaError(
            "invalid reason code",
            field="/reason_code",
            expected="one word of 1 to 256 printable characters, without spaces",
        )


def see_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number, and a number outside its range."""
    if type(value) is not int or value < least or (most is not None and value > most):
        raise RangeError(
            f"{name} is out of range",
            field=f"/{name}",
            expected=f"{least} or more" if most is None else f"{least} to {most}",
            found=number_found(value),
        )


def destroyed(reader: Reader, seq: int) -> bool:
    """Whether the key of an encrypted grain is known to be destroyed."""
    try:
        reader.keys_of(seq)
    except ErasedError:
        return True
    except KeyMissingError:
        pass
    return False


def address_of(reader: Reader, seq: int) -> str:
    """Return the stored address of a grain, which may have been found by its plain address."""
    blob = reader.blob_at(seq)
    if blob is None:
        raise NotFoundError("no grain with this sequence number is in the store")
    return _core.address(blob)


def stored_digest(reader: Reader, digest: bytes) -> bytes:
    """Return the stored digest for a stored or a plain one."""
    return bytes.fromhex(address_of(reader, seq_of(reader, digest)))


def seq_of(reader: Reader, digest: bytes) -> int:
    """Return the sequence number of a grain."""
    seq = reader.find([digest])[0]
    if seq is None:
        raise absent(digest)
    return seq


def absent(digest: bytes) -> NotFoundError:
    """Make the error for an address that is not in the store."""
    return NotFoundError("no grain with this address is in the store", expected=digest.hex())
