# SPDX-License-Identifier: Apache-2.0
"""What a policy may ask about the grains around the one that is acted on, answered by a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from omsgrain import _core
from omsgrain.engine import lineage
from omsgrain.errors import ErasedError, KeyMissingError, NotFoundError
from omsgrain.grain import Grain
from omsgrain.index.history import naming
from omsgrain.index.policy import Scope
from omsgrain.store import signatures
from omsgrain.store.base import Reader, Unsealing
from omsgrain.store.state import State, unpack
from omsgrain.store.tables import HOLDS, SEQUENCE, STATES

__all__ = ["StoreWorld", "address_of", "destroyed", "seq_of", "stored_digest"]

_NOBODY: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class StoreWorld:
    """The grains of one snapshot, by address.

    Args:
        reader: the snapshot; in a write transaction it sees what was written before in it.
        new: grains that are about to be put, which count as there.
        signed: who has signed them, as was verified, by address.
    """

    __slots__ = ("_new", "_reader", "_signed")

    def __init__(
        self, reader: Reader, *new: Grain, signed: Mapping[str, tuple[str, ...]] = _NOBODY
    ) -> None:
        self._reader = reader
        self._signed = signed
        self._new = {grain.address: grain for grain in new}

    def grain(self, address: str) -> Grain | None:
        """Return the grain at an address; None if it is not here, or was erased.

        Raises:
            KeyMissingError: it is sealed, and what its policy says cannot be read.
        """
        if address in self._new:
            return self._new[address]
        seq = self._seq(address)
        grain = None if seq is None else self._reader.grain(seq)
        if seq is not None and grain is not None and grain.sealed:
            if destroyed(self._reader, seq):
                return None  # it allows and forbids nothing any more
            raise KeyMissingError(
                "the grain is sealed: without its key nobody can tell what its policy allows"
            )
        return grain

    def children(self, address: str) -> Iterator[str]:
        """The grains that are derived from this one."""
        for _, grain in naming(self._reader, address, "derived_from"):
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
        """DIDs whose signature over a grain was verified, sorted."""
        seq = self._seq(address)
        found = () if seq is None else signatures.signers(self._reader, seq)
        return tuple(sorted({*found, *self._signed.get(address, ())}))

    def has_policy(self, scope: Scope | None = None) -> bool:
        """Whether any grain has a policy; not known, so perhaps."""
        return True

    def state(self, address: str) -> State:
        """What became of a grain."""
        seq = self._seq(address)
        return State() if seq is None else unpack(self._reader.row(STATES, SEQUENCE.pack(seq)))

    def _seq(self, address: str) -> int | None:
        return self._reader.find([bytes.fromhex(address)])[0]


def destroyed(reader: Reader, seq: int) -> bool:
    """Whether the key that sealed a grain is known to be destroyed, so that nobody can read it."""
    if not isinstance(reader, Unsealing):
        return False
    try:
        reader.keys_of(seq)
    except ErasedError:
        return True
    except KeyMissingError:
        pass
    return False


def address_of(reader: Reader, seq: int) -> str:
    """Return the address that a grain is stored under, whichever of its two it was found by.

    Raises:
        NotFoundError: it is not in the store.
    """
    blob = reader.blob_at(seq)
    if blob is None:
        raise NotFoundError("no grain with this number is in the store")
    return _core.address(blob)


def stored_digest(reader: Reader, digest: bytes) -> bytes:
    """Return the digest that a grain is stored under, given its stored or its plain one.

    Raises:
        NotFoundError: it is not in the store.
    """
    return bytes.fromhex(address_of(reader, seq_of(reader, digest)))


def seq_of(reader: Reader, digest: bytes) -> int:
    """Return the number of a grain.

    Raises:
        NotFoundError: it is not in the store.
    """
    seq = reader.find([digest])[0]
    if seq is None:
        raise NotFoundError("no grain with this address is in the store", expected=digest.hex())
    return seq
