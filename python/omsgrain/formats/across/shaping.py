# SPDX-License-Identifier: Apache-2.0
"""Records to items of the model and back, by tables.

A table says under which member a format has an attribute. What the format says that a member holds
stands in its own table of fields: a member that holds something else is one that only the format
understands, and goes to the rest, as all members do that no table names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from omsgrain.formats.model import Part

__all__ = ["Attribute", "Shape", "said", "shape"]

Record = dict[str, Any]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "bool": (bool,),
    "number": (int, float),
    "int": (int, float),  # 2.0 is one too
    "object": (dict,),
    "array": (list,),
}


class Field(Protocol):
    """What is needed of a row of a format's table."""

    @property
    def name(self) -> str:
        """Its member."""

    @property
    def kind(self) -> str:
        """What it holds."""


class Attribute(NamedTuple):
    """Where a format has an attribute of the model.

    Attributes:
        name: of the attribute.
        member: where its value stands.
        types: what may stand there.
        inner: of what the value, or each item of it, is made.
        items: what each item of an array is; None for anything.
        read: the value in the model.
        write: the way back.
    """

    name: str
    member: str
    types: tuple[type, ...]
    inner: Shape | None = None
    items: tuple[type, ...] | None = None
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None

    def fits(self, value: Any) -> bool:
        """Whether a value is what the format says."""
        if type(value) not in self.types:
            return False
        if type(value) is list:
            wanted = (dict,) if self.inner is not None else self.items
            return wanted is None or all(type(one) in wanted for one in value)
        return True


class Shape(NamedTuple):
    """What a format calls the attributes of one class of the model.

    Attributes:
        cls: the class.
        attributes: in the order in which the format writes them.
    """

    cls: type[Part]
    attributes: tuple[Attribute, ...]

    def read(self, record: Mapping[str, Any], **more: Any) -> Any:
        """An item of a record.

        Args:
            record: that the format takes.
            **more: attributes that are no member of it.
        """
        given, known = {}, set()
        for one in self.attributes:
            value = record.get(one.member)
            if value is None:
                known.add(one.member)  # null says nothing
            elif one.fits(value):
                known.add(one.member)
                given[one.name] = _read(one, value)
        rest = {name: value for name, value in record.items() if name not in known}
        return self.cls(rest=rest, **(given | more))

    def write(self, item: Part) -> Record:
        """The record of an item; what only another format knows is left out."""
        record = {}
        for one in self.attributes:
            value = getattr(item, one.name)
            if said(value):
                record[one.member] = _write(one, value)
        return record

    def member(self, name: str) -> str | None:
        """Where an attribute stands."""
        return next((one.member for one in self.attributes if one.name == name), None)

    def inner(self, name: str) -> Shape | None:
        """Of what an attribute is made."""
        return next((one.inner for one in self.attributes if one.name == name), None)


def said(value: Any) -> bool:
    """Whether an attribute says anything."""
    return value is not None and not (isinstance(value, tuple | dict) and not value)


def shape(
    cls: type[Part],
    fields: Iterable[Field],
    names: Mapping[str, str],
    *,
    inner: Mapping[str, Shape] | None = None,
    items: Mapping[str, type] | None = None,
    words: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] | None = None,
    more: Mapping[str, str] | None = None,
) -> Shape:
    """Make a shape.

    Args:
        cls: the class of the model.
        fields: what the format says of its members.
        names: the member of each attribute.
        inner: of what a member's value, or each item of it, is made, by attribute.
        items: what an array holds that does not hold strings, by attribute; object for anything.
        words: how a value is read and written, by attribute.
        more: members that the format's table has not, and what they hold.
    """
    kinds = {field.name: field.kind for field in fields} | dict(more or {})
    made = []
    for name, member in names.items():
        kind, within = kinds[member], (inner or {}).get(name)
        held = (items or {}).get(name, str)
        of = None if held is object else ((int, float) if held is float else (held,))
        read, write = (words or {}).get(name, (None, None))
        made.append(Attribute(name, member, _TYPES[kind], within, of, read, write))
    return Shape(cls, tuple(made))


def _read(one: Attribute, value: Any) -> Any:
    if one.inner is not None:
        if isinstance(value, list):
            return tuple(one.inner.read(item) for item in value)
        value = one.inner.read(value)
        # An object without a word in it says nothing.
        return None if value == one.inner.cls() else value
    if isinstance(value, list):
        value = tuple(value)
    return value if one.read is None else one.read(value)


def _write(one: Attribute, value: Any) -> Any:
    if one.inner is not None:
        if isinstance(value, tuple):
            return [one.inner.write(item) for item in value]
        return one.inner.write(value)
    if one.write is not None:
        value = one.write(value)
    return list(value) if isinstance(value, tuple) else value
