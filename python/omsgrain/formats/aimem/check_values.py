# SPDX-License-Identifier: Apache-2.0
"""Checks of single values, and where what they find is gathered."""

from __future__ import annotations

from typing import Any, TypeAlias

from omsgrain.formats.aimem import times
from omsgrain.formats.aimem.fields import Field
from omsgrain.formats.aimem.rules import RULES, WARNINGS
from omsgrain.formats.problems import Problem, Problems
from omsgrain.formats.reading import kind_of
from omsgrain.formats.shapes.table import KINDS

__all__ = ["Plan", "Values", "plan"]

Plan: TypeAlias = tuple[tuple[str, tuple[type, ...], int | None, Field], ...]
"""A table of fields as it is run through: name, types, most code points, and the rest."""


def plan(table: tuple[Field, ...]) -> Plan:
    """Look up the types of a table once."""
    return tuple((field.name, KINDS[field.kind][1], field.most, field) for field in table)


class Values:
    """Checks values and keeps what is wrong with them.

    Attributes:
        problems: what is wrong.
        warnings: what is taken, and told.
    """

    def __init__(self) -> None:
        self.problems = Problems()
        self.warnings = Problems()
        self._found = self.problems
        self._line: int | None = None

    def _fields(self, pointer: str, plan: Plan, values: dict[str, Any]) -> dict[str, Any]:
        """The known fields that are there and of the right type; the others are told."""
        good = {}
        for name, types, most, field in plan:
            value: Any = values.get(name)
            if type(value) in types and (most is None or len(value) <= most):
                good[name] = value
            elif value is not None or field.required or (name in values and not field.nullable):
                self._odd(f"{pointer}/{name}", field, value, name in values, good)
        return good

    def _odd(
        self, pointer: str, field: Field, value: Any, there: bool, good: dict[str, Any]
    ) -> None:
        """Say what is wrong with a field; a float that is whole is an integer after all."""
        words, types = KINDS[field.kind]
        if not there:
            self._wrong(field.breach or "missing_field", pointer, field.says)
        elif type(value) in types:
            most, size = f"at most {field.most}", f"{len(value)} code points"
            self._wrong("too_long", pointer, most, size)
        elif field.kind == "int" and type(value) is float and value.is_integer():
            good[field.name] = int(value)  # canonical JSON makes no difference
        else:
            self._wrong(field.breach or "invalid_type", pointer, words, kind_of(value))

    def _one_of(
        self,
        pointer: str,
        name: str,
        good: dict[str, Any],
        allowed: tuple[str, ...],
        rule: str,
        *,
        own: bool = False,
    ) -> None:
        value = good.get(name)
        if value is None or value in allowed or (own and value[:2] == "x-" and len(value) > 2):
            return
        expected = ", ".join(allowed) + (" or x-..." if own else "")
        self._wrong(rule, f"{pointer}/{name}", expected)

    def _time(self, pointer: str, name: str, good: dict[str, Any]) -> times.Instant | None:
        text = good.get(name)
        found = None if text is None else times.parse(text)
        if text is not None and found is None:
            self._wrong("invalid_timestamp", f"{pointer}/{name}", "such as 2026-01-15T10:00:00Z")
        return found

    def _wrong(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        says = RULES[rule].says
        self._found.add(Problem(rule, pointer, says, expected, found, self._line))

    def _warn(self, rule: str, pointer: str) -> None:
        self.warnings.add(Problem(rule, pointer, WARNINGS[rule].says, line=self._line))
