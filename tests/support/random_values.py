# SPDX-License-Identifier: Apache-2.0
"""Values of every kind that a grain can hold: seeded (`random_*`), or drawn by hypothesis."""

from __future__ import annotations

import struct
from math import isfinite
from random import Random
from typing import Any
from unicodedata import normalize

from hypothesis import strategies as st

#: Pieces of text. The second half is not in NFC: composing, reordering, excluded, singletons.
ATOMS = (
    *"aZ09 _-/\"\\\n\t\x00\x7f", *"éßøÅ", *"Пользователь", *"ψυχή", *"שלום", *"مرحبا", *"नमस्ते",
    *"日本語한국어", *"🤖🦾", "👩\u200d🔬", "🇺🇳", "\u2028", "\U00010348", "a\ufeff", "\U0010ffff",
    "e\u0301", "A\u030a", "q\u0307\u0323", "\u1112\u1161\u11ab", "\u212b", "\u2126", "\u0958",
    "\u0374", "\uf900", "\U0001d15e", "\U0002f800", "\u0344", "\u09c7\u09be", "\u0301",
)  # fmt: skip

_INT_EDGES = tuple(
    edge + step
    for power in (0, 5, 7, 8, 15, 16, 31, 32, 53, 63, 64)
    for edge in (2**power, -(2**power), 24, -24)
    for step in (-1, 0, 1)
    if -(2**63) <= edge + step < 2**64
)
_FLOATS = (
    0.0, -0.0, 1.0, 0.1, 1.5, -2.0, 65504.0, 65505.0, 65520.0, 2.0**-14, 2.0**-24, 2.0**-25,
    16777217.0, 3.4028234663852886e38, 3.4028235677973366e38, 2.0**-126, 2.0**-149, 2.0**-150,
    5e-324, 1.7976931348623157e308, 2.0**63, 1e22,
)  # fmt: skip
_LENGTHS = (0, 1, 1, 2, 3, 3, 5, 8, 12, 20)
_LONG = (15, 16, 23, 24, 31, 32, 255, 256, 300)


def random_text(rng: Random, shortest: int = 0) -> str:
    length = rng.choice(_LONG if rng.random() < 0.04 else _LENGTHS)
    if rng.random() < 0.5:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=max(shortest, length)))
    return "".join(rng.choices(ATOMS, k=max(shortest, length)))


def random_int(rng: Random, low: int = -(2**63), high: int = 2**64 - 1) -> int:
    edge = rng.choice(_INT_EDGES)
    return edge if low <= edge <= high and rng.random() < 0.7 else rng.randint(low, high)


def random_float(rng: Random) -> float:
    form = rng.choice(("edge", "<e", "<f", "<d"))
    if form == "edge":
        return rng.choice(_FLOATS)
    size = struct.calcsize(form)
    value: float = struct.unpack(form, rng.getrandbits(8 * size).to_bytes(size, "little"))[0]
    return value if isfinite(value) else 0.25


def random_bytes(rng: Random) -> bytes:
    return rng.randbytes(rng.choice(_LONG if rng.random() < 0.1 else _LENGTHS))


def random_map(rng: Random, depth: int = 2) -> dict[str, Any]:
    width = rng.choice((16, 17, 30)) if depth == 1 and rng.random() < 0.02 else rng.randrange(4)
    return unique_keys({random_text(rng): random_value(rng, depth - 1) for _ in range(width)})


def random_value(rng: Random, depth: int = 2) -> Any:
    """Any value of a map or an array, nulls included."""
    kind = rng.randrange(12 if depth > 0 else 8)
    if kind < 2:
        return random_text(rng)
    if kind < 4:
        return random_int(rng)
    if kind < 8:
        return (None, rng.random() < 0.5, random_float(rng), random_bytes(rng))[kind - 4]
    if kind < 10:
        return random_map(rng, depth)
    items = [random_value(rng, depth - 1) for _ in range(rng.choice((0, 1, 2, 3, 16)))]
    return items if kind == 10 else tuple(items)


def unique_keys(fields: dict[str, Any]) -> dict[str, Any]:
    """Only the last of several keys that are equal after NFC."""
    return dict({normalize("NFC", k): (k, v) for k, v in fields.items()}.values())


# Unassigned characters are left out: the core's Unicode tables may be newer than Python's.
_characters = st.characters(exclude_categories=["Cs", "Cn"])


def texts(max_size: int = 40) -> st.SearchStrategy[str]:
    return st.text(_characters, max_size=max_size).filter(lambda s: not s.startswith("\ufeff"))


def maps(items: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(20), items, max_size=5).map(unique_keys)


def values() -> st.SearchStrategy[Any]:
    """Any value of a map or an array, nulls included."""
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts()
        | st.binary(max_size=300),
        lambda items: st.lists(items, max_size=5) | maps(items),
        max_leaves=20,
    )
