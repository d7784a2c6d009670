# SPDX-License-Identifier: Apache-2.0
"""What stores are opened with, looked at before anything is made or asked."""

from __future__ import annotations

from omsgrain.errors import RangeError, SchemaError, number_found

__all__ = ["is_durable", "see_range"]

LONGEST = 2_000_000
"""Seconds: more than that PostgreSQL does not take, nor a lock of Python's."""


def is_durable(durability: str) -> bool:
    """Tell whether each commit waits for the disk.

    Raises:
        SchemaError: it is no durability.
    """
    if durability not in ("commit", "relaxed"):
        raise SchemaError(
            "unknown durability", field="/durability", expected='"commit" or "relaxed"'
        )
    return durability == "commit"


def see_range(name: str, value: float, least: int = 0, most: int = LONGEST) -> None:
    """See that a number is within its range; one that is no number is not.

    Raises:
        RangeError: it is not.
    """
    if not least <= value <= most:
        raise RangeError(
            f"{name} is out of its range",
            field=f"/{name}",
            expected=f"{least} to {most}",
            found=number_found(value),
        )
