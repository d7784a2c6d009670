# SPDX-License-Identifier: Apache-2.0
"""A key file that is cut off at any write, by a kill or a power cut, is as before or as after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from omsgrain.crypto import private_file
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import KeyMissingError
from support.key_rings import MASTER, OTHER, Keys, all_of, body, is_erased, keys_of
from support.power_cuts import Cuts, State, restore

USERS = ("ada", "grace", "edith", "hedy", "x" * 1000)


class World:
    """A ring with five users, one of them erased, and what becomes of it when it is cut off."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.numbers = count()
        (tmp_path / "first").mkdir()
        self.path = tmp_path / "first" / "keys"
        with KeyRing.create(self.path, master=MASTER) as ring:
            ring.ensure(USERS)
            self.records = list(ring._index.numbers)
            ring.erase(["grace"])
            self.keys = keys_of(ring, *USERS)

    def cut(self, act: Callable[[KeyRing], object], tries: int = 3) -> list[State]:
        """All states that doing it may leave."""
        with (
            KeyRing.open(self.path, master=MASTER) as ring,
            Cuts(self.path.parent, tries=tries) as cuts,
        ):
            act(ring)
        assert len(cuts.states) > 2
        return list(cuts.states)

    def restore(self, state: State) -> Path:
        directory = self.tmp_path / f"cut {next(self.numbers)}"
        restore(state, directory)
        return directory / "keys"

    def check(self, path: Path, master: bytes = MASTER, erasing: tuple[str, ...] = ()) -> set[str]:
        """Open it, see that every record is whole or gone, and that all goes on.

        Returns:
            Which of those that were being erased are gone.
        """
        gone = set()
        with KeyRing.open(path, master=master) as ring:
            for user, number in zip(USERS, self.records, strict=True):
                keys = all_of(ring.of_user(user))
                if user in erasing and keys is None:
                    gone.add(user)
                else:
                    assert keys == self.keys[user]
                assert is_erased(ring, number) == (keys is None)
                assert any(body(path, ring, number)) == (keys is not None)
            stats = ring.stats()
            live = len(list(ring.users()))
            assert (stats.live, stats.live + stats.erased) == (live, len(ring._index.numbers))
            ring.ensure(["later", "grace"])
            assert ring.erase(["later"]) == 1
            after = keys_of(ring, "edith", "grace")
        with KeyRing.open(path, master=master) as ring:
            assert keys_of(ring, "edith", "grace") == after
            assert after["grace"] not in (None, self.keys["grace"])
        assert [file.name for file in path.parent.iterdir()] == ["keys"]
        return gone


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are watched, not synced; `Cuts` sees the calls all the same."""
    monkeypatch.setattr(private_file, "_FULL", None)


@pytest.fixture(params=[False, True] if private_file._NAMELESS else [False])
def late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a new file has no name until it is whole, which not every system has."""
    named_late: bool = request.param
    if not named_late:
        monkeypatch.setattr(private_file, "_NAMELESS", 0)
    return named_late


def test_making_a_file(tmp_path: Path, late: bool) -> None:
    (tmp_path / "made").mkdir()
    path = tmp_path / "made" / "keys"
    with Cuts(path.parent) as cuts:
        KeyRing.create(path, master=MASTER).close()
    opened = 0
    for number, state in enumerate(cuts.states):
        restore(state, tmp_path / f"cut {number}")
        path = tmp_path / f"cut {number}" / "keys"
        try:
            with KeyRing.open(path, master=MASTER) as ring:
                ring.ensure(["ada"])
            opened += 1
        except KeyMissingError:
            assert not (late and path.exists()), "half a file"
    assert 0 < opened < len(cuts.states)


def test_making_records(world: World) -> None:
    new = [f"new {number}" for number in range(20)]
    made: dict[str, Keys | None] = {}

    def act(ring: KeyRing) -> None:
        ring.ensure(new)
        made.update(keys_of(ring, *new))

    seen = set()
    for state in world.cut(act):
        path = world.restore(state)
        with KeyRing.open(path, master=MASTER) as ring:
            found = keys_of(ring, *new)
            assert found in (made, dict.fromkeys(new))
            seen.add(found == made)
        assert not world.check(path)
    assert seen == {True, False}


def test_destroying(world: World) -> None:
    doomed = ("ada", USERS[-1])
    states = world.cut(lambda ring: ring.erase(doomed), tries=8)
    assert {len(world.check(world.restore(state), erasing=doomed)) for state in states} == {
        0,
        1,
        2,
    }
    # What is there when the call has returned is what a kill after it leaves.
    with KeyRing.open(world.path, master=MASTER) as ring:
        assert keys_of(ring, *doomed) == dict.fromkeys(doomed)


def test_keys_destroyed_before_a_power_cut_stay_destroyed(world: World) -> None:
    """Two in a row: nothing of the second brings back the first."""
    with KeyRing.open(world.path, master=MASTER) as ring, Cuts(world.path.parent, tries=8) as cuts:
        ring.erase(["ada"])
        first = set(cuts.states)
        ring.erase(["edith"])
    for state in [state for state in cuts.states if state not in first]:
        assert "ada" in world.check(world.restore(state), erasing=("ada", "edith"))


def test_finishing_what_was_cut_off_may_be_cut_off(world: World) -> None:
    doomed = ("ada", "edith")
    states = world.cut(lambda ring: ring.erase(doomed))
    seen = set()
    for state in Random(9).sample(states, 12):
        path = world.restore(state)
        with Cuts(path.parent, tries=2) as cuts, KeyRing.open(path, master=MASTER):
            pass
        gone = world.check(path, erasing=doomed)
        for again in cuts.states:
            assert world.check(world.restore(again), erasing=doomed) <= gone
            seen.add(len(gone))
    assert len(seen) > 1


def opened_by(world: World, path: Path) -> str:
    """Which master key opens a ring, after looking that all is in it."""
    try:
        world.check(path, OTHER)
    except KeyMissingError:
        world.check(path, MASTER)
        return "old"
    return "new"


def test_rewrapping(world: World) -> None:
    opened = set()
    for state in world.cut(lambda ring: ring.rewrap(OTHER)):
        path = world.restore(state)
        opened.add(opened_by(world, path))
        data = path.read_bytes()
        assert sum(any(data[at : at + 4096]) for at in (12288, 16384)) == 1
    assert opened == {"new", "old"}


def test_rekeying(world: World) -> None:
    opened = set()
    for state in world.cut(lambda ring: ring.rekey(OTHER)):
        opened.add(opened_by(world, world.restore(state)))
    assert opened == {"new", "old"}


def test_copying(world: World, late: bool) -> None:
    copied = set()
    for state in world.cut(lambda ring: ring.backup(world.path.with_name("copy"))):
        path = world.restore(state)
        copy = path.with_name("copy")
        if copy.exists():
            try:
                with KeyRing.open(copy, master=MASTER) as ring:
                    copied.add(len(ring._index.numbers))
            except KeyMissingError:
                copied.add(-1)
            copy.unlink()
        world.check(path)
    assert copied <= ({len(USERS)} if late else {-1, 0, len(USERS)}) and len(USERS) in copied
