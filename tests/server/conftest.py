# SPDX-License-Identifier: Apache-2.0
"""A server of a new store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http_server import Site, site


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path / "m.omsg") as found:
        yield found
