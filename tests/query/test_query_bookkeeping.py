# SPDX-License-Identifier: Apache-2.0
"""Queries leave out the bookkeeping grains of documents; files, copies and `get` have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.formats.source import NAMES, NAMESPACES, is_beside
from omsgrain.interchange.mif_import import import_document
from omsgrain.memory.verbs import stats
from support.mif_imports import USER, Maker
from support.query_stores import KINDS, opened
from support.shell import Shell

OTHERS = 12
ASKED: list[dict[str, Any]] = [
    {},
    {"user_id": USER},
    {"type": "state"},
    {"type": "state", "user_id": USER},
    {"namespace": "mif2"},
    {"namespace": "omsgrain:*"},
    {"namespace": "omsgrain:raw"},
    {"namespace": "mif2", "user_id": USER, "type": "state"},
    {"current": None},
    {"created_after": 0},
    {"created_before": 1_700_000_000_000},
    {"verification_status": "unverified", "user_id": USER},
    {"known_at": 1_790_000_000_000, "user_id": USER},
    {"user_id": USER, "words": "mif2"},
]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    """Two documents with large records, one that is written twice, and State grains of a robot."""
    with opened(request.param, tmp_path) as store:
        fill(store)
        yield store


def fill(store: og.GrainStore) -> None:
    for format in ("mif2", "mif1"):
        maker = Maker(format)
        big = maker.memory(1, "one", metadata={"notes": [f"{n:064}" for n in range(12_000)]})
        # The date of the second is the newest of all, and that of the first is long ago.
        old = maker.memory(2, "two", created_at="1970-01-01T00:00:00Z")
        document = maker.document(big, old, maker.memory(3, "two"))
        import_document(store, json.dumps(document).encode(), user_id=USER)
    for n in range(OTHERS):
        fields = {"type": "state", "context": {"battery": n, "kind": "omsgrain:raw"}}
        store.put(fields | {"created_at": n, "user_id": USER, "namespace": "robots"})


def addresses(page: Any) -> list[str]:
    return [hit.address for hit in page.results]


def test_each_format_keeps_its_documents_in_a_namespace_of_these() -> None:
    assert {*NAMES} <= {*NAMESPACES}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_results_pages_and_counts_have_no_bookkeeping(
    store: og.GrainStore, asked: dict[str, Any]
) -> None:
    every = store.query(**asked, bookkeeping=True, limit=1_000, count=True)
    beside = {hit.address for hit in every.results if is_beside(hit.grain)}
    wanted = [address for address in addresses(every) if address not in beside]
    assert beside
    assert every.total == len(every.results)
    for limit in (1, 3, len(wanted) or 1, 1_000):
        met: list[str] = []
        cursor = None
        while True:
            page = store.query(**asked, limit=limit, cursor=cursor, count=True)
            met += addresses(page)
            assert page.total == len(wanted)
            assert len(page.results) == min(limit, len(wanted) - len(met) + len(page.results))
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(met) < len(wanted)
        assert met == wanted


def test_state_grains_of_others_are_found(store: og.GrainStore) -> None:
    assert store.query(namespace="robots", count=True).total == OTHERS
    assert store.query(type="state", count=True).total == OTHERS


def test_match_leaves_them_out_and_the_walk_of_all_grains_does_not(store: og.GrainStore) -> None:
    assert not any(is_beside(grain) for grain in store.iter_query())
    assert sum(1 for _ in store) == len(store)
    assert any(is_beside(grain) for grain in store)


def test_a_search_leaves_them_out(store: og.GrainStore) -> None:
    for more in ({}, {"user_id": USER}, {"type": "state"}):
        asked: dict[str, Any] = {"limit": 100, **more}
        found = store.search("raw document two battery mif2 omsgrain", **asked)
        assert not any(is_beside(hit.grain) for hit in found.results)
        both = store.search("omsgrain document", bookkeeping=True, **asked)
        assert any(is_beside(hit.grain) for hit in both.results)


def test_an_agent_sees_only_memories(store: og.GrainStore) -> None:
    shown = [grain for grain in store if not is_beside(grain)]
    assert stats(store, USER)["grains"] == len(shown) < len(store)


def test_mg_files_have_them(store: og.GrainStore, tmp_path: Path) -> None:
    both: list[dict[str, Any]] = [{}, {"user_id": USER}]
    for filters in both:
        path = tmp_path / "all.mg"
        store.export_mg(path, **filters)
        with og.open(tmp_path / f"{len(filters)}.omsg") as other:
            other.import_mg(path)
            assert {grain.address for grain in other} == {grain.address for grain in store}


def test_a_cursor_belongs_to_the_one_or_the_other_question(store: og.GrainStore) -> None:
    cursor = store.query(limit=2).next_cursor
    with pytest.raises(err.SchemaError) as refused:
        store.query(limit=2, cursor=cursor, bookkeeping=True)
    assert refused.value.field == "/cursor"
    with pytest.raises(err.SchemaError) as refused:
        store.query(bookkeeping="yes")  # type: ignore[arg-type]
    assert refused.value.field == "/bookkeeping"


def test_the_command_line_asks_for_them(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        fill(store)
        count = sum(1 for grain in store if not is_beside(grain))
        whole = len(store)
    shell = Shell(capfdbinary, monkeypatch)
    query = ("query", path, "--count", "--all")
    assert shell.json(*query)["total"] == count < whole
    assert shell.json(*query, "--bookkeeping")["total"] == whole
