# SPDX-License-Identifier: Apache-2.0
"""Carrying grains from store to store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omsgrain.batch import ItemError, OnError
from omsgrain.engine.finding import Finding
from omsgrain.engine.putting import Putting
from omsgrain.store.base import entries

if TYPE_CHECKING:
    from omsgrain.container import Written
    from omsgrain.container.layout import Codec
    from omsgrain.exchange import ImportReport

__all__ = ["Moving"]


class Moving(Finding, Putting):
    """The part of a GrainStore that writes and reads .mg files."""

    def export_mg(
        self,
        path: str | os.PathLike[str],
        *,
        codec: Codec = "none",
        sort: bool = False,
        **filters: Any,
    ) -> Written:
        """Write grains to a .mg file, or to several if one cannot hold them.

        Args:
            path: the file; one that is there is replaced when all is written.
            codec: "none", "zstd" or "lz4".
            sort: by created_at instead of arrival.
            **filters: those of ``query``; without any, all grains.

        Raises:
            IntegrityError: a stored grain is damaged.
            StoreError: the file cannot be written.

        Spec: OMS §11
        """
        from omsgrain.exchange import export_mg

        return export_mg(path, self._blobs(filters), codec=codec, sort=sort)

    def _blobs(self, filters: dict[str, Any]) -> Iterator[bytes]:
        if not filters:
            yield from (entry.blob for entry in entries(self._store))
            return
        page = self.query(**filters, limit=1_000)
        while True:
            yield from (hit.grain.blob for hit in page.results)
            if page.next_cursor is None:
                return
            page = self.query(**filters, limit=1_000, cursor=page.next_cursor)

    def import_mg(
        self, path: str | os.PathLike[str], *, errors: OnError = "raise"
    ) -> ImportReport:
        """Take in the grains of a .mg file, or of all its parts, after verifying every byte.

        Raises:
            OmsError: what is wrong with the file, or with ``raise`` with a grain; nothing was
                stored then.
            StoreError: read-only or full; what was stored by then stays, and the import can be
                run again.

        Spec: OMS §11
        """
        from omsgrain.exchange import import_mg

        def put(blobs: list[bytes]) -> tuple[int, int, list[ItemError]]:
            report = self.put_many(blobs, errors="collect", batch_size=len(blobs))
            return report.stored, report.duplicates, report.errors

        return import_mg(path, put, errors=errors)
