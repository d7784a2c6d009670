# SPDX-License-Identifier: Apache-2.0
"""The log of a server: a line for each event, without content.

An unexpected error is logged by its class and its place in our code: its text may contain content.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import datetime, timezone
from typing import Any, Literal, TextIO

Format = Literal["text", "json"]


class Log:
    def __init__(self, form: Format = "text", stream: TextIO | None = None) -> None:
        self._json = form == "json"
        self._stream = stream

    def write(self, event: str, **values: Any) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        if self._json:
            line = json.dumps({"time": now, "event": event, **values})
        else:
            pairs = (f"{k}={v}" for k, v in values.items() if v is not None)
            line = " ".join([now, event, *pairs])
        stream = self._stream or sys.stderr
        try:
            stream.write(line + "\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # the log cannot be written; the server continues

    def defect(self, error: BaseException, request: str) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "omsgrain" in f.filename] or list(frames)
        place = None
        if ours:
            name = ours[-1].filename.replace("\\", "/").rpartition("omsgrain/")[2]
            place = f"{name}:{ours[-1].lineno}"
        self.write("defect", request=request, error=type(error).__name__, place=place)
