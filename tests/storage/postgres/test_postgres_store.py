# SPDX-License-Identifier: Apache-2.0
"""The store in PostgreSQL: the contract, for roles of both kinds, and what is particular to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from omsgrain._core import term
from omsgrain.errors import StoreError
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.postgres import PostgresStorage
from omsgrain.storage.postgres import writer as counting
from omsgrain.storage.postgres.writer import PostgresWriter
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.tables import NOTES
from support.child_process import run
from support.paths import TESTS
from support.shared_commits import shared
from support.small_grains import ALL, WHICH, change, facts, put, remove, retract, seqs, split
from support.state_model import walk
from support.store_contract import StoreContract
from support.store_contract import put as put_pairs

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services


@pytest.fixture(scope="session")
def service(postgres: Postgres) -> str:
    """A database whose tables belong to a role that row-level security holds for."""
    postgres.run("CREATE ROLE service LOGIN")
    url = postgres.database()
    postgres.run(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO service")
    return url.replace("postgres@", "service@")


class TestPostgresStore(StoreContract):
    """As a superuser, whom row-level security does not hold for."""

    @pytest.fixture
    def store(self, url: str, tenant: str) -> Iterator[Storage]:
        store = PostgresStorage(url, tenant=tenant)
        yield store
        store.close()


class TestServicePostgresStore(StoreContract):
    """As a role that row-level security holds for."""

    @pytest.fixture
    def store(self, service: str, tenant: str) -> Iterator[Storage]:
        store = PostgresStorage(service, tenant=tenant, durable=False)
        yield store
        store.close()


@pytest.mark.parametrize("kind", ["superuser", "service"])
def test_against_a_model(
    kind: str, url: str, service: str, tenant: str, request: pytest.FixtureRequest
) -> None:
    where = url if kind == "superuser" else service
    for seed in range(50 if request.config.getoption("--long") else 1):
        walk(partial(PostgresStorage, where, tenant=f"{tenant}.{seed}"), True, Random(seed))


# --- what is counted, what is walked -------------------------------------------------------------


def test_terms_that_many_have_are_counted_in_rows(
    store: PostgresStorage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MANY", 20)
    monkeypatch.setattr(counting, "_SEEN", 3)  # one grain of four

    def counts() -> list[list[int]]:
        keys = (ALL, term("subject", "room 1"), term("object", "lamp 1"))
        with store.read() as reader:
            found = [[reader.term_count(key, which) for which in WHICH] for key in keys]
            listed = [[len(list(reader.places(k, None, True, w))) for w in WHICH] for k in keys]
        assert found == listed
        return found

    grains = facts(200)
    put(store, *grains[:100])
    assert ALL in store._counts.keys
    assert term("object", "lamp 1") not in store._counts.keys
    retract(store, 1, 2, 3)
    remove(store, 2, 50)
    put(store, *grains[100:150])
    assert counts() == [[146, 2, 148], [48, 0, 48], [0, 0, 0]]

    other = PostgresStorage(url, tenant=store.tenant)
    put(other, *grains[150:])  # it has yet to learn which terms are counted
    put(store, grains[1])
    assert counts()[0] == [197, 2, 199]
    assert other.check().ok
    store.rebuild()
    put(other, *facts(10, start=300))
    other.close()
    assert counts()[0] == [207, 2, 209]
    assert store.check().ok


def test_a_walk_of_many_pages_while_others_ask(store: PostgresStorage) -> None:
    """Questions are put for all grains of a page at once; the answers are the same."""
    put(store, *facts(700))
    retract(store, *range(10, 700, 9))
    remove(store, 5, 600)
    with store.read() as reader, store.read() as plain:
        plain._ahead = None
        room = term("subject", "room 2")
        for which in WHICH:
            for newest in (False, True):
                met = 0
                for place in reader.places(ALL, None, newest, which):
                    seq = int.from_bytes(place[12:], "big")
                    assert reader.has_term(room, place, which) == ((seq - 1) % 3 == 2)
                    assert reader.is_past(seq) == plain.is_past(seq)
                    if seq % 7 == 0:
                        assert reader.blob_at(seq) == plain.blob_at(seq)
                    met += 1
                assert met == plain.term_count(ALL, which)
        assert not reader.has_term(room, bytes(16))
        assert reader.blob_at(5) is None


def test_round_trips_of_a_walk(store: PostgresStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, *facts(500))
    with store.read() as reader:
        asked: list[str] = []
        inner = reader.run

        def counted(text: str, *params: Any) -> list[tuple[Any, ...]]:
            asked.append(text)
            return inner(text, *params)

        monkeypatch.setattr(reader, "run", counted)
        places = list(reader.places(ALL, None, True, "current"))
        room = term("subject", "room 2")
        assert sum(reader.has_term(room, place, "current") for place in places) == 166
        assert not any(reader.is_past(int.from_bytes(place[12:], "big")) for place in places)
        assert len(asked) <= 15


def test_grains_are_read_together_up_to_the_first_that_is_absent(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    grains = facts(400)
    put(store, *grains[:390])
    remove(store, 300)
    with store.read() as reader:
        asked: list[str] = []
        inner = reader.run

        def counted(text: str, *params: Any) -> list[tuple[Any, ...]]:
            asked.append(text)
            return inner(text, *params)

        monkeypatch.setattr(reader, "run", counted)
        some = grains[:10] + grains[5:299]  # some twice
        found = reader.named_many([digest for digest, _ in some])
        assert [grain and grain.blob for grain in found] == [blob for _, blob in some]
        assert len(asked) == 3
        found = reader.named_many([digest for digest, _ in grains])
        assert len(found) == 300 and found[-1] is None


def test_a_walk_ends_with_its_snapshot(store: PostgresStorage) -> None:
    put(store, *facts(50))
    with store.read() as reader:
        places, rows = reader.places(ALL, None, True), reader.rows(NOTES)
        next(places)
    for walk_on in (lambda: list(places), lambda: list(rows), lambda: reader.blob_at(1)):
        with pytest.raises(StoreError):
            walk_on()


def test_a_page_ends_where_it_is_large(store: PostgresStorage) -> None:
    put_pairs(store, *[(bytes([n]) * 32, bytes(3 << 20)) for n in range(4)])
    with store.read() as reader:
        assert [seq for seq, _ in reader.page(0)] == [1, 2]
        assert reader.blob_at(4) == bytes(3 << 20)


# --- several writers -----------------------------------------------------------------------------


def test_writers_in_many_processes(store: PostgresStorage, url: str) -> None:
    """Numbers have no gaps, whenever one looks: none is seen before those below it."""
    code = """
        import sys
        from support.small_grains import facts, put
        from omsgrain.storage.postgres import PostgresStorage
        store = PostgresStorage(sys.argv[1], tenant=sys.argv[2])
        for n in range(40):
            put(store, *facts(3, start=int(sys.argv[3]) + 3 * n))
        store.close()
    """
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n" + dedent(code)
    threads = [
        threading.Thread(target=run, args=(code, url, store.tenant, 1_000 * n)) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with store.read() as reader:
            last = reader.last_seq()
            assert [seq for seq, _ in reader.page(0)] == list(range(1, last + 1))
            assert len(seqs(reader)) == reader.count() == last
    assert store.stats().grains == 360
    assert store.check().ok


def test_threads_share_a_commit(store: PostgresStorage) -> None:
    grains = facts(10)
    numbers: list[str | None] = []

    def work_on(n: int) -> Callable[[PostgresWriter], None]:
        def work(writer: PostgresWriter) -> None:
            writer.put([grains[n]])
            if n == 4:
                raise ZeroDivisionError
            numbers.append(writer.one("SELECT pg_current_xact_id()::text WHERE $1 > 0"))

        return work

    assert shared(store, *map(work_on, range(3))) == [None] * 3
    assert (len(numbers), len(set(numbers))) == (3, 1)
    done, failed, last = shared(store, *map(work_on, range(3, 6)))
    assert done is last is None and isinstance(failed, ZeroDivisionError)
    with store.read() as reader:
        found = reader.find([digest for digest, _ in grains])
    assert [seq is not None for seq in found] == [True] * 4 + [False, True] + [False] * 4


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_clash_is_tried_again(store: PostgresStorage, code: str) -> None:
    grains = facts(2)
    runs = []

    def work(writer: Writer) -> list[bool]:
        runs.append(writer.count())
        flags = writer.put(grains)
        if len(runs) < 3:
            raised = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"
            with pytest.raises(psycopg.Error):
                writer.run(raised)  # type: ignore[attr-defined]
        return flags

    assert store.write(work) == [True, True]
    assert runs == [0, 0, 0]
    assert store.stats().grains == 2


@pytest.mark.parametrize("patience", [0, 0.0001, 0.05])
def test_a_turn_that_does_not_end(
    url: str, tenant: str, store: PostgresStorage, patience: float
) -> None:
    other = PostgresStorage(url, tenant=tenant, patience=patience, timeout=3)

    def work(writer: Writer) -> None:
        with pytest.raises(StoreError) as caught:
            put(other, *facts(1))
        assert caught.value.found == "LockNotAvailable (55P03)"

    store.write(work)
    assert put(other, *facts(1)) == [1]
    other.close()


def test_all_connections_in_use(url: str, tenant: str) -> None:
    store = PostgresStorage(url, tenant=tenant, pool_size=2, patience=0.05)
    with store.read() as first, store.read() as second, store.read() as third:
        assert first.count() == second.count() == 0
        with pytest.raises(StoreError) as caught:
            third.count()
        assert caught.value.found == "2 open"
    put(store, *facts(1))
    store.close()


def test_states_of_grains_that_wait(store: PostgresStorage) -> None:
    """A transaction sends its puts and changes together."""
    grains = facts(4)

    def work(writer: Writer) -> None:
        writer.put(grains)
        change(writer, 2, GrainStatus(restricted=True))
        change(writer, 3, GrainStatus(restricted=True))
        change(writer, 3, GrainStatus())

    store.write(work)
    with store.read() as reader:
        assert split(reader) == ([1, 3, 4], [2])
    assert store.check().ok
