# SPDX-License-Identifier: Apache-2.0
"""How much memory a piece of work takes at most, beside what is mapped from files."""

from __future__ import annotations

import threading
from types import TracebackType

from benches.machine import anonymous

PAUSE = 0.01


class Sampler:
    """Looks again and again while its block runs.

    Attributes:
        peak: the most that was seen, in bytes.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ended.wait(PAUSE):
            self.peak = max(self.peak, anonymous())

    def __enter__(self) -> Sampler:
        self.peak = anonymous()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous())
