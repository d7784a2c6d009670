# SPDX-License-Identifier: Apache-2.0
"""Seeds changed: as bytes, as lines, or as trees of values. Seeded, so that a run can be repeated.

A parser reads lengths, so these are what is changed first: a byte that was a length is one more,
one less, nothing, or all that fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Literal, NamedTuple

import cbor2
import msgpack

Shape = Literal["bytes", "lines", "json", "msgpack", "cbor"]

LONGEST: Final = 64 << 10
"""Bytes of an input: enough for every form of a length, and for a hundred records."""
_BYTES: Final = (0, 1, 0x1F, 0x20, 0x7F, 0x80, 0x90, 0xA0, 0xC0, 0xC1, 0xD2, 0xF6, 0xFB, 0xFF)
_SIZES: Final = (1, 2, 4, 8)
_TOKENS: Final = (
    b"", b"{", b"}", b"[", b"]", b'"', b":", b",", b"- ", b"&a ", b"*a", b"!!", b"\\u", b"\\ud800",
    b"1e999", b"-0", b"null", b"\n", b"\r\n", b"---\n", b"\t", b"\x00", b"\xef\xbb\xbf", b"\xff",
    b"%", b"%00", b"..", b"/", b"\xe2\x80\xa8", b"NaN", b"<<: ", b"? ", b"|\n", b"#",
    b"0x" + b"f" * 4_000, b"Ada " * 900,
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1,
    0.0, -0.0, 0.5, 1e308, 5e-324, "", "a", " ", "\x00", "e\u0301", "\u202e", "\U0001f600",
    "x" * 300, "2026-01-01T00:00:00Z", "0000-00-00", "9999-12-31T23:59:60Z", "did:key:z6Mk",
    "sha256:00", "f" * 64, [], {}, [[]], [None], {"": ""}, {"id": 1}, b"", b"\x00" * 32, b"k",
    {"Ada " * 900: {"a": [1]}}, ["Ada " * 900],
)  # fmt: skip
_DEPTHS: Final = (5, 40, 140, 1_200)


class Trees(NamedTuple):
    """How bytes are read as a tree, and written again."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def _to_json(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, default=lambda value: value.hex()).encode(
        "utf-8", "surrogatepass"
    )


TREES: Final[dict[str, Trees]] = {
    "json": Trees(json.loads, _to_json),
    "msgpack": Trees(
        lambda data: msgpack.unpackb(data, strict_map_key=False), lambda tree: msgpack.packb(tree)
    ),
    "cbor": Trees(cbor2.loads, cbor2.dumps),
}


class Mutator:
    """Changes seeds.

    Args:
        shape: what they are; every other one is changed as bytes all the same.
        seeds: more than one, to be crossed.
        random: decides.
    """

    def __init__(self, shape: Shape, seeds: Sequence[bytes], random: Random) -> None:
        self.seeds = list(seeds)
        self._shape = shape
        self._random = random

    def next(self) -> bytes:
        """A seed, changed once or several times."""
        random = self._random
        data = random.choice(self.seeds)
        for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
            data = self._changed(data)
        return data[:LONGEST]

    def add(self, data: bytes) -> None:
        """Take one along that has reached something new."""
        self.seeds.append(data)

    def _changed(self, data: bytes) -> bytes:
        kind = self._random.randrange(4)
        if self._shape in TREES and kind < 3:
            changed = self._as_tree(TREES[self._shape], data)
            if changed is not None:
                return changed
        if self._shape in ("lines", "json") and kind > 1:
            return self._as_lines(data)
        return self._as_bytes(data)

    # -- bytes ------------------------------------------------------------------------------------

    def _as_bytes(self, data: bytes) -> bytes:
        random, found = self._random, bytearray(data or b"\0")
        at = random.randrange(len(found))
        match random.randrange(10):
            case 0:
                found[at] ^= 1 << random.randrange(8)
            case 1:
                found[at] = random.choice(_BYTES)
            case 2:
                found[at] = (found[at] + random.choice((1, -1))) & 0xFF
            case 3:
                self._number(found, at)
            case 4:
                found[at:at] = random.randbytes(random.choice(_SIZES))
            case 5:
                del found[at : at + random.choice((1, 2, 8, 60))]
            case 6:
                del found[at:]
            case 7:
                start = random.randrange(len(found))
                piece = found[start : start + random.choice((1, 4, 12, 80))]
                found[at:at] = piece * random.choice((1, 1, 2, 60))
            case 8:
                other = random.choice(self.seeds)
                start = random.randrange(len(other) or 1)
                found[at:] = other[start:]
            case _:
                other = random.choice(self.seeds)
                start = random.randrange(len(other) or 1)
                size = random.choice((4, 16, 64))
                found[at : at + size] = other[start : start + size]
        return bytes(found)

    def _number(self, found: bytearray, at: int) -> None:
        """Change what may be a length."""
        size, order = self._random.choice(_SIZES), self._random.choice(("big", "little"))
        most = (1 << 8 * size) - 1
        now = int.from_bytes(found[at : at + size], order)  # type: ignore[arg-type]
        new = self._random.choice((0, 1, now + 1, now - 1, now * 2, most, most // 2, len(found)))
        found[at : at + size] = (new & most).to_bytes(size, order)  # type: ignore[arg-type]

    # -- lines ------------------------------------------------------------------------------------

    def _as_lines(self, data: bytes) -> bytes:
        random, lines = self._random, data.split(b"\n")
        at = random.randrange(len(lines))
        match random.randrange(7):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, random.choice(lines))
            case 2:
                lines.insert(at, random.choice(random.choice(self.seeds).split(b"\n")))
            case 3:
                lines[at] = b" " * random.choice((1, 2, 4)) + lines[at]
            case 4:
                lines[at] = lines[at].lstrip()
            case 5:
                lines[at : at + 1] = [lines[at]] * random.choice((2, 40))
            case _:
                where = random.randrange(len(lines[at]) + 1)
                size = random.choice((0, 0, 1, 8))
                token = random.choice(_TOKENS)
                lines[at] = lines[at][:where] + token + lines[at][where + size :]
        return b"\n".join(lines)

    # -- trees ------------------------------------------------------------------------------------

    def _as_tree(self, trees: Trees, data: bytes) -> bytes | None:
        """Changed in one place; None where the bytes are no tree, or would be none."""
        try:
            tree = trees.read(data)
            return trees.write(self._in_tree(trees, tree))
        except (ValueError, TypeError, OverflowError, RecursionError, LookupError):
            return None
        except cbor2.CBORDecodeError:
            return None

    def _in_tree(self, trees: Trees, tree: Any) -> Any:
        random = self._random
        places = list(_places(tree))
        if not places:
            return self._value(trees, tree)
        holder, key = random.choice(places)
        match random.randrange(8):
            case 0 | 1 | 2:
                holder[key] = self._value(trees, holder[key])
            case 3:
                del holder[key]
            case 4:
                _put(holder, key, holder[key], random)
            case 5:
                deep: Any = holder[key]
                for _ in range(random.choice(_DEPTHS)):
                    deep = [deep] if random.random() < 0.5 else {"x": deep}
                holder[key] = deep
            case 6:
                other, there = random.choice(places)
                holder[key], other[there] = other[there], holder[key]
            case _:
                if isinstance(holder, list):
                    holder[key : key + 1] = [holder[key]] * random.choice((0, 2, 40))
                elif isinstance(holder[key], str):
                    holder[key] = self._text(holder[key])
        return tree

    def _value(self, trees: Trees, now: Any) -> Any:
        """Something else: near what was there, or out of another seed, or anything."""
        random = self._random
        kind = random.randrange(4)
        if kind == 0 and isinstance(now, int | float):
            return now + random.choice((1, -1, now))
        if kind == 0 and isinstance(now, str):
            return self._text(now)
        if kind == 0 and isinstance(now, bytes):
            return self._as_bytes(now)
        if kind == 1:
            try:
                places = list(_places(trees.read(random.choice(self.seeds))))
                holder, key = random.choice(places)
                return holder[key]
            except (ValueError, IndexError):
                return None
        return random.choice(_VALUES)

    def _text(self, now: str) -> str:
        return self._as_lines(now.encode("utf-8", "replace")).decode("utf-8", "replace")


def _places(tree: Any) -> Any:
    """Each place below the top: what holds it, and by which key."""
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict):
            keys: list[Any] = list(holder)
        elif isinstance(holder, list):
            keys = list(range(len(holder)))
        else:
            continue
        for key in keys:
            yield holder, key
            waiting.append(holder[key])


def _put(holder: Any, key: Any, value: Any, random: Random) -> None:
    """The same value under another name too, or at another place."""
    if isinstance(holder, dict):
        holder[random.choice(("x", "", "id", f"{key}_", str(key).upper(), 7))] = value
    else:
        holder.insert(random.randrange(len(holder) + 1), value)
