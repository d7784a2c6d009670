# SPDX-License-Identifier: Apache-2.0
"""Schemas of fields, which are strangers' JSON Schemas: compiled once, bounded, never fetched.

Their patterns run in an engine whose time is linear. Spec: JSON Schema 2020-12
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from omsgrain.errors import UnsupportedError
from omsgrain.formats.mif_ld.checks import FORMATS

__all__ = ["SchemaFault", "breaches", "check"]

_PROGRAM: Final = 256 << 10  # bytes of a compiled pattern


class SchemaFault(ValueError):
    """A schema that cannot be used."""


def check(schema: Any) -> None:
    """See that a schema can be used.

    Raises:
        SchemaFault: it cannot.
        UnsupportedError: there is no jsonschema-rs.
    """
    _validator(json.dumps(schema))


def breaches(schema: Any, value: Any) -> Iterator[tuple[list[str | int], str, str]]:
    """What is wrong with a value: where in it, by which keyword, and what that asks for.

    A schema that cannot be used finds nothing.
    """
    try:
        validator = _validator(json.dumps(schema))
    except SchemaFault:
        return
    try:
        for error in validator.iter_errors(value):
            keyword = str(error.kind.name)
            rules = _at(schema, error.schema_path)
            yield list(error.instance_path), keyword, _asks(keyword, rules)
    except (ValueError, RecursionError):  # values that no JSON can have, or too deep
        yield [], "type", "a value of JSON"


@lru_cache(maxsize=4096)
def _validator(text: str) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise UnsupportedError("jsonschema-rs is not installed",
                               expected="omsgrain[formats]") from None  # fmt: skip
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
