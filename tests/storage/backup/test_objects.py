# SPDX-License-Identifier: Apache-2.0
"""Places of backups: what they do with objects, and what they never say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import LocalStore, MemoryStore

from omsgrain.durable import sync_directory
from omsgrain.errors import (
    IntegrityError,
    NotFoundError,
    OmsError,
    SchemaError,
    StoreError,
    UnsupportedError,
)
from omsgrain.storage.backup.objects import Objects, objects_at
from omsgrain.storage.backup.repository import BackupRepository

KINDS: dict[str, Callable[[Path], Objects]] = {
    "directory": lambda path: objects_at(path / "d"),
    "text": lambda path: objects_at(str(path / "d")),
    "file url": lambda path: objects_at(f"file://{path}/d"),
    "local store": lambda path: objects_at(LocalStore(prefix=path / "d", mkdir=True)),
    "memory": lambda path: objects_at(MemoryStore()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_objects(kind: str, tmp_path: Path) -> None:
    place = KINDS[kind](tmp_path)
    assert [*place.listed("parts")] == []
    place.put("parts/aa/one", b"1")
    place.put("parts/bb/two", b"22")
    place.put("other/three", b"")
    place.put("parts/aa/one", b"111")
    found = {one.name: one for one in place.listed("parts")}
    assert {name: one.size for name, one in found.items()} == {
        "parts/aa/one": 3,
        "parts/bb/two": 2,
    }
    assert all(one.modified > 1_700_000_000_000 for one in found.values())
    assert place.get("parts/aa/one", 3) == b"111"
    assert place.get("other/three", 0) == b""
    with pytest.raises(IntegrityError):
        place.get("parts/aa/one", 2)
    place.delete("parts/aa/one")
    place.delete("parts/aa/one")
    with pytest.raises(NotFoundError):
        place.get("parts/aa/one", 3)
    assert [one.name for one in place.listed("parts")] == ["parts/bb/two"]


SECRET = "hunter2"
BAD_URLS = {
    f"s3://key:{SECRET}@bucket/robots": SchemaError,
    f"s3://bucket/robots?token={SECRET}": SchemaError,
    f"az://container/robots#{SECRET}": SchemaError,
    f"http://user:{SECRET}@host/robots": UnsupportedError,
    f"ftp://host/{SECRET}": UnsupportedError,
    f"postgresql://ada:{SECRET}@hub/memory": UnsupportedError,
}


@pytest.mark.parametrize("url", BAD_URLS)
def test_urls_that_are_refused_are_not_repeated(url: str) -> None:
    with pytest.raises(OmsError) as refused:
        BackupRepository(url)
    assert type(refused.value) is BAD_URLS[url]
    assert SECRET not in repr(refused.value.to_dict())
    assert refused.value.__cause__ is None


def test_what_the_library_says_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    def refuse(*_: object, **__: object) -> None:
        raise obstore.exceptions.GenericError(f"https://host/x?sig={SECRET}")

    for name in ("put", "get", "list", "delete"):
        monkeypatch.setattr(obstore, name, refuse)
    place = objects_at(MemoryStore())
    for call in (
        lambda: place.put("a", b""),
        lambda: place.get("a", 1),
        lambda: [*place.listed("a")],
        lambda: place.delete("a"),
    ):
        with pytest.raises(StoreError) as refused:
            call()
        assert SECRET not in repr(refused.value.to_dict())
        assert refused.value.__suppress_context__


def test_urls_of_object_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    for url in ("s3://bucket/robots", "gs://bucket/robots", "az://container/robots"):
        assert BackupRepository(url).name == url
        assert SECRET not in repr(BackupRepository(url))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UnsupportedError) as refused:
        BackupRepository("s3://bucket/robots")
    assert "objects" in str(refused.value)
    assert BackupRepository(tmp_path).backups() == []


@pytest.mark.parametrize("place", [7, None, object(), b"bytes"])
def test_other_things_are_no_place(place: object) -> None:
    with pytest.raises(SchemaError):
        objects_at(place)  # type: ignore[arg-type]


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        objects_at(tmp_path / "file").put("a/b", b"")
    with pytest.raises(StoreError):
        objects_at(tmp_path / "missing" / "d").put("a/b", b"")


def test_what_cannot_be_listed_is_no_empty_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a prune would take all parts for ones that no backup needs."""
    (tmp_path / "parts").mkdir()

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreError):
        [*objects_at(tmp_path).listed("parts")]


def test_a_listing_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("")
    (tmp_path / "d" / "parts").mkdir(parents=True)
    os.symlink(tmp_path / "elsewhere", tmp_path / "d" / "parts" / "link")
    assert [*objects_at(tmp_path / "d").listed("parts")] == []


def test_new_folders_survive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is lost unless the folder that has it is synced."""
    synced: list[Path] = []

    def sync(path: Path) -> None:
        synced.append(path)
        sync_directory(path)

    monkeypatch.setattr("omsgrain.storage.backup.objects.sync_directory", sync)
    place = tmp_path / "d"
    objects_at(place).put("parts/aa/one", b"1")
    assert synced == [tmp_path, place, place / "parts"]
    objects_at(place).put("parts/aa/two", b"2")
    assert len(synced) == 3
