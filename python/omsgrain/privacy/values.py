# SPDX-License-Identifier: Apache-2.0
"""The values in a file of rules: each is given back as it is kept, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from omsgrain import registry
from omsgrain.header import SENSITIVITIES
from omsgrain.privacy.conditions import Values

__all__ = [
    "MOST_ITEMS",
    "Refused",
    "escaped",
    "field",
    "flag",
    "from_to",
    "grain_type",
    "list_of",
    "name",
    "one_of",
    "path",
    "pattern",
    "sensitivity",
    "text",
    "values",
    "word",
]

MOST_ITEMS = 1_000
"""Items of a list, at the most."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_WORD = re.compile(r"[a-z0-9]{1,40}")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,400}")
_MOST = 400


class Refused(Exception):
    """A value that is not right; says what would be."""


def text(value: Any) -> str:
    """A line for a person."""
    if not isinstance(value, str) or _TEXT.fullmatch(value) is None:
        raise Refused("a line of 1 to 400 letters")
    return value


def pattern(value: Any) -> str:
    """A text, or the beginning of one and ``:*``; a star elsewhere would match nothing."""
    if "*" in text(value).removesuffix(":*"):
        raise Refused("a text, or one that ends in :*")
    return text(value)


def name(value: Any) -> str:
    """The name of a preset or a rule."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise Refused("a name of a-z, 0-9 and -")
    return value


def word(value: Any) -> str:
    """A word, in lower case."""
    if not isinstance(value, str) or _WORD.fullmatch(value) is None:
        raise Refused("a word of a-z and 0-9")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Refused("true or false")
    return value


def from_to(least: int, most: int) -> Callable[[Any], int]:
    """A number within bounds."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Refused(f"{least} to {most}")
        return value

    return read


def one_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    """One of several names."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise Refused(f"one of {', '.join(names)}")
        return value

    return read


def list_of(read: Callable[[Any], str]) -> Callable[[Any], tuple[str, ...]]:
    """A list of such values, not empty."""

    def read_all(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not 0 < len(value) <= MOST_ITEMS:
            raise Refused(f"a list of 1 to {MOST_ITEMS}")
        return tuple(read(item) for item in value)

    return read_all


def sensitivity(value: Any) -> int:
    """A level of sensitivity, by its name."""
    return SENSITIVITIES.index(one_of(SENSITIVITIES[1:])(value))


def grain_type(value: Any) -> str:
    """A type of grains, by its 1.2 name."""
    return one_of(tuple(row.name for row in registry.TYPES))(value)


def field(value: Any) -> str:
    """A name that grains have, or one with a prefix of its own."""
    found = text(value)
    known = {row.name for row in registry.FIELDS if not row.index_layer}
    known.update(row.name for profile in registry.PROFILES for row in profile.fields)
    own = ":" in found and not found.startswith(tuple(p.prefix for p in registry.PROFILES))
    if found not in known and not own:
        raise Refused("a field of grains, or a name with a prefix of its own, such as x:name")
    return found


def path(value: Any) -> tuple[str, ...]:
    """A field, or the way to a value inside of one, with slashes."""
    first, *rest = text(value).split("/")
    return (field(first), *rest)


def values(value: Any) -> Values:
    """Fields, each with the values that count."""
    if not isinstance(value, Mapping) or not value:
        raise Refused("a table of fields, each with a list of values")
    return tuple((field(name), _scalars(items)) for name, items in value.items())


def _scalars(items: Any) -> tuple[str | int | bool, ...]:
    if not isinstance(items, list) or not 0 < len(items) <= MOST_ITEMS:
        raise Refused(f"a list of 1 to {MOST_ITEMS} values")
    if not all(isinstance(item, str | int) for item in items):
        raise Refused("texts, whole numbers, true or false")
    # TOML has numbers that Python does not write, and texts as long as the file.
    if any(len(i) > _MOST if isinstance(i, str) else i.bit_length() > 64 for i in items):
        raise Refused(f"texts of at most {_MOST} letters, and numbers of 64 bits")
    return tuple(items)


def escaped(key: str) -> str:
    """A key as part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
