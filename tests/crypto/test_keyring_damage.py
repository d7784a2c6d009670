# SPDX-License-Identifier: Apache-2.0
"""A key file that was damaged is refused, or gives the keys it gave before: never others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from omsgrain.crypto import private_file
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import ErasedError, KeyMissingError, OmsError, UnsupportedError
from support.key_rings import MASTER, OTHER, Keys, body, keys_of, number_of

SLOTS, AREA, RECORDS = (4096, 8192), 12288, 20480
MEANT = [*range(10), *(at + n for at in SLOTS for n in range(76)), *range(AREA, AREA + 92)]


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_file, "sync", lambda handle: None)


class Small:
    """A key file of three records, the second destroyed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with KeyRing.create(path, master=MASTER) as ring:
            ring.ensure(["ada", "grace", "edith"])
            self.gone = number_of(ring, "grace")
            ring.erase(["grace"])
            self.keys = keys_of(ring, "ada", "edith")
            self.offsets = dict(ring._index.numbers)
        self.data = path.read_bytes()

    def see(self, data: bytes) -> str:
        """Open other bytes of the file: "refused", or "whole", or "damaged" when a record is."""
        self.path.write_bytes(data)
        try:
            ring = KeyRing.open(self.path, master=MASTER)
        except (KeyMissingError, UnsupportedError):
            return "refused"
        said = "whole"
        with ring:
            for user, keys in self.keys.items():
                try:
                    assert keys_of(ring, user) == {user: keys}
                except KeyMissingError:
                    said = "damaged"
                    with pytest.raises(KeyMissingError):
                        list(ring.users())
            with pytest.raises(ErasedError):
                ring.by_number(self.gone)
            assert ring.of_user("grace") is None
            for keys in self.keys.values():
                assert keys is not None and any(body(self.path, ring, keys[0]))
        return said


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "keys")


def flipped(data: bytes, at: int, random: Random) -> bytes:
    return data[:at] + bytes([data[at] ^ random.randint(1, 255)]) + data[at + 1 :]


def test_any_flipped_byte_that_means_something(small: Small) -> None:
    random = Random(3)
    said = {at: small.see(flipped(small.data, at, random)) for at in MEANT}
    assert {said[at] for at in range(10)} == {"refused"}
    assert {said[at + n] for at in SLOTS for n in range(76)} == {"whole"}
    assert {said[at] for at in range(AREA, AREA + 92)} == {"refused"}


def test_any_flipped_byte_of_a_record(small: Small) -> None:
    random = Random(4)
    for number, offset in small.offsets.items():
        for at in range(152):
            said = small.see(flipped(small.data, offset + at, random))
            if at < 8:
                assert said == "whole"  # a state that is no mark destroys nothing
            elif at < 60:
                assert said == "refused"
            else:
                assert said == ("whole" if number == small.gone else "damaged")


def test_flipped_bytes_between(small: Small) -> None:
    random = Random(5)
    for at in random.sample(sorted(set(range(RECORDS)) - set(MEANT)), 50):
        assert small.see(flipped(small.data, at, random)) == "whole"


def test_both_slots_flipped(small: Small) -> None:
    random = Random(6)
    for _ in range(20):
        data = small.data
        for at in SLOTS:
            data = flipped(data, at + random.randrange(76), random)
        assert small.see(data) == "refused"


def test_any_truncation(small: Small) -> None:
    random = Random(7)
    sizes = {*range(0, 12), *range(RECORDS, len(small.data)), *SLOTS, AREA}
    for size in sizes | set(random.sample(range(RECORDS), 60)):
        assert small.see(small.data[:size]) == "refused"


def test_bytes_behind_the_end_are_ignored(small: Small) -> None:
    assert small.see(small.data + b"x" * 1000) == "whole"
    assert small.path.stat().st_size == len(small.data)


@pytest.mark.parametrize("data", [b"", b"omsgkeys", bytes(30_000), b"x" * 30_000])
def test_files_that_are_no_key_file(small: Small, data: bytes) -> None:
    assert small.see(data) == "refused"


def test_swapped_records(small: Small) -> None:
    """Two live records change places: nothing is lost. Swapped secret parts give no keys."""
    (first, *_, last), data = small.offsets.values(), small.data
    parts = data[RECORDS:first], data[first : first + 152], data[first + 152 : last]
    swapped = parts[0] + data[last : last + 152] + parts[2] + parts[1]
    assert small.see(data[:RECORDS] + swapped) == "whole"
    mixed = bytearray(data)
    mixed[first + 60 : first + 152], mixed[last + 60 : last + 152] = (
        mixed[last + 60 : last + 152],
        mixed[first + 60 : first + 152],
    )
    assert small.see(bytes(mixed)) == "damaged"


def test_a_record_twice(small: Small) -> None:
    (first, *_, last), data = small.offsets.values(), small.data
    assert small.see(data[:last] + data[first : first + 152]) == "refused"


def test_zeros_are_no_destruction(small: Small) -> None:
    """A lost sector says that the file is damaged, not that somebody was erased."""
    first = next(iter(small.offsets.values()))
    data = small.data[: first + 60] + bytes(92) + small.data[first + 152 :]
    small.path.write_bytes(data)
    with KeyRing.open(small.path, master=MASTER) as ring:
        for _ in range(2):
            with pytest.raises(KeyMissingError):
                ring.of_user("ada")
        assert ring.erase(["ada"]) == 1
        assert ring.of_user("ada") is None


def test_damage_while_it_is_open(small: Small) -> None:
    ring = KeyRing.open(small.path, master=MASTER)
    small.path.write_bytes(small.data[:100])
    for _ in range(2):
        with pytest.raises(KeyMissingError):
            ring.refresh()
    small.path.write_bytes(small.data)
    ring.refresh()
    assert keys_of(ring, "ada", "edith") == small.keys


def test_errors_say_no_secret(small: Small) -> None:
    said: list[OmsError] = []
    for data in (small.data[:-1], flipped(small.data, RECORDS + 20, Random(8)), b""):
        small.path.write_bytes(data)
        with pytest.raises(OmsError) as caught:
            KeyRing.open(small.path, master=MASTER)
        said.append(caught.value)
    small.path.write_bytes(small.data)
    with pytest.raises(KeyMissingError) as wrong:
        KeyRing.open(small.path, master=OTHER)
    said.append(wrong.value)
    assert len({error.message for error in said}) == 3
    assert all("ada" not in str(error) and error.__context__ is None for error in said)


Broken = Callable[..., object]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let the sync fail that comes after so many others."""
    left: list[int] = []

    def sync(handle: int) -> None:
        if left:
            left[0] -= 1
            if left[0] < 0:
                left.clear()
                raise OSError(5, "input/output error")

    monkeypatch.setattr(private_file, "sync", sync)
    yield lambda after: left.append(after)


@pytest.mark.parametrize("after", range(2))
@pytest.mark.parametrize("act", ["ensure", "erase", "rewrap", "rekey"])
def test_a_sync_that_fails(
    small: Small, failing: Callable[[int], None], act: str, after: int
) -> None:
    acts: dict[str, tuple[Broken, object]] = {
        "ensure": (KeyRing.ensure, ["hedy"]),
        "erase": (KeyRing.erase, ["ada"]),
        "rewrap": (KeyRing.rewrap, MASTER),
        "rekey": (KeyRing.rekey, MASTER),
    }
    call, what = acts[act]
    with KeyRing.open(small.path, master=MASTER) as ring:
        failing(after)
        with pytest.raises(OSError, match="input/output"):
            call(ring, what)
        call(ring, what)
        expected: dict[str, Keys | None] = dict(small.keys)
        if act == "erase":
            expected["ada"] = None
        for seen in (ring, KeyRing.open(small.path, master=MASTER)):
            seen.refresh()
            assert keys_of(seen, "ada", "edith") == expected
            assert seen.of_user("grace") is None
            assert (seen.of_user("hedy") is None) == (act != "ensure")
    assert [file.name for file in small.path.parent.iterdir()] == ["keys"]
