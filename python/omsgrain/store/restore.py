# SPDX-License-Identifier: Apache-2.0
"""Making a store from a backup, once the backup is known to be good."""

from __future__ import annotations

import os
from pathlib import Path

from omsgrain.errors import StoreError
from omsgrain.store.base import CheckReport
from omsgrain.store.check import check_in_child
from omsgrain.store.sharing import acquire, release
from omsgrain.store.turns import PATIENCE
from omsgrain.store.upkeep import copy, must_be_new

__all__ = ["restore"]


def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> CheckReport:
    """Make a store at a new path from a backup, which stays as it is.

    Args:
        backup: the directory of a backup, or of any store.
        path: where the store shall be; there must be nothing yet.

    Returns:
        What the check of the backup found: nothing wrong, and so many grains.

    Raises:
        StoreError: the backup is damaged, or there is something at the path, or it cannot be
            written. Nothing was made.
    """
    source, target = Path(backup), Path(path)
    must_be_new(target)
    report = check_in_child(source)
    if not report.ok:
        raise StoreError(
            f"the backup {str(source)!r} is not as it was made",
            expected="a check without problems",
            found=report.problems[0].message,
        )
    env = acquire(source, readonly=True, durable=True, patience=PATIENCE)
    try:
        copy(env, target)
    finally:
        release(env)
    return report
