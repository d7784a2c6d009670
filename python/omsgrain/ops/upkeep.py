# SPDX-License-Identifier: Apache-2.0
"""Keep a store well: look at all of it, make its index anew, copy it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import omsgrain as og
from omsgrain.ops.opening import keys_in_use, open_store, writable
from omsgrain.storage.location import Where, location_of

if TYPE_CHECKING:
    from omsgrain.storage.base import CheckReport, CompactReport, RebuildReport


def check(store: Where) -> CheckReport:
    """Look at every byte that matters.

    A directory is opened in a child process only: a damaged page can end the process that reads
    it.
    """
    home = location_of(store)
    home.must_exist()
    report = home.check()
    if not report.ok:
        return report
    with open_store(store, readonly=True) as grains:
        return grains.check_text(report)


def rebuild(store: Where) -> RebuildReport:
    """Make the index anew from the blobs."""
    with writable(store) as grains:
        return grains.rebuild()


def backup(store: Where, directory: Path) -> None:
    """Copy the store as it is now to a new directory; it may be in use."""
    with open_store(store, readonly=True) as grains:
        grains.backup(directory)


def compact(store: Where, *, actor: str | None = None) -> CompactReport:
    """Write the store anew without free pages, while it is in use."""
    with writable(store, actor) as grains:
        return grains.compact()


def restore(
    backup: Where,
    store: Where,
    *,
    actor: str | None = None,
    tombstones_from: Where | None = None,
) -> None:
    """Make a store from a backup; errors are those of ``omsgrain.restore``."""
    keys = keys_in_use()
    og.restore(backup, store, actor=actor, keys=keys, tombstones_from=tombstones_from)
