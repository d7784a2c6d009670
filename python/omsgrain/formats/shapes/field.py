# SPDX-License-Identifier: Apache-2.0
"""What a table says of a field, of the look of a text, and of a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["ANY", "Field", "Form", "Rule"]

ANY = "*"
"""A reference to a record of any kind."""


class Field(NamedTuple):
    """One field.

    Attributes:
        name: its key.
        kind: what it holds: ``str``, ``bool``, ``number``, ``int``, ``object`` or ``array``.
        says: what it means, in a few words.
        required: whether it must be there.
        expected: whether it should be there; if it is missing, that is told.
        nullable: whether it may be null.
        of: the shape of an object, or of the items of an array; ``str`` or ``number`` for plain
            ones.
        form: how a text, or each of an array, looks; what looks otherwise is told.
        known: the values that are known; another is kept, and told.
        least: of a number.
        most: of a number, or code points of a text; another is told.
        hard: whether a number out of range is refused.
        own: whether the format itself has it; if not, one of those who write it does.
    """

    name: str
    kind: str
    says: str
    required: bool = False
    expected: bool = False
    nullable: bool = False
    of: str | None = None
    form: str | None = None
    known: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    hard: bool = False
    own: bool = True


class Form(NamedTuple):
    """How a text looks.

    Attributes:
        rule: what is told of one that looks otherwise.
        expected: how it looks, in words.
        fits: whether one looks so.
        refused: whether a record is refused for a required text that looks otherwise.
        like: how nearly all look that do: ``uuid``, ``time``, or a beginning and the characters
            behind it; empty if that cannot be said so.
    """

    rule: str
    expected: str
    fits: Callable[[str], object]
    refused: bool = False
    like: str | tuple[str, str] = ""


class Rule(NamedTuple):
    """One rule: where the format has it, and what its breach is called."""

    section: str
    says: str
