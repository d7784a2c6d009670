# SPDX-License-Identifier: Apache-2.0
"""The embeddings of a bundle as vectors of the store: kept under their model, never made anew.

What cannot be kept is dropped and told; the chunks stay. Spec: AIMEM §2.7, §5.5
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from omsgrain.engine.sources import Snapshot
from omsgrain.formats.aimem import embedding
from omsgrain.formats.aimem.rules import WARNINGS
from omsgrain.formats.problems import Problem
from omsgrain.search.vectors import DIMENSIONS

__all__ = ["Embeddings"]

_RULE = "unsupported_model"
_ZERO = "zero_embedding"
_FLOAT = 4


class Embeddings:
    """What becomes of the embeddings of one bundle.

    Args:
        envelope: of the bundle; it names the model.
        models: those that are kept; None: all.
    """

    def __init__(self, envelope: Mapping[str, Any], models: Collection[str] | None) -> None:
        named = envelope.get("embedding_model")
        self._model = named if isinstance(named, str) else ""
        self._wanted = models is None or self._model in models
        self._dropped: dict[tuple[str, str, str], None] = {}

    def kept(self, chunk: Mapping[str, Any]) -> tuple[str, bytes] | None:
        """Return the vector that the store keeps of a checked chunk's embedding, or None."""
        text = chunk.get("embedding")
        data = embedding.decode(text) if isinstance(text, str) else None
        if data is None:
            return None
        if not self._wanted:
            self._drop("a model that is kept", self._model)
            return None
        size = len(data) // _FLOAT
        if not 0 < size <= DIMENSIONS:
            self._drop(f"1 to {DIMENSIONS} values", f"{size} values")
            return None
        if embedding.is_zero(data):
            self._drop("a number that is not zero", "zeros", _ZERO)
            return None
        return self._model, data

    def is_other(self, snapshot: Snapshot, address: str, vector: tuple[str, bytes]) -> bool | None:
        """Whether a grain has another vector of the model; None if it has none."""
        before = snapshot.vector(address, vector[0])
        return None if before is None else before != vector[1]

    def unkept(self) -> None:
        """A vector was given to the store, which could not keep it: one model too many, say."""
        self._drop("a vector that can be kept", self._model)

    def warnings(self) -> list[Problem]:
        """What was dropped, each once."""
        return [
            Problem(rule, "/embedding_model", WARNINGS[rule].says, expected, found)
            for rule, expected, found in self._dropped
        ]

    def _drop(self, expected: str, found: str, rule: str = _RULE) -> None:
        self._dropped[rule, expected, found] = None
