# SPDX-License-Identifier: Apache-2.0
"""Measures one row and prints the samples: `python -m benches.child ROW SET COUNT ROUNDS DIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benches.measure import Plan, interleaved
from benches.peer import Absent
from benches.rows import ROWS


def main(row: str, set: str, count: str, rounds: str, directory: str) -> None:
    """Build the row, which checks it, then measure."""
    plan = Plan(set, int(count), int(rounds), Path(directory))
    try:
        case = ROWS[row].build(plan)
    except Absent as gone:
        print(json.dumps({"absent": str(gone)}))
        return
    samples = interleaved(case, plan.rounds)
    print(json.dumps([*samples, case.items, case.peer_items or case.items]))


if __name__ == "__main__":
    main(*sys.argv[1:])
