# SPDX-License-Identifier: Apache-2.0
"""The shapes of a format, made ready once for all documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.formats.shapes.field import Field, Form

__all__ = ["KINDS", "PLAIN", "Row", "Shapes"]

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


class Row(NamedTuple):
    """A field as it is checked.

    Attributes:
        field: what the table says of it.
        types: of its values.
        deeper: whether more is asked of a value than its type.
        loose: whether a value of another type is only told.
    """

    field: Field
    types: tuple[type, ...]
    deeper: bool
    loose: bool


def _never(shape: str, field: str) -> bool:
    return False


class Shapes:
    """The shapes of a format.

    Attributes:
        rows: the fields of each shape, by name.
        needed: of each shape, the fields that must or should be there.
        forms: how texts look, by the names that fields have for it.
        more: shapes of which more is asked than the table says.
        nulls: whether null is only told where it may not stand.
    """

    def __init__(
        self,
        shapes: Mapping[str, Sequence[Field]],
        forms: Mapping[str, Form],
        *,
        records: Collection[str],
        more: Collection[str] = (),
        loose: Callable[[str, str], bool] = _never,
        nulls: bool = False,
    ) -> None:
        """Look up once what is the same for all documents.

        Args:
            shapes: their fields.
            forms: how texts look.
            records: shapes that are checked one by one, wherever they stand.
            more: shapes of which more is asked than that.
            loose: whether a field, by its shape and name, may be of another type.
            nulls: whether null is only told where it may not stand.
        """
        self.forms, self.more, self.nulls = forms, frozenset(more), nulls
        self.rows = {
            name: {field.name: _row(field, records, loose(name, field.name)) for field in shape}
            for name, shape in shapes.items()
        }
        self.needed = {
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
        """Whether nothing at all is to be said of a value; if not, there may still be nothing."""
        return self._outline.fits(shape, value)

    def _given(self, one: Field) -> Any:
        look = None if one.form is None else self.forms[one.form].like
        needed = one.required or one.expected
        ends = (one.least, one.most)
        return (one.name, one.kind, one.of, look, one.known, *ends, one.nullable, needed)


def _row(field: Field, records: Collection[str], loose: bool) -> Row:
    more = field.of or field.form or field.known or field.least is not None
    return Row(field, KINDS[field.kind][1], bool(more) and field.of not in records, loose)
