# SPDX-License-Identifier: Apache-2.0
"""How a JSON text is spelled, in a few words, so that the same text can be written again.

Nearly every writer is one of a few: this one, or one that spells as it does. The text of another
is kept as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple

from omsgrain.errors import FormatError

__all__ = ["COMPACT", "Style", "spell", "style_of"]

_HEAD: Final = 4 << 10  # bytes in which spaces between values show, if there are any
_END: Final = 8  # characters behind the document
_SPACES: Final = " \t\r\n"
_INDENT = re.compile(rb"[{\[]\n([ \t]+)[^ \t\n]")


class Style(NamedTuple):
    """The spelling of a JSON text.

    Attributes:
        indent: what each level begins its lines with; None if all stands in one line.
        comma: what stands between two values; without the line end of an indented text.
        colon: what stands between a key and its value.
        ascii: whether all that is not ASCII is escaped.
        slash: whether slashes are escaped.
        end: what stands behind the document.
    """

    indent: str | None = None
    comma: str = ","
    colon: str = ":"
    ascii: bool = False
    slash: bool = False
    end: str = ""

    @classmethod
    def of(cls, values: Any) -> Style | None:
        """A style as it was kept: a list of its attributes; None if this is none."""
        if not isinstance(values, list) or len(values) != len(cls._fields):
            return None
        indent, comma, colon, ascii_, slash, end = values
        texts = (comma, colon, end, "" if indent is None else indent)
        if not all(isinstance(text, str) for text in texts):
            return None
        if [text.strip(_SPACES) for text in texts] != [",", ":", "", ""]:
            return None  # what is written in it would be no JSON
        return cls(indent, comma, colon, ascii_ is True, slash is True, end)


COMPACT: Final = Style()
"""How documents are written where no other way is asked for."""


def spell(document: Any, style: Style = COMPACT) -> bytes:
    """Write a document in a style, in UTF-8.

    Raises:
        FormatError: something in it is no JSON, which no document says that was read: half a
            surrogate pair, NaN or infinity.
    """
    try:
        text = json.dumps(
            document,
            ensure_ascii=style.ascii,
            allow_nan=False,
            indent=style.indent,
            separators=(style.comma, style.colon),
        )
        if style.ascii and "\\ud" in text:
            spell(document)  # where halves are not hidden by their escapes
        if style.slash:
            # Outside of strings there is none, and inside of them no escape ends in one.
            text = text.replace("/", "\\/")
        return (text + style.end).encode()
    except ValueError:
        raise FormatError("what is to be written is no JSON", rule="residual") from None


def style_of(data: bytes, document: Any) -> Style | None:
    """The style in which a text is spelled; None if it is in none.

    Args:
        data: the text.
        document: what it says.
    """
    for style in _likely(data):
        if spell(document, style) == data:
            return style
    return None


def _likely(data: bytes) -> Iterator[Style]:
    """Styles that fit what is seen at once, the likeliest first."""
    head = data[:_HEAD]
    end = data[len(data.rstrip(_SPACES.encode())) :].decode("ascii")
    if len(end) > _END:
        return
    indented = _INDENT.match(head)
    indent = indented[1].decode("ascii") if indented else None
    # Inside of strings both can stand as well.
    colons = (": ", ":") if b'": ' in head else (":",)
    commas = (",",) if indented or b", " not in head else (", ", ",")
    # Where all is ASCII, either nothing else was said or it was escaped.
    escapes = (True, False) if data.isascii() else (False,)
    slashes = (True, False) if b"\\/" in data else (False,)
    for comma, colon, escaped, slash in product(commas, colons, escapes, slashes):
        yield Style(indent, comma, colon, escaped, slash, end)
