# SPDX-License-Identifier: Apache-2.0
"""The storage of CrewAI's memory beside CrewAI's own: the same calls, the same answers."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord

import omsgrain as og
from omsgrain.integrations.crewai import CrewaiStorage
from support.frameworks import run_page

SCOPES = ("/", "/team", "/team/ada", "/team/ada/notes", "/plant", "/plant/hall")
CATEGORIES = ("sensor", "note", "plan")
START = datetime(2026, 1, 15)


def vector(random: Random) -> list[float]:
    """A vector of length 1, as embedders return them."""
    values = [random.gauss(0, 1) for _ in range(8)]
    length = sqrt(sum(value * value for value in values))
    return [value / length for value in values]


def record(random: Random, number: int, **more: Any) -> MemoryRecord:
    given: dict[str, Any] = {
        "content": f"reading {number}",
        "scope": random.choice(SCOPES),
        "categories": random.sample(CATEGORIES, random.randrange(3)),
        "metadata": random.choice(({}, {"hall": 1}, {"hall": 2, "of": "a"})),
        "importance": round(random.random(), 2),
        "created_at": START + timedelta(minutes=number),
        "last_accessed": START,
        "embedding": vector(random),
        "source": random.choice((None, "ada")),
        "private": random.random() < 0.2,
    }
    return MemoryRecord(**(given | more))


def plain(found: Any) -> Any:
    return found.model_dump(exclude={"embedding"})


def filters(random: Random) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if random.random() < 0.5:
        given["scope_prefix"] = random.choice(SCOPES[1:])
    if random.random() < 0.4:
        given["categories"] = random.sample(CATEGORIES, random.randrange(1, 3))
    if random.random() < 0.3:
        given["metadata_filter"] = {"hall": random.randrange(3)}
    return given


def test_it_is_a_storage_backend(memory: og.Memory) -> None:
    assert isinstance(CrewaiStorage(memory), StorageBackend)


def test_it_answers_as_the_storage_of_crewai(memory: og.Memory, tmp_path: Path) -> None:
    """Searches, lists, counts and updates. With filters, LanceDB ranks too few candidates.

    Deletions are named by id or by metadata: with a scope, LanceDB deletes the root's records too.
    """
    random, ours = Random(11), CrewaiStorage(memory)
    theirs = LanceDBStorage(path=str(tmp_path / "lance"), compact_every=0)
    known: list[MemoryRecord] = []
    for number in range(120):
        match random.choice(("save", "save", "update", "delete", "search", "list", "scope")):
            case "save":
                new = [record(random, number * 10 + i) for i in range(random.randrange(1, 4))]
                ours.save(new)
                theirs.save(new)
                known += new
            case "update" if known:
                before = random.choice(known)
                after = record(random, number, id=before.id, created_at=before.created_at)
                ours.update(after)
                theirs.update(after)
            case "delete" if known:
                gone = random.sample(known, min(len(known), random.randrange(3)))
                if gone:
                    ids = [one.id for one in gone]
                    assert ours.delete(record_ids=ids) == theirs.delete(record_ids=ids)
                    known = [one for one in known if one not in gone]
            case "search":
                scope = random.choice((None, *SCOPES))
                query, least = vector(random), random.choice((0.0, 0.4))
                given: dict[str, Any] = {
                    "scope_prefix": scope,
                    "limit": random.randrange(1, 8),
                    "min_score": least,
                }
                one, two = ours.search(query, **given), theirs.search(query, **given)
                assert [plain(found) for found, _ in one] == [plain(found) for found, _ in two]
                assert [s for _, s in one] == pytest.approx([s for _, s in two], abs=1e-5)
            case "list":
                scope = random.choice((None, *SCOPES))
                size = {"limit": random.randrange(6), "offset": random.randrange(4)}
                one, two = ours.list_records(scope, **size), theirs.list_records(scope, **size)
                assert [plain(found) for found in one] == [plain(found) for found in two]
                assert ours.count(scope) == theirs.count(scope)
            case "scope":
                scope = random.choice(SCOPES)
                assert ours.get_scope_info(scope) == theirs.get_scope_info(scope)
                assert ours.list_scopes(scope) == theirs.list_scopes(scope)
                assert ours.list_categories(scope) == theirs.list_categories(scope)
    assert known and ours.count() == len(known)
    for one in known:
        kept = ours.get_record(one.id)
        assert kept is not None and kept.embedding is not None
        assert plain(kept) == plain(theirs.get_record(one.id))


def test_filters_of_searches_and_deletions(memory: og.Memory) -> None:
    random, storage = Random(5), CrewaiStorage(memory)
    records = [record(random, number) for number in range(40)]
    storage.save(records)
    for _ in range(20):
        given = filters(random)
        wanted = {
            one.id
            for one in records
            if f"{one.scope}/".startswith(given.get("scope_prefix", "").rstrip("/") + "/")
            and (not given.get("categories") or set(given["categories"]) & set(one.categories))
            and given.get("metadata_filter", {}).items() <= one.metadata.items()
        }
        assert {
            found.id for found, _ in storage.search(vector(random), **given, limit=99)
        } == wanted
        if len(wanted) < 5:
            assert storage.delete(**given) == len(wanted)
            records = [one for one in records if one.id not in wanted]
    half = START + timedelta(minutes=20)
    old = sum(one.created_at < half for one in records)
    assert storage.delete(older_than=half) == old
    storage.reset("/team")
    assert storage.count("/team") == 0
    storage.reset()
    assert storage.count() == 0
    assert storage.search(vector(random)) == []


def test_a_search_in_a_scope_ranks_all_its_records(
    memory: og.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of other scopes that are nearer take no place among its candidates."""
    monkeypatch.setattr("omsgrain.integrations.crewai._NEAREST", 5)
    random, storage = Random(3), CrewaiStorage(memory)
    near, far = [1.0, 0.0], [0.0, 1.0]
    storage.save([record(random, n, scope="/plant", embedding=near) for n in range(9)])
    wanted = [record(random, n, scope=f"/team/{n}/", embedding=far) for n in (10, 11)]
    storage.save([*wanted, record(random, 12, scope="/teams", embedding=far)])
    found = storage.search(near, scope_prefix="/team/")
    assert {one.id for one, _ in found} == {one.id for one in wanted}
    storage.update(wanted[0].model_copy(update={"scope": "/plant/hall"}))
    assert [one.id for one, _ in storage.search(near, scope_prefix="/team")] == [wanted[1].id]
    assert storage.count("/plant/hall") == 1


def test_an_update_keeps_the_former_version_and_the_embedding(memory: og.Memory) -> None:
    storage, first = CrewaiStorage(memory), record(Random(1), 1)
    storage.save([first])
    storage.update(first.model_copy(update={"content": "corrected", "embedding": None}))
    kept = storage.get_record(first.id)
    assert kept is not None and kept.content == "corrected"
    assert kept.embedding == pytest.approx(first.embedding)
    (found,) = memory.recall("corrected")
    assert len(memory.store.history(found.address)) == 2


def test_embeddings_of_another_length_are_refused(memory: og.Memory) -> None:
    storage = CrewaiStorage(memory)
    storage.save([record(Random(1), 1)])
    for call in (lambda: storage.search([1.0]), lambda: storage.save([record(Random(2), 2, embedding=[1.0])])):  # fmt: skip  # noqa: E501
        with pytest.raises(EmbeddingDimensionMismatchError):
            call()
    storage.reset()
    storage.save([record(Random(2), 2, embedding=[1.0])])  # as after a change of the model
    assert len(storage.search([1.0])) == 1


def test_the_page(tmp_path: Path) -> None:
    run_page("crewai", tmp_path)
