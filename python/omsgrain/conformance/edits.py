# SPDX-License-Identifier: Apache-2.0
"""Documents with something else in some places.

A change is data: a JSON pointer, and the value that is to stand there. ``/-`` adds to an array.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, TypeVar

GONE: Final = "\x00gone"
"""As a value of a change: take it away."""

T = TypeVar("T")


def edited(document: T, edits: Mapping[str, Any]) -> T:
    """A copy of the document with other values at some pointers."""
    document = copy.deepcopy(document)
    for pointer, value in edits.items():
        if not pointer:
            document = value
            continue
        *path, last = (
            step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]
        )
        inner: Any = document
        for step in path:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        if isinstance(inner, list) and last == "-":
            inner.append(value)
            continue
        key: Any = int(last) if isinstance(inner, list) else last
        if value == GONE:
            del inner[key]
        else:
            inner[key] = value
    return document
