# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of the documents, and a context for JSON-LD; none refers outside.

They say what a document must be; `omsgrain.formats.mif_ld.schema_walk` reads them.
Spec: JSON Schema 2020-12
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

__all__ = ["BASE", "CONTEXT", "NAMES", "load", "text"]

BASE: Final = "https://omsgrain.invalid/mif-ld/"
"""Before the name of each, its ``$id``. Nothing is there, and nothing is ever fetched."""
NAMES: Final = (
    "common.json",
    "memory-0.1.json",
    "memory-0.1-published.json",
    "memory-1.x.json",
    "citation.json",
    "entity-reference.json",
    "ontology.json",
)
CONTEXT: Final = "context.jsonld"


def text(name: str) -> str:
    """One of them, or the context, as it stands in the package."""
    return files(__name__).joinpath(name).read_text("utf-8")


@cache
def load(name: str) -> dict[str, Any]:
    """One of them; not to be changed."""
    schema: dict[str, Any] = json.loads(text(name))
    return schema
