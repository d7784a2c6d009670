# SPDX-License-Identifier: Apache-2.0
"""The rules of a preset: one class for each kind.

A rule changes nothing. It returns an error for a violation, or None. The error's ``rule`` is the
id of the rule.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    SchemaError,
    UnsupportedError,
)
from omsgrain.grain import Grain
from omsgrain.header import SENSITIVITIES

Scalar: TypeAlias = "str | int | bool"
Values: TypeAlias = tuple[tuple[str, tuple[Scalar, ...]], ...]
"""Fields with their allowed values."""

ADDRESS = "@address"
"""As a value: any address."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """Conditions that a grain must all meet; an empty condition matches every grain.

    Attributes:
        sensitivity: the minimum level, 0 to 3.
        types: the type is one of these.
        tags: one of these tags is present; ``phi:*`` matches every tag with this prefix.
        namespaces: the namespace is one of these; ``hr:*`` matches every one with this prefix.
        regulations: the grain's retention policy contains one of these words.
        has: one of these fields is present.
        values: each of these fields has one of its values.
    """

    sensitivity: int = 0
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    regulations: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    values: Values = ()

    def holds(self, grain: Grain, doubt: bool) -> bool:
        """Whether a grain meets the condition; ``doubt`` is the result for elided fields."""
        return (
            (not self.sensitivity or grain.header.sensitivity >= self.sensitivity)
            and (not self.types or grain.type in self.types)
            and (not self.tags or any(matches(tag, self.tags) for tag in _tags(grain)))
            and (not self.namespaces or matches(grain.fields.get("namespace"), self.namespaces))
            and (not self.regulations or not _named(grain).isdisjoint(self.regulations))
            and (not self.has or any(is_there(grain, name) for name in self.has))
            and (not self.values or self._says(grain, doubt))
        )

    def _says(self, grain: Grain, doubt: bool) -> bool:
        return all(
            doubt if _is_elided(grain, name) else allows(grain.fields.get(name), values)
            for name, values in self.values
        )

    def __str__(self) -> str:
        """Return the condition in words."""
        parts = [
            f"sensitivity {SENSITIVITIES[self.sensitivity]} or higher" if self.sensitivity else "",
            f"type {_either(self.types)}" if self.types else "",
            f"tag {_either(self.tags)}" if self.tags else "",
            f"namespace {_either(self.namespaces)}" if self.namespaces else "",
            f"a retention policy that names {_either(self.regulations)}"
            if self.regulations
            else "",
            f"with {_either(self.has)}" if self.has else "",
            *(values_text(name, values) for name, values in self.values),
        ]
        return ", ".join(filter(None, parts)) or "every grain"


def values_text(name: str, values: Sequence[Scalar]) -> str:
    shown = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    return f"{name} is {_either(['an address' if v == ADDRESS else v for v in shown])}"


def is_there(grain: Grain, name: str) -> bool:
    """Return whether a field has a value, or had one before it was elided. Spec: OMS §10."""
    value = grain.fields.get(name)
    if value is None:
        return _is_elided(grain, name)
    return not (isinstance(value, str | list | Mapping) and len(value) == 0)


def allows(value: Any, values: Sequence[Scalar]) -> bool:
    """Return whether a value is in the list; True does not equal 1 here."""
    if ADDRESS in values and isinstance(value, str) and _ADDRESS.fullmatch(value):
        return True
    return any(type(value) is type(one) and value == one != ADDRESS for one in values)


def matches(text: Any, patterns: Sequence[str]) -> bool:
    """Return whether a text equals a pattern, or has its prefix if it ends in ``:*``."""
    return isinstance(text, str) and any(
        text.startswith(one[:-1]) if one.endswith(":*") else text == one for one in patterns
    )


def _is_elided(grain: Grain, name: str) -> bool:
    elided = grain.fields.get("_elided")
    if elided is None:
        return False
    return isinstance(elided, Mapping) and name in elided and name not in grain.fields


def _tags(grain: Grain) -> list[Any]:
    tags = grain.fields.get("structural_tags")
    return tags if isinstance(tags, list) else []


def _named(grain: Grain) -> set[str]:
    policy = grain.fields.get("retention_policy")
    text = policy.get("regulation") if isinstance(policy, Mapping) else None
    return set(_WORD.findall(text.lower())) if isinstance(text, str) else set()


def _either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


Purpose = Literal["move", "access", "transfer", "sale"]
PURPOSES: tuple[str, ...] = get_args(Purpose)
"""Purposes of an export: to your own store; to the person it is about; to others; for money, to a
data broker or an advertiser."""

REVIEWED = ("put", "supersede", "delete", "export")

_SHOWN = 400
"""Characters of a requirement in an error; `explain` shows all."""

E = TypeVar("E", bound=OmsError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule(ABC):
    """The common part of all rules."""

    kind: ClassVar[str]

    id: str  # the name of the preset, a dot, and the rule's own name
    reason: str  # why, in one sentence
    source: str  # the legal or other source
    # conditions, one of which a grain must meet; without any, all grains do
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()  # conditions, none of which a grain may meet

    def applies(self, grain: Grain) -> bool:
        """Return whether the rule applies to a grain; an elided field may have any value."""
        if self.when and not any([c.holds(grain, True) for c in self.when]):
            return False
        return not (self.unless and any([c.holds(grain, False) for c in self.unless]))

    @abstractmethod
    def asks(self) -> str:
        """Return what the rule requires, in words."""

    def error(self, cls: type[E], field: str | None = None, expected: str | None = None) -> E:
        """Make the error for a violation."""
        pointer = None if field is None else f"/{field}"
        message = f"violates {self.id}: {self.reason}"
        if expected is not None and len(expected) > _SHOWN:  # shorten long lists
            expected = f"{expected[: _SHOWN - 1]}…"
        return cls(message, field=pointer, expected=expected, rule=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encrypt(PolicyRule):
    """The grain must be stored encrypted."""

    kind: ClassVar[str] = "encrypt"

    def broken(self, grain: Grain, encrypted: bool) -> KeyMissingError | None:
        if encrypted or grain.header.encrypted:
            return None
        return self.error(KeyMissingError, expected="a store that is open with keys")

    def asks(self) -> str:
        return "stored encrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields(PolicyRule):
    """The common part of rules about fields.

    Attributes:
        fields: all of these are required; an elided field counts.
        any_of: one of these is required.
        values: these are required with one of the values; an elided field does not count.
    """

    fields: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    values: Values = ()

    def lacking(self, grain: Grain) -> SchemaError | None:
        """Return the error for the first missing field or value, or None."""
        for name in self.fields:
            if not is_there(grain, name):
                return self.error(SchemaError, name, f"the field {name}")
        if self.any_of and not any(is_there(grain, name) for name in self.any_of):
            return self.error(SchemaError, self.any_of[0], f"one of {', '.join(self.any_of)}")
        for name, values in self.values:
            if not allows(grain.fields.get(name), values):
                return self.error(SchemaError, name, values_text(name, values))
        return None

    def wanted(self) -> str:
        parts = [f"with {' and '.join(self.fields)}"] if self.fields else []
        if self.any_of:
            parts.append(f"with one of {', '.join(self.any_of)}")
        return "; ".join([*parts, *(values_text(name, values) for name, values in self.values)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Require(Fields):
    """Fields must be present, and have allowed values."""

    kind: ClassVar[str] = "require"

    def broken(self, grain: Grain, encrypted: bool) -> SchemaError | None:
        return self.lacking(grain)

    def asks(self) -> str:
        return self.wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbid(PolicyRule):
    """Fields and tags must be absent."""

    kind: ClassVar[str] = "forbid"

    fields: tuple[str, ...] = ()
    # tags that are forbidden; ``phi:*`` matches every tag with this prefix
    tags: tuple[str, ...] = ()

    def broken(self, grain: Grain, encrypted: bool) -> SchemaError | None:
        for name in self.fields:
            if is_there(grain, name):
                return self.error(SchemaError, name, f"no {name}")
        tags = grain.fields.get("structural_tags")
        if isinstance(tags, list) and any(matches(tag, self.tags) for tag in tags):
            expected = f"no tag {', '.join(self.tags)}"
            return self.error(SchemaError, "structural_tags", expected)
        return None

    def asks(self) -> str:
        parts = [f"without {', '.join(self.fields)}"] if self.fields else []
        return "; ".join([*parts, *([f"no tag {', '.join(self.tags)}"] if self.tags else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRule(Fields):
    """Exports must meet conditions."""

    kind: ClassVar[str] = "export"

    purposes: tuple[str, ...] = PURPOSES  # the purposes that it applies to
    deny: bool = False  # the grain may not be exported
    encrypted: bool = False  # the grain may be exported only encrypted

    def broken(self, grain: Grain, encrypted: bool) -> OmsError | None:
        if self.deny:
            return self.error(UnsupportedError, expected="a grain that may be exported")
        if self.encrypted and not encrypted and not grain.header.encrypted:
            return self.error(KeyMissingError, expected="an encrypted grain")
        return self.lacking(grain)

    def asks(self) -> str:
        what = "not exported" if self.deny else "exported"
        why = "" if self.purposes == PURPOSES else f" for {' or '.join(self.purposes)}"
        asked = "; ".join(filter(None, ["encrypted" if self.encrypted else "", self.wanted()]))
        return f"{what}{why}, only {asked}" if asked else f"{what}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRule(PolicyRule):
    """An operation is accepted, and a person must review it."""

    kind: ClassVar[str] = "review"

    # the operations: ``put``, ``supersede`` (of the old grain), ``delete``, ``export``
    on: tuple[str, ...] = REVIEWED
    purposes: tuple[str, ...] = PURPOSES  # the purposes of an export

    def asks(self) -> str:
        why = "" if self.purposes == PURPOSES else f" for {' or '.join(self.purposes)}"
        return f"reviewed after {' and '.join(self.on)}{why}"


_MOST_YEARS = 100
"""Maximum years that a grain can request, so that every grain can be deleted some day."""
_MOST_TIME = 2**32 * 1_000
DAY = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(PolicyRule):
    """The grain must be kept for a time, counted from ``created_at``.

    Attributes:
        years: the number of years.
        years_field: the path of the field with the number of years.
        approval_field: deletion also needs the approval that this field names.
    """

    kind: ClassVar[str] = "keep"

    years: int = 0
    years_field: tuple[str, ...] = ()
    approval_field: tuple[str, ...] = ()

    def until(self, grain: Grain) -> int | None:
        """Return until when to keep a grain, ms since 1970; None if the rule sets no time."""
        years = _at(grain, self.years_field) if self.years_field else self.years
        if type(years) is not int or years <= 0:
            return None
        return _years_after(_created(grain), min(years, _MOST_YEARS))

    def broken(
        self, grain: Grain, now: int, approvals: Collection[str]
    ) -> InvalidationDeniedError | None:
        until = self.until(grain)
        if until is not None and now < until:
            day = datetime.fromtimestamp(until / 1_000, timezone.utc).date()
            expected = f"deletion not before {day}"
            return self.error(InvalidationDeniedError, _pointer(self.years_field), expected)
        approval = _at(grain, self.approval_field) if self.approval_field else None
        if isinstance(approval, str) and approval and approval not in approvals:
            expected = "the approval named in the field"
            return self.error(InvalidationDeniedError, _pointer(self.approval_field), expected)
        return None

    def asks(self) -> str:
        long = f"for {self.years} years"
        if self.years_field:
            long = f"as long as {'/'.join(self.years_field)} says"
        if not self.approval_field:
            return f"kept {long}"
        approval = f"deleted with the approval that {'/'.join(self.approval_field)} names"
        return f"kept {long}; then {approval}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(PolicyRule):
    """The grain must be deleted after a time, counted from ``created_at``."""

    kind: ClassVar[str] = "expire"

    days: int

    def due(self, grain: Grain, now: int) -> bool:
        return now >= _created(grain) + self.days * DAY

    def asks(self) -> str:
        return f"deleted after {self.days} days"


def _created(grain: Grain) -> int:
    created = grain.fields.get("created_at")
    if type(created) is int and 0 <= created < _MOST_TIME:
        return created
    return grain.header.created_at * 1_000


def _years_after(start: int, years: int) -> int:
    """Return the same day years later; 29 February becomes 1 March if necessary."""
    days, rest = divmod(start, DAY)
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
