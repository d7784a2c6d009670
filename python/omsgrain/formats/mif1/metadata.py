# SPDX-License-Identifier: Apache-2.0
"""What a document says of itself, counted anew from its records. Spec: MIF 1.0 §7.

A document that was imported is given back with the figures that it came with, right or wrong;
these are for exports of a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from omsgrain.formats import times

__all__ = ["Metadata"]


class Metadata:
    """Counts records as they come, and keeps none of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._nodes: set[str] = set()
        self._earliest: tuple[times.Instant, str] | None = None
        self._latest: tuple[times.Instant, str] | None = None

    def add(self, kind: str, record: dict[str, Any]) -> None:
        """Count one more."""
        self._counts[kind] += 1
        names = ("id",) if kind == "node" else ("source", "target") if kind == "edge" else ()
        self._nodes.update(str(record[name]) for name in names if name in record)
        if kind != "memory":
            return
        self._types[str(record.get("type"))] += 1
        text = str(record.get("created_at"))
        instant = times.parse(text, floating=True)
        if instant is None:
            return
        if self._earliest is None or instant < self._earliest[0]:
            self._earliest = instant, text
        if self._latest is None or instant > self._latest[0]:
            self._latest = instant, text

    def metadata(
        self, *, pii: bool = False, secrets: bool = False, redacted: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The ``metadata`` of the document.

        Args:
            pii: whether there was personal data.
            secrets: whether there were secrets.
            redacted: what was redacted.
        """
        found: dict[str, Any] = {
            "total_memories": self._counts["memory"],
            "total_todos": self._counts["todo"],
        }
        if self._earliest is not None and self._latest is not None:
            found["date_range"] = {"earliest": self._earliest[1], "latest": self._latest[1]}
        found["memory_types"] = dict(sorted(self._types.items()))
        found["privacy"] = {
            "pii_detected": pii,
            "secrets_detected": secrets,
            "redacted_fields": sorted(set(redacted)),
        }
        return found

    def graph(self) -> dict[str, Any]:
        """The ``graph`` of the document, without its arrays.

        A memory or todo that an edge leads to is a node, listed among the nodes or not.
        """
        return {
            "format": "adjacency_list",
            "node_count": len(self._nodes),
            "edge_count": self._counts["edge"],
        }
