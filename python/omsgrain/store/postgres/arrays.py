# SPDX-License-Identifier: Apache-2.0
"""Columns of values as arrays, in the binary form in which PostgreSQL sends them.

The driver makes one item of a list after the other, in Python, at a microsecond each. A batch of
a thousand grains has thirty thousand items, most of them of one size, or the same again.

    array  i32 dimensions: 1 ++ i32 whether there are nulls: 0 ++ u32 type of the items
           ++ i32 items ++ i32 number of the first: 1 ++ (i32 size ++ item)*
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, pack

__all__ = ["BOOL", "BYTEA", "INT8", "Array", "alike", "byteas", "flags", "numbers", "repeated"]

BOOL, BYTEA, INT8 = 16, 17, 20
"""Types, as every server numbers them."""

_HEAD = Struct(">iiIii")
_NONE = Struct(">iiI")
_SIZE = Struct(">i")


class Array(bytes):
    """An array as its bytes; the server's type of each kind is ``oid``."""

    oid = 0


class _Bools(Array):
    oid = 1000


class _Byteas(Array):
    oid = 1001


class _Int8s(Array):
    oid = 1016


def _head(item: int, count: int) -> bytes:
    return _HEAD.pack(1, 0, item, count, 1) if count else _NONE.pack(0, 0, item)


def byteas(items: Sequence[bytes]) -> Array:
    """Make an array of bytes of any sizes."""
    size = _SIZE.pack
    parts = [part for item in items for part in (size(len(item)), item)]
    return _Byteas(_head(BYTEA, len(items)) + b"".join(parts))


def alike(items: Sequence[bytes], size: int) -> Array:
    """Make an array of bytes, all of one size."""
    if not items:
        return byteas(())
    start = _SIZE.pack(size)
    return _Byteas(_head(BYTEA, len(items)) + start + start.join(items))


def repeated(items: Iterable[tuple[bytes, int]]) -> Array:
    """Make an array of bytes that come several times each, one after the other."""
    parts, count = [], 0
    for item, times in items:
        parts.append((_SIZE.pack(len(item)) + item) * times)
        count += times
    return _Byteas(_head(BYTEA, count) + b"".join(parts))


def numbers(items: Sequence[int]) -> Array:
    """Make an array of numbers of 64 bits."""
    both = [value for item in items for value in (8, item)]
    return _Int8s(_head(INT8, len(items)) + pack(f">{'iq' * len(items)}", *both))


def flags(items: Sequence[bool]) -> Array:
    """Make an array of truth values."""
    values = (b"\0\0\0\1\0", b"\0\0\0\1\1")
    return _Bools(_head(BOOL, len(items)) + b"".join([values[item] for item in items]))
