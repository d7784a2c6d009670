# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of the documents, and a validator that reports each defect once.

The folder ``schemas`` holds the schemas and a JSON-LD context; none refers to anything outside.
This module also checks the formats and patterns that they name.

A general JSON Schema validator reports every failing branch of an ``anyOf``: four errors for one
wrong word. This one chooses the branch by the value's JSON type, and reports only the first defect
of a text. It supports the keywords of our schemas and refuses a schema with others.

The core recognizes most valid memories first (`shape_at_sight`), in a ninth of the time: 0.5 µs
instead of 4.5, and 6 instead of 59 for a full memory (row F1 of `make bench`). ``tests/fuzz``
compares the two. Schemas inside ontologies use all keywords and need no codes; they are checked by
jsonschema-rs, an extra, which is as fast as the core.

Spec: JSON Schema 2020-12, RFC 3339 §5.6, RFC 3986, ISO 8601, ECMA-262 §22.2
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from omsgrain.formats.mif_ld.defects import Defects, SchemaDefect, code_of

NAMES: Final = (
    "common.json",
    "memory-0.1.json",
    "memory-0.1-published.json",
    "memory-1.x.json",
    "citation.json",
    "entity-reference.json",
    "ontology.json",
)


def text(name: str) -> str:
    return files("omsgrain.formats.mif_ld").joinpath(f"schemas/{name}").read_text("utf-8")


@cache
def load(name: str) -> dict[str, Any]:
    """Return a schema. Do not change it."""
    schema: dict[str, Any] = json.loads(text(name))
    return schema


# -- formats and patterns -------------------------------------------------------------------------

_DAY: Final = r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TO_23: Final = r"([01][0-9]|2[0-3])"
_TO_59: Final = r"([0-5][0-9])"
_DATE: Final = re.compile(_DAY)
_TIME: Final = re.compile(
    rf"{_DAY}[Tt]{_TO_23}:{_TO_59}:([0-5][0-9]|60)(?:\.[0-9]+)?(?:[Zz]|([+-]){_TO_23}:{_TO_59})"
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_COUNT: Final = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION: Final = re.compile(
    rf"P(?=.)(?:{_COUNT}W|(?:{_COUNT}Y)?(?:{_COUNT}M)?(?:{_COUNT}D)?"
    rf"(?:T(?=.)(?:{_COUNT}H)?(?:{_COUNT}M)?(?:{_COUNT}S)?)?)"
)
_FRACTION: Final = re.compile(r"[.,][0-9]+[YMWDHS](?=.)")
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_PIECE: Final = r"[0-9A-Fa-f]{1,4}"
_LAST: Final = rf"(?:{_PIECE}:{_PIECE}|{_IPV4})"
# One alternative for each number of pieces before and after the ``::`` of an IPv6 address.
_IPV6: Final = "|".join(
    [rf"(?:{_PIECE}:){{6}}{_LAST}", rf"::(?:{_PIECE}:){{5}}{_LAST}"]
    + [
        rf"(?:(?:{_PIECE}:){{0,{6 - behind - 2}}}{_PIECE})?::(?:{_PIECE}:){{{behind}}}{_LAST}"
        for behind in (4, 3, 2, 1, 0)
    ]
    + [rf"(?:(?:{_PIECE}:){{0,5}}{_PIECE})?::{_PIECE}", rf"(?:(?:{_PIECE}:){{0,6}}{_PIECE})?::"]
)
_ESCAPED: Final = r"%[0-9A-Fa-f]{2}"
_PLAIN: Final = r"A-Za-z0-9._~!$&'()*+,;=\-"
_NAMED: Final = rf"(?:[{_PLAIN}]|{_ESCAPED})*"
_USER: Final = rf"(?:[{_PLAIN}:]|{_ESCAPED})*"
_PATH: Final = rf"(?:[{_PLAIN}:@]|{_ESCAPED})"
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://(?:{_USER}@)?(?:\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[{_PLAIN}:]+)\]|{_NAMED})(?::[0-9]*)?"
    rf"(?:/{_PATH}*)*|/(?:{_PATH}+(?:/{_PATH}*)*)?|{_PATH}+(?:/{_PATH}*)*|)"
    rf"(?:\?(?:[{_PLAIN}:@/?]|{_ESCAPED})*)?(?:#(?:[{_PLAIN}:@/?]|{_ESCAPED})*)?"
)
_TOKEN: Final = re.compile(r"\\.|\[|\]|\$|\.|[^\\\[\]$.]+", re.DOTALL)
_AS_PYTHON: Final = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", r"\d": "[0-9]"}


def date(text: str) -> bool:
    """Whether a text is a date: ``2026-01-26``."""
    found = _DATE.fullmatch(text)
    return found is not None and (found[3] < "29" or _is_day(found))


def date_time(text: str) -> bool:
    """Whether a text is a time with ``T`` and offset: ``2026-01-26T00:00:00Z``."""
    found = _TIME.fullmatch(text)
    if found is None or (found[3] > "28" and not _is_day(found)):
        return False
    if found[6] != "60":
        return True
    # A leap second is the last second of a UTC day.
    ahead = int(found[8] or 0) * 60 + int(found[9] or 0)
    utc = int(found[4]) * 60 + int(found[5]) + (ahead if found[7] == "-" else -ahead)
    return utc % 1440 == 1439


def _is_day(found: re.Match[str]) -> bool:
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if day > _DAYS[month - 1]:
        return False
    return day < 29 or month != 2 or (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))


def uri(text: str) -> bool:
    return _URI.fullmatch(text) is not None


def duration(text: str) -> bool:
    """Whether a text is a duration; only its last number can have a fraction."""
    return _DURATION.fullmatch(text) is not None and _FRACTION.search(text) is None


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": date,
    "date-time": date_time,
    "uri": uri,
}


@lru_cache(maxsize=256)
def pattern(source: str) -> re.Pattern[str]:
    r"""Compile an ECMAScript pattern for `search`.

    ECMAScript differs from Python here: ``$`` matches only the end, ``\d`` matches ten digits, and
    ``.`` matches no line end.
    """
    inside, parts = False, []
    for token in _TOKEN.findall(source):
        if token in ("[", "]"):
            inside = token == "["
        parts.append(token if inside else _AS_PYTHON.get(token, token))
    return re.compile("".join(parts), re.ASCII)


# -- the walk -------------------------------------------------------------------------------------

_JSON_KINDS: Final[dict[type, tuple[str, ...]]] = {
    dict: ("object",),
    list: ("array",),
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
}
_SAY_NOTHING: Final = frozenset(("$schema", "$id", "$defs", "title", "description", "x-code"))
_OBJECT_KEYWORDS: Final = ("required", "properties", "additionalProperties")
_RECURSIVE: Final = frozenset((("ontology.json", "namespace"),))


Check = Callable[[Any], "Defects | None"]
"""Checks a value; returns None, without allocating, if it is valid."""


@cache
def checker(file: str, name: str = "") -> Check:
    return _compile(_named(file, name), file)


def _named(file: str, name: str) -> Mapping[str, Any]:
    schema = load(file)
    found: Mapping[str, Any] = schema["$defs"][name] if name else schema
    return found


def _compile(node: Mapping[str, Any], file: str) -> Check:
    own = node.get("x-code")
    rest = {keyword: one for keyword, one in node.items() if keyword not in _SAY_NOTHING}
    tests = []
    for keyword in _TESTS:
        if keyword in rest:
            argument = rest.pop(keyword)
            code = code_of(keyword, argument, own)
            tests.append(_Test(_TESTS[keyword](argument), code, keyword, argument))
    parts: list[Check] = []
    if "$ref" in rest:
        parts.append(_reference(rest.pop("$ref"), file))
    if "anyOf" in rest:
        parts.append(_any_of(rest.pop("anyOf"), file, own))
    if not rest.keys().isdisjoint(_OBJECT_KEYWORDS):
        parts.append(
            _object({key: rest.pop(key) for key in _OBJECT_KEYWORDS if key in rest}, file)
        )
    if "items" in rest:
        parts.append(_items(rest.pop("items"), file))
    parts += [
        _of_arrays(keyword, rest.pop(keyword)) for keyword in _ARRAY_TESTS if keyword in rest
    ]
    if rest:
        raise ValueError(f"unsupported keywords: {', '.join(rest)}")
    return _guarded(tests, _each(parts))


class _Test(NamedTuple):
    good: Callable[[Any], bool]
    code: str
    keyword: str
    argument: Any


def _guarded(tests: list[_Test], part: Check | None) -> Check:
    """Combine the tests of a value with the check of its parts; stop at the first failed test.

    Nearly every value is valid and has one type and at most one other test. The short forms save
    calls for these.
    """
    if not tests:
        return part or (lambda value: None)

    def check(value: Any) -> Defects | None:
        for good, code, keyword, argument in tests:
            if not good(value):
                return Defects([SchemaDefect(code, keyword, argument, value)])
        return None if part is None else part(value)

    kind = _only_type(tests[0])
    if kind is None or len(tests) > 2:
        return check
    if len(tests) == 1:
        if part is None:
            return lambda value: None if type(value) is kind else check(value)
        return lambda value: part(value) if type(value) is kind else check(value)
    if part is None:
        second = tests[1].good
        return lambda value: None if type(value) is kind and second(value) else check(value)
    return check


def _only_type(test: _Test) -> type | None:
    """Return the Python type of the values if there is only one."""
    kinds = [kind for kind, names in _JSON_KINDS.items() if test.argument == names[0]]
    return kinds[0] if test.keyword == "type" and kinds and kinds[0] not in (int, float) else None


def _each(parts: list[Check]) -> Check | None:
    if len(parts) < 2:
        return parts[0] if parts else None

    def check(value: Any) -> Defects | None:
        found = None
        for one in parts:
            if (bad := one(value)) is not None:
                found = found or Defects()
                found.take(bad)
        return found

    return check


def _of_type(names: str | list[str]) -> Callable[[Any], bool]:
    asked = frozenset([names] if isinstance(names, str) else names)
    kinds = {kind for kind, own in _JSON_KINDS.items() if not asked.isdisjoint(own)}
    if "integer" in asked and float not in kinds:
        return lambda value: type(value) is int or (type(value) is float and value.is_integer())
    return lambda value: type(value) in kinds


def _matches(source: str) -> Callable[[Any], bool]:
    search = pattern(source).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _has_format(name: str) -> Callable[[Any], bool]:
    test = FORMATS[name]
    return lambda value: not isinstance(value, str) or test(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TESTS: Final[dict[str, Callable[[Any], Callable[[Any], bool]]]] = {
    "type": _of_type,
    "const": lambda word: lambda value: isinstance(value, str) and value == word,
    "enum": lambda words: lambda value: isinstance(value, str) and value in words,
    "pattern": _matches,
    "format": _has_format,
    "minLength": lambda least: lambda value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most: lambda value: not isinstance(value, str) or len(value) <= most,
    "minimum": lambda least: lambda value: not _is_number(value) or value >= least,
    "maximum": lambda most: lambda value: not _is_number(value) or value <= most,
}
"""Keyword -> function that makes the test from the keyword's argument."""


def _reference(target: str, file: str) -> Check:
    place = _place(target, file)
    if place not in _RECURSIVE:
        return checker(*place)
    return lambda value: checker(*place)(value)


def _place(target: str, file: str) -> tuple[str, str]:
    other, _, fragment = target.partition("#")
    return other or file, fragment.removeprefix("/$defs/")


def _any_of(branches: list[dict[str, Any]], file: str, own: str | None) -> Check:
    checks = [_compile(branch, file) for branch in branches]
    structured: dict[str, list[Check]] = {"object": [], "array": []}
    for branch, check in zip(branches, checks, strict=True):
        kind = _kind_of_branch(branch, file)
        if kind in structured:
            structured[kind].append(check)
    code = code_of("anyOf", branches, own)

    def check_all(value: Any) -> Defects | None:
        for one in checks:
            if one(value) is None:
                return None
        meant = structured.get(_JSON_KINDS[type(value)][0], [])
        if len(meant) == 1:
            return meant[0](value)
        return Defects([SchemaDefect(code, "anyOf", branches, value)])

    return check_all


def _kind_of_branch(branch: Mapping[str, Any], file: str) -> Any:
    if "$ref" in branch:
        branch = _named(*_place(branch["$ref"], file))
    return branch.get("type")


def _object(node: dict[str, Any], file: str) -> Check:
    required: list[str] = node.pop("required", [])
    members = {key: _compile(one, file) for key, one in node.pop("properties", {}).items()}
    others = node.pop("additionalProperties", True)
    closed, names = others is False, tuple(members)
    other = None if isinstance(others, bool) else _compile(others, file)
    look_up = members.get

    def check(value: Any) -> Defects | None:
        if not isinstance(value, dict):
            return None
        found = None
        for key, inner in value.items():
            if (one := look_up(key, other)) is not None:
                if (bad := one(inner)) is not None:
                    found = found or Defects()
                    found.take(bad, key)
            elif closed:
                found = found or Defects()
                found.take(Defects([SchemaDefect("MIF-KEY", "additionalProperties", names, key)]))
        for key in required:
            if key not in value:
                found = found or Defects()
                found.take(Defects([SchemaDefect("MIF-MISSING", "required", key, value)]))
        return found

    return check


def _items(node: dict[str, Any], file: str) -> Check:
    one = _compile(node, file)

    def check(value: Any) -> Defects | None:
        if not isinstance(value, list):
            return None
        found = None
        for at, inner in enumerate(value):
            if (bad := one(inner)) is not None:
                found = found or Defects()
                found.take(bad, at)
        return found

    return check


def _are_unique(values: list[Any]) -> bool:
    """Check texts only: the array with this keyword allows nothing else."""
    texts = [one for one in values if isinstance(one, str)]
    return len(set(texts)) == len(texts)


_ARRAY_TESTS: Final[dict[str, Callable[[Any], Callable[[list[Any]], bool]]]] = {
    "contains": lambda node: lambda values: node["const"] in values,
    "minItems": lambda least: lambda values: len(values) >= least,
    "uniqueItems": lambda asked: _are_unique,
}


def _of_arrays(keyword: str, argument: Any) -> Check:
    good = _ARRAY_TESTS[keyword](argument)
    test = _Test(
        lambda value: not isinstance(value, list) or good(value),
        code_of(keyword, argument, None), keyword, argument,
    )  # fmt: skip
    return _guarded([test], None)
