# SPDX-License-Identifier: Apache-2.0
"""Records as the texts that they are written as: a third of what the same takes as objects.

A document whose arrays of records are such texts is digested and written by pieces, so a large one
never stands in memory twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, Final, TypeVar

from omsgrain import _core
from omsgrain.formats.exact import spell

__all__ = ["Texts", "digest", "drained", "pieces", "whole"]

T = TypeVar("T")

_PAGE: Final = 1_000  # records
_LEVELS: Final = 3
"""How deep the arrays of records stand at the most; what is deeper is written in one piece."""


class Texts:
    """Records, each as JSON in one line; whoever walks them gets each as an object of its own."""

    __slots__ = ("_texts",)

    def __init__(self, records: Iterable[Any] = ()) -> None:
        self._texts = [spell(record) for record in records]

    def append(self, record: Any) -> None:
        """Add one more, as it is now."""
        self._texts.append(spell(record))

    def pages(self) -> Iterator[bytes]:
        """The texts, with commas between them, many at a time."""
        rest = iter(self._texts)
        while page := list(islice(rest, _PAGE)):
            yield b",".join(page)

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[Any]:
        return map(json.loads, self._texts)


def drained(records: list[T], size: int = _PAGE) -> Iterator[list[T]]:
    """Take records out of a list, by pages, in their order: nothing else needs to hold them."""
    records.reverse()
    while records:
        page = records[-size:]
        del records[-size:]
        page.reverse()
        yield page


def digest(document: Any) -> str:
    """SHA-256 of the canonical text of a document, in hex. Spec: RFC 8785.

    Raises:
        OmsError: what was given has no canonical text.
    """
    found = sha256()
    for piece in _written(document, _canonical, _utf16, 0):
        found.update(piece)
    return found.hexdigest()


def pieces(document: Any) -> Iterator[bytes]:
    """What `exact.spell` writes of a document, by pieces."""
    return _written(document, spell, None, 0)


def whole(document: Any) -> Any:
    """A document with all its records as objects, for writers that need them so."""
    if isinstance(document, Texts):
        return list(document)
    if isinstance(document, dict):
        return {name: whole(value) for name, value in document.items()}
    return document


def _written(
    value: Any, write: Callable[[Any], bytes], order: Callable[[str], bytes] | None, level: int
) -> Iterator[bytes]:
    if isinstance(value, Mapping) and level < _LEVELS:
        names = list(value) if order is None else sorted(value, key=order)
        yield b"{"
        for i, name in enumerate(names):
            yield (b"," if i else b"") + write(name) + b":"
            yield from _written(value[name], write, order, level + 1)
        yield b"}"
    elif isinstance(value, Texts) or (isinstance(value, list) and level <= _LEVELS):
        yield b"["
        for i, page in enumerate(_pages(value)):
            yield (b"," if i else b"") + (page if order is None else _inner(page))
        yield b"]"
    else:
        yield write(value)


def _pages(values: Texts | list[Any]) -> Iterator[bytes]:
    if isinstance(values, Texts):
        return values.pages()
    return (spell(values[at : at + _PAGE])[1:-1] for at in range(0, len(values), _PAGE))


def _canonical(value: Any) -> bytes:
    # Escaped, so that a lone surrogate is refused by the core rather than by the encoder.
    return _core.canonical_json(json.dumps(value).encode("ascii"))


def _inner(page: bytes) -> bytes:
    """The canonical text of some records."""
    return _core.canonical_json(b"[%b]" % page)[1:-1]


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
