# SPDX-License-Identifier: Apache-2.0
"""Write the JSON Schemas of the package from tables of fields, and tables of those of JSON-LD.

The core recognizes nearly all good memories of MIF in JSON-LD by tables that are made of its
schemas. ``--check`` writes nothing and exits 1 if a file is out of date.
"""

from __future__ import annotations

import json
import re
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omsgrain.formats.mif1 import check as mif1
from omsgrain.formats.mif2 import check as mif2
from omsgrain.formats.mif_ld import schema as mif_ld
from omsgrain.formats.mif_ld.records import SHAPES
from omsgrain.formats.mif_ld.validate import FILES
from omsgrain.formats.schema import PLAIN, SchemaField

_JSON_TYPES = {"str": "string", "bool": "boolean", "int": "integer"}


def json_schema(
    title: str,
    shapes: Mapping[str, Sequence[SchemaField]],
    forms: Mapping[str, str],
    *,
    nulls: bool = False,
    loose: Callable[[str, str], bool] = lambda shape, name: False,
) -> dict[str, Any]:
    """The JSON Schema of the shape ``document``, with the others as its definitions.

    Args:
        title: of the schema.
        shapes: the fields of each shape.
        forms: what JSON Schema calls the forms of texts that it has, too.
        nulls: whether any field that is not required may be null.
        loose: whether a field of a shape may hold anything.
    """

    def of_field(field: SchemaField) -> dict[str, Any]:
        kind, value = _JSON_TYPES.get(field.kind, field.kind), {"description": field.says}
        nullable = field.nullable or (nulls and not field.required)
        if field.of is not None and field.kind == "object":
            inner = {"$ref": f"#/$defs/{field.of}"}
            # A reference has a type of its own, so null is an alternative to it.
            return value | ({"anyOf": [inner, {"type": "null"}]} if nullable else inner)
        found: dict[str, Any] = {**value, "type": [kind, "null"] if nullable else kind}
        named = forms.get(field.form or "")
        form = {"format": named} if named and (field.required or not nulls) else {}
        if field.kind == "array" and field.of is not None:
            of = {"type": _JSON_TYPES.get(field.of, field.of)}
            items = of | form if field.of in PLAIN else {"$ref": f"#/$defs/{field.of}"}
            return found | {"items": items}
        if field.known:
            found["examples"] = list(field.known)
        if field.hard:
            ends = {"minimum": field.least, "maximum": field.most}
            found |= {name: end for name, end in ends.items() if end is not None}
        return found | form

    def of_shape(name: str) -> dict[str, Any]:
        value: dict[str, Any] = {"type": "object"}
        if required := [field.name for field in shapes[name] if field.required]:
            value["required"] = required
        fields = {
            field.name: {"description": field.says} if loose(name, field.name) else of_field(field)
            for field in shapes[name]
        }
        return value | {"properties": fields}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "Unknown names are allowed, kept and written back.",
        **of_shape("document"),
        "$defs": {name: of_shape(name) for name in shapes if name != "document"},
    }


_MIF1_VERSION = {
    "description": f"`{mif1.VERSION}`; every 1.x is read, as a number too",
    "type": ["string", "number"],
    "pattern": r"^1(?:\.[0-9]{1,9})*$",
    "minimum": 1,
    "exclusiveMaximum": 2,
}
_NOT_ENCRYPTED = {
    "anyOf": [
        {"required": ["memories"]},
        {"not": {"required": ["encryption"], "properties": {"encryption": {"type": "object"}}}},
    ]
}
"""An encrypted document has no `memories`."""


def mif1_schema() -> dict[str, Any]:
    whole = json_schema(
        "A MIF 1.0 document, as omsgrain reads it",
        mif1.SHAPES,
        {"time": "date-time"},
        nulls=True,
        loose=mif1.is_loose,
    )
    whole["properties"]["mif_version"] = _MIF1_VERSION
    definitions = whole.pop("$defs")
    return {**whole, **_NOT_ENCRYPTED, "$defs": definitions}


def mif2_schema() -> dict[str, Any]:
    """The schema of a document; the records of the dialect are no part of it."""
    dialect = mif2.DIALECT | {"comment", "trigger"}
    shapes = {name: shape for name, shape in mif2.SHAPES.items() if name not in dialect}
    forms = {"uuid": "uuid", "time": "date-time"}
    whole = json_schema("A MIF 2.0 document, as omsgrain reads it", shapes, forms)
    whole["properties"]["mif_version"]["pattern"] = f"^{re.escape(mif2.MAJOR)}"
    return whole


# -- tables of the schemas of MIF in JSON-LD ------------------------------------------------------

Node = Mapping[str, Any]
"""A part of a schema."""
_Look = str | tuple[str, str]
_OF_TEXTS = frozenset(("const", "enum", "pattern", "format", "minLength", "maxLength"))
_OF_NUMBERS = frozenset(("minimum", "maximum"))
_OF_OBJECTS = frozenset(("required", "properties", "additionalProperties"))
_NUMBERS = {"number": "number", "integer": "int"}
_WORDS = string.ascii_letters + string.digits
_ASCII = _WORDS + string.punctuation + " "
_OF_URIS = _WORDS + "-._~!$&'()*+,;=/?"
"""Characters allowed anywhere in a URI after its scheme, any number of times."""
_LOOKS: dict[str, tuple[_Look, ...]] = {
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
"""Simple forms that nearly all valid texts of a pattern or format have."""
_NO_LOOK = ""
_NOT_SURE: Node = {"not": {}}
"""A schema node that the fast check cannot decide."""
_SAY_NOTHING = frozenset(("$schema", "$id", "$defs", "title", "description", "x-code"))
"""Keywords that ask nothing of a value."""


class _Row(NamedTuple):
    """A field for the core. If a name appears twice, the value can match either."""

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
    """Schemas as tables of fields. Each object in them is a shape."""

    def __init__(self) -> None:
        self.shapes: list[tuple[str, list[_Row]]] = []
        self.others: list[tuple[str, list[_Row]]] = []

    def add(self, node: Node, name: str) -> str:
        """Add the shape of an object and the shapes inside it."""
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

    def _rows(self, node: Node) -> Iterator[_Row]:
        """Yield a row without a name for each allowed kind of value; none if undecided."""
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

    def _of_kind(self, kind: str, asked: Node) -> Iterator[_Row]:
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


def _looks(node: Node) -> tuple[_Look | None, ...]:
    """Return the forms of valid texts; empty if undecided."""
    asked = [node[name] for name in ("pattern", "format") if name in node]
    if not asked:
        return (None,)
    return _LOOKS.get(asked[0], ()) if len(asked) == 1 else ()


def _whole(node: Any, file: str) -> Any:
    """Replace the references in a schema by their targets."""
    if isinstance(node, list):
        return [_whole(one, file) for one in node]
    if not isinstance(node, dict):
        return node
    own = {name: _whole(one, file) for name, one in node.items() if name not in ("$ref", "$defs")}
    if "$ref" not in node:
        return own
    other, _, fragment = node["$ref"].partition("#/$defs/")
    target = mif_ld.load(other or file)
    return _both(_whole(target["$defs"][fragment] if fragment else target, other or file), own)


def _both(one: Node, other: Node) -> Node:
    """Merge two schema nodes; undecided if both restrict the same thing."""
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


def mif_ld_tables() -> str:
    made = _Tables()
    for name in (*SHAPES, "published"):
        made.add(_whole(mif_ld.load(FILES[name]), FILES[name]), name)
    parts = []
    for part in (made.shapes, made.others):
        shapes = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in part]
        parts.append("{\n" + ",\n".join(shapes) + "\n}")
    return "[" + ", ".join(parts) + "]\n"


def _indented(schema: Callable[[], dict[str, Any]]) -> Callable[[], str]:
    return lambda: json.dumps(schema(), indent=2) + "\n"


FORMATS = Path(__file__).parents[1] / "python" / "omsgrain" / "formats"
SCHEMAS = {
    FORMATS / "mif1" / "schema.json": _indented(mif1_schema),
    FORMATS / "mif2" / "schema.json": _indented(mif2_schema),
    FORMATS / "mif_ld" / "schemas" / "outline.json": mif_ld_tables,
}

if __name__ == "__main__":
    stale = []
    for path, made in SCHEMAS.items():
        text = made()
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(path)
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    if "--check" in sys.argv and stale:
        sys.exit("out of date, run docs/make_schemas.py: " + ", ".join(map(str, stale)))
