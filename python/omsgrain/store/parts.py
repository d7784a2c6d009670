# SPDX-License-Identifier: Apache-2.0
"""The parts of a store: ``store.holds``, ``store.privacy`` and the others, loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omsgrain.store.context import StorePart

if TYPE_CHECKING:
    from omsgrain.storage.audit.trail import AuditLog
    from omsgrain.store.consumers import Consumers
    from omsgrain.store.graph import GrainGraph
    from omsgrain.store.holds import Holds
    from omsgrain.store.maintenance import Maintenance
    from omsgrain.store.parquet import Parquet
    from omsgrain.store.privacy.privacy import Privacy
    from omsgrain.store.reviews import Reviews
    from omsgrain.store.trust import GrainTrust
    from omsgrain.store.vectors import Vectors


class StoreParts(StorePart):
    """What a store has beside its verbs."""

    __slots__ = ()

    @property
    def audit(self) -> AuditLog:
        """The audit trail: who did what, each entry bound to all before it."""
        from omsgrain.storage.audit.trail import AuditLog

        return AuditLog(self._context.storage)

    @property
    def consumers(self) -> Consumers:
        """The positions of consumers of ``changes``."""
        from omsgrain.store.consumers import Consumers

        return Consumers(self._context)

    @property
    def graph(self) -> GrainGraph:
        """Versions, origins, threads, goals and duplicates of grains."""
        from omsgrain.store.graph import GrainGraph

        return GrainGraph(self._context)

    @property
    def holds(self) -> Holds:
        """Orders that keep grains from any change."""
        from omsgrain.store.holds import Holds

        return Holds(self._context)

    @property
    def maintenance(self) -> Maintenance:
        """Check, rebuild, compact and back up the store."""
        from omsgrain.store.maintenance import Maintenance

        return Maintenance(self._context)

    @property
    def parquet(self) -> Parquet:
        """Grains as Parquet files."""
        from omsgrain.store.parquet import Parquet

        return Parquet(self._context)

    @property
    def privacy(self) -> Privacy:
        """Report, restrict and erase what the store has about a person."""
        from omsgrain.store.privacy.privacy import Privacy

        return Privacy(self._context)

    @property
    def reviews(self) -> Reviews:
        """Changes that wait for a person to look at them."""
        from omsgrain.store.reviews import Reviews

        return Reviews(self._context)

    @property
    def trust(self) -> GrainTrust:
        """Signatures of grains, and their verification status."""
        from omsgrain.store.trust import GrainTrust

        return GrainTrust(self._context)

    @property
    def vectors(self) -> Vectors:
        """The embedding vectors of grains."""
        from omsgrain.store.vectors import Vectors

        return Vectors(self._context)
