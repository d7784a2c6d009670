# SPDX-License-Identifier: Apache-2.0
"""A scenario: a directory, work in it, and a check of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from omsgrain.errors import OmsError

T = TypeVar("T")

DONE, REFUSED = "done", "refused"


@dataclass(slots=True)
class Said:
    """The reports of the work before it ended.

    Attributes:
        results: by the name of a step, what its call returned: it is done, and must be there.
        refused: by the name of a step, the error that its call raised.
        ended: whether the work came to its end.
    """

    results: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    ended: bool = False


def _done(_: Any) -> bool:
    return True


class Steps:
    """Run the steps of the work, and report the outcome of each at once.

    Args:
        say: is told a verdict, the name of the step and a value for JSON.
    """

    def __init__(self, say: Callable[[str, str, Any], None]) -> None:
        self._say = say

    def __call__(
        self, name: str, call: Callable[[], T], tell: Callable[[T], Any] = _done
    ) -> T | None:
        """Do a step; None if it was refused, with an error that is declared."""
        try:
            result = call()
        except (OmsError, OSError) as error:
            self._say(REFUSED, name, getattr(error, "code", type(error).__name__))
            return None
        self._say(DONE, name, tell(result))
        return result


@dataclass(frozen=True, slots=True)
class Scenario:
    """Work that faults come over.

    Attributes:
        prepare: makes the directory ready, without faults.
        work: does something in it, step by step.
        look: asserts what must hold after that, whenever it ended; then goes on working.
    """

    prepare: Callable[[Path], None]
    work: Callable[[Path, Steps], None]
    look: Callable[[Path, Said], None]
