# SPDX-License-Identifier: Apache-2.0
"""A store in PostgreSQL as users hold it: opened by its URL, used by every command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import StoreError
from omsgrain.storage.base import Sidecar
from omsgrain.storage.location import location_of
from omsgrain.storage.postgres.connection import Pause
from omsgrain.store.context import context_of
from support import store_kinds
from support.shell import Shell, belief, exit_code, lines

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services

PERSON = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return store_kinds.url_of(tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[og.GrainStore]:
    with og.open(url) as store:
        yield store


def test_it_is_a_store_like_others(url: str, ring: KeyRing) -> None:
    with og.open(url, keys=ring, actor="tester", count_access=False) as store:
        plain = store.put(belief(1))
        sealed = store.put(belief(2, user_id="ann-17"))
        assert store.get(sealed)["subject"] == "s2"
        assert context_of(store).inner.sidecar == context_of(store).inner.sidecar != Sidecar()
    with og.open(url, readonly=True) as reader:
        assert reader.get(plain)["subject"] == "s1"
        assert reader.get(sealed).sealed
        assert [entry.actor for entry in reader.audit.entries()] == ["tester"] * 2
        with pytest.raises(StoreError):
            reader.put(belief(3))
    with og.open(url, durability="relaxed") as store:
        assert len(store) == 2
        store.flush()


def test_there_is_no_store_before_somebody_writes(postgres: Postgres) -> None:
    home = location_of(f"{postgres.database()}?tenant=robots")
    assert not home.exists()
    with pytest.raises(StoreError):
        home.must_exist()
    with pytest.raises(StoreError):
        home.open(readonly=True)
    assert home.is_writable()
    home.open().close()
    home.must_exist()
    assert not location_of(str(home).replace("robots", "others")).exists()


def test_a_server_that_is_full_is_waited_for(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection ends soon: then a waiting open succeeds."""
    postgres.run("CREATE ROLE many LOGIN CONNECTION LIMIT 3")
    url = postgres.database()
    postgres.run(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO many")
    url = url.replace("postgres@", "many@")
    inner = Pause.take
    held: list[psycopg.Connection] = []

    def take(pause: Pause) -> bool:
        while held:
            held.pop().close()
        return inner(pause)

    def fill() -> None:
        while len(held) < 3:
            with suppress(psycopg.OperationalError):  # it has not yet noticed who left
                held.append(psycopg.connect(url))

    monkeypatch.setattr(Pause, "take", take)
    home = location_of(url)
    for call, found in ((home.exists, False), (home.is_writable, True)):
        fill()
        assert call() == found
        assert not held
    fill()
    home.open().close()
    assert not held


def test_tenants_of_a_database_see_nothing_of_each_other(tmp_path: Path) -> None:
    one, two = (og.open(store_kinds.url_of(tmp_path / name)) for name in ("one", "two"))
    with one, two:
        address = one.put(belief(1, object="owl"))
        two.put(belief(2, object="owl"))
        assert not two.exists(address)
        for store, subject in ((one, "s1"), (two, "s2")):
            hits = store.search("owl").results
            assert [hit.grain["subject"] for hit in hits] == [subject]
            assert len(store) == 1


def test_a_password_is_never_shown(postgres: Postgres, shell: Shell) -> None:
    url = postgres.url("nowhere", "guarded", "s3cret")
    with pytest.raises(StoreError) as caught:
        og.open(url)
    assert "s3cret" not in str(caught.value) + repr(caught.value)
    for command in (["stats", url], ["check", url, "--json"], ["ingest", url]):
        assert shell(*command, stdin=lines(belief(1))) == exit_code("ERR_STORE")
        assert b"s3cret" not in shell.out + shell.err


def test_a_database_with_texts_as_bytes(postgres: Postgres, shell: Shell) -> None:
    url = encoded(postgres, "SQL_ASCII")
    postgres.run("CREATE ROLE of_bytes LOGIN")
    with og.open(url) as store:
        store.put(belief(1, object="łódź и größe", user_id="ann-17"))
        store.put(belief(2, object="größe", user_id="bob-3"))
        assert len(store.search("größe").results) == 2
        assert len(store.search("łódź").results) == 1
        assert store.maintenance.check().ok
        assert store.privacy.erase(["ann-17"], reason_code="asked").complete
        assert len(store.search("größe").results) == 1
        context_of(store).inner.admit("of_bytes")  # type: ignore[attr-defined]
        assert store.maintenance.check().ok
    with og.open(f"{url.replace('postgres@', 'of_bytes@')}?tenant=default") as store:
        assert len(store.search("größe").results) == 1


def test_a_database_that_has_not_all_letters(postgres: Postgres) -> None:
    url = encoded(postgres, "LATIN1")
    with pytest.raises(StoreError) as caught:
        og.open(url)
    assert caught.value.found == "LATIN1"
    assert postgres.run("SELECT 1 FROM pg_namespace WHERE nspname = 'omsgrain'", url) == []


def encoded(postgres: Postgres, encoding: str) -> str:
    """The URL of a new database with another encoding than UTF-8."""
    name = f"of_{encoding.lower()}"
    postgres.run(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 "
        "LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    return postgres.url(name)


def test_every_verb_takes_the_url(url: str, shell: Shell, tmp_path: Path) -> None:
    given = [belief(n, object=f"owl number {n}", user_id=PERSON) for n in range(5)]
    assert shell.json("ingest", url, stdin=lines(*given))["stored"] == 5
    found = shell.json("query", url, "--subject", "s1")["results"]
    address = found[0]["content_address"]
    assert shell.json("get", url, address)["grain"]["object"] == "owl number 1"
    assert shell("show", url, address) == 0
    assert shell("history", url, address) == 0
    assert shell("provenance", url, address) == 0
    assert shell("duplicates", url) == 0
    assert len(shell.json("search", url, "owl -3")["results"]) == 4
    assert shell.json("stats", url)["grains"] == 5
    assert shell.json("verify", url)["verified"] == 5
    new = json.dumps(belief(1, object="barn", user_id=PERSON)).encode()
    assert shell("supersede", url, address, "-", stdin=new) == 0
    assert shell.json("state", url, address)["superseded_by"]
    assert shell("export", url, "all.mg") == 0
    assert shell("check", url) == 0
    assert shell("rebuild", url) == 0
    assert shell("backup", url, "copy.omsg") == 0
    assert shell("check", "copy.omsg") == 0
    assert shell.json("stats", "copy.omsg")["grains"] == 6
    assert shell("token", "add", url, "t", "--tenant", PERSON, "--scope", "export") == 0
    assert len(shell.json("token", "list", url)) == 1
    assert shell("report", url, PERSON) == 0
    assert shell("audit", url, "--verify") == 0
    assert shell("compact", url) == 0
    assert shell("erase", url, PERSON, "--reason", "asked") == 0, shell.err
    assert shell.json("stats", url)["grains"] == 0
    assert shell("restore", "copy.omsg", "back.omsg", "--tombstones-from", url) == 0, shell.err
    assert shell.json("stats", "back.omsg")["grains"] == 0
    assert shell("restore", "copy.omsg", url) == exit_code("ERR_UNSUPPORTED")
    assert shell("stats", url, "--memory", "64MB") == exit_code("ERR_UNSUPPORTED")


def test_a_server_that_only_reads(url: str, shell: Shell) -> None:
    """As a standby does: commands that would write on the side do without."""
    reading = f"{url}&options=-c%20default_transaction_read_only%3Don"
    with og.open(url) as store:
        store.put(belief(1, object="owl"))
    assert not location_of(reading).is_writable()
    for _ in range(2):  # before and after somebody has fed the words
        assert len(shell.json("search", reading, "owl")["results"]) == 1
        with og.open(url) as store:
            assert len(store.search("owl").results) == 1
    assert shell.json("stats", reading)["grains"] == 1
    assert shell("export", reading, "all.mg") == 0, shell.err
    assert shell("ingest", reading, stdin=lines(belief(2))) == exit_code("ERR_ACCESS")


def test_an_export_of_one_store_is_imported_by_the_other(
    store: og.GrainStore, tmp_path: Path
) -> None:
    with og.open(tmp_path / "robot.omsg") as robot:
        old = robot.put(belief(1))
        robot.supersede(old, belief(2))
        robot.export_mg(tmp_path / "all.mg")
        store.import_mg(tmp_path / "all.mg")
        assert {grain.address for grain in store} == {grain.address for grain in robot}
        assert store.status(old) == robot.status(old)


def test_a_handle_for_somebody_else(store: og.GrainStore) -> None:
    with closing(store.as_actor("token:laptop")) as other:
        other.put(belief(1))
        assert [entry.actor for entry in store.audit.entries()] == ["token:laptop"]
