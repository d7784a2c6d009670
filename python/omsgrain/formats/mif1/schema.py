# SPDX-License-Identifier: Apache-2.0
"""The table of fields as a JSON Schema, which others can check documents by.

``schema.json`` beside this file is its text; ``docs/make_schemas.py`` writes it. It says what
breaks a rule, which is less than the schema published beside the SEP refuses.
Spec: MIF 1.0 §2, JSON Schema 2020-12
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from omsgrain.formats.mif1.fields import SHAPES, VERSION, is_loose
from omsgrain.formats.shapes.field import Field

__all__ = ["schema", "text"]

_NAME: Final = "schema.json"
_TYPES: Final = {"str": "string", "bool": "boolean", "int": "integer"}
_VERSION: Final = {
    "description": f"`{VERSION}`; every 1.x is read, as a number too",
    "type": ["string", "number"],
    "pattern": r"^1(?:\.[0-9]{1,9})*$",
    "minimum": 1,
    "exclusiveMaximum": 2,
}
_PLAIN: Final = {
    "anyOf": [
        {"required": ["memories"]},
        {"not": {"required": ["encryption"], "properties": {"encryption": {"type": "object"}}}},
    ]
}
"""What is encrypted is no document before it is opened."""


def schema() -> dict[str, Any]:
    """The schema of a document."""
    document = _object("document")
    document["properties"]["mif_version"] = _VERSION
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A MIF 1.0 document, as omsgrain reads it",
        "description": "Whatever is not named here is allowed, kept and given back.",
        **document,
        **_PLAIN,
        "$defs": {name: _object(name) for name in SHAPES if name != "document"},
    }


def text() -> str:
    """The schema as it is shipped."""
    return files("omsgrain.formats.mif1").joinpath(_NAME).read_text("utf-8")


def _object(name: str) -> dict[str, Any]:
    shape = SHAPES[name]
    value: dict[str, Any] = {"type": "object"}
    if required := [field.name for field in shape if field.required]:
        value["required"] = required
    fields = {}
    for field in shape:
        loose = is_loose(name, field.name)
        fields[field.name] = {"description": field.says} if loose else _field(field)
    return value | {"properties": fields}


def _field(field: Field) -> dict[str, Any]:
    kind = _TYPES.get(field.kind, field.kind)
    value: dict[str, Any] = {"description": field.says}
    if field.of is not None and field.kind == "object":
        # A reference is of its own type, so null stands beside it.
        return value | {"anyOf": [{"$ref": f"#/$defs/{field.of}"}, {"type": "null"}]}
    value["type"] = kind if field.required else [kind, "null"]
    if field.of is not None:
        plain = field.of == "str"
        value["items"] = {"type": "string"} if plain else {"$ref": f"#/$defs/{field.of}"}
    if field.known:
        value["examples"] = list(field.known)
    if field.hard:
        ends = {"minimum": field.least, "maximum": field.most}
        value |= {name: end for name, end in ends.items() if end is not None}
    if field.required and field.form == "time":
        value["format"] = "date-time"
    return value
