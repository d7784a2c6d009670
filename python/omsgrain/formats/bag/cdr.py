# SPDX-License-Identifier: Apache-2.0
"""Messages of ROS 2: their definitions (``ros2msg``), and their bytes (CDR).

The bytes come from outside, so no count or length is believed before it was compared with the
bytes that are left. Decoders in libraries make an object for each of four billion counted elements
of a message of eight bytes, or compile the definition as Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct, calcsize, error, unpack_from
from typing import Any, Final, TypeAlias

from omsgrain.errors import FormatError, TooLargeError, UnsupportedError

Decoder: TypeAlias = Callable[[bytes], dict[str, Any]]

DEPTH: Final = 32
"""Types inside one another."""
FIELDS: Final = 10_000
"""Fields of all types of a definition."""
VALUES: Final = 1 << 20
"""Elements of all arrays of a message, bytes aside."""
_PADDING: Final = 4  # fewer bytes than that may follow a message
_NUMBERS: Final = {
    "byte": "B",
    "char": "B",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
}
_BYTES: Final = ("byte", "uint8")  # their arrays are bytes
_TIME: Final = ("int32 sec", "uint32 nanosec")
_BUILT_IN: Final = {"builtin_interfaces/Time": _TIME, "builtin_interfaces/Duration": _TIME}
_SEPARATOR: Final = re.compile(r"={3,}")
_NAMED: Final = re.compile(r"MSG:\s+(\S+)")
_FIELD: Final = re.compile(
    r"(?P<type>[A-Za-z][\w/]*)(?:<=(?P<most>\d{1,9}))?(?P<array>\[(?P<bound><=)?(?P<size>\d{0,9})\])?"
    r"\s+(?P<name>[A-Za-z]\w*)\s*(?P<constant>=)?"
)


class _Cursor:
    """Where the reading of a message is; alignment counts from the end of the first four bytes."""

    __slots__ = ("at", "big", "data", "left", "order")

    def __init__(self, data: bytes, big: bool) -> None:
        self.data = data
        self.at = 0
        self.left = VALUES
        self.big = big
        self.order = ">" if big else "<"

    def count(self, least: int) -> int:
        """Read how many elements follow, each of which has at least so many bytes."""
        number: int = _count(self)
        self.need(number * least)
        return number

    def need(self, size: int) -> None:
        """See that so many bytes are left."""
        if size > len(self.data) - self.at:
            raise FormatError("the message ends too early", offset=self.at)

    def charge(self, count: int) -> None:
        """Refuse a message of too many elements."""
        self.left -= count
        if self.left < 0:
            expected = f"at most {VALUES} elements"
            raise TooLargeError("the message has too many elements", expected=expected)

    def align(self, size: int) -> None:
        """Go to the next multiple of a size, which is a power of two."""
        self.at = (self.at + size - 1) & -size


_Reader: TypeAlias = Callable[[_Cursor], Any]


def decoder(name: str, definition: str) -> Decoder:
    """Return the function that decodes messages of a type, such as "sensor_msgs/msg/Imu".

    The definitions of the types inside it follow its own, each after a line of "=" and a line
    "MSG: package/Type". The function raises TooLargeError if a message has more elements than a
    grain may have.
    """
    types = _Types(_definitions(name, definition))
    read, _ = types.reader(_short(name))

    def decode(data: bytes) -> dict[str, Any]:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise UnsupportedError("not a message in plain CDR", offset=0)
        cursor = _Cursor(data[4:], data[1] == 0)
        try:
            found: dict[str, Any] = read(cursor)
        except FormatError as error:
            error.offset = (error.offset or 0) + 4
            raise
        if len(cursor.data) - cursor.at >= _PADDING:
            raise FormatError("bytes follow the message", offset=cursor.at + 4)
        return found

    return decode


# -- definitions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str  # of its elements
    most: int | None  # bytes of a text
    array: bool
    size: int | None  # of an array: the elements, or the most of them
    bounded: bool  # whether size is the most


@dataclass(slots=True)
class _Types:
    """The types of a definition, and the readers of those that were asked for."""

    definitions: dict[str, list[_Field]]
    readers: dict[str, tuple[_Reader, int] | None] = field(default_factory=dict)
    inside: int = 0  # types whose fields are being read

    def reader(self, name: str) -> tuple[_Reader, int]:
        """Return the function that reads a value of a type, and how deep the type is nested."""
        if name in self.readers:
            known = self.readers[name]
            if known is None:
                raise FormatError("the type contains itself", found=name[:100])
            return known
        if name not in self.definitions:
            raise FormatError("a type without a definition", found=name[:100])
        self.readers[name] = None
        self.inside += 1
        if self.inside > DEPTH:
            raise _too_deep()
        fields: list[tuple[str, _Reader]] = []
        depth = 1
        for one in self.definitions[name]:
            read, inner = self._field(one)
            fields.append((one.name, read))
            depth = max(depth, inner + 1)
        if depth > DEPTH:
            raise _too_deep()
        self.inside -= 1
        made = self.readers[name] = _structure(fields), depth
        return made

    def _field(self, one: _Field) -> tuple[_Reader, int]:
        if one.type in _NUMBERS:
            code = _NUMBERS[one.type]
            if not one.array:
                return _number(code), 0
            return _octets(one) if one.type in _BYTES else _numbers(one, code), 0
        if one.type == "wstring":
            raise UnsupportedError("wide texts are not decoded", found=one.type)
        read: _Reader
        if one.type == "bool":
            read, depth = _boolean, 0
        elif one.type == "string":
            read, depth = _text(one.most), 0
        else:
            read, depth = self.reader(one.type)
        return (_many(one, read), depth) if one.array else (read, depth)


def _too_deep() -> FormatError:
    return FormatError("the types are nested too deeply", expected=f"at most {DEPTH}")


def _short(name: str) -> str:
    """Return the name of a type without its middle part: "sensor_msgs/Imu"."""
    parts = name.split("/")
    return f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else name


def _definitions(name: str, text: str) -> dict[str, list[_Field]]:
    found = {
        built: [one for line in lines if (one := _parsed(line, 0, "")) is not None]
        for built, lines in _BUILT_IN.items()
    }
    current, left = name, FIELDS
    fields: list[_Field] = []
    found[_short(current)] = fields
    for number, source in enumerate(text.splitlines(), 1):
        line = source.partition("#")[0].strip()
        if named := _NAMED.fullmatch(line):
            current, fields = named[1], []
            found[_short(current)] = fields
        elif line and not _SEPARATOR.fullmatch(line):
            one = _parsed(line, number, current.split("/")[0])
            if one is not None:
                fields.append(one)
                left -= 1
        if left < 0:
            raise FormatError("the definition has too many fields", expected=f"at most {FIELDS}")
    return found


def _parsed(line: str, number: int, package: str) -> _Field | None:
    """Return the field of a line; None for a constant."""
    found = _FIELD.match(line)
    if found is None:
        raise FormatError("not a field of a message", line=number, expected="TYPE NAME")
    if found["constant"]:
        return None
    type, size = found["type"], found["size"]
    known = type in _NUMBERS or type in ("bool", "string", "wstring")
    count = int(size) if size else None
    if count == 0 or (found["bound"] and count is None):
        raise FormatError("not the size of an array", line=number, expected="1 or more")
    return _Field(
        found["name"],
        type if known else _short(type if "/" in type else f"{package}/{type}"),
        int(found["most"]) if found["most"] else None,
        found["array"] is not None,
        count,
        found["bound"] is not None,
    )


# -- readers --------------------------------------------------------------------------------------


def _structure(fields: list[tuple[str, _Reader]]) -> _Reader:
    def read(cursor: _Cursor) -> dict[str, Any]:
        return {name: one(cursor) for name, one in fields}

    def empty(cursor: _Cursor) -> dict[str, Any]:
        cursor.need(1)  # a structure has a byte at least
        cursor.at += 1
        return {}

    return read if fields else empty


def _number(code: str) -> _Reader:
    little, big = Struct(f"<{code}"), Struct(f">{code}")
    size = little.size

    def read(cursor: _Cursor) -> int | float:
        at = (cursor.at + size - 1) & -size
        try:
            (value,) = (big if cursor.big else little).unpack_from(cursor.data, at)
        except error:
            raise FormatError("the message ends too early", offset=at) from None
        cursor.at = at + size
        return value  # type: ignore[no-any-return]

    return read


_count: Final = _number("I")
_octet: Final = _number("B")


def _boolean(cursor: _Cursor) -> bool:
    return bool(_octet(cursor))


def _text(most: int | None) -> _Reader:
    def read(cursor: _Cursor) -> str:
        size = cursor.count(1)
        start = cursor.at
        cursor.at += size
        data = cursor.data[start : cursor.at].removesuffix(b"\0")
        if most is not None and len(data) > most:
            raise FormatError("the text is too long", offset=start, expected=f"{most} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise FormatError("the text is not UTF-8", offset=start) from None

    return read


def _elements(one: _Field, cursor: _Cursor, least: int) -> int:
    """Return the number of elements of an array, for which there are bytes enough."""
    if one.size is not None and not one.bounded:
        return one.size
    count = cursor.count(least)
    if one.size is not None and count > one.size:
        expected = f"at most {one.size} elements"
        raise FormatError("the array is too long", offset=cursor.at, expected=expected)
    return count


def _octets(one: _Field) -> _Reader:
    def read(cursor: _Cursor) -> bytes:
        count = _elements(one, cursor, 1)
        cursor.need(count)
        start = cursor.at
        cursor.at += count
        return cursor.data[start : cursor.at]

    return read


def _numbers(one: _Field, code: str) -> _Reader:
    size = calcsize(f"<{code}")

    def read(cursor: _Cursor) -> list[int | float]:
        count = _elements(one, cursor, size)
        if not count:
            return []
        cursor.charge(count)
        cursor.align(size)
        cursor.need(count * size)
        start = cursor.at
        cursor.at += count * size
        return list(unpack_from(f"{cursor.order}{count}{code}", cursor.data, start))

    return read


def _many(one: _Field, element: _Reader) -> _Reader:
    def read(cursor: _Cursor) -> list[Any]:
        count = _elements(one, cursor, 1)
        cursor.need(count)  # each has a byte at least
        cursor.charge(count)
        return [element(cursor) for _ in range(count)]

    return read
