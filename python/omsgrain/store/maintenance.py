# SPDX-License-Identifier: Apache-2.0
"""Looking after a store."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from omsgrain.storage import erasure_queue
from omsgrain.storage.base import CheckReport, CompactReport, RebuildReport, StoreStats, Writer
from omsgrain.store.search import Searching

if TYPE_CHECKING:
    from omsgrain.storage.audit.trail import AuditLog


class Care(Searching):
    """The part of a GrainStore that keeps it well."""

    @property
    def audit(self) -> AuditLog:
        """The audit trail: who did what, each entry bound to all before it."""
        from omsgrain.storage.audit.trail import AuditLog

        return AuditLog(self._store)

    def check(self) -> CheckReport:
        """Look at every byte that matters: blobs, addresses, index rows, states, audit, text.

        It runs in a process of its own, because LMDB does not survive every damaged page.
        """
        return self.check_text(self._store.check())

    def check_text(self, report: CheckReport) -> CheckReport:
        """Look at the text index too, where the rest was found to be good.

        Args:
            report: what the check of the rest found.
        """
        texts = self._texts()
        if not report.ok or not texts.exists:
            return report
        problems = texts.check(self._store.read)
        return replace(report, ok=not problems, problems=problems)

    def rebuild(self) -> RebuildReport:
        """Make the index anew from the blobs; the same blobs and states give the same bytes.

        Raises:
            StoreError: read-only, or no room; the old index is kept then.
        """
        report = self._store.rebuild()
        self._texts().rebuild(self._store.read)
        self._vectors().catch_up(self._store)
        return report

    def compact(self) -> CompactReport:
        """Write the store anew without free pages, and so without what was deleted.

        Others may have it open: their readers finish on the old file, and go on with the new one.
        It takes as much room again while it runs.

        Raises:
            StoreError: read-only, damaged, no room, or another process writes for too long; the
                store stays as it was.
        """
        with self._store.read() as reader:  # what asks for this by now is done by it
            keys = [
                entry.key
                for entry in erasure_queue.due(reader)
                if entry.kind == erasure_queue.SCRUB
            ]
        self._vectors().catch_up(self._store, make=False)  # first: it may have tables of its own
        with self._texts().scrubbing(self._store.read):
            report = self._store.compact()
        told = {"before": report.before, "after": report.after}

        def work(writer: Writer) -> None:
            for key in keys:
                erasure_queue.done(writer, key)
            self._note(writer, "compact", [], details=told)

        self._store.write(work)
        return report

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a new directory, while it is in use.

        The text index is not copied: it is made anew from the copy.

        Raises:
            StoreError: there is something at the path, or it cannot be written.
        """
        self._store.backup(path)

    def stats(self) -> StoreStats:
        """Return how much the store holds, and how large its file is."""
        return self._store.stats()

    def sync(self) -> None:
        """Make durable what was put with ``durability="relaxed"``."""
        self._store.sync()

    def _note_restore(self) -> None:
        """Note in the audit trail that this store was made from a backup."""
        self._store.write(lambda writer: self._note(writer, "restore", []))
