# SPDX-License-Identifier: Apache-2.0
"""One statement made several times: grains with one semantic fingerprint.

The fingerprint is over the payload without the times at which it was written
(``rust/core/src/fingerprint.rs``). It is taken at its word: two statements with one fingerprint
can only be made on purpose, both by one writer and with some 2^64 hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice

from omsgrain import _core
from omsgrain.header import Header, read_header
from omsgrain.index.history.grains import numbered
from omsgrain.store.base import Reader, Which

__all__ = ["Same", "duplicates", "find_same"]

_PREFIX = b"f"
_TRIED = 100  # grains looked at for one that can stand for a new one


@dataclass(frozen=True, slots=True)
class Same:
    """Grains that say the same.

    Attributes:
        fingerprint: what they share, as hex.
        count: how many they are.
        addresses: theirs, the oldest first; at most as many as were asked for.
    """

    fingerprint: str
    count: int
    addresses: tuple[str, ...]


def duplicates(reader: Reader, which: Which = "current", most: int = 1_000) -> Iterator[Same]:
    """Walk the statements that were made more than once, in the order of their fingerprints.

    Every fingerprint is looked at, so the walk is as long as the store is large.

    Args:
        reader: the snapshot; it stays open while the walk goes on.
        which: among current grains, past ones, or all.
        most: addresses of one statement.

    Raises:
        IntegrityError: stored bytes are damaged.
    """
    for key in reader.keys(_PREFIX, which):
        if reader.term_count(key, which) < 2:
            continue
        places = reader.places(key, None, False, which)
        first = list(islice(places, max(most, 2)))
        count = len(first) + sum(1 for _ in places)
        if count > 1:
            found = (numbered(reader, int.from_bytes(p[12:], "big")) for p in first[:most])
            addresses = tuple(grain.address for grain in found if grain is not None)
            yield Same(key[1:].hex(), count, addresses)


def find_same(reader: Reader, blob: bytes) -> str | None:
    """Return the address of a grain that can stand for this one.

    It is the grain itself if it is in the store. Otherwise it is the oldest current grain that
    says the same and gives up nothing: of the same type byte, no less sensitive, and signed if
    this one is. A statement that was superseded or retracted is news when it is made again. A
    sealed grain is only ever itself.

    Args:
        reader: the snapshot; a writer sees what it wrote.
        blob: a grain that was verified.

    Raises:
        IntegrityError: stored bytes are damaged.
    """
    digest = sha256(blob).digest()
    if reader.find([digest])[0] is not None:
        return digest.hex()
    fingerprint = _core.fingerprint(blob)
    if fingerprint is None:
        return None
    wanted = read_header(blob)
    key = _core.term("fingerprint", fingerprint)
    for place in islice(reader.places(key, None, False, "current"), _TRIED):
        grain = numbered(reader, int.from_bytes(place[12:], "big"))
        if grain is not None and _stands_for(grain.header, wanted):
            return grain.address
    return None


def _stands_for(found: Header, wanted: Header) -> bool:
    return (
        found.type_byte == wanted.type_byte
        and found.sensitivity >= wanted.sensitivity
        and found.signed >= wanted.signed
    )
