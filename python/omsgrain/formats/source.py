# SPDX-License-Identifier: Apache-2.0
"""The side channel of a grain that was a record of another format.

It says where the grain came from, and what its fields cannot say.

A grain drops nulls, composes text, keeps times as ms and orders keys. So beside its fields stands
``x_src``, JSON in ASCII as bytes:

    {"f": format, "k": kind of record, "id": its own id, "r": residual, "p": [addresses of parts],
     "h": SHA-256 of its text, "e": its embedding}

The residual is the difference between the record as it is built again from the fields and the
record as it was. Only what differs is in it:

    {"=": value}                 another value stands here
    {"+": {key: value},          keys of an object that were there besides,
     "-": [key],                 those that were not,
     "~": {key: difference},     those that had another value,
     "o": [key]}                 and their order, if it was another
    {"@": {index: difference}}   items of an array of the same length
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from omsgrain import _core
from omsgrain.errors import FormatError
from omsgrain.grain import Grain

__all__ = [
    "KEY",
    "NOT_CHECKED",
    "Difference",
    "Json",
    "Source",
    "apply",
    "checking",
    "difference",
    "same",
    "spell",
    "spelled",
]

KEY = "x_src"
NOT_CHECKED: Final = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What is raised by what stands in a grain and nobody has checked: anyone may have written it."""
_spell = json.JSONEncoder(separators=(",", ":")).encode

Json: TypeAlias = Any
"""What ``json.loads`` gives."""
Difference: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a grain came from.

    Attributes:
        format: such as ``aimem``.
        kind: the kind of record, such as ``chunk``.
        id: the record's own id, by which ``query(origin=)`` finds the grain.
        residual: how the record differs from what the grain's fields say; None if it does not.
        parts: addresses of the grains that hold the whole record, if it was too large for this.
        hash: SHA-256 of the record's text as it came, in hex, by which ``query(origin="sha256:" +
            hash)`` finds the grain; None if nothing is told by its text.
        packed: the record's embedding, as `packed` spells it; the residual is without it.
    """

    format: str
    kind: str
    id: str
    residual: Difference | None = None
    parts: tuple[str, ...] = ()
    hash: str | None = None
    packed: str | None = None

    def to_bytes(self) -> bytes:
        """The value of ``x_src``."""
        known = (self.residual, list(self.parts), self.hash, self.packed)
        return spelled(self.format, self.kind, self.id, *known)

    @classmethod
    def of(cls, grain: Grain) -> Source | None:
        """Read it from a grain; None if the grain has none that can be read."""
        value = grain.get(KEY)
        if not isinstance(value, bytes):
            return None
        try:
            read = json.loads(value)
            texts = read["f"], read["k"], read["id"]
            residual, parts = read.get("r"), tuple(read.get("p", ()))
            hash_, packed = read.get("h"), read.get("e")
        except NOT_CHECKED:
            return None
        if not all(isinstance(text, str) for text in (*texts, *parts)):
            return None
        return cls(
            *texts,
            residual if isinstance(residual, dict) else None,
            parts,
            hash_ if isinstance(hash_, str) else None,
            packed if isinstance(packed, str) else None,
        )


def spelled(
    format: str,
    kind: str,
    id: str,
    residual: Difference | None,
    parts: list[str],
    hash: str | None,
    packed: str | None,
) -> bytes:
    """The value of ``x_src`` for what `Source` has, without one in between."""
    value: dict[str, Any] = {"f": format, "k": kind, "id": id}
    if residual is not None:
        value["r"] = residual
    if parts:
        value["p"] = parts
    if hash is not None:
        value["h"] = hash
    if packed is not None:
        value["e"] = packed
    return spell(value)


@contextmanager
def checking() -> Iterator[None]:
    """A block in which records are read from grains that nobody has checked.

    Raises:
        FormatError: one of them is none.
    """
    try:
        yield
    except NOT_CHECKED:
        raise FormatError("a grain is of a record that is none", rule="residual") from None


def spell(value: Json) -> bytes:
    """The text of a value, in ASCII and without spaces."""
    return _core.spell_json(value) or _spell(value).encode("ascii")


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same to the last sign: 1 is not 1.0, nor 0.0 what -0.0 is."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1.0, one) == math.copysign(1.0, other)
    return bool(one == other)


def difference(rebuilt: Json, original: Json, *, ordered: bool = True) -> Difference | None:
    """Say how the original differs from what was built again; None if it does not.

    Args:
        rebuilt: what the grain says.
        original: what there was.
        ordered: whether the order of keys tells anything.
    """
    if rebuilt is original:
        return None
    if isinstance(rebuilt, dict) and isinstance(original, dict):
        return _of_objects(rebuilt, original, ordered)
    if (
        isinstance(rebuilt, list)
        and isinstance(original, list)
        and len(rebuilt) == len(original)
        and any(isinstance(item, dict | list) for item in original)
    ):
        pairs = enumerate(zip(rebuilt, original, strict=True))
        items = ((i, difference(one, other, ordered=ordered)) for i, (one, other) in pairs)
        found = {str(i): item for i, item in items if item is not None}
        return {"@": found} if found else None
    return None if same(rebuilt, original) else {"=": original}


def _of_objects(
    rebuilt: dict[str, Json], original: dict[str, Json], ordered: bool
) -> Difference | None:
    found: Difference = {}
    if more := {key: value for key, value in original.items() if key not in rebuilt}:
        found["+"] = more
    if fewer := [key for key in rebuilt if key not in original]:
        found["-"] = fewer
    both = [key for key in rebuilt if key in original]
    inner = ((key, difference(rebuilt[key], original[key], ordered=ordered)) for key in both)
    if other := {key: value for key, value in inner if value is not None}:
        found["~"] = other
    if ordered and [*both, *more] != list(original):
        found["o"] = list(original)
    return found or None


def apply(rebuilt: Json, found: Difference | None) -> Json:
    """Make the original again.

    Raises:
        FormatError: this is no difference from this value.
    """
    if found is None:
        return rebuilt
    try:
        return _apply(rebuilt, found)
    except NOT_CHECKED:
        raise FormatError("the residual does not fit the record", rule="residual") from None


def _apply(rebuilt: Json, found: Difference) -> Json:
    if "=" in found:
        return found["="]
    if "@" in found:
        return _in_list(rebuilt, found["@"])
    if not isinstance(rebuilt, dict):
        raise TypeError
    gone = frozenset(found.get("-", ()))
    whole = {key: value for key, value in rebuilt.items() if key not in gone}
    for key, item in found.get("~", {}).items():
        whole[key] = _apply(whole[key], item)
    whole.update(found.get("+", {}))
    return {key: whole[key] for key in found["o"]} if "o" in found else whole


def _in_list(rebuilt: Json, found: Difference) -> list[Json]:
    if not isinstance(rebuilt, list):
        raise TypeError
    items = list(rebuilt)
    for i, item in found.items():
        items[int(i)] = _apply(items[int(i)], item)
    return items
