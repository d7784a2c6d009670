# SPDX-License-Identifier: Apache-2.0
"""The two sides of a sync: a server, and a store on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omsgrain as og
from support.http_server import Site, site


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path / "hub.omsg") as found:
        yield found


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.open(tmp_path / "robot.omsg") as store:
        yield store
