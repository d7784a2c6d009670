# SPDX-License-Identifier: Apache-2.0
"""A damaged store is found, or refused, and never gives out a wrong grain or an older state."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage.check import check, check_in_child
from omsgrain.storage.lmdb.environment import HeadFile
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import TERMS
from omsgrain.store.context import context_of
from support import damaged_stores

GRAINS, TAIL = 150, 20
PAGE = 4_096
META_BYTES = range(16, 16 + 136)  # magic, version, address, size, two roots, last page, commit
Case = tuple[Any, ...]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with pages of every kind and a tail beyond the watermark."""
    path = tmp_path_factory.mktemp("damage") / "memory.omsg"
    command = [sys.executable, damaged_stores.__file__, "make", str(path), str(GRAINS), str(TAIL)]
    subprocess.run(command, check=True)
    assert check_in_child(path).ok
    return path


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "memory.omsg"))


def outcomes(store: Path, place: Path, cases: list[Case]) -> Counter[str]:
    """How each case went; fails at those that went wrong."""
    command = [sys.executable, damaged_stores.__file__, str(store), str(place)]
    given = "\n".join(map(json.dumps, cases))
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=3_600)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(cases), done.stderr
    bad = [(case, s) for case, s in zip(cases, said, strict=True) if not is_fine(*s)]
    assert not bad
    return Counter(kind(used, checked) for used, checked, _ in said)


def is_fine(used: str, checked: str, written: str) -> bool:
    """Found by the check; or all is right, and stays so when the store is written to."""
    if used.startswith("wrong") or used == damaged_stores.HANGS:
        return False  # LMDB may die of a damaged page, in the user's process too
    if checked == "right":
        return (used, written) == ("right", "right")
    return checked != damaged_stores.HANGS and not checked.startswith("wrong")


def kind(used: str, checked: str) -> str:
    if "right" == used == checked:
        return "harmless"
    return "died" if "signal" in used else "refused" if "error" in used else "found"


def test_flipped_bits(store: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    random, size = Random(7), (store / "data.mdb").stat().st_size
    count = 2_000 if request.config.getoption("--long") else 12
    cases: list[Case] = [
        ("flip", random.randrange(size), 1 << random.randrange(8)) for _ in range(count)
    ]
    found = outcomes(store, tmp_path / "copy.omsg", cases)
    print(dict(found))
    assert found["harmless"] < count  # or the test would show nothing
    assert found["died"] < count / 10


def test_flipped_bytes_of_the_metas(
    store: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    long = request.config.getoption("--long")
    cases: list[Case] = [
        ("flip", page * PAGE + byte, mask)
        for page in (0, 1)
        for byte in META_BYTES
        for mask in (1, 0x80, 0xFF)
    ]
    found = outcomes(store, tmp_path / "copy.omsg", cases if long else Random(8).sample(cases, 10))
    print(dict(found))
    assert found["died"] == 0


def test_headers_of_pages(store: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A page's own number, flags and bounds: nothing reads them twice."""
    size = (store / "data.mdb").stat().st_size
    cases: list[Case] = [
        ("flip", page + byte, 1) for page in range(2 * PAGE, size, PAGE) for byte in range(20)
    ]
    long = request.config.getoption("--long")
    print(outcomes(store, tmp_path / "copy", cases if long else Random(9).sample(cases, 10)))


def test_copies_that_were_cut_short(
    store: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    size = (store / "data.mdb").stat().st_size
    cases: list[Case] = [
        ("cut", page + inside) for page in range(0, size, PAGE) for inside in (0, 1, PAGE // 2)
    ]
    cases.append(("cut", size - 1))
    long = request.config.getoption("--long")
    few = [*cases[:4], *Random(10).sample(cases, 8), *cases[-3:]]
    found = outcomes(store, tmp_path / "copy.omsg", cases if long else few)
    assert found["refused"] > len(few) / 2
    assert set(found) <= {"refused", "harmless"}  # where only free pages were cut away


# --- the side file -------------------------------------------------------------------------------


def head(path: Path) -> HeadFile:
    return HeadFile(path / "head")


def opens(path: Path) -> bool:
    """Whether it opens and all is there."""
    with og.open(path) as store:
        return len(store) == GRAINS + TAIL and store.verify().verified == GRAINS + TAIL


@pytest.mark.parametrize("content", [None, b"", b"junk", b"\0" * 24, b"omsh" + b"\xff" * 20])
def test_a_side_file_that_says_nothing(copy: Path, content: bytes | None) -> None:
    if content is None:
        (copy / "head").unlink()
    else:
        (copy / "head").write_bytes(content)
    assert opens(copy)
    with og.open(copy) as store:
        store.put(damaged_stores.belief(10_000))
    assert head(copy).read() == GRAINS + TAIL + 1


def test_a_flipped_bit_of_the_side_file_says_nothing(copy: Path) -> None:
    good = (copy / "head").read_bytes()
    for bit in range(8 * len(good)):
        raw = bytearray(good)
        raw[bit // 8] ^= 1 << bit % 8
        (copy / "head").write_bytes(raw)
        assert head(copy).read() is None


def test_an_old_side_file(copy: Path) -> None:
    head(copy).write(GRAINS, 1)
    assert opens(copy)


def test_a_side_file_ahead_of_the_store(copy: Path) -> None:
    head(copy).write(GRAINS + TAIL + 1, 1)
    before = (copy / "data.mdb").read_bytes()
    for readonly in (True, False):
        with pytest.raises(err.StoreError):
            og.open(copy, readonly=readonly)
    assert (copy / "data.mdb").read_bytes() == before
    report = check_in_child(copy)
    assert [problem.where for problem in report.problems] == ["file"]


def test_the_older_commit_is_never_opened_in_silence(copy: Path) -> None:
    """The newer meta's number is set back, so that LMDB takes the commit before."""
    with og.open(copy) as store:
        for number in range(20_000, 20_003):  # the last commit of all puts a grain
            store.put(damaged_stores.belief(number))
        shutil.copytree(copy, copy.with_name("kept"))
    kept = copy.with_name("kept")
    data = bytearray((kept / "data.mdb").read_bytes())
    places = [page * PAGE + META_BYTES.stop - 8 for page in (0, 1)]
    numbers = [int.from_bytes(data[p : p + 8], sys.byteorder) for p in places]
    newer = places[numbers.index(max(numbers))]
    data[newer : newer + 8] = (max(numbers) - 2).to_bytes(8, sys.byteorder)
    (kept / "data.mdb").write_bytes(data)
    with pytest.raises(err.StoreError):
        og.open(kept, readonly=True)
    with pytest.raises(err.StoreError):
        og.open(kept)
    assert not check_in_child(kept).ok


def test_a_relaxed_store_notes_what_was_synced(copy: Path) -> None:
    (copy / "head").unlink()
    last = GRAINS + TAIL
    store = og.open(copy, durability="relaxed")
    store.put(damaged_stores.belief(10_000))
    assert head(copy).read() is None
    store.flush()
    assert head(copy).read() == last + 1
    store.put(damaged_stores.belief(10_001))
    assert head(copy).read() == last + 1
    kept = shutil.copytree(copy, copy.with_name("kept"))
    store.close()
    assert head(copy).read() == last + 2
    head(kept).write(last + 3, 1)
    with pytest.raises(err.StoreError):
        og.open(kept, durability="relaxed")
    (kept / "head").unlink()  # somebody accepts the older state
    with og.open(kept, durability="relaxed") as older:
        older.flush()
        assert len(older) == head(kept).read() == last + 2


def test_a_sync_never_takes_back_a_note(copy: Path) -> None:
    side = head(copy)
    side.raise_to(5, 1)
    assert side.read() == GRAINS + TAIL
    side.raise_to(1_000, 1)
    assert side.read() == 1_000
    side.close()


# --- what the check says ------------------------------------------------------------------------


def test_a_query_gives_out_no_damaged_grain(copy: Path) -> None:
    data = (copy / "data.mdb").read_bytes()
    (copy / "data.mdb").write_bytes(data.replace(b"room 3", b"room 4"))  # also in free pages
    with og.open(copy, readonly=True) as store, pytest.raises(err.IntegrityError):
        store.query(relation="has", limit=1_000)
    report = check_in_child(copy)
    assert not report.ok
    assert {problem.where for problem in report.problems} >= {"blob", "term"}


def test_blobs_out_of_order_are_no_endless_walk(copy: Path) -> None:
    last = (GRAINS + TAIL).to_bytes(8, "big")
    data = (copy / "data.mdb").read_bytes()
    assert last in data
    (copy / "data.mdb").write_bytes(data.replace(last, (3).to_bytes(8, "big")))
    with pytest.raises(err.StoreError):
        og.open(copy, readonly=True)
    assert not check_in_child(copy).ok


def test_a_check_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        for round in range(3):
            store.put_many(
                [damaged_stores.belief(n) for n in range(100 * round, 100 * round + 100)]
            )
            context_of(store).inner.flush()
            with context_of(store).storage.read():  # an older snapshot stays open
                store.put(damaged_stores.belief(1_000 + round))
                report = store.maintenance.check()
            assert report.ok, report.problems
            assert report.grains == len(store)
    store = og.GrainStore(LmdbStorage(path, readonly=True))
    assert store.maintenance.check().ok
    store.close()


def test_a_check_without_end(copy: Path) -> None:
    report = check_in_child(copy, patience=0.001)
    assert (report.ok, report.grains) == (False, 0)
    assert [problem.where for problem in report.problems] == ["file"]


def test_keys_out_of_order(copy: Path) -> None:
    """A look-up would miss rows that a walk still meets."""
    file = copy / "data.mdb"
    data, found = bytearray(file.read_bytes()), 0
    for at in range(2 * PAGE, len(data), PAGE):
        flags, lower = struct.unpack_from("=10xHH", data, at)
        if flags == 0x02 and lower >= 20:  # a leaf with two nodes or more
            one, other = struct.unpack_from("=HH", data, at + 16)
            struct.pack_into("=HH", data, at + 16, other, one)
            file.write_bytes(data)
            problems = check_in_child(copy).problems
            found += any("out of order" in problem.message for problem in problems)
            struct.pack_into("=HH", data, at + 16, one, other)
    assert found > 2  # in all pages of the last commit


def test_a_table_with_other_flags(copy: Path) -> None:
    """They say how LMDB compares keys."""
    file = copy / "data.mdb"
    data = file.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(b"addresses-1", at)]
    found = 0
    for at in starts:
        changed = bytearray(data)
        changed[at + len(b"addresses-1") + 4] ^= 0x02  # keys are compared from their ends
        file.write_bytes(changed)
        found += not check_in_child(copy).ok
    assert found  # in the page of the last commit


def test_check_needs_no_walk_over_pages(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system of 32 bits the pages have another layout; each row is looked up instead."""
    walked = check(copy)
    monkeypatch.setattr("omsgrain.storage.lmdb.pages.WALKED", False)
    assert check(copy) == walked
    assert walked.ok
    storage = LmdbStorage(copy)
    storage.write(lambda writer: writer.drop_rows(TERMS, b"", 1))
    storage.close()
    assert not check(copy).ok
