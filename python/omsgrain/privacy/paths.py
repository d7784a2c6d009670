# SPDX-License-Identifier: Apache-2.0
"""Which places of a tree are left as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TypeAlias

from omsgrain.errors import SchemaError

__all__ = ["Keep", "keeps"]

Keep: TypeAlias = Collection[str] | Callable[[str], bool]
"""JSON pointers, or a function that tells of one."""


def keeps(keep: Keep) -> Callable[[str], bool]:
    """Make a function of pointers.

    ``*`` stands for any key or place, as in ``/entities/*/type``; ``**`` at the end for all below,
    as in ``/embedding/**``. Without a star at the end, a pointer keeps the whole value there.

    Raises:
        SchemaError: something is no pointer.
    """
    if callable(keep):
        return keep
    pattern = _compiled(tuple(keep))
    return (lambda _: False) if pattern is None else lambda at: pattern.fullmatch(at) is not None


@lru_cache(maxsize=64)
def _compiled(pointers: tuple[str, ...]) -> re.Pattern[str] | None:
    if not pointers:
        return None
    return re.compile("|".join(map(_pattern, pointers)))


def _pattern(pointer: str) -> str:
    if not pointer.startswith("/"):
        raise SchemaError("no pointer to what is kept", field="/keep", expected="/a/*/b")
    parts = pointer[1:].split("/")
    below = parts[-1] == "**"
    names = [
        "[^/]*" if part == "*" else re.escape(part) for part in parts[: -1 if below else None]
    ]
    return "".join(f"/{name}" for name in names) + ("/.*" if below else "")
