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

__all__ = ["COMPACT", "Style", "spell", "style_of"]

_HEAD: Final = 4 << 10  # bytes in which spaces between values show, if there are any
_END: Final = 8  # characters behind the document
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
        return cls(indent, comma, colon, ascii_ is True, slash is True, end)


COMPACT: Final = Style()
"""How documents are written where no other way is asked for."""


def spell(document: Any, style: Style = COMPACT) -> bytes:
    """Write a document in a style, in UTF-8."""
    text = json.dumps(
        document,
        ensure_ascii=style.ascii,
        indent=style.indent,
        separators=(style.comma, style.colon),
    )
    if style.slash:
        # Outside of strings there is none, and inside of them no escape ends in one.
        text = text.replace("/", "\\/")
    # A surrogate without the other can be in what was never read from a document.
    return (text + style.end).encode("utf-8", "surrogatepass")


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
    end = data[len(data.rstrip(b" \t\r\n")) :].decode("ascii")
    if len(end) > _END:
        return
    indented = _INDENT.match(head)
    indent = indented[1].decode("ascii") if indented else None
    colon = ": " if b'": ' in head else ":"
    commas = (",",) if indented or b", " not in head else (", ", ",")
    # Where all is ASCII, either nothing else was said or it was escaped.
    escapes = (True, False) if data.isascii() else (False,)
    slash = b"\\/" in data
    for comma, escaped in product(commas, escapes):
        yield Style(indent, comma, colon, escaped, slash, end)
