# SPDX-License-Identifier: Apache-2.0
"""Whether objects are what their shapes ask for; all defects, each once, with their places.

Nearly every record is good, which the core sees at one look; only another is walked field by
field. The look wins row F1 of `make bench`: it takes 0.9 µs for a memory of MIF 2.0 where the walk
takes 7.2, and 0.7 for one of MIF 1.0 where the walk takes 9.1. ``tests/fuzz`` compares the two. A
validator of JSON Schema is as fast as the look, but knows nothing of warnings, and needs an extra.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Final, NamedTuple

from omsgrain import _core
from omsgrain.formats.document import RecordItem
from omsgrain.formats.json_text import kind_of
from omsgrain.formats.problems import FIRSTS, MOST, DocumentError, Problem

ANY = "*"
"""A reference to a record of any kind."""


class SchemaField(NamedTuple):
    name: str  # its key
    kind: str  # what it holds: ``str``, ``bool``, ``number``, ``int``, ``object`` or ``array``
    says: str  # what it means, in a few words
    required: bool = False  # whether it must be there
    expected: bool = False  # whether it should be there; a missing one is a warning
    nullable: bool = False  # whether it may be null
    # the shape of an object, or of the items of an array; ``str`` or ``number`` for plain ones
    of: str | None = None
    form: str | None = None  # of a text, or of each text of an array; another form is a warning
    known: tuple[str, ...] = ()  # the known values; another is kept with a warning
    least: float | None = None  # of a number
    most: float | None = None  # of a number, or code points of a text; more is a warning
    hard: bool = False  # whether a number out of range is refused
    own: bool = True  # whether the format itself has it; if not, one of those who write it does
    # the rule that is broken when it is missing or of another type, if not the usual
    breach: str | None = None


def needed(name: str, kind: str, says: str, of: str | None = None, **more: Any) -> SchemaField:
    """A field that must be there."""
    return SchemaField(name, kind, says, required=True, of=of, **more)


def nullable(name: str, kind: str, says: str, of: str | None = None, **more: Any) -> SchemaField:
    """A field that may be missing or null."""
    return SchemaField(name, kind, says, nullable=True, of=of, **more)


class Form(NamedTuple):
    """How a text looks."""

    rule: str  # the rule that another text breaks
    expected: str  # how it looks, in words
    fits: Callable[[str], object]  # whether one looks so
    refused: bool = False  # whether a record is refused for a required text that looks otherwise
    # how nearly all look that do: ``uuid``, ``time``, or a beginning and the characters behind it;
    # empty if that cannot be said so
    like: str | tuple[str, str] = ""


KINDS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "str": ("a string", (str,)),
    "bool": ("a bool", (bool,)),
    "number": ("a number", (int, float)),
    "int": ("an integer", (int,)),
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
}
"""Kinds of fields: in words, and as types."""
PLAIN: Final = frozenset({"str", "number"})
"""Items of arrays that are no objects."""


class SchemaRow(NamedTuple):
    field: SchemaField  # what the table says of it
    types: tuple[type, ...]  # of its values
    deeper: bool  # whether more is asked of a value than its type
    loose: bool  # whether a value of another type is only a warning


class Shapes:
    """The shapes of a format."""

    def __init__(
        self,
        shapes: Mapping[str, Sequence[SchemaField]],
        forms: Mapping[str, Form],
        *,
        records: Collection[str],
        more: Collection[str] = (),  # shapes of which more is asked than the table says
        loose: Callable[[str, str], bool] = lambda shape, field: False,
        nulls: bool = False,  # whether a forbidden null is only a warning
    ) -> None:
        self.forms, self.more, self.nulls = forms, frozenset(more), nulls
        self.rows = {  # the fields of each shape, by name
            name: {field.name: _row(field, records, loose(name, field.name)) for field in shape}
            for name, shape in shapes.items()
        }
        self.needed = {  # of each shape, the fields that must or should be there
            name: frozenset(one.name for one in shape if one.required or one.expected)
            for name, shape in shapes.items()
        }
        self._outline = _core.Outline(
            [
                (name, [self._given(field) for field in shape])
                for name, shape in shapes.items()
                if name not in self.more
            ]
        )

    def fit(self, shape: str, value: Any) -> bool:
        """Whether a value has neither problem nor warning; False does not mean that it has one."""
        return self._outline.fits(shape, value)

    def _given(self, one: SchemaField) -> Any:
        look = None if one.form is None else self.forms[one.form].like
        needed = one.required or one.expected
        ends = (one.least, one.most)
        return (one.name, one.kind, one.of, look, one.known, *ends, one.nullable, needed)


def _row(field: SchemaField, records: Collection[str], loose: bool) -> SchemaRow:
    more = field.of or field.form or field.known or field.least is not None
    return SchemaRow(field, KINDS[field.kind][1], bool(more) and field.of not in records, loose)


class Problems:
    """Gathers problems, the first thousand of them, and counts them all."""

    __slots__ = ("_firsts", "_fresh", "found", "too_many", "total")

    def __init__(self, firsts: int = 0) -> None:
        self.found: list[Problem] = []  # those that are kept
        self.total = 0  # how many there are
        self.too_many = False  # whether there are records of which none was kept
        self._firsts, self._fresh = firsts, False

    def begin(self) -> None:
        self._fresh = True

    def __bool__(self) -> bool:
        return self.total > 0

    def add(self, problem: Problem) -> None:
        self.total += 1
        if len(self.found) < MOST:
            self.found.append(problem)
        elif self._fresh and self._firsts:
            if len(self.found) < self._firsts:
                self.found.append(problem)
            else:
                self.too_many = True
        self._fresh = False

    def extend(self, more: Problems) -> None:
        """Take those of another part of the document, which comes after."""
        self.found.extend(more.found[: MOST - len(self.found)])
        self.total += more.total

    def raise_any(self) -> None:
        if self:
            raise DocumentError(self.found, self.total)


class DocumentChecker(ABC):
    """Checks one document: first without its records, then each record.

    A format adds its own checks in a subclass. Only hashes of ids and contents are kept.
    """

    shapes: ClassVar[Shapes]
    rules: ClassVar[Mapping[str, str]]  # that refuse a document or a record
    told: ClassVar[Mapping[str, str]]  # that only warn
    # of each kind the members that refer to records, and of which kind these are
    references: ClassVar[Mapping[str, Mapping[str, str]]]

    def __init__(self, firsts: int = 0) -> None:
        self.faults = Problems()  # what the document is refused for
        self.problems = Problems(firsts)  # what is wrong with records, which are left out
        self.warnings = Problems()  # what is accepted with a warning
        self._found = self.faults
        self._line: int | None = None
        self._ids: defaultdict[str, set[int]] = defaultdict(set)
        self._contents: dict[bytes, str] = {}

    @abstractmethod
    def document(self, document: Any, line: int | None = None) -> bool:
        """Check everything outside the records; False if these are not to be looked at."""

    def counts(self, document: dict[str, Any]) -> None:  # noqa: B027 most formats count nothing
        """Warn of each count in the document that differs from its number of records."""

    @abstractmethod
    def record(
        self, kind: str, record: Any, pointer: str, line: int | None = None
    ) -> RecordItem | None:
        """Check one record; None if it is bad."""

    def refuse(self) -> None:
        """Refuse the document for its faults, or for more bad records than are reported."""
        if self.problems.too_many:
            self._found, self._line = self.faults, None
            self._wrong("too_many_bad", "", f"at most {FIRSTS}")
        self.faults.raise_any()

    def first_with(self, record: dict[str, Any], pointer: str) -> str | None:
        """The id of the memory before this one that has the same content; None if none has it."""
        digest = sha256(record["content"].encode()).digest()
        first = self._contents.get(digest)
        if first is None:
            self._contents[digest] = record["id"]
        else:
            self._warn("duplicate_content", f"{pointer}/content")
        return first

    def refers(self, kind: str, record: dict[str, Any], pointer: str) -> None:
        """Warn of each reference to a record that is not in the document."""
        for path, of in self.references.get(kind, {}).items():
            value: Any = record
            for name in path.split("/"):
                value = value.get(name) if type(value) is dict else None
            known = self._ids[of]
            if type(value) is str and path != "id" and hash(value) not in known:
                self._warn("unknown_reference", f"{pointer}/{path}")
            for i, one in enumerate(value) if type(value) is list else ():
                if type(one) is str and hash(one) not in known:
                    self._warn("unknown_reference", f"{pointer}/{path}/{i}")

    def _once(self, kind: str, record: dict[str, Any], pointer: str) -> None:
        """Take the id of a record; warn if it occurs twice."""
        # Python's hash is keyed, so no one can construct a collision.
        mark, known = hash(record["id"]), self._ids[kind]
        if mark in known:
            self._warn("duplicate_id", f"{pointer}/id")
        known.add(mark)

    def _is_good(self, kind: str, record: Any, pointer: str) -> bool:
        if self.shapes.fit(kind, record):
            return True
        self._found = self.problems
        self.problems.begin()
        before = self.problems.total
        self._whole(pointer, kind, record)
        return self.problems.total == before

    def _whole(self, pointer: str, shape: str, value: Any) -> None:
        """Check what must be an object of a shape."""
        if type(value) is dict:
            self._object(pointer, shape, value)
        else:
            self._wrong("not_object", pointer, "an object", kind_of(value))

    def _object(self, pointer: str, shape: str, value: dict[str, Any]) -> None:
        """Check the known fields; unknown ones are allowed."""
        rows, needed = self.shapes.rows[shape], self.shapes.needed[shape]
        for name, item in value.items():
            row = rows.get(name)
            if row is None:
                continue
            if type(item) in row.types:
                if row.deeper:
                    self._deeper(f"{pointer}/{name}", row, item)
            elif item is not None or not row.field.nullable:
                self._odd(f"{pointer}/{name}", row, item)
        for name in sorted(needed - value.keys()):
            field = rows[name].field
            tell = self._wrong if field.required else self._warn
            tell("missing_field", f"{pointer}/{name}", field.says)
        if shape in self.shapes.more:
            self._more(pointer, shape, value)

    def _more(  # noqa: B027 most formats ask no more
        self, pointer: str, shape: str, value: dict[str, Any]
    ) -> None:
        """Check what a table cannot say of a shape."""

    def _odd(self, pointer: str, row: SchemaRow, value: Any) -> None:
        """A value that is of none of the types of its field."""
        field, words = row.field, KINDS[row.field.kind][0]
        if value is None and self.shapes.nulls and not field.required:
            self._warn("null_value", pointer, words)
        elif field.kind == "int" and type(value) is float and value.is_integer():
            self._deeper(pointer, row, value)  # 2.0 is an integer too
        else:
            tell = self._warn if row.loose else self._wrong
            tell("invalid_type", pointer, words, kind_of(value))

    def _deeper(self, pointer: str, row: SchemaRow, value: Any) -> None:
        field = row.field
        if field.kind == "object":
            self._object(pointer, field.of or "", value)
        elif field.kind == "array":
            self._items(pointer, row, value)
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

    def _items(self, pointer: str, row: SchemaRow, values: list[Any]) -> None:
        of, form = row.field.of or "", row.field.form
        words, types = KINDS[of if of in PLAIN else "object"]
        if of in PLAIN and form is None and {*map(type, values)} <= {*types}:
            return  # a vector has thousands of numbers, and they are all there is to see
        tell = self._warn if row.loose else self._wrong
        for i, value in enumerate(values):
            if type(value) not in types:
                tell("invalid_type", f"{pointer}/{i}", words, kind_of(value))
            elif of not in PLAIN:
                self._object(f"{pointer}/{i}", of, value)
            elif form is not None:
                self._form(f"{pointer}/{i}", row.field, value)

    def _form(self, pointer: str, field: SchemaField, text: str) -> None:
        form = self.shapes.forms[field.form or ""]
        if not form.fits(text):
            tell = self._wrong if form.refused and field.required else self._warn
            tell(form.rule, pointer, form.expected)

    def _length(self, pointer: str, field: SchemaField, length: int) -> None:
        if field.least is not None and field.most is not None:
            if not field.least <= length <= field.most:
                found = f"{length} code points"
                self._warn("content_length", pointer, f"{field.least} to {field.most}", found)

    def _wrong(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        says = self.rules[rule]
        self._found.add(Problem(rule, pointer, says, expected, found, self._line))

    def _warn(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        says = self.told[rule]
        self.warnings.add(Problem(rule, pointer, says, expected, found, self._line))
