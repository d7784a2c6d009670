# SPDX-License-Identifier: Apache-2.0
"""Stores and files that an earlier version wrote open, check and answer as they did then."""

from __future__ import annotations

import json
from pathlib import Path

import lmdb
import pytest

import omsgrain as og
from omsgrain.storage.tables import INDEXED_FORMAT, TABLES
from support import golden
from support.golden import CODECS, STORES, answers, opened, unpack


@pytest.mark.parametrize("name", STORES)
def test_a_golden_store_answers_as_it_did(name: str, tmp_path: Path) -> None:
    expected = json.loads((golden.DATA / f"{name}.answers.json").read_text("utf-8"))
    folder = unpack(name, tmp_path)
    with opened(folder) as store:
        found = json.loads(json.dumps(answers(store)))
    assert found.keys() == expected.keys()
    for question in expected:
        assert found[question] == expected[question], question


def test_a_golden_store_keeps_its_paths(tmp_path: Path) -> None:
    """Rebuilt, compacted and with its paths added again, it answers from the same indexes."""
    expected = json.loads((golden.DATA / "sealed-7.answers.json").read_text("utf-8"))
    with opened(unpack("sealed-7", tmp_path)) as store:
        assert store.stats().format == INDEXED_FORMAT
        store.paths.add(*expected["paths"])
        store.maintenance.rebuild()
        store.maintenance.compact()
        found = answers(store)
        for question in ("observer", "exactly", "warm", "warm_plain", "latest", "check_ok"):
            assert found[question] == expected[question], question
        for asked in ({"observer_id": "gauge-1"}, {"where": {"object.celsius": {"gte": 22.5}}}):
            page = store.query(**asked, sealed=False, explain=True)
            assert page.plan is not None
            assert page.plan.index in expected["paths"]
        # The blind rows that were missing are there now.
        page = store.query(where={"object.celsius": 21}, count=True)
        assert page.total == len(expected["exactly"]) + 1


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("codec", CODECS)
def test_a_golden_export_holds_the_grains_of_its_store(
    name: str, codec: str, tmp_path: Path
) -> None:
    expected = json.loads((golden.DATA / f"{name}.answers.json").read_text("utf-8"))
    folder = unpack(name, tmp_path)
    with og.container.read(folder / f"{codec}.mg") as file:
        assert file.verify().ok
        found = {file.address(n) for n in range(len(file))}
    assert found and found <= {*expected["grains"], *expected["erased"]}


def test_the_golden_stores_use_every_table(tmp_path: Path) -> None:
    used: set[bytes] = set()
    for name in STORES:
        path = unpack(name, tmp_path) / "store.omsg"
        with lmdb.open(str(path), max_dbs=64, readonly=True, lock=False) as environment:
            with environment.begin() as transaction:
                names = [key for key, _ in transaction.cursor()]
            for table in names:
                database = environment.open_db(table, create=False)
                with environment.begin(database) as transaction:
                    if transaction.stat(database)["entries"]:
                        used.add(bytes(table))
    # The number at the end is a format; a table of an older one is upgraded.
    assert {table.name[:-1] for table in TABLES} <= {name[:-1] for name in used}
