# SPDX-License-Identifier: Apache-2.0
"""Whether omsgrain fits beside a framework: what the resolver says, and how that is judged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from release.audit import Ran, Run, verdict
from release.resolve import looks

CONFLICT = "  x No solution found when resolving dependencies: because crewai needs mcp<2"


def resolver(alone: Ran, beside: Ran) -> tuple[Run, list[Sequence[str]]]:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> Ran:
        asked.append(command)
        return beside if "--extra" in command else alone

    return run, asked


@pytest.mark.parametrize(
    ("alone", "beside", "state", "code"),
    [
        (Ran(0, "a==1\ncrewai==2.0\n", ""), Ran(0, "crewai==2.0\n", ""), "ok", 0),
        (Ran(0, "crewai==2.0\n", ""), Ran(0, "crewai==1.9\n", ""), "FOUND", 1),
        (Ran(0, "crewai==2.0\n", ""), Ran(1, "", CONFLICT), "FOUND", 1),
        (Ran(0, "crewai==2.0\n", ""), Ran(2, "", "failed to fetch"), "NOT LOOKED AT", 3),
        (Ran(2, "", "failed to fetch"), Ran(0, "crewai==2.0\n", ""), "NOT LOOKED AT", 3),
        (Ran(None, "", "uv: not found"), Ran(None, "", ""), "NOT LOOKED AT", 3),
    ],
)
def test_a_resolution_is_judged(alone: Ran, beside: Ran, state: str, code: int) -> None:
    run, asked = resolver(alone, beside)
    (look,) = looks(run, ["crewai"])
    assert (look.what, look.state) == ("omsgrain[all] beside crewai", state)
    assert look.said
    assert verdict([look]) == code
    assert all(command[:3] == ["uv", "pip", "compile"] for command in asked)
