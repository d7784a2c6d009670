# SPDX-License-Identifier: Apache-2.0
"""``store.maintenance``: check, rebuild, compact and back up a store."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace

from omsgrain.storage import erasure_queue
from omsgrain.storage.base import (
    TEXT_FILE,
    VECTOR_FILES,
    CheckReport,
    CompactReport,
    RebuildReport,
    Writer,
)
from omsgrain.store.context import Context, StorePart


class Maintenance(StorePart):
    """``store.maintenance``: check, rebuild, compact and back up a store."""

    __slots__ = ()

    def check(self) -> CheckReport:
        """Look at every byte that matters: blobs, addresses, index rows, states, audit, text.

        It runs in a process of its own, because LMDB does not survive every damaged page.
        """
        return check_text(self._context, self._context.storage.check())

    def rebuild(self) -> RebuildReport:
        """Rebuild the index from the blobs; the same blobs and states give the same bytes.

        Raises:
            StoreError: read-only, or no room; the old index is kept then.
        """
        report = self._context.storage.rebuild()
        self._context.texts().rebuild(self._context.storage.read)
        self._context.nearest().catch_up(self._context.storage)
        return report

    def compact(self) -> CompactReport:
        """Rewrite the store without free pages, and so without what was deleted.

        Others may have it open: their readers finish on the old file, and go on with the new one.
        It takes as much room again while it runs.

        Raises:
            StoreError: read-only, damaged, no room, or another process writes for too long; the
                store stays as it was.
        """
        with self._context.storage.read() as reader:  # what asks for this by now is done by it
            keys = [
                entry.key
                for entry in erasure_queue.due(reader)
                if entry.kind == erasure_queue.SCRUB
            ]
        context = self._context
        if context.has_index(VECTOR_FILES):  # first: it may have tables of its own
            context.nearest().catch_up(context.storage, make=False)
        with (
            context.texts().scrubbing(context.storage.read)
            if context.has_index(TEXT_FILE)
            else nullcontext()
        ):
            report = context.storage.compact()
        told = {"before": report.before, "after": report.after}

        def work(writer: Writer) -> None:
            for key in keys:
                erasure_queue.done(writer, key)
            self._context.note(writer, "compact", [], details=told)

        self._context.storage.write(work)
        return report

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a new directory, while it is in use.

        The text index is not copied: a search of the copy rebuilds it.

        Raises:
            StoreError: there is something at the path, or it cannot be written.
        """
        self._context.storage.backup(path)


def check_text(context: Context, report: CheckReport) -> CheckReport:
    """Check the text index too, where the rest is good."""
    texts = context.texts()
    if not report.ok or not texts.exists:
        return report
    problems = texts.check(context.storage.read)
    return replace(report, ok=not problems, problems=problems)
