# SPDX-License-Identifier: Apache-2.0
"""The demo's story: its steps, and its claims with whether each holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.cli import output
from omsgrain.cli.console import Console


class Story:
    """Tells the demo step by step and records whether each claim holds."""

    def __init__(self, quiet: bool) -> None:
        self.checks: list[dict[str, Any]] = []
        self.console = Console()
        self.quiet = quiet

    @property
    def ok(self) -> bool:
        return all(check["held"] for check in self.checks)

    def step(self, title: str) -> None:
        if not self.quiet:
            self.console.print()
            self.console.print(f"── {title}", style="bold")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(output.safe(text))

    def check(self, claim: str, held: bool) -> None:
        self.checks.append({"claim": claim, "held": held})
        if not self.quiet:
            mark, style = ("✓", "green") if held else ("✗ DOES NOT HOLD:", "red")
            self.console.print(f"{mark} {claim}", style=style)

    def end(self) -> None:
        self.step("Done")
        held = sum(check["held"] for check in self.checks)
        self.say(f"{held} of {len(self.checks)} claims held.")


def refusal(act: Callable[[], object]) -> str:
    """Do what should be refused, and return the error code."""
    try:
        act()
    except og.errors.OmsError as error:
        return error.code
    return "no error"


def since(start: float) -> str:
    return f"in {time.perf_counter() - start:.2f} s"


def has_text(directory: Path, *texts: str) -> bool:
    """Whether a file below a directory contains one of the texts."""
    data = [path.read_bytes() for path in directory.rglob("*") if path.is_file()]
    return any(text.encode() in one for text in texts for one in data)
