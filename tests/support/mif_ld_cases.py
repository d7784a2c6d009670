# SPDX-License-Identifier: Apache-2.0
"""Good documents of MIF in JSON-LD to be broken by one edit, and what is to be found then."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from support.mif_ld_documents import (
    CITATION,
    CORPUS,
    FULL,
    FULL_1X,
    MINIMAL,
    MINIMAL_1X,
    ONTOLOGY,
    PERSON,
    REINFORCED,
)

GONE = object()


class Case(NamedTuple):
    """A base, the place of the edit, the new value (``GONE`` takes it away), and what is found.

    Errors are those of mode schema, as ``CODE pointer``. Where nothing is said, mode extra finds
    the same errors and no warning, and mode lenient the same errors.
    """

    base: str
    place: str
    value: Any
    errors: str = ""
    warnings: str = ""
    """Of mode extra."""
    lenient: str | None = None
    """Errors of mode lenient, if others."""
    told: str = ""
    """Warnings of mode lenient."""
    dropped: str = ""
    """Citations that mode lenient leaves out."""


def without(document: dict[str, Any], *places: str) -> dict[str, Any]:
    for place in places:
        document = edited(document, place, GONE)
    return document


def edited(document: Any, place: str, value: Any) -> Any:
    """A copy with another value at the pointer."""
    if not place:
        return value
    whole = json.loads(json.dumps(document))  # what stands twice in it becomes two
    *way, last = (key.replace("~1", "/").replace("~0", "~") for key in place.split("/")[1:])
    inner = whole
    for step in way:
        inner = inner[int(step) if isinstance(inner, list) else step]
    key: Any = int(last) if isinstance(inner, list) else last
    if value is GONE:
        del inner[key]
    elif isinstance(inner, list) and key == len(inner):
        inner.append(value)
    else:
        inner[key] = value
    return whole


# What mode extra says of them as they are would stand in every row.
BASES: dict[str, Any] = {
    "min": MINIMAL,
    "full": without(FULL, "/citations/2", "/entities/2", "/relationships/1"),
    "reinforced": REINFORCED,
    "min 1.x": MINIMAL_1X,
    "full 1.x": without(FULL_1X, "/memoryType"),
    "citation": CITATION,
    "entity": PERSON,
    "ontology": without(ONTOLOGY, "/discovery/patterns/2", "/discovery/patterns/1"),
    "corpus": without(CORPUS, "/records/1/payload/memoryType"),
    "array": [MINIMAL, MINIMAL_1X],
}
BASES["published"] = BASES["full"]
OPTIONS: dict[str, dict[str, Any]] = {
    "published": {"strict_published": True},
    "citation": {"kind": "citation"},
    "entity": {"kind": "entity-reference"},
    "ontology": {"kind": "ontology"},
}
