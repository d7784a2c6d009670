# SPDX-License-Identifier: Apache-2.0
"""Write the JSON Schemas of the package from the tables of fields.

``--check`` writes nothing and exits 1 if a file is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omsgrain.formats.mif1 import check as mif1
from omsgrain.formats.mif2 import check as mif2
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


FORMATS = Path(__file__).parents[1] / "python" / "omsgrain" / "formats"
SCHEMAS = {
    FORMATS / "mif1" / "schema.json": mif1_schema,
    FORMATS / "mif2" / "schema.json": mif2_schema,
}

if __name__ == "__main__":
    stale = []
    for path, schema in SCHEMAS.items():
        text = json.dumps(schema(), indent=2) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(path)
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    if "--check" in sys.argv and stale:
        sys.exit("out of date, run docs/make_schemas.py: " + ", ".join(map(str, stale)))
