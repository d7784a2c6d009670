# SPDX-License-Identifier: Apache-2.0
"""Parse rule files. Every unknown key or invalid value is an error with its line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from omsgrain import registry
from omsgrain.errors import FormatError
from omsgrain.header import SENSITIVITIES
from omsgrain.policy.rules import (
    PURPOSES,
    REVIEWED,
    Condition,
    Encrypt,
    Expire,
    ExportRule,
    Forbid,
    Keep,
    PolicyRule,
    Require,
    ReviewRule,
    Values,
)

MOST_ITEMS = 1_000
"""Maximum number of items in a list."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_WORD = re.compile(r"[a-z0-9]{1,40}")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,400}")
_MOST = 400


class Refused(Exception):
    """An invalid value; the message says what is expected."""


def matching(form: re.Pattern[str], expected: str) -> Callable[[Any], str]:
    """Return a parser for a text of some form."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise Refused(expected)
        return value

    return read


text = matching(_TEXT, "a line of 1 to 400 characters")
checked_name = matching(_NAME, "a name of a-z, 0-9 and -")
word = matching(_WORD, "a word of a-z and 0-9")


def pattern(value: Any) -> str:
    """Return a text, or a prefix with ``:*``; elsewhere a star would match nothing."""
    if "*" in text(value).removesuffix(":*"):
        raise Refused("a text, or one that ends in :*")
    return text(value)


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused("true or false")
    return value


def from_to(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Refused(f"{least} to {most}")
        return value

    return read


def one_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise Refused(f"one of {', '.join(names)}")
        return value

    return read


def list_of(read: Callable[[Any], str]) -> Callable[[Any], tuple[str, ...]]:
    def read_all(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not 0 < len(value) <= MOST_ITEMS:
            raise Refused(f"a list of 1 to {MOST_ITEMS} items")
        return tuple(read(item) for item in value)

    return read_all


def sensitivity(value: Any) -> int:
    return SENSITIVITIES.index(one_of(SENSITIVITIES[1:])(value))


def grain_type(value: Any) -> str:
    return one_of(tuple(row.name for row in registry.TYPES))(value)


def field(value: Any) -> str:
    """Return a field name of grains, or a name with a prefix of its own."""
    found = text(value)
    known = {row.name for row in registry.FIELDS if not row.index_layer}
    known.update(row.name for profile in registry.PROFILES for row in profile.fields)
    own = ":" in found and not found.startswith(tuple(p.prefix for p in registry.PROFILES))
    if found not in known and not own:
        raise Refused("a field of grains, or a name with your own prefix, such as x:name")
    return found


def path(value: Any) -> tuple[str, ...]:
    """Return a field, or a path to a value inside it, as names."""
    first, *rest = text(value).split("/")
    return (field(first), *rest)


def values(value: Any) -> Values:
    if not isinstance(value, Mapping) or not value:
        raise Refused("a table of fields, each with a list of values")
    return tuple((field(name), _scalars(items)) for name, items in value.items())


def _scalars(items: Any) -> tuple[str | int | bool, ...]:
    if not isinstance(items, list) or not 0 < len(items) <= MOST_ITEMS:
        raise Refused(f"a list of 1 to {MOST_ITEMS} values")
    if not all(isinstance(item, str | int) for item in items):
        raise Refused("texts, integers, true or false")
    # TOML allows integers beyond 64 bits, and texts as long as the file.
    if any(len(i) > _MOST if isinstance(i, str) else i.bit_length() > 64 for i in items):
        raise Refused(f"texts of at most {_MOST} characters, and 64-bit integers")
    return tuple(items)


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


MOST_BYTES = 1 << 20
_LONGEST = 100  # characters of a key in an error
_MOST_TRIED = 8 << 20  # bytes to parse again to find a line
_LINE = re.compile(r"line (\d+)")
_ENDS = re.compile(r"\]|\"\"\"|'''")

T = TypeVar("T")
_Path: TypeAlias = tuple[str | int, ...]

_FIELDS = list_of(field)
_PATTERNS = list_of(pattern)
_PURPOSES = list_of(one_of(PURPOSES))
_NONE: tuple[str, ...] = ()
_NO_VALUES: Values = ()


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The content of a rule file; ids of its rules begin with its name."""

    name: str
    title: str
    rules: tuple[PolicyRule, ...]


def read_rules(data: bytes, file: str) -> RuleFile:
    if len(data) > MOST_BYTES:
        raise FormatError(f"{file} is too large", expected="at most 1 MiB")
    try:
        toml = data.decode("utf-8").replace("\r\n", "\n")
        read = tomllib.loads(toml)
    except (ValueError, RecursionError) as error:
        line = _LINE.search(str(error))
        raise FormatError(f"{file} is not TOML", line=int(line[1]) if line else None) from None
    table = _Table(_Source(file, toml), (), read)
    name = table.take("name", checked_name)
    title = table.take("title", text)
    rules = dict[str, PolicyRule]()
    for kind in _KINDS:
        for one in table.tables(kind):
            rule = _rule(kind, name, one)
            if rule.id in rules:
                raise one.error("two rules have the same id", "id", "another id", found=rule.id)
            rules[rule.id] = rule
    table.end()
    return RuleFile(name, title, tuple(rules.values()))


@dataclass(frozen=True, slots=True)
class _Source:
    """The source text of a rule file."""

    file: str
    text: str

    def line_of(self, path: _Path) -> int | None:
        """Return the line of the value at a path, or of the innermost table around it.

        Returns None for the file itself, and if the search would take too long.
        """
        best, deepest = None, 0
        table: _Path = ()
        lists = dict[_Path, int]()
        for line, header, parsed in self._statements():
            if header:
                table = _opened(parsed, lists)
                both = min(len(table), len(path))
                depth = both if path[:both] == table[:both] else 0
            elif path[: len(table)] == table:
                depth = len(table) + _depth(parsed, path[len(table) :])
            else:
                depth = 0
            if depth > deepest:
                best, deepest = line, depth
        return best

    def _statements(self) -> Iterator[tuple[int, bool, dict[str, Any]]]:
        """Return each header and each key with its value: line, kind and content.

        The TOML parser reads a single statement as it reads it in the file.
        """
        tried, begin, statement = 0, 0, ""
        for number, line in enumerate(self.text.split("\n"), 1):
            begin = begin if statement else number
            statement += line + "\n"
            if begin != number and _ENDS.search(line) is None:
                continue  # a statement of several lines ends with one of these
            tried += len(statement)
            if tried > _MOST_TRIED:
                return
            with suppress(ValueError, RecursionError):
                parsed = tomllib.loads(statement)
                header = statement.lstrip().startswith("[")
                statement = ""
                if parsed:
                    yield begin, header, parsed


def _opened(parsed: Any, lists: dict[_Path, int]) -> _Path:
    """Return the path of the table that a header opens; ``lists`` counts lists of tables."""
    path: _Path = ()
    while parsed:
        ((key, parsed),) = parsed.items()
        path = (*path, key)
        if isinstance(parsed, list):
            lists[path] = lists.get(path, -1) + 1
            parsed = None
        if path in lists:
            path = (*path, lists[path])
    return path


def _depth(value: Any, path: _Path) -> int:
    """Return how many steps of a path exist in a value."""
    for depth, step in enumerate(path):
        inside = range(len(value)) if isinstance(value, list) else value
        if not isinstance(value, dict | list) or step not in inside:
            return depth
        value = value[step]  # type: ignore[index]  # an index in a list, a key in a table
    return len(path)


class _Table:
    """A table whose keys are taken one by one; the rest is unknown."""

    def __init__(self, source: _Source, path: _Path, value: Any) -> None:
        self.source = source
        self.path = path
        self.known: list[str] = []
        if not isinstance(value, dict):
            raise self.error("not a table", "", "a table")
        self.left = dict(value)

    def error(
        self, what: str, key: str, expected: str, *, found: str | None = None
    ) -> FormatError:
        """Make the error about a key, or about the table if ``key`` is empty."""
        path = (*self.path, key) if key else self.path
        steps = [step if len(str(step)) <= _LONGEST else "…" for step in path]
        return FormatError(
            f"{self.source.file}: {what}",
            field="".join(f"/{escaped(str(step))}" for step in steps),
            line=self.source.line_of(path),
            expected=expected,
            found=found,
        )

    def take(self, key: str, read: Callable[[Any], T], default: T | None = None) -> T:
        """Take a value; without a default, it is required."""
        self.known.append(key)
        there = key in self.left
        if not there and default is not None:
            return default
        try:
            return read(self.left.pop(key, None))  # TOML has no null, so every parser refuses None
        except Refused as refused:
            if there:
                what, found = f"the value of {key!r} is invalid", None
            else:
                what, found = f"the key {key!r} is missing", _near(key, self.left)
            raise self.error(what, key, str(refused), found=found) from None

    def tables(self, key: str) -> list[_Table]:
        self.known.append(key)
        value = self.left.pop(key, [])
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            expected = f"a list of at most {MOST_ITEMS} tables"
            raise self.error(f"the value of {key!r} is invalid", key, expected)
        return [_Table(self.source, (*self.path, key, i), item) for i, item in enumerate(value)]

    def conditions(self, key: str) -> tuple[Condition, ...]:
        """Take conditions: a table, or a list of tables."""
        if isinstance(self.left.get(key), dict):
            self.known.append(key)
            return (_condition(_Table(self.source, (*self.path, key), self.left.pop(key))),)
        if self.left.get(key) == []:
            expected = "a table, or a non-empty list of tables"
            raise self.error(f"the value of {key!r} is invalid", key, expected)
        return tuple(_condition(table) for table in self.tables(key))

    def end(self) -> None:
        for key in self.left:
            what = f"the key {key if len(key) <= _LONGEST else '…'!r} is unknown"
            if near := _near(key, self.known):
                what += f"; did you mean {near!r}?"
            raise self.error(what, key, f"one of {', '.join(sorted(self.known))}")


def _near(key: str, others: Iterable[str]) -> str | None:
    """Return the key that was probably meant."""
    short = [other for other in others if len(other) <= _LONGEST]
    near = get_close_matches(key, short, 1, 0.7) if len(key) <= _LONGEST else []
    return near[0] if near else None


def _condition(table: _Table) -> Condition:
    condition = Condition(
        sensitivity=table.take("sensitivity", sensitivity, 0),
        types=table.take("types", list_of(grain_type), _NONE),
        tags=table.take("tags", _PATTERNS, _NONE),
        namespaces=table.take("namespaces", _PATTERNS, _NONE),
        regulations=table.take("regulations", list_of(word), _NONE),
        has=table.take("has", _FIELDS, _NONE),
        values=table.take("values", values, _NO_VALUES),
    )
    table.end()
    if condition == Condition():
        expected = "a condition; leave it out to apply the rule to every grain"
        raise table.error("an empty condition", "", expected)
    return condition


#: How to read each key, and its value where it is absent; without one, it is required.
_KEYS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "fields": (_FIELDS, _NONE),
    "any_of": (_FIELDS, _NONE),
    "values": (values, _NO_VALUES),
    "tags": (_PATTERNS, _NONE),
    "years": (from_to(1, 100), 0),
    "years_field": (path, _NONE),
    "approval_field": (path, _NONE),
    "days": (from_to(1, 36_500), None),
    "purposes": (_PURPOSES, PURPOSES),
    "deny": (flag, False),
    "encrypted": (flag, False),
    "on": (list_of(one_of(REVIEWED)), REVIEWED),
}
_KINDS: dict[str, tuple[type[PolicyRule], tuple[str, ...]]] = {
    "encrypt": (Encrypt, ()),
    "require": (Require, ("fields", "any_of", "values")),
    "forbid": (Forbid, ("fields", "tags")),
    "keep": (Keep, ("years", "years_field", "approval_field")),
    "expire": (Expire, ("days",)),
    "export": (
        ExportRule,
        ("fields", "any_of", "values", "purposes", "deny", "encrypted"),
    ),
    "review": (ReviewRule, ("on", "purposes")),
}


def _rule(kind: str, preset: str, table: _Table) -> PolicyRule:
    make, keys = _KINDS[kind]
    rule = make(
        id=f"{preset}.{table.take('id', checked_name)}",
        reason=table.take("reason", text),
        source=table.take("source", text),
        when=table.conditions("when"),
        unless=table.conditions("unless"),
        **{key: table.take(key, *_KEYS[key]) for key in keys},
    )
    table.end()
    if expected := _lacking(rule):
        raise table.error("incomplete rule", "", expected)
    return rule


def _lacking(rule: PolicyRule) -> str | None:
    """Return what a rule without effect lacks."""
    if isinstance(rule, Require) and not (rule.fields or rule.any_of or rule.values):
        return "fields, any_of or values"
    if isinstance(rule, Forbid) and not (rule.fields or rule.tags):
        return "fields or tags"
    if isinstance(rule, Keep) and bool(rule.years) == bool(rule.years_field):
        return "either years or years_field"
    if isinstance(rule, ExportRule):
        needs = bool(rule.encrypted or rule.fields or rule.any_of or rule.values)
        if rule.deny == needs:
            return "either deny, or one of encrypted, fields, any_of and values"
    return None
