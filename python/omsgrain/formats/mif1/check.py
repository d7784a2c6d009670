# SPDX-License-Identifier: Apache-2.0
"""Whether a document and its records are what the format asks for; all defects, each once.

Spec: MIF 1.0 §2 to §7, §9
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.formats import times
from omsgrain.formats.mif1.fields import (
    ARRAYS,
    BEARING,
    LOOSE,
    SHAPES,
    VERSION,
    Field,
    Kind,
)
from omsgrain.formats.mif1.rules import RULES, WARNINGS
from omsgrain.formats.problems import Problem, Problems
from omsgrain.formats.reading import kind_of

__all__ = ["Checker", "is_encrypted", "is_version"]

_VERSION = re.compile(r"1(?:\.[0-9]{1,9})*")
_HEX = "[0-9A-Fa-f-]+"
_KINDS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "str": ("a string", (str,)),
    "bool": ("a bool", (bool,)),
    "number": ("a number", (int, float)),
    "int": ("an integer", (int,)),
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
}
_FORMS: Final[dict[str, tuple[str, str, Callable[[str], object]]]] = {
    "time": (
        "invalid_timestamp",
        "such as 2026-01-03T10:45:00.000Z",
        lambda text: times.parse(text, floating=True),
    ),
    "checksum": (
        "invalid_checksum",
        "sha256: and 64 hex digits",
        re.compile("sha256:[0-9A-Fa-f]{64}").fullmatch,
    ),
    "export": ("id_form", "exp_ and letters and digits", re.compile("exp_[0-9A-Za-z]+").fullmatch),
    "memory": ("id_form", "mem_ and a UUID", re.compile(f"mem_{_HEX}").fullmatch),
    "todo": ("id_form", "todo_ and a UUID", re.compile(f"todo_{_HEX}").fullmatch),
    "short_id": ("id_form", "such as PROJ-123", re.compile("[A-Z]+-[0-9]+").fullmatch),
}
_RECORDS = frozenset(ARRAYS.values())


class _Plan(NamedTuple):
    """A shape as it is checked: its fields by name, each with its types, and what must be there.

    What more there is to a field than its type is asked only where there is something.
    """

    fields: dict[str, tuple[tuple[type, ...], bool, Field]]
    needed: frozenset[str]


def _plan(shape: tuple[Field, ...]) -> _Plan:
    fields = {}
    for field in shape:
        more = field.of or field.form or field.known or field.least is not None
        # Records are checked one by one.
        deeper = bool(more) and field.of not in _RECORDS
        fields[field.name] = (_KINDS[field.kind][1], deeper, field)
    return _Plan(fields, frozenset(one.name for one in shape if one.required or one.expected))


_PLANS: Final = {name: _plan(shape) for name, shape in SHAPES.items()}


def is_version(version: Any) -> bool:
    """Whether a ``mif_version`` is one that is read; a YAML text may have it as a number."""
    if type(version) is str:
        return _VERSION.fullmatch(version) is not None
    return type(version) in (int, float) and 1 <= version < 2


def is_encrypted(document: dict[str, Any]) -> bool:
    """Whether a document is an envelope around another. Spec: MIF 1.0 §6.2."""
    return isinstance(document.get("encryption"), dict) and "memories" not in document


class Checker:
    """Checks one document: what stands around its records first, then its records.

    Of what it saw it keeps only hashes.

    Args:
        firsts: of how many bad records at least one problem is kept.

    Attributes:
        faults: what the document is refused for.
        problems: what is wrong with records, which are left out.
        warnings: what is taken, and told.
    """

    def __init__(self, firsts: int = 0) -> None:
        self.faults = Problems()
        self.problems = Problems(firsts)
        self.warnings = Problems()
        self._found = self.faults
        self._line: int | None = None
        self._ids: dict[str, set[int]] = {kind: set() for kind in ARRAYS.values()}
        self._contents: dict[bytes, str] = {}

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
        self._found, self._line = self.problems, line
        self.problems.begin()
        before = self.problems.total
        if type(record) is not dict:
            self._wrong("not_object", pointer, "an object", kind_of(record))
            return False
        self._object(pointer, kind, record)
        if self.problems.total != before:
            return False
        if kind == "edge":
            for name in ("source", "target"):
                mark = hash(record[name])
                if not any(mark in ids for ids in self._ids.values()):
                    self._warn("unknown_end", f"{pointer}/{name}")
            return True
        # Python's hash is keyed, so nobody can make two that are one.
        mark = hash(record["id"])
        if mark in self._ids[kind]:
            self._warn("duplicate_id", f"{pointer}/id")
        self._ids[kind].add(mark)
        return True

    def first_with(self, record: dict[str, Any]) -> str | None:
        """The id of the memory that has this one's content and came before; asked once each."""
        digest = sha256(record["content"].encode()).digest()
        first = self._contents.setdefault(digest, record["id"])
        return None if first is record["id"] else first

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

    # -- values ---------------------------------------------------------------------------------

    def _object(self, pointer: str, shape: str, value: dict[str, Any]) -> None:
        """Check the fields that are known; the others are nobody's business."""
        fields, needed = _PLANS[shape]
        for name, item in value.items():
            plan = fields.get(name)
            if plan is None:
                continue
            types, deeper, field = plan
            if type(item) in types:
                if deeper:
                    self._deeper(f"{pointer}/{name}", shape, field, item)
            elif item is not None or not field.nullable:
                self._odd(f"{pointer}/{name}", shape, field, item)
        if not needed <= value.keys():
            for name in sorted(needed - value.keys()):
                field = fields[name][2]
                tell = self._wrong if field.required and shape != "document" else self._warn
                if name != "mif_version":  # told already
                    tell("missing_field", f"{pointer}/{name}", field.says)
        if shape == "embedding":
            self._vector(pointer, value)

    def _odd(self, pointer: str, shape: str, field: Field, value: Any) -> None:
        """A value that is of none of the types of its field."""
        if field.name == "mif_version":
            return  # told already
        words = _KINDS[field.kind][0]
        if value is None and not field.required:
            self._warn("null_value", pointer, words)
        elif field.kind == "int" and type(value) is float and value.is_integer():
            self._deeper(pointer, shape, field, value)  # 2.0 is an integer too
        elif shape in LOOSE or (shape in ("document", "graph") and field.name not in BEARING):
            self._warn("invalid_type", pointer, words, kind_of(value))
        else:
            self._wrong("invalid_type", pointer, words, kind_of(value))

    def _deeper(self, pointer: str, shape: str, field: Field, value: Any) -> None:
        if field.kind == "object":
            self._object(pointer, field.of or "", value)
        elif field.kind == "array":
            self._items(pointer, shape, field, value)
        elif field.form is not None:
            self._form(pointer, field, value)
        elif field.known:
            if value not in field.known:
                self._warn("unknown_value", pointer, ", ".join(field.known))
        elif type(value) is str:
            self._length(pointer, field, len(value))
        elif field.least is not None and (
            value < field.least or (field.most is not None and value > field.most)
        ):
            tell = self._wrong if field.hard else self._warn
            most = " or more" if field.most is None else f" to {field.most}"
            tell("out_of_range", pointer, f"{field.least}{most}")

    def _items(self, pointer: str, shape: str, field: Field, values: list[Any]) -> None:
        of = field.of or ""
        words, types = _KINDS["str" if of == "str" else "object"]
        loose = shape in LOOSE
        for i, value in enumerate(values):
            if type(value) not in types:
                tell = self._warn if loose else self._wrong
                tell("invalid_type", f"{pointer}/{i}", words, kind_of(value))
            elif of == "redaction":
                self._object(f"{pointer}/{i}", of, value)
                self._redaction(f"{pointer}/{i}", value)
            elif of != "str":
                self._object(f"{pointer}/{i}", of, value)

    def _form(self, pointer: str, field: Field, text: str) -> None:
        rule, expected, fits = _FORMS[field.form or ""]
        if fits(text):
            return
        # A record whose time cannot be told would get one that somebody made up.
        refused = field.required and field.form == "time"
        (self._wrong if refused else self._warn)(rule, pointer, expected)

    def _length(self, pointer: str, field: Field, length: int) -> None:
        if field.least is not None and field.most is not None:
            if not field.least <= length <= field.most:
                found = f"{length} code points"
                self._warn("content_length", pointer, f"{field.least} to {field.most}", found)

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

    def _wrong(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        self._found.add(Problem(rule, pointer, RULES[rule].says, expected, found, self._line))

    def _warn(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        says = WARNINGS[rule].says
        self.warnings.add(Problem(rule, pointer, says, expected, found, self._line))


_COUNTED: Final = {
    "node_count": "nodes",
    "edge_count": "edges",
    "total_memories": "memories",
    "total_todos": "todos",
}
