# SPDX-License-Identifier: Apache-2.0
"""The store in PostgreSQL: opened, brought up to a version, checked, mended, copied."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from omsgrain._core import term
from omsgrain.errors import StoreError
from omsgrain.storage import check
from omsgrain.storage.base import CheckProblem
from omsgrain.storage.check import state_problems
from omsgrain.storage.lmdb import storage
from omsgrain.storage.lmdb.memtable import RUN
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.postgres import PostgresStorage, schema, statements
from omsgrain.storage.postgres.writer import PostgresWriter
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.tables import BLIND, HELD, META, NOTES, SUPERSEDES
from support.child_process import run
from support.small_grains import WHICH, change, facts, key, put, remove, retract, split
from support.store_contract import contents, make_pairs
from support.store_contract import put as put_pairs

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services


# --- opening -------------------------------------------------------------------------------------


def test_everything_is_there_after_reopening(url: str, tenant: str) -> None:
    pairs = make_pairs(300)
    store = PostgresStorage(url, tenant=tenant, durable=False)
    put_pairs(store, *pairs)
    store.flush()
    before = contents(store)
    store.close()
    for readonly in (True, False):
        store = PostgresStorage(url, tenant=tenant, readonly=readonly)
        assert store.readonly == readonly
        assert contents(store) == before
        if readonly:
            with pytest.raises(StoreError):
                put_pairs(store, *pairs)
            for call in (store.flush, store.rebuild, store.compact):
                with pytest.raises(StoreError):
                    call()
        store.close()


def test_a_statement_that_takes_too_long(url: str, tenant: str) -> None:
    store = PostgresStorage(url, tenant=tenant, timeout=0.05)
    with store.read() as reader, pytest.raises(StoreError) as caught:
        reader.all("SELECT pg_sleep(60) WHERE $1 > 0")
    assert caught.value.found == "QueryCanceled (57014)"
    assert put(store, *facts(1)) == [1]
    store.close()


def test_readonly_makes_nothing(postgres: Postgres) -> None:
    url = postgres.database()
    with pytest.raises(StoreError):
        PostgresStorage(url, readonly=True)
    assert postgres.run("SELECT 1 FROM pg_namespace WHERE nspname = 'omsgrain'", url) == []
    PostgresStorage(url).close()
    with pytest.raises(StoreError):
        PostgresStorage(url, tenant="nobody", readonly=True)
    PostgresStorage(url, readonly=True).close()


@pytest.mark.parametrize("partitions", [0, 3])
def test_partitions(postgres: Postgres, partitions: int) -> None:
    url = postgres.database()
    store = PostgresStorage(url, partitions=partitions)
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
    PostgresStorage(url).close()
    assert postgres.run("SELECT max(version) FROM omsgrain.versions", url) == [(schema.VERSION,)]
    text = "UPDATE omsgrain.versions SET version = {} WHERE version > 0"
    for number in (schema.VERSION + 1, schema.VERSION - 1):
        postgres.run(text.format(number), url)
        for readonly in (True, False):
            with pytest.raises(StoreError) as caught:
                PostgresStorage(url, readonly=readonly)
            assert "another version" in caught.value.message
    postgres.run(text.format(schema.VERSION), url)
    postgres.run("UPDATE omsgrain.stores SET format = 99", url)
    with pytest.raises(StoreError) as caught:
        PostgresStorage(url)
    assert "another version" in caught.value.message


def test_the_server_samples_no_values(postgres: Postgres) -> None:
    """ANALYZE would keep them past an erasure."""
    url = postgres.database()
    store = PostgresStorage(url, partitions=2)
    put(store, *facts(30))
    store.close()
    postgres.run("ANALYZE", url)
    sampled = postgres.run(SAMPLED, url)
    assert {str(kind) for _, kind in sampled} == {"bigint", "boolean"}
    assert {name for name, _ in sampled} >= {"blobs", "blobs_0", "addresses", "terms", "heads"}


SAMPLED = (
    "SELECT c.relname, format_type(a.atttypid, NULL) FROM pg_statistic s "
    "JOIN pg_class c ON c.oid = s.starelid "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = s.staattnum "
    "WHERE c.relnamespace = 'omsgrain'::regnamespace AND c.relname NOT IN ('stores', 'versions')"
)


def test_many_open_a_new_database_at_once(postgres: Postgres) -> None:
    url = postgres.database()
    errors: list[Exception] = []

    def opened(n: int) -> None:
        try:
            store = PostgresStorage(url, tenant=("one", "two")[n % 2])
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
        store = PostgresStorage(url, tenant=tenant)
        assert store.stats().grains == 2
        store.close()


def test_use_after_fork_is_refused_and_reopening_works(url: str, tenant: str) -> None:
    code = """
        import os, sys
        from omsgrain.errors import StoreError
        from omsgrain.storage.postgres import PostgresStorage
        store = PostgresStorage(sys.argv[1], tenant=sys.argv[2])
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
            again = PostgresStorage(sys.argv[1], tenant=sys.argv[2])
            put(again, 2)
            again.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the child failed"
        print(put(store, 3), store.stats().grains)
        store.close()
    """
    assert run(code, url, tenant) == ["[True] 3"]


# --- upkeep --------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [16, RUN])
def test_a_backup_is_a_store_on_disk(
    store: PostgresStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    """Also one of so many grains that the copy writes its index while it is made."""
    monkeypatch.setattr(storage, "RUN", run)
    grains = facts(40)
    put(store, *grains[:30])
    retract(store, 3, 4)
    remove(store, 7)
    store.write(lambda writer: writer.event(HELD, 2, grains[1][0]))
    put(store, *grains[30:], grains[6])
    store.write(lambda writer: writer.set_rows(BLIND, [(b"k" * 24 + b"p" * 16, b"")]))
    store.write(lambda writer: writer.set_row(META, b"name", b"value"))
    store.backup(tmp_path / "copy.omsg")
    with pytest.raises(StoreError):
        store.backup(tmp_path / "copy.omsg")
    copy = LmdbStorage(tmp_path / "copy.omsg", readonly=True)
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
    assert [problem.where for problem in copy.check().problems] == ["state"]  # the row in BLIND
    copy.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["copy.omsg"]


def test_compact_with_no_patience_waits_for_no_lock(postgres: Postgres) -> None:
    """Nor do others wait for it: what it waits for keeps them off as well."""
    url = postgres.database()
    store = PostgresStorage(url, partitions=0, patience=0)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE omsgrain.blobs IN ACCESS SHARE MODE")
        with pytest.raises(StoreError) as caught:
            store.compact()
        assert caught.value.found == "LockNotAvailable (55P03)"
    store.close()


def test_compact_frees_what_was_removed(postgres: Postgres) -> None:
    url = postgres.database()
    store = PostgresStorage(url, partitions=2)
    put_pairs(store, *make_pairs(2_000))
    remove(store, *range(1, 1_900))
    before = store.stats()
    report = store.compact()
    assert report.after < report.before - 300_000
    assert store.stats().grains == before.grains == 101
    store.close()
    postgres.run("CREATE ROLE other LOGIN")
    store = PostgresStorage(url)
    store.admit("other")
    store.close()
    store = PostgresStorage(url.replace("postgres@", "other@"))
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
def test_check_and_rebuild(
    store: PostgresStorage, postgres: Postgres, url: str, where: str
) -> None:
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


@pytest.mark.parametrize("key", ["7fffffffffffffff", "8000000000000000", "ffffffffffffffff"])
def test_check_reports_rows_with_invalid_keys(
    store: PostgresStorage, postgres: Postgres, url: str, key: str
) -> None:
    put(store, *facts(2))
    for table, value in (("states_0", "0280"), ("notes_0", "01")):
        text = f"INSERT INTO omsgrain.{table} VALUES ({store.store_id}, '\\x{key}', '\\x{value}')"
        postgres.run(text, url)
    report = store.check()
    seqs = [problem.seq for problem in report.problems if problem.where == "state"]
    assert int(key, 16) in seqs


@pytest.mark.parametrize("damage", ["DELETE FROM", "UPDATE"])
def test_a_rebuild_believes_the_addresses_that_it_mended(
    store: PostgresStorage, postgres: Postgres, url: str, damage: str
) -> None:
    """They name the grain that superseded another."""
    grains = facts(3)
    put(store, *grains)
    successor = grains[1][0].hex()

    def supersede(writer: PostgresWriter) -> None:
        change(writer, 1, GrainStatus(superseded_by=successor, successors=(successor,)))
        writer.set_row(SUPERSEDES, key(2, 1), b"")

    store.write(supersede)
    assert store.check().ok
    what = f"{damage} omsgrain.addresses{' SET seq = 3' * (damage == 'UPDATE')}"
    postgres.run(f"{what} WHERE store_id = {store.store_id} AND seq = 2", url)
    assert not store.check().ok
    assert store.rebuild().readdressed == 1
    assert store.check().problems == ()
    with store.read() as reader:
        assert [found for found, _ in reader.rows(SUPERSEDES)] == [key(2, 1)]


def test_a_check_that_is_cut_short_finds_no_damage(
    store: PostgresStorage, postgres: Postgres
) -> None:
    """A refusal of the server is no damage of the store."""
    put(store, *facts(3))
    with pytest.MonkeyPatch.context() as patched:

        def ended(reader: Any) -> Iterator[CheckProblem]:
            (((process,),),) = reader.ask(("SELECT pg_backend_pid()", ()))
            postgres.run(f"SELECT pg_terminate_backend({process})")
            yield from state_problems(reader)

        patched.setattr(check, "state_problems", ended)
        with pytest.raises(StoreError):
            store.check()
    assert store.check().ok


def test_a_grain_damaged_in_its_table_is_removed_whole(
    store: PostgresStorage, postgres: Postgres, url: str
) -> None:
    put(store, *facts(3))
    postgres.run(DAMAGE["blob"].format(store.store_id), url)
    remove(store, 2)
    with store.read() as reader:
        assert split(reader) == ([1, 3], [])
        assert list(reader.keys(term("object", "lamp 1"))) == []
    report = store.check()
    assert {problem.where for problem in report.problems} == {"head"}  # its bytes were other ones


def test_a_damaged_grain_is_removed_however_long_it_takes(
    store: PostgresStorage, postgres: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its terms are unknown, so all rows of the store are read for them."""
    put(store, *facts(3))
    postgres.run(DAMAGE["blob"].format(store.store_id), url)
    slow = f"{statements.TERMS_BY_NUMBER} AND (SELECT pg_sleep(1.2)) IS NOT NULL"
    monkeypatch.setattr(statements, "TERMS_BY_NUMBER", slow)
    other = PostgresStorage(url, tenant=store.tenant, timeout=0.8)
    remove(other, 2)
    with other.read() as reader:
        assert split(reader) == ([1, 3], [])
    other.close()
