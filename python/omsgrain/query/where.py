# SPDX-License-Identifier: Apache-2.0
"""Tests of the values of fields, and of values inside ``object`` and ``context``: ``where``.

    {"object.celsius": {"gt": 2.5, "lte": 9}, "context.room": "lab", "observer_id": "lidar-3"}

A path names a field and then, inside ``object`` and ``context``, keys of maps, with dots between
them; a backslash before a dot makes it part of a key. A value asks for equality; a map has
operators. Numbers compare with numbers, texts with texts by code point, and nothing else has an
order. A missing value passes ``ne`` only.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from omsgrain import registry
from omsgrain.errors import RangeError, SchemaError

Scalar: TypeAlias = str | int | float | bool
"""A value that a test compares with."""
ValueTests: TypeAlias = Mapping[str, Scalar | Mapping[str, Scalar]]
"""Path -> the value that must be there, or operators with their values."""

FIELDS: Final = ("object", "context")
"""The fields that a path can go into."""
MOST_TESTS: Final = 16
MOST_KEYS: Final = 16
"""Keys of a path."""
_LONGEST: Final = 1_000  # characters of a path
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
OPERATORS: Final = ("eq", "ne", *_ORDER)
_KEY = re.compile(r"(?:[^.\\]|\\.)+", re.DOTALL)
_FORM: Final = 'a path such as "object.celsius" with a value, or with {"gt": 2.5}'


class ValueTest(NamedTuple):
    """One comparison with the value at a path."""

    path: tuple[str, ...]
    operator: str
    value: Scalar


def parse(given: object) -> tuple[ValueTest, ...]:
    """Check the filter; the tests come in an order that does not depend on how it was written."""
    if not isinstance(given, Mapping) or not given:
        raise _wrong("a filter of the wrong kind", expected=f"a map: {_FORM}")
    tests = []
    for text, asked in given.items():
        path = path_of(text)
        if not isinstance(asked, Mapping):
            asked = {"eq": asked}
        unknown = [name for name in asked if name not in OPERATORS]
        if unknown or not asked:  # the values may be of a person
            found = ascii(unknown[0])[:60] if unknown else "none"
            raise _wrong("unknown operator", expected=", ".join(OPERATORS), found=found)
        tests += [ValueTest(path, name, _scalar(name, value)) for name, value in asked.items()]
    if len(tests) > MOST_TESTS:
        raise RangeError(
            "too many comparisons",
            field="/where",
            expected=f"at most {MOST_TESTS}",
            found=str(len(tests)),
        )
    return tuple(sorted(tests, key=repr))


def path_of(text: object) -> tuple[str, ...]:
    """Parse a path into its field and its keys."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise _wrong("not a path", expected=_FORM)
    keys = _KEY.findall(text)
    if ".".join(keys) != text or not 0 < len(keys) <= MOST_KEYS:
        keys = [""]
    if keys[0] not in FIELDS and (len(keys) > 1 or not _is_field(keys[0])):
        raise _wrong(
            "not a path",
            expected=f"the name of a field; after {' or '.join(FIELDS)} up to {MOST_KEYS - 1} "
            "keys, with dots between",
        )
    return tuple([_nfc(re.sub(r"\\(.)", r"\1", key, flags=re.DOTALL)) for key in keys])


def _is_field(name: str) -> bool:
    known = registry.FIELDS, *(profile.fields for profile in registry.PROFILES)
    return any(one.name == name and not one.index_layer for fields in known for one in fields)


def path_text(*keys: str) -> str:
    """Spell the path of a field and keys, which may contain dots."""
    return ".".join([re.sub(r"([.\\])", r"\\\1", key) for key in keys])


def passes(fields: Mapping[str, Any], tests: tuple[ValueTest, ...]) -> bool:
    """Tell whether the values of a grain pass all tests."""
    return all(_passes(_at(fields, test.path), test) for test in tests)


def _passes(found: object, test: ValueTest) -> bool:
    alike = _kind(found) == _kind(test.value)
    if test.operator in _ORDER:
        return alike and _ORDER[test.operator](found, test.value)
    return (alike and found == test.value) is (test.operator == "eq")


def scalar_at(fields: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, Scalar] | None:
    """Return the kind and the value at a path; None if nothing is compared with it."""
    found: Any = _at(fields, path)
    kind = _kind(found)
    return None if kind is None else (kind, found)


def _at(fields: Mapping[str, Any], path: tuple[str, ...]) -> object:
    found: object = fields
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found


def _kind(value: object) -> str | None:
    """Only values of one kind are compared; None for what is compared with nothing."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


def _scalar(name: str, value: object) -> Scalar:
    kind = _kind(value)
    if kind is None or (name in _ORDER and kind == "bool"):
        expected = "a number or a text" if name in _ORDER else "a text, a number or a bool"
        raise _wrong("a value of the wrong kind", expected=expected, found=type(value).__name__)
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong("a value that no grain has", expected="a finite number", found=str(value))
    return _nfc(value) if isinstance(value, str) else value  # type: ignore[return-value]


def _nfc(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can spell lone surrogates
        raise _wrong("a text that is not Unicode", expected="Unicode") from None
    return unicodedata.normalize("NFC", text)


def _wrong(says: str, *, expected: str, found: str | None = None) -> SchemaError:
    return SchemaError(says, field="/where", expected=expected, found=found)
