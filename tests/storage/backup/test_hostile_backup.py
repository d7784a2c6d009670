# SPDX-License-Identifier: Apache-2.0
"""A backup that somebody changed is refused, by a code, and no store is made of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import IntegrityError, NotFoundError, OmsError, UnsupportedError
from omsgrain.storage.backup.manifest import MOST_MANIFEST, decode
from omsgrain.storage.backup.parts import MOST_BYTES, MOST_ROWS, rows_in
from omsgrain.storage.backup.repository import BackupRepository
from support.backup_places import filled

Manifest = dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with filled(tmp_path / "memory.omsg", 40) as store:
        store.maintenance.backup_to(tmp_path / "backups")
    return tmp_path / "backups"


def manifest(place: Path) -> Manifest:
    found: Manifest = json.loads(next((place / "backups").iterdir()).read_bytes())
    return found


def packed(values: Manifest) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def replace_manifest(place: Path, data: bytes, created_at: int | None = None) -> None:
    """Put a manifest in the place of the only one, under a name that fits."""
    old = next((place / "backups").iterdir())
    time = old.name.partition("-")[0] if created_at is None else f"{created_at:015d}"
    old.unlink()
    (place / "backups" / f"{time}-{sha256(data).hexdigest()}.json").write_bytes(data)


def store_part(place: Path, data: bytes) -> str:
    digest = sha256(data).hexdigest()
    file = place / "parts" / digest[:2] / digest
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    return digest


def refuse(place: Path) -> OmsError:
    """See that the backup is refused, and nothing is left of the attempt."""
    room = place.parent
    before = sorted(room.iterdir())
    with pytest.raises(OmsError) as refused:
        og.restore(place, room / "new.omsg")
    assert sorted(room.iterdir()) == before
    return refused.value


def test_each_damaged_part_is_found(place: Path) -> None:
    random = Random(3)
    for file in sorted((place / "parts").rglob("*/*")):
        whole = file.read_bytes()
        at = random.randrange(len(whole))
        for damaged in (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole[:at], b""):
            file.write_bytes(damaged)
            assert type(refuse(place)) is IntegrityError
        file.write_bytes(whole + b"\0")
        assert type(refuse(place)) is IntegrityError
        file.unlink()
        assert type(refuse(place)) is NotFoundError
        file.mkdir()
        assert type(refuse(place)) is IntegrityError
        file.rmdir()
        os.mkfifo(file)  # to open it would wait without end
        assert type(refuse(place)) is IntegrityError
        file.unlink()
        file.write_bytes(whole)
    og.restore(place, place.parent / "new.omsg")


def test_a_damaged_manifest_is_found(place: Path) -> None:
    file = next((place / "backups").iterdir())
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole.replace(b"0", b"1", 1), b""):
        file.write_bytes(damaged)
        assert type(refuse(place)) is IntegrityError
        with pytest.raises(IntegrityError):
            BackupRepository(place).backups()
    file.write_bytes(whole)
    file.rename(file.with_name(f"{5:015d}{file.name[15:]}"))  # of another time
    assert type(refuse(place)) is IntegrityError


def test_a_manifest_is_not_read_beyond_its_limit(place: Path) -> None:
    file = next((place / "backups").iterdir())
    with file.open("r+b") as opened:
        opened.truncate(MOST_MANIFEST + 1)  # a hole, which takes no space
    assert type(refuse(place)) is IntegrityError


def test_a_prune_beside_a_damaged_manifest_deletes_no_part(place: Path) -> None:
    file = next((place / "backups").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    before = sorted((place / "parts").rglob("*"))
    with pytest.raises(IntegrityError):
        BackupRepository(place).prune(keep_last=1)
    assert sorted((place / "parts").rglob("*")) == before


def test_a_damaged_manifest_does_not_stop_the_next_backup(place: Path, tmp_path: Path) -> None:
    file = next((place / "backups").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    with og.open(tmp_path / "memory.omsg") as store:
        report = store.maintenance.backup_to(place)
    assert report.sent == report.parts  # no manifest says that the parts are needed
    og.restore(place, tmp_path / "new.omsg")


BLOBS = -1
"""The place of the parts with blobs: the last."""


def _set(**values: Any) -> Callable[[Manifest], None]:
    return lambda manifest: manifest.update(values)


def _part(index: int, value: Any) -> Callable[[Manifest], None]:
    def change(manifest: Manifest) -> None:
        manifest["parts"][BLOBS][index] = value

    return change


CHANGES: dict[str, Callable[[Manifest], object]] = {
    "a path in a table": _part(0, "../../etc/passwd"),
    "a path in a hash": _part(1, "../" * 21 + "a"),
    "a hash in capitals": _part(1, "A" * 64),
    "no hash": _part(1, None),
    "a part of no bytes": _part(2, 0),
    "a huge part": _part(2, MOST_BYTES + 1),
    "a size that is no number": _part(2, 1.0),
    "a size that is a bool": _part(2, True),
    "a negative size": _part(2, -1),
    "no rows": _part(3, 0),
    "more rows than bytes": _part(2, 39),
    "too many rows": _part(3, MOST_ROWS + 1),
    "a part that is no list": lambda m: m["parts"].append({}),
    "a part with more": lambda m: m["parts"][BLOBS].append(1),
    "parts that are no list": _set(parts={}),
    "a negative count": _set(grains=-1),
    "too high a number": _set(last_seq=1 << 32),
    "a time beyond all": _set(created_at=1 << 60),
    "a member more": _set(more=1),
    "a member less": lambda m: m.pop("parent"),
    "a parent that is a path": _set(parent="../x"),
    "a store that is a number": _set(store=7),
    "no version": lambda m: m.pop("omsgrain.backup"),
    "version 0": _set(**{"omsgrain.backup": 0}),
    "a format of text": _set(format="6"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_writer_makes_such_a_manifest(place: Path, name: str) -> None:
    values = manifest(place)
    CHANGES[name](values)
    replace_manifest(place, packed(values))
    assert type(refuse(place)) is IntegrityError


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"null", b"[" * 100_000, b"9" * 10_000, b"\xff", b'{"a":1,"a":1}'],
    ids=range(8),
)
def test_no_manifest_at_all(text: bytes) -> None:
    with pytest.raises(IntegrityError):
        decode(text)


def test_a_manifest_has_one_form(place: Path) -> None:
    values = manifest(place)
    assert decode(packed(values)).grains == 40
    for other in (
        json.dumps(values, sort_keys=True).encode(),
        json.dumps(dict(reversed(values.items())), separators=(",", ":")).encode(),
        packed(values) + b"\n",
        packed(values).replace(b'"grains":40', b'"grains":40,"grains":40'),
        packed(values).replace(b'"grains":40', b'"grains":4e1'),
    ):
        with pytest.raises(IntegrityError):
            decode(other)


@pytest.mark.parametrize(
    "change",
    [
        _set(format=5),
        _set(format=99),
        _part(0, "terms-99"),
        _set(**{"omsgrain.backup": 2}),
    ],
    ids=["an older format", "a newer format", "an unknown table", "a newer manifest"],
)
def test_what_another_version_made_is_refused_as_such(
    place: Path, change: Callable[[Manifest], None]
) -> None:
    values = manifest(place)
    change(values)
    replace_manifest(place, packed(values))
    assert type(refuse(place)) is UnsupportedError


def test_backups_of_another_format_are_listed_and_pruned(place: Path, tmp_path: Path) -> None:
    values = manifest(place)
    values["format"] = 5
    replace_manifest(place, packed(values))
    with og.open(tmp_path / "memory.omsg") as store:
        store.maintenance.backup_to(place)
    assert BackupRepository(place).backups()[0].format == 5
    assert len(BackupRepository(place).prune(keep_last=1).removed) == 1
    og.restore(place, tmp_path / "new.omsg")


def _row(key: bytes, value: bytes, size: int | None = None) -> bytes:
    length = len(value) if size is None else size
    return len(key).to_bytes(2, "big") + length.to_bytes(4, "big") + key + value


K1, K2 = (1).to_bytes(8, "big"), (2).to_bytes(8, "big")
PARTS: dict[str, bytes] = {
    "half a head": b"\0\1\0",
    "a key beyond the end": b"\0\4\0\0\0\0ab",
    "a value beyond the end": _row(K1, b"ab", 3),
    "a huge value": _row(K1, b"ab", 0xFFFF_FFFF),
    "no key": _row(b"", b"x"),
    "a key that is too long": _row(b"k" * 512, b"x"),
    "keys that fall": _row(K2, b"x") + _row(K1, b"x"),
    "a key twice": _row(K1, b"x") + _row(K1, b"x"),
}


@pytest.mark.parametrize("name", PARTS)
def test_malformed_parts(name: str) -> None:
    with pytest.raises(IntegrityError):
        rows_in(PARTS[name], b"")


def test_a_part_has_a_limit_of_rows() -> None:
    rows = [_row(n.to_bytes(3, "big"), b"") for n in range(MOST_ROWS)]
    assert len(rows_in(b"".join(rows), b"")) == MOST_ROWS
    with pytest.raises(IntegrityError):
        rows_in(b"".join(rows) + _row(b"\xff" * 3, b""), b"")


def test_rows_rise_from_part_to_part() -> None:
    assert rows_in(_row(K2, b"x"), K1) == [(K2, b"x")]
    with pytest.raises(IntegrityError):
        rows_in(_row(K1, b"x"), K1)


def _blobs(place: Path) -> list[tuple[bytes, bytes]]:
    digest = manifest(place)["parts"][BLOBS][1]
    return rows_in((place / "parts" / digest[:2] / digest).read_bytes(), b"")


def _with_rows(place: Path, rows: list[tuple[bytes, bytes]], **values: Any) -> None:
    """Make a backup with other blobs, whose hashes and counts are right."""
    data = b"".join(_row(*row) for row in rows)
    whole = manifest(place)
    whole["parts"][BLOBS][1:] = [store_part(place, data), len(data), len(rows)]
    whole["grains"] = len(rows)
    whole["blob_bytes"] = sum(len(blob) for _, blob in rows)
    whole.update(values)
    replace_manifest(place, packed(whole))


BLOB_CHANGES: dict[str, Callable[[list[tuple[bytes, bytes]]], list[tuple[bytes, bytes]]]] = {
    "a blob that is no grain": lambda rows: [*rows[:-1], (rows[-1][0], b"rubbish")],
    "an empty blob": lambda rows: [*rows[:-1], (rows[-1][0], b"")],
    "a grain twice": lambda rows: [*rows[:-1], (rows[-1][0], rows[0][1])],
    "a number beyond the last": lambda rows: [*rows[:-1], ((99).to_bytes(8, "big"), rows[-1][1])],
    "a number of 64 bits": lambda rows: [*rows[:-1], (b"\xff" * 8, rows[-1][1])],
    "the number 0": lambda rows: [(bytes(8), rows[0][1]), *rows[1:]],
    "a short key": lambda rows: [(bytes(7), rows[0][1]), *rows[1:]],
    "a grain that the audit trail misses": lambda rows: rows[:-1],
}


@pytest.mark.parametrize("name", BLOB_CHANGES)
def test_blobs_that_are_no_store(place: Path, name: str) -> None:
    _with_rows(place, BLOB_CHANGES[name](_blobs(place)))
    refuse(place)


@pytest.mark.parametrize("name", ["grains", "blob_bytes", "last_seq"])
def test_counts_that_differ(place: Path, name: str) -> None:
    values = manifest(place)
    values[name] += 1
    replace_manifest(place, packed(values))
    error = refuse(place)
    assert type(error) is IntegrityError


def test_rows_of_states_are_checked(place: Path) -> None:
    """Whoever can write the backup can change it; a check finds what no store has."""
    values = manifest(place)
    data = _row(K1, b"rubbish")
    for table in ("states-0", "holds-0", "sealed-0", "events-0"):
        digest = store_part(place, data)
        parts = [part for part in values["parts"] if part[0] != table]
        replace_manifest(
            place, packed(values | {"parts": [[table, digest, len(data), 1], *parts]})
        )
        refuse(place)
