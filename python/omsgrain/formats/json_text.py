# SPDX-License-Identifier: Apache-2.0
"""How a JSON text is spelled, in a few words, so that the same text can be written again.

Nearly every writer is one of a few: this one, or one that spells as it does. The text of another
is kept as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, product
from typing import Any, Final, NamedTuple, TypeVar

from omsgrain import _core
from omsgrain.errors import PLAIN_NAME, CorruptError, FormatError, OmsError
from omsgrain.formats.problems import DocumentError, Problem

_HEAD: Final = 4 << 10  # bytes in which spaces between values show, if there are any
_END: Final = 8  # characters behind the document
_SPACES: Final = " \t\r\n"
_INDENT = re.compile(rb"[{\[]\n([ \t]+)[^ \t\n]")


class Style(NamedTuple):
    indent: str | None = None  # the start of a line for each level; None if the text is one line
    comma: str = ","  # the text between two values, without the line end of an indented text
    colon: str = ":"  # the text between a key and its value
    ascii: bool = False  # whether all that is not ASCII is escaped
    slash: bool = False  # whether slashes are escaped
    end: str = ""  # the text after the document

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
        raise FormatError("the document to write is not JSON", rule="residual") from None


def style_of(data: bytes, document: Any) -> Style | None:
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
    # Strings can contain both as well.
    colons = (": ", ":") if b'": ' in head else (":",)
    commas = (",",) if indented or b", " not in head else (", ", ",")
    # Where all is ASCII, either nothing else was said or it was escaped.
    escapes = (True, False) if data.isascii() else (False,)
    slashes = (True, False) if b"\\/" in data else (False,)
    for comma, colon, escaped, slash in product(commas, colons, escapes, slashes):
        yield Style(indent, comma, colon, escaped, slash, end)


_MANY: Final = 1_024  # orders of keys that are remembered


class MemberOrders:
    """The orders in which the records of a format have their keys."""

    def __init__(self, orders: Mapping[str, Sequence[str]]) -> None:
        self._ranks = {
            kind: {name: i for i, name in enumerate(order)} for kind, order in orders.items()
        }
        # Most records have the same ones.
        self._known: dict[tuple[Any, ...], list[str] | None] = {}

    def said(
        self, kind: str, rebuilt: Mapping[str, Any], record: Mapping[str, Any]
    ) -> list[str] | None:
        """The order of a record's keys; None if it is the one that comes about."""
        keys = (kind, tuple(rebuilt), tuple(record))
        try:
            return self._known[keys]
        except KeyError:
            if len(self._known) >= _MANY:
                self._known.clear()
            order = self._known[keys] = self._of(*keys)
            return order

    def _of(
        self, kind: str, rebuilt: tuple[str, ...], record: tuple[str, ...]
    ) -> list[str] | None:
        wanted = list(record)
        names = [key for key in rebuilt if key in record]
        if len(names) < len(wanted):
            names += [key for key in wanted if key not in rebuilt]
        return None if self.arranged(kind, names) == wanted else wanted

    def arranged(self, kind: str, names: Iterable[str]) -> list[str]:
        """Names in the order of the format; those that it does not know last, as they come."""
        rank = self._ranks[kind]
        return sorted(names, key=lambda name: rank.get(name, len(rank)))


RULES: Final[dict[str, str]] = {
    "too_large": "the document is too large",
    "not_json": "the document is not valid JSON, or it is ambiguous",
    "too_deep": "the document is nested too deeply",
}
"""The rules that any JSON document must keep, whatever its format."""

VALUES: Final = 8_000_000
"""Values of a document: each becomes an object of Python, many times as large as its text."""
MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark that some editors write before a text; it is skipped. Spec: RFC 8259 §8.1"""
_PLAIN: Final = re.compile("@?" + PLAIN_NAME)  # JSON-LD has keywords
_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a bool",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """The limits of a reader. It refuses a larger document before it parses it."""

    document: int = 100 << 20  # bytes of a document
    values: int = VALUES  # values of it, keys not counted
    depth: int = 128  # objects and arrays inside one another

    def parse(self, data: bytes) -> Any:
        return parse(data, most=self.document, depth=self.depth, values=self.values)


def parse(
    data: bytes,
    *,
    most: int,
    depth: int,
    values: int = VALUES,
    alive: Callable[[], None] | None = None,
) -> Any:
    return parse_canonical(data, most=most, depth=depth, without=None, values=values, alive=alive)[
        0
    ]


def parse_canonical(
    data: bytes,
    *,
    most: int,
    depth: int,
    without: str | None,
    values: int = VALUES,
    alive: Callable[[], None] | None = None,
) -> tuple[Any, bytes]:
    """Read one JSON document, and write its canonical text without one of its keys, if asked."""
    bounded(data, most)
    data = data.removeprefix(MARK)
    bounded(data, most, values)
    if data.startswith(MARK):
        raise _breach("not_json", "UTF-8 without a byte order mark", "a byte order mark")
    try:
        document, text = _core.parse_json(data, depth, without is not None, without, alive)
    except OmsError as error:
        raise DocumentError([refused(error)]) from None
    return document, text or b""


def looked_into(data: bytes) -> Any:
    """The value of a JSON text of which only the kind or a member is asked.

    None if the text is not JSON, or has more values than a document may have.
    """
    try:
        bounded(data, len(data), VALUES)
        return json.loads(data.removeprefix(MARK))
    except (DocumentError, ValueError, RecursionError):
        return None


def bounded(data: bytes, most: int, values: int | None = None) -> None:
    """Refuse a document that is larger than it may be, before anything is made of it."""
    if len(data) > most:
        raise too_large(f"{most} bytes", f"{len(data)} bytes")
    # A value has a byte at least, and another one behind it.
    if values is not None and len(data) > 2 * values and _core.json_values(data, values) > values:
        raise too_large(f"{values} values", "more")


def too_large(most: str, found: str) -> DocumentError:
    return _breach("too_large", f"at most {most}", found)


def _breach(rule: str, expected: str, found: str) -> DocumentError:
    return DocumentError([Problem(rule, "", RULES[rule], expected, found)])


def refused(error: OmsError, line: int | None = None) -> Problem:
    """The problem of a document that the core refuses to read."""
    rule = "too_deep" if isinstance(error, CorruptError) else "not_json"
    where = None if error.offset is None else f"byte {error.offset}"
    return Problem(rule, error.field or "", error.message, error.expected, where, line)


def kind_of(value: Any) -> str:
    """The kind of a JSON value, in words."""
    return _KINDS[type(value)]


def shown_key(key: str) -> str:
    """A key as a pointer or a message shows it.

    One that does not look like a name may be personal (an e-mail address, say) or of any length;
    it is shown as "…".
    """
    return key if _PLAIN.fullmatch(key) else "…"


T = TypeVar("T")

_PAGE: Final = 1_000  # records
_LEVELS: Final = 3
"""The deepest level of an array of records; a deeper array is written in one piece."""


class JsonTexts:
    """Records, each as JSON in one line; iteration gives each as a new object."""

    __slots__ = ("_texts",)

    def __init__(self, records: Iterable[Any] = ()) -> None:
        self._texts = [spell(record) for record in records]

    def append(self, record: Any) -> None:
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
    found = sha256()
    for piece in _written(document, canonical_text, _utf16, 0):
        found.update(piece)
    return found.hexdigest()


def pieces(document: Any) -> Iterator[bytes]:
    """The text of a document as `spell` writes it, by pieces."""
    return _written(document, spell, None, 0)


def whole(document: Any) -> Any:
    """A document with all its records as objects, for writers that need them so."""
    if isinstance(document, JsonTexts):
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
    elif isinstance(value, JsonTexts) or (isinstance(value, list) and level <= _LEVELS):
        yield b"["
        for i, page in enumerate(_pages(value)):
            yield (b"," if i else b"") + (page if order is None else _inner(page))
        yield b"]"
    else:
        yield write(value)


def _pages(values: JsonTexts | list[Any]) -> Iterator[bytes]:
    if isinstance(values, JsonTexts):
        return values.pages()
    return (spell(values[at : at + _PAGE])[1:-1] for at in range(0, len(values), _PAGE))


def canonical_text(value: Any) -> bytes:
    """The canonical text of a value. Spec: RFC 8785."""
    # Escaped, so that a lone surrogate is refused by the core rather than by the encoder.
    return _core.canonical_json(json.dumps(value).encode("ascii"))


def _inner(page: bytes) -> bytes:
    """The canonical text of some records."""
    return _core.canonical_json(b"[%b]" % page)[1:-1]


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def of_bytes(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def steps_of(pointer: str) -> list[str]:
    """The keys of a JSON pointer; the other way of `pointer_to`."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def value_at(value: Any, pointer: str) -> Any:
    """The value in objects at a JSON pointer; None if there is none."""
    for key in steps_of(pointer):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def pointer_to(way: Sequence[str | int]) -> str:
    """The JSON pointer of a way of keys."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in way)
