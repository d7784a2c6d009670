# SPDX-License-Identifier: Apache-2.0
"""Whether a document and its records are what the format asks for; all defects, each once.

Spec: MIF 2.0 §1 to §4
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from omsgrain.formats.mif2.fields import (
    ARRAYS,
    DIALECT,
    MAJOR,
    REFERENCES,
    SHAPES,
    VERSION,
    Kind,
)
from omsgrain.formats.mif2.rules import RULES, WARNINGS
from omsgrain.formats.mif2.values import instant
from omsgrain.formats.problems import Problems
from omsgrain.formats.reading import kind_of
from omsgrain.formats.shapes.check import Checker as Shaped
from omsgrain.formats.shapes.field import Form
from omsgrain.formats.shapes.table import Shapes
from omsgrain.formats.uuids import is_uuid

__all__ = ["Checker", "Fate"]


class Fate(NamedTuple):
    """What becomes of a record.

    Attributes:
        taken: whether it is; else it is left out.
        known: whether it is what it stands for; else it is kept without being understood.
        of: the id of a memory before it that has the same content.
    """

    taken: bool
    known: bool = True
    of: str | None = None


GOOD: Final = Fate(True)
BAD: Final = Fate(False)
OTHER: Final = Fate(True, known=False)


_CHECKSUM = re.compile(r"sha256:[0-9A-Fa-f]+")
_SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_FORMS: Final = {
    "uuid": Form("invalid_uuid", "8-4-4-4-12 hex digits", is_uuid, like="uuid"),
    "time": Form("invalid_timestamp", "such as 2026-03-03T10:00:00Z", instant, like="time"),
    "checksum": Form("invalid_checksum", "sha256: and hex digits", _CHECKSUM.fullmatch),
}
_SHAPES: Final = Shapes(SHAPES, _FORMS, records=frozenset(ARRAYS.values()))

_REFERENCES: Final = {kind: of for kind, of in REFERENCES.items() if kind != "relationship"}
"""Those that are looked at once all records are known; the ends of a relationship have a rule."""


class Checker(Shaped):
    """Checks one document. Of what it saw it keeps only hashes.

    Args:
        firsts: of how many bad records at least one problem is kept.
    """

    def __init__(self, firsts: int = 0) -> None:
        super().__init__(_SHAPES, RULES, WARNINGS, firsts, _REFERENCES)

    def document(self, document: Any) -> None:
        """Check what stands around the records."""
        self._found = self.faults
        self._whole("", "document", document)
        if type(document) is not dict:
            return
        version = document.get("mif_version")
        if type(version) is str:
            if not version.startswith(MAJOR):
                self._wrong("unsupported_version", "/mif_version", f'"{MAJOR}x"')
            elif version != VERSION:
                self._warn("later_version", "/mif_version")
        for pointer in (pointer for pointer, kind in ARRAYS.items() if kind in DIALECT):
            *way, name = pointer[1:].split("/")
            holder = document.get(way[0]) if way else document
            # It is no field of the format, so it may be anything, and stays where it is.
            if type(holder) is dict and name in holder and type(holder[name]) is not list:
                self._warn("foreign_record", pointer, "an array", kind_of(holder[name]))

    def record(self, kind: Kind, record: Any, pointer: str) -> Fate:
        """Check one record, and say what becomes of it."""
        if kind in DIALECT:
            return self._of_dialect(kind, record, pointer)
        if not self._is_good(kind, record, pointer):
            return BAD
        self._once(kind, record, pointer)
        if kind == "memory":
            self._memory(pointer, record)
            return Fate(True, of=self.first_with(record, pointer))
        if kind == "relationship":
            for name in ("source_entity_id", "target_entity_id"):
                if hash(record[name]) not in self._ids["entity"]:
                    self._warn("unknown_entity", f"{pointer}/{name}")
        return GOOD

    def _of_dialect(self, kind: Kind, record: Any, pointer: str) -> Fate:
        """The format allows anything here, so what is odd breaks no rule."""
        self._found = odd = Problems()
        self._whole(pointer, kind, record)
        if odd:
            first = odd.found[0]
            self._warn("foreign_record", first.pointer, first.expected, first.found)
            return OTHER
        self._once(kind, record, pointer)
        return GOOD

    def _memory(self, pointer: str, record: dict[str, Any]) -> None:
        kind = record.get("memory_type")
        if kind is not None and not _SNAKE.fullmatch(kind):
            self._warn("invalid_memory_type", f"{pointer}/memory_type")
        changed = record.get("updated_at")
        if changed is not None and changed != record["created_at"]:
            made, last = instant(record["created_at"]), instant(changed)
            if made is not None and last is not None and last < made:
                self._warn("times_out_of_order", f"{pointer}/updated_at")
        vector = record.get("embeddings")
        if vector is not None and vector["dimensions"] != len(vector["vector"]):
            length = str(len(vector["vector"]))
            where = f"{pointer}/embeddings/vector"
            self._warn("dimension_mismatch", where, "as many numbers as dimensions", length)
