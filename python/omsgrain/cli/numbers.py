# SPDX-License-Identifier: Apache-2.0
"""Numbers with a unit, as options take them: sizes and times."""

from __future__ import annotations

import math
import re
from typing import Any

import click

__all__ = ["Seconds", "Size"]

_SIZE = re.compile(r"([1-9][0-9]{0,14})\s*([KMG]?)i?B?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class Size(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A number of bytes, such as 64MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            self.fail("expected a number of bytes, such as 64MB", param, ctx)
        return int(found[1]) << _UNITS[found[2].upper()]


class Seconds(click.FloatRange):
    """A number of seconds between two others."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it; NaN is within no range, but no comparison says so."""
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail("expected a number of seconds", param, ctx)
        return found
