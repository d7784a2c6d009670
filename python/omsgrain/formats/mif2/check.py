# SPDX-License-Identifier: Apache-2.0
"""Whether a document and its records are what the format asks for; all defects, each once.

Spec: MIF 2.0 §1 to §4
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.formats.mif2.fields import ARRAYS, DIALECT, MAJOR, SHAPES, VERSION, Field, Kind
from omsgrain.formats.mif2.rules import RULES, WARNINGS
from omsgrain.formats.mif2.values import instant
from omsgrain.formats.problems import Problem, Problems
from omsgrain.formats.reading import kind_of

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


_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_CHECKSUM = re.compile(r"sha256:[0-9A-Fa-f]+")
_SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_TIME: Final = "such as 2026-03-03T10:00:00Z"

_KINDS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "str": ("a string", (str,)),
    "bool": ("a bool", (bool,)),
    "number": ("a number", (int, float)),
    "int": ("an integer", (int,)),
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
}
_FORMS: Final[dict[str, tuple[str, str, Callable[[str], object]]]] = {
    "uuid": ("invalid_uuid", "8-4-4-4-12 hex digits", _UUID.fullmatch),
    "time": ("invalid_timestamp", _TIME, instant),
    "checksum": ("invalid_checksum", "sha256: and hex digits", _CHECKSUM.fullmatch),
}


class _Plan(NamedTuple):
    """A shape as it is checked: its fields by name, each with its types, and what must be there.

    What more there is to a field than its type is asked only where there is something.
    """

    fields: dict[str, tuple[tuple[type, ...], bool, Field]]
    required: frozenset[str]


def _plan(shape: tuple[Field, ...]) -> _Plan:
    fields = {}
    for field in shape:
        # Records are checked one by one.
        more = field.of or field.form or field.least is not None
        fields[field.name] = (
            _KINDS[field.kind][1],
            bool(more) and field.of not in _RECORDS,
            field,
        )
    return _Plan(fields, frozenset(field.name for field in shape if field.required))


_RECORDS = frozenset(ARRAYS.values())
_PLANS: Final = {name: _plan(shape) for name, shape in SHAPES.items()}
_ITEMS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    name: _KINDS[name] for name in ("str", "number")
}


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
        self._ids: dict[Kind, set[int]] = {kind: set() for kind in ARRAYS.values()}
        self._contents: dict[bytes, str] = {}

    def document(self, document: Any) -> None:
        """Check what stands around the records."""
        self._found = self.faults
        if type(document) is not dict:
            self._wrong("not_object", "", "an object", kind_of(document))
            return
        self._object("", "document", document)
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
        self._found = self.problems
        self.problems.begin()
        before = self.problems.total
        if type(record) is not dict:
            self._wrong("not_object", pointer, "an object", kind_of(record))
            return BAD
        self._object(pointer, kind, record)
        if self.problems.total != before:
            return BAD
        self._once(kind, record, pointer)
        if kind == "memory":
            self._memory(pointer, record)
            return self._content(pointer, record)
        if kind == "relationship":
            for name in ("source_entity_id", "target_entity_id"):
                if hash(record[name]) not in self._ids["entity"]:
                    self._warn("unknown_entity", f"{pointer}/{name}")
        return GOOD

    # -- parts ----------------------------------------------------------------------------------

    def _of_dialect(self, kind: Kind, record: Any, pointer: str) -> Fate:
        """The format allows anything here, so what is odd breaks no rule."""
        self._found = odd = Problems()
        if type(record) is dict:
            self._object(pointer, kind, record)
        else:
            self._wrong("not_object", pointer, "an object", kind_of(record))
        if odd:
            first = odd.found[0]
            self._warn("foreign_record", first.pointer, first.expected, first.found)
            return OTHER
        self._once(kind, record, pointer)
        return GOOD

    def _once(self, kind: Kind, record: dict[str, Any], pointer: str) -> None:
        # Python's hash is keyed, so nobody can make two that are one.
        mark = hash(record["id"])
        if mark in self._ids[kind]:
            self._warn("duplicate_id", f"{pointer}/id")
        self._ids[kind].add(mark)

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

    def _content(self, pointer: str, record: dict[str, Any]) -> Fate:
        digest = sha256(record["content"].encode()).digest()
        first = self._contents.get(digest)
        if first is None:
            self._contents[digest] = record["id"]
            return GOOD
        self._warn("duplicate_content", f"{pointer}/content")
        return Fate(True, of=first)

    # -- values ---------------------------------------------------------------------------------

    def _object(self, pointer: str, shape: str, value: dict[str, Any]) -> None:
        """Check the fields that are known; the others are nobody's business."""
        fields, required = _PLANS[shape]
        for name, item in value.items():
            plan = fields.get(name)
            if plan is None:
                continue
            types, more, field = plan
            if type(item) in types:
                form = field.form
                if form is not None and type(item) is str:
                    # A pointer is put together only where it is needed.
                    if not _FORMS[form][2](item):
                        self._form(f"{pointer}/{name}", form, item)
                elif more:
                    self._more(f"{pointer}/{name}", field, item)
            elif item is None and field.nullable:
                continue
            elif field.kind == "int" and type(item) is float and item.is_integer():
                self._more(f"{pointer}/{name}", field, item)  # 2.0 is an integer too
            else:
                found = kind_of(item)
                self._wrong("invalid_type", f"{pointer}/{name}", _KINDS[field.kind][0], found)
        if not required <= value.keys():
            for name in sorted(required - value.keys()):
                self._wrong("missing_field", f"{pointer}/{name}", fields[name][2].says)

    def _more(self, pointer: str, field: Field, value: Any) -> None:
        if field.kind == "object":
            if field.of is not None:
                self._object(pointer, field.of, value)
        elif field.kind == "array":
            self._items(pointer, field, value)
        elif field.least is not None and (
            value < field.least or (field.most is not None and value > field.most)
        ):
            most = "" if field.most is None else f" to {field.most}"
            self._wrong("out_of_range", pointer, f"{field.least}{most or ' or more'}")

    def _items(self, pointer: str, field: Field, values: list[Any]) -> None:
        if not values:
            return
        shape = field.of or ""
        words, types = _ITEMS.get(shape, _KINDS["object"])
        plain = shape in _ITEMS
        if plain and field.form is None and {*map(type, values)} <= {*types}:
            return  # a vector has thousands of numbers, and they are all there is to see
        for i, value in enumerate(values):
            if type(value) not in types:
                self._wrong("invalid_type", f"{pointer}/{i}", words, kind_of(value))
            elif not plain:
                self._object(f"{pointer}/{i}", shape, value)
            elif field.form is not None:
                self._form(f"{pointer}/{i}", field.form, value)

    def _form(self, pointer: str, form: str, text: str) -> None:
        rule, expected, fits = _FORMS[form]
        if not fits(text):
            self._warn(rule, pointer, expected)

    def _wrong(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        self._found.add(Problem(rule, pointer, RULES[rule].says, expected, found))

    def _warn(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        self.warnings.add(Problem(rule, pointer, WARNINGS[rule].says, expected, found))
