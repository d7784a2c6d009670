# SPDX-License-Identifier: Apache-2.0
"""Copy a store while it is in use; make a store from a copy that is known to be good."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import lmdb

from omsgrain.durable import sync_directory
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.data_file import DATA_FILE, HEAD_FILE, failure, sync_names
from omsgrain.storage.lmdb.environment import Environment, HeadFile
from omsgrain.storage.tables import HEAD, HEAD_RECORD, META

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def must_be_new(path: Path) -> None:
    """Refuse to write where something is."""
    try:
        there = path.exists()
    except OSError as error:  # a name that is too long
        raise failure(path, "look at", error) from error
    if there:
        raise StoreError(f"there is something at {str(path)!r} already", expected="a new path")


@contextmanager
def appearing(path: Path, like: Path | None = None) -> Iterator[Path]:
    """A directory that gets its name when the block ends well, and is gone when it does not.

    Until then it is in ``.NAME.part`` beside, which no other user may read. What a killed process
    left there is removed first: it has all that is in a store.
    """
    must_be_new(path)
    part = path.with_name(f".{path.name}.part")
    made = part / path.name
    try:
        with _own(part, path.name):
            made.mkdir()
            yield made
            made.chmod(_no_wider(made, like or made) | 0o700)
            os.rename(made, path)
            sync_names(path)
    except (lmdb.Error, OSError) as error:
        raise failure(path, "make the backup", error) from error


@contextmanager
def _own(part: Path, name: str) -> Iterator[None]:
    """Have a directory for oneself, and remove it in the end."""
    with suppress(FileExistsError):
        part.mkdir(mode=0o700)
    held = os.open(part, _DIRECTORY) if fcntl is not None else None
    try:
        if held is not None:
            if os.fstat(held).st_uid != os.geteuid():  # where all may write, say
                raise FileExistsError(errno.EEXIST, "the directory belongs to another user")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"another process is making {str(part)!r} just now") from None
        for left in part.iterdir():
            if left.name != name:
                raise FileExistsError(errno.EEXIST, "there is a directory with something else")
            shutil.rmtree(left)
        try:
            yield
        finally:
            shutil.rmtree(part, ignore_errors=True)
    finally:
        if held is not None:
            os.close(held)


def _no_wider(path: Path, like: Path) -> int:
    """The permissions that both files give."""
    return path.stat().st_mode & like.stat().st_mode & 0o777


def copy(env: Environment, path: Path) -> None:
    """Copy a store as it is now to a directory that is not there yet.

    The copy appears whole or not at all. Only those who may read the store may read it.
    """
    with appearing(path, env.path) as made:
        env.copy(made)
        _finish(made)
        for file in made.iterdir():
            file.chmod(_no_wider(file, env.path / DATA_FILE) | 0o600)


def _finish(made: Path) -> None:
    """Give a copied data file its note of how far it has come, and see that the disk has both."""
    with lmdb.open(os.fsencode(made), readonly=True, lock=False, max_dbs=1) as copied:
        meta = copied.open_db(META.name, create=False)
        with copied.begin(db=meta) as txn:
            record = txn.get(HEAD_RECORD)
    if record is not None:
        side = HeadFile(made / HEAD_FILE)
        side.write(*HEAD.unpack(record)[:2])
        side.close()
    for file in made.iterdir():
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())


@contextmanager
def staged(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a store from a backup, in a directory beside the path that it gets in the end.

    It is moved to the path when the block ends well, and deleted when it does not, so no reader
    sees it before the block is done. The backup stays as it is.
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


def _make(source: Path, target: Path) -> None:
    from omsgrain.storage.check import check_in_child
    from omsgrain.storage.lmdb.storage import LmdbStorage

    report = check_in_child(source)
    if not report.ok:
        raise StoreError(
            f"the backup {str(source)!r} is not as it was made",
            expected="a check without problems",
            found=report.problems[0].message,
        )
    with closing(LmdbStorage(source, readonly=True)) as backup:
        backup.backup(target)
