# SPDX-License-Identifier: Apache-2.0
"""A fleet that loses calls and commits comes together; little crosses beside its grains."""

from __future__ import annotations

from pathlib import Path

from benches.fleet import simulate


def test_a_fleet_comes_together(tmp_path: Path, long: bool) -> None:
    found = simulate(
        tmp_path,
        robots=200 if long else 6,
        rounds=3,
        new=200,
        loss=0.05,
        failing=0.03,
        threads=3,
    )
    assert found.converged
    assert found.lost and found.failed
    assert found.ratio < 1.15, found
