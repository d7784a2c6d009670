# SPDX-License-Identifier: Apache-2.0
"""What a policy may ask about the grains around the one that is acted on, answered by a store."""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain import _core
from omsgrain.engine import lineage
from omsgrain.errors import NotFoundError
from omsgrain.grain import Grain
from omsgrain.index.policy import Scope
from omsgrain.store.base import Reader
from omsgrain.store.state import State, unpack
from omsgrain.store.tables import HOLDS, SEQUENCE, STATES

__all__ = ["StoreWorld", "seq_of"]


class StoreWorld:
    """The grains of one snapshot, by address.

    Args:
        reader: the snapshot; in a write transaction it sees what was written before in it.
        new: grains that are about to be put, which count as there.
    """

    __slots__ = ("_new", "_reader")

    def __init__(self, reader: Reader, *new: Grain) -> None:
        self._reader = reader
        self._new = {grain.address: grain for grain in new}

    def grain(self, address: str) -> Grain | None:
        """Return the grain at an address, or None."""
        if address in self._new:
            return self._new[address]
        seq = self._seq(address)
        return None if seq is None else self._reader.grain(seq)

    def children(self, address: str) -> Iterator[str]:
        """The grains that are derived from this one."""
        for place in self._reader.places(_core.term("derived_from", address), None, False):
            grain = self._reader.grain(int.from_bytes(place[12:], "big"))
            # Its row stands by a hash.
            if grain is not None and address in grain.get("derived_from", ()):
                yield grain.address

    def successors(self, address: str) -> tuple[str, ...]:
        """The grains that superseded this one."""
        return self.state(address).successors

    def guards(self, address: str) -> Iterator[str]:
        """The grains whose policy covers the lineage of this one."""
        seq = self._seq(address)
        for guard in () if seq is None else lineage.guards(self._reader, seq):
            grain = self._reader.grain(guard)
            if grain is not None:
                yield grain.address

    def held(self, address: str) -> bool:
        """Whether somebody holds the grain."""
        seq = self._seq(address)
        return seq is not None and self._reader.row(HOLDS, SEQUENCE.pack(seq)) is not None

    def signers(self, address: str) -> tuple[str, ...]:
        """DIDs whose signature over the stored grain was verified: none in this version."""
        return ()

    def has_policy(self, scope: Scope | None = None) -> bool:
        """Whether any grain has a policy; not known, so perhaps."""
        return True

    def state(self, address: str) -> State:
        """What became of a grain."""
        seq = self._seq(address)
        return State() if seq is None else unpack(self._reader.row(STATES, SEQUENCE.pack(seq)))

    def _seq(self, address: str) -> int | None:
        return self._reader.find([bytes.fromhex(address)])[0]


def seq_of(reader: Reader, digest: bytes) -> int:
    """Return the number of a grain.

    Raises:
        NotFoundError: it is not in the store.
    """
    seq = reader.find([digest])[0]
    if seq is None:
        raise NotFoundError("no grain with this address is in the store", expected=digest.hex())
    return seq
