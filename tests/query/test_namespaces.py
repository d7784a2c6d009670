# SPDX-License-Identifier: Apache-2.0
"""The list of namespaces: current ones only, by prefix and by user."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from support.query_stores import KINDS, TIME, opened

LONG = "robots:" + "n" * 490
NAMES = ["robots", "robots:1", "robots:2", "robots:*", "home", "Caf\u00e9:x", "", LONG]


def note(n: int, **fields: Any) -> dict[str, Any]:
    return {"type": "event", "content": f"note {n}", "created_at": TIME + n, **fields}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with opened(request.param, tmp_path) as store:
        yield store


def test_random_stores_beside_a_plain_model(store: og.GrainStore) -> None:
    random = Random(11)
    grains = [
        note(n, namespace=random.choice(NAMES), user_id=random.choice(["ada", "eva"]))
        for n in range(30)
    ]
    addresses = store.put_many(grains).addresses
    for n in random.sample(range(30), 18):
        address = addresses[n]
        assert address is not None
        random.choice([store.delete, store.retract])(address)
        del grains[n]["namespace"]
    for prefix in ("", "robots", "robots:", "Cafe\u0301", LONG, "x"):
        for user in (None, "ada", "nobody"):
            expected = {
                one["namespace"]
                for one in grains
                if "namespace" in one and user in (None, one["user_id"])
            }
            begun = "Caf\u00e9" if prefix.startswith("Cafe") else prefix
            found = store.namespaces(prefix, user_id=user)
            assert found == sorted(name for name in expected if name.startswith(begun))


def test_encrypted_namespaces_are_those_that_the_key_opens(tmp_path: Path) -> None:
    with (
        KeyRing.create(tmp_path / "x.keys", master=bytes(32)) as keys,
        og.open(tmp_path / "m.omsg", keys=keys) as store,
    ):
        store.put(note(1, namespace="ada:a", user_id="ada"))
        store.put(note(2, namespace="eva:b", user_id="eva"))
        store.put(note(3, namespace="open"))
        assert store.namespaces() == ["open"]
        assert store.namespaces(user_id="ada") == ["ada:a"]
        assert store.namespaces("eva", user_id="eva") == ["eva:b"]
        assert store.namespaces("eva", user_id="ada") == []
    with og.open(tmp_path / "m.omsg") as store:
        assert store.namespaces(user_id="ada") == []


def test_bookkeeping_is_left_out(tmp_path: Path) -> None:
    with og.open(":memory:") as store:
        store.put(
            {"type": "state", "namespace": "mif", "context": {"kind": "mif:x"}, "created_at": TIME}
        )
        assert store.namespaces() == [grain["namespace"] for grain in store.iter_query()]


def test_refusals() -> None:
    with og.open(":memory:") as store:
        for given in ({"prefix": 1}, {"user_id": 1}):
            with pytest.raises(err.SchemaError):
                store.namespaces(**given)  # type: ignore[arg-type]
