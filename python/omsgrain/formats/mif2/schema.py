# SPDX-License-Identifier: Apache-2.0
"""The table of fields as a JSON Schema, which others can check documents by.

``schema.json`` beside this file is its text; ``docs/make_schemas.py`` writes it. It says what
breaks a rule; forms of texts stand in it as annotations, since another form is only warned of.
Spec: MIF 2.0 §9, JSON Schema 2020-12
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from omsgrain.formats.mif2.fields import DIALECT, MAJOR, SHAPES
from omsgrain.formats.shapes.field import Field

__all__ = ["schema", "text"]

_NAME: Final = "schema.json"
_TYPES: Final = {"str": "string", "bool": "boolean", "int": "integer"}
_FORMS: Final = {"uuid": "uuid", "time": "date-time"}
_DIALECT: Final = DIALECT | {"comment", "trigger"}


def schema() -> dict[str, Any]:
    """The schema of a document; the records of the dialect are no part of it."""
    document = _object(SHAPES["document"])
    document["properties"]["mif_version"]["pattern"] = f"^{MAJOR.replace('.', chr(92) + '.')}"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A MIF 2.0 document, as omsgrain reads it",
        "description": "Whatever is not named here is allowed, kept and given back.",
        **document,
        "$defs": {
            name: _object(shape)
            for name, shape in SHAPES.items()
            if name != "document" and name not in _DIALECT
        },
    }


def text() -> str:
    """The schema as it is shipped."""
    return files("omsgrain.formats.mif2").joinpath(_NAME).read_text("utf-8")


def _object(shape: tuple[Field, ...]) -> dict[str, Any]:
    value: dict[str, Any] = {"type": "object"}
    if required := [field.name for field in shape if field.required]:
        value["required"] = required
    return value | {"properties": {field.name: _field(field) for field in shape}}


def _field(field: Field) -> dict[str, Any]:
    kind = _TYPES.get(field.kind, field.kind)
    value: dict[str, Any] = {"description": field.says}
    if field.of is not None and field.kind == "object":
        inner = {"$ref": f"#/$defs/{field.of}"}
        # A reference is of its own type, so null stands beside it.
        return value | ({"anyOf": [inner, {"type": "null"}]} if field.nullable else inner)
    value["type"] = [kind, "null"] if field.nullable else kind
    form = {"format": _FORMS[field.form]} if field.form in _FORMS else {}
    if field.kind == "array" and field.of is not None:
        plain = field.of in ("str", "number")
        of = {"type": _TYPES.get(field.of, field.of)} if plain else {"$ref": f"#/$defs/{field.of}"}
        return value | {"items": of | form}
    if field.least is not None:
        value["minimum"] = field.least
    if field.most is not None:
        value["maximum"] = field.most
    return value | form
