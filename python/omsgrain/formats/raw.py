# SPDX-License-Identifier: Apache-2.0
"""What is too large for one grain, in State grains one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from omsgrain.errors import FormatError, NotFoundError
from omsgrain.grain import Grain, make
from omsgrain.registry import TYPES

__all__ = [
    "DUPLICATE",
    "KIND",
    "NAMESPACES",
    "OTHER",
    "RECORD",
    "STATE",
    "Get",
    "gather",
    "getter",
    "is_beside",
    "own",
    "split",
]

_OURS = "omsgrain:"
KIND: Final = "omsgrain:raw"
DUPLICATE: Final = "omsgrain:duplicate"
OTHER: Final = "omsgrain:other"
RECORD: Final = "omsgrain:record"
"""The kind of what is a record whole, of which no field of a grain says anything."""
NAMESPACES: Final = ("aimem", "mif1", "mif2", "mif-ld", KIND, DUPLICATE, OTHER)
"""Where bookkeeping grains are: the index finds the few there are by these."""
STATE: Final = next(kind.byte for kind in TYPES if kind.name == "state")
_BYTES = "x_raw"
_PART = 900_000  # of the 1 MiB that a grain may have

Get = Callable[[str], Grain]
"""Gives the grain of an address."""


def is_beside(grain: Grain) -> bool:
    """Whether a grain is bookkeeping: a part of a record, or a list of a document's records."""
    if grain.blob[2] != STATE or grain.get("namespace") not in NAMESPACES:
        return False
    context = grain.get("context")
    kind = context.get("kind") if isinstance(context, Mapping) else None
    return isinstance(kind, str) and kind.startswith(_OURS) and kind != RECORD


def split(data: bytes, *, created_at: int, user_id: str | None) -> list[Grain]:
    """Put bytes into as many grains as they need, which belong to the person they are about.

    Args:
        data: any bytes.
        created_at: ms since 1970.
        user_id: whose they are.
    """
    whose = {} if user_id is None else {"user_id": user_id}
    return [
        make(
            {
                "type": "state",
                "context": {"kind": KIND, "part": at // _PART},
                "created_at": created_at,
                "namespace": KIND,
                **whose,
                _BYTES: data[at : at + _PART],
            }
        )
        for at in range(0, len(data), _PART)
    ]


def getter(grains: Mapping[str, Grain]) -> Get:
    """Gives the grains that others name; a NotFoundError for any that is not among them.

    Args:
        grains: by address.
    """

    def get(address: str) -> Grain:
        found = grains.get(address)
        if found is None:
            raise NotFoundError("a grain that another one names is missing", expected=address)
        return found

    return get


def own(grain: Grain, get: Get) -> Get:
    """As ``get``, for what a grain may have parts in: grains of the same person alone.

    Whoever may write a grain can name any address in it as that of a part.
    """

    def get_own(address: str) -> Grain:
        part = get(address)
        if part.get("user_id") != grain.get("user_id"):
            raise FormatError("a part of a record is somebody else's", rule="raw")
        return part

    return get_own


def gather(addresses: Sequence[str], get: Get) -> bytes:
    """Put the bytes together again.

    Raises:
        FormatError: one of the grains holds none.
        NotFoundError: one is not there.
    """
    parts = []
    for address in addresses:
        part = get(address).get(_BYTES)
        if not isinstance(part, bytes):
            raise FormatError("a part of a record holds no bytes", rule="raw")
        parts.append(part)
    return b"".join(parts)
