# SPDX-License-Identifier: Apache-2.0
"""The soak, small: `python -m benches.soak` runs it for half an hour."""

from __future__ import annotations

from pathlib import Path

from benches import soak
from benches.soak_work import ROLES


def test_a_soak_of_seconds(tmp_path: Path, long: bool) -> None:
    found = soak.soak(tmp_path, seconds=60 if long else 2, person=20)
    assert not found.problems
    assert (found.lost, found.left) == (0, 0)
    assert found.grains and found.people[0] > 2
    assert {*found.operations} == {*ROLES}
    assert found.operations["writer 1"]["put"] and found.operations["reader 1"]["query"]
    assert str(found.grains) in soak.told(found)


def test_what_is_not_flat_is_told() -> None:
    rising = [n << 20 for n in range(100, 300)]
    level = [100 << 20] * 200
    assert not soak.Memory(*soak.quarters(rising), max(rising)).flat
    assert soak.Memory(*soak.quarters(level), max(level)).flat
    outcome = soak.Outcome(1.0)
    assert outcome.good
    outcome.lost = 1
    assert not outcome.good
