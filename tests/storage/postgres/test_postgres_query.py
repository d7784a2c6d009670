# SPDX-License-Identifier: Apache-2.0
"""Queries on PostgreSQL against a plain-Python model, as `test_query_model` asks elsewhere."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

import omsgrain as og
from omsgrain.store.context import context_of
from support import store_kinds
from support.query_model import QueryModel

pytestmark = pytest.mark.services


class PostgresQueryModel(QueryModel):
    """On a server, where other handles come and go."""

    def __init__(self) -> None:
        self.top = Path(tempfile.mkdtemp())
        super().__init__()

    def open(self) -> og.GrainStore:
        return og.GrainStore(store_kinds.made("postgres", self.top))

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.top)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @precondition(lambda self: self.model)
    @rule()
    def check(self) -> None:
        report = context_of(self.store).inner.check()
        # States are set here beneath the audit trail, and name grains that are nowhere.
        problems = [p for p in report.problems if p.where not in ("audit", "state")]
        assert not problems, problems
        assert report.grains == len(self.model)


def test_queries(long: bool) -> None:
    run_state_machine_as_test(
        PostgresQueryModel,
        settings=settings(max_examples=200 if long else 15, stateful_step_count=30),
    )
