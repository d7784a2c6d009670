# SPDX-License-Identifier: Apache-2.0
"""How the demo tells its steps, and what it claims at each."""

from __future__ import annotations

import time
from typing import Any

from omsgrain.cli import output


class Story:
    """Tells the demo step by step and remembers whether each claim held."""

    def __init__(self, quiet: bool) -> None:
        self.checks: list[dict[str, Any]] = []
        self.console = output.console()
        self.quiet = quiet

    @property
    def ok(self) -> bool:
        """Whether everything that was claimed held."""
        return all(check["held"] for check in self.checks)

    def step(self, title: str) -> None:
        """Begin a step."""
        if not self.quiet:
            self.console.print()
            self.console.print(f"── {title}", style="bold")

    def say(self, text: str) -> None:
        """Say what happened."""
        if not self.quiet:
            self.console.print(output.safe(text), soft_wrap=True)

    def check(self, claim: str, held: bool) -> None:
        """State a claim and whether it held."""
        self.checks.append({"claim": claim, "held": held})
        if not self.quiet:
            mark, style = ("✓", "green") if held else ("✗ DOES NOT HOLD:", "red")
            self.console.print(f"{mark} {claim}", style=style, soft_wrap=True)


def since(start: float) -> str:
    """How long it took."""
    return f"in {time.perf_counter() - start:.2f} s"
