# SPDX-License-Identifier: Apache-2.0
"""The backups of one store in a place: made, listed, restored, pruned.

    parts/ab/abcd...             a part, under its SHA-256
    backups/TIME-ID.json         a manifest, written last: the backup is complete
    running/TIME-RANDOM          a backup that is being made

A part that an earlier backup has is not sent again. Nor is what a killed backup has sent, as long
as its mark in ``running`` keeps ``prune`` from deleting parts. ``prune`` deletes manifests first,
then looks for marks. A backup writes its mark first, then looks for manifests. So no backup relies
on a part that ``prune`` is about to delete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from omsgrain.counts import counted
from omsgrain.durable import file_path
from omsgrain.errors import (
    DiskFullError,
    IntegrityError,
    NotFoundError,
    RangeError,
    SchemaError,
    StoreError,
    UnsupportedError,
    number_found,
)
from omsgrain.json_values import time_text
from omsgrain.query import times
from omsgrain.storage.backup.manifest import (
    LATEST,
    MOST_MANIFEST,
    Backup,
    PartEntry,
    decode,
    encode,
)
from omsgrain.storage.backup.objects import objects_at
from omsgrain.storage.backup.parts import (
    BLOB_FRAME,
    MOST_BYTES,
    TABLES_KEPT,
    is_ordered,
    parts_of,
    rows_in,
)
from omsgrain.storage.base import Reader
from omsgrain.storage.indexed_paths import index_again, paths_of
from omsgrain.storage.lmdb.data_file import DATA_FILE
from omsgrain.storage.location import StoreUrl, is_url
from omsgrain.storage.tables import AUDIT, BLOBS, FORMAT, INDEXED_FORMAT, SEQUENCE, Table

if TYPE_CHECKING:
    from datetime import timedelta

    from omsgrain.query.times import Time
    from omsgrain.storage.backup.objects import BackupPlace
    from omsgrain.storage.lmdb.storage import LmdbStorage

_BACKUPS, _PARTS, _RUNNING = "backups", "parts", "running"
_MANIFEST = re.compile(rf"{_BACKUPS}/([0-9]{{15}})-([0-9a-f]{{64}})\.json")
_PART = re.compile(rf"{_PARTS}/[0-9a-f]{{2}}/([0-9a-f]{{64}})")
_PARTIAL = re.compile(r"(?:.*/)?\.[^/]*\.partial")
_DAY = 24 * 3_600_000  # ms after which a mark or a half-written file is of a killed process
_ID = re.compile("[0-9a-f]{16,64}")  # the id of a backup, or its first 16 or more digits
_TABLES = {table.name.decode(): table for table in TABLES_KEPT}


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The result of an incremental backup.

    Attributes:
        backup: the backup.
        parts: number of its parts.
        sent: number of parts that were sent; the place had the others already.
        sent_bytes: bytes that were sent, with the manifest.
    """

    backup: Backup
    parts: int
    sent: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The result of a prune.

    Attributes:
        removed: the ids of the removed backups.
        kept: number of backups that are left.
        parts: number of deleted parts.
        freed: bytes of the deleted parts.
        waiting: whether no parts were deleted because a backup is running, or was killed less
            than 24 hours ago.
    """

    removed: tuple[str, ...]
    kept: int
    parts: int
    freed: int
    waiting: bool

    __repr__ = counted


class BackupRepository:
    """The backups of one store in a directory or in object storage.

    Args:
        place: a directory; a URL such as ``s3://bucket/robots``, with the extra ``objects``; or a
            store of ``obstore``.

    Raises:
        UnsupportedError: the extra is missing, or the URL is of another kind.
        SchemaError: it is not a place, or the URL contains keys.
    """

    def __init__(self, place: BackupPlace) -> None:
        self._objects = objects_at(place)

    def __repr__(self) -> str:
        return f"<BackupRepository {self.name!r}>"

    @property
    def name(self) -> str:
        """The place, for people."""
        return self._objects.name

    def backups(self) -> list[Backup]:
        """Return all backups, oldest first.

        Raises:
            IntegrityError: a manifest is damaged.
            StoreError: the place cannot be read.
        """
        return [self._read(*named) for named in self._manifests()]

    def find(self, at: Time | None = None) -> Backup:
        """Return a backup.

        Args:
            at: a time, for the newest backup made until then; or an id, or its first 16 or more
                digits. None for the newest backup.

        Raises:
            SchemaError: ``at`` is not a time or an id.
            NotFoundError: there is no such backup.
            IntegrityError: its manifest is damaged.
        """
        there = found = self._manifests()
        if isinstance(at, str) and _ID.fullmatch(at):
            found = [named for named in found if named[1].startswith(at)]
        elif at is not None:
            latest = times.millis(at, field="/at", now=times.now())
            found = [named for named in found if named[0] <= latest]
        if not found:
            which = "no backup of that time or id" if there else "no backup"
            oldest = f"the oldest is of {time_text(there[0][0])}" if there else None
            raise NotFoundError(f"there is {which} in {self.name!r}", found=oldest)
        return self._read(*found[-1])

    def add(self, reader: Reader, now: int) -> BackupReport:
        """Make a backup of a snapshot of a store; ``store.maintenance.backup_to`` does it.

        Args:
            reader: the snapshot, open until the end.
            now: the time of the snapshot, ms since 1970.
        """
        resumes = self._is_running(now)
        mark = f"{_RUNNING}/{now:015d}-{os.urandom(8).hex()}"
        self._objects.put(mark, b"")
        try:
            return self._add(reader, now, mark, resumes)
        except DiskFullError:
            self._objects.delete(mark)  # a prune makes room at once; else the next one resumes
            raise

    def _add(self, reader: Reader, now: int, mark: str, resumes: bool) -> BackupReport:
        manifests = self._manifests()
        newest = self._readable(*manifests[-1]) if manifests else None
        store = _identity(reader)
        if newest is not None and None not in (store, newest.store) and store != newest.store:
            self._objects.delete(mark)
            raise StoreError(
                f"the backups in {self.name!r} are of another store", expected="a place of its own"
            )
        there = self._stored_parts()
        if not resumes:
            known = {part.sha256 for named in manifests for part in self._parts_named(*named)}
            there = {digest: size for digest, size in there.items() if digest in known}
        entries: list[PartEntry] = []
        sent = sent_bytes = 0
        for table, rows, data in parts_of(reader):
            digest, size = sha256(data).hexdigest(), len(data)
            entries.append(PartEntry(table.name.decode(), digest, size, rows))
            if there.get(digest) != size:
                self._objects.put(_part_name(digest), data)
                there[digest] = size
                sent, sent_bytes = sent + 1, sent_bytes + size
        stored = self._stored_parts()
        if any(stored.get(entry.sha256) != entry.size for entry in entries):
            raise StoreError("parts of the backup were deleted meanwhile; run the backup again")
        blobs = [entry for entry in entries if entry.table == BLOBS.name.decode()]
        values = {
            "created_at": max(now, manifests[-1][0] + 1 if manifests else 0),
            "grains": reader.count(),
            "blob_bytes": sum(one.size - BLOB_FRAME * one.rows for one in blobs),
            "last_seq": reader.last_seq(),
            "format": INDEXED_FORMAT if paths_of(reader) else FORMAT,
            "parent": manifests[-1][1] if manifests else None,
            "store": store,
        }
        data = encode(values, entries)
        backup = decode(data)
        self._objects.put(f"{_BACKUPS}/{backup.created_at:015d}-{backup.id}.json", data)
        self._objects.delete(mark)
        return BackupReport(backup, len(entries), sent, sent_bytes + len(data))

    def restore(self, backup: Backup, path: Path) -> None:
        """Make a store of a backup in an empty directory, and check all of it.

        Raises:
            IntegrityError: a part is damaged or missing, or the store has problems.
            UnsupportedError: another version of omsgrain made the backup.
        """
        from omsgrain.storage.check import check_in_child
        from omsgrain.storage.lmdb.storage import LmdbStorage

        unknown = {part.table for part in backup.parts} - _TABLES.keys()
        if backup.format not in (FORMAT, INDEXED_FORMAT) or unknown:
            raise UnsupportedError(
                "another version of omsgrain made this backup; restore it with that version",
                expected=f"format {FORMAT} or {INDEXED_FORMAT}",
                found=f"format {backup.format}" + "".join(f", table {n}" for n in sorted(unknown)),
            )
        path.chmod(0o700)
        with closing(LmdbStorage(path, durable=False)) as target:
            for table in TABLES_KEPT:
                self._restore_table(target, table, backup)
            target.write(lambda writer: writer.advance(backup.last_seq))
            index_again(target)
            found = target.stats()
        if (found.grains, found.blob_bytes, found.last_seq) != (
            backup.grains,
            backup.blob_bytes,
            backup.last_seq,
        ):
            raise _differs("the counts of its manifest")
        report = check_in_child(path)
        if not report.ok:
            raise _differs("a check without problems", report.problems[0].message)

    def _restore_table(self, target: LmdbStorage, table: Table, backup: Backup) -> None:
        from omsgrain.storage.lmdb.backup import add_grains, add_rows

        after = SEQUENCE.pack(0) if table is BLOBS else b""
        for part in backup.parts:
            if part.table != table.name.decode():
                continue
            rows = rows_in(self._part(part), after if is_ordered(table) else b"")
            if len(rows) != part.rows:
                raise _differs(f"{part.rows} rows in a part", str(len(rows)))
            after = rows[-1][0]
            if table is not BLOBS:
                add_rows(target, table, rows)
                continue
            if any(len(key) != SEQUENCE.size for key, _ in rows) or (
                SEQUENCE.unpack(after)[0] > backup.last_seq
            ):
                raise _differs("sequence numbers up to that of its manifest")
            add_grains(
                target,
                [(int.from_bytes(key, "big"), sha256(blob).digest(), blob) for key, blob in rows],
            )

    def _part(self, part: PartEntry) -> bytes:
        name = _part_name(part.sha256)
        data = self._objects.get(name, part.size)
        if sha256(data).hexdigest() != part.sha256:
            raise IntegrityError(
                f"the object {name!r} is damaged", expected=part.sha256, found="another hash"
            )
        return data

    def prune(
        self,
        *,
        keep_last: int | None = None,
        keep_within: timedelta | str | None = None,
        now: Time | None = None,
    ) -> PruneReport:
        """Remove old backups, and the parts that no backup needs any more.

        A backup stays if either rule keeps it; the newest one always stays. While another backup
        runs, no parts are deleted; call it again then.

        Args:
            keep_last: keep so many of the newest backups; at least 1.
            keep_within: keep the backups that are not older: a timedelta, or text such as `30d`.
            now: a time, in place of the clock.

        Raises:
            SchemaError: there is no rule, or it is not a length of time.
            RangeError: a rule is out of range.
            IntegrityError: the manifest of a backup that stays is damaged. No part was deleted.
        """
        if keep_last is None and keep_within is None:
            raise SchemaError(
                "nothing says which backups to keep", expected="keep_last or keep_within"
            )
        if keep_last is not None and keep_last < 1:
            raise RangeError(
                "too few backups to keep",
                field="/keep_last",
                expected="1 or more",
                found=number_found(keep_last),
            )
        within = None if keep_within is None else times.duration(keep_within, field="/keep_within")
        at = times.now() if now is None else times.millis(now, field="/now", now=times.now())
        oldest = at - (within or 0)
        named = self._manifests()
        last = named[-(keep_last or 1) :]
        removed = [one for one in named if one not in last and (within is None or one[0] < oldest)]
        for created_at, digest in removed:
            self._objects.delete(f"{_BACKUPS}/{created_at:015d}-{digest}.json")
        ids = tuple(digest for _, digest in removed)
        if self._is_running(at):
            return PruneReport(ids, len(named) - len(removed), 0, 0, True)
        kept = self._manifests()
        if not kept:  # somebody moved them; without them nothing says what is needed
            return PruneReport(ids, 0, 0, 0, False)
        needed = {part.sha256 for one in kept for part in self._read(*one).parts}
        parts = freed = 0
        for digest, size in self._stored_parts().items():
            if digest not in needed:
                self._objects.delete(_part_name(digest))
                parts, freed = parts + 1, freed + size
        self._sweep(at)
        return PruneReport(ids, len(kept), parts, freed, False)

    def _sweep(self, now: int) -> None:
        """Delete what killed processes left more than a day ago."""
        for folder in (_RUNNING, _PARTS, _BACKUPS):
            for one in [*self._objects.listed(folder)]:
                if folder == _RUNNING or _PARTIAL.fullmatch(one.name):
                    if one.modified < now - _DAY:
                        self._objects.delete(one.name)

    def _manifests(self) -> list[tuple[int, str]]:
        """Return the times and ids of all backups, oldest first."""
        names = (_MANIFEST.fullmatch(one.name) for one in self._objects.listed(_BACKUPS))
        found = sorted((int(name[1]), name[2]) for name in names if name)
        return [one for one in found if one[0] <= LATEST]

    def _read(self, created_at: int, digest: str) -> Backup:
        name = f"{_BACKUPS}/{created_at:015d}-{digest}.json"
        data = self._objects.get(name, MOST_MANIFEST)
        found = sha256(data).hexdigest()
        if found != digest:
            raise IntegrityError(f"the object {name!r} is damaged", expected=digest, found=found)
        backup = decode(data)
        if backup.created_at != created_at:
            raise IntegrityError(
                f"the object {name!r} has the name of another time",
                expected=str(backup.created_at),
            )
        return backup

    def _readable(self, created_at: int, digest: str) -> Backup | None:
        """Return a backup, or None if its manifest is damaged or missing."""
        try:
            return self._read(created_at, digest)
        except (IntegrityError, NotFoundError, UnsupportedError):
            return None

    def _parts_named(self, created_at: int, digest: str) -> tuple[PartEntry, ...]:
        found = self._readable(created_at, digest)
        return () if found is None else found.parts

    def _stored_parts(self) -> dict[str, int]:
        """Return the hashes and sizes of all stored parts."""
        return dict(self._part_objects())

    def _part_objects(self) -> Iterator[tuple[str, int]]:
        for one in self._objects.listed(_PARTS):
            name = _PART.fullmatch(one.name)
            if name and one.name == _part_name(name[1]) and one.size <= MOST_BYTES:
                yield name[1], one.size

    def _is_running(self, now: int) -> bool:
        return any(one.modified >= now - _DAY for one in self._objects.listed(_RUNNING))


def is_repository(place: object) -> bool:
    """Tell whether a place has incremental backups, and is not a copy of a store."""
    if isinstance(place, str) and is_url(place):
        return not place.lower().startswith("postgres")
    if isinstance(place, str | os.PathLike):
        path = file_path(place)
        return os.path.isdir(path / _BACKUPS) and not os.path.exists(path / DATA_FILE)
    return not isinstance(place, StoreUrl)


def _part_name(digest: str) -> str:
    return f"{_PARTS}/{digest[:2]}/{digest}"


def _identity(reader: Reader) -> str | None:
    first = next(iter(reader.rows(AUDIT)), None)
    return None if first is None else sha256(first[1]).hexdigest()


def _differs(expected: str, found: str | None = None) -> IntegrityError:
    return IntegrityError("the backup cannot be restored", expected=expected, found=found)
