# SPDX-License-Identifier: Apache-2.0
"""Reading a file of rules. Whatever it says that nobody asked for is an error, with its place."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from omsgrain.errors import FormatError
from omsgrain.privacy import values
from omsgrain.privacy.conditions import Condition, Values
from omsgrain.privacy.retention import Expire, Keep
from omsgrain.privacy.rules import (
    PURPOSES,
    REVIEWED,
    Encrypt,
    Export,
    Forbid,
    Require,
    Review,
    Rule,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["MOST_BYTES", "RuleFile", "read_rules"]

MOST_BYTES = 1 << 20
_LONGEST = 100  # characters of a key that is told
_LINE = re.compile(r"line (\d+)")

T = TypeVar("T")

_FIELDS = values.list_of(values.field)
_PATTERNS = values.list_of(values.pattern)
_PURPOSES = values.list_of(values.one_of(PURPOSES))
_NONE: tuple[str, ...] = ()
_NO_VALUES: Values = ()


@dataclass(frozen=True, slots=True)
class RuleFile:
    """What a file says.

    Attributes:
        name: the name of the preset, which begins the ids of its rules.
        title: what it is, for a person.
        rules: in the order of their kinds and of the file.
    """

    name: str
    title: str
    rules: tuple[Rule, ...]


def read_rules(data: bytes, file: str) -> RuleFile:
    """Read a file of rules.

    Args:
        data: TOML in UTF-8.
        file: what to call it in errors.

    Raises:
        FormatError: it is not TOML, or says what no rule says; ``field`` is the place.
    """
    if len(data) > MOST_BYTES:
        raise FormatError(f"{file} is too large", expected="1 MiB at the most")
    try:
        read = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        line = _LINE.search(str(error))
        raise FormatError(f"{file} is not TOML", line=int(line[1]) if line else None) from None
    table = _Table(file, "", read)
    name = table.take("name", values.name)
    title = table.take("title", values.text)
    rules = []
    for kind, make in _KINDS.items():
        rules += [make(name, rule) for rule in table.tables(kind)]
    table.end()
    seen = set[str]()
    for rule in rules:
        if rule.id in seen:
            raise FormatError(f"{file} has two rules of one id", found=rule.id)
        seen.add(rule.id)
    return RuleFile(name, title, tuple(rules))


class _Table:
    """A table of the file, taken apart key by key; what is left at the end is unknown."""

    def __init__(self, file: str, place: str, value: Any) -> None:
        self.file = file
        self.place = place
        if not isinstance(value, dict):
            raise self.error("", "a table")
        self.left = dict(value)

    def error(self, key: str, expected: str) -> FormatError:
        shown = key if len(key) <= _LONGEST else "…"
        field = f"{self.place}/{values.escaped(shown)}" if key else self.place
        return FormatError(f"{self.file} is not a file of rules", field=field, expected=expected)

    def take(self, key: str, read: Callable[[Any], T], default: T | None = None) -> T:
        """Take a value out; one without a default must be there."""
        if key not in self.left:
            if default is None:
                raise self.error(key, "a value")
            return default
        try:
            return read(self.left.pop(key))
        except values.Refused as refused:
            raise self.error(key, str(refused)) from None

    def tables(self, key: str) -> list[_Table]:
        """Take a list of tables out."""
        value = self.left.pop(key, [])
        if not isinstance(value, list) or len(value) > values.MOST_ITEMS:
            raise self.error(key, f"a list of tables, {values.MOST_ITEMS} at the most")
        place = f"{self.place}/{key}"
        return [_Table(self.file, f"{place}/{i}", item) for i, item in enumerate(value)]

    def conditions(self, key: str) -> tuple[Condition, ...]:
        """Take conditions out: a table, or a list of them."""
        if isinstance(self.left.get(key), dict):
            return (_condition(_Table(self.file, f"{self.place}/{key}", self.left.pop(key))),)
        if self.left.get(key) == []:
            raise self.error(key, "a table, or a list of tables that is not empty")
        return tuple(_condition(table) for table in self.tables(key))

    def end(self) -> None:
        """Refuse what nobody took."""
        for key in self.left:
            raise self.error(key, "nothing of this name")


def _condition(table: _Table) -> Condition:
    condition = Condition(
        sensitivity=table.take("sensitivity", values.sensitivity, 0),
        types=table.take("types", values.list_of(values.grain_type), _NONE),
        tags=table.take("tags", _PATTERNS, _NONE),
        namespaces=table.take("namespaces", _PATTERNS, _NONE),
        regulations=table.take("regulations", values.list_of(values.word), _NONE),
        has=table.take("has", _FIELDS, _NONE),
        values=table.take("values", values.values, _NO_VALUES),
    )
    table.end()
    if condition == Condition():
        raise table.error("", "a condition; without one the rule is about every grain")
    return condition


def _about(preset: str, table: _Table) -> dict[str, Any]:
    return {
        "id": f"{preset}.{table.take('id', values.name)}",
        "reason": table.take("reason", values.text),
        "source": table.take("source", values.text),
        "when": table.conditions("when"),
        "unless": table.conditions("unless"),
    }


def _fields(table: _Table) -> dict[str, Any]:
    return {
        "fields": table.take("fields", _FIELDS, _NONE),
        "any_of": table.take("any_of", _FIELDS, _NONE),
        "values": table.take("values", values.values, _NO_VALUES),
    }


def _made(table: _Table, rule: Rule, *, asks: bool, expected: str) -> Rule:
    table.end()
    if not asks:
        raise table.error("", expected)
    return rule


def _encrypt(preset: str, table: _Table) -> Rule:
    return _made(table, Encrypt(**_about(preset, table)), asks=True, expected="")


def _require(preset: str, table: _Table) -> Rule:
    rule = Require(**_about(preset, table), **_fields(table))
    asks = bool(rule.fields or rule.any_of or rule.values)
    return _made(table, rule, asks=asks, expected="fields, any_of or values")


def _forbid(preset: str, table: _Table) -> Rule:
    rule = Forbid(
        **_about(preset, table),
        fields=table.take("fields", _FIELDS, _NONE),
        tags=table.take("tags", _PATTERNS, _NONE),
    )
    return _made(table, rule, asks=bool(rule.fields or rule.tags), expected="fields or tags")


def _keep(preset: str, table: _Table) -> Rule:
    rule = Keep(
        **_about(preset, table),
        years=table.take("years", values.from_to(1, 100), 0),
        years_field=table.take("years_field", values.path, _NONE),
        approval_field=table.take("approval_field", values.path, _NONE),
    )
    asks = bool(rule.years) != bool(rule.years_field)
    return _made(table, rule, asks=asks, expected="either years or years_field")


def _expire(preset: str, table: _Table) -> Rule:
    days = table.take("days", values.from_to(1, 36_500))
    return _made(table, Expire(**_about(preset, table), days=days), asks=True, expected="")


def _export(preset: str, table: _Table) -> Rule:
    rule = Export(
        **_about(preset, table),
        **_fields(table),
        purposes=table.take("purposes", _PURPOSES, PURPOSES),
        deny=table.take("deny", values.flag, False),
        encrypted=table.take("encrypted", values.flag, False),
    )
    needs = bool(rule.encrypted or rule.fields or rule.any_of or rule.values)
    expected = "deny, or else what is needed: encrypted, fields, any_of or values"
    return _made(table, rule, asks=rule.deny != needs, expected=expected)


def _review(preset: str, table: _Table) -> Rule:
    rule = Review(
        **_about(preset, table),
        on=table.take("on", values.list_of(values.one_of(REVIEWED)), REVIEWED),
        purposes=table.take("purposes", _PURPOSES, PURPOSES),
    )
    return _made(table, rule, asks=True, expected="")


_KINDS: dict[str, Callable[[str, _Table], Rule]] = {
    "encrypt": _encrypt,
    "require": _require,
    "forbid": _forbid,
    "keep": _keep,
    "expire": _expire,
    "export": _export,
    "review": _review,
}
