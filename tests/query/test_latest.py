# SPDX-License-Identifier: Apache-2.0
"""The newest grain of each value."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.query import latest as newest
from support.http_server import ADA, site
from support.query_stores import KINDS, TIME, opened
from support.shell import Shell

SEED = 20_261_124
VALUES: list[Any] = [
    1, 1.0, True, "1", -2.5, 0, -0.0, 2**53, 2**53 + 1, -(2**53) - 1, "x" * 40, "x" * 41, [1],
]  # fmt: skip


def reading(n: int, value: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "observation",
        "observer_id": f"lidar-{n % 4}",
        "observer_type": "lidar",
        "subject": "hall" if n % 3 else "dock",
        "object": {"value": value},
        "created_at": TIME + n,
        "user_id": "ada",
        **fields,
    }


def expected(grains: list[dict[str, Any]], **equal: Any) -> list[int]:
    """The plain model: times of the newest grains by value, newest first."""
    seen: list[Any] = []
    found = []
    for fields in reversed(grains):
        value = fields["object"]["value"]
        if isinstance(value, list) or any(fields[name] != x for name, x in equal.items()):
            continue
        alike = (isinstance(value, str), isinstance(value, bool), value)
        if alike not in seen:
            seen.append(alike)
            found.append(fields["created_at"] - TIME)
    return found


def is_above(fields: dict[str, Any]) -> bool:
    value = fields["object"]["value"]
    return type(value) in (int, float) and value > 0


def times(grains: list[og.Grain]) -> list[int]:
    return [grain["created_at"] - TIME for grain in grains]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_each_value_has_its_newest_grain(kind: str, indexed: bool, tmp_path: Path) -> None:
    random = Random(SEED)
    grains = [reading(n, random.choice(VALUES)) for n in range(80)]
    with opened(kind, tmp_path) as store:
        if indexed:
            store.paths.add("object.value")
        store.put_many(grains)
        per = "object.value"
        some: list[Any] = [{}, {"subject": "dock"}, {"observer_id": "lidar-3"}]
        for equal in some:
            found = expected(grains, **equal)
            assert len(found) > 5
            assert times(store.latest(per, scan=not indexed, **equal)) == found
            assert times(store.latest(per, limit=3, scan=not indexed, **equal)) == found[:3]
        high = store.latest(per, subject="hall", where={"object.value": {"gt": 0}})
        above = [n for n in expected(grains, subject="hall") if is_above(grains[n])]
        assert times(high) == above != []
        assert store.latest(per, subject="nowhere") == []


def test_the_last_reading_of_each_sensor(tmp_path: Path) -> None:
    with og.open(tmp_path / "s.omsg", indexed=["observer_id"]) as store:
        addresses = [store.put(reading(n, n)) for n in range(40)]
        assert times(store.latest("observer_id")) == [39, 38, 37, 36]
        store.supersede(addresses[39], reading(50, 50, subject="dock"))
        store.delete(addresses[38])
        assert times(store.latest("observer_id")) == [50, 37, 36, 35]
        assert times(store.latest("observer_id", current=False)) == [39]
        low = {"object.value": {"lt": 10}}
        assert times(store.latest("observer_id", where=low)) == [9, 8, 7, 6]
        assert times(store.latest("observer_id", created_before=TIME + 3)) == [2, 1, 0]


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with og.open(":memory:") as store:
        store.put_many([reading(n, n) for n in range(20)])
        with pytest.raises(err.UnsupportedError) as refused:
            store.latest("observer_id")
        assert refused.value.field == "/per"
        with pytest.raises(err.SchemaError) as wrong:
            store.latest("subject.x")
        assert wrong.value.field == "/per"
        for limit in (0, 10_001, True):
            with pytest.raises(err.RangeError):
                store.latest("observer_id", limit=limit)
        monkeypatch.setattr(newest, "MOST_READ", 10)
        with pytest.raises(err.UnsupportedError):
            store.latest("observer_id", subject="hall")
        store.paths.add("observer_id")
        with pytest.raises(err.UnsupportedError):
            store.latest("observer_id", where={"object.value": -1})
        assert times(store.latest("observer_id")) == [19, 18, 17, 16]


def test_encrypted_grains_count_for_their_user(tmp_path: Path) -> None:
    with (
        KeyRing.create(tmp_path / "x.keys", master=bytes(32)) as keys,
        og.open(":memory:", keys=keys, indexed=["observer_id"]) as store,
    ):
        store.put_many([reading(n, n) for n in range(8)])
        store.put_many([reading(n, n, user_id="bob") for n in range(8, 16)])
        assert times(store.latest("observer_id", user_id="ada")) == [7, 6, 5, 4]


def test_the_command(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "s.omsg"
    with og.open(path) as store:
        store.put_many([reading(n, n) for n in range(20)])
    asked = ("query", path, "--latest-per", "observer_id")
    code, refused = shell.error(*asked)
    assert (code, refused["code"]) == (err.UnsupportedError.exit_code, "ERR_UNSUPPORTED")
    assert "--scan" in refused["expected"]
    assert "omsgrain paths --add" in refused["expected"]
    assert shell("paths", path, "--add", "observer_id") == 0
    found = shell.json(*asked, "--limit", 3)
    assert [row["grain"]["object"]["value"] for row in found["results"]] == [19, 18, 17]
    assert shell(*asked, "--count") == 2
    assert shell.json("paths", path) == {"paths": [{"path": "observer_id", "ready": True}]}
    assert shell("paths", path, "--drop", "observer_id") == 0
    assert shell.json("paths", path) == {"paths": []}


def test_http(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg") as served:
        token = served.token()
        for n in range(8):
            served.ask("POST", "/v1/grains", token, json=reading(n, n, user_id=ADA))
        asked = "/v1/grains?latest_per=observer_id"
        found = served.ask("GET", f"{asked}&subject=hall", token).json()
        assert [one["grain"]["object"]["value"] for one in found["results"]] == [7, 5, 4, 2]
        for wrong in ("limit=101", "count=true", "order=oldest", "latest_per=a.b"):
            assert served.ask("GET", f"{asked}&{wrong}", token).status_code == 422, wrong
