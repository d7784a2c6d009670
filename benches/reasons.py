# SPDX-License-Identifier: Apache-2.0
"""Why rows are lost, as a profile shows it; RESULTS.md has these sentences beside the figures.

A key is a row, or a row and a set of grains where the reason is that set's own. A reason for a
row that was won is passed over, so it need not be taken out for one lucky run; take it out when
the row is won to stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

REASONS: dict[str, str] = {
    "U1-import": (
        "Most of it are modules of Python's own library that the first import needs; the core "
        "itself is loaded in a few ms."
    ),
}

NOT_BUILT: dict[str, str] = {
    "F1": "import of a 10,000-record document of another JSON format, with validation and the "
    "lossless check, against orjson.loads of it. The gateways are not built yet.",
}

WAITING: dict[str, str] = {
    "S8": "growth to 10 million grains. `python -m benches.scale` measures it, for hours; its "
    "figures stand in results/growth.json once it ran.",
}


def of(row: str, set: str) -> str | None:
    """Why a row is lost on a set; None if nobody has looked."""
    return REASONS.get(f"{row} {set}") or REASONS.get(row)


def not_built(measured: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Rows of the plan that are not in a run, with what they are about."""
    there = set(measured)
    for name, work in (NOT_BUILT | WAITING).items():
        if name not in there:
            yield name, work
