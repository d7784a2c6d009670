# SPDX-License-Identifier: Apache-2.0
"""Queries: what each condition means, how pages follow each other, and what is refused."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.cli.filters import filter_options
from omsgrain.query.filters import FILTERS, Filters, conditions
from omsgrain.query.query import Page
from omsgrain.query.walk import holds
from omsgrain.server.routes import ROUTES
from omsgrain.storage.records import GrainStatus
from omsgrain.store.context import context_of
from support.query_stores import (
    KINDS,
    NEW,
    OLD_STATE,
    TESTS,
    TIME,
    ask,
    event,
    names,
    opened,
    put,
    set_state,
    verified,
)

#: name -> grain, state; newest last.
GRAINS: dict[str, tuple[dict[str, Any], GrainStatus]] = {
    "plain": (event("plain", 1), GrainStatus()),
    "sure": (event("sure", 2, confidence=0.9), verified("verified")),
    "doubtful": (event("doubtful", 3, confidence=0.5), verified("contested")),
    "old": (event("old", 4, confidence=1.0), OLD_STATE),
    "withdrawn": (event("withdrawn", 5), verified("retracted")),
    "kept": (event("kept", 6), GrainStatus(restricted=True)),
    "brief": (event("brief", 7, valid_from=TIME + 10, valid_to=TIME + 20), GrainStatus()),
    "ended": (event("ended", 8, valid_to=TIME + 19), GrainStatus()),
    "begun": (event("begun", 9, valid_from=TIME + 20), GrainStatus()),
    "late": (event("late", 10, system_valid_from=TIME + 90), GrainStatus()),
    "early": (event("early", 60, system_valid_from=TIME + 5), GrainStatus()),
    "dropped": (
        event("dropped", 70),
        GrainStatus(
            superseded_by=NEW,
            successors=(NEW,),
            system_valid_to=TIME + 80,
            verification_status="retracted",
        ),
    ),
}
CURRENT = ["plain", "sure", "doubtful", "brief", "ended", "begun", "late", "early"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path) as store:
        yield store


@pytest.fixture(scope="module", params=KINDS)
def twelve(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[og.GrainStore]:
    """The grains above; nothing changes them."""
    with opened(request.param, tmp_path_factory.mktemp("twelve")) as store:
        for fields, state in GRAINS.values():
            put(store, fields, state)
        yield store


# --- what the conditions mean --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, CURRENT),
        ({"current": True}, CURRENT),
        ({"current": False}, ["old", "withdrawn", "kept", "dropped"]),
        ({"current": None}, list(GRAINS)),
        # True at a time: both ends belong to it, and a missing one is open.
        ({"valid_at": TIME}, ["plain", "sure", "doubtful", "ended", "late", "early"]),
        ({"valid_at": TIME + 19}, [n for n in CURRENT if n != "begun"]),
        ({"valid_at": TIME + 20}, [n for n in CURRENT if n != "ended"]),
        (
            {"valid_at": TIME + 21, "type": "event"},
            [n for n in CURRENT if n not in ("brief", "ended")],
        ),
        # Known at a time: from its beginning, until before its end.
        ({"known_at": TIME}, []),
        ({"known_at": TIME + 1}, ["plain"]),
        ({"known_at": TIME + 5}, ["plain", "sure", "doubtful", "old", "early"]),
        ({"known_at": TIME + 49}, [*CURRENT[:3], "old", "brief", "ended", "begun", "early"]),
        ({"known_at": TIME + 50}, [n for n in CURRENT if n != "late"]),
        ({"known_at": TIME + 79}, [n for n in CURRENT if n != "late"]),
        (
            {"known_at": TIME + 79, "current": None},
            [n for n in GRAINS if n not in ("old", "late")],
        ),
        ({"known_at": TIME + 90}, CURRENT),
        (
            {"known_at": TIME + 9, "valid_at": TIME + 15},
            [*CURRENT[:3], "old", "brief", "ended", "early"],
        ),
        # A status that is named is not hidden.
        (
            {"verification_status": "unverified"},
            [n for n in CURRENT if n not in ("sure", "doubtful")],
        ),
        ({"verification_status": "verified"}, ["sure"]),
        ({"verification_status": "contested"}, ["doubtful"]),
        ({"verification_status": "retracted"}, ["withdrawn"]),
        ({"verification_status": "retracted", "current": False}, ["withdrawn", "dropped"]),
        ({"verification_status": "retracted", "current": None}, ["withdrawn", "dropped"]),
        ({"verification_status": "retracted", "known_at": TIME + 79}, ["withdrawn", "dropped"]),
        ({"verification_status": "unverified", "current": False}, ["old", "kept"]),
        ({"verification_status": "verified", "current": False}, []),
        ({"verification_status": "contested", "known_at": TIME + 2}, []),
        # Without a confidence nothing is sure enough.
        ({"min_confidence": 0}, ["sure", "doubtful"]),
        ({"min_confidence": 0.5}, ["sure", "doubtful"]),
        ({"min_confidence": 0.51}, ["sure"]),
        ({"min_confidence": 1, "current": None}, ["old"]),
        ({"min_confidence": 0.1, "verification_status": "contested"}, ["doubtful"]),
        ({"min_confidence": 0.1, "created_before": TIME + 3}, ["sure"]),
        # Times in any form.
        ({"known_at": "2023-11-14T22:13:20.001Z"}, ["plain"]),
    ],
)
def test_conditions(twelve: og.GrainStore, asked: dict[str, Any], expected: list[str]) -> None:
    expected = sorted(expected, key=lambda name: -GRAINS[name][0]["created_at"])
    page = ask(twelve, **asked, scan=True, count=True, explain=True)
    assert names(page) == expected
    assert (page.total, page.next_cursor) == (len(expected), None)
    assert names(ask(twelve, **asked, scan=True, order="oldest")) == expected[::-1]
    tests = ("verification_status", "valid_at", "known_at", "min_confidence")
    assert page.plan is not None
    assert set(page.plan.tested) == asked.keys() & set(tests)
    named = {name for name in asked if name in ("type", *tests)}
    assert all(set(hit.matched_fields) == named for hit in page.results)
    with context_of(twelve).storage.read() as reader:  # a search asks the same of each candidate
        wanted = conditions(asked)
        numbered = [(seq, og.Grain(blob)) for seq, blob in reader.page(0)]
        found = {g["content"] for seq, g in numbered if holds(reader, seq, g, wanted)}
    assert found == set(expected)


def test_what_an_opaque_grain_may_have(store: og.GrainStore) -> None:
    """Its fields can be of any kind: what is no time is none, what is no number is not sure."""
    odd = {"valid_from": "soon", "valid_to": [1], "system_valid_from": True, "confidence": "high"}
    late = {"created_at": 1 << 63, "valid_from": (1 << 64) - 1, "x": 1}
    whole = {"created_at": TIME, "confidence": 1}
    added = [store.put(og.encode(fields, type_byte=0xF0)) for fields in (odd, late, whole)]

    def found(**asked: Any) -> set[int]:
        hits = {hit.address for hit in ask(store, **asked, type=0xF0).results}
        with context_of(store).storage.read() as reader:
            kept = {
                og.address(b)
                for s, b in reader.page(0)
                if holds(reader, s, og.Grain(b), conditions(asked))
            }
        assert hits == kept
        return {n for n, address in enumerate(added) if address in hits}

    assert found(valid_at=5) == found(known_at=TIME) == {0, 1, 2}
    assert found(min_confidence=0.0) == found(created_after=1) == {2}
    assert found(created_before=1) == found(known_at=0) == {0, 1}


@pytest.mark.parametrize("state", [OLD_STATE, verified("retracted"), GrainStatus(restricted=True)])
def test_a_state_that_comes_and_goes(store: og.GrainStore, state: GrainStatus) -> None:
    address = put(store, event("a", 1, user_id="u"))
    for marked in (True, False, True):
        set_state(store, address, state if marked else GrainStatus())
        assert len(ask(store, user_id="u").results) == (not marked)
        assert len(ask(store, user_id="u", current=False).results) == marked
        assert ask(store, user_id="u", count=True).total == (not marked)


# --- namespaces by prefix ------------------------------------------------------------------------


SPACES = [
    "a:",
    "a:b",
    "a:b",
    "a:b:c",
    "ab:c",
    "b",
    "b:a:x",
    "a:" + "n" * 500,
    "b:" + "n" * 500,
    "a",
]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a:*", [0, 1, 2, 3, 7]),
        ("a:b:*", [3]),
        ("b:*", [6, 8]),
        ("a:b*", []),  # not a prefix: the name of no namespace here
        ("a*", []),
        (":*", []),
        ("a:" + "n" * 500 + ":*", []),
    ],
)
@pytest.mark.parametrize("more", [{}, {"user_id": "u"}, {"user_id": "u", "type": "event"}])
def test_prefixes(
    store: og.GrainStore, prefix: str, expected: list[int], more: dict[str, Any]
) -> None:
    for n, space in enumerate(SPACES):
        put(store, event(str(n), n, namespace=space, user_id="u"))
    asked = {"namespace": prefix, **more}
    for order, step in (("newest", -1), ("oldest", 1)):
        found: list[str] = []
        cursor = None
        while True:
            page = ask(store, limit=2, **asked, order=order, cursor=cursor, count=True)
            assert page.total == len(expected)
            found += names(page)
            if (cursor := page.next_cursor) is None:
                break
        assert found == [str(n) for n in expected][::step]
    bounded = ask(store, **asked, created_after=TIME + 2, created_before=TIME + 7)
    assert names(bounded) == [str(n) for n in expected if 2 <= n < 7][::-1]


def test_a_prefix_with_many_namespaces(store: og.GrainStore) -> None:
    """More lists than are walked at the same time; none stays open."""
    store.put_many([event(str(n), n, namespace=f"user:{n % 90}", run_id="r") for n in range(270)])
    context_of(store).inner.flush()
    for order, step in (("newest", -1), ("oldest", 1)):
        page = ask(store, limit=100, namespace="user:*", order=order, explain=True)
        assert names(page) == [str(n) for n in range(270)][::step][:100]
        assert page.plan is not None
        assert (page.plan.rows, page.plan.blobs) == (101, 100)
        page = ask(store, limit=100, namespace="user:*", order=order, cursor=page.next_cursor)
        assert names(page) == [str(n) for n in range(270)][::step][100:200]


def test_a_prefix_is_compared_where_another_list_is_shorter(store: og.GrainStore) -> None:
    store.put_many([event(str(n), n, namespace=f"a:{n % 5}") for n in range(50)])
    put(store, event("x", 100, namespace="a:0", run_id="r"))
    put(store, event("y", 101, namespace="b:0", run_id="r"))
    page = ask(store, namespace="a:*", run_id="r", explain=True)
    assert names(page) == ["x"]
    assert page.plan is not None
    assert (page.plan.index, page.plan.tested, page.plan.blobs) == ("run_id", ("namespace",), 2)


# --- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"user_id": "v"},
        {"user_id": "u", "type": "event"},
        {"user_id": "u", "namespace": "a:"},
        {"user_id": "u", "namespace": "a:*"},
        {"user_id": "u", "current": None},
        {"user_id": "u", "current": False},
        {"user_id": "u", "created_after": 1},
        {"user_id": "u", "created_before": TIME + 99},
        {"user_id": "u", "order": "oldest"},
        *({"user_id": "u", **test} for test in TESTS),
    ],
)
def test_a_cursor_knows_its_query(store: og.GrainStore, other: dict[str, Any]) -> None:
    for n in range(3):
        put(store, event(str(n), n, user_id="u"))
    cursor = ask(store, 1, user_id="u").next_cursor
    assert names(ask(store, 1, user_id="u", cursor=cursor)) == ["1"]
    with pytest.raises(err.SchemaError) as caught:
        ask(store, 1, **other, cursor=cursor)
    assert caught.value.field == "/cursor"


def test_pages_follow_one_another(store: og.GrainStore) -> None:
    store.put_many([event(str(n), n, user_id="u") for n in range(5)])
    page: Page | None = store.query(user_id="u", limit=2, order="oldest", count=True, explain=True)
    pages = []
    while page is not None:
        assert [hit.grain["content"] for hit in page] == names(page)
        assert (page.total, page.plan is None, len(page)) == (5, False, len(page.results))
        pages.append(names(page))
        page = page.next()
    assert pages == [["0", "1"], ["2", "3"], ["4"]]


def test_a_page_without_another_behind_it(store: og.GrainStore) -> None:
    put(store, event("a", 1))
    assert store.query().next() is None
    assert store.search("a").next() is None
    assert len(store.query(user_id="v")) == 0


def test_a_copy_of_a_page_has_a_cursor_but_no_store(store: og.GrainStore) -> None:
    store.put_many([event(str(n), n) for n in range(2)])
    copy = pickle.loads(pickle.dumps(store.query(limit=1)))
    with pytest.raises(err.UnsupportedError):
        copy.next()
    assert names(store.query(limit=1, cursor=copy.next_cursor)) == ["0"]


def test_a_cursor_stays_within_the_bounds(store: og.GrainStore) -> None:
    """Even one that somebody made up."""
    for n in range(9):
        put(store, event(str(n), n))
    bounds = {"created_after": TIME + 2, "created_before": TIME + 6}
    for order, far in (("newest", b"\xff" * 16), ("oldest", bytes(16))):
        cursor = ask(store, 1, **bounds, order=order).next_cursor
        assert cursor is not None
        raw = base64.urlsafe_b64decode(cursor)[:-16] + far
        made_up = base64.urlsafe_b64encode(raw).decode()
        assert sorted(names(ask(store, **bounds, order=order, cursor=made_up))) == list("2345")


# --- what cannot be asked ------------------------------------------------------------------------


@pytest.mark.parametrize("asked", TESTS)
def test_no_scan_unasked(twelve: og.GrainStore, asked: dict[str, Any]) -> None:
    with pytest.raises(err.UnsupportedError):
        ask(twelve, **asked)
    with pytest.raises(err.UnsupportedError):
        ask(twelve, **asked, created_after=0)  # all the same
    ask(twelve, **asked, scan=True)
    for index in ({"created_before": TIME}, {"type": "event"}, {"namespace": "a:*"}):
        ask(twelve, **asked, **index)


@pytest.mark.parametrize(
    ("asked", "error", "field"),
    [
        ({"colour": "red"}, err.SchemaError, "/colour"),
        ({"colour": None}, err.SchemaError, "/colour"),
        ({"Subject": "s"}, err.SchemaError, "/Subject"),
        ({"subject": 5}, err.SchemaError, "/subject"),
        ({"namespace": ["a:*"]}, err.SchemaError, "/namespace"),
        ({"type": "nonsense"}, err.SchemaError, "/type"),
        ({"type": True}, err.SchemaError, "/type"),
        ({"current": 1}, err.SchemaError, "/current"),
        ({"current": "yes"}, err.SchemaError, "/current"),
        ({"current": False, "known_at": TIME}, err.SchemaError, "/current"),
        ({"verification_status": "certain"}, err.SchemaError, "/verification_status"),
        ({"verification_status": ""}, err.SchemaError, "/verification_status"),
        ({"verification_status": []}, err.SchemaError, "/verification_status"),
        ({"valid_at": "yesterday"}, err.SchemaError, "/valid_at"),
        ({"known_at": 1.5}, err.SchemaError, "/known_at"),
        ({"created_after": "2026"}, err.SchemaError, "/created_after"),
        ({"created_before": True}, err.SchemaError, "/created_before"),
        ({"known_at": 1 << 70}, err.RangeError, "/known_at"),
        ({"min_confidence": "0.5"}, err.SchemaError, "/min_confidence"),
        ({"min_confidence": True}, err.SchemaError, "/min_confidence"),
        ({"min_confidence": 1.01}, err.RangeError, "/min_confidence"),
        ({"min_confidence": -0.01}, err.RangeError, "/min_confidence"),
        ({"min_confidence": float("nan")}, err.RangeError, "/min_confidence"),
        ({"order": "random"}, err.SchemaError, "/order"),
        ({"limit": 0}, err.RangeError, "/limit"),
        ({"limit": 10_001}, err.RangeError, "/limit"),
        ({"cursor": "nonsense"}, err.SchemaError, "/cursor"),
        ({"cursor": "\u00e9"}, err.SchemaError, "/cursor"),
    ],
)
def test_refusals(
    twelve: og.GrainStore, asked: dict[str, Any], error: type[err.OmsError], field: str
) -> None:
    with pytest.raises(error) as caught:
        ask(twelve, **asked, scan=True)
    assert type(caught.value) is error
    assert caught.value.field == field


def test_an_unknown_filter_error_lists_all_filters(twelve: og.GrainStore) -> None:
    with pytest.raises(err.SchemaError) as caught:
        ask(twelve, subjekt="s")
    assert caught.value.expected is not None
    assert caught.value.expected.split(", ") == list(FILTERS)


def test_an_unknown_filter_is_refused_everywhere(tmp_path: Path) -> None:
    """The store refuses it, and so does mypy, which reports every ignore that is not needed."""
    with og.open(tmp_path / "m.omsg") as store:
        for call in (
            lambda: store.query(typ="belief"),  # type: ignore[call-arg]
            lambda: store.iter_query(typ="belief"),  # type: ignore[call-arg]
            lambda: store.to_arrow(typ="belief"),  # type: ignore[call-arg]
            lambda: store.search("tea", typ="belief"),  # type: ignore[call-arg]
            lambda: store.export_mg(tmp_path / "m.mg", typ="belief"),  # type: ignore[call-arg]
            lambda: store.parquet.write(tmp_path / "m.pq", typ="belief"),  # type: ignore[call-arg]
        ):
            with pytest.raises(err.SchemaError) as refused:
                call()
            assert refused.value.field == "/typ"
            assert str(refused.value.expected).split(", ") == list(FILTERS)


def test_a_filter_has_a_type_an_option_and_a_parameter() -> None:
    assert list(Filters.__annotations__) == list(FILTERS)
    command = click.Command("query", params=[])
    options = {one.name for one in filter_options(command).params}
    asked = {
        name: {"current": "all_grains", "sealed": "no_sealed"}.get(name, name) for name in FILTERS
    }
    assert options >= set(asked.values())
    [route] = [one for one in ROUTES if (one.method, one.path) == ("GET", "/v1/grains")]
    assert {one.name for one in route.parameters} >= FILTERS.keys() - {"user_id", "sealed"}
