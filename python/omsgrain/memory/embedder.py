# SPDX-License-Identifier: Apache-2.0
"""The vectors of an agent's memory, from a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omsgrain.errors import RangeError, SchemaError
from omsgrain.search.vectors import Vector, pack

if TYPE_CHECKING:
    from omsgrain import GrainStore

Embed: TypeAlias = Callable[[list[str]], Sequence[Vector]]
"""Returns a vector for each of some texts. It can have ``model``, a name, and ``dimension``."""

BATCH: Final = 64
"""Texts of one call."""
_QUESTIONS: Final = 128
_FLOAT: Final = 4  # bytes
_MODEL: Final = "default"


class Embedder:
    """Asks a function for vectors in batches, checks them, and remembers those of questions."""

    def __init__(self, embed: Embed) -> None:
        if not callable(embed):
            expected = "a function from a list of texts to a list of vectors"
            raise SchemaError("not a function", field="/embed", expected=expected)
        # The name under which the store keeps the vectors.
        self.model: str = str(getattr(embed, "model", _MODEL))
        dimension = getattr(embed, "dimension", None)
        self._embed = embed
        self._bytes = None if dimension is None else _FLOAT * int(dimension)
        self._question = lru_cache(_QUESTIONS)(lambda text: self.vectors([text])[0])

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vectors of texts, as float32 in little-endian order."""
        found: list[bytes] = []
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            given = list(self._embed(batch))
            if len(given) != len(batch):
                raise SchemaError(
                    "embed returned another number of vectors",
                    field="/embed",
                    expected=str(len(batch)),
                    found=str(len(given)),
                )
            found += map(pack, given)
        for vector in found:
            self._bytes = self._bytes or len(vector)
            if len(vector) != self._bytes:
                raise RangeError(
                    "embed returned a vector of another dimension",
                    field="/embed",
                    expected=str(self._bytes // _FLOAT),
                    found=str(len(vector) // _FLOAT),
                )
        return found

    def question(self, store: GrainStore, text: str) -> dict[str, Any]:
        """Return the arguments of a search by meaning; none if the store has no such vectors."""
        vector = self._question(text)
        known = {(model.name, model.dimension) for model in store.vectors.models()}
        if (self.model, len(vector) // _FLOAT) not in known:
            return {}
        return {"vector": vector, "model": self.model}

    def reembed(self, store: GrainStore, texts: Sequence[tuple[str, str]]) -> int:
        """Store vectors for those of some addresses and texts that have none; return how many."""
        if self._bytes is None and (first := next((text for _, text in texts if text), None)):
            self.vectors([first])  # the dimension of the model, which may have changed
        missing = [
            (address, text)
            for address, text in texts
            if text and self._outdated(store.vectors.get(address).get(self.model))
        ]
        vectors = self.vectors([text for _, text in missing])
        pairs = zip((address for address, _ in missing), vectors, strict=True)
        if missing:
            store.vectors.add_many(pairs, model=self.model)
        return len(missing)

    def _outdated(self, vector: Sequence[float] | None) -> bool:
        if vector is None:
            return True
        return self._bytes is not None and len(vector) * _FLOAT != self._bytes
