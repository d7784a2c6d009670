# SPDX-License-Identifier: Apache-2.0
"""Scenarios of a store: commits of every kind, the index, copies of it, and a clock that jumps."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import omsgrain as og
from faults.scenario import Said, Scenario, Steps
from omsgrain.errors import ErasedError, NotFoundError
from omsgrain.storage.backup.manifest import Backup
from omsgrain.storage.backup.parts import rows_in
from omsgrain.storage.check import check
from omsgrain.storage.lmdb import memtable, storage
from omsgrain.store.context import context_of

TIME = 1_700_000_000_000


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"type": "event", "content": f"lamp {number} " + "x" * (number * 37 % 3_000),
            "created_at": TIME + number, "user_id": f"u{number % 3}", **fields}  # fmt: skip


def sound(path: Path) -> None:
    """The store is right in every part, and can be written to."""
    report = check(path)
    assert report.ok, report.problems
    with og.open(path) as store:
        assert store.audit.verify().ok
        address = store.put(event(9_999))
        assert store.get(address)["content"].startswith("lamp 9999")
    report = check(path)
    assert report.ok, report.problems


# -- commits --------------------------------------------------------------------------------------


def _prepare(folder: Path) -> None:
    with og.open(folder / "memory.omsg") as store:
        store.put_many([event(n) for n in range(30)])
        store.search("lamp")


def _work(folder: Path, step: Steps) -> None:
    for module in (storage, memtable):
        vars(module)["RUN"] = 40  # the index is written among the commits
    store = step("open", lambda: og.open(folder / "memory.omsg"))
    if store is None:
        return
    names = [og.address(og.encode(event(n))) for n in range(30)]
    for n in range(100, 104):
        step(f"put {n}", lambda n=n: store.put(event(n)), str)  # type: ignore[misc]
    step("many", lambda: store.put_many([event(n) for n in range(200, 250)]).addresses, list)
    step("supersede", lambda: store.supersede(names[0], event(300), justification="x"), str)
    step("contest", lambda: store.contest(names[1], reason="doubt"))
    step("hold", lambda: store.holds.add(names[2], authority="did:web:court.example",
                                    reason_code="litigation"))  # fmt: skip
    step("delete", lambda: store.delete(names[3], reason="asked"))
    step("flush", lambda: context_of(store).inner.flush())
    step("search", lambda: len(store.search("lamp", limit=100).results), int)
    step("put 400", lambda: store.put(event(400)), str)
    step("close", lambda: store.close())


def _look(folder: Path, said: Said) -> None:
    path = folder / "memory.omsg"
    report = check(path)
    assert report.ok, report.problems
    names = [og.address(og.encode(event(n))) for n in range(30)]
    with og.open(path) as store:
        there = {grain.address for grain in store}
        for step, result in said.results.items():
            if step.startswith("put "):
                assert store.get(result)["content"].startswith(f"lamp {step[4:]} ")
        assert set(said.results.get("many", ())) <= there
        many = {og.address(og.encode(event(n))) for n in range(200, 250)}
        assert many <= there or not many & there, "half of a commit"
        for number in (100, 101, 102, 103, 400):
            if f"put {number}" in said.refused:
                assert og.address(og.encode(event(number))) not in there, "refused, and stored"
        new, after = said.results.get("supersede"), store.status(names[0]).superseded_by
        assert after == new if new is not None else after in (None, *there)
        if "contest" in said.results:
            assert store.status(names[1]).verification_status == "contested"
        if "hold" in said.results:
            assert store.status(names[2]).held
        if "delete" in said.results:
            assert names[3] not in there
        found = _all(store)
        assert found == there, "a query and the grains differ"
        assert len(store) == len(there)
        assert {*names[4:]} <= there
        texts = {hit.address for hit in store.search("lamp", limit=1_000).results}
        assert texts <= there and len(texts) >= min(100, len(there) - 5)
    sound(path)


def _address(number: int) -> str:
    return og.address(og.encode(event(number)))


def _all(store: og.GrainStore) -> set[str]:
    page = store.query(limit=1_000, current=None)
    return {hit.address for hit in page.results}


# -- copies ---------------------------------------------------------------------------------------


def _copies(folder: Path, step: Steps) -> None:
    store = step("open", lambda: og.open(folder / "memory.omsg"))
    if store is None:
        return
    step("rebuild", lambda: store.maintenance.rebuild())
    step("backup", lambda: store.maintenance.backup(folder / "copy.omsg"))
    step("compact", lambda: store.maintenance.compact())
    step("put 500", lambda: store.put(event(500)), str)
    step("close", lambda: store.close())


def _look_at_copies(folder: Path, said: Said) -> None:
    names = {_address(n) for n in range(30)}
    copied = folder / "copy.omsg"
    assert copied.exists() or "backup" not in said.results
    for path in (folder / "memory.omsg", *([copied] if copied.exists() else ())):
        with og.open(path) as store:
            assert names <= {grain.address for grain in store} == _all(store)
            if path is not copied and "put 500" in said.results:
                assert store.exists(said.results["put 500"])
        sound(path)


# -- incremental backups --------------------------------------------------------------------------


def _back_up(folder: Path, step: Steps) -> None:
    place = folder / "backups"
    with og.open(folder / "memory.omsg") as store:
        step("first", lambda: store.maintenance.backup_to(place).backup.id, str)
        store.put(event(500))
        step("second", lambda: store.maintenance.backup_to(place).backup.id, str)
    step("prune", lambda: og.BackupRepository(place).prune(keep_last=1).kept, int)


def _look_at_backups(folder: Path, said: Said) -> None:
    repository = og.BackupRepository(folder / "backups")
    found = [backup.id for backup in repository.backups()]
    # Behind the second one comes the prune, which may have taken the first one and not have ended.
    pruned = not said.results.keys().isdisjoint(("second", "prune"))
    assert pruned or said.results.get("first", "") in (*found, "")
    assert said.results.get("second", "") in (*found, "")
    for backup in found:
        there = _addresses_in(folder / "backups", repository.find(backup))
        assert {_address(n) for n in range(30)} <= there
        assert backup != said.results.get("second") or _address(500) in there
    sound(folder / "memory.omsg")


def _addresses_in(place: Path, backup: Backup) -> set[str]:
    """The addresses of a backup, of which each part is there and whole."""
    found = set[str]()
    for part in backup.parts:
        data = (place / "parts" / part.sha256[:2] / part.sha256).read_bytes()
        assert sha256(data).hexdigest() == part.sha256
        if part.table == "blobs-0":
            found.update(sha256(blob).hexdigest() for _, blob in rows_in(data))
    return found


# -- a new store ----------------------------------------------------------------------------------


def _make(folder: Path, step: Steps) -> None:
    store = step("make", lambda: og.open(folder / "new.omsg"))
    if store is not None:
        step("put 1", lambda: store.put(event(1)), str)
        step("close", lambda: store.close())


def _look_at_made(folder: Path, said: Said) -> None:
    with og.open(folder / "new.omsg") as store:
        assert "put 1" not in said.results or store.exists(said.results["put 1"])
    sound(folder / "new.omsg")


# -- restarts -------------------------------------------------------------------------------------


def restarted(path: Path, noted: Path, number: int) -> None:
    """Open, put, sometimes change and remove, and close; what has returned is noted."""
    with noted.open("a") as note, og.open(path) as store:
        for n in range(3):
            address = store.put(event(10 * number + n))
            note.write(f"put {address}\n")
            note.flush()
        if number % 3 == 0:
            store.supersede(address, event(10 * number + 8), justification="x")
        if number % 50 == 49:
            context_of(store).inner.flush()
    with noted.open("a") as note:
        note.write(f"end {number}\n")


def whole(path: Path, noted: Path) -> None:
    """All that was noted is there, and the store is right."""
    report = check(path)
    assert report.ok, report.problems
    with og.open(path, readonly=True) as store:
        for line in noted.read_text().splitlines():
            if line.startswith("put "):
                assert store.exists(line[4:]), line
        assert store.audit.verify().ok


# -- the clock ------------------------------------------------------------------------------------

YEAR = 365 * 86_400
JUMPS = (0, -5 * YEAR, 12 * YEAR, -40 * YEAR, 1, 3 * YEAR)
"""Seconds that the clock is ahead of the right time, one after the other."""


def clock_jumps(folder: Path, move: Any) -> None:
    """Use a store while its clock jumps: what was returned is there, in all ways to ask."""
    path = folder / "memory.omsg"
    _prepare(folder)
    put: list[str] = []
    for turn, seconds in enumerate(JUMPS):
        move(seconds)
        with og.open(path) as store:
            now = og.Event(content=f"lamp at turn {turn}", user_id="u1")
            put.append(store.put(now))  # its time is that of the clock
            old = store.put(event(1_000 + turn))
            new = store.supersede(old, event(2_000 + turn), justification="x")
            held = store.put(event(3_000 + turn))
            store.holds.add(held, authority="did:web:court.example", reason_code="litigation")
            move(seconds - 60)
            store.holds.release(held, authority="did:web:court.example", reason_code="ended")
            doomed = store.put(event(4_000 + turn))
            store.delete(doomed, reason="asked")
            assert store.status(old).superseded_by == new
            assert not store.exists(doomed)
            newest = {hit.address for hit in store.query(limit=1_000).results}
            assert {*put, new, held} <= newest and old not in newest
            assert [grain.address for grain in store.history(new)] == [old, new]
            assert store.audit.verify().ok
            with suppress(NotFoundError, ErasedError):
                store.privacy.run_due()
        sound(path)
    with og.open(path) as store:
        assert all(map(store.exists, put))


SCENARIOS = {
    "commits": Scenario(_prepare, _work, _look),
    "copies": Scenario(_prepare, _copies, _look_at_copies),
    "backups": Scenario(_prepare, _back_up, _look_at_backups),
    "a new store": Scenario(lambda folder: None, _make, _look_at_made),
}
