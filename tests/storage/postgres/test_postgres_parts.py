# SPDX-License-Identifier: Apache-2.0
"""The store in PostgreSQL as far as it can be tested without a server."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, cast

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain._core import term
from omsgrain.errors import AccessDeniedError, DiskFullError, OmsError, StoreError
from omsgrain.storage.base import Which
from omsgrain.storage.location import StoreUrl
from omsgrain.storage.postgres import PostgresStorage, connection, pool, schema, statements
from omsgrain.storage.postgres import rows as adding
from omsgrain.storage.postgres.cache import Prefetch
from omsgrain.storage.postgres.pool import Connection, ConnectionTarget
from omsgrain.storage.postgres.reader import beyond
from omsgrain.storage.postgres.rows import terms_of
from omsgrain.storage.postgres.storage import _outcome
from omsgrain.storage.postgres.writer import NAME, NAMES, TermCounts
from support.child_process import run
from support.small_grains import ALL, facts

# --- tables --------------------------------------------------------------------------------------


def test_statements_name_the_store() -> None:
    """Row-level security is the second wall, not the first."""
    texts = [text for name, text in vars(statements).items() if isinstance(text, str)]
    asking = [text for text in texts if text.startswith(("SELECT", "UPDATE", "DELETE", "WITH"))]
    catalog = ("pg_class", "row_security_active")
    assert len(asking) > 15
    for text in asking:
        assert "store_id = $1" in text or any(word in text for word in catalog), text
        assert not any(word in text for word in ("LISTEN", "advisory", "LOCK TABLE"))


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.UniqueViolation,
        psycopg.errors.DuplicateSchema,
        psycopg.errors.DuplicateTable,
        psycopg.errors.DuplicateObject,  # the type of the table's rows came first
    ],
)
def test_concurrent_opens_of_a_new_database(error: type[psycopg.Error]) -> None:
    asked: list[str] = []

    class Other:
        """A connection that somebody else was faster than."""

        def execute(self, text: str) -> None:
            asked.append(text)
            if text.startswith("CREATE"):
                raise error

    schema._prepare(cast("Connection", Other()))
    assert len(asked) == 3


@given(st.binary(max_size=4), st.binary(max_size=8))
def test_the_end_of_a_prefix_bounds_its_keys(prefix: bytes, key: bytes) -> None:
    assert key.startswith(prefix) == (prefix <= key < beyond(prefix))


def test_without_the_driver() -> None:
    code = """
        import sys
        sys.modules["psycopg"] = None
        from omsgrain.errors import UnsupportedError
        try:
            from omsgrain.storage.postgres import PostgresStorage
        except UnsupportedError as error:
            print(error.expected)
    """
    (said,) = run(code)
    assert "'postgres'" in said


# --- where it is ---------------------------------------------------------------------------------

SECRET = "xyzzy-42"


def test_a_place_shows_no_secret() -> None:
    place = ConnectionTarget.of(
        f"postgresql://me:{SECRET}@db.example:5433/fleet?connect_timeout=3"
    )
    assert place.shown == "postgresql://me@db.example:5433/fleet"
    assert "connect_timeout=3" in place.conninfo and SECRET in place.conninfo
    assert SECRET not in repr(place)
    assert "tcp_user_timeout=90000" in place.conninfo
    assert "client_encoding=utf8" in place.conninfo
    assert place.cleaned("FATAL:\n  no such\trole") == "FATAL: no such role"
    assert place.cleaned(f"no such option {SECRET}") == ""


@pytest.mark.parametrize(
    ("timeout", "patience", "expected"),
    [
        (60, 30, "tcp_user_timeout=90000"),
        (0.5, 0, "tcp_user_timeout=90000"),
        (600, 30, "tcp_user_timeout=630000"),
        (60, 120.5, "tcp_user_timeout=150500"),
        (2_000_000, 2_000_000, "tcp_user_timeout=2000030000"),
        (0, 30, "tcp_user_timeout=0"),
    ],
)
def test_a_server_at_work_is_not_taken_for_one_that_is_gone(
    timeout: float, patience: float, expected: str
) -> None:
    """It reads nothing meanwhile, which is all that the operating system sees."""
    place = ConnectionTarget.of(f"postgresql://me:{SECRET}@db.example/fleet").waiting(
        timeout, patience
    )
    assert expected in place.conninfo.split()
    assert SECRET not in repr(place) and SECRET in place.conninfo
    own = ConnectionTarget.of("postgresql://me@db.example/fleet?tcp_user_timeout=7")
    assert "tcp_user_timeout=7" in own.waiting(timeout, patience).conninfo.split()


def test_a_place_of_several_hosts_shows_each_with_its_port() -> None:
    place = ConnectionTarget.of(
        "postgresql://me@one:5433,[::1],two:1/fleet?target_session_attrs=any"
    )
    assert place.shown == "postgresql://me@one:5433,::1,two:1/fleet"


@pytest.mark.parametrize(
    ("said", "coming"),
    [
        ("the database system is starting up", True),
        ("the database system is not yet accepting connections", True),
        ("sorry, too many clients already", True),
        ("remaining connection slots are reserved for roles with the SUPERUSER attribute", True),
        (
            "remaining connection slots are reserved for non-replication superuser connections",
            True,
        ),
        ('too many connections for role "many"', True),
        ('too many connections for database "many"', True),
        ("no more connections allowed (max_client_conn)", True),
        ('password authentication failed for user "too"', False),
        ('database "many" does not exist', False),
    ],
)
def test_which_refusals_of_a_connection_are_waited_for(said: str, coming: bool) -> None:
    """The driver has no code for them, so they are known by their words."""
    text = f'connection failed: connection to server at "::1", port 5432 failed: FATAL:  {said}'
    assert connection.is_coming(psycopg.OperationalError(text)) == coming


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{SECRET}@db/x",
        f"postgresql://me:{SECRET}@[db/x",
        f"postgresql://me:{SECRET}@db/x?colour=red",
        f"postgresql://me:%zz{SECRET}@db/x",
        f"postgresql://me:p@{SECRET}@db/x",  # signs that a password must not have as they are
        f"postgresql://me:p/{SECRET}@db/x",
        f"postgresql://me:42/{SECRET}@db/x",
        f"postgresql://me:p?{SECRET}@db/x",
        f"postgresql://me:42?{SECRET}@db/x",
        "memory.omsg",
    ],
)
def test_urls_that_cannot_be(url: str) -> None:
    for read in (ConnectionTarget.of, StoreUrl.parse):
        try:
            shown = str(read(url))
            assert read == StoreUrl.parse and SECRET not in shown
        except OmsError as error:
            assert SECRET not in f"{error}{error.__cause__}"


@pytest.mark.parametrize(
    "given",
    [
        {"patience": -1},
        {"patience": math.nan},
        {"patience": math.inf},
        {"timeout": -0.1},
        {"timeout": 3e6},
        {"partitions": -1},
    ],
)
def test_arguments_are_looked_at_before_anybody_is_asked(given: dict[str, Any]) -> None:
    with pytest.raises(OmsError) as caught:
        PostgresStorage("postgresql://me@127.0.0.1:1/nothing", **given)
    assert (caught.value.field or "").strip("/") in given


# --- rows on their way in ------------------------------------------------------------------------


def one_by_one(terms: adding.IndexRows) -> list[tuple[bytes, bytes, bytes]]:
    """Rows as key, past, place."""
    return [
        (key, bytes([place[12:] in terms.past]), place)
        for key, places in terms.lists
        for place in places
    ]


def items(array: bytes) -> list[bytes]:
    """Read an array as a server does."""
    dimensions, nulls, _ = struct.unpack_from(">iiI", array)
    assert nulls == 0
    if not dimensions:
        assert len(array) == 12
        return []
    count, first = struct.unpack_from(">ii", array, 12)
    assert (dimensions, first) == (1, 1)
    at, found = 20, []
    while at < len(array):
        (size,) = struct.unpack_from(">i", array, at)
        found.append(array[at + 4 : at + 4 + size])
        at += 4 + size
    assert len(found) == count
    return found


@given(st.lists(st.tuples(st.binary(max_size=6), st.integers(0, 3)), max_size=5))
def test_arrays(given: list[tuple[bytes, int]]) -> None:
    some, counts = [item for item, _ in given], [count for _, count in given]
    assert items(pool.byteas(some)) == some
    assert items(pool.repeated(given)) == [item for item, n in given for _ in range(n)]
    assert items(pool.numbers(counts)) == [n.to_bytes(8, "big") for n in counts]
    assert items(pool.flags([n > 1 for n in counts])) == [bytes([n > 1]) for n in counts]
    alike = [bytes([n]) * 4 for n in counts]
    assert items(pool.alike(alike, 4)) == alike


@pytest.mark.parametrize("past", [set(), {b"\0\0\0\2", b"\0\0\0\7"}])
def test_terms_as_arrays_are_their_columns(past: set[bytes]) -> None:
    grains = [(seq, digest, blob) for seq, (digest, blob) in enumerate(facts(9), start=1)]
    terms = terms_of(grains, past)
    found = list(zip(*map(items, terms.arrays()), strict=True))
    assert found == one_by_one(terms)
    assert {row[:2] for row in found if row[0] == ALL} == {
        (ALL, bytes([was])) for was in {False, bool(past)}
    }
    changes = terms.changes()
    assert changes[ALL] == (9 - len(past), len(past))
    counts = TermCounts(3, frozenset([ALL, b"other"]))
    assert counts.changed(changes) == {ALL: changes[ALL]}


# --- questions for whole pages -------------------------------------------------------------------


class Asked:
    """Answers, and how often it was asked."""

    def __init__(self, there: set[int]) -> None:
        self.there = there
        self.times = 0

    def has(self, key: bytes, places: list[bytes], which: Which, /) -> set[bytes]:
        self.times += 1
        return {place for place in places if int.from_bytes(place[12:], "big") in self.there}

    def states(self, keys: list[bytes]) -> dict[bytes, bytes]:
        self.times += 1
        return {key: b"s" + key for key in keys if int.from_bytes(key, "big") in self.there}

    def blobs(self, numbers: list[int]) -> dict[int, bytes]:
        self.times += 1
        assert len(numbers) <= 128
        return {seq: b"b%d" % seq for seq in numbers if seq in self.there}


def place(seq: int) -> bytes:
    return bytes(12) + seq.to_bytes(4, "big")


@given(
    st.lists(st.lists(st.integers(1, 30), unique=True, max_size=12), max_size=4),
    st.sets(st.integers(1, 30)),
    st.lists(st.tuples(st.sampled_from("hsb"), st.integers(1, 33)), max_size=40),
)
def test_answers_for_pages_are_those_for_one(
    pages: list[list[int]], there: set[int], questions: list[tuple[str, int]]
) -> None:
    asked = Asked(there)
    ahead = Prefetch(asked.has, asked.states, asked.blobs)
    for n, page in enumerate(pages):
        places = [place(seq) for seq in page]
        if n % 2 and places:
            ahead.expect(
                places,
                has={(term("subject", "x"), "all"): asked.has(b"", places, "all")},
                states=asked.states([bytes(4) + one[12:] for one in places]),
                blobs=asked.blobs([seq for seq in page if seq % 2]),
            )
        elif places:
            ahead.expect(places)
    known = {seq for page in pages for seq in page}
    for kind, seq in questions:
        if kind == "h":
            has = ahead.has(term("subject", "x"), place(seq), "all")
            assert has == (seq in there if seq in known else None)
        elif kind == "s":
            key = seq.to_bytes(8, "big")
            row = b"s" + key if seq in there else None
            assert ahead.state(key) == ((row,) if seq in known else None)
        else:
            blob = ahead.blob(seq)
            assert blob is None or blob == (b"b%d" % seq if seq in there else None,)


def test_a_walk_asks_seldom() -> None:
    asked = Asked(set(range(0, 1_000, 3)))
    ahead = Prefetch(asked.has, asked.states, asked.blobs)
    ahead.expect([place(seq) for seq in range(1, 1_000)])
    for seq in range(1, 1_000):
        ahead.has(ALL, place(seq), "all")
        ahead.state(seq.to_bytes(8, "big"))
        assert ahead.blob(seq) is not None
    assert asked.times < 14
    assert ahead.has(ALL, b"x" * 12 + place(5)[12:], "all") is None  # another grain's place
    assert ahead.state((1 << 32 | 5).to_bytes(8, "big")) is None
    assert ahead.blob(1 << 32 | 5) is None


# --- commits that were not answered --------------------------------------------------------------


@dataclass
class Commit:
    name: bytes
    commits: bytes


@pytest.mark.parametrize("before", [0, 1, NAMES - 1, NAMES, NAMES + 5])
@pytest.mark.parametrize("others", [0, 1, NAMES - 1, NAMES, NAMES + 5])
def test_outcomes_of_a_commit(before: int, others: int) -> None:
    """Never the wrong answer; none only where too many have committed since."""

    def name(n: int) -> bytes:
        return n.to_bytes(NAME, "big")

    def committed(head: bytes, *names: int) -> bytes:
        for n in names:
            head = (name(n) + head)[: NAME * NAMES]
        return head

    was = committed(b"", *range(before))
    commit: Any = Commit(name(10_000), was)
    came = committed(was, 10_000, *range(20_000, 20_000 + others))
    assert _outcome(commit, came) == (True if others < NAMES else None)
    lost = committed(was, *range(20_000, 20_000 + others))
    short = before + others < NAMES or (before and others < NAMES)
    assert _outcome(commit, lost) == (False if short else None)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.DiskFull, DiskFullError),
        (psycopg.errors.InsufficientPrivilege, AccessDeniedError),
        (psycopg.errors.ReadOnlySqlTransaction, AccessDeniedError),
    ],
)
def test_a_full_disk_and_a_missing_permission_have_their_codes(
    error: type[psycopg.Error], kind: type[StoreError]
) -> None:
    place = ConnectionTarget.of("postgresql://db.example/fleet")
    refused = connection.failure(place, "write to the store", error("no"))
    assert isinstance(refused, kind) and isinstance(refused, connection.RefusedError)
    assert (refused.code, refused.exit_code) == (kind.code, kind.exit_code)
    assert error.sqlstate is not None and error.sqlstate in str(refused)
