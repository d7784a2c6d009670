# SPDX-License-Identifier: Apache-2.0
"""The door of a store: one at a time opens its files, or puts others in their place.

LMDB's lock file holds the number of the last commit and the slots of the readers, so it belongs to
its data file: whoever had the new one of the two and the old one of the other would write over
pages that somebody reads. Both are replaced, in steps that a kill may part:

    data.part/data.mdb           the new data, being written; nobody's until it has its next name
    becomes data.next            decided: from here on everybody goes on with the new data
    lock.mdb is made anew        while somebody may have the old pair open still
    data.next becomes data.mdb   done; the old pair lives as long as somebody has it open

Who opens the files and finds ``data.next`` does the rest of the steps first; who has them open
looks for it before each commit. The door is a lock on the directory, which the system drops when a
process dies.

Opening is for one at a time because LMDB's own way is not safe from kills: the first process makes
the lock file with 0 for the number of the last commit, and puts the right one there a moment
later. If it dies in between, one that waited for it takes the 0 for true, and goes on from the
commit before the last one.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omsgrain.durable import sync_directory
from omsgrain.errors import StoreError
from omsgrain.store.opening import DATA_FILE, LOCK_FILE, NEXT_FILE, PART_DIRECTORY

try:
    import fcntl
except ImportError:  # not a POSIX system: no compaction there, and so nothing to wait for
    fcntl = None  # type: ignore[assignment]

__all__ = ["clean", "guard", "kept_out", "passing", "replace", "take_after"]

_PAUSE = 0.002  # seconds between two tries; openings are short

guard = threading.RLock()
"""One thread of a process at the door at a time. A fork waits for it, lest the child inherit a
descriptor that holds the door."""


@contextmanager
def passing(path: Path, patience: float) -> Iterator[None]:
    """Be the only one to open the files; finish a replacement first.

    Raises:
        StoreError: somebody opens or replaces them for longer than ``patience`` seconds.
        OSError: the directory cannot be opened, or the replacement cannot be finished.
    """
    with _door(path, patience):
        if (path / NEXT_FILE).exists():  # whoever began it is dead, having left the door
            try:
                _finish(path)
            except PermissionError as error:
                raise _interrupted(path, error.strerror) from error
        yield


@contextmanager
def kept_out(path: Path) -> Iterator[None]:
    """Open the files where nobody else can: the caller keeps writers out, and makes no file.

    Raises:
        StoreError: a compaction was interrupted.
    """
    if (path / NEXT_FILE).exists():
        raise _interrupted(path)
    yield


def _interrupted(path: Path, found: str | None = None) -> StoreError:
    return StoreError(
        f"a compaction of {str(path)!r} was interrupted: open it once for writing", found=found
    )


def replace(path: Path, patience: float) -> None:
    """Put the file in ``data.part``, whole and synced, in the place of the store's.

    The caller has the writers' turn.

    Raises:
        StoreError: somebody is opening the store for longer than ``patience`` seconds.
        OSError: a step failed; if it was not the first, the next opening finishes them.
    """
    with _door(path, patience):
        os.rename(path / PART_DIRECTORY / DATA_FILE, path / NEXT_FILE)
        _finish(path)


def clean(path: Path) -> None:
    """Remove what a killed compaction was writing. The caller has the writers' turn."""
    shutil.rmtree(path / PART_DIRECTORY, ignore_errors=True)


def take_after(file: Path, model: os.stat_result, mode: int | None = None) -> None:
    """Give a file the owner of another and its permissions, or others, as far as we may."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(file, model.st_uid, model.st_gid)
    with suppress(PermissionError):
        os.chmod(file, (model.st_mode if mode is None else mode) & 0o777)


def _finish(path: Path) -> None:
    model = os.stat(path / DATA_FILE)
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(path / LOCK_FILE).st_mode  # who only reads may have leave to write to it
        os.unlink(path / LOCK_FILE)
    os.close(os.open(path / LOCK_FILE, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    take_after(path / LOCK_FILE, model, mode)  # LMDB fills it
    os.rename(path / NEXT_FILE, path / DATA_FILE)
    sync_directory(path)


@contextmanager
def _door(path: Path, patience: float) -> Iterator[None]:
    with guard:
        if fcntl is None:
            yield
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            until = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise StoreError(
                            f"the files of the store {str(path)!r} are being opened or replaced",
                            expected=f"that to end within {patience:g} s",
                        ) from None
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(fd)
