# SPDX-License-Identifier: Apache-2.0
"""Which lines of the package were reached: an input that reaches a new one is a good seed."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any


class Lines:
    """Looks while it is used as a context. A function of which all was seen costs no more.

    Attributes:
        new: whether the last look saw a line for the first time.
        count: how many lines were seen.
    """

    def __init__(self, folder: str) -> None:
        self.new = False
        self.count = 0
        self._folder = folder
        self._left: dict[CodeType, set[int]] = {}
        self._before: Any = None

    def __enter__(self) -> None:
        self.new = False
        self._before = sys.gettrace()  # a debugger's, or of who measures coverage
        if self._before is None:
            sys.settrace(self._called)

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            own = code.co_filename.startswith(self._folder)
            left = {line for _, _, line in code.co_lines() if line} if own else set()
            self._left[code] = left
        return self._at_line if left else None

    def _at_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        left = self._left[frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.new = True
            self.count += 1
        return self._at_line
