# SPDX-License-Identifier: Apache-2.0
"""Memories that are good at first sight, as nearly all are: one look at all that a schema asks.

What the look cannot say of a schema, it is not sure of; then the schema is walked. So here nothing
must be complete, but all of it true.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.formats.mif_ld.schemas import load
from omsgrain.formats.mif_ld.shape import Shape

__all__ = ["shape_at_sight"]

_Node = Mapping[str, Any]
_Look = str | tuple[str, str]
_SAY_NOTHING: Final = frozenset(("$schema", "$id", "$defs", "title", "description", "x-code"))
_OF_TEXTS: Final = frozenset(("const", "enum", "pattern", "format", "minLength", "maxLength"))
_OF_NUMBERS: Final = frozenset(("minimum", "maximum"))
_OF_OBJECTS: Final = frozenset(("required", "properties", "additionalProperties"))
_NUMBERS: Final = {"number": "number", "integer": "int"}
_WORDS: Final = string.ascii_letters + string.digits
_ASCII: Final = _WORDS + string.punctuation + " "
_OF_URIS: Final = _WORDS + "-._~!$&'()*+,;=/?"
"""What may stand anywhere in a URI behind its scheme, however often."""
_LOOKS: Final[dict[str, tuple[_Look, ...]]] = {
    "date-time": ("rfc3339",),
    "date": ("day",),
    "uri": (("https://", _OF_URIS), ("http://", _OF_URIS), ("urn:", _WORDS + "-._:")),
    "^urn:mif:": (("urn:mif:", _ASCII),),
    "^urn:mif:entity:": (("urn:mif:entity:", _ASCII),),
    "^P": (("P", _ASCII),),
    "^[a-z][a-z0-9-]*$": ("kebab",),
    "^[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)?$": ("kebab",),
    "^[a-zA-Z][a-zA-Z0-9]*:[a-zA-Z][a-zA-Z0-9-]*$": ("prefixed",),
    "^[a-zA-Z0-9_-]+(/[a-zA-Z0-9_-]+)*$": ("path",),
    r"^\d+\.\d+\.\d+.*$": ("version",),
}
"""How nearly all texts look that a pattern or a format takes."""
_NO_LOOK: Final = ""
"""How no text looks."""
_NOT_SURE: Final[_Node] = {"not": {}}
"""A node that no look says anything of."""
_FILES: Final = {
    "0.1": "memory-0.1.json",
    "published": "memory-0.1-published.json",
    "1.x": "memory-1.x.json",
}


def shape_at_sight(document: Any, asked: Shape | None, published: bool) -> Shape | None:
    """The shape of a memory that is surely good, and has nothing of the other shape.

    Args:
        document: any.
        asked: the shape that it is to have; None: either.
        published: of shape 0.1, the schema that was published.

    Returns:
        None if that is not sure.
    """
    if type(document) is not dict:
        return None
    shape: Shape = "1.x" if "conceptType" in document else "0.1"
    if asked is not None and asked != shape:
        return None
    name = "published" if published and shape == "0.1" else shape
    return shape if _outline().fits(name, document) else None


class _Row(NamedTuple):
    """A field as the core takes it; one whose name stands twice may be either."""

    name: str
    kind: str
    of: str | None = None
    look: _Look | None = None
    known: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    nullable: bool = False
    needed: bool = False


class _Tables:
    """Schemas as tables of fields; each object in them is a shape of its own."""

    def __init__(self) -> None:
        self.shapes: list[tuple[str, list[_Row]]] = []
        self.others: list[tuple[str, list[_Row]]] = []

    def add(self, node: _Node, name: str) -> str:
        """A shape of an object, with the shapes of what is in it."""
        fields: list[_Row] = []
        self.shapes.append((name, fields))
        properties, needed = node.get("properties", {}), node.get("required", ())
        for key in dict.fromkeys((*properties, *needed)):
            rows = [row._replace(name=key) for row in self._rows(properties.get(key, {}))]
            rows = rows or [_Row(key, "str", look=_NO_LOOK)]
            fields += (row._replace(needed=key in needed) for row in rows)
        if (others := node.get("additionalProperties", True)) is not True:
            self.others.append((name, list(self._rows(others or _NOT_SURE))))
        return name

    def _rows(self, node: _Node) -> Iterator[_Row]:
        """What a value may be, each way a row without a name; none, if nothing can be said."""
        asked = {name: value for name, value in node.items() if name not in _SAY_NOTHING}
        if not asked:
            yield _Row("", "any")
        elif (ways := asked.pop("anyOf", None)) is not None:
            yield from (row for way in ways for row in self._rows(_both(asked, way)))
        else:
            kinds = asked.pop("type", "string" if asked.keys() <= _OF_TEXTS else ())
            kinds = [kinds] if isinstance(kinds, str) else kinds
            for row in (row for kind in kinds for row in self._of_kind(kind, asked)):
                yield row._replace(nullable="null" in kinds)

    def _of_kind(self, kind: str, asked: _Node) -> Iterator[_Row]:
        if kind == "string" and asked.keys() <= _OF_TEXTS:
            known = [asked["const"]] if "const" in asked else asked.get("enum", ())
            ends = asked.get("minLength"), asked.get("maxLength")
            yield from (_Row("", "str", None, look, known, *ends) for look in _looks(asked))
        elif kind in _NUMBERS and asked.keys() <= _OF_NUMBERS:
            ends = asked.get("minimum"), asked.get("maximum")
            yield _Row("", _NUMBERS[kind], None, None, (), *ends)
        elif kind == "boolean" and not asked:
            yield _Row("", "bool")
        elif kind == "object" and asked.keys() <= _OF_OBJECTS:
            yield _Row("", "object", self.add(asked, str(len(self.shapes))) if asked else None)
        elif kind == "array" and asked.keys() == {"items"}:
            for row in self._rows(asked["items"]):
                if row.kind == "str" or (row.kind == "object" and row.of is not None):
                    yield row._replace(kind="array", of=row.of or "str")


def _looks(node: _Node) -> tuple[_Look | None, ...]:
    """How texts look that fit; none, if that cannot be said."""
    asked = [node[name] for name in ("pattern", "format") if name in node]
    if not asked:
        return (None,)
    return _LOOKS.get(asked[0], ()) if len(asked) == 1 else ()


def _whole(node: Any, file: str) -> Any:
    """A schema with what it refers to in the place of the references."""
    if isinstance(node, list):
        return [_whole(one, file) for one in node]
    if not isinstance(node, dict):
        return node
    own = {name: _whole(one, file) for name, one in node.items() if name not in ("$ref", "$defs")}
    if "$ref" not in node:
        return own
    other, _, fragment = node["$ref"].partition("#/$defs/")
    target = load(other or file)
    return _both(_whole(target["$defs"][fragment] if fragment else target, other or file), own)


def _both(one: _Node, other: _Node) -> _Node:
    """What asks for both; not sure, if they ask for something twice."""
    twice = one.keys() & other.keys() - _SAY_NOTHING - {"required"}
    made = {**one, **other}
    if "required" in one and "required" in other:
        made["required"] = [*one["required"], *other["required"]]
    if "properties" in twice:
        if "additionalProperties" in made:
            return _NOT_SURE
        again = one["properties"].keys() & other["properties"].keys()
        unsure = dict.fromkeys(again, _NOT_SURE)
        made["properties"] = {**one["properties"], **other["properties"], **unsure}
    return _NOT_SURE if twice - {"properties"} else made


@cache
def _outline() -> _core.Outline:
    tables = _Tables()
    for name, file in _FILES.items():
        tables.add(_whole(load(file), file), name)
    return _core.Outline(tables.shapes, tables.others)
