# SPDX-License-Identifier: Apache-2.0
"""The filter ``where``: values inside object and context."""

from __future__ import annotations

import operator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.query import query as queries
from omsgrain.query.where import MOST_TESTS, parse, path_of, path_text
from support.http_server import ADA, site
from support.query_stores import KINDS, TIME, opened

SEED = 20_261_124
VALUES: list[Any] = [
    1,
    1.0,
    2,
    2.5,
    -3,
    0,
    True,
    False,
    "",
    "1",
    "lab",
    "Caf\u00e9",
    [1],
    {"x": 1},
]
SCALARS = [value for value in VALUES if isinstance(value, str | int | float)]
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
MISSING = object()


def reading(n: int, **values: Any) -> dict[str, Any]:
    return {
        "type": "observation",
        "observer_id": "lidar-3",
        "observer_type": "lidar",
        "subject": "hall",
        "created_at": TIME + n,
        "user_id": "ada",
        **values,
    }


def some_grain(random: Random, n: int) -> dict[str, Any]:
    fields = reading(n)
    if random.random() < 0.8:
        keys = [key for key in ("value", "unit", "a.b") if random.random() < 0.6]
        fields["object"] = {key: random.choice(VALUES) for key in keys} | (
            {"deep": {"x": random.choice(SCALARS)}} if random.random() < 0.5 else {}
        )
    elif random.random() < 0.5:
        fields["object"] = random.choice([value for value in VALUES if value != ""])
    if random.random() < 0.5:
        fields["context"] = {"room": random.choice(["lab", "hall"])}
    return fields


PATHS = {
    "object": ("object",),
    "object.value": ("object", "value"),
    "object.unit": ("object", "unit"),
    "object.a\\.b": ("object", "a.b"),
    "object.deep.x": ("object", "deep", "x"),
    "context.room": ("context", "room"),
}


def some_tests(random: Random) -> dict[str, Any]:
    chosen = random.sample(list(PATHS), random.choice([1, 1, 2]))
    asked: dict[str, Any] = {}
    for path in chosen:
        if random.random() < 0.4:
            asked[path] = random.choice(SCALARS)
            continue
        names = random.sample(list(COMPARE), random.choice([1, 2]))
        plain = [value for value in SCALARS if not isinstance(value, bool)]
        asked[path] = {
            name: random.choice(SCALARS if name in ("eq", "ne") else plain) for name in names
        }
    return asked


def holds(fields: dict[str, Any], asked: dict[str, Any]) -> bool:
    """The plain model: a second way to say what the filter means."""
    for path, tests in asked.items():
        found: Any = fields
        for key in PATHS[path]:
            found = found.get(key, MISSING) if isinstance(found, dict) else MISSING
        for name, value in (tests if isinstance(tests, dict) else {"eq": tests}).items():
            alike = isinstance(found, str) if isinstance(value, str) else (
                type(found) in (int, float) if type(value) in (int, float) else type(found) is bool
            )  # fmt: skip
            good = COMPARE[name](found, value) if alike else name == "ne"
            if not good:
                return False
    return True


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with opened(request.param, tmp_path) as store:
        yield store


def numbers(page: queries.Page) -> list[int]:
    return [hit.grain["created_at"] - TIME for hit in page]


def test_random_tests_beside_a_plain_model(store: og.GrainStore) -> None:
    random = Random(SEED)
    grains = [some_grain(random, n) for n in range(120)]
    store.put_many(grains)
    matched = 0
    for _ in range(150):
        asked = some_tests(random)
        expected = [n for n in range(119, -1, -1) if holds(grains[n], asked)]
        assert numbers(store.query(user_id="ada", where=asked, limit=200)) == expected, asked
        matched += bool(expected)
    assert matched > 50


def test_the_last_reading_above_a_value(store: og.GrainStore) -> None:
    store.put_many([reading(n, object={"metres": n / 2}) for n in range(10)])
    page = store.query(
        subject="hall", where={"object.metres": {"gt": 1, "lt": 3}}, limit=1, count=True
    )
    assert numbers(page) == [5]
    assert page.total == 3
    following = page.next()
    assert following is not None
    assert numbers(following) == [4]


def test_a_number_in_object_itself(store: og.GrainStore) -> None:
    store.put_many([reading(n, object=n) for n in range(1, 5)])
    assert numbers(store.query(subject="hall", where={"object": {"gte": 3}})) == [4, 3]


def test_encrypted_grains_are_tested_for_their_user(tmp_path: Path) -> None:
    with (
        KeyRing.create(tmp_path / "x.keys", master=bytes(32)) as keys,
        og.open(":memory:", keys=keys) as store,
    ):
        store.put_many([reading(n, object={"metres": n}) for n in range(4)])
        assert numbers(store.query(user_id="ada", where={"object.metres": {"gt": 1}})) == [3, 2]
        with pytest.raises(err.UnsupportedError) as refused:
            store.query(subject="hall", where={"object.metres": 1})
        assert refused.value.field == "/user_id"
        store.put(reading(9, object="metres " * 3, context={"room": "lab"}))
        found = store.search("metres", user_id="ada", where={"context.room": "lab"})
        assert numbers(found) == [9]


def test_a_query_that_reads_too_much_is_refused(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_many([reading(n, object=n + 1) for n in range(20)])
    monkeypatch.setattr(queries, "MOST_READ", 10)
    none = {"object": {"gt": 99}}
    with pytest.raises(err.UnsupportedError) as refused:
        store.query(subject="hall", where=none)
    assert refused.value.field == "/where"
    assert len(store.query(subject="hall", where=none, scan=True)) == 0
    assert numbers(store.query(subject="hall", where={"object": {"gt": 9}}, limit=5)) == [
        *range(19, 14, -1)
    ]
    with pytest.raises(err.UnsupportedError):
        store.query(where=none)


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("object.x = 1", "ERR_SCHEMA"),
        ([], "ERR_SCHEMA"),
        ({}, "ERR_SCHEMA"),
        ({1: 1}, "ERR_SCHEMA"),
        ({"subject.x": 1}, "ERR_SCHEMA"),
        ({"object..x": 1}, "ERR_SCHEMA"),
        ({"object.": 1}, "ERR_SCHEMA"),
        ({"object.x\\": 1}, "ERR_SCHEMA"),
        ({"object" + ".x" * 16: 1}, "ERR_SCHEMA"),
        ({"object." + "x" * 1_000: 1}, "ERR_SCHEMA"),
        ({"object.\ud800": 1}, "ERR_SCHEMA"),
        ({"object.x": {}}, "ERR_SCHEMA"),
        ({"object.x": {"like": "a"}}, "ERR_SCHEMA"),
        ({"object.x": None}, "ERR_SCHEMA"),
        ({"object.x": [1]}, "ERR_SCHEMA"),
        ({"object.x": {"gt": True}}, "ERR_SCHEMA"),
        ({"object.x": {"gt": float("nan")}}, "ERR_SCHEMA"),
        ({"object.x": "\ud800"}, "ERR_SCHEMA"),
        ({f"object.x{n}": 1 for n in range(MOST_TESTS + 1)}, "ERR_RANGE"),
    ],
)
def test_refusals(where: Any, code: str) -> None:
    with pytest.raises(err.OmsError) as refused:
        parse(where)
    assert (refused.value.code, refused.value.field) == (code, "/where")


def test_a_refusal_shows_no_value() -> None:
    with pytest.raises(err.SchemaError) as refused:
        parse({"subject": {"eq": "mira@example.org", "like": "mira"}})
    assert refused.value.found == "'like'" and "mira" not in str(refused.value)


def test_a_path_and_its_text() -> None:
    for keys in (("object", "a"), ("context", "a.b", "c\\", "."), ("object",)):
        assert path_of(path_text(*keys)) == keys


def test_a_cursor_belongs_to_its_tests(store: og.GrainStore) -> None:
    store.put_many([reading(n, object=n + 1) for n in range(3)])
    cursor = store.query(subject="hall", where={"object": {"gt": 0}}, limit=1).next_cursor
    with pytest.raises(err.SchemaError):
        store.query(subject="hall", where={"object": {"gt": 1}}, cursor=cursor)


def test_http(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg") as served:
        token = served.token()
        for n in range(3):
            grain = reading(n, object={"metres": n}) | {"user_id": ADA}
            served.ask("POST", "/v1/grains", token, json=grain)
        asked = "/v1/grains?subject=hall&where="
        found = served.ask("GET", asked + '{"object.metres":{"lt":1}}', token)
        assert [one["grain"]["object"] for one in found.json()["results"]] == [{"metres": 0}]
        for wrong in ("{", '{"object.metres":null}', '{"a":1,"a":2}'):
            assert served.ask("GET", asked + wrong, token).status_code == 422
