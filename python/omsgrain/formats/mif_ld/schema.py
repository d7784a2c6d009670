# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of the documents, and a validator that reports each defect once.

The folder ``schemas`` holds the schemas and a JSON-LD context; none refers to anything outside.
This module also checks the formats and patterns that they name. ``outline.json`` has the tables by
which the core recognizes good memories.

A general JSON Schema validator reports every failing branch of an ``anyOf``: four errors for one
wrong word. This one chooses the branch by the value's JSON type, and reports only the first defect
of a text. It supports the keywords of our schemas alone, and tests a value in their order there.

The core recognizes most valid memories first (`shape_at_sight`): a full one in 6 µs, where this
takes 200 (row F1 of `make bench`). ``tests/fuzz`` compares the two. Schemas inside ontologies use
all keywords and need no codes; they are checked by jsonschema-rs, an extra.

Spec: JSON Schema 2020-12, RFC 3339 §5.6, RFC 3986, ISO 8601, ECMA-262 §22.2
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from ipaddress import IPv6Address
from typing import Any, Final

from omsgrain.formats.mif_ld.defects import Defects, SchemaDefect, Way, code_of

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
_ESCAPED: Final = r"%[0-9A-Fa-f]{2}"
_PLAIN: Final = r"A-Za-z0-9._~!$&'()*+,;=\-"
_NAMED: Final = rf"(?:[{_PLAIN}]|{_ESCAPED})*"
_USER: Final = rf"(?:[{_PLAIN}:]|{_ESCAPED})*"
_PATH: Final = rf"(?:[{_PLAIN}:@]|{_ESCAPED})"
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://(?:{_USER}@)?(?:\[(?:(?P<ip>[0-9A-Fa-f:.]+)|[vV][0-9A-Fa-f]+\.[{_PLAIN}:]+)\]|{_NAMED})(?::[0-9]*)?"
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
    found = _URI.fullmatch(text)
    try:
        return found is not None and (found["ip"] is None or bool(IPv6Address(found["ip"])))
    except ValueError:
        return False


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

Node = Mapping[str, Any]
"""A part of a schema."""
_JSON_KINDS: Final[dict[type, tuple[str, ...]]] = {
    dict: ("object",),
    list: ("array",),
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
}


def check(value: Any, file: str, name: str = "") -> Defects:
    """Find all defects of a value by a schema, or by one of its definitions."""
    found = Defects()
    _walk(*target(f"#/$defs/{name}" if name else "", file), value, (), found)
    return found


def _walk(node: Node, file: str, value: Any, way: Way, found: Defects) -> None:
    """Add the defects of a value: of its own tests only the first, and those of its parts."""
    for keyword, asked in node.items():
        good = _TESTS.get(keyword)
        if good is not None and not good(asked, value):
            code = code_of(keyword, asked, node.get("x-code"))
            return found.add(SchemaDefect(way, code, keyword, asked, value))
    if "$ref" in node:
        _walk(*target(node["$ref"], file), value, way, found)
    if "anyOf" in node:
        _any_of(node, file, value, way, found)
    if isinstance(value, dict):
        _members(node, file, value, way, found)
    elif isinstance(value, list):
        for at, inner in enumerate(value) if "items" in node else ():
            _walk(node["items"], file, inner, (*way, at), found)
        for keyword, holds in _ARRAY_TESTS.items():
            if keyword in node and not holds(node[keyword], value):
                code = code_of(keyword, node[keyword], None)
                found.add(SchemaDefect(way, code, keyword, node[keyword], value))
    return None


@cache
def target(reference: str, file: str) -> tuple[Node, str]:
    """Return the node that a reference in a file leads to, and the file that it is in."""
    other, _, name = reference.partition("#/$defs/")
    schema = load(other or file)
    return schema["$defs"][name] if name else schema, other or file


def _any_of(node: Node, file: str, value: Any, way: Way, found: Defects) -> None:
    """Try all branches; of those that fail, only the one for an object or array has its say."""
    branches: list[Node] = node["anyOf"]
    kind = _JSON_KINDS.get(type(value), ("",))[0]
    meant: list[Defects] = []
    for branch in branches:
        here = Defects()
        _walk(branch, file, value, way, here)
        if not here.found:
            return
        whole = target(branch["$ref"], file)[0] if "$ref" in branch else branch
        if kind in ("object", "array") and whole.get("type") == kind:
            meant.append(here)
    if len(meant) == 1:
        found.take(meant[0])
    else:
        code = code_of("anyOf", branches, node.get("x-code"))
        found.add(SchemaDefect(way, code, "anyOf", branches, value))


def _members(node: Node, file: str, value: dict[str, Any], way: Way, found: Defects) -> None:
    properties, others = node.get("properties", {}), node.get("additionalProperties", True)
    for key, inner in value.items():
        one = properties.get(key, others)
        if one is False:
            names = tuple(properties)
            found.add(SchemaDefect(way, "MIF-KEY", "additionalProperties", names, key))
        elif one is not True:
            _walk(one, file, inner, (*way, key), found)
    for key in node.get("required", ()):
        if key not in value:
            found.add(SchemaDefect(way, "MIF-MISSING", "required", key, value))


def _is_of_type(asked: str | list[str], value: Any) -> bool:
    kinds = _JSON_KINDS.get(type(value), ())
    names = (asked,) if isinstance(asked, str) else asked
    if kinds and (kinds[0] in names or kinds[-1] in names):
        return True
    return "integer" in names and type(value) is float and value.is_integer()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_unique(values: list[Any]) -> bool:
    """Check texts only: the array with this keyword allows nothing else."""
    texts = [one for one in values if isinstance(one, str)]
    return len(set(texts)) == len(texts)


_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "type": _is_of_type,
    "const": lambda word, value: isinstance(value, str) and value == word,
    "enum": lambda words, value: isinstance(value, str) and value in words,
    "pattern": lambda source, value: (
        not isinstance(value, str) or pattern(source).search(value) is not None
    ),
    "format": lambda name, value: not isinstance(value, str) or FORMATS[name](value),
    "minLength": lambda least, value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most, value: not isinstance(value, str) or len(value) <= most,
    "minimum": lambda least, value: not _is_number(value) or value >= least,
    "maximum": lambda most, value: not _is_number(value) or value <= most,
}
_ARRAY_TESTS: Final[dict[str, Callable[[Any, list[Any]], bool]]] = {
    "contains": lambda node, values: node["const"] in values,
    "minItems": lambda least, values: len(values) >= least,
    "uniqueItems": lambda asked, values: _are_unique(values),
}
