# SPDX-License-Identifier: Apache-2.0
"""The order of a record's keys, said only where it is not the one that comes about by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__all__ = ["Orders"]

_MANY: Final = 1_024  # orders of keys that are remembered


class Orders:
    """The orders in which the records of a format have their keys."""

    def __init__(self, orders: Mapping[str, Sequence[str]]) -> None:
        """Take those in which the format names them.

        Args:
            orders: by kind of record.
        """
        self._ranks = {
            kind: {name: i for i, name in enumerate(order)} for kind, order in orders.items()
        }
        # Most records have the same ones.
        self._known: dict[tuple[Any, ...], list[str] | None] = {}

    def said(
        self, kind: str, rebuilt: Mapping[str, Any], record: Mapping[str, Any]
    ) -> list[str] | None:
        """The order of a record's keys; None if it is the one that comes about.

        Args:
            kind: of what kind it is.
            rebuilt: the record as its grain's fields say it.
            record: as it came.
        """
        keys = (kind, tuple(rebuilt), tuple(record))
        try:
            return self._known[keys]
        except KeyError:
            if len(self._known) >= _MANY:
                self._known.clear()
            order = self._known[keys] = self._of(*keys)
            return order

    def _of(
        self, kind: str, rebuilt: tuple[str, ...], record: tuple[str, ...]
    ) -> list[str] | None:
        wanted = list(record)
        names = [key for key in rebuilt if key in record]
        if len(names) < len(wanted):
            names += [key for key in wanted if key not in rebuilt]
        return None if self.arranged(kind, names) == wanted else wanted

    def arranged(self, kind: str, names: Iterable[str]) -> list[str]:
        """Names in the order of the format; those that it does not know last, as they come."""
        rank = self._ranks[kind]
        return sorted(names, key=lambda name: rank.get(name, len(rank)))
