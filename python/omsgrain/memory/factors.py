# SPDX-License-Identifier: Apache-2.0
"""Factors of a recall beside the match: the share of vectors, the age and the importance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from omsgrain.errors import RangeError

if TYPE_CHECKING:
    from omsgrain.query.query import Hit

_DAY: Final = 86_400_000  # ms
_UNSAID: Final = 0.5  # the importance of a memory that has none


class Factors(NamedTuple):
    """Factors of a recall; ``MemoryView.recall`` explains them."""

    vector_weight: float | None = None
    half_life_days: float | None = None
    importance_weight: float = 0.0

    def check(self) -> None:
        """Check the numbers, except that of the vector, which a search checks."""
        days = self.half_life_days
        if days is not None and not (days > 0 and math.isfinite(days)):
            raise RangeError(
                "half_life_days is out of range", field="/half_life_days", expected="days above 0"
            )
        if not 0 <= self.importance_weight <= 1:
            raise RangeError(
                "importance_weight is out of range",
                field="/importance_weight",
                expected="0 to 1",
            )

    @property
    def reorder(self) -> bool:
        """Whether they change the order of a search."""
        return self.half_life_days is not None or self.importance_weight > 0

    def ranked(self, hits: Sequence[Hit]) -> list[tuple[Hit, float]]:
        """Return the results of a search in the new order, each with its score, the best with 1.

        Ages count from the newest of them: from another time, all would have the same factor more.
        """
        newest = max((hit.grain["created_at"] for hit in hits), default=0)
        scored = [(hit, (hit.score or 0.0) * self._factor(hit, newest)) for hit in hits]
        scored.sort(key=lambda one: -one[1])
        best = scored[0][1] if scored else 0.0
        return [(hit, score / best if best else score) for hit, score in scored]

    def _factor(self, hit: Hit, newest: int) -> float:
        factor = 1.0
        if self.half_life_days is not None:
            factor = 0.5 ** ((newest - hit.grain["created_at"]) / _DAY / self.half_life_days)
        importance = float(hit.grain.get("importance", _UNSAID))
        return factor * (1 - self.importance_weight * (1 - importance))


PLAIN: Final = Factors()
"""The match alone counts."""
