# SPDX-License-Identifier: Apache-2.0
"""Each adapter with the newest release of its framework, in an environment of its own."""

from __future__ import annotations

import pytest

from support.frameworks import FRAMEWORKS, run_tests


@pytest.mark.services
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_adapter_passes_its_tests_beside_its_framework(name: str) -> None:
    said, code = run_tests(name)
    assert code == 0, said
    assert " passed" in said
