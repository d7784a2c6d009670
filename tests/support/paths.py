# SPDX-License-Identifier: Apache-2.0
"""Where the repository and the tests are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
ROOT: Final = TESTS.parent
TEST_DATA: Final = TESTS / "data"
DEBIAN = ROOT / "target" / "container" / "base.tar"
"""A tree of Debian, once it has been made."""
