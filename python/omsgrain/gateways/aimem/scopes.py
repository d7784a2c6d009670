# SPDX-License-Identifier: Apache-2.0
"""Which chunks leave: all of them, those of the DNA class, or those since a time.

Spec: AIMEM §1.2, §2.1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omsgrain.errors import SchemaError
from omsgrain.formats.aimem import times
from omsgrain.formats.aimem.fields import DNA, SCOPES, Scope

__all__ = ["Wanted", "wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A scope that was asked for.

    Attributes:
        scope: its name.
        since: with SINCE the time as it was written; it goes into the envelope as it is.
        instant: the same time, to compare with.
    """

    scope: Scope
    since: str | None
    instant: times.Instant | None

    @property
    def whole(self) -> bool:
        """Whether it leaves nothing out."""
        return self.scope == "FULL"

    def takes(self, chunk: Mapping[str, Any]) -> bool:
        """Whether a chunk is in it."""
        if self.scope == "DNA_ONLY":
            return chunk["memory_type"] in DNA or chunk.get("is_pinned") is True
        if self.instant is None:
            return True
        created = times.parse(chunk["created_at"])
        return created is not None and created >= self.instant


def wanted(scope: str, since: str | None) -> Wanted:
    """Take what was asked for.

    Args:
        scope: FULL, DNA_ONLY or SINCE.
        since: with SINCE: a time in UTC, which is in it. Times are compared as instants.

    Raises:
        SchemaError: no such scope, no time, or a time that the scope does not ask for; ``rule``
            is the format's.
    """
    if scope not in SCOPES:
        raise SchemaError(
            "not a scope", field="/scope", expected=", ".join(SCOPES), rule="invalid_scope"
        )
    if scope != "SINCE":
        if since is not None:  # to pass over it would be to send more than was asked for
            raise SchemaError(
                "this scope has no time",
                field="/since",
                expected="only with the scope SINCE",
                rule="invalid_scope",
            )
        return Wanted(scope, None, None)
    if since is None:
        raise SchemaError("since when", field="/since", expected=_TIME, rule="since_missing")
    instant = times.parse(since) if isinstance(since, str) else None
    if instant is None:
        raise SchemaError(
            "not a time in UTC", field="/since", expected=_TIME, rule="invalid_timestamp"
        )
    return Wanted(scope, since, instant)


_TIME = "such as 2026-01-15T10:00:00Z"
