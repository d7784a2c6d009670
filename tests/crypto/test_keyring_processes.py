# SPDX-License-Identifier: Apache-2.0
"""Processes that share a key file: what one destroys, the others drop."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from omsgrain.crypto import private_file
from omsgrain.crypto.keyring import KeyRing
from omsgrain.crypto.keyring import ring as ringlock
from omsgrain.errors import ErasedError, KeyMissingError, StoreError
from support.child_process import run
from support.key_rings import MASTER, OTHER, all_of, is_erased, keys_of, number_of
from support.processes import Process

BESIDE = f"""
import sys
from omsgrain.crypto.keyring import KeyRing
ring = KeyRing.open(sys.argv[1], master=bytes.fromhex("{MASTER.hex()}"))
print("ready", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with KeyRing.create(tmp_path / "keys", master=MASTER) as ring:
        ring.ensure(["ada", "grace"])
    return tmp_path / "keys"


def ask(process: Process, line: str) -> str:
    process.say(line)
    return process.hear()


def test_one_destroys_and_the_other_drops(path: Path) -> None:
    ring = KeyRing.open(path, master=MASTER)
    with Process(BESIDE, path) as beside:
        assert beside.hear() == "ready"
        number = number_of(ring, "ada")
        kept = keys_of(ring, "grace")
        generation = ring.refresh()
        assert ask(beside, "ring.erase(['ada'])") == "1"
        assert ring.refresh() > generation
        assert not ring._cache
        assert ring.of_user("ada") is None
        with pytest.raises(ErasedError):
            ring.by_number(number)
        assert keys_of(ring, "grace") == kept

        assert ask(beside, "ring.ensure(['ada', 'hedy'])") == "None"
        assert (
            ask(beside, "ring.of_user('ada').content.hex()")
            == ring.by_number(number_of(ring, "ada")).content.hex()
        )
        ring.ensure(["ada", "hedy"])
        assert ring.stats().live == 3
        ring.erase(["hedy"])
        assert ask(beside, "(ring.refresh(), ring.of_user('hedy'))[1]") == "None"


def test_a_call_without_refresh_sees_what_is_new(path: Path) -> None:
    ring, other = (KeyRing.open(path, master=MASTER) for _ in range(2))
    other.ensure(["hedy"])
    keys = other.of_user("hedy")
    assert keys is not None
    assert all_of(ring.by_number(keys.number)) == all_of(keys)
    assert ring.user_id_of(keys.number) == "hedy"


@pytest.mark.parametrize("master", [MASTER, OTHER])
def test_others_follow_a_rekey(path: Path, master: bytes) -> None:
    given = path.with_name("master")
    given.write_bytes(MASTER)
    given.chmod(0o600)
    follows = KeyRing.open(path, master=given)
    stays = KeyRing.open(path, master=MASTER)
    keys = keys_of(follows, "ada", "grace")
    with Process(BESIDE, path) as beside:
        assert beside.hear() == "ready"
        given.write_bytes(master)
        assert ask(beside, f"ring.rekey(bytes.fromhex('{master.hex()}'))") == "None"
        generation = follows.refresh()
        assert keys_of(follows, "ada", "grace") == keys
        if master == MASTER:
            assert stays.refresh() == generation
        else:
            for _ in range(2):
                with pytest.raises(KeyMissingError):
                    stays.refresh()
            assert not stays._cache
        assert follows.erase(["ada"]) == 1
        assert ask(beside, "(ring.refresh(), ring.of_user('ada'))[1]") == "None"


def test_a_change_finds_the_new_file_by_itself(path: Path) -> None:
    rings = [KeyRing.open(path, master=MASTER) for _ in range(3)]
    for number, ring in enumerate(rings * 2):
        ring.ensure([f"user {number}"])
        ring.rekey(MASTER)
    for ring in rings:
        ring.refresh()
        assert ring.stats().live == 8
    assert len({str(keys_of(ring, "ada", "user 0", "user 5")) for ring in rings}) == 1


KILLED = f"""
import os, sys
from omsgrain.crypto import private_file as disk
from omsgrain.crypto.keyring import KeyRing
ring = KeyRing.open(sys.argv[1], master=bytes.fromhex("{MASTER.hex()}"))
left = [int(sys.argv[2])]
real = disk.write_at
def write(*args):
    real(*args)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
disk.write_at = write
print("ready", flush=True)
sys.stdin.readline()
ring.erase(["ada", "grace"])
print("done", flush=True)
"""


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5, 6])
def test_another_process_finishes_an_interrupted_change(path: Path, writes: int) -> None:
    ring = KeyRing.open(path, master=MASTER)
    numbers = [number_of(ring, user) for user in ("ada", "grace")]
    with Process(KILLED, path, writes) as killed:
        assert killed.hear() == "ready"
        killed.say()
        assert killed.hear() == ""
        killed.child.wait()
    ring.refresh()
    assert [is_erased(ring, number) for number in numbers] == [writes > 1, writes > 2]
    for number in numbers:
        offset = ring._index.numbers[number]
        gone = not any(ring._file.record(offset).body)
        assert gone == is_erased(ring, number)
    assert ring._file.settled
    assert ring.stats().erased == max(0, min(2, writes - 1))


def test_a_change_in_progress_is_left_to_its_process(path: Path) -> None:
    """A destruction under way is not finished for who has the lock, and is heeded at once."""
    ring, other = (KeyRing.open(path, master=MASTER) for _ in range(2))
    number = number_of(ring, "ada")
    with other._changing() as file:
        record = file.record(other._index.numbers[number])
        file.announce(file.head.next(generation=file.head.generation + 1, erasing=1))
        file.mark(other._index.numbers[number], other._records.mark(record))
        for _ in range(3):
            ring.refresh()
            assert is_erased(ring, number)
        assert any(file.record(other._index.numbers[number]).body)
    ring.refresh()
    assert not any(ring._file.record(ring._index.numbers[number]).body)


def test_a_generation_is_never_older_than_its_marks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys found alive at a generation are whole while the file is still of it."""
    ring, other = (KeyRing.open(path, master=MASTER) for _ in range(2))
    found = []
    real = private_file.write_at

    def write(*args: Any) -> None:
        generation = other.refresh()
        found.append((generation, other.of_user("ada") is not None))
        real(*args)

    monkeypatch.setattr(private_file, "write_at", write)
    ring.erase(["ada"])
    alive = {generation for generation, lives in found if lives}
    gone = {generation for generation, lives in found if not lives}
    assert len(alive) == 2 and len(gone) > 1
    synced = {generation for generation, _ in found[3:]}  # after the marks
    assert not alive & synced


def test_a_lock_that_is_never_given_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing.open(path, master=MASTER)
    monkeypatch.setattr(ring._turn, "patience", 0.02)
    handle = os.open(path, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    for act in (lambda: ring.ensure(["hedy"]), lambda: ring.erase(["ada"])):
        with pytest.raises(StoreError):
            act()
    ring.refresh()
    assert ring.of_user("ada") is not None
    os.close(handle)
    assert ring.erase(["ada"]) == 1


def test_without_locks_one_process_may_still(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringlock, "fcntl", None)
    with KeyRing.open(path, master=MASTER) as ring:
        ring.ensure(["hedy"])
        assert ring.erase(["ada"]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_ring_is_refused_after_a_fork(path: Path) -> None:
    lines = run(
        f"""
        import os, sys
        from omsgrain.crypto.keyring import KeyRing
        from omsgrain.errors import KeyMissingError
        master = bytes.fromhex("{MASTER.hex()}")
        ring = KeyRing.open(sys.argv[1], master=master)
        ring.of_user("ada")
        with ring._changing():  # at the worst moment: the parent has the lock
            pid = os.fork()
            if not pid:
                for act, what in (("of_user", "ada"), ("ensure", ["ada"]), ("erase", ["ada"])):
                    try:
                        getattr(ring, act)(what)
                    except KeyMissingError as error:
                        print(error.code, flush=True)
                print(ring._secret, ring._cache, flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
        pid = os.fork()
        if not pid:
            again = KeyRing.open(sys.argv[1], master=master)
            print(again.erase(["ada"]), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        ring.refresh()
        print(ring.of_user("ada"), ring.erase(["grace"]))
        """,
        path,
    )
    assert lines == ["ERR_KEY"] * 3 + ["b'' {}", "1", "None 1"]
