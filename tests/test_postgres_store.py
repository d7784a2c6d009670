# SPDX-License-Identifier: Apache-2.0
"""The store in PostgreSQL: the contract, for roles of both kinds, and what is particular to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from child import run
from facts import ALL, WHICH, change, facts, put, remove, retract, seqs, split
from omsgrain._core import term
from omsgrain.errors import StoreError
from omsgrain.store.base import Store, Writer
from omsgrain.store.lmdb import LmdbStore
from omsgrain.store.postgres import PostgresStore, counting, migrating
from omsgrain.store.state import State
from omsgrain.store.tables import BLIND, HELD, META, NOTES
from store_contract import StoreContract, contents, make_pairs
from store_contract import put as put_pairs
from test_state import walk

if TYPE_CHECKING:
    from servers.postgres import Postgres

pytestmark = pytest.mark.services


@pytest.fixture(scope="session")
def service(postgres: Postgres) -> str:
    """A database whose tables belong to a role that row-level security holds for."""
    postgres.run("CREATE ROLE service LOGIN")
    url = postgres.database()
    postgres.run(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO service")
    return url.replace("postgres@", "service@")


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.shared


@pytest.fixture
def tenant(postgres: Postgres) -> str:
    return postgres.tenant()


@pytest.fixture
def store(url: str, tenant: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url, tenant=tenant)
    yield store
    store.close()


class TestPostgresStore(StoreContract):
    """As a superuser, who may COPY."""

    @pytest.fixture
    def store(self, url: str, tenant: str) -> Iterator[Store]:
        store = PostgresStore(url, tenant=tenant)
        assert store._copies
        yield store
        store.close()


class TestServicePostgresStore(StoreContract):
    """As a role that row-level security holds for, so that it INSERTs."""

    @pytest.fixture
    def store(self, service: str, tenant: str) -> Iterator[Store]:
        store = PostgresStore(service, tenant=tenant, durability="relaxed")
        assert not store._copies
        yield store
        store.close()


@pytest.mark.parametrize("kind", ["superuser", "service"])
def test_against_a_model(
    kind: str, url: str, service: str, tenant: str, request: pytest.FixtureRequest
) -> None:
    where = url if kind == "superuser" else service
    for seed in range(50 if request.config.getoption("--long") else 3):
        walk(partial(PostgresStore, where, tenant=f"{tenant}.{seed}"), True, Random(seed))


# --- what is counted, what is walked -------------------------------------------------------------


def test_terms_that_many_have_are_counted_in_rows(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
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

    other = PostgresStore(url, tenant=store.tenant)
    put(other, *grains[150:])  # it has yet to learn which terms are counted
    put(store, grains[1])
    assert counts()[0] == [197, 2, 199]
    assert other.check().ok
    store.rebuild()
    put(other, *facts(10, start=300))
    other.close()
    assert counts()[0] == [207, 2, 209]
    assert store.check().ok


def test_a_walk_of_many_pages_while_others_ask(store: PostgresStore) -> None:
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


def test_round_trips_of_a_walk(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, *facts(500))
    with store.read() as reader:
        asked: list[str] = []
        inner = reader._run

        def counted(text: str, *params: Any) -> list[tuple[Any, ...]]:
            asked.append(text)
            return inner(text, *params)

        monkeypatch.setattr(reader, "_run", counted)
        places = list(reader.places(ALL, None, True, "current"))
        room = term("subject", "room 2")
        assert sum(reader.has_term(room, place, "current") for place in places) == 166
        assert not any(reader.is_past(int.from_bytes(place[12:], "big")) for place in places)
        assert len(asked) <= 15


def test_a_walk_ends_with_its_snapshot(store: PostgresStore) -> None:
    put(store, *facts(50))
    with store.read() as reader:
        places, rows = reader.places(ALL, None, True), reader.rows(NOTES)
        next(places)
    for walk_on in (lambda: list(places), lambda: list(rows), lambda: reader.blob_at(1)):
        with pytest.raises(StoreError):
            walk_on()


def test_a_page_ends_where_it_is_large(store: PostgresStore) -> None:
    put_pairs(store, *[(bytes([n]) * 32, bytes(3 << 20)) for n in range(4)])
    with store.read() as reader:
        assert [seq for seq, _ in reader.page(0)] == [1, 2]
        assert reader.blob_at(4) == bytes(3 << 20)


# --- several writers -----------------------------------------------------------------------------


def test_writers_in_many_processes(store: PostgresStore, url: str) -> None:
    """Numbers have no gaps, whenever one looks: none is seen before those below it."""
    code = """
        import sys
        from facts import facts, put
        from omsgrain.store.postgres import PostgresStore
        store = PostgresStore(sys.argv[1], tenant=sys.argv[2])
        for n in range(40):
            put(store, *facts(3, start=int(sys.argv[3]) + 3 * n))
        store.close()
    """
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n" + dedent(code)
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


def test_threads_share_a_commit(store: PostgresStore) -> None:
    inside, go_on = threading.Event(), threading.Event()
    grains = facts(10)
    numbers: list[str | None] = []
    failed: list[Exception] = []

    def hold(writer: Writer) -> None:
        inside.set()
        assert go_on.wait(20)

    def write(n: int) -> None:
        def work(writer: Writer) -> None:
            writer.put([grains[n]])
            if n == 4:
                raise ZeroDivisionError
            numbers.append(writer.one("SELECT pg_current_xact_id()::text WHERE %b > 0"))  # type: ignore[attr-defined]

        try:
            store.write(work)
        except ZeroDivisionError as error:
            failed.append(error)

    def together(some: range) -> None:
        inside.clear()
        go_on.clear()
        threads = [threading.Thread(target=store.write, args=(hold,))]
        threads[0].start()
        assert inside.wait(20)
        for n in some:
            threads.append(threading.Thread(target=write, args=(n,)))
            threads[-1].start()
        while len(store._turns._queue._waiting) < len(some):
            pass
        go_on.set()
        for thread in threads:
            thread.join()

    together(range(3))
    assert (len(numbers), len(set(numbers))) == (3, 1)
    numbers.clear()
    together(range(3, 6))
    assert len(failed) == 1
    assert [blob for _, blob in sorted(contents(store))] != []
    with store.read() as reader:
        found = reader.find([digest for digest, _ in grains])
    assert [seq is not None for seq in found] == [True] * 4 + [False, True] + [False] * 4


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_clash_is_tried_again(store: PostgresStore, code: str) -> None:
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


def test_a_turn_that_does_not_end(url: str, tenant: str, store: PostgresStore) -> None:
    other = PostgresStore(url, tenant=tenant, patience=0.05)

    def work(writer: Writer) -> None:
        with pytest.raises(StoreError) as caught:
            put(other, *facts(1))
        assert "another writer" in str(caught.value)

    store.write(work)
    assert put(other, *facts(1)) == [1]
    other.close()


def test_all_connections_in_use(url: str, tenant: str) -> None:
    store = PostgresStore(url, tenant=tenant, pool_size=2, patience=0.05)
    with store.read(), store.read():
        with pytest.raises(StoreError) as caught, store.read():
            pass
        assert caught.value.found == "2 open"
    put(store, *facts(1))
    store.close()


# --- opening -------------------------------------------------------------------------------------


def test_everything_is_there_after_reopening(url: str, tenant: str) -> None:
    pairs = make_pairs(300)
    store = PostgresStore(url, tenant=tenant, durability="relaxed")
    put_pairs(store, *pairs)
    store.sync()
    before = contents(store)
    store.close()
    for readonly in (True, False):
        store = PostgresStore(url, tenant=tenant, readonly=readonly)
        assert store.readonly == readonly
        assert contents(store) == before
        if readonly:
            with pytest.raises(StoreError):
                put_pairs(store, *pairs)
            for call in (store.flush, store.rebuild, store.compact):
                with pytest.raises(StoreError):
                    call()
        store.close()


def test_readonly_makes_nothing(postgres: Postgres) -> None:
    url = postgres.database()
    with pytest.raises(StoreError):
        PostgresStore(url, readonly=True)
    assert postgres.run("SELECT 1 FROM pg_namespace WHERE nspname = 'omsgrain'", url) == []
    PostgresStore(url).close()
    with pytest.raises(StoreError):
        PostgresStore(url, tenant="nobody", readonly=True)
    PostgresStore(url, readonly=True).close()


@pytest.mark.parametrize("partitions", [0, 3])
def test_partitions(postgres: Postgres, partitions: int) -> None:
    url = postgres.database()
    store = PostgresStore(url, partitions=partitions)
    put(store, *facts(100))
    retract(store, 3)
    with store.read() as reader:
        assert split(reader)[1] == [3]
    assert store.check().ok
    assert store.rebuild().grains == 100
    store.close()
    text = "SELECT count(*) FROM pg_class WHERE relname LIKE 'terms_%' AND relkind = 'r'"
    assert postgres.run(text, url) == [(partitions,)]


def test_schema_versions(postgres: Postgres) -> None:
    url = postgres.database()
    PostgresStore(url).close()
    assert postgres.run("SELECT max(version) FROM omsgrain.versions", url) == [
        (migrating.VERSION,)
    ]
    postgres.run(f"INSERT INTO omsgrain.versions VALUES ({migrating.VERSION + 1})", url)
    for readonly in (True, False):
        with pytest.raises(StoreError) as caught:
            PostgresStore(url, readonly=readonly)
        assert "newer" in caught.value.message
    postgres.run(f"DELETE FROM omsgrain.versions WHERE version > {migrating.VERSION}", url)
    postgres.run("UPDATE omsgrain.stores SET format = 99", url)
    with pytest.raises(StoreError) as caught:
        PostgresStore(url)
    assert "newer" in caught.value.message


def test_an_older_schema_is_brought_up(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.database()
    store = PostgresStore(url)
    put(store, *facts(3))
    store.close()

    def second(*_: object) -> Iterator[str]:
        yield "CREATE TABLE omsgrain.later (n integer)"

    monkeypatch.setattr(migrating, "_STEPS", (*migrating._STEPS, second))
    monkeypatch.setattr(migrating, "VERSION", migrating.VERSION + 1)
    with pytest.raises(StoreError):
        PostgresStore(url, readonly=True)
    store = PostgresStore(url)
    assert store.stats().grains == 3
    store.close()
    assert postgres.run("SELECT * FROM omsgrain.later", url) == []
    PostgresStore(url, readonly=True).close()


def test_many_open_a_new_database_at_once(postgres: Postgres) -> None:
    url = postgres.database()
    errors: list[Exception] = []

    def opened(n: int) -> None:
        try:
            store = PostgresStore(url, tenant=("one", "two")[n % 2])
            put(store, *facts(1, start=n))
            store.close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=opened, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(error) for error in errors] == []
    for tenant in ("one", "two"):
        store = PostgresStore(url, tenant=tenant)
        assert store.stats().grains == 2
        store.close()


def test_use_after_fork_is_refused_and_reopening_works(url: str, tenant: str) -> None:
    code = """
        import os, sys
        from omsgrain.errors import StoreError
        from omsgrain.store.postgres import PostgresStore
        store = PostgresStore(sys.argv[1], tenant=sys.argv[2])
        def put(store, n):
            pair = (bytes([n]) * 32, bytes([n]))
            return store.write(lambda writer: writer.put([pair]))
        put(store, 1)
        child = os.fork()
        if not child:
            for call in (store.stats, store.sync, store.check, lambda: put(store, 9)):
                try:
                    call()
                    os._exit(1)
                except StoreError:
                    pass
            store.close()
            again = PostgresStore(sys.argv[1], tenant=sys.argv[2])
            put(again, 2)
            again.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the child failed"
        print(put(store, 3), store.stats().grains)
        store.close()
    """
    assert run(code, url, tenant) == ["[True] 3"]


# --- upkeep --------------------------------------------------------------------------------------


def test_a_backup_is_a_store_on_disk(store: PostgresStore, tmp_path: Path) -> None:
    grains = facts(40)
    put(store, *grains[:30])
    retract(store, 3, 4)
    remove(store, 7)
    store.write(lambda writer: writer.event(HELD, 2, grains[1][0]))
    put(store, *grains[30:], grains[6])
    store.write(lambda writer: writer.set_rows(BLIND, [(b"k" * 24, b"p" * 16)]))
    store.write(lambda writer: writer.set_row(META, b"name", b"value"))
    store.backup(tmp_path / "copy.omsg")
    with pytest.raises(StoreError):
        store.backup(tmp_path / "copy.omsg")
    copy = LmdbStore(tmp_path / "copy.omsg", readonly=True)
    with store.read() as reader, copy.read() as copied:
        assert copied.last_seq() == reader.last_seq()
        assert copied.page(0) == reader.page(0)
        assert split(copied) == split(reader)
        for table in (NOTES, BLIND):
            assert list(copied.rows(table)) == list(reader.rows(table))
        assert copied.row(META, b"name") == b"value"
        digests = [digest for digest, _ in grains]
        assert copied.find(digests) == reader.find(digests)
    assert copy.stats().grains == store.stats().grains == 40
    copy.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["copy.omsg"]


def test_compact_frees_what_was_removed(postgres: Postgres) -> None:
    url = postgres.database()
    store = PostgresStore(url, partitions=2)
    put_pairs(store, *make_pairs(2_000))
    remove(store, *range(1, 1_900))
    before = store.stats()
    report = store.compact()
    assert report.after < report.before - 300_000
    assert store.stats().grains == before.grains == 101
    store.close()
    postgres.run("CREATE ROLE other LOGIN")
    store = PostgresStore(url)
    store.admit("other")
    store.close()
    store = PostgresStore(url.replace("postgres@", "other@"))
    with pytest.raises(StoreError):
        store.compact()
    store.close()


DAMAGE = {
    "blob": "UPDATE omsgrain.blobs SET blob = blob || 'x'::bytea WHERE store_id = {} AND seq = 2",
    "address": "UPDATE omsgrain.addresses SET seq = 3 WHERE store_id = {} AND seq = 2",
    "term": "DELETE FROM omsgrain.terms WHERE store_id = {} AND get_byte(place, 15) = 2",
    "head": "UPDATE omsgrain.heads SET grains = 9 WHERE store_id = {}",
    "state": "INSERT INTO omsgrain.states_0 VALUES ({}, '\\x0000000000000009', '\\x0280')",
}


@pytest.mark.parametrize("where", list(DAMAGE))
def test_check_and_rebuild(store: PostgresStore, postgres: Postgres, url: str, where: str) -> None:
    put(store, *facts(5))
    retract(store, 4)
    assert store.check().ok
    with store.read() as reader:
        before = {which: [*reader.keys(b"", which)] for which in WHICH}
        places = split(reader)
    postgres.run(DAMAGE[where].format(store.store_id), url)
    report = store.check()
    assert not report.ok
    assert where in {problem.where for problem in report.problems}
    rebuilt = store.rebuild()
    assert rebuilt.damaged == ((2,) if where == "blob" else ())
    assert rebuilt.readdressed == (where == "address")
    assert store.check().ok == (where in ("address", "term", "head"))
    if where not in ("blob", "state"):
        with store.read() as reader:
            assert {which: [*reader.keys(b"", which)] for which in WHICH} == before
            assert split(reader) == places


def test_a_grain_damaged_in_its_table_is_removed_whole(
    store: PostgresStore, postgres: Postgres, url: str
) -> None:
    put(store, *facts(3))
    postgres.run(DAMAGE["blob"].format(store.store_id), url)
    remove(store, 2)
    with store.read() as reader:
        assert split(reader) == ([1, 3], [])
        assert list(reader.keys(term("object", "lamp 1"))) == []
    report = store.check()
    assert {problem.where for problem in report.problems} == {"head"}  # its bytes were other ones


def test_states_of_grains_that_wait(store: PostgresStore) -> None:
    """What a work puts and changes at once is sent in one go."""
    grains = facts(4)

    def work(writer: Writer) -> None:
        writer.put(grains)
        change(writer, 2, State(restricted=True))
        change(writer, 3, State(restricted=True))
        change(writer, 3, State())

    store.write(work)
    with store.read() as reader:
        assert split(reader) == ([1, 3, 4], [2])
    assert store.check().ok
