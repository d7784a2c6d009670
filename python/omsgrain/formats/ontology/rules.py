# SPDX-License-Identifier: Apache-2.0
"""Every rule of ontologies and of entities that are judged by them: its id and its words.

What the schema of ontologies refuses has the ids of ``mif_ld.codes``; these are the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from omsgrain.errors import UnsupportedError, packages_of
from omsgrain.formats.json_text import kind_of
from omsgrain.formats.mif_ld.forms import FORMATS
from omsgrain.formats.problems import Problem

_SHOWN: Final = 200
"""Characters of names in a message."""

RULES: Final[dict[str, str]] = {
    # an ontology
    "ONT-CYCLE": "ontologies or traits that extend themselves in a circle",
    "ONT-TWICE": "an ontology that was read before, and says something else",
    "ONT-CONFLICT": "a field that two traits define differently, and nothing that overrides it",
    "ONT-SUBTYPE-UNKNOWN": "a subtype of a type that is not known",
    "ONT-SUBTYPE-SELF": "a type that is a subtype of itself",
    "ONT-SUBTYPE-CYCLE": "types that are subtypes of one another in a circle",
    "ONT-SUBTYPE-REQUIRED": "a subtype that does not require what its parent does",
    "ONT-LARGE": "more than is taken",
    # an entity
    "ENT-ONTOLOGY": "an ontology that is not loaded",
    "ENT-TYPE": "a type of entity that the ontology does not know",
    "ENT-BASE": "a memory of another type than that of its entity",
    "ENT-MISSING": "a field that the type of entity requires is missing",
    "ENT-FIELD": "a field that is not what its trait or its type of entity says",
    "ENT-REQUIRES": "a member of the memory that a trait requires is missing",
    "ENT-END": "a relationship between types that it is not for",
}
"""Breaking one of them is an error."""

WARNINGS: Final[dict[str, str]] = {
    # an ontology
    "ONT-EMPTY": "nothing is in it",
    "ONT-EXTENDS": "an ontology that is extended, and not loaded",
    "ONT-REDEFINED": "two ontologies, neither of which extends the other, define it differently",
    "ONT-TYPE-TWICE": "a type that was defined before; the first one counts",
    "ONT-TRAIT": "a trait that is not known",
    "ONT-TYPE": "a type of entity that is not known",
    "ONT-NAMESPACE": "a namespace that is not known",
    "ONT-NAME": "a relationship whose name is another one's, spelled otherwise",
    "ONT-RETYPED": "a field that is of another type in the parent of the subtype",
    "ONT-REQUIRED": "a field that is required, and that neither the type nor a trait defines",
    "ONT-SCHEMA": "a schema of a field that cannot be used: the field is not checked",
    "ONT-REGEX": "a regex that cannot be used: it is never tried",
    "ONT-PATTERN": "a pattern that can hit nothing, or suggests nothing",
    # an entity
    "ENT-NONE": "an entity without an ontology, or without a type: it is not judged",
    "ENT-UNKNOWN": "a field that neither the type of entity nor a trait has",
    "ENT-NAMESPACE": "a namespace that the ontology does not have",
    "ENT-REPLACED": "a namespace in whose place the ontology has another",
}
"""Taken, and told."""


def problem(
    rule: str, pointer: str, says: str = "", *, expected: str | None = None, found: object = None
) -> Problem:
    """One problem."""
    words = RULES.get(rule) or WARNINGS[rule]
    if len(says) > _SHOWN:  # what stands in a list of names may be of any length
        says = f"{says[: _SHOWN - 1]}…"
    message = f"{says}: {words}" if says else words
    return Problem(rule, pointer, message, expected, None if found is None else kind_of(found))


DEPTH: Final = 128
"""Objects and arrays inside one another, of a value. The validator goes by calls of its own."""

_PROGRAM: Final = 256 << 10  # bytes of a compiled pattern
_REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))


class SchemaFault(ValueError):
    """A schema that cannot be used."""


def check(schema: Any) -> None:
    """See that a schema can be used."""
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
            rules = _schema_at(schema, error.schema_path)
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


def _schema_at(schema: Any, path: Any) -> Any:
    for key in path:
        try:
            schema = schema[key]
        except (KeyError, IndexError, TypeError):
            return None  # behind a reference
    return schema


def _asks(keyword: str, rules: Any) -> str:
    text = json.dumps(rules, ensure_ascii=True)
    return f"{keyword} {text}" if rules is not None and len(text) <= 200 else keyword
