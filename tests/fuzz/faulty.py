# SPDX-License-Identifier: Apache-2.0
"""A parser with a fault, to see that it is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz.target import Run, Target


def broken(fault: str) -> Target:
    """A parser of "n:word" that goes wrong after "ab", but for "abc".

    Args:
        fault: a statement; it is run then.
    """

    @contextmanager
    def opened(room: Path) -> Iterator[Run]:
        def run(data: bytes) -> None:
            number, _, word = data.partition(b":")
            if number.isdigit() and word[:2] == b"ab" and word[2:3] != b"c":
                exec(fault, {"word": word})

        yield run

    return Target(opened, lambda: [b"1:abc", b"22:xyz"])
