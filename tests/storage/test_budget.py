# SPDX-License-Identifier: Apache-2.0
"""A store with little memory: what may be asked for, that all works, and that the bound holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import OmsError, RangeError, SchemaError
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.location import LEAST, Budget, budget_of
from support.child_process import run
from support.shell import Shell, belief, lines
from support.store_contract import StoreContract, make_pairs, pair, put


class TestSmallestLmdbStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Storage]:
        store = LmdbStorage(tmp_path / "memory.omsg", budget=budget_of(LEAST))
        yield store
        store.close()


@pytest.mark.parametrize(
    ("memory", "found"),
    [("16MiB", 16 << 20), ("64MB", 64_000_000), ("64 mb", 64_000_000), (" 1GiB ", 1 << 30),
     ("20000000", 20_000_000), ("17000 KB", 17_000_000), (LEAST, LEAST), (1 << 40, 1 << 40)],
)  # fmt: skip
def test_what_may_be_asked_for(memory: int | str, found: int) -> None:
    assert budget_of(memory) == Budget.of(found)


def test_without_one_nothing_is_less() -> None:
    whole = budget_of(None)
    assert whole == Budget()
    large = Budget.of(1 << 40)
    assert (large.run, large.counts, large.text) == (whole.run, whole.counts, whole.text)


@pytest.mark.parametrize(
    ("memory", "error"),
    [("", SchemaError), ("MB", SchemaError), ("-5MB", SchemaError), ("1.5GB", SchemaError),
     ("64 parsecs", SchemaError), ("٦٤MB", SchemaError), ("64MB!", SchemaError),
     (64.0, SchemaError), (True, SchemaError), (b"64MB", SchemaError), (["64MB"], SchemaError),
     ("9" * 16, SchemaError), (0, RangeError), (-1, RangeError), (LEAST - 1, RangeError),
     ("15MiB", RangeError), ("16MB", RangeError), ((1 << 40) + 1, RangeError)],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, memory: int | str, error: type[OmsError]) -> None:
    with pytest.raises(error) as caught:
        og.open(tmp_path / "memory.omsg", memory_limit=memory)
    assert caught.value.field == "/memory_limit"
    assert not (tmp_path / "memory.omsg").exists()


def test_more_memory_is_never_less_of_anything() -> None:
    before = Budget.of(LEAST)
    for memory in range(LEAST, 64 * LEAST, LEAST // 2):
        budget = Budget.of(memory)
        assert budget.tightened(before) == before
        assert min(getattr(budget, name) for name in budget.__slots__) > 0
        before = budget


def test_the_index_is_written_in_short_runs(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    few = budget_of(LEAST).run
    with og.open(path, memory_limit=LEAST) as store:
        report = store.put_many(
            (belief(n) for n in range(2 * few + 10)), errors="collect", batch_size=10**6
        )
        assert report.stored == 2 * few + 10
        assert store.stats().watermark == 2 * few
        assert store.search("s3", limit=1).results[0].grain["subject"] == "s3"
        assert store.query(subject=f"s{2 * few + 5}").results


def test_handles_that_share_a_store_share_the_tightest(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    few = budget_of(LEAST).run
    wide = LmdbStorage(path)
    tight = LmdbStorage(path, budget=budget_of(LEAST))
    put(wide, *make_pairs(few))
    assert wide.stats().watermark == few
    tight.close()
    put(wide, *make_pairs(few, seed=2))
    assert wide.stats().watermark == 2 * few
    wide.close()


def test_on_the_command_line(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell, path = Shell(capfdbinary, monkeypatch), tmp_path / "memory.omsg"
    opened: list[object] = []
    plain = og.open

    def noting(path: Path, **given: Any) -> og.GrainStore:
        opened.append(given["memory_limit"])
        return plain(path, **given)

    monkeypatch.setattr(og, "open", noting)
    monkeypatch.setenv("OMSGRAIN_MEMORY", "32MiB")
    assert shell("ingest", path, stdin=lines(belief(1))) == 0
    assert shell("stats", path, "--memory", "16MiB") == 0
    assert opened == ["32MiB", "16MiB"]
    code, error = shell.error("stats", path, "--memory", "1MB")
    assert (code, error["code"], error["field"]) == (24, "ERR_RANGE", "--memory")


def test_the_map_grows_by_small_steps(tmp_path: Path) -> None:
    store = LmdbStorage(tmp_path / "memory.omsg", budget=budget_of(LEAST))
    assert store.stats().map_bytes == LEAST
    for seed in range(2):  # 10 MiB each
        put(store, *(pair(bytes([seed, n]) * (512 << 10)) for n in range(10)))
    assert LEAST < store.stats().map_bytes <= 4 * LEAST
    store.close()


BOUND = """
import random, sqlite3, sys, threading
import omsgrain as og
import omsgrain.store, omsgrain.query.query, omsgrain.search.text_file
import omsgrain.storage.lmdb.storage


def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def watch():
    global peak
    while not ended.wait(0.005):
        peak = max(peak, anonymous())


def grain(n):
    return {"type": "belief", "subject": f"robot-{n % 500}", "relation": "mg:perceives",
            "object": f"shelf {rng.random()}", "confidence": 0.9, "created_at": 1768471200000 + n,
            "namespace": "warehouse", "user_id": f"u{n % 100}", "structural_tags": ["a", "b"]}


path, memory, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, ended = random.Random(1), threading.Event()
peak = before = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
with og.open(path, memory_limit=memory, durability="relaxed") as store:
    store.put_many((grain(n) for n in range(count)), errors="collect")
    for n in range(50):
        store.query(subject=f"robot-{n}")
    store.search("shelf")
ended.set()
watcher.join()
print(peak - before)
"""


def test_the_bound_holds(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        return  # only Linux tells what is in memory and in no file
    taken = int(run(BOUND, tmp_path / "memory.omsg", LEAST, 3_000)[0])
    # Half a bound holds modules that were there before; without one it would be 9 MB already.
    assert 1 << 20 < taken < LEAST // 2
