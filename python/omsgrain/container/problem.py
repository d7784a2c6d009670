# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a container, and in which of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from omsgrain.errors import OmsError

Part = Literal["header", "index", "frame", "grain", "manifest", "footer"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a container.

    Attributes:
        part: what it is in.
        number: which index entry, frame or grain, from 0; None for the parts there is one of.
        address: of a grain, what its bytes hash to as they stand; of a manifest, which grain of
            it is missing.
        error: why. Its offset counts from the start of the file, for grains of a packed one as if
            they stood there unpacked.
    """

    part: Part
    number: int | None
    address: str | None
    error: OmsError

    def __str__(self) -> str:
        return str(self.error)

    def to_dict(self) -> dict[str, Any]:
        """The problem as JSON-ready values."""
        return {
            "part": self.part,
            "number": self.number,
            "address": self.address,
            "error": self.error.to_dict(),
        }


def problem(
    part: Part,
    number: int | None,
    error: OmsError,
    *,
    start: int = 0,
    address: str | None = None,
) -> Problem:
    """Say where it is: the part before the message, the offset from `start` on."""
    name = part if number is None else f"{part} {number}"
    placed = type(error)(
        f"{name}: {error.message}",
        field=error.field,
        offset=start + (error.offset or 0),
        expected=error.expected,
        found=error.found,
    )
    return Problem(part, number, address, placed)


class Broken(Exception):
    """Stops reading at a problem. It does not leave the package: what is raised is the error."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem
