# SPDX-License-Identifier: Apache-2.0
"""Whether a document and its records are what the format asks for; all defects, each once.

Spec: MIF 1.0 §2 to §7, §9
"""

from __future__ import annotations

import re
from string import ascii_letters, digits, hexdigits
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif1.fields import ARRAYS, REFERENCES, SHAPES, VERSION, Kind, is_loose
from omsgrain.formats.mif1.rules import RULES, WARNINGS
from omsgrain.formats.reading import kind_of
from omsgrain.formats.shapes.check import Checker as Shaped
from omsgrain.formats.shapes.field import Form
from omsgrain.formats.shapes.table import Shapes

__all__ = ["Checker", "is_encrypted", "is_version"]

_VERSION = re.compile(r"1(?:\.[0-9]{1,9})*")


def _is_time(text: str) -> bool:
    return times.parse(text, floating=True) is not None


def _id(prefix: str, letters: str, says: str) -> Form:
    fits = re.compile(f"{prefix}[{re.escape(letters)}]+").fullmatch
    return Form("id_form", says, fits, like=(prefix, letters))


_FORMS: Final = {
    # A record whose time cannot be told would get one that somebody made up.
    "time": Form("invalid_timestamp", "such as 2026-01-03T10:45:00.000Z", _is_time, True, "time"),
    "checksum": Form(
        "invalid_checksum",
        "sha256: and 64 hex digits",
        re.compile("sha256:[0-9A-Fa-f]{64}").fullmatch,
    ),
    "export": _id("exp_", digits + ascii_letters, "exp_ and letters and digits"),
    "memory": _id("mem_", hexdigits + "-", "mem_ and a UUID"),
    "todo": _id("todo_", hexdigits + "-", "todo_ and a UUID"),
    "short_id": Form("id_form", "such as PROJ-123", re.compile("[A-Z]+-[0-9]+").fullmatch),
}
_SHAPES: Final = Shapes(
    # The version is looked at before all else.
    {
        name: [field for field in shape if field.name != "mif_version"]
        for name, shape in SHAPES.items()
    },
    _FORMS,
    records=frozenset(ARRAYS.values()),
    more=("embedding", "redaction"),
    loose=is_loose,
    nulls=True,
)


def is_version(version: Any) -> bool:
    """Whether a ``mif_version`` is one that is read; a YAML text may have it as a number."""
    if type(version) is str:
        return _VERSION.fullmatch(version) is not None
    return type(version) in (int, float) and 1 <= version < 2


def is_encrypted(document: dict[str, Any]) -> bool:
    """Whether a document is an envelope around another. Spec: MIF 1.0 §6.2."""
    return isinstance(document.get("encryption"), dict) and "memories" not in document


_REFERENCES: Final = {kind: of for kind, of in REFERENCES.items() if kind != "edge"}
"""Those that are looked at once all records are known; the ends of an edge have a rule."""


class Checker(Shaped):
    """Checks one document. Of what it saw it keeps only hashes.

    Args:
        firsts: of how many bad records at least one problem is kept.
    """

    def __init__(self, firsts: int = 0) -> None:
        super().__init__(_SHAPES, RULES, WARNINGS, firsts, _REFERENCES)

    def document(self, document: Any, line: int | None = None) -> None:
        """Check what stands around the records, and the consent."""
        self._found, self._line = self.faults, line
        if type(document) is not dict:
            self._wrong("not_object", "", "an object", kind_of(document))
            return
        version = document.get("mif_version")
        if "mif_version" not in document:
            self._wrong("missing_field", "/mif_version", f'"{VERSION}"')
        elif not is_version(version):
            self._wrong("unsupported_version", "/mif_version", '"1.x"')
        elif type(version) is not str:
            self._warn("version_as_number", "/mif_version", f'"{VERSION}"')
        elif version != VERSION:
            self._warn("later_version", "/mif_version")
        if is_encrypted(document):
            self._wrong("encrypted", "/encryption", "a passphrase")
        else:
            self._object("", "document", document)

    def record(self, kind: Kind, record: Any, pointer: str, line: int | None = None) -> bool:
        """Check one record, and say whether it is good."""
        self._line = line
        if not self._is_good(kind, record, pointer):
            return False
        if kind == "edge":
            for name in ("source", "target"):
                mark = hash(record[name])
                if not any(mark in ids for ids in self._ids.values()):
                    self._warn("unknown_end", f"{pointer}/{name}")
            return True
        self._once(kind, record, pointer)
        return True

    def counts(self, document: dict[str, Any]) -> None:
        """Tell where a document says another number of records than it has."""
        self._line = None
        graph, metadata = document.get("graph"), document.get("metadata")
        for where, said, name, array in (
            ("/graph", graph, "node_count", graph),
            ("/graph", graph, "edge_count", graph),
            ("/metadata", metadata, "total_memories", document),
            ("/metadata", metadata, "total_todos", document),
        ):
            if not isinstance(said, dict) or not isinstance(array, dict):
                continue
            counted = array.get(_COUNTED[name])
            if isinstance(counted, list) and said.get(name, len(counted)) != len(counted):
                self._warn("count_differs", f"{where}/{name}", str(len(counted)))

    def _more(self, pointer: str, shape: str, value: dict[str, Any]) -> None:
        if shape == "embedding":
            self._vector(pointer, value)
        else:
            self._redaction(pointer, value)

    def _vector(self, pointer: str, embedding: dict[str, Any]) -> None:
        """Check a vector; it has thousands of numbers, and their types are all there is to see."""
        vector = embedding.get("vector")
        if not isinstance(vector, list):
            return
        if not {*map(type, vector)} <= {int, float}:
            self._warn("invalid_vector", f"{pointer}/vector", "numbers")
        elif embedding.get("dimensions", len(vector)) != len(vector):
            found = str(len(vector))
            expected = "as many numbers as dimensions"
            self._warn("dimension_mismatch", f"{pointer}/vector", expected, found)

    def _redaction(self, pointer: str, redaction: dict[str, Any]) -> None:
        position, length = redaction.get("position"), redaction.get("original_length")
        if position is None:
            return
        fits = type(position) is list and [*map(type, position)] == [int, int]
        if not fits or not 0 <= position[0] <= position[1]:
            self._warn("redaction_span", f"{pointer}/position", "start and end")
        elif type(length) is int and position[1] - position[0] != length:
            self._warn("redaction_span", f"{pointer}/position", "as long as original_length")


_COUNTED: Final = {
    "node_count": "nodes",
    "edge_count": "edges",
    "total_memories": "memories",
    "total_todos": "todos",
}
