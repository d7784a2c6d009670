# SPDX-License-Identifier: Apache-2.0
"""Which grains a rule of a preset is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from omsgrain.grain import Grain
from omsgrain.header import SENSITIVITIES

__all__ = ["ADDRESS", "Condition", "Scalar", "Values", "allows", "is_there", "matches", "told"]

Scalar: TypeAlias = "str | int | bool"
Values: TypeAlias = tuple[tuple[str, tuple[Scalar, ...]], ...]
"""Fields, each with the values that count."""

ADDRESS = "@address"
"""Among values: any content address."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """What must be so of a grain, all of it. An empty condition holds for every grain.

    Attributes:
        sensitivity: at least this level, 0 to 3.
        types: one of these types.
        tags: one of these tags; ``phi:*`` stands for every tag that begins so.
        namespaces: one of these; ``hr:*`` stands for every namespace that begins so.
        regulations: the grain's retention policy names one of these, as a word of its text.
        has: one of these fields is there.
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
        """Tell whether it is so.

        Args:
            grain: the grain.
            doubt: what to answer where a field that matters is elided.
        """
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
        """The condition in words."""
        parts = [
            f"sensitivity {SENSITIVITIES[self.sensitivity]} or higher" if self.sensitivity else "",
            f"type {_either(self.types)}" if self.types else "",
            f"tag {_either(self.tags)}" if self.tags else "",
            f"namespace {_either(self.namespaces)}" if self.namespaces else "",
            f"a retention policy that names {_either(self.regulations)}"
            if self.regulations
            else "",
            f"with {_either(self.has)}" if self.has else "",
            *(told(name, values) for name, values in self.values),
        ]
        return ", ".join(filter(None, parts)) or "every grain"


def told(name: str, values: Sequence[Scalar]) -> str:
    """A field and what it may be, in words."""
    shown = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    return f"{name} is {_either(['an address' if v == ADDRESS else v for v in shown])}"


def is_there(grain: Grain, name: str) -> bool:
    """Tell whether a field says something, or did before it was elided. Spec: OMS §10."""
    value = grain.fields.get(name)
    if value is None:
        return _is_elided(grain, name)
    return not (isinstance(value, str | list | Mapping) and len(value) == 0)


def allows(value: Any, values: Sequence[Scalar]) -> bool:
    """Tell whether a value is one of those listed; True is not 1 here."""
    if ADDRESS in values and isinstance(value, str) and _ADDRESS.fullmatch(value):
        return True
    return any(type(value) is type(one) and value == one != ADDRESS for one in values)


def matches(text: Any, patterns: Sequence[str]) -> bool:
    """Tell whether a text is one of the patterns, or begins like one that ends in ``:*``."""
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
