# SPDX-License-Identifier: Apache-2.0
"""MIF documents of both versions: good ones, odd ones that are taken, and each rule broken once.

What is wrong stands here, said by who wrote the change and not by what the checker found. The
addresses of grains are this project's own, and are taken from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from support import mif1_documents as mif1
from support import mif2_documents as mif2
from omsgrain import formats
from omsgrain.errors import OmsError
from omsgrain.formats.mif1 import document as layouts
from omsgrain.conformance.vectors import addresses
from source.edits import GONE, edited

FULL, DIALECT, SEP, PUBLISHED = mif2.FULL, mif2.DIALECT, mif1.SEP, mif1.PUBLISHED
MEMORY = "/memories/0"

#: Name, section, document, edits, and the warnings it is taken with.
GOOD_2: list[tuple[str, str, Any, dict[str, Any], list[str]]] = [
    ("the least", "1", mif2.MINIMAL, {}, []),
    ("placeholders", "1", mif2.PLACEHOLDERS, {}, ["invalid_checksum"]),
    ("a bit of everything", "2", FULL, {}, ["dimension_mismatch"]),
    ("the dialect of the reference implementation", "6", DIALECT, {}, []),
    ("a later minor version", "8", mif2.MINIMAL, {"/mif_version": "2.7"}, ["later_version"]),
    ("a type that nobody knows", "2.1", mif2.MINIMAL, {f"{MEMORY}/memory_type": "dream"}, []),
    ("a type in capitals", "2.1", mif2.MINIMAL, {f"{MEMORY}/memory_type": "Dream Log"},
     ["invalid_memory_type"]),
    ("an id that is no UUID", "2", mif2.MINIMAL, {f"{MEMORY}/id": "note-1"}, ["invalid_uuid"]),
    ("nulls and unknown members", "6", mif2.MINIMAL,
     {f"{MEMORY}/parent_id": None, f"{MEMORY}/x": None, "/y": {"z": [1, 1.0, 1e-7]}}, []),
    ("a time without an offset", "2", mif2.MINIMAL, {f"{MEMORY}/created_at": "2026-03-01"}, []),
    ("a text that is no time", "2", mif2.MINIMAL, {f"{MEMORY}/created_at": "yesterday"},
     ["invalid_timestamp"]),
    ("changed before it was made", "2", mif2.MINIMAL,
     {f"{MEMORY}/updated_at": "2020-01-01T00:00:00Z"}, ["times_out_of_order"]),
    ("empty content", "2", mif2.MINIMAL, {f"{MEMORY}/content": ""}, []),
    ("content that is not composed", "2", mif2.MINIMAL, {f"{MEMORY}/content": "cafe\u0301"}, []),
    ("the same content twice", "6", mif2.MINIMAL,
     {"/memories/-": mif2.MINIMAL["memories"][0] | {"id": "7c9e6679-7425-70de-944b-e07fc1f90ae8"}},
     ["duplicate_content"]),
    ("the same id twice", "6", mif2.MINIMAL,
     {"/memories/-": mif2.MINIMAL["memories"][0] | {"content": "Another."}}, ["duplicate_id"]),
    ("a todo of another dialect", "6", mif2.MINIMAL, {"/todos": [{"title": "x"}, 7]},
     ["foreign_record", "foreign_record"]),
    ("a relationship of what is not there", "3", FULL,
     {"/knowledge_graph/relationships/0/target_entity_id": "ent-9"},
     ["dimension_mismatch", "unknown_entity"]),
]  # fmt: skip
#: Name, section, document, edits, the rule, where, and whether the whole document is refused.
BAD_2: list[tuple[str, str, Any, dict[str, Any], str, str, bool]] = [
    ("changed since its checksum was made", "1", FULL, {"/export_meta/checksum_of": "document"},
     "checksum_mismatch", "/export_meta/checksum", True),
    ("another major version", "8", mif2.MINIMAL, {"/mif_version": "3.0"},
     "unsupported_version", "/mif_version", True),
    ("no array of memories", "1", mif2.MINIMAL, {"/memories": GONE},
     "missing_field", "/memories", True),
    ("memories in an object", "1", mif2.MINIMAL, {"/memories": {}},
     "invalid_type", "/memories", True),
    ("a generator without a version", "1", mif2.MINIMAL, {"/generator": {"name": "x"}},
     "missing_field", "/generator/version", True),
    ("a memory without content", "2", FULL, {f"{MEMORY}/content": GONE},
     "missing_field", f"{MEMORY}/content", False),
    ("a memory that is a text", "2", FULL, {MEMORY: "x"}, "not_object", MEMORY, False),
    ("a number as an id", "2", FULL, {f"{MEMORY}/id": 7}, "invalid_type", f"{MEMORY}/id", False),
    ("version 0", "2", FULL, {f"{MEMORY}/version": 0}, "out_of_range", f"{MEMORY}/version", False),
    ("a confidence above 1", "2.2", FULL, {f"{MEMORY}/entities/0/confidence": 1.5},
     "out_of_range", f"{MEMORY}/entities/0/confidence", False),
    ("a vector with a text", "2.3", FULL, {f"{MEMORY}/embeddings/vector": [0.1, "..."]},
     "invalid_type", f"{MEMORY}/embeddings/vector/1", False),
    ("an entity without a name", "3", FULL, {"/knowledge_graph/entities/1/name": GONE},
     "missing_field", "/knowledge_graph/entities/1/name", False),
]  # fmt: skip
GOOD_1: list[tuple[str, str, Any, dict[str, Any], list[str]]] = [
    ("the least", "2", mif1.MINIMAL, {}, []),
    ("the samples of the SEP", "2", SEP, {"/metadata": GONE, "/graph/node_count": GONE,
                                         "/graph/edge_count": GONE},
     ["invalid_checksum", "invalid_vector", "id_form", "id_form", "id_form", "unknown_end",
      "unknown_checksum"]),
    ("what the published schema has besides", "2", PUBLISHED, {},
     ["unknown_end", "unknown_reference", "unknown_checksum"]),
    ("a later minor version", "9", mif1.MINIMAL, {"/mif_version": "1.3"}, ["later_version"]),
    ("a type that nobody knows", "3.1", mif1.MINIMAL, {f"{MEMORY}/type": "Dream"},
     ["unknown_value"]),
    ("an id of another form", "3", mif1.MINIMAL, {f"{MEMORY}/id": "note-1"}, ["id_form"]),
    ("the same content twice", "3", mif1.MINIMAL,
     {"/memories/-": mif1.MINIMAL["memories"][0] | {"id": "mem_01"}}, ["duplicate_content"]),
]  # fmt: skip
BAD_1: list[tuple[str, str, Any, dict[str, Any], str, str, bool]] = [
    ("a memory without content", "3", PUBLISHED, {f"{MEMORY}/content": GONE},
     "missing_field", f"{MEMORY}/content", False),
    ("a memory without a time", "3", PUBLISHED, {f"{MEMORY}/created_at": GONE},
     "missing_field", f"{MEMORY}/created_at", False),
    ("a memory whose time is none", "3", PUBLISHED, {f"{MEMORY}/created_at": "yesterday"},
     "invalid_timestamp", f"{MEMORY}/created_at", False),
    ("a memory that is a text", "3", PUBLISHED, {MEMORY: "x"}, "not_object", MEMORY, False),
    ("a todo without a status", "4", PUBLISHED, {"/todos/0/status": GONE},
     "missing_field", "/todos/0/status", False),
    ("an edge without a target", "5", PUBLISHED, {"/graph/edges/1/target": GONE},
     "missing_field", "/graph/edges/1/target", False),
    ("memories in an object", "2", mif1.MINIMAL, {"/memories": {}},
     "invalid_type", "/memories", True),
]  # fmt: skip
#: Texts that cannot be read: name, section, format, what is replaced by what, the fault.
TEXTS: list[tuple[str, str, str, str, str, dict[str, Any]]] = [
    ("cut short", "1", "mif2", "]}", "", {"rule": "not_json", "pointer": ""}),
    ("a key twice", "1", "mif2", '"memories":', '"mif_version":"2.0","memories":',
     {"rule": "not_json", "pointer": "/mif_version"}),
    ("not a number", "1", "mif2", '"2026-03-01T08:00:00Z"', "NaN",
     {"rule": "not_json", "pointer": ""}),
    ("cut short", "2", "mif1", "]}", "", {"rule": "not_json", "pointer": ""}),
]  # fmt: skip


def vectors() -> Iterator[dict[str, Any]]:
    """All of them."""
    for format, goods, bads in (("mif2", GOOD_2, BAD_2), ("mif1", GOOD_1, BAD_1)):
        for name, section, document, edits, warned in goods:
            text = spelled(edited(document, edits))
            yield _vector(format, "good", name, section, text, None, [], warned)
        for name, section, document, edits, rule, pointer, whole in bads:
            told = {"rule": rule, "pointer": pointer}
            text = spelled(edited(document, edits))
            yield _vector(format, "bad", name, section, text, told if whole else None,
                          [] if whole else [told], None)  # fmt: skip
    for name, section, format, old, new, fault in TEXTS:
        text = spelled(mif2.MINIMAL if format == "mif2" else mif1.MINIMAL).replace(old, new, 1)
        yield _vector(format, "bad-text", name, section, text, fault, [], [])
    for layout in ("yaml", "jsonl"):
        text = layouts.spell(PUBLISHED, layout).decode()  # type: ignore[arg-type]
        yield _vector("mif1", "good", f"everything in {layout}", "1", text, None, [], None, layout)


def spelled(document: Any) -> str:
    """The text of a document."""
    return json.dumps(document, separators=(",", ":"))


def _vector(
    format: str,
    kind: str,
    name: str,
    section: str,
    text: str,
    fault: dict[str, Any] | None,
    problems: list[dict[str, Any]],
    warned: list[str] | None,
    layout: str = "json",
) -> dict[str, Any]:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    try:
        found = formats.load(text.encode())
        grains, warnings = addresses(found), [one.rule for one in found.warnings]
    except OmsError:
        grains, warnings = {}, []
    return {
        "id": f"{format}/{kind}/{slug}",
        "description": name,
        "made_by": "test_vectors/source/mif.py",
        "checked_by": "omsgrain vectors",
        "format": format,
        "layout": layout,
        "section": section,
        "document": text,
        "fault": fault,
        "problems": problems,
        # Those of a bad document are beside the point, and as they are found.
        "warnings": warnings if warned is None else warned,
        "grains": grains,
    }
