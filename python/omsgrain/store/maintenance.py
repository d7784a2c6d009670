# SPDX-License-Identifier: Apache-2.0
"""``store.maintenance``: check, rebuild, compact and back up a store."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from omsgrain.errors import SchemaError
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import (
    TEXT_FILE,
    VECTOR_FILES,
    CheckReport,
    CompactReport,
    RebuildReport,
    Writer,
)
from omsgrain.store import history_limiter
from omsgrain.store.context import Context, StorePart
from omsgrain.store.history_limits import HistoryLimits, HistoryReport, must_have_file
from omsgrain.store.history_state import HistoryState, history_state

if TYPE_CHECKING:
    from omsgrain.query.filters import Filters
    from omsgrain.storage.backup.objects import BackupPlace
    from omsgrain.storage.backup.repository import BackupReport


class Maintenance(StorePart):
    """``store.maintenance``: check, rebuild, compact and back up a store."""

    __slots__ = ()

    def check(self) -> CheckReport:
        """Check blobs, addresses, index rows, states, audit trail and text index.

        It runs in a child process, because LMDB can crash on damaged pages.
        """
        return check_text(self._context, self._context.inner.check())

    def rebuild(self) -> RebuildReport:
        """Rebuild the index from the blobs. The result is byte-identical for the same blobs.

        Raises:
            StoreError: the store is read-only, or the disk is full. The old index stays.
        """
        report = self._context.inner.rebuild()
        self._context.texts().rebuild(self._context.storage.read)
        self._context.nearest().catch_up(self._context.storage)
        return report

    def compact(self) -> CompactReport:
        """Rewrite the store without free pages, so that no deleted bytes remain.

        The store can be in use: other readers finish on the old file, then open the new one. While
        it runs, it needs disk space for a second copy.

        Raises:
            StoreError: the store is read-only or damaged, the disk is full, or another process
                writes for too long. The store is unchanged.
            UnsupportedError: the system cannot replace an open file.
        """
        # This compaction settles the entries queued so far
        with self._context.storage.read() as reader:
            keys = [
                entry.key
                for entry in erasure_queue.due(reader)
                if entry.kind == erasure_queue.SCRUB
            ]
        context = self._context
        if context.has_index(VECTOR_FILES):  # first, because it can have tables in the storage
            context.nearest().catch_up(context.storage, make=False)
        with (
            context.texts().scrubbing(context.storage.read)
            if context.has_index(TEXT_FILE)
            else nullcontext()
        ):
            report = context.inner.compact()
        details = {"before": report.before, "after": report.after}

        def work(writer: Writer) -> None:
            for key in keys:
                erasure_queue.done(writer, key)
            self._context.note(writer, "compact", [], details=details)

        self._context.storage.write(work)
        return report

    def retain(
        self,
        *,
        keep: timedelta | str | None = None,
        max_bytes: int | str | None = None,
        keep_where: Filters | None = None,
        keep_cited: bool = False,
        dry_run: bool = False,
    ) -> HistoryReport:
        """Remove the oldest grains, until the store is within limits.

        Each thousand grains are a transaction of their own, with one entry in the audit trail, so
        writers wait for one of them at the most. The entries about the puts of these grains go
        too. Free pages of the data file can hold removed bytes until new grains use them, or
        until ``compact``.

        Args:
            keep: as for ``omsgrain.open``, where these run in the background.
            max_bytes: as for ``omsgrain.open``. The file of a store that was larger stays large,
                and mostly free: ``compact`` shrinks it.
            keep_where: as for ``omsgrain.open``.
            keep_cited: as for ``omsgrain.open``.
            dry_run: count what would go, and change nothing.

        Raises:
            SchemaError, RangeError: neither ``keep`` nor ``max_bytes``, or an invalid argument.
            UnsupportedError: ``max_bytes`` for a store in memory or in PostgreSQL.
            StoreError: the store is read-only, full or damaged. The grains that were
                removed before the failure stay removed.
        """
        limits = HistoryLimits.of(keep, max_bytes, keep_where, keep_cited)
        if limits is None:
            raise SchemaError("nothing bounds the history", expected="keep or max_bytes")
        must_have_file(limits, self._context.inner.sidecar.folder is not None)
        return history_limiter.retain(self._context, limits, dry_run)

    def history_state(self) -> HistoryState:
        """Return how far the store goes back, how much left it, and what bounds it.

        Raises:
            StoreError: the store cannot be read.
        """
        return history_state(self._context)

    def index_text(self, progress: Callable[[int], object] | None = None) -> None:
        """Add all new grains to the text index, as the next search would; make it if need be.

        Args:
            progress: called after each step with the number of grains that it handled, about.

        Raises:
            StoreError: the index cannot be written.
        """
        context = self._context
        context.awaits_texts = True

        def watch(done: int) -> bool:
            if progress is not None:
                progress(done)
            return True

        context.texts().catch_up(context.inner.read, watch)

    def backup_to(self, place: BackupPlace) -> BackupReport:
        """Make an incremental backup of one snapshot of the store, while it is in use.

        The place has the backups of one store. It gets only the parts that it lacks: a second
        backup sends what changed, and a backup after a failed one resumes. Encrypted grains stay
        encrypted, and no backup contains keys. ``omsgrain.BackupRepository`` lists and prunes the
        backups, ``omsgrain.restore`` restores one.

        The snapshot stays open until the last part is sent. A thread of this process that has to
        make the store's file larger waits for it; other processes do not.

        Args:
            place: a directory; a URL such as ``s3://bucket/robots``, with the extra ``objects``;
                or a store of ``obstore``.

        Raises:
            IntegrityError: a blob of the store is damaged.
            StoreError: the place cannot be written, or has the backups of another store.
            SchemaError, UnsupportedError: it is not a place, or the extra is missing.
        """
        from omsgrain.storage.backup.repository import BackupRepository

        repository = BackupRepository(place)
        now = self._context.settings.clock()
        with self._context.inner.read() as reader:
            return repository.add(reader, now)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store to a new directory while it is in use; the copy is a store too.

        The copy has no text index; its first search builds one.

        Args:
            path: the new directory.

        Raises:
            StoreError: the path exists, or cannot be written.
        """
        self._context.inner.backup(path)


def check_text(context: Context, report: CheckReport) -> CheckReport:
    """Check the text index too, if the rest is intact."""
    texts = context.texts()
    if not report.ok or not texts.exists:
        return report
    problems = texts.check(context.storage.read)
    return replace(report, ok=not problems, problems=problems)
