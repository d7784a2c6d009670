# SPDX-License-Identifier: Apache-2.0
"""A store of each kind with a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.store.context import Settings
from support.invented_people import EVERYWHERE, Clock, opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(actor="tester", clock=clock)) as made:
        yield made
