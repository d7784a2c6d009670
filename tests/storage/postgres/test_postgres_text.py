# SPDX-License-Identifier: Apache-2.0
"""Words and vectors of a store in PostgreSQL: as SQLite finds them, and gone when they must be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import SchemaError, StoreError
from omsgrain.search import rank
from omsgrain.search.postgres.text import PostgresTextIndex
from omsgrain.search.text import TextMatches, texts_of
from omsgrain.search.text_file import SqliteTextIndex
from omsgrain.storage.base import CompactReport, Storage
from omsgrain.storage.location import Budget, location_of
from omsgrain.storage.postgres import PostgresStorage, maintenance
from omsgrain.storage.postgres.pool import Connection
from omsgrain.storage.postgres.schema import TEXTS, WORDS
from omsgrain.store.context import context_of
from support import store_kinds
from support.processes import Process
from support.text_stores import event, put, remove, say, seqs

if TYPE_CHECKING:
    from omsgrain.search.text import TextIndex

pytestmark = pytest.mark.services

VOCABULARY = [
    *"red box robot-17 robot 17 éa ea a-b b x x x shelf shelf 北京 京 กา 로봇 👍".split()
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return store_kinds.url_of(tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[Storage]:
    with closing(location_of(url).open()) as store:
        yield store


@pytest.fixture
def index(store: Storage) -> Iterator[TextIndex]:
    with closing(texts_of(store, Budget())) as index:
        yield index


def asked(url: str, text: str) -> list[tuple[Any, ...]]:
    """Ask the database beside the store, as a role that sees everything."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def test_a_search_need_not_wait(url: str) -> None:
    with og.open(url) as store:
        store.put_many([event(f"lamp {n}") for n in range(5)])
        page = store.search("lamp", wait=False)
        assert (len(page), page.behind) == (0, 5)
        assert len(store.search("lamp")) == 5
        address = store.put(event("lamp 5"))
        page = store.search("lamp", wait=False)
        assert (len(page), page.behind) == (5, 1)
        store.maintenance.index_text()
        page = store.search("lamp", wait=False)
        assert (len(page), page.behind) == (6, 0)
        store.delete(address)
        assert len(store.search("lamp", wait=False)) == 5
    with og.open(url, text_index="ingest") as store:
        store.put(event("lamp 6"))
    with og.open(url, readonly=True) as store:
        page = store.search("lamp", wait=False)
        assert (len(page), page.behind) == (6, 0)


def ranked(found: TextMatches) -> list[int]:
    """The grains by score, then the newest first: sums of floats differ in the last bit."""
    return [m.seq for m in sorted(found.matches, key=lambda m: (-round(m.score, 12), -m.seq))]


def test_scores_and_order_are_those_of_sqlite(store: Storage, index: TextIndex) -> None:
    rng = Random(7)

    def sentence(most: int) -> str:
        return " ".join(rng.choices(VOCABULARY, k=rng.randint(1, most)))

    put(store, *(event(f"{sentence(9)} n{n}", structural_tags=[sentence(3)],
                       context={"k": sentence(4)}) for n in range(150)))  # fmt: skip
    with closing(SqliteTextIndex(None)) as other:
        for n in range(150):
            # SQLite miscounts where there are required words and several others: there only what
            # is found is compared.
            sign = ("", "+", "?")[n % 3]
            words = [sign + rng.choice(VOCABULARY) for _ in range(rng.randint(1, 3))]
            words.append(f"-{rng.choice(VOCABULARY)}" if rng.random() < 0.3 else "")
            words.append(sign + rng.choice(("x", '"red box"', "sh*", "robot")))
            query = " ".join(words).replace("?", "+", 1).replace("?", "")
            try:
                one, two = (i.search(store.read, query, limit=200) for i in (index, other))
            except SchemaError:
                continue
            assert set(seqs(one)) == set(seqs(two)), query
            if sign != "?":
                assert ranked(one) == ranked(two), query
                scores = [[match.score for match in found.matches] for found in (one, two)]
                assert scores[0] == pytest.approx(scores[1]), query


def test_a_search_goes_by_an_index(
    store: Storage, index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any plan for a table that was never analysed."""
    say(store, *(f"common {n}" for n in range(300)))
    index.catch_up(store.read)
    execute: Any = psycopg.Connection.execute
    plans: list[str] = []

    def explained(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if f"FROM {WORDS} w" in str(query):
            lines = execute(self, f"EXPLAIN {query}", *args, **kwargs).fetchall()
            plans.append("\n".join(line for (line,) in lines))
        return execute(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Connection, "execute", explained)
    assert seqs(index.search(store.read, "17")) == [18]
    assert len(plans) == 2  # to count, and to find
    assert all("words_by_word" in plan and "words_pkey" not in plan for plan in plans)
    plans.clear()
    monkeypatch.setattr(rank, "SMALL", 10)
    assert len(index.search(store.read, "common", limit=5).matches) == 5
    assert "Scan Backward using words_pkey" in plans[1]


def test_a_text_of_more_words_than_a_tsvector_takes(store: Storage, index: TextIndex) -> None:
    many = " ".join(f"w{n:x}" for n in range(120_000))
    say(store, "owl", f"{many} needle in hay", "needle")
    assert set(seqs(index.search(store.read, "needle"))) == {2, 3}
    assert seqs(index.search(store.read, '"needle in hay"')) == [2]
    assert seqs(index.search(store.read, "w1d4bf -owl")) == [2]
    assert seqs(index.search(store.read, "owl -needle")) == [1]
    assert index.check(store.read) == ()


def test_a_handle_that_only_reads(url: str, store: Storage, index: TextIndex) -> None:
    say(store, "owl one")
    with closing(location_of(url).open(readonly=True)) as reader:
        with closing(texts_of(reader, Budget())) as reading:
            assert seqs(reading.search(reader.read, "owl")) == [1]  # from memory
            assert asked(url, f"SELECT count(*) FROM {TEXTS}") is not None
            assert not reading.exists
            assert seqs(index.search(store.read, "owl")) == [1]
            assert reading.exists
            with pytest.raises(StoreError):
                reading.rebuild(reader.read)
        with closing(texts_of(reader, Budget())) as reading:
            assert seqs(reading.search(reader.read, "owl")) == [1]  # from the tables
            say(store, "owl two")
            assert set(seqs(reading.search(reader.read, "owl"))) == {1, 2}
            assert reading.check(reader.read) == ()


def test_processes_that_feed_one_store(url: str, store: Storage, index: TextIndex) -> None:
    code = """if True:
        import sys, omsgrain as og
        with og.open(sys.argv[1]) as store:
            print("ready", flush=True)
            sys.stdin.readline()
            for n in range(30):
                store.put({"type": "event", "content": f"owl {sys.argv[2]} {n}",
                           "created_at": 1768471200000 + n})
                assert len(store.search("owl", limit=1000).results) > n
        print("done", flush=True)
    """
    with Process(code, url, "left") as left, Process(code, url, "right") as right:
        for step in ("ready", "done"):
            for one in (left, right):
                assert one.hear() == step
                if step == "ready":
                    one.say()
    found = index.search(store.read, "owl", limit=100)
    assert sorted(seqs(found)) == sorted(seqs(index.search(store.read, "left right", limit=100)))
    assert len(found.matches) == 60
    assert index.check(store.read) == ()


def test_a_check_reports_a_wrong_row(url: str, store: Storage, index: TextIndex) -> None:
    say(store, *(f"owl {n}" for n in range(10)))
    index.catch_up(store.read)
    assert index.check(store.read) == ()
    number = store.store_id  # type: ignore[attr-defined]
    asked(url, f"UPDATE {WORDS} SET says = ' barn ' WHERE store_id = {number} AND seq = 4")
    (problem,) = index.check(store.read)
    assert (problem.where, problem.seq) == ("text", 4)
    index.rebuild(store.read)
    assert index.check(store.read) == ()
    asked(url, f"DELETE FROM {WORDS} WHERE store_id = {number} AND seq = 7")
    assert index.check(store.read)[0].seq == 7


def test_sealed_grains_have_no_words(url: str, ring: KeyRing) -> None:
    with og.open(url, keys=ring) as store:
        store.put({"type": "event", "content": "zwiebelkuchen", "user_id": "ann-17",
                   "created_at": 1})  # fmt: skip
        store.put({"type": "event", "content": "owl", "created_at": 2})
        assert len(store.search("owl zwiebelkuchen", sealed=False).results) == 1
    assert asked(url, f"SELECT seq FROM {WORDS} WHERE says LIKE '%zwiebelkuchen%'") == []


def test_erased_grains_are_in_no_file_of_a_table(url: str) -> None:
    word = "quittenbaum"
    with og.open(url) as store:
        store.put({"type": "event", "content": word, "user_id": "ann-17", "created_at": 1})
        store.put({"type": "event", "content": "owl", "user_id": "bob-3", "created_at": 2})
        assert len(store.search(word).results) == 1
        assert word.encode() in on_disk(url)
        asked(url, "ANALYZE")  # as the server does by itself
        assert store.privacy.erase(["ann-17"], reason_code="asked").complete
        assert store.search(word).results == []
        assert len(store.search("owl").results) == 1
        assert word.encode() not in on_disk(url)


def test_bytes_kept_by_an_older_transaction_are_reported(url: str) -> None:
    """VACUUM FULL keeps what a snapshot may see, of tables too that the snapshot never touched."""
    word = "mispelbaum"
    with og.open(url) as store:
        database = context_of(store).inner._database  # type: ignore[attr-defined]
        patience, database.patience = database.patience, 0.1
        store.put({"type": "event", "content": word, "user_id": "ann-17", "created_at": 1})
        assert len(store.search(word).results) == 1
        with psycopg.connect(url.partition("?")[0]) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")
            report = store.privacy.erase(["ann-17"], reason_code="asked")
            assert (report.scrubbed, report.incomplete) == (False, ("scrub",))
            assert [entry.kind for entry in store.privacy.due()] == ["scrub"]
            assert word.encode() in on_disk(url)
            with pytest.raises(StoreError):
                store.maintenance.compact()
        database.patience = patience
        assert store.privacy.run_due(everything=True).finished == 1
        assert word.encode() not in on_disk(url)


def still_gone(url: str, store: og.GrainStore) -> int:
    """How many removed rows of this store's words the table may still hold; it is not alone."""
    number = context_of(store).inner.store_id  # type: ignore[attr-defined]
    ((gone,),) = asked(url, f"SELECT gone FROM {TEXTS} WHERE store_id = {number}")
    return int(gone)


def test_words_that_were_removed_go_with_the_tables(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wait for older transactions comes before all rewrites, none after."""
    word, waits = "speierling", list[float]()
    inner = maintenance._wait

    def wait(connection: Connection, patience: float) -> None:
        assert not waits, "the tables were written anew already"
        waits.append(patience)
        inner(connection, patience)

    with og.open(url) as store:
        grain = {"type": "event", "content": word, "user_id": "ann-17", "created_at": 1}
        address = store.put(grain)
        assert len(store.search(word).results) == 1
        store.delete(address, reason="asked")
        monkeypatch.setattr(maintenance, "_wait", wait)
        store.maintenance.compact()
        assert word.encode() not in on_disk(url)
        assert still_gone(url, store) == 0


def test_words_change_while_the_tables_are_rewritten(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = "elsbeere"
    inner = PostgresStorage.compact
    with og.open(url) as store:
        grain = {"type": "event", "content": word, "user_id": "ann-17", "created_at": 1}
        store.put({"type": "event", "content": "owl", "created_at": 2})
        assert len(store.search("owl").results) == 1

        def late(below: PostgresStorage) -> CompactReport:
            report = inner(below)
            address = store.put(grain)
            assert len(store.search(word).results) == 1
            store.delete(address, reason="asked")
            inner(below)  # of the store itself, without its words
            return report

        monkeypatch.setattr(PostgresStorage, "compact", late)
        store.maintenance.compact()
        assert still_gone(url, store) == 0
        assert word.encode() not in on_disk(url)


def on_disk(url: str) -> bytes:
    """All bytes of the files of the database's tables."""
    name = urlsplit(url).path.strip("/")
    asked(url, "CHECKPOINT")
    (found,) = asked(url, f"SELECT oid FROM pg_database WHERE datname = '{name}'")
    folder = Path(asked(url, "SHOW data_directory")[0][0]) / "base" / str(found[0])
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


def test_a_role_sees_the_words_of_its_own_store(tmp_path: Path) -> None:
    """Row-level security holds for it, and the index of words serves it all the same."""
    server = store_kinds.server()
    server.run("DROP ROLE IF EXISTS reader_of_words")
    server.run("CREATE ROLE reader_of_words LOGIN")
    urls = [store_kinds.url_of(tmp_path / name) for name in ("own", "other")]
    for url, word in zip(urls, ("owl", "barn"), strict=True):
        with og.open(url) as store:
            store.put({"type": "event", "content": f"common {word}", "created_at": 1})
            assert len(store.search("common").results) == 1
            if word == "owl":
                context_of(store).inner.admit("reader_of_words")  # type: ignore[attr-defined]
    own = urls[0].replace("postgres@", "reader_of_words@")
    with og.open(own) as store:
        store.put({"type": "event", "content": "common second owl", "created_at": 2})
        found = [hit.grain["content"] for hit in store.search("+common owl -barn").results]
        assert sorted(found) == ["common owl", "common second owl"]
        assert store.search("barn").results == []
        assert store.maintenance.check().ok
    with pytest.raises(StoreError):
        og.open(urls[1].replace("postgres@", "reader_of_words@"))
    with psycopg.connect(own.partition("?")[0], autocommit=True) as connection:
        assert connection.execute(f"SELECT * FROM {TEXTS}").fetchall() == []
        assert connection.execute(f"SELECT * FROM {WORDS}").fetchall() == []
        (number,) = asked(urls[1], f"SELECT max(store_id) FROM {TEXTS}")[0]
        text = "SELECT * FROM omsgrain.matching(%s, gen_random_uuid(), %s::tsquery)"
        rows = connection.execute(text, (number, f"'{number}.barn'")).fetchall()
        assert rows == []


def test_a_connection_that_somebody_between_has_ended(index: TextIndex) -> None:
    """PgBouncer has a code of its own for a server that went."""
    assert isinstance(index, PostgresTextIndex)
    calls: list[int] = []

    def work(connection: Connection) -> int:
        calls.append(1)
        if len(calls) == 1:
            connection.close()
            raise psycopg.errors.ProtocolViolation("server conn crashed?")
        return int(connection.execute("SELECT 7").fetchall()[0][0])

    assert index._sessions.read(work) == 7
    assert index._sessions.write(work) == 7
    assert len(calls) == 3


def test_removing_what_was_never_fed(store: Storage, index: TextIndex) -> None:
    first, second = say(store, "owl", "owl two")
    remove(store, first)
    assert seqs(index.search(store.read, "owl")) == [second]
    index.scrub(store.read)
    assert index.check(store.read) == ()


def test_vectors_are_compared_as_everywhere(url: str, tmp_path: Path) -> None:
    rng = Random(3)
    found = []
    for where in (url, tmp_path / "disk.omsg"):
        rng.seed(3)
        with og.open(where) as store:
            for n in range(60):
                grain = {"type": "event", "content": f"owl {n}", "created_at": n + 1}
                store.vectors.add(store.put(grain), [rng.gauss(0, 1) for _ in range(8)], model="m")
            asked_for = [rng.gauss(0, 1) for _ in range(8)]
            both = store.search("owl", vector=asked_for, limit=20)
            near = store.search(vector=asked_for, limit=20)
            found.append([[(h.address, h.score) for h in p.results] for p in (both, near)])
    assert found[0] == found[1]
