# SPDX-License-Identifier: Apache-2.0
"""Making a store from a backup, once the backup is known to be good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omsgrain.durable import sync_directory
from omsgrain.errors import StoreError
from omsgrain.storage.base import CheckReport
from omsgrain.storage.check import check_in_child
from omsgrain.storage.lmdb.commit_queue import PATIENCE
from omsgrain.storage.lmdb.data_file import failure
from omsgrain.storage.lmdb.maintenance import copy, must_be_new
from omsgrain.storage.lmdb.storage import acquire, release


@contextmanager
def staged(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a store from a backup, which stays as it is, beside the path that it gets in the end.

    It takes its place when the block ends well, and is deleted when it does not: nobody reads it
    before what is to be done first is done.
    """
    source, target = Path(backup), Path(path)
    must_be_new(target)
    part = target.with_name(f".{target.name}.restoring")
    with suppress(FileNotFoundError):  # of one that was killed
        shutil.rmtree(part)
    try:
        _make(source, part)
        yield part
        must_be_new(target)
        part.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise failure(target, "restore the store", error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _make(source: Path, target: Path) -> CheckReport:
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
