# SPDX-License-Identifier: Apache-2.0
"""Reads and writes YAML. All written strings are double-quoted, so every reader agrees on them.

It needs no library. Spec: MIF 1.0 §1, YAML 1.2 §7.3
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

from omsgrain.errors import library
from omsgrain.formats.json_text import MARK, VALUES, bounded, pointer_to, shown_key, too_large
from omsgrain.formats.json_text import RULES as READING
from omsgrain.formats.problems import DocumentError, Problem

_STEP: Final = "  "
_LONGEST: Final = 1_000  # characters of a key in one line; YAML has 1,024
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def write(document: dict[str, Any]) -> bytes:
    return "".join(f"{line}\n" for line in _block(document, "")).encode()


def _block(value: Any, pad: str) -> Iterator[str]:
    """Return the lines of a value; those of an object or array begin with the pad."""
    if not value or not isinstance(value, dict | list) or _is_flat(value):
        yield pad + _inline(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            name = _quoted(key)
            if len(name) > _LONGEST:
                yield f"{pad}? {name}"
                name = ""
            if not item or not isinstance(item, dict | list) or _is_flat(item):
                yield f"{pad}{name}: {_inline(item)}"
            else:
                yield f"{pad}{name}:"
                yield from _block(item, pad + _STEP)
    else:
        for item in value:
            first = True
            for line in _block(item, pad + _STEP):
                yield f"{pad}- {line[len(pad) + 2 :]}" if first else line
                first = False


def _is_flat(value: Any) -> bool:
    """Whether an array has only numbers, such as a vector, which fits one line."""
    return isinstance(value, list) and {*map(type, value)} <= {int, float}


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if type(value) is float:
        text = repr(value)
        # Without a point, a YAML 1.1 reader would read a string.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return "{}" if isinstance(value, dict) else json.dumps(value)


def _quoted(text: str) -> str:
    return _ESCAPED.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


RULES: Final[dict[str, str]] = {
    "too_large": READING["too_large"],
    "not_yaml": "the document is not valid YAML, or JSON cannot express it",
    "too_deep": READING["too_deep"],
}
"""The rules that any YAML document must keep, whatever its format."""

_DIGITS: Final = 400  # of a number; a double has fewer
_CORE: Final = "tag:yaml.org,2002:"
_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False}
_BOOLS: Final = _BOOL | {"FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def read(
    data: bytes,
    *,
    most: int,
    depth: int,
    aliases: int = 10_000,
    before: int = 0,
    values: int = VALUES,
) -> Any:
    bounded(data, most)
    try:
        text = data.removeprefix(MARK).decode()
    except UnicodeDecodeError as error:
        _refuse("", before + data.count(b"\n", 0, error.start) + 1, "UTF-8")
    yaml = library("formats", "yaml", "YAML needs PyYAML")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    reader = _Reader(depth, aliases, most - len(data), before, values)
    try:
        return reader.read(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        # From 6.0.4 on, PyYAML has a limit too, and meets it before the first event.
        if "nesting depth" in str(getattr(error, "problem", "")):
            reader.too_deep()
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else before + mark.line + 1
    _refuse("", line, "YAML")


class _OpenNode:
    """An object or array under construction."""

    __slots__ = ("anchor", "height", "key", "length", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None  # of an object, if the next value is that of this key
        self.size = self.height = 1
        self.length = 0


class _Reader:
    """Builds a value from the events of one document, without recursion."""

    def __init__(self, depth: int, aliases: int, room: int, before: int, values: int) -> None:
        self._depth = depth
        self._aliases = aliases
        self._room = room  # characters that aliases can still repeat
        self._before = before
        self._values = self._left = values
        self._open: list[_OpenNode] = []
        # Anchor -> its value, with its number of values, depth and characters.
        self._anchors: dict[str, tuple[Any, int, int, int]] = {}
        self._repeated = 0
        self._line = before + 1
        self._done: list[Any] = []

    def read(self, events: Iterable[Any]) -> Any:
        documents = 0
        for event in events:
            self._line = self._before + event.start_mark.line + 1
            match type(event).__name__:
                case "ScalarEvent":
                    self._scalar(event)
                case "MappingStartEvent":
                    self._begin({}, "map", event)
                case "SequenceStartEvent":
                    self._begin([], "seq", event)
                case "MappingEndEvent" | "SequenceEndEvent":
                    self._end()
                case "AliasEvent":
                    self._alias(event)
                case "DocumentStartEvent":
                    documents += 1
                    if documents > 1:
                        self._refuse("one document")
        if not self._done:
            self._refuse("a document")
        return self._done[0]

    def _awaits_key(self) -> bool:
        place = self._open[-1] if self._open else None
        return place is not None and isinstance(place.value, dict) and place.key is None

    def _begin(self, value: Any, tag: str, event: Any) -> None:
        if event.tag not in (None, "!", _CORE + tag):
            self._refuse("no tags but those of JSON")
        if len(self._open) >= self._depth:
            self.too_deep()
        if self._awaits_key():
            self._refuse("keys that are strings")
        self._open.append(_OpenNode(value, event.anchor))

    def _end(self) -> None:
        place = self._open.pop()
        if place.anchor is not None:
            self._anchors[place.anchor] = place.value, place.size, place.height, place.length
        self._put(place.value, place.size, place.height, place.length)

    def _alias(self, event: Any) -> None:
        # An unfinished anchor is unknown, so a value cannot contain itself.
        if event.anchor not in self._anchors:
            self._refuse("an anchor before its alias")
        value, size, height, length = self._anchors[event.anchor]
        self._repeated += size
        self._room -= length
        if self._room < 0:
            raise too_large("bytes with expanded aliases", "more")
        if self._repeated > self._aliases:
            self._refuse(f"aliases of at most {self._aliases} values")
        if len(self._open) + height > self._depth:
            self.too_deep()
        if self._awaits_key():
            self._refuse("keys that are strings")
        self._put(value, size, height, length)

    def _scalar(self, event: Any) -> None:
        if self._awaits_key():
            self._key(self._open[-1], event)
            return
        value = self._resolved(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, 1, 0, len(event.value)
        self._put(value, 1, 0, len(event.value))

    def _key(self, place: _OpenNode, event: Any) -> None:
        key: str = event.value
        self._check_text(key)
        if event.implicit[0] and key == "<<":
            self._refuse("no merge keys")
        if event.tag not in (None, "!", _CORE + "str"):
            self._refuse("keys that are strings")
        if key in place.value:
            place.key = key
            self._refuse("each key once")
        place.key = key
        place.length += len(key)

    def _put(self, value: Any, size: int, height: int, length: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise too_large(f"{self._values} values", "more")
        if not self._open:
            self._done.append(value)
            return
        place = self._open[-1]
        place.size += size
        place.length += length
        place.height = max(place.height, height + 1)
        if isinstance(place.value, dict):
            place.value[place.key] = value
            place.key = None
        else:
            place.value.append(value)

    def _resolved(self, event: Any) -> Any:
        """Return the value of a scalar, by the core schema."""
        text: str = event.value
        plain = event.implicit[0] and event.tag is None
        tag = event.tag
        if (tag is None and not plain) or tag in ("!", _CORE + "str"):
            self._check_text(text)
            return text
        kind = None if tag is None else tag.removeprefix(_CORE)
        if kind not in (None, "null", "bool", "int", "float"):
            self._refuse("no tags but those of JSON")
        if kind in (None, "null") and _NULL.fullmatch(text):
            return None
        if kind in (None, "bool") and text in _BOOLS:
            return _BOOLS[text]
        if kind in (None, "int", "float") and text[:1] in _SIGNS:
            number = self._number(text, kind)
            if number is not None:
                return number
        if kind is not None:
            self._refuse("a value that is what its tag says")
        self._check_text(text)
        return text

    def _number(self, text: str, kind: str | None) -> int | float | None:
        if len(text) > _DIGITS and (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
            self._refuse(f"numbers of at most {_DIGITS} digits")
        value: int | float
        if kind != "float" and _INT.fullmatch(text):
            value = int(text)
        elif kind != "float" and _OTHER_INT.fullmatch(text) and len(text) <= _DIGITS:
            value = int(text, 0)
        elif kind != "int" and _FLOAT.fullmatch(text):
            value = float(text)
        elif kind != "int" and _ENDLESS.fullmatch(text):
            value = math.inf
        else:
            return None
        try:
            finite = math.isfinite(value)
        except OverflowError:
            finite = False
        if not finite:
            self._refuse("numbers that a double can hold")
        return value

    def _check_text(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            self._refuse("no surrogate without the other")

    def too_deep(self) -> NoReturn:
        says, most = RULES["too_deep"], f"at most {self._depth}"
        raise DocumentError([Problem("too_deep", self._pointer(), says, most, line=self._line)])

    def _refuse(self, expected: str) -> NoReturn:
        _refuse(self._pointer(), self._line, expected)

    def _pointer(self) -> str:
        keys = (
            place.key if isinstance(place.value, dict) else str(len(place.value))
            for place in self._open
        )
        return pointer_to([shown_key(key) for key in keys if key is not None])


_SIGNS: Final = frozenset("+-.0123456789")


def _refuse(pointer: str, line: int | None, expected: str) -> NoReturn:
    raise DocumentError([Problem("not_yaml", pointer, RULES["not_yaml"], expected, line=line)])
