# SPDX-License-Identifier: Apache-2.0
"""A store in PostgreSQL loses nothing that had returned: killed clients, killed servers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Literal

import psycopg
import pytest

from omsgrain.errors import StoreError
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.service import Stores
from omsgrain.storage.base import Writer, pages
from omsgrain.storage.lmdb.commit_queue import PendingWrite
from omsgrain.storage.postgres import PostgresStorage
from omsgrain.storage.postgres import storage as turns
from omsgrain.storage.postgres import writer as counting
from omsgrain.storage.postgres.storage import Commits
from omsgrain.storage.postgres.writer import PostgresWriter, TermCounts
from omsgrain.store import GrainStore
from support.paths import TESTS
from support.small_grains import facts, put, retract, split
from support.store_contract import put as put_pairs

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services

# Puts grains, by turns few and many, and says each batch's end once the call has returned.
WRITER = """
import sys
from random import Random
from support.small_grains import facts, put
from omsgrain.storage.postgres import PostgresStorage
random, start = Random(int(sys.argv[3])), int(sys.argv[4])
store = PostgresStorage(sys.argv[1], tenant=sys.argv[2])
grains = facts(5_000, start=start)
print("ready", flush=True)
at = 0
while at < len(grains):
    size = random.choice([1, 3, 200])
    put(store, *grains[at : at + size])
    at += size
    print(min(at, len(grains)), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One that waits for the disk: it is going to be killed."""
    from support.servers.debian import Unavailable
    from support.servers.postgres import Postgres

    try:
        server = Postgres(durable=True)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with server:
        yield server


@pytest.fixture
def url(server: Postgres) -> str:
    return server.shared


@pytest.fixture
def store(server: Postgres, url: str) -> Iterator[PostgresStorage]:
    store = PostgresStorage(url, tenant=server.tenant(), partitions=2)
    yield store
    store.close()


def whole(store: PostgresStorage) -> None:
    """Nothing is half there, and no number is missing."""
    seqs = [entry.seq for page in pages(store) for entry in page if entry.sound]
    assert seqs == list(range(1, store.stats().last_seq + 1))
    report = store.check()
    assert report.ok, report.problems


def test_a_client_killed_in_mid_batch(
    store: PostgresStorage, url: str, request: pytest.FixtureRequest
) -> None:
    random = Random(7)
    path = str(TESTS)
    for seed in range(20 if request.config.getoption("--long") else 3):
        code = f"import sys; sys.path.insert(0, {path!r})\n{WRITER}"
        args = [sys.executable, "-c", code, url, store.tenant, str(seed), str(10_000 * seed)]
        child = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        with child, child.stdout as said:
            assert said.readline() == "ready\n"
            for _ in range(random.randint(1, 15)):
                last = said.readline()
            child.kill()
            rest = said.read().split("\n")[:-1]
        returned = int(rest[-1] if rest else last)
        with store.read() as reader:
            digests = [digest for digest, _ in facts(returned, start=10_000 * seed)]
            assert None not in reader.find(digests)
        put(store, *facts(1, start=10_000 * seed + 9_000))
    whole(store)


@pytest.mark.parametrize("crash", ["kill", "immediate", "fast"])
def test_a_server_that_goes_away_under_writers(
    store: PostgresStorage, server: Postgres, crash: Literal["kill", "immediate", "fast"]
) -> None:
    """Calls wait for it to come back; each takes effect once, and what returned is there."""
    returned: list[list[int]] = [[], []]
    failed: list[Exception] = []
    end, moving = threading.Event(), threading.Event()

    def write(share: int) -> None:
        n = 0
        while not end.is_set():
            try:
                grains = facts(1 + n % 70, start=1_000_000 * share + 100 * n)
                assert all(put_pairs(store, *grains))
            except Exception as error:
                failed.append(error)
                return
            returned[share].append(n)
            n += 1
            if n % 5 == 0:
                moving.set()

    threads = [threading.Thread(target=write, args=(share,)) for share in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        moving.clear()
        assert moving.wait(60) or failed
        if crash == "kill":
            server.kill()
        else:
            server.stop(crash)
        server.start()
    moving.clear()
    assert moving.wait(60) or failed
    end.set()
    for thread in threads:
        thread.join()
    assert [str(error) for error in failed] == []
    with store.read() as reader:
        for share, numbers in enumerate(returned):
            for n in numbers:
                grains = facts(1 + n % 70, start=1_000_000 * share + 100 * n)
                assert None not in reader.find([digest for digest, _ in grains])
        assert reader.count() == sum(1 + n % 70 for numbers in returned for n in numbers)
    whole(store)


def test_a_snapshot_that_lost_its_server(store: PostgresStorage, server: Postgres) -> None:
    put(store, *facts(30))
    with store.read() as reader:
        assert reader.count() == 30
        server.stop("fast")
        server.start()
        with pytest.raises(StoreError):
            reader.blob_at(1)
    with store.read() as reader:
        assert split(reader) == (list(range(1, 31)), [])


def test_a_server_that_stays_away(server: Postgres, url: str) -> None:
    store = PostgresStorage(url, tenant=server.tenant(), patience=0.2)
    stores = Stores(GrainStore(store))
    stores.check_writable()
    server.stop("fast")
    try:
        for call in (store.stats, lambda: put(store, *facts(1))):
            with pytest.raises(StoreError):
                call()
        with pytest.raises(StoreError):
            PostgresStorage(url)
        with pytest.raises(HttpRefusal) as refused:
            stores.check_writable()  # what /readyz of a server asks
        assert (refused.value.status, refused.value.code) == (503, "ERR_STORE")
        assert "database" in str(refused.value.detail)
    finally:
        server.start()
    assert put(store, *facts(1)) == [1]
    store.close()


def test_works_of_a_batch_wait_for_a_server_together(
    server: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are run one by one, after one failed, do not wait one after the other."""
    store = PostgresStorage(url, tenant=server.tenant(), patience=0.2)
    begun: list[int] = []

    def begin(expecting: list[bytes]) -> PostgresWriter:
        begun.append(1)
        return store._begin(expecting)

    def fails(writer: PostgresWriter) -> None:
        if len(begun) == 3:  # together, the first by itself, this one
            server.stop("immediate")
        raise ValueError

    def adds(writer: PostgresWriter) -> list[bool]:
        return writer.put(facts(1))

    members = [PendingWrite(work, False, ()) for work in (adds, fails, adds, adds, adds)]
    try:
        with pytest.raises(StoreError):
            Commits(store._database, begin, store._kept).commit(members)
    finally:
        server.start()
    assert [member.done for member in members] == [True, True, False, False, False]
    assert members[0].result == [True]
    assert isinstance(members[1].error, ValueError)
    assert len(begun) == 4
    assert store.stats().grains == 1
    store.close()


def test_connections_that_were_ended_are_replaced(
    store: PostgresStorage, server: Postgres, url: str
) -> None:
    put(store, *facts(1))
    for _ in range(2):
        with store.read() as one, store.read() as other:
            assert one.count() == other.count()
        end_connections(server)
        assert store.stats().grains == 1
        end_connections(server)
        retract(store, 1)
    assert len(store._database.pool._idle) <= 2


def end_connections(server: Postgres) -> None:
    server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )


@pytest.mark.parametrize(
    ("setting", "inside"),
    [("idle_session_timeout", False), ("idle_in_transaction_session_timeout", True)],
)
def test_connections_that_did_nothing_for_too_long_are_replaced(
    store: PostgresStorage, server: Postgres, setting: str, inside: bool
) -> None:
    """The server ends them by itself, a kept one or one of a snapshot, and says so later."""
    put(store, *facts(1))
    with store.read() as reader:
        (((process,),),) = reader.ask(("SELECT pg_backend_pid()", ()))
        reader.ask((f"SET {setting} = 20", ()))
        if inside:
            ended(server, process)
    ended(server, process)
    assert store.stats().grains == 1
    assert put(store, *facts(1, start=1)) == [2]


def ended(server: Postgres, process: int) -> None:
    while server.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {process}"):
        pass


def test_a_work_that_did_nothing_for_too_long_is_not_run_again(
    store: PostgresStorage, server: Postgres
) -> None:
    runs = []

    def work(writer: Writer) -> None:
        runs.append(1)
        process = writer.one("SELECT pg_backend_pid() WHERE $1 > 0")  # type: ignore[attr-defined]
        writer.run("SET idle_in_transaction_session_timeout = 20")  # type: ignore[attr-defined]
        ended(server, process)
        writer.put(facts(1))

    with pytest.raises(StoreError) as caught:
        store.write(work)
    assert caught.value.found == "IdleInTransactionSessionTimeout (25P03)"
    assert len(runs) == 1
    assert put(store, *facts(1)) == [1]


def test_a_connection_that_breaks_inside_a_work(store: PostgresStorage, server: Postgres) -> None:
    runs = []

    def work(writer: Writer) -> list[bool]:
        runs.append(1)
        flags = writer.put(facts(2))
        if len(runs) == 1:
            end_connections(server)
        writer.put(facts(2, start=5))
        return flags

    assert store.write(work) == [True, True]
    assert len(runs) == 2
    assert store.stats().grains == 4


@pytest.mark.parametrize("between", [False, True])
def test_a_connection_that_breaks_while_terms_are_learnt(
    store: PostgresStorage, server: Postgres, monkeypatch: pytest.MonkeyPatch, between: bool
) -> None:
    """The first write of a process learns which terms are counted, before its work begins."""
    monkeypatch.setattr(counting, "MANY", 5)
    monkeypatch.setattr(counting, "_SEEN", 0)  # every grain is looked at
    put(store, *facts(10))
    store._counts = TermCounts()  # as another process begins
    inner, calls = TermCounts.loaded, []

    def loaded(counts: TermCounts, writer: PostgresWriter) -> TermCounts:
        calls.append(1)
        if len(calls) == 1 and between:
            writer.wire.close()
            raise psycopg.errors.ProtocolViolation("server conn crashed?")  # as PgBouncer says it
        if len(calls) == 1:
            end_connections(server)
        return inner(counts, writer)

    monkeypatch.setattr(TermCounts, "loaded", loaded)
    assert put(store, *facts(1, start=10)) == [11]
    assert len(calls) == 2
    assert store.check().ok


def broken(
    before: Callable[[PostgresWriter], None],
    error: type[psycopg.Error] = psycopg.OperationalError,
    closes: bool = True,
) -> Callable[[PostgresWriter], None]:
    """Make a ``finish`` whose answer is lost, the first time."""
    inner, calls = PostgresWriter.finish, []

    def finish(writer: PostgresWriter) -> None:
        calls.append(1)
        if len(calls) > 1:
            inner(writer)
            return
        before(writer)
        if closes:
            writer.wire.close()
        raise error("the connection is lost")

    return finish


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (psycopg.OperationalError, True),
        (psycopg.errors.ProtocolViolation, True),  # what PgBouncer says of a server that went
        (psycopg.errors.StatementCompletionUnknown, False),
        (psycopg.errors.TransactionResolutionUnknown, False),
    ],
)
def test_a_commit_with_a_lost_answer(
    store: PostgresStorage,
    monkeypatch: pytest.MonkeyPatch,
    error: type[psycopg.Error],
    closes: bool,
) -> None:
    """The server knows its outcome."""
    inner, runs = PostgresWriter.finish, []

    def work(writer: Writer) -> list[bool]:
        runs.append(1)
        return writer.put(facts(3))

    monkeypatch.setattr(PostgresWriter, "finish", broken(inner, error, closes))
    assert store.write(work) == [True] * 3
    assert len(runs) == 1  # it was committed

    def lost(writer: PostgresWriter) -> None:
        writer.committing = True

    remove_all(store)
    runs.clear()
    monkeypatch.setattr(PostgresWriter, "finish", broken(lost, error, closes))
    assert store.write(work) == [True] * 3
    assert len(runs) == 2  # it was not, and so was run again
    assert store.check().ok


def remove_all(store: PostgresStorage) -> None:
    def work(writer: Writer) -> None:
        for seq, _ in writer.page(0):
            writer.remove(seq)

    store.write(work)


def test_a_commit_with_an_unknown_outcome(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresWriter, "finish", broken(PostgresWriter.finish))
    monkeypatch.setattr(turns, "_outcome", lambda *_: None)
    with pytest.raises(StoreError) as caught:
        put(store, *facts(1))
    assert caught.value.code == "ERR_STORE" and caught.value.expected is not None
    assert store.stats().grains == 1


def test_a_relaxed_store_loses_nothing_before_its_sync(server: Postgres, url: str) -> None:
    store = PostgresStorage(url, tenant=server.tenant(), durable=False)
    put(store, *facts(50))
    store.sync()
    put(store, *facts(10, start=50))
    server.kill()
    server.start()
    assert 50 <= store.stats().grains <= 60
    whole(store)
    store.close()
