# SPDX-License-Identifier: Apache-2.0
"""A target, and the rule of all targets: a declared error, or a result that holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fuzz.mutate import Shape
from omsgrain.errors import BY_CODE, OmsError

Run: TypeAlias = Callable[[bytes], None]
"""Reads an input. It raises an OmsError, or sees that what was read holds."""
Mend: TypeAlias = Callable[[bytes], bytes]
"""Makes what covers an input right again, so that what is below is reached."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads bytes from outside.

    Attributes:
        opened: makes it ready in an empty directory.
        seeds: good inputs, and bad ones that go far.
        shape: how seeds are changed besides as bytes.
        mend: used on half of the inputs.
    """

    opened: Callable[[Path], AbstractContextManager[Run]]
    seeds: Callable[[], Sequence[bytes]]
    shape: Shape = "bytes"
    mend: Mend | None = None


def outcome(run: Run, data: bytes) -> str:
    """The code of the refusal, or "taken"; everything else is a finding, and raised.

    Raises:
        AssertionError: what was read does not hold, or the error has no code that is known.
        Exception: whatever it was, it should have been a declared error.
    """
    try:
        run(data)
    except OmsError as error:
        assert BY_CODE.get(error.code) is type(error) or error.code in BY_CODE, error.code
        assert len(str(error)) < 2_000, "an error as long as its input"
        return error.code
    return "taken"
