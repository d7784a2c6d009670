# SPDX-License-Identifier: Apache-2.0
"""The rules of a preset about time: how long a grain must be kept, and how long it may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar

from omsgrain.errors import InvalidationDeniedError
from omsgrain.grain import Grain
from omsgrain.policy.rules import PolicyRule

_MOST_YEARS = 100
"""A grain that asks for more is kept so long: nobody can write what can never be deleted."""
_MOST_TIME = 2**32 * 1_000
_DAY = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(PolicyRule):
    """How long it must be kept, counted from ``created_at``.

    Attributes:
        years: so long.
        years_field: as long as this field of the grain says; a path of names.
        approval_field: deletion also needs the approval that this field names.
    """

    kind: ClassVar[str] = "keep"

    years: int = 0
    years_field: tuple[str, ...] = ()
    approval_field: tuple[str, ...] = ()

    def until(self, grain: Grain) -> int | None:
        """Until when, ms since 1970; None if it does not ask for any time."""
        years = _at(grain, self.years_field) if self.years_field else self.years
        if type(years) is not int or years <= 0:
            return None
        return _years_after(_created(grain), min(years, _MOST_YEARS))

    def broken(
        self, grain: Grain, now: int, approvals: Collection[str]
    ) -> InvalidationDeniedError | None:
        """Refuse to delete a grain before its time, or without the approval it asks for."""
        until = self.until(grain)
        if until is not None and now < until:
            day = datetime.fromtimestamp(until / 1_000, timezone.utc).date()
            expected = f"deletion not before {day}"
            return self.error(InvalidationDeniedError, _pointer(self.years_field), expected)
        approval = _at(grain, self.approval_field) if self.approval_field else None
        if isinstance(approval, str) and approval and approval not in approvals:
            expected = "the approval that the field names"
            return self.error(InvalidationDeniedError, _pointer(self.approval_field), expected)
        return None

    def asks(self) -> str:
        """What it asks, in words."""
        long = f"for {self.years} years"
        if self.years_field:
            long = f"as long as {'/'.join(self.years_field)} says"
        if not self.approval_field:
            return f"kept {long}"
        approval = f"deleted with the approval that {'/'.join(self.approval_field)} names"
        return f"kept {long}; then {approval}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(PolicyRule):
    """How long it may be kept at most, counted from ``created_at``.

    Attributes:
        days: so long.
    """

    kind: ClassVar[str] = "expire"

    days: int

    def due(self, grain: Grain, now: int) -> bool:
        """Tell whether its time is over."""
        return now >= _created(grain) + self.days * _DAY

    def asks(self) -> str:
        """What it asks, in words."""
        return f"deleted after {self.days} days"


def _created(grain: Grain) -> int:
    created = grain.fields.get("created_at")
    if type(created) is int and 0 <= created < _MOST_TIME:
        return created
    return grain.header.created_at * 1_000


def _years_after(start: int, years: int) -> int:
    """The same day so many years later; of 29 February, where there is none, 1 March."""
    days, rest = divmod(start, _DAY)
    day = datetime.fromtimestamp(days * 86_400, timezone.utc)
    try:
        later = day.replace(year=day.year + years)
    except ValueError:
        later = day.replace(year=day.year + years, month=3, day=1)
    return int(later.timestamp()) * 1_000 + rest


def _at(grain: Grain, path: tuple[str, ...]) -> Any:
    value: Any = grain
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _pointer(path: tuple[str, ...]) -> str | None:
    return "/".join(path) if path else None
