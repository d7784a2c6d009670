# SPDX-License-Identifier: Apache-2.0
"""Sync by file: what goes along, what is left out, and files that are torn, old or for others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import OmsError, SchemaError, TooLargeError, UnsupportedError
from omsgrain.interchange.verify import VerifyOptions, verify_file
from omsgrain.store.prepared import SYNC_BYTE, SYNC_TYPE, sync_record
from omsgrain.sync import LocalPeer, SyncReport, bundle, sync
from omsgrain.sync.bundle import (
    BundleFile,
    BundleHead,
    BundleTail,
    _records,
    take_bundle,
    write_bundle,
    write_file,
)
from omsgrain.sync.peer import START, Batch, GrainState, Hello, Position, Right
from support.shell import USAGE, Shell, exit_code
from support.signers import ALICE
from support.sync_stores import addresses, belief, memory, told

ORDERS: tuple[Right, ...] = ("grains", "states", "holds", "restrictions", "erasures")

Stores = tuple[og.GrainStore, og.GrainStore]


@pytest.fixture
def stores() -> Iterator[Stores]:
    with memory() as robot, memory() as hub:
        robot.put_many([belief(f"robot {n}", n) for n in range(30)])
        hub.put_many([belief(f"hub {n}", n) for n in range(20)])
        yield robot, hub


def written(store: og.GrainStore, path: Path, **options: Any) -> SyncReport:
    return write_bundle(LocalPeer(store), path, clock=lambda: 1_768_471_200_000, **options)


def taken(path: Path, store: og.GrainStore, **options: Any) -> SyncReport:
    return take_bundle(path, LocalPeer(store), **options)


def refused(path: Path, store: og.GrainStore) -> str:
    """The code of the refusal of a file, of which nothing was taken."""
    before = addresses(store), told(store)
    with pytest.raises(OmsError) as found:
        taken(path, store)
    assert (addresses(store), told(store)) == before
    return found.value.code


def test_there_and_back(stores: Stores, tmp_path: Path) -> None:
    """Each file holds what the other has not, and the third only what is new since."""
    robot, hub = stores
    first, answer, second = (tmp_path / f"{name}.mg" for name in ("first", "answer", "second"))
    assert written(robot, first).sent.grains == 30
    assert taken(first, hub).sent.grains == 30
    assert written(hub, answer, answers=first).sent.grains == 20
    assert taken(answer, robot).sent.grains == 20
    assert addresses(robot) == addresses(hub)
    assert written(robot, second, answers=answer).sent.grains == 0
    assert taken(second, hub).sent.grains == 0
    old = robot.put(belief("old"))
    robot.supersede(old, belief("new", 1))
    report = written(robot, second, answers=answer)
    assert (report.sent.grains, report.sent.states) == (2, 1)
    taken(second, hub)
    assert told(robot) == told(hub) and addresses(robot) == addresses(hub)
    assert not sync(LocalPeer(robot), LocalPeer(hub)).changed


def test_a_file_that_comes_twice_or_late(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    first, answer, second = (tmp_path / f"{name}.mg" for name in ("first", "answer", "second"))
    written(robot, first)
    taken(first, hub)
    written(hub, answer, answers=first)
    robot.put(belief("later"))
    written(robot, second, answers=answer)
    for file in (second, second, first, second, first):
        taken(file, hub)
        assert len(hub) == 51
    robot.put(belief("last"))
    written(hub, answer, answers=second)
    assert written(robot, second, answers=answer).sent.grains == 1, "old files moved nothing back"


def test_a_file_that_comes_too_early(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    first, answer, second = (tmp_path / f"{name}.mg" for name in ("first", "answer", "second"))
    with memory() as other:
        written(robot, first)
        taken(first, hub)
        written(hub, answer, answers=first)
        robot.put(belief("later"))
        written(robot, second, answers=answer)
        assert refused(second, other) == "ERR_SCHEMA"  # for another store
    with BundleFile(second) as file:
        head = replace(file.head, to=b"")
        write_file(second, head, list(file.batches()))
    with memory() as other:
        assert refused(second, other) == "ERR_SCHEMA"  # it has not taken the first
        taken(first, other)
        taken(second, other)
        assert addresses(robot) == addresses(other)


def test_files_of_others(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    mine, theirs, plain = (tmp_path / f"{name}.mg" for name in ("mine", "theirs", "plain"))
    written(robot, mine)
    assert refused(mine, robot) == "ERR_SCHEMA"
    with pytest.raises(SchemaError):
        written(robot, theirs, answers=mine)
    with memory() as other:
        other.put(belief("other"))
        taken(mine, other)
        written(other, theirs, answers=mine)
    assert refused(theirs, hub) == "ERR_SCHEMA"
    with pytest.raises(SchemaError):
        written(hub, tmp_path / "x.mg", answers=theirs)
    robot.export_mg(plain)
    assert refused(plain, hub) == "ERR_SCHEMA"
    with pytest.raises(SchemaError):
        written(robot, theirs, answers=plain)
    with pytest.raises(SchemaError, match="omsgrain sync"):
        hub.import_mg(mine)


def test_torn_and_changed_files(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    good, bad = tmp_path / "good.mg", tmp_path / "bad.mg"
    written(robot, good)
    data = good.read_bytes()
    rng = Random(3)
    for at in [0, 1, 15, 16, *rng.sample(range(len(data)), 30), len(data) - 1]:
        bad.write_bytes(data[:at])
        assert refused(bad, hub)
        bad.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        assert refused(bad, hub)
    with pytest.raises(OmsError) as missing:
        taken(tmp_path / "none.mg", hub)
    assert missing.value.code == "ERR_NOT_FOUND"


HEAD = BundleHead(1, b"s" * 16, b"", None, START, False, None, b"", b"", (), 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("version", "ERR_UNSUPPORTED"),
        ("no head", "ERR_CORRUPT"),
        ("two heads", "ERR_CORRUPT"),
        ("no tail", "ERR_CORRUPT"),
        ("grains missing", "ERR_CORRUPT"),
        ("a grain too many", "ERR_CORRUPT"),
        ("after the tail", "ERR_CORRUPT"),
        ("a count too high", "ERR_CORRUPT"),
        ("the tail counted as a grain", "ERR_CORRUPT"),
        ("of another store", "ERR_CORRUPT"),
        ("a part missing", "ERR_CORRUPT"),
        ("half an id", "ERR_CORRUPT"),
        ("a short address", "ERR_SCHEMA"),
        ("empty", "ERR_SCHEMA"),
    ],
)
def test_forged_files(tmp_path: Path, name: str, code: str) -> None:
    """Sound as containers: somebody made their footers."""
    grain = og.encode(belief("on"))
    batch = Batch(HEAD.store)
    head, tail = (
        list(_records("head", HEAD, 1)),
        list(_records("tail", BundleTail(START, 1, 1), 1)),
    )
    one = list(_records("batch", batch, 1, 1))
    wide = list(_records("batch", replace(batch, states=(GrainState(b"k" * 32),) * 9_000), 1))
    files = {
        "version": [*_records("head", replace(HEAD, version=2), 1), *one, grain, *tail],
        "no head": [*one, grain, *tail],
        "two heads": [*head, *head, *one, grain, *tail],
        "no tail": [*head, *one, grain],
        "grains missing": [*head, *one, *tail],
        "a grain too many": [*head, *one, grain, grain, *tail],
        "after the tail": [*head, *one, grain, *tail, grain],
        "a count too high": [*head, *_records("batch", batch, 1, 1 << 40), grain, *tail],
        "the tail counted as a grain": [*head, *_records("batch", batch, 1, 2), grain, *tail],
        "of another store": [*head, *_records("batch", Batch(b"t" * 16), 1, 1), grain, *tail],
        "a part missing": [*head, *wide[1:], *tail],
        "half an id": [*_records("head", replace(HEAD, store=b"s"), 1), *one, grain, *tail],
        "a short address": [
            *head, *_records("batch", replace(batch, states=(GrainState(b"k"),)), 1), *tail,
        ],
        "empty": [],
    }  # fmt: skip
    container.write(tmp_path / "x.mg", files[name])
    with memory() as store:
        assert refused(tmp_path / "x.mg", store) == code
    failures = verify_file(tmp_path / "x.mg", VerifyOptions()).failures
    whole = [sync_record(one) for one in (*files[name][:1], *files[name][-1:])] == ["head", "tail"]
    assert [one.error.code for one in failures] == ([code] if whole else [])


def record(kind: str, **more: Any) -> bytes:
    fields = {"type": SYNC_TYPE, "created_at": 1, "record": kind, **more}
    return og.encode(fields, type_byte=SYNC_BYTE)


def test_no_store_takes_a_record_of_a_sync_as_a_grain(tmp_path: Path) -> None:
    """It came first in an export, which verified but could not be imported."""
    stray, grain = record("head"), og.encode(belief("on"))
    signed = crypto.sign(og.Grain(stray), ALICE)
    named = og.encode({"type": "vendor:thing", "created_at": 1}, type_byte=SYNC_BYTE)
    with memory() as store:
        for given in (stray, og.Grain(stray), signed):
            with pytest.raises(SchemaError):
                store.put(given)
        report = store.put_many([grain, stray, signed, named], errors="collect")
        assert (report.stored, [bad.index for bad in report.errors]) == (2, [1, 2])
        found = LocalPeer(store).put(Batch(b"s" * 16, grains=(stray, og.encode(belief("off")))))
        assert (found.stored, [one.code for one in found.refused]) == (1, ["ERR_SCHEMA"])
        for first in (stray, signed):
            container.write(tmp_path / "x.mg", [first, og.encode(belief("dim")), record("batch")])
            assert not verify_file(tmp_path / "x.mg", VerifyOptions()).failures
            told = store.import_mg(tmp_path / "x.mg")
            assert (told.stored + told.duplicates, told.passed_over) == (1, 2)
        assert len(store) == 4


def test_long_values_are_stored_in_parts(tmp_path: Path) -> None:
    states = tuple(GrainState(bytes([n % 251]) * 32, (b"k" * 32,) * 200) for n in range(300))
    batch = Batch(HEAD.store, states=states, until=Position(5, b"m"))
    write_file(tmp_path / "x.mg", HEAD, [batch])
    with container.read(tmp_path / "x.mg") as file:
        assert len(file) > 4
    with BundleFile(tmp_path / "x.mg") as read:
        assert list(read.batches()) == [batch]


def test_a_restored_store_starts_over(tmp_path: Path) -> None:
    first, answer, second = (tmp_path / f"{name}.mg" for name in ("first", "answer", "second"))
    with og.open(tmp_path / "robot.omsg") as robot:
        robot.put_many([belief(f"early {n}", n) for n in range(5)])
        LocalPeer(robot).hello(Hello())
        robot.maintenance.backup(tmp_path / "backup.omsg")
        lost = robot.put_many([belief(f"lost {n}", n) for n in range(5)]).addresses
        with memory() as hub:
            written(robot, first)
            taken(first, hub)
            written(hub, answer, answers=first)
            with og.open(tmp_path / "backup.omsg") as restored:
                restored.put_many([belief(f"fresh {n}", n) for n in range(9)])
                report = written(restored, second, answers=answer)
                assert report.sent.grains == 14
                taken(second, hub)
                assert addresses(hub) == addresses(restored) | set(map(str, lost))
                restored.put(belief("last"))
                written(hub, answer, answers=second)
                assert written(restored, second, answers=answer).sent.grains == 1


def test_erasures_and_holds(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    path, answer = tmp_path / "x.mg", tmp_path / "y.mg"
    gone, held = (robot.put(belief(what, user_id="somebody")) for what in ("gone", "held"))
    written(robot, path, share_keys=True)
    taken(path, hub, rights=ORDERS)
    hub.holds.add(held, authority="court", reason_code="case")
    written(hub, answer, answers=path, share_keys=True)
    robot.privacy.erase(["somebody"], reason_code="asked")
    written(robot, path, answers=answer)
    report = taken(path, hub, rights=ORDERS)
    assert gone not in hub and held in hub and hub.status(held).restricted
    assert [(one.part, one.rule) for one in report.refused] == [("erasure", "hold")]
    taken(answer, robot, rights=ORDERS)
    assert gone not in robot and held not in robot
    written(hub, answer, answers=path)
    assert written(robot, path, answers=answer).sent.tombstones == 0  # it has them now
    assert written(robot, path, answers=answer, full=True).sent.tombstones > 0


def test_namespaces(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    path, answer = tmp_path / "x.mg", tmp_path / "y.mg"
    robot.put(belief("on", namespace="hall"))
    assert written(robot, path, namespaces=["hall"]).sent.grains == 1
    taken(path, hub)
    hub.put(belief("off", namespace="hall"))
    assert written(hub, answer, answers=path).sent.grains == 1  # of the same namespaces
    with pytest.raises(SchemaError):
        written(hub, answer, answers=path, namespaces=["attic"])
    robot.put(belief("red", namespace="hall"))
    assert written(robot, path, answers=answer).sent.grains == 1
    assert written(robot, path, answers=answer, full=True).sent.grains == 2


def test_sealed_grains(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "x.mg"
    with og.open(tmp_path / "s.omsg", keys=ring) as closed, memory() as hub:
        address = closed.put(belief("violet", user_id="somebody"))
        written(closed, path)
        taken(path, hub)
        assert hub.get(address).sealed
    with container.read(path) as file:
        assert not any(b"violet" in grain for grain in file)


def test_an_interrupted_take_resumes(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    path = tmp_path / "x.mg"
    robot.put_many([belief(f"many {n}", n, note="x" * 9_000) for n in range(700)])
    written(robot, path)

    class Failing(LocalPeer):
        left = 1

        def put(self, batch: Batch) -> Any:
            if not self.left:
                raise RuntimeError
            self.left -= 1
            return super().put(batch)

    with pytest.raises(RuntimeError):
        take_bundle(path, Failing(hub))
    assert 20 < len(hub) < 750
    taken(path, hub)
    assert addresses(robot) < addresses(hub)


def test_dry_runs(stores: Stores, tmp_path: Path) -> None:
    robot, hub = stores
    path = tmp_path / "x.mg"
    assert written(robot, path, dry_run=True).sent.grains == 30
    assert not path.exists()
    written(robot, path)
    assert taken(path, hub, dry_run=True).sent.grains == 30
    assert len(hub) == 20
    taken(path, hub)
    assert taken(path, hub, dry_run=True).sent.duplicates == 30


@pytest.mark.parametrize("seed", range(3))
def test_files_that_are_lost_late_and_doubled(tmp_path: Path, seed: int, long: bool) -> None:
    """The stores agree once some files arrive."""
    rng = Random(seed)
    with memory() as left, memory() as right:
        sides, post = [left, right], [list[Path](), list[Path]()]
        for n in range(200 if long else 25):
            me = rng.randrange(2)
            made = [sides[me].put(belief(f"{me} {n} {i}", i)) for i in range(rng.randrange(4))]
            if made and rng.random() < 0.5:
                sides[me].supersede(made[0], belief(f"{me} {n} after", 9))
            mine = post[me]
            if mine and rng.random() < 0.7:
                for file in rng.sample(mine, rng.randrange(1, min(len(mine), 3) + 1)):
                    try:
                        taken(file, sides[me])
                    except SchemaError:
                        pass  # it came too early
            path = tmp_path / f"{n}.mg"
            written(sides[me], path, answers=mine[-1] if mine else None)
            if rng.random() < 0.6:
                post[1 - me].append(path)
        for me in (0, 1, 0, 1):
            path = tmp_path / f"last {me}.mg"
            written(sides[me], path, full=True)
            taken(path, sides[1 - me])
        assert addresses(left) == addresses(right)
        assert told(left) == told(right)


def test_commands(shell: Shell, tmp_path: Path) -> None:
    with og.open("robot.omsg") as store:
        store.put_many([belief(f"{n}", n) for n in range(3)])
    assert shell.json("sync", "robot.omsg", "out.mg")["sent"]["grains"] == 3
    assert shell.json("sync", "out.mg", "hub.omsg", "--create")["sent"]["grains"] == 3
    with og.open("hub.omsg") as store:
        store.put(belief("hub"))
    assert shell.json("sync", "hub.omsg", "back.mg", "--for", "out.mg")["sent"]["grains"] == 1
    assert shell("sync", "back.mg", "robot.omsg") == 0
    assert shell.out.startswith(b"Sent: 1 grain,") and b"Received" not in shell.out
    for wrong in (
        ("out.mg", "x.mg"),
        ("out.mg", "hub.omsg", "--full"),
        ("out.mg", "hub.omsg", "--namespace", "hall"),
        ("robot.omsg", "x.mg", "--direction", "pull"),
        ("robot.omsg", "hub.omsg", "--for", "out.mg"),
        ("robot.omsg", "hub.omsg", "--share-keys"),
    ):
        assert shell("sync", *wrong) == exit_code("ERR_UNSUPPORTED")
    assert shell("sync", "robot.omsg", "x.mg", "--for", "none.mg") == USAGE
    assert shell("import", "hub.omsg", "out.mg") == exit_code("ERR_SCHEMA")


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x.mg"
    with og.open(tmp_path / "s.omsg") as store:
        store.put(belief("on"))
        written(store, path)
    with og.open(tmp_path / "s.omsg", readonly=True) as store:
        with pytest.raises(UnsupportedError):
            taken(path, store)
        assert written(store, path).sent.grains == 1


def test_a_batch_that_would_fill_the_memory(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed, thousands of large grains take no room in a file."""
    robot, hub = stores
    written(robot, tmp_path / "all.mg")
    monkeypatch.setattr(bundle, "_BATCH", 1_000)
    with pytest.raises(TooLargeError):
        taken(tmp_path / "all.mg", hub)
    assert len(hub) == 20
