# SPDX-License-Identifier: Apache-2.0
"""Test vectors that the package carries, as what rules try.

They are those of OMS in ``test_vectors/``, and more of the kind in ``tests/data``: encoders that
share nothing with the core made them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from omsgrain.conformance.rule import Check, Tried

DATA: Final = Path(__file__).with_name("vectors.json")
"""Made by ``test_vectors/make.py``."""


@cache
def _whole() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return whole


@cache
def _grains() -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in _whole()["grains"]}


def data(name: str) -> Any:
    """The vectors of something else than grains alone, as they stand in ``tests/data``."""
    return _whole()[name]


def vector(area: str, number: int) -> dict[str, Any]:
    """A vector by its folder and the number in its name."""
    start = f"{area}/{number:03}-"
    found = next((one for id, one in _grains().items() if id.startswith(start)), None)
    if found is None:
        raise KeyError(start)
    return found


def _of(area: str, numbers: tuple[int, ...]) -> Check:
    def check(_: object) -> Any:
        from omsgrain.conformance.vectors import run_vector

        for number in numbers:
            one = vector(area, number)
            outcome = run_vector(one, one["id"])
            yield Tried(one["description"], outcome.expected, outcome.problem or outcome.expected)

    return check


def read(*numbers: int) -> Check:
    """Blobs that must be refused by a code."""
    return _of("refusals/read", numbers)


def write(*numbers: int) -> Check:
    """Fields that must be refused by a code."""
    return _of("refusals/write", numbers)


def grains(area: str, *numbers: int) -> Check:
    """Grains that must give just these bytes and this address, and come back from them."""
    return _of(area, numbers)
