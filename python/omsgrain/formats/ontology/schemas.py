# SPDX-License-Identifier: Apache-2.0
"""Schemas of fields, which are strangers' JSON Schemas: compiled once, bounded, never fetched.

Their patterns run in an engine whose time is linear. References are refused, even those inside:
one that leads back to itself would never end, and a field needs none. Spec: JSON Schema 2020-12
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from omsgrain.errors import UnsupportedError, packages_of
from omsgrain.formats.mif_ld.checks import FORMATS

__all__ = ["DEPTH", "SchemaFault", "breaches", "check"]

DEPTH: Final = 128
"""Objects and arrays inside one another, of a value. The validator goes by calls of its own."""

_PROGRAM: Final = 256 << 10  # bytes of a compiled pattern
_REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))


class SchemaFault(ValueError):
    """A schema that cannot be used."""


def check(schema: Any) -> None:
    """See that a schema can be used.

    Raises:
        SchemaFault: it cannot.
        UnsupportedError: there is no jsonschema-rs.
    """
    _validator(_text(schema))


def breaches(schema: Any, value: Any) -> Iterator[tuple[list[str | int], str, str]]:
    """What is wrong with a value: where in it, by which keyword, and what that asks for.

    A schema that cannot be used finds nothing.
    """
    if _is_deep(value):
        yield [], "depth", f"at most {DEPTH} objects and arrays inside one another"
        return
    try:
        validator = _validator(_text(schema))
    except SchemaFault:
        return
    try:
        for error in validator.iter_errors(value):
            keyword = str(error.kind.name)
            rules = _at(schema, error.schema_path)
            yield list(error.instance_path), keyword, _asks(keyword, rules)
    except ValueError:  # what no JSON can have
        yield [], "type", "a value of JSON"


def _text(schema: Any) -> str:
    if _is_deep(schema):
        raise SchemaFault
    waiting = [schema]
    for one in waiting:
        if isinstance(one, dict):
            if not _REFERENCES.isdisjoint(one):
                raise SchemaFault
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return json.dumps(schema)


def _is_deep(value: Any) -> bool:
    """Whether values stand deeper than is taken; level by level, for calls could be too many."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


@lru_cache(maxsize=4096)
def _validator(text: str) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise UnsupportedError("jsonschema-rs is not installed",
                               expected=packages_of("formats")) from None  # fmt: skip
    options = jsonschema_rs.RegexOptions(size_limit=_PROGRAM, dfa_size_limit=_PROGRAM * 8)
    try:
        return jsonschema_rs.Draft202012Validator(
            json.loads(text),
            formats=FORMATS,
            validate_formats=True,
            pattern_options=options,
            offline=True,
        )
    except ValueError as error:
        raise SchemaFault from error


def _at(schema: Any, path: Any) -> Any:
    for key in path:
        try:
            schema = schema[key]
        except (KeyError, IndexError, TypeError):
            return None  # behind a reference
    return schema


def _asks(keyword: str, rules: Any) -> str:
    text = json.dumps(rules, ensure_ascii=True)
    return f"{keyword} {text}" if rules is not None and len(text) <= 200 else keyword
