# SPDX-License-Identifier: Apache-2.0
"""Grains that are removed together: what goes, what reports it, and what is left on disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.policy.presets import load
from omsgrain.storage.check import check
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.records import pack_ranges, ranges, ranges_of
from omsgrain.storage.tables import AUDIT, EVENTS, NAMED, REMOVALS, SEQUENCE, TOMBSTONES
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from support.erasure_stores import below
from support.invented_people import opened
from support.store_kinds import POSTGRES

DAY = 86_400_000
OLD, NEW = 1_000 * DAY, 1_100 * DAY
RULES = """
name = "short"
title = "Short"

[[expire]]
id = "month"
days = 30
reason = "Readings are deleted after a month."
source = "the operator"
"""


def reading(n: int, at: int = OLD, **more: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"room {n % 3}",
        "relation": "has",
        "object": f"{n} lamps",
        "confidence": 0.5,
        "created_at": at + n,
        **more,
    }


@pytest.fixture(params=["memory", "lmdb", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    (tmp_path / "short.toml").write_text(RULES)
    settings = Settings(preset=load(tmp_path / "short.toml"), clock=lambda: NEW)
    with opened(request.param, tmp_path, settings) as made:
        yield made


@pytest.mark.parametrize("flushed", [False, True])
def test_what_gets_old_goes_in_batches(store: GrainStore, flushed: bool) -> None:
    kept = [store.put(reading(n, NEW)) for n in range(10)]
    gone = [store.put(reading(n)) for n in range(40)]
    store.put_many([reading(n, NEW) for n in range(10, 20)])
    if flushed:
        store.flush()
    held = gone.pop(7)
    store.holds.add(held, authority="court", reason_code="case")
    assert sorted(store.privacy.retention_due()) == sorted(gone)
    assert store.privacy.run_due().expired == len(gone)
    assert not any(store.exists(address) for address in gone)
    assert len(store) == 21
    assert {hit.address for hit in store.query(subject="room 1", limit=100).results} == {
        *[address for address in (*kept, held) if store.get(address)["subject"] == "room 1"],
        *[g.address for g in store if g["subject"] == "room 1" and g["created_at"] > NEW],
    }
    assert store.query(object="5 lamps", limit=100).results[0].address == kept[5]
    (change,) = [one for one in store.changes() if one.kind == "remove"]
    assert change.removed == ((11, 17), (19, 50))
    assert [e.count for e in store.audit.entries() if e.operation == "delete"] == [39]
    assert store.audit.verify().ok and store.maintenance.check().ok
    # Nothing forbids a new import of what was merely old.
    assert store.put(reading(3)) == gone[3]
    (seq,) = [one.seq for one in store.changes() if one.address == gone[3]]
    assert store.privacy.run_due().expired == 1
    assert [one.removed for one in store.changes()][-1] == ((seq, seq),)


def test_what_gets_old_leaves_one_row(store: GrainStore) -> None:
    store.put_many([reading(n) for n in range(300)])
    store.privacy.run_due()
    with below(store).read() as reader:
        assert len(list(reader.rows(REMOVALS))) == 1
        assert not [*reader.rows(EVENTS), *reader.rows(NAMED), *reader.rows(TOMBSTONES)]
    store.maintenance.compact()
    with below(store).read() as reader:
        left = sum(len(key) + len(row) for key, row in reader.rows(REMOVALS))
    assert left < 20


def test_a_search_no_longer_finds_what_went(store: GrainStore) -> None:
    store.put_many([reading(n, NEW if n % 2 else OLD) for n in range(40)])
    assert len(store.search("lamps", limit=100)) == 40
    assert store.privacy.run_due().expired == 20
    found = store.search("lamps", limit=100)
    assert {hit.grain["created_at"] % DAY % 2 for hit in found} == {1} and len(found) == 20


def test_an_erasure_marks_what_names_a_grain(store: GrainStore) -> None:
    """A grain that an event or a state names has an event of its own, under its mark."""
    first = store.put(reading(1, NEW, user_id="ann"))
    second = store.supersede(first, reading(2, NEW, user_id="bob"))
    third = store.put(reading(3, NEW, user_id="bob"))
    assert store.privacy.erase(["bob"], reason_code="request").erased == 2
    changes = list(store.changes())
    assert [c.kind for c in changes] == ["put", "supersede", "delete", "remove"]
    assert not {second, third} & {change.address for change in changes}
    assert changes[-1].removed == ((4, 4),)
    assert store.status(first).superseded_by is not None
    assert store.maintenance.check().ok
    with pytest.raises(err.ErasedError):
        store.put(reading(3, NEW, user_id="bob"))


def test_large_batches_have_one_tag(tmp_path: Path) -> None:
    with og.open(tmp_path / "memory.omsg") as store:
        store.put_many([reading(n, user_id="ann") for n in range(1_200)])
        assert store.privacy.erase(["ann"], reason_code="request").erased == 1_200
        assert [e.count for e in store.audit.entries() if e.operation == "erase"] == [0, 1_200]
        assert store.audit.verify().ok


def test_ranges_come_back() -> None:
    rng = random.Random(7)
    for share in (0.01, 0.5, 0.99):
        seqs = [n for n in range(1, 3_000) if rng.random() < share]
        row = pack_ranges(ranges(seqs))
        assert [n for a, b in ranges_of(row) for n in range(a, b + 1)] == seqs
        assert len(row) <= 2 * len(seqs)
    assert len(pack_ranges(ranges(range(5, 100_000)))) == 4
    assert ranges([]) == []


@pytest.mark.parametrize(
    "row", [b"", b"\x80", b"\x03", b"\x03\x00", b"\x03\x80", b"\xff" * 12, b"\x02\xff\xff"]
)
def test_a_damaged_row_is_refused(row: bytes) -> None:
    with pytest.raises(err.IntegrityError):
        ranges_of(row)


@pytest.mark.parametrize(
    ("number", "row"),
    [(3, b"\x80"), (3, pack_ranges([(1, 1)])), (9, pack_ranges([(2, 2)])), (3, b"\x08")],
)
def test_the_check_finds_a_batch_that_makes_no_sense(
    tmp_path: Path, number: int, row: bytes
) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        store.put_many([reading(n, user_id=f"u{n}") for n in range(2)])
        store.privacy.erase(["u1"], reason_code="request")
    assert check(path).ok
    storage = LmdbStorage(path)
    storage.write(lambda writer: writer.set_row(REMOVALS, SEQUENCE.pack(number), row))
    storage.close()
    assert any("removals-0" in problem.message for problem in check(path).problems)


def test_an_audit_trail_of_batches_is_short(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        store.put_many([reading(n, user_id="ann") for n in range(2_000)])
        store.privacy.erase(["ann"], reason_code="request")
        with below(store).read() as reader:
            assert sum(len(row) for _, row in reader.rows(AUDIT)) < 1_000
