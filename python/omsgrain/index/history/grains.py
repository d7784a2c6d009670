# SPDX-License-Identifier: Apache-2.0
"""Reading grains of a snapshot, checked, and the addresses by which they name each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeGuard

from omsgrain import _core
from omsgrain.errors import IntegrityError, NotFoundError, RangeError, SchemaError
from omsgrain.grain import Grain
from omsgrain.store.base import Reader, Unsealing, Which

__all__ = [
    "LINKS",
    "found_at",
    "grain_at",
    "is_address",
    "named",
    "names_of",
    "naming",
    "numbered",
    "seq_of",
    "time_of",
    "too_many",
]

LINKS = {
    "derived_from": "derived_from",
    "parent_message_id": "link",
    "parent_goals": "link",
    "depends_on": "link",
    "prior_consent": "link",
}
"""The fields that can be followed backwards, and the kind of index rows that lead there."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


def seq_of(reader: Reader, address: str) -> int:
    """Return the number of a grain.

    Raises:
        NotFoundError: it is not in the store.
        HashFormatError, HashLengthError: that is no address.
    """
    seq = reader.find([_core.parse_address(address)])[0]
    if seq is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    return seq


def grain_at(reader: Reader, address: str) -> Grain | None:
    """Return the grain at an address, None if it is not in the store.

    Raises:
        IntegrityError: the stored bytes are damaged.
    """
    seq = reader.find([bytes.fromhex(address)])[0]
    return None if seq is None else numbered(reader, seq)


def found_at(reader: Reader, address: str) -> Grain:
    """Return the grain at an address.

    Raises:
        NotFoundError: it is not in the store.
        HashFormatError, HashLengthError: that is no address.
        IntegrityError: the stored bytes are damaged.
    """
    grain = grain_at(reader, _core.parse_address(address).hex())
    if grain is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    return grain


def numbered(reader: Reader, seq: int) -> Grain | None:
    """Return the grain with a number, None if there is none.

    Raises:
        IntegrityError: the stored bytes are damaged.
    """
    grain = reader.grain(seq)
    if grain is not None and reader.find([bytes.fromhex(grain.address)])[0] != seq:
        raise IntegrityError("the stored bytes are damaged", found=grain.address)
    return grain


def named(grain: Grain, field: str) -> tuple[str, ...]:
    """Return the addresses in a field, each once; an opaque grain may hold anything there."""
    value = grain.get(field)
    items = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(item for item in items if is_address(item)))


def is_address(value: object) -> TypeGuard[str]:
    """Whether a value is an address as grains hold them."""
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None


def naming(
    reader: Reader, address: str, field: str, which: Which = "all"
) -> Iterator[tuple[int, Grain]]:
    """Walk the grains that name an address in a field, the oldest first, with their numbers.

    So the replies to a message are those that name it in ``parent_message_id``, the goals below a
    goal in ``parent_goals``, those that wait for it in ``depends_on``, the withdrawal of a consent
    in ``prior_consent``. The grain with the address need not be in the store.

    Raises:
        SchemaError: a field without index rows.
        IntegrityError: stored bytes are damaged.
    """
    kind = LINKS.get(field)
    if kind is None:
        raise SchemaError("not followed backwards", field="/field", expected=", ".join(LINKS))
    met: set[int] = set()
    for name in names_of(reader, address):
        for place in reader.places(_core.term(kind, name), None, False, which):
            seq = int.from_bytes(place[12:], "big")
            grain = None if seq in met else numbered(reader, seq)
            if grain is not None and name in named(grain, field):
                met.add(seq)
                yield seq, grain


def names_of(reader: Reader, address: str) -> tuple[str, ...]:
    """The addresses by which others may name a grain: a sealed one that is open has two."""
    if not isinstance(reader, Unsealing):
        return (address,)
    seq = reader.find([bytes.fromhex(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if grain is None or grain.sealed:
        return (address,)
    return tuple(dict.fromkeys((address, grain.address, _core.address(grain.blob))))


def time_of(grain: Grain) -> int:
    """When a grain was created, ms; of an opaque one what its header says, if it says it oddly."""
    value = grain.get("created_at")
    return value if isinstance(value, int) else grain.header.created_at * 1000


def too_many(limit: int, what: str) -> RangeError:
    """The refusal to gather more than was asked for, where a part would be taken for the whole."""
    return RangeError(
        "the history is longer than the limit",
        field="/limit",
        expected=f"at most {limit} {what}",
        found="more",
    )
