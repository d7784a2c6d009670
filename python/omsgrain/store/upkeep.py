# SPDX-License-Identifier: Apache-2.0
"""Keeping a store well: making its index anew, and copying it while it is in use."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import lmdb

from omsgrain.errors import StoreError
from omsgrain.store.base import RebuildReport
from omsgrain.store.environment import Environment
from omsgrain.store.opening import failure, sync_names
from omsgrain.store.recent import RUN, Recent
from omsgrain.store.writing import LmdbWriter

__all__ = ["copy", "rebuild"]


def rebuild(writer: LmdbWriter) -> RebuildReport:
    """Make the terms anew from the blobs, and the addresses that are missing."""
    writer.drop_terms()
    damaged: list[int] = []
    grains = rows = readdressed = after = 0
    run = Recent(0)

    def write_run() -> None:
        nonlocal grains, rows, readdressed, run
        missing = {d: seq for d, seq in run.digests.items() if writer.row_of(d) != seq}
        writer.add_addresses(missing)
        writer.add_rows(run)
        grains, rows = grains + len(run.digests), rows + run.tail.rows()
        readdressed += len(missing)
        run = Recent(0)

    while page := writer.hashed_page(after):
        after = page[-1][0]
        damaged += [seq for seq, _, digest in page if digest is None]
        good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
        run.digests.update((digest, seq) for seq, _, digest in good)
        run.add_rows(good)
        if len(run.digests) >= RUN:
            write_run()
    write_run()
    writer.set_watermark()
    return RebuildReport(grains, rows, readdressed, tuple(damaged))


def copy(env: Environment, path: Path) -> None:
    """Copy a store as it is now to a directory that is not there yet.

    The copy appears whole or not at all.

    Raises:
        StoreError: there is something at the path, or it cannot be written.
    """
    if path.exists():
        raise StoreError(f"there is something at {str(path)!r} already", expected="a new path")
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise failure(path, "make the backup", error) from error
    try:
        env.copy(made)
        os.chmod(made, path.parent.stat().st_mode & 0o777)
        os.rename(made, path)
        sync_names(path)
    except (lmdb.Error, OSError) as error:
        raise failure(path, "make the backup", error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
