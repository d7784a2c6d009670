# SPDX-License-Identifier: Apache-2.0
"""Documents of each format from one to another, and what the tests of that ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from omsgrain import formats
from omsgrain.errors import SchemaError
from omsgrain.formats import Import
from omsgrain.formats.aimem.document import checksum_of
from support import aimem_strategies, mif1_documents, mif2_documents, mif_ld_documents
from support.paths import ROOT

#: Each example is converted four times or more.
FEWER = settings(max_examples=max(settings().max_examples // 8, 1))
NOBODY = "urn:example:somebody"


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(document).encode()
    return document | {"checksum": checksum_of(text)}


def unsummed(document: dict[str, Any]) -> dict[str, Any]:
    """A document of MIF that somebody else edits, who takes its checksum out."""
    for name in ("export", "export_meta"):
        for member in ("checksum", "checksum_of"):
            document.get(name, {}).pop(member, None)
    return document


def corpus(memories: list[dict[str, Any]]) -> dict[str, Any]:
    """Memories of MIF in JSON-LD as one document."""
    records = [{"kind": "memory", "payload": one} for one in memories]
    return {"@context": mif_ld_documents.CONTEXT, "@type": "MemoryCorpus", "records": records}


DOCUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "aimem": aimem_strategies.documents().map(sealed),
    "mif1": mif1_documents.DOCUMENTS,
    "mif2": mif2_documents.DOCUMENTS,
    "mif-ld": st.lists(mif_ld_documents.MEMORIES, max_size=3).map(corpus),
}
BUNDLE = ROOT / "examples/robot-7.aimem.json"
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "aimem": [json.loads(BUNDLE.read_bytes())],
    "mif1": mif1_documents.EXAMPLES,
    "mif2": [mif2_documents.MINIMAL, mif2_documents.PLACEHOLDERS, mif2_documents.FULL,
             mif2_documents.DIALECT],
    "mif-ld": [corpus([mif_ld_documents.MINIMAL, mif_ld_documents.MINIMAL_1X]),
               corpus([mif_ld_documents.FULL, mif_ld_documents.FULL_1X])],
}  # fmt: skip
PAIRS = [(one, other) for one in DOCUMENTS for other in DOCUMENTS if one != other]


def load(document: dict[str, Any], format: str) -> Import:
    return formats.load(json.dumps(document).encode(), format=format)


def converted(found: Import, to: str, **options: Any) -> tuple[bytes, list[formats.Loss]]:
    """Return a document of another format; a bundle needs a user."""
    options = {"local": True} | options
    try:
        made = formats.dump(found, format=to, embeddings=True, **options)
    except SchemaError:
        made = formats.dump(found, format=to, embeddings=True, user_id=NOBODY, **options)
    return made.data, made.losses


def same_document(one: Any, other: Any, format: str) -> bool:
    """Whether two documents are JSON-equal; in bundles the order of keys says nothing."""
    if format == "aimem":
        return bool(_plain(one) == _plain(other))
    return bool(json.dumps(one) == json.dumps(other))


def _plain(value: Any) -> Any:
    return json.dumps(value, sort_keys=True)


def id_of(record: dict[str, Any]) -> Any:
    """By what a record is known; None if it has no id."""
    return record.get("id", record.get("@id"))


def records(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a document with the names of their arrays."""
    for name, value in document.items():
        if name in ("knowledge_graph", "graph") and isinstance(value, dict):
            yield from records(value)
        elif isinstance(value, list):
            for record in value:
                if isinstance(record, dict):
                    yield name, record["payload"] if "payload" in record else record


def lost_fields(one: str, other: str) -> dict[str, set[str]]:
    """The losses of the examples from one format to another, by the array of the record."""
    lost: dict[str, set[str]] = {}
    for document in EXAMPLES[one]:
        arrays: dict[str, str] = {}
        for name, record in records(document):
            arrays.setdefault(str(id_of(record)), name)
        for loss in converted(load(document, one), other, strict=True)[1]:
            kind = arrays.get(loss.record, "" if loss.record else "document")
            if not kind:
                kind = "consent" if loss.record == "consent" else "edges"
                kind = "projects" if loss.record.startswith("proj_") else kind
            lost.setdefault(kind, set()).add(re.sub(r"/\d+", "", loss.field))
    return lost
