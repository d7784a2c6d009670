# SPDX-License-Identifier: Apache-2.0
"""Round trips to PostgreSQL for each verb: each one makes the store slower.

It is counted at the boundary: the client library writes down every message that it sends.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import count
from typing import IO, TYPE_CHECKING

import pytest
from psycopg.pq import Trace

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.postgres import PostgresStorage
from omsgrain.storage.postgres.pool import Pool, Wire
from omsgrain.store.context import Settings, context_of

if TYPE_CHECKING:
    from support.servers.postgres import Postgres

pytestmark = pytest.mark.services


def belief(n: int) -> dict[str, object]:
    return {
        "type": "belief",
        "subject": f"robot {n % 7}",
        "relation": "sees",
        "object": f"dock {n}",
        "confidence": 0.9,
        "user_id": f"user {n % 3}",
        "namespace": f"zone:{n % 2}",
        "created_at": 1768471200000 + n,
    }


class Traced:
    """A store whose every message is written down."""

    def __init__(self, store: og.GrainStore, sealed: og.GrainStore, trace: IO[bytes]) -> None:
        self.store, self.sealed = store, sealed
        self._trace = trace
        self.encrypted = sealed.put_many([belief(n) for n in range(300)]).addresses
        self.addresses = store.put_many([belief(n) for n in range(300)]).addresses

    def sent(
        self, call: Callable[[og.GrainStore], object], *, sealed: bool = False
    ) -> list[list[str]]:
        """The statements of a call, by round trip."""
        store = self.sealed if sealed else self.store
        call(store)  # whatever is prepared or learnt once
        call(store)
        self._trace.seek(0, os.SEEK_END)
        call(store)
        return self.messages()

    def messages(self) -> list[list[str]]:
        """Messages since the end of before, in parts that end with one that asks for an answer."""
        trips: list[list[str]] = [[]]
        for line in self._trace.read().decode("latin-1").splitlines():
            who, _, what, *rest = line.split("\t")
            if who == "F" and what in ("Bind", "Query", "Parse", "CopyDone"):
                trips[-1].append(f"{what} {rest[0] if rest else ''}")
            if who == "F" and what in ("Sync", "Query", "Flush", "CopyDone"):
                trips.append([])
        return [trip for trip in trips if trip]


@pytest.fixture(scope="module", params=["superuser", "service"])
def traced(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traced]:
    url = postgres.database()
    if request.param == "service":
        postgres.run("CREATE ROLE traced LOGIN")
        postgres.run(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO traced")
        url = url.replace("postgres@", "traced@")
    path, made = tmp_path_factory.mktemp("trace") / "messages", Pool._made

    def begun(pool: Pool) -> Wire:
        wire = made(pool)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        wire.connection.pgconn.trace(descriptor)  # which closes it
        wire.connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        return wire

    path.touch()
    with pytest.MonkeyPatch.context() as patched, path.open("rb") as trace:
        patched.setattr(Pool, "_made", begun)
        with (
            KeyRing.create(path.parent / "x.keys", master=bytes(32)) as ring,
            og.GrainStore(PostgresStorage(url, partitions=2)) as store,
            og.GrainStore(PostgresStorage(url, tenant="sealed"), Settings(keys=ring)) as sealed,
        ):
            yield Traced(store, sealed, trace)


#: The end of what only reads is sent apart, and not waited for.
READS: dict[str, tuple[Callable[[Traced, og.GrainStore], object], int]] = {
    "get": (lambda t, s: s.get(t.addresses[7] or ""), 1),
    "exists": (lambda t, s: s.exists(t.addresses[7] or ""), 1),
    "len": (lambda t, s: len(s), 1),
    "state": (lambda t, s: s.status(t.addresses[7] or ""), 4),
    "get_many": (lambda t, s: s.get_many([a or "" for a in t.addresses[:10]]), 1),
    "query by one filter": (lambda t, s: s.query(subject="robot 3", limit=10), 1),
    "query by two": (lambda t, s: s.query(subject="robot 3", user_id="user 1", limit=10), 2),
    "query by state": (
        lambda t, s: s.query(subject="robot 3", verification_status="unverified", limit=10),
        1,
    ),
    "query by what is read": (
        lambda t, s: s.query(subject="robot 3", min_confidence=0.5, limit=10),
        1,
    ),
    "query and count": (lambda t, s: s.query(subject="robot 3", limit=1, count=True), 2),
    "query by a beginning": (lambda t, s: s.query(namespace="zone:*", limit=10), 5),
}


@pytest.mark.parametrize("verb", list(READS))
def test_round_trips_of_a_read(traced: Traced, verb: str) -> None:
    call, trips = READS[verb]
    *sent, last = traced.sent(lambda store: call(traced, store))
    assert (len(sent), len(last)) == (trips, 1), sent
    assert all(message.startswith("Bind") for trip in [*sent, last] for message in trip)


#: As many for any number of grains: their keys and states are looked up together.
SEALED: dict[str, tuple[Callable[[Traced, og.GrainStore], object], int]] = {
    "get": (lambda t, s: s.get(t.encrypted[7] or ""), 3),
    "get_many": (lambda t, s: s.get_many([a or "" for a in t.encrypted[:100]]), 3),
    "query": (lambda t, s: s.query(subject="robot 3", current=None, limit=40), 5),
    "query with two filters": (
        lambda t, s: s.query(subject="robot 3", namespace="zone:1", limit=10),
        9,
    ),
    "get_many by plain addresses": (
        lambda t, s: s.get_many([a or "" for a in t.addresses[:100]]),
        4,
    ),
}


@pytest.mark.parametrize("verb", list(SEALED))
def test_round_trips_of_a_read_of_encrypted_grains(traced: Traced, verb: str) -> None:
    call, trips = SEALED[verb]
    *sent, _ = traced.sent(lambda store: call(traced, store), sealed=True)
    assert len(sent) == trips, sent


def test_round_trips_of_a_write(traced: Traced) -> None:
    numbers = count(10_000)
    assert len(traced.sent(lambda s: s.put(belief(next(numbers))))) == 2
    assert len(traced.sent(lambda s: s.put(belief(1)))) == 2  # it is there
    many = traced.sent(lambda s: s.put_many([belief(next(numbers)) for _ in range(30)]))
    assert len(many) == 2


def test_no_writer_waits_for_a_read(traced: Traced) -> None:
    below = context_of(traced.store).storage
    assert isinstance(below, PostgresStorage)
    with below.read() as reader:
        (((process,),),) = reader.ask(("SELECT pg_backend_pid()", ()))
        os.kill(process, signal.SIGSTOP)
    os.kill(process, signal.SIGCONT)
    assert len(traced.store) >= 300
