# SPDX-License-Identifier: Apache-2.0
"""Spans of memory operations, in a program that uses OpenTelemetry.

Names and attributes are those of the semantic conventions for generative AI: ``create_memory``,
``update_memory``, ``search_memory``, ``delete_memory``. A span has no text of a memory, no
question and no user.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from omsgrain._core import __version__
from omsgrain.errors import OmsError

P = ParamSpec("P")
R = TypeVar("R")

OPERATION: Final = "gen_ai.operation.name"
COUNT: Final = "gen_ai.memory.record.count"
ERROR: Final = "error.type"
_API: Final = "opentelemetry.trace"


def traced(
    operation: str | Callable[..., str], count: Callable[[Any], int]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give each call of a function a span, with the number of memories of its result."""

    def decorated(work: Callable[P, R]) -> Callable[P, R]:
        @wraps(work)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            trace: Any = sys.modules.get(_API)
            if trace is None:  # the program does not use it
                return work(*args, **kwargs)
            name = operation if isinstance(operation, str) else operation(*args, **kwargs)
            tracer = trace.get_tracer("omsgrain", __version__)
            with tracer.start_as_current_span(
                name, attributes={OPERATION: name}, record_exception=False,
                set_status_on_exception=False,
            ) as span:  # fmt: skip
                try:
                    result = work(*args, **kwargs)
                except Exception as error:
                    code = error.code if isinstance(error, OmsError) else type(error).__name__
                    span.set_attribute(ERROR, code)
                    span.set_status(trace.StatusCode.ERROR)
                    raise
                span.set_attribute(COUNT, count(result))
                return result

        return call

    return decorated
