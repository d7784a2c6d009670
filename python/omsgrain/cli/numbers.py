# SPDX-License-Identifier: Apache-2.0
"""Numbers with a unit, as options take them: sizes, times, and times to come."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import click

_SIZE = re.compile(r"([1-9][0-9]{0,14})\s*([KMG]?)i?B?", re.IGNORECASE)
_SPAN = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
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


class Until(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A time to come, in ms since 1970: RFC 3339, or in how many hours, days or weeks."""

    name = "until"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        now = time.time_ns() // 1_000_000
        if found := _SPAN.fullmatch(value.strip()):
            return now + int(found[1]) * _HOURS[found[2]] * 3_600_000
        from omsgrain.formats import times

        told = times.parse(value.strip())
        if told is None:
            self.fail(f"{value!r} is not a time: use RFC 3339, or 12h, 30d, 4w", param, ctx)
        return told.millis
