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

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from omsgrain import _core
from omsgrain.errors import FormatError, NotFoundError
from omsgrain.grain import Grain, make
from omsgrain.registry import TYPES

KEY = "x_src"
NOT_CHECKED: Final = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""The errors of reading an unchecked part of a grain: anyone may have written it."""
_spell = json.JSONEncoder(separators=(",", ":")).encode

Json: TypeAlias = Any
Difference: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class Source:
    format: str  # such as ``aimem``
    kind: str  # the kind of record, such as ``chunk``
    id: str  # the record's own id, by which ``query(origin=)`` finds the grain
    # how the record differs from what the grain's fields say; None if it does not
    residual: Difference | None = None
    # addresses of the grains that hold the whole record, if it was too large for this
    parts: tuple[str, ...] = ()
    # SHA-256 of the record's text as it came, in hex, by which ``query(origin="sha256:" + hash)``
    # finds the grain; None if its text identifies nothing
    hash: str | None = None
    # the record's embedding, as `packed` spells it; the residual is without it
    packed: str | None = None

    def to_bytes(self) -> bytes:
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
    """A block that reads records from unchecked grains."""
    try:
        yield
    except NotFoundError:  # which is a KeyError, and says more
        raise
    except NOT_CHECKED:
        raise FormatError("a grain does not hold a valid record", rule="residual") from None


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
    """Say how the original differs from what was built again; None if it does not."""
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


def pack(values: Any) -> str | None:
    """The text of an array of numbers; None if it does not come back from it as it was."""
    if not isinstance(values, list) or not values:
        return None
    packed = _core.pack_floats(values)
    if packed is None:
        return None
    data, narrow = packed
    return ("f" if narrow else "d") + base64.b64encode(data).decode("ascii")


def unpack(text: str) -> list[float]:
    try:
        data = base64.b64decode(text[1:], validate=True)
        if text[:1] == "f" and len(data) % 4 == 0:
            return _core.unpack_floats(data)
        if text[:1] == "d":
            return list(struct.unpack(f"<{len(data) // 8}d", data))
    except (ValueError, struct.error):
        pass
    raise FormatError("not a packed array of numbers", rule="packed")


def float32(values: Any) -> bytes | None:
    """An array of numbers as a store searches it: float32, little-endian; None if it is none."""
    if not isinstance(values, list) or not values:
        return None
    if not all(type(one) in (float, int) for one in values):
        return None
    try:
        data = struct.pack(f"<{len(values)}f", *values)
    except (OverflowError, struct.error):
        return None
    return data if math.isfinite(sum(values)) else None


_OURS = "omsgrain:"
RAW_KIND: Final = "omsgrain:raw"
DUPLICATE: Final = "omsgrain:duplicate"
OTHER: Final = "omsgrain:other"
RECORD: Final = "omsgrain:record"
"""The kind of what is a record whole, of which no field of a grain says anything."""
NAMES: Final = ("aimem", "mif2", "mif1", "mif-ld")
"""The names of the formats with records of their own; they are namespaces too."""
FOREIGN: Final = ("mcp-memory", "mem0", "claude-memory", "langgraph", "letta", "areev", "okf")
"""The names of the formats of other systems, most of which are only read."""
NAMESPACES: Final = (*NAMES, RAW_KIND, DUPLICATE, OTHER)
"""Where bookkeeping grains are: the index finds the few there are by these."""
STATE: Final = next(kind.byte for kind in TYPES if kind.name == "state")
_BYTES = "x_raw"
_PART = 900_000  # of the 1 MiB that a grain may have

Get = Callable[[str], Grain]


def is_beside(grain: Grain) -> bool:
    """Whether a grain is bookkeeping: a part of a record, or a list of a document's records."""
    if grain.blob[2] != STATE or grain.get("namespace") not in NAMESPACES:
        return False
    return kind_of_ours(grain) not in (None, RECORD)


def kind_of_ours(grain: Grain) -> str | None:
    """Return the kind in the context of a grain that a format of ours made; None for others."""
    context = grain.get("context")
    kind = context.get("kind") if isinstance(context, Mapping) else None
    return kind if isinstance(kind, str) and kind.startswith(_OURS) else None


def split(data: bytes, *, created_at: int, user_id: str | None) -> list[Grain]:
    whose = {} if user_id is None else {"user_id": user_id}
    return [
        make(
            {
                "type": "state",
                "context": {"kind": RAW_KIND, "part": at // _PART},
                "created_at": created_at,
                "namespace": RAW_KIND,
                **whose,
                _BYTES: data[at : at + _PART],
            }
        )
        for at in range(0, len(data), _PART)
    ]


def getter(grains: Mapping[str, Grain]) -> Get:
    """Gives the grains that others name; a NotFoundError for any that is not among them."""

    def get(address: str) -> Grain:
        found = grains.get(address)
        if found is None:
            raise NotFoundError("a grain that another grain names is missing", expected=address)
        return found

    return get


def own(grain: Grain, get: Get) -> Get:
    """As ``get``, for what a grain may have parts in: grains of the same person alone.

    Anyone who may write a grain can name any address in it as a part.
    """

    def get_own(address: str) -> Grain:
        part = get(address)
        if part.get("user_id") != grain.get("user_id"):
            raise FormatError("a part of a record belongs to another user", rule="raw")
        return part

    return get_own


def gather(addresses: Sequence[str], get: Get) -> bytes:
    parts = []
    for address in addresses:
        part = get(address).get(_BYTES)
        if not isinstance(part, bytes):
            raise FormatError("a part of a record holds no bytes", rule="raw")
        parts.append(part)
    return b"".join(parts)
