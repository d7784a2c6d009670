# SPDX-License-Identifier: Apache-2.0
"""Daily weather of Seattle as observations: one for each instrument and day."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from omsgrain.errors import FormatError

#: NOAA's daily summaries run from midnight to midnight, local standard time.
STANDARD_TIME = timezone(timedelta(hours=-8))

#: Sensor, its kind, and its columns, each with the unit (UCUM).
SENSORS = (
    ("thermometer", "temperature", (("temp_max", "Cel"), ("temp_min", "Cel"))),
    ("rain-gauge", "noaa:rain_gauge", (("precipitation", "mm"),)),
    ("anemometer", "noaa:anemometer", (("wind", "m/s"),)),
)


def observations(path: Path) -> Iterator[dict[str, Any]]:
    """Yield three observations for each day of the table.

    Each says what was measured, by which sensor, on which day.
    """
    with path.open(newline="", encoding="utf-8") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            try:
                yield from _day(row)
            except (KeyError, TypeError, ValueError) as error:
                raise FormatError("not a row of daily weather", line=line) from error


def _day(row: dict[str, str]) -> Iterator[dict[str, Any]]:
    start = datetime.strptime(row["date"], "%Y/%m/%d").replace(tzinfo=STANDARD_TIME)
    end = start + timedelta(days=1)
    for sensor, kind, columns in SENSORS:
        yield {
            "type": "observation",
            "observer_id": f"seattle/{sensor}",
            "observer_type": kind,
            "subject": "Seattle",
            "relation": "mg:perceives",
            "object": {name: {"value": float(row[name]), "unit": unit} for name, unit in columns},
            "confidence": 1.0,
            "source_type": "sensor",
            "observation_mode": "passive",
            "observation_scope": "interval",
            "valid_from": start,
            "valid_to": end,
            "created_at": end,
            "namespace": "weather:seattle",
        }
