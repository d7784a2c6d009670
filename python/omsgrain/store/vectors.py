# SPDX-License-Identifier: Apache-2.0
"""``store.vectors``: embedding vectors of grains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from omsgrain import _core
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.search import vectors
from omsgrain.storage.base import Reader, Writer
from omsgrain.store.context import Context, StorePart, seq_of, stored_digest

if TYPE_CHECKING:
    from omsgrain.crypto.seal import Sealer
    from omsgrain.search.vectors import Model, Vector

    ModelVectors: TypeAlias = Mapping[str, Vector]
    """The vectors of a grain by model name."""


class Vectors(StorePart):
    """``store.vectors``: embedding vectors of grains."""

    __slots__ = ()

    def add(self, address: str, vector: Vector, *, model: str) -> None:
        """Store a vector for a grain. It replaces the grain's vector of the same model.

        The vector of an encrypted grain is encrypted too: ``get`` returns it, but searches do not
        find it.

        Args:
            address: the grain.
            vector: floats, or the bytes of float32 in little-endian order.
            model: the name of the model. Vectors of different models or lengths are never
                compared.

        Raises:
            NotFoundError: the grain is not in the store.
            SchemaError, RangeError: the vector is invalid.
            StoreError: the store is read-only, full or damaged.
        """
        self.add_many([(address, vector)], model=model)

    def add_many(self, items: Iterable[tuple[str, Vector]], *, model: str) -> None:
        """Store the vectors of many grains in one transaction: all of them, or none.

        Args:
            items: pairs of a grain's address and its vector.
            model: the name of the model.

        Raises:
            NotFoundError, SchemaError, RangeError, StoreError: as for ``add``. Nothing was stored.
        """
        context = self._context
        given = [(_core.parse_address(address), {model: vector}) for address, vector in items]
        context.storage.write(lambda writer: add_vectors(context, writer, given))

    def get(self, address: str) -> dict[str, Sequence[float]]:
        """Return the vectors of a grain by model name, with the stored values.

        Args:
            address: the grain.

        Raises:
            NotFoundError: the grain is not in the store.
            KeyMissingError, ErasedError: the grain is encrypted, and its key is missing or was
                destroyed.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return vectors_at(reader, seq_of(reader, digest))

    def models(self) -> list[Model]:
        """Return the models whose vectors are stored, with their dimensions."""
        with self._context.storage.read() as reader:
            return vectors.models(reader)


def add_vectors(
    context: Context, writer: Writer, items: Iterable[tuple[bytes, ModelVectors | None]]
) -> None:
    """Store the vectors of some grains, and note those that changed in the audit trail."""
    changed = []
    for digest, own in items:
        before = writer.last_seq()
        for model, vector in (own or {}).items():
            add_vector(writer, digest, vector, model)
        if writer.last_seq() > before:
            changed.append(stored_digest(writer, digest))
    if changed:
        context.note(writer, "vector", changed)


def add_vector(writer: Writer, digest: bytes, vector: Vector, model: str) -> None:
    """Store a vector for a grain, encrypted if the grain is."""
    seq = seq_of(writer, digest)
    sealer = sealer_of(writer, seq)
    vectors.add(writer, seq, vector, model, None if sealer is None else sealer.seal_vector)


def vectors_at(reader: Reader, seq: int) -> dict[str, Sequence[float]]:
    """Return the vectors of a grain by model name, decrypted."""
    sealer = sealer_of(reader, seq)
    unseal = None if sealer is None else sealer.unseal_vector
    return dict(vectors.vectors_of(reader, seq, unseal))


def sealer_of(reader: Reader, seq: int) -> Sealer | None:
    """Return the sealer for a grain's vectors; None for a plain grain or without keys."""
    blob = reader.blob_at(seq)
    if blob is None or not blob[1] & ENCRYPTED_BIT:
        return None
    keys = reader.keys_of(seq)
    if keys is None:
        return None
    from omsgrain.crypto.seal import Sealer

    return Sealer(keys.vector)
