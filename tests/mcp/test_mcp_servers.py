# SPDX-License-Identifier: Apache-2.0
"""Several servers on one store, each with many calls at once: no memory is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from support.mcp_agents import ADA
from support.mcp_lines import HELLO, READY, Process, remember
from support.store_kinds import url_of


@pytest.mark.parametrize(
    ("kind", "servers", "calls"),
    [
        ("lmdb", 2, 10),
        pytest.param("lmdb", 4, 25, marks=pytest.mark.long),
        pytest.param("postgres", 4, 25, marks=pytest.mark.services),
    ],
)
def test_every_remembered_memory_is_kept(
    tmp_path: Path, kind: str, servers: int, calls: int
) -> None:
    where = str(tmp_path / "m.omsg") if kind == "lmdb" else url_of(tmp_path)
    processes = [Process(where, "--create") for _ in range(servers)]
    said = {(at, n): f"animal {at}-{n} sleeps" for at in range(servers) for n in range(calls)}
    for process in processes:
        process.say(HELLO, READY)
        assert process.hear()["result"]["serverInfo"]["name"] == "omsgrain"
    for at, process in enumerate(processes):
        process.say(*(remember(n + 1, said[at, n]) for n in range(calls)))
    answers = {
        (at, answer["id"] - 1): answer["result"]["structuredContent"]
        for at, process in enumerate(processes)
        for answer in [process.hear() for _ in range(calls)]
    }
    assert answers.keys() == said.keys()
    assert all(one["new"] for one in answers.values())
    assert [process.end()[0] for process in processes] == [0] * servers
    with og.open(where, readonly=True) as store:
        kept = {hit.address: hit.grain for hit in store.query(user_id=ADA, limit=1_000).results}
        assert len(kept) == servers * calls
        for key, text in said.items():
            assert kept[answers[key]["content_address"]]["object"] == text
        assert store.maintenance.check().ok
