# SPDX-License-Identifier: Apache-2.0
"""The test vectors that the package carries, for rules.

They are those of OMS in ``test_vectors/``, and more of the kind in ``tests/data``: encoders that
share nothing with the core made them. ``test_vectors/make.py`` writes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Entry, Tried, table
from omsgrain.conformance.vectors import run_vector


@cache
def _grains() -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in data("grains")}


def data(name: str) -> Any:
    """The vectors of one file of ``tests/data``; of grains under the name ``grains``."""
    return table("vectors")[name]


def vector(area: str, number: int) -> dict[str, Any]:
    """A vector of grains by its folder and the number in its name."""
    start = f"{area}/{number:03}-"
    found = next((one for id, one in _grains().items() if id.startswith(start)), None)
    if found is None:
        raise KeyError(start)
    return found


def blob(area: str, number: int) -> bytes:
    """The blob that a vector of grains must give."""
    return bytes.fromhex(vector(area, number)["stages"]["blob_hex"])


def agree(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``vectors``: grains that give these bytes, or bytes and fields refused by a code."""
    for id in entry["vectors"]:
        one = _grains()[id]
        outcome = run_vector(one, id)
        yield Tried(one["description"], outcome.expected, outcome.problem or outcome.expected)
