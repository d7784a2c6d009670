# SPDX-License-Identifier: Apache-2.0
"""The key ring: keys come back, and those that were destroyed do not."""

from __future__ import annotations

import copy
import errno
import hashlib
import hmac
import os
import pickle
import stat
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omsgrain.crypto.keyring import KeyRing
from omsgrain.crypto.keyring import ring as rings_module
from omsgrain.crypto.keyring.file import KeyRecord, RingFile
from omsgrain.errors import ErasedError, KeyMissingError, RangeError, StoreError
from support.key_rings import (
    MASTER,
    NAMES,
    OTHER,
    all_of,
    body,
    is_erased,
    keys_of,
    number_of,
    secrets_of,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def ring(path: Path) -> Iterator[KeyRing]:
    with KeyRing.create(path, master=MASTER) as ring:
        yield ring


def hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    first = hmac.new(salt, key, hashlib.sha256).digest()
    return hmac.new(first, info + b"\x01", hashlib.sha256).digest()


def test_keys_come_back_from_the_file(path: Path, ring: KeyRing) -> None:
    users = ["ada", "grace", "", "Zoë", "x" * 1024, "nul\0"]
    ring.ensure(users)
    ring.ensure(["ada", "later"])
    before = keys_of(ring, *users, "later")
    assert None not in before.values() and len(set(before.values())) == 7
    with KeyRing.open(str(path), master=MASTER) as again:
        assert keys_of(again, *users, "later") == before
        for user, keys in before.items():
            assert keys is not None
            assert again.user_id_of(keys[0]) == user
            assert all_of(again.by_number(keys[0])) == keys
        assert sorted(map(all_of, again.users()), key=str) == sorted(before.values(), key=str)
        assert (again.stats().live, again.stats().erased) == (7, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_keys_are_what_the_contract_says(ring: KeyRing) -> None:
    for user in ("ada", "", "Zoe\u0308"):
        for generation in (1, 2):
            ring.ensure([user])
            keys = ring.of_user(user)
            assert keys is not None
            offset = ring._index.numbers[keys.number]
            salt, _ = ring._records.open(ring._file.record(offset), offset)
            name = unicodedata.normalize("NFC", user).encode()
            info = b"omsgrain/1 user" + generation.to_bytes(4, "big") + name
            whole = hkdf(ring._secret[:32], salt, info)
            for purpose in NAMES[1:]:
                made = hkdf(whole, bytes(32), b"omsgrain/1 " + purpose.encode())
                assert getattr(keys, purpose) == made
            ring.erase([user])


def test_spellings_of_a_name_are_one_user(ring: KeyRing) -> None:
    ring.ensure(["Zoe\u0308", "Zo\u00eb"])
    assert ring.stats().live == 1
    assert ring.user_id_of(number_of(ring, "Zoe\u0308")) == "Zo\u00eb"


@pytest.mark.parametrize("user", ["x" * 1025, "ë" * 513, "\ud800", None, b"ada", 7])
def test_invalid_user_ids(path: Path, ring: KeyRing, user: str) -> None:
    before = path.read_bytes()
    for call in (ring.of_user, lambda u: ring.ensure(["ada", u]), lambda u: ring.erase([u])):
        with pytest.raises(RangeError) as caught:
            call(user)
        assert "xx" not in str(caught.value)
        assert caught.value.__context__ is None
    assert path.read_bytes() == before


def test_a_user_without_a_record_has_no_keys(ring: KeyRing) -> None:
    assert ring.of_user("nobody") is None
    assert ring.erase(["nobody"]) == 0
    for call in (ring.by_number, ring.user_id_of):
        with pytest.raises(KeyMissingError):
            call(bytes(8))


def test_erased_keys_are_gone(path: Path, ring: KeyRing) -> None:
    ring.ensure(["ada", "grace", "edith"])
    kept = keys_of(ring, "ada", "edith")
    keys = ring.of_user("grace")
    assert keys is not None
    sealed, before = body(path, ring, keys.number), path.read_bytes()
    generation = ring.generation
    assert ring.erase(["grace", "grace", "nobody"]) == 1
    assert ring.erase(["grace"]) == 0
    assert ring.generation > generation
    after = path.read_bytes()
    parts = (sealed, sealed[:12], sealed[12:44], sealed[-16:], b"grace")
    for secret in (*parts, *secrets_of(keys)):
        assert secret not in after
    assert not any(body(path, ring, keys.number))
    offset = ring._index.numbers[keys.number]
    end = offset + 60 + len(sealed)
    assert len(after) == len(before)
    assert (after[20480:offset], after[end:]) == (before[20480:offset], before[end:])
    for again in (ring, KeyRing.open(path, master=MASTER)):
        assert again.of_user("grace") is None
        for call in (again.by_number, again.user_id_of):
            with pytest.raises(ErasedError):
                call(keys.number)
        assert keys_of(again, "ada", "edith") == kept
        assert (again.stats().live, again.stats().erased) == (2, 1)
        assert len(list(again.users())) == 2


def test_erased_users_cost_a_full_listing_once(
    path: Path, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.ensure(["ada", "grace", "edith", *map(str, range(100))])
    with KeyRing.open(path, master=MASTER) as other:
        assert sum(1 for _ in other.users()) == 103
        ring.erase(map(str, range(100)))
        read: list[int] = []
        record = RingFile.record

        def reading(file: RingFile, offset: int) -> KeyRecord:
            read.append(offset)
            return record(file, offset)

        monkeypatch.setattr(RingFile, "record", reading)
        for one in (ring, other, KeyRing.open(path, master=MASTER)):
            assert sum(1 for _ in one.users()) == 3
            read.clear()
            assert sum(1 for _ in one.users()) == 3
            assert not read
            one.ensure(["7"])
            assert sum(1 for _ in one.users()) == 4
            ring.erase(["7"])


def test_an_erased_user_gets_other_keys(path: Path, ring: KeyRing) -> None:
    seen: set[bytes] = set()
    numbers = []
    for generation in range(1, 5):
        ring.ensure(["ada"])
        keys = all_of(ring.of_user("ada"))
        assert keys is not None
        seen.update(keys)
        numbers.append(keys[0])
        record = ring._file.record(ring._index.numbers[keys[0]])
        assert record.generation == generation
        assert [is_erased(ring, number) for number in numbers] == [True] * (generation - 1) + [
            False
        ]
        ring.erase(["ada"])
    assert len(seen) == 4 * len(NAMES)
    assert KeyRing.open(path, master=MASTER).of_user("ada") is None


def test_many_at_once(path: Path, ring: KeyRing, long: bool) -> None:
    count = 20_000 if long else 2_000
    ring.ensure(f"user {number}" for number in range(count))
    assert ring.stats().live == count
    assert ring.erase(f"user {number}" for number in range(0, count, 2)) == count // 2
    with KeyRing.open(path, master=MASTER) as again:
        assert again.stats() == ring.stats()
        assert sum(1 for _ in again.users()) == count // 2
        assert again.of_user("user 2") is None
        assert all_of(again.of_user("user 3")) == all_of(ring.of_user("user 3"))


def test_finding_a_user_reads_one_record(
    path: Path, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.ensure(f"user {number}" for number in range(500))
    again = KeyRing.open(path, master=MASTER)
    reads = []
    real = os.pread

    def pread(handle: int, size: int, offset: int) -> bytes:
        reads.append(size)
        return real(handle, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    for _ in range(3):
        assert again.of_user("user 77") is not None
    assert len(reads) == 1
    again.refresh()
    assert len(reads) == 2


def test_kept_keys_are_bounded(ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings_module, "CACHED", 5)
    users = [f"user {number}" for number in range(20)]
    ring.ensure(users)
    first = keys_of(ring, *users)
    assert len(ring._cache) == 5
    kept = dict(ring._cache)
    assert {all_of(keys) for keys in ring.users()} == set(first.values())
    assert ring._cache == kept
    assert keys_of(ring, *users) == first


def test_users_may_change_while_they_are_gone_through(ring: KeyRing) -> None:
    ring.ensure(f"user {number}" for number in range(20))
    seen = []
    for keys in ring.users():
        seen.append(keys.number)
        if len(seen) == 3:
            ring.ensure(["later"])
            ring.erase(f"user {number}" for number in range(20))
    assert len(seen) == 3


def test_nothing_secret_is_shown(path: Path, ring: KeyRing) -> None:
    ring.ensure(["ada"])
    keys = ring.of_user("ada")
    assert keys is not None
    assert repr(keys) == f"<UserKeys {keys.number.hex()}>"
    assert repr(ring) == "<KeyRing 1 live, 0 erased>"
    for thing in (keys, ring):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
        with pytest.raises(TypeError):
            copy.deepcopy(thing)
    data = path.read_bytes()
    assert b"ada" not in data
    whole = (ring._secret[:32], ring._secret[32:])
    assert not any(key in data for key in (*secrets_of(keys), *whole))


def test_names_hide_their_length(path: Path, ring: KeyRing) -> None:
    sizes = set()
    for user in ("", "ada", "x" * 30):
        before = path.stat().st_size
        ring.ensure([user])
        sizes.add(path.stat().st_size - before)
    assert len(sizes) == 1


def test_a_file_is_never_overwritten(path: Path, ring: KeyRing, tmp_path: Path) -> None:
    ring.ensure(["ada"])
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        KeyRing.create(path, master=MASTER)
    with pytest.raises(FileExistsError):
        ring.backup(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


def test_a_missing_file(path: Path) -> None:
    with pytest.raises(KeyMissingError):
        KeyRing.open(path, master=MASTER)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_use(path: Path, ring: KeyRing, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KeyMissingError):
        KeyRing.open(path, master=MASTER)


def test_a_closed_ring(ring: KeyRing) -> None:
    ring.ensure(["ada"])
    ring.close()
    ring.close()
    for call in (
        ring.refresh,
        ring.stats,
        lambda: ring.of_user("ada"),
        lambda: ring.ensure(["ada"]),
        lambda: ring.erase(["ada"]),
        lambda: ring.rekey(OTHER),
        lambda: list(ring.users()),
    ):
        with pytest.raises(KeyMissingError):
            call()
    assert not hasattr(ring, "_records") and not ring._secret and not ring._cache


@pytest.mark.parametrize("reason", [errno.EROFS, errno.EACCES])
def test_a_file_that_can_only_be_read(
    path: Path, ring: KeyRing, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    """Of a medium that is read-only: what is sealed can be read, and nothing be changed."""
    ring.ensure(["ada"])
    number = number_of(ring, "ada")
    ring.close()
    before = path.read_bytes()
    opens = os.open

    def refuse(name: Any, flags: int, *rest: Any, **more: Any) -> int:
        if name == path and flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(reason, os.strerror(reason))
        return opens(name, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    with KeyRing.open(path, master=MASTER) as found:
        assert number_of(found, "ada") == number
        assert found.user_id_of(number) == "ada"
        assert found.stats().live == 1
        found.ensure(["ada"])  # there is nothing to do
        for change in (
            lambda: found.ensure(["bob"]),
            lambda: found.erase(["ada"]),
            lambda: found.rewrap(bytes(32)),
        ):
            with pytest.raises(StoreError):
                change()
    assert path.read_bytes() == before


def test_a_backup_opens(path: Path, ring: KeyRing, tmp_path: Path) -> None:
    ring.ensure(["ada", "grace", "edith"])
    gone = number_of(ring, "grace")
    ring.erase(["grace"])
    ring.backup(tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    kept = keys_of(ring, "ada", "edith")
    ring.erase(["ada"])
    with KeyRing.open(tmp_path / "copy", master=MASTER) as copied:
        assert keys_of(copied, "ada", "edith") == kept
        assert is_erased(copied, gone)
        copied.ensure(["grace"])
        assert number_of(copied, "grace") != gone
    os.replace(tmp_path / "copy", path)
    ring.refresh()
    assert keys_of(ring, "ada", "edith") == kept


def test_an_older_copy_put_over_the_file(path: Path, ring: KeyRing) -> None:
    ring.ensure(["ada"])
    old = path.read_bytes()
    ring.ensure(["grace"])
    number = number_of(ring, "grace")
    path.write_bytes(old)
    ring.refresh()
    assert ring.of_user("grace") is None
    ring.ensure(["grace"])
    assert number_of(ring, "grace") != number


def test_another_ring_in_its_place(path: Path, ring: KeyRing, tmp_path: Path) -> None:
    ring.ensure(["ada"])
    KeyRing.create(tmp_path / "other", master=MASTER).close()
    os.replace(tmp_path / "other", path)
    for call in (ring.refresh, lambda: ring.ensure(["grace"])):
        with pytest.raises(KeyMissingError):
            call()


def test_the_file_is_gone(path: Path, ring: KeyRing) -> None:
    path.unlink()
    with pytest.raises(KeyMissingError):
        ring.refresh()
    with pytest.raises(KeyMissingError):
        ring.ensure(["ada"])


def test_a_link_stays_a_link(path: Path, ring: KeyRing, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with KeyRing.open(tmp_path / "link", master=MASTER) as linked:
        linked.ensure(["ada"])
        linked.rekey(OTHER)
    assert (tmp_path / "link").is_symlink()
    KeyRing.open(path, master=OTHER).close()


def test_threads(path: Path, ring: KeyRing) -> None:
    shared = [f"user {number}" for number in range(20)]
    ring.ensure(shared)
    before = keys_of(ring, *shared)
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            random, other = Random(number), KeyRing.open(path, master=MASTER)
            for step in range(12):
                user = random.choice(shared)
                assert all_of(ring.of_user(user)) == before[user]
                own = f"own {number} {step}"
                ring.ensure([own])
                assert keys_of(other, own) == keys_of(ring, own) != {own: None}
                if step == 6 and not number:
                    ring.rekey(MASTER)
                elif step % 2:
                    assert other.erase([own]) == 1
                    ring.refresh()
                    assert ring.of_user(own) is None
            other.close()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert keys_of(ring, *shared) == before
    assert (ring.stats().live, ring.stats().erased) == (20 + 4 * 12 - 4 * 6, 4 * 6)
