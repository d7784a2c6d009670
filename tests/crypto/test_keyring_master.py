# SPDX-License-Identifier: Apache-2.0
"""The master key: where it may come from, and how it is changed."""

from __future__ import annotations

import base64
import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from omsgrain.crypto.keyring import KeyRing, LocalMaster, Master
from omsgrain.errors import KeyMissingError
from support.key_rings import MASTER, OTHER, is_erased, keys_of, number_of

USERS = ("ada", "grace", "edith")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


class Kms:
    """A key service: its key stays inside, what it wraps is long, and it counts."""

    def __init__(self, size: int = 2048) -> None:
        self._inside = LocalMaster(os.urandom(32))
        self.size = size
        self.unwrapped = 0

    def wrap(self, secret: bytes) -> bytes:
        return self._inside.wrap(secret).ljust(self.size, b"k")

    def unwrap(self, wrapped: bytes) -> bytes:
        self.unwrapped += 1
        return self._inside.unwrap(wrapped[:92])


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "data",
    [
        MASTER,
        MASTER.hex().encode(),
        MASTER.hex().upper().encode() + b"\n",
        base64.b64encode(OTHER),
        base64.b64encode(OTHER) + b"\r\n",
        base64.urlsafe_b64encode(OTHER).rstrip(b"="),
    ],
)
def test_files_with_the_key(path: Path, tmp_path: Path, data: bytes) -> None:
    key = OTHER if b"=" in data or len(data) == 43 else MASTER
    file = written(tmp_path / "master", data)
    KeyRing.create(path, master=key).close()
    for given in (file, str(file), key, lambda: key, LocalMaster(key)):
        KeyRing.open(path, master=given).close()


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 31, b"x" * 33, b"x" * 64, b"ab" * 31, b"!" * 44, bytes(5000), b"\xff" * 43],
)
def test_files_without_a_key(path: Path, tmp_path: Path, data: bytes) -> None:
    KeyRing.create(path, master=MASTER).close()
    with pytest.raises(KeyMissingError) as caught:
        KeyRing.open(path, master=written(tmp_path / "master", data))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o444])
def test_files_that_others_may_use(path: Path, tmp_path: Path, mode: int) -> None:
    file = written(tmp_path / "master", MASTER, mode)
    with pytest.raises(KeyMissingError):
        KeyRing.create(path, master=file)
    assert not path.exists()


def test_a_missing_file(path: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyMissingError):
        KeyRing.create(path, master=tmp_path / "none")


@pytest.mark.parametrize(
    "master",
    [b"", b"x" * 31, b"x" * 64, None, 7, lambda: b"short", lambda: "x" * 32, lambda: None],
)
def test_invalid_master_keys(path: Path, master: Any) -> None:
    with pytest.raises(KeyMissingError):
        KeyRing.create(path, master=master)
    assert not path.exists()


@pytest.mark.parametrize("wrong", [OTHER, lambda: OTHER, Kms()])
def test_another_master_key(path: Path, wrong: Any) -> None:
    with KeyRing.create(path, master=MASTER) as ring:
        ring.ensure(USERS)
    before = path.read_bytes()
    with pytest.raises(KeyMissingError):
        KeyRing.open(path, master=wrong)
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [92, 2048])
def test_a_key_service(path: Path, size: int) -> None:
    kms = Kms(size)
    assert isinstance(kms, Master)
    with KeyRing.create(path, master=kms) as ring:
        ring.ensure(USERS)
        keys = keys_of(ring, *USERS)
    kms.unwrapped = 0
    with KeyRing.open(path, master=kms) as ring:
        assert keys_of(ring, *USERS) == keys
        ring.erase(["ada"])
        ring.refresh()
    assert kms.unwrapped == 1


class Broken(Kms):
    def __init__(self, at: str, result: Any) -> None:
        super().__init__(92)
        self.at, self.result = at, result

    def _give(self) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def wrap(self, secret: bytes) -> bytes:
        return self._give() if self.at == "wrap" else super().wrap(secret)

    def unwrap(self, wrapped: bytes) -> bytes:
        return self._give() if self.at == "unwrap" else super().unwrap(wrapped)


@pytest.mark.parametrize(
    "result", [b"", bytes(64), bytes(2049), None, ValueError("64 bytes: abc")]
)
@pytest.mark.parametrize("at", ["wrap", "unwrap"])
def test_a_key_service_that_is_broken(path: Path, at: str, result: object) -> None:
    with pytest.raises(KeyMissingError) as caught:
        KeyRing.create(path, master=Broken(at, result))
    assert "abc" not in str(caught.value) and caught.value.__context__ is None
    assert not path.exists()
    with KeyRing.create(path, master=MASTER) as ring:
        ring.ensure(USERS)
        keys = keys_of(ring, *USERS)
        for act in (ring.rewrap, ring.rekey):
            with pytest.raises(KeyMissingError):
                act(Broken(at, result))
    with KeyRing.open(path, master=MASTER) as ring:
        assert keys_of(ring, *USERS) == keys


def test_a_key_service_that_is_away(path: Path) -> None:
    KeyRing.create(path, master=MASTER).close()
    with pytest.raises(ConnectionError):
        KeyRing.open(path, master=Broken("unwrap", ConnectionError("away")))


def test_a_local_master_shows_nothing() -> None:
    master = LocalMaster(MASTER)
    assert repr(master) == "<LocalMaster>"
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            call(master)
    assert master.wrap(b"secret") != master.wrap(b"secret")
    for wrapped in (b"", bytes(12), bytes(60), master.wrap(b"secret")[:-1]):
        with pytest.raises(KeyMissingError):
            master.unwrap(wrapped)


def test_rewrap_changes_the_master_key_alone(path: Path) -> None:
    with KeyRing.create(path, master=MASTER) as ring:
        ring.ensure(USERS)
        ring.erase(["grace"])
        keys, generation = keys_of(ring, *USERS), ring.generation
        old = path.read_bytes()
        master: Any = MASTER
        for master in (OTHER, Kms(), lambda: MASTER, OTHER):
            ring.rewrap(master)
            new = path.read_bytes()
            assert new[20480:] == old[20480:]
            assert keys_of(ring, *USERS) == keys
            assert ring.generation > generation
            generation = ring.generation
            with KeyRing.open(path, master=master) as again:
                assert keys_of(again, *USERS) == keys
        assert old[12288 : 12288 + 92] not in new
        assert sum(any(new[at : at + 4096]) for at in (12288, 16384)) == 1
        with pytest.raises(KeyMissingError):
            KeyRing.open(path, master=MASTER)


def test_rekey_changes_all_but_the_keys(path: Path) -> None:
    with KeyRing.create(path, master=MASTER) as ring:
        ring.ensure(USERS)
        gone = number_of(ring, "grace")
        ring.erase(["grace"])
        keys, generation = keys_of(ring, *USERS), ring.generation
        before = path.read_bytes()
        handle = os.open(path, os.O_RDONLY)
        ring.rekey(OTHER)
        assert os.pread(handle, 1 << 20, 0) == bytes(len(before))
        os.close(handle)
        after = path.read_bytes()
        for number in (keys["ada"], keys["edith"]):
            assert number is not None
            offset = ring._index.numbers[number[0]]
            assert before[offset + 60 : offset + 152] not in after
        assert ring.generation > generation
        for again in (ring, KeyRing.open(path, master=OTHER)):
            assert keys_of(again, *USERS) == keys
            assert is_erased(again, gone)
        again.ensure(["grace", "hedy"])
        assert again.erase(["hedy"]) == 1
        assert keys_of(again, "ada", "edith") == {user: keys[user] for user in ("ada", "edith")}
    assert [file.name for file in path.parent.iterdir()] == ["keys"]
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyMissingError):
        KeyRing.open(path, master=MASTER)


def test_rekey_of_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omsgrain.crypto.keyring import file as ringfile
    from omsgrain.crypto.keyring import ring as ringmove

    monkeypatch.setattr(ringfile, "_PIECE", 4000)
    monkeypatch.setattr(ringmove, "_PIECE", 1000)
    users = [f"user {number} {'x' * (number % 700)}" for number in range(900)]
    with KeyRing.create(path, master=MASTER) as ring:
        ring.ensure(users)
        ring.erase(users[::3])
        keys = keys_of(ring, *users)
        ring.rekey(OTHER)
        assert keys_of(ring, *users) == keys
    with KeyRing.open(path, master=OTHER) as ring:
        assert keys_of(ring, *users) == keys
        assert (ring.stats().live, ring.stats().erased) == (600, 300)
