# SPDX-License-Identifier: Apache-2.0
"""Rows S4 and S5: grains out of a store on disk, by address and by what they say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import omsgrain as og
from benches import areev_peer, data, git_peer, peer, sqlite_peer
from benches.measure import Case, Plan, Row, check, timed
from omsgrain.batch import GrainBatch

PAGE = 10

Fields = dict[str, Any]


def _stored(plan: Plan) -> tuple[og.GrainStore, GrainBatch, list[str]]:
    """A store, what was put into it, and the addresses in an order that is not theirs."""
    store = og.open(plan.directory / "ours.omsg")
    batch = og.encode_many(plan.grains())
    check(store.put_many(batch).stored == plan.count, "all are new")
    addresses = batch.addresses
    random.Random(4).shuffle(addresses)
    return store, batch, addresses


def _by_address(plan: Plan, read: Callable[[og.GrainStore, list[str]], list[og.Grain]]) -> Case:
    store, batch, addresses = _stored(plan)
    blobs = dict(batch)

    def ours() -> list[object]:
        return [grain.fields for grain in read(store, addresses)]

    def theirs() -> list[object]:
        return [og.decode(blobs[address]).fields for address in addresses]

    check(ours() == theirs(), "the same fields")
    return Case(timed(ours), timed(theirs), plan.count)


def get(plan: Plan) -> Case:
    return _by_address(plan, lambda store, addresses: [store.get(one) for one in addresses])


def get_many(plan: Plan) -> Case:
    return _by_address(plan, lambda store, addresses: store.get_many(addresses))


def get_sqlite(plan: Plan) -> Case:
    store, batch, addresses = _stored(plan)
    table = sqlite_peer.documents(plan.directory / "peer.db", batch.addresses, plan.grains())
    select = "SELECT document FROM grains WHERE address = ?"

    def ours() -> list[Fields]:
        return [dict(store.get(address).fields) for address in addresses]

    def theirs() -> list[Fields]:
        rows = [table.execute(select, (address,)).fetchone() for address in addresses]
        return [json.loads(document) for (document,) in rows]

    check(ours() == theirs(), "the same fields")
    return Case(timed(ours), timed(theirs), plan.count)


def get_many_git(plan: Plan) -> Case:
    """The peer reads blobs that are sorted into one pack, and checks no hash."""
    store, batch, addresses = _stored(plan)
    repository = git_peer.opened(plan.directory / "peer.git")
    git_peer.add(repository, git_peer.stream(batch.blobs))
    ids = dict(zip(batch.addresses, git_peer.ids(repository), strict=True))
    names = [ids[address] for address in addresses]

    def ours() -> list[bytes]:
        return [grain.blob for grain in store.get_many(addresses)]

    def theirs() -> list[bytes]:
        return git_peer.read(repository, names)

    check(ours() == theirs(), "the same blobs")
    return Case(timed(ours), timed(theirs), plan.count)


def query(plan: Plan) -> Case:
    orjson = peer.module("orjson")
    grains, store, subjects = _asked(plan)
    relation = grains[0]["relation"]
    db = areev_peer.opened(plan.directory)
    check(len(areev_peer.add(db, areev_peer.calls(grains))) == plan.count, "the peer has all")

    def ours_of(subject: str) -> list[object]:
        page = store.query(subject=subject, relation=relation, limit=PAGE)
        return [hit.grain["object"] for hit in page.results]

    def peer_of(subject: str) -> list[object]:
        found = orjson.loads(db.recall(subject, relation, PAGE))
        return [grain["fields"]["object"] for grain in found]

    for subject in subjects:
        expected = [grain["object"] for grain in _newest(grains, subject)]
        check(ours_of(subject) == expected, "the newest of the subject")
        check(peer_of(subject) == expected, "the peer finds the same")
    return Case(
        timed(lambda: [ours_of(subject) for subject in subjects]),
        timed(lambda: [peer_of(subject) for subject in subjects]),
        len(subjects),
    )


def query_sqlite(plan: Plan) -> Case:
    grains, store, subjects = _asked(plan)
    relation = grains[0]["relation"]
    addresses = og.encode_many(grains).addresses
    table = sqlite_peer.documents(plan.directory / "peer.db", addresses, grains)
    select = (
        "SELECT document FROM grains WHERE subject = ? AND relation = ? AND current = 1 "
        f"ORDER BY created_at DESC LIMIT {PAGE}"
    )

    def ours_of(subject: str) -> list[Fields]:
        page = store.query(subject=subject, relation=relation, limit=PAGE)
        return [dict(hit.grain.fields) for hit in page.results]

    def peer_of(subject: str) -> list[Fields]:
        rows = table.execute(select, (subject, relation))
        return [json.loads(document) for (document,) in rows]

    for subject in subjects:
        expected = _newest(grains, subject)
        check(ours_of(subject) == expected, "the newest of the subject")
        check(peer_of(subject) == expected, "the peer finds the same")
    return Case(
        timed(lambda: [ours_of(subject) for subject in subjects]),
        timed(lambda: [peer_of(subject) for subject in subjects]),
        len(subjects),
    )


def _asked(plan: Plan) -> tuple[list[data.Fields], og.GrainStore, list[str]]:
    """Grains, a store that has them, and their subjects in another order."""
    grains = plan.grains()
    store = og.open(plan.directory / "ours.omsg")
    check(store.put_many(grains).stored == plan.count, "all are new")
    subjects = list(dict.fromkeys(grain["subject"] for grain in grains))
    random.Random(5).shuffle(subjects)
    return grains, store, subjects


def _newest(grains: list[data.Fields], subject: str) -> list[data.Fields]:
    return [grain for grain in reversed(grains) if grain["subject"] == subject][:PAGE]


ROWS = (
    Row("S4", "get by address, hot, with the fields", "decode from a dict of blobs", 0.4, get),
    Row(
        "S4-many",
        "get_many by address, hot, with the fields",
        "decode from a dict of blobs",
        0.6,
        get_many,
    ),
    Row(
        "S4-sqlite",
        "get by address, hot, with the fields",
        "SQLite, select by key, and json.loads",
        1.0,
        get_sqlite,
    ),
    Row(
        "S4-git",
        "get_many by address, hot, verified blobs",
        "git cat-file --batch, with its start, not verified",
        1.0,
        get_many_git,
    ),
    Row(
        "S5",
        f"query(subject, relation, limit={PAGE}) in 10,000 grains, down to the objects",
        f"{areev_peer.NAME} recall",
        3.0,
        query,
        count=10_000,
        of="queries",
    ),
    Row(
        "S5-sqlite",
        f"query(subject, relation, limit={PAGE}) in 10,000 grains, with the fields",
        "SQLite with an index on both columns, and json.loads",
        1.5,
        query_sqlite,
        count=10_000,
        of="queries",
    ),
)
