# SPDX-License-Identifier: Apache-2.0
"""A bounded history: what leaves by age and by size, and what stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage import records
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import EVENT, EVENTS, LINEAGES, NAMED, REMOVALS, TOMBSTONES
from omsgrain.store import history_limiter, policy_context
from omsgrain.store.context import Settings, context_of
from omsgrain.store.history_limiter import HistoryLimiter
from omsgrain.store.history_limits import HistoryLimits, duration_of
from support.invented_people import Clock
from support.scale import Scale
from support.store_kinds import POSTGRES, SEALED_POSTGRES, made

TIME = 1_700_000_000_000
HOUR = 3_600_000
KINDS = ["memory", "lmdb", "sealed memory", "sealed lmdb", POSTGRES, SEALED_POSTGRES]


@pytest.fixture
def clock() -> Clock:
    return Clock(TIME)


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[KeyRing]:
    with KeyRing.create(tmp_path / "x.keys", master=bytes(32)) as ring:
        yield ring


@pytest.fixture(params=KINDS)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, ring: KeyRing
) -> Iterator[og.GrainStore]:
    keys = ring if "sealed" in request.param else None
    with og.GrainStore(
        made(request.param, tmp_path / "m.omsg"), Settings(clock=clock, keys=keys)
    ) as store:
        yield store


def reading(n: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "event",
        "content": f"reading {n}",
        "created_at": TIME + n * HOUR,
        "user_id": "ada",
        **more,
    }


def put(store: og.GrainStore, n: int, **more: Any) -> str:
    """Store a reading when it was made."""
    clock = context_of(store).settings.clock
    assert isinstance(clock, Clock)
    clock.now = TIME + n * HOUR
    return store.put(reading(n, **more))


def contents(store: og.GrainStore) -> list[str]:
    return sorted(grain.get("content", grain.type) for grain in store)


LOCKED = {"mode": "locked", "authorized": ["did:web:owner.example"]}


def test_what_must_stay_stays(store: og.GrainStore, clock: Clock) -> None:
    held = put(store, 0)
    put(store, 1, content="locked", invalidation_policy=LOCKED)
    source = put(store, 1, content="source")
    put(store, 1)
    put(store, 2, content="kept for years", retention_policy={"minimum_retention_years": 5})
    for n in range(2, 8):
        put(store, n)
    grant = {
        "type": "consent",
        "subject_did": "did:web:ada.example",
        "grantee_did": "did:web:shop.example",
        "scope": ["email"],
        "is_withdrawal": False,
        "created_at": TIME,
        "namespace": "shop",
        "purpose": "support",
        "basis": "explicit_consent",
        "jurisdiction": "EU",
    }
    store.put(grant)
    store.holds.add(held, authority="did:web:court.example", reason_code="case")
    put(store, 11, content="conclusion", derived_from=[source])
    clock.now = TIME + 12 * HOUR
    preview = store.maintenance.retain(keep="6h", keep_cited=True, dry_run=True)
    report = store.maintenance.retain(keep="6h", keep_cited=True)
    assert (preview.removed, preview.kept) == (report.removed, report.kept)
    stay = ["conclusion", "consent", "kept for years", "locked", "reading 0"]
    assert contents(store) == [*stay, "reading 6", "reading 7", "source"]
    assert report.removed == 5 and dict(report.kept)["cited"] == 1
    assert dict(report.kept)["consent"] == 1 and sum(n for _, n in report.kept) == 5
    assert store.maintenance.retain(keep=timedelta(hours=6)).removed == 1
    assert contents(store) == [*stay, "reading 6", "reading 7"]
    assert store.audit.verify(grains=True).ok and store.maintenance.check().ok


def test_filters_keep_current_grains(store: og.GrainStore, clock: Clock) -> None:
    old = store.put(reading(0, content="map 0", namespace="maps"))
    store.supersede(old, reading(1, content="map 1", namespace="maps"))
    store.put_many([reading(n) for n in range(5)])
    clock.now = TIME + 100 * HOUR
    report = store.maintenance.retain(keep="1d", keep_where={"namespace": "maps"})
    assert (report.removed, report.kept) == (6, (("keep_where", 1),))
    assert contents(store) == ["map 1"]
    assert store.maintenance.check().ok


def test_a_run_leaves_one_entry_and_no_tombstone(store: og.GrainStore, clock: Clock) -> None:
    addresses = [put(store, n) for n in range(9)]
    clock.now = TIME + 100 * HOUR
    store.maintenance.retain(keep="95h", keep_where={"tag": "secret"})
    (entry,) = store.audit.entries(operation="retain")
    assert (entry.count, entry.reason_code) == (5, "history")
    details = {**entry.details}
    assert details.pop("gaps") and details == {
        "keep": 95 * HOUR,
        "keep_where": "tag",
    }
    with context_of(store).inner.read() as reader:
        assert not list(reader.rows(TOMBSTONES)) and not list(reader.rows(EVENTS))
    (change,) = [one for one in store.changes() if one.kind != "put"]
    assert change.kind == "remove" and sum(b - a + 1 for a, b in change.removed) == 5
    back = store.put(reading(0))
    if context_of(store).settings.keys is None:
        assert back == addresses[0]
    assert len(store) == 5


def test_events_and_what_leads_to_them_go_too(store: og.GrainStore, clock: Clock) -> None:
    """Or a ring whose grains are superseded would fill with rows about grains that left."""
    last = store.put(reading(0))
    for n in range(1, 12):
        last = store.supersede(last, reading(n))
    clock.now = TIME + 10 * HOUR
    for keep in ("6h", "3h"):
        store.maintenance.retain(keep=keep)
        with context_of(store).inner.read() as reader:
            there = [seq for seq, _ in reader.page(0)]
            about = [EVENT.unpack(row)[1] for _, row in reader.rows(EVENTS)]
            assert set(about) <= set(there)
        assert store.maintenance.check().ok
    clock.now += 100 * HOUR
    store.maintenance.retain(keep="1h")
    with context_of(store).inner.read() as reader:
        assert [*reader.rows(EVENTS)] == [] and [*reader.rows(NAMED)] == []
    assert store.maintenance.check().ok


def test_what_a_ring_leaves_of_removed_grains_stays_small(
    store: og.GrainStore, clock: Clock
) -> None:
    """Ranges of their numbers, which the rows of later runs take over; and no lineages."""
    last = store.put(reading(0))
    held = store.put(reading(0, content="held"))
    store.holds.add(held, authority="did:web:court.example", reason_code="case")
    for n in range(1, 60):
        last = store.supersede(last, reading(n))
        clock.now = TIME + (n + 2) * HOUR
        if n % 3 == 0:
            store.maintenance.retain(keep="2h")
    with context_of(store).inner.read() as reader:
        rows = [records.ranges_of(row) for _, row in reader.rows(REMOVALS)]
        there = {seq for seq, _ in reader.page(0)}
        gone = {seq for row in rows for a, b in row for seq in range(a, b + 1)}
        assert len(rows) < 10 and sum(map(len, rows)) < 15
        assert not gone & there and len(gone) > 50
        assert len(list(reader.rows(LINEAGES))) < 10
    assert held in store and store.maintenance.check().ok


@given(
    joins=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12),
    gone=st.sets(st.integers(1, 9)),
)
def test_lineages_of_grains_that_are_left_stay_as_they_are(
    joins: list[tuple[int, int]], gone: set[int]
) -> None:
    with og.GrainStore(MemoryStorage()) as store:
        store.put_many([reading(n) for n in range(9)])
        inner = context_of(store).inner
        left = [seq for seq in range(1, 10) if seq not in gone]

        def same(reader: Reader) -> list[bool]:
            return [policy_context.is_same(reader, a, b) for a in left for b in left]

        def work(writer: Writer) -> None:
            for old, new in joins:
                policy_context.join(writer, old, new)
            were = same(writer)
            writer.remove_many(sorted(gone))
            rows = policy_context.forget_lineages(writer, 9)
            assert same(writer) == were
            assert rows == len(list(writer.rows(LINEAGES)))
            while rows and not left:
                before = rows
                rows = policy_context.forget_lineages(writer, 9)
                assert rows < before

        inner.write(work)


def test_states_signatures_and_vectors_go_too(tmp_path: Path, clock: Clock) -> None:
    with og.GrainStore(LmdbStorage(tmp_path / "m.omsg"), Settings(clock=clock)) as store:
        first, second = (store.put(reading(n, content=f"lidar {n}")) for n in range(2))
        store.supersede(first, reading(2))
        store.vectors.add(second, [1.0, 0.0], model="m")
        store.retract(second)
        assert store.search("lidar", current=None).results
        clock.now = TIME + 50 * HOUR
        assert store.maintenance.retain(keep="48h").removed == 2
        assert not store.search("lidar", current=None).results
        assert [grain["content"] for grain in store] == ["reading 2"]
        assert not store.vectors.models() and store.maintenance.check().ok


@pytest.mark.parametrize("where", [None, {"type": "event"}])
def test_encrypted_grains_leave_unopened(
    tmp_path: Path, clock: Clock, ring: KeyRing, where: Any
) -> None:
    path = tmp_path / "m.omsg"
    with og.GrainStore(LmdbStorage(path), Settings(clock=clock, keys=ring)) as store:
        put(store, 1, content="locked", invalidation_policy=LOCKED)
        held = put(store, 2, content="held")
        for n in range(6):
            put(store, n)
        store.holds.add(held, authority="did:web:court.example", reason_code="case")
    clock.now = TIME + 10 * HOUR
    with og.GrainStore(LmdbStorage(path), Settings(clock=clock)) as store:
        report = store.maintenance.retain(keep="6h", keep_where=where)
        if where is None:
            assert (report.removed, dict(report.kept)) == (4, {"hold": 1, "key": 1})
        else:
            assert (report.removed, dict(report.kept)) == (0, {"hold": 1, "key": 5})
    with og.GrainStore(LmdbStorage(path), Settings(clock=clock, keys=ring)) as store:
        assert contents(store)[:2] == ["held", "locked"]
        assert len(store.query(user_id="ada").results) == len(store)
        assert store.maintenance.check().ok and store.audit.verify(grains=True).ok


def test_late_grains_leave_in_the_next_pass(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_limiter, "_AGAIN", 4)
    limits = HistoryLimits.of("6h", None, None, False)
    assert limits is not None
    with og.GrainStore(MemoryStorage(), Settings(clock=clock)) as store:
        limiter = HistoryLimiter(limits)
        limiter.every = 0.0  # it looks each time
        store.put_many([reading(n) for n in range(8)])
        clock.now = TIME + 10 * HOUR
        assert limiter.run(context_of(store))[0] == 4
        store.put(reading(0, content="late"))
        assert limiter.run(context_of(store))[0] == 1


def ring_store(path: Path, **options: Any) -> og.GrainStore:
    return og.open(path, durability="relaxed", max_bytes="16MiB", **options)


def test_a_small_ring_turns_at_one_size(tmp_path: Path, scale: Scale) -> None:
    path, sizes, grains, n = tmp_path / "m.omsg", [], [], 0
    with ring_store(path, keep_where={"namespace": "maps"}) as store:
        store.put(reading(0, content="map", namespace="maps"))
        for _ in range(5):
            for _ in range(5):
                store.put_many([reading(n + i, content="x" * 1_200, session_id=f"s{n + i}")
                                for i in range(1_000)])  # fmt: skip
                n += 1_000
            sizes.append(store.stats().file_bytes)
            grains.append(len(store))
        assert min(grains[2:]) > 7_500  # no more leave than must
        newest = store.query(limit=1).results[0]
        assert max(sizes[2:]) <= 1.1 * min(sizes[2:]) and max(sizes) <= 16 << 20
        assert newest.grain["content"] == "x" * 1_200 and len(store) < 16_000
        assert store.query(namespace="maps").results
        assert store.audit.verify(grains=True).ok
    with og.open(path) as store:
        assert store.maintenance.check().ok
        assert contents(store)[0] == "map"


def test_a_ring_of_encrypted_grains_stays_at_its_size(
    tmp_path: Path, ring: KeyRing, long: bool
) -> None:
    """Their rows are in pages all over the file: a step may not follow another at once."""
    turns = 100 if long else 16
    with ring_store(tmp_path / "m.omsg", keys=ring) as store:
        for turn in range(turns):
            for part in range(20):
                first = 1_000 * turn + 50 * part
                store.put_many(
                    [
                        reading(n, content=f"the reading {n} of a long line", user_id=f"u{n % 9}")
                        for n in range(first, first + 50)
                    ]
                )
        assert len(store) < 1_000 * turns
        assert store.stats().file_bytes <= 16 << 20
        assert store.maintenance.check().ok


def test_a_step_holds_no_more_grains_than_the_memory_should(
    store: og.GrainStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_limiter, "_STEP_BYTES", 1)
    store.put_many([reading(n, session_id=f"s{n}") for n in range(-200, 0)])
    clock.now = TIME + 100 * HOUR
    assert store.maintenance.retain(keep="1h").removed == 200
    removed = [entry.count for entry in store.audit.entries() if entry.operation == "retain"]
    assert max(removed) == history_limiter._TOGETHER  # earlier entries leave with the grains
    assert len(store) == 0


def test_a_full_ring_waits_until_the_pages_of_the_last_run_are_free(tmp_path: Path) -> None:
    limits = HistoryLimits.of(None, "16MiB", None, False)
    assert limits is not None
    with og.open(tmp_path / "m.omsg", durability="relaxed") as store:
        store.put_many([reading(n, content="x" * 900) for n in range(12_000)])
        context, limiter, removed = context_of(store), HistoryLimiter(limits), []
        store.flush()
        for n in range(6):
            removed.append(limiter.run(context, most=1)[0])
            store.put(reading(20_000 + n))
        assert removed[:2] == [0, 0] and sum(removed) == 1_000
        assert store.maintenance.retain(max_bytes="16MiB").complete


def test_the_background_looks_seldom_at_a_full_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(history_limiter, "_LOOK_SECONDS", 1e9)
    limits = HistoryLimits.of(None, "16MiB", None, False)
    assert limits is not None
    with og.open(tmp_path / "m.omsg", durability="relaxed") as store:
        store.put_many([reading(n, content="x" * 900) for n in range(12_000)])
        store.flush()
        for n in range(4):  # commits, until the pages of that run are free
            store.put(reading(20_000 + n))
        context, limiter = context_of(store), HistoryLimiter(limits)
        assert limiter.run(context)[0] == 1_000
        next_page = history_limiter.next_page

        def counted(*given: Any, **more: Any) -> Any:
            looked.append(1)
            return next_page(*given, **more)

        monkeypatch.setattr(history_limiter, "next_page", counted)
        limiter.look(context, lambda: True)
        assert not looked
        limiter.stored(context, 50_000)
        limiter.look(context, lambda: True)
        assert not looked
        # Later on: another process, or what is no grain, may have filled it.
        monkeypatch.setattr(history_limiter, "_LOOK_SECONDS", 0.0)
        limiter.look(context, lambda: True)
        assert len(looked) == 1
        limiter.stored(context, 50_000)
        assert len(looked) == 1
        limiter.stored(context, 20_000)
        assert len(looked) == 2


def test_max_bytes_says_what_cannot_be_bounded(tmp_path: Path) -> None:
    with pytest.raises(err.UnsupportedError) as refused:
        og.open(":memory:", max_bytes="64MB")
    assert refused.value.field == "/max_bytes"
    with og.open(":memory:") as store, pytest.raises(err.UnsupportedError):
        store.maintenance.retain(max_bytes="64MB")
    with og.open(tmp_path / "m.omsg") as store:
        store.put_many([reading(n, content="x" * 900) for n in range(16_000)])
        report = store.maintenance.retain(max_bytes="16MiB", keep_where={"type": "event"})
        assert not report.complete and report.removed == 0


BAD: dict[str, tuple[dict[str, Any], type[err.OmsError], str]] = {
    "no duration": ({"keep": "soon"}, err.SchemaError, "/keep"),
    "a number": ({"keep": 7}, err.SchemaError, "/keep"),
    "nothing": ({"keep": "0d"}, err.RangeError, "/keep"),
    "less": ({"keep": timedelta(-1)}, err.RangeError, "/keep"),
    "for ever": ({"keep": "99999999w"}, err.RangeError, "/keep"),
    "tiny": ({"max_bytes": 1_000}, err.RangeError, "/max_bytes"),
    "no size": ({"max_bytes": "much"}, err.SchemaError, "/max_bytes"),
    "no filter": ({"keep": "1d", "keep_where": {}}, err.SchemaError, "/keep_where"),
    "a list of filters": ({"keep": "1d", "keep_where": ["tag"]}, err.SchemaError, "/keep_where"),
    "unknown": (
        {"keep": "1d", "keep_where": {"colour": "x"}},
        err.SchemaError,
        "/keep_where/colour",
    ),
    "no choice": ({"keep": "1d", "keep_cited": 1}, err.SchemaError, "/keep_cited"),
    "nothing to keep from": ({"keep_cited": True}, err.SchemaError, "/keep"),
    "reading": ({"keep": "1d", "readonly": True}, err.SchemaError, "/keep"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_limits_are_refused(tmp_path: Path, name: str) -> None:
    options, kind, field = BAD[name]
    og.open(tmp_path / "m.omsg").close()
    with pytest.raises(kind) as refused:
        og.open(tmp_path / "m.omsg", **options)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90m", 90 * 60_000),
        ("36h", 36 * HOUR),
        ("7d", 168 * HOUR),
        ("1d12h", 36 * HOUR),
        ("5s", 5_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_of(text) == ms == duration_of(timedelta(milliseconds=ms))


def test_the_oldest_leave_at_close_too(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg", keep="7d") as store:
        store.put_many([reading(n) for n in range(50)])
    with og.open(tmp_path / "m.omsg") as store:
        assert len(store) == 0


def model_of(random: Random, store: og.GrainStore, n: int) -> tuple[str, set[str]]:
    """Put a grain that may have to stay, and say why."""
    why = set[str]()
    more: dict[str, Any] = {}
    if random.random() < 0.1:
        more["invalidation_policy"] = LOCKED
        why.add("policy")
    if random.random() < 0.1:
        more["namespace"] = "maps"
        why.add("where")
    address = store.put(reading(random.randrange(200), content=f"{n}", **more))
    if random.random() < 0.1:
        store.holds.add(address, authority="did:web:court.example", reason_code="case")
        why.add("hold")
    return address, why


def test_random_histories_follow_the_model(clock: Clock, scale: Scale) -> None:
    for seed in range(4 if scale.noise < 10_000 else 40):
        random = Random(seed)
        inner: Storage = MemoryStorage()
        with og.GrainStore(inner, Settings(clock=clock)) as store:
            model: dict[str, tuple[int, set[str]]] = {}
            for turn in range(6):
                for n in range(40):
                    address, why = model_of(random, store, 1_000 * turn + n)
                    model[address] = store.get(address)["created_at"], why
                clock.now = TIME + random.randrange(50, 260) * HOUR
                limits: dict[str, Any] = {"keep": "48h"}
                if by_filter := random.random() < 0.5:
                    limits["keep_where"] = {"namespace": "maps"}
                store.maintenance.retain(**limits)
                horizon = clock.now - 48 * HOUR
                model = {
                    address: (created, why)
                    for address, (created, why) in model.items()
                    if created >= horizon or why - (set() if by_filter else {"where"})
                }
                assert {grain.address for grain in store} == model.keys()
                assert store.audit.verify(grains=True).ok
