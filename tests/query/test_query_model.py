# SPDX-License-Identifier: Apache-2.0
"""Queries against a plain-Python model, over whatever can happen to a store in between."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

import omsgrain as og
from omsgrain.storage.check import check
from omsgrain.store.context import context_of
from support.query_model import OBSERVER, TIME, QueryModel, nfc
from support.query_stores import ask
from support.store_kinds import POSTGRES, made

RUN = 20


class LmdbQueryModel(QueryModel):
    """On disk there are more ways to lose something."""

    def __init__(self) -> None:
        self.top = Path(tempfile.mkdtemp())
        super().__init__()

    def open(self) -> og.GrainStore:
        return og.open(self.top / "memory.omsg", durability="relaxed")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.top)

    @rule(readonly=st.booleans())
    def reopen(self, readonly: bool) -> None:
        self.store.close()
        if readonly:
            with og.open(self.top / "memory.omsg", readonly=True) as store:
                for current in (True, False, None):
                    found = [hit.grain for hit in ask(store, 10_000, current=current).results]
                    assert found == self.answer({"current": current})
        self.store = self.open()

    @rule()
    def forget(self) -> None:
        """As a process that comes to the store later, and has to read the tail."""
        context, come = context_of(self.store), context_of(self.open())
        before = context.inner
        context.inner, context.storage = come.inner, come.storage
        before.close()

    @precondition(lambda self: self.model)
    @rule()
    def check(self) -> None:
        report = check(self.top / "memory.omsg")  # in this process: a child costs half a second
        # States are set here beneath the audit trail, and name grains that are nowhere.
        problems = [p for p in report.problems if p.where not in ("audit", "state")]
        assert not problems, problems
        assert report.grains == len(self.model)


@pytest.mark.parametrize("machine", [QueryModel, LmdbQueryModel])
def test_queries(
    machine: type[QueryModel], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for module in ("memtable", "storage", "maintenance"):
        monkeypatch.setattr(f"omsgrain.storage.lmdb.{module}.RUN", RUN)
    long = request.config.getoption("--long")
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=500 if long else 15, stateful_step_count=30),
    )


# --- what the model found ------------------------------------------------------------------------


@pytest.fixture(params=["memory", "disk", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.GrainStore(made(request.param, tmp_path / "memory.omsg")) as store:
        yield store


@pytest.mark.parametrize("byte", [0x0E, 0xFD, 0xFE, 0xFF])
def test_type_bytes_that_look_like_marks_of_a_hash(store: og.GrainStore, byte: int) -> None:
    address = store.put(og.encode({"x_any": 1}, type_byte=byte))
    assert [hit.address for hit in store.query(type=byte).results] == [address]


@pytest.mark.parametrize("value", [{"unit": "Cafe\u0301"}, {"e\u0301": 1}, ["e\u0301"], (1, 2)])
def test_objects_are_compared_as_a_grain_holds_them(store: og.GrainStore, value: Any) -> None:
    address = store.put({"type": "observation", "created_at": 1, "object": value, **OBSERVER})
    page = store.query(object=value, count=True)
    assert ([hit.address for hit in page.results], page.total) == ([address], 1)
    assert store.query(object=nfc(value)).results == page.results


def test_an_empty_string_is_a_term(store: og.GrainStore) -> None:
    address = store.put({"type": "event", "content": "x", "created_at": 1, "subject": ""})
    store.put({"type": "event", "content": "x", "created_at": 1})
    assert [hit.address for hit in store.query(subject="").results] == [address]


@pytest.mark.parametrize("time", [-5, 1 << 47, 1 << 48, (1 << 48) + 5, (1 << 63) - 1, 1 << 63])
def test_times_that_only_an_opaque_grain_can_have(store: og.GrainStore, time: int) -> None:
    """They count as the first or the last, and every page is there."""
    odd = store.put(og.encode({"created_at": time}, type_byte=0x0E))
    plain = [store.put(event(n)) for n in range(3)]
    first = time < 0 or time >= 1 << 63
    expected = [odd, *plain] if first else [*plain, odd]
    found = [hit.address for hit in store.query(order="oldest").results]
    assert found == expected
    assert [hit.address for hit in store.query().results] == expected[::-1]


def event(number: int) -> dict[str, Any]:
    return {"type": "event", "content": "x", "created_at": TIME + number}
