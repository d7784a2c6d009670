# SPDX-License-Identifier: Apache-2.0
"""Carrying grains, and what became of them, from store to store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from omsgrain.batch import ItemError, OnError
from omsgrain.engine import leaving, merging
from omsgrain.engine.changing import Changing
from omsgrain.engine.finding import Finding
from omsgrain.engine.putting import Putting
from omsgrain.errors import SchemaError
from omsgrain.grain import Grain
from omsgrain.store.base import Writer, entries
from omsgrain.store.tables import SEQUENCE, STATES

if TYPE_CHECKING:
    from omsgrain.container import Written
    from omsgrain.container.layout import Codec
    from omsgrain.exchange import Claim, ImportReport, Merged
    from omsgrain.privacy import Purpose

__all__ = ["Moving"]

_PAGE = 1_000


class Moving(Finding, Putting, Changing):
    """The part of a GrainStore that writes and reads .mg files."""

    def export_mg(
        self,
        path: str | os.PathLike[str],
        *,
        codec: Codec = "none",
        sort: bool = False,
        purpose: Purpose = "transfer",
        **filters: Any,
    ) -> Written:
        """Write grains to a .mg file, or to several if one cannot hold them.

        What became of them (superseded by which, until when, verification) goes along in the
        manifest.

        Args:
            path: the file; one that is there is replaced when all is written.
            codec: "none", "zstd" or "lz4".
            sort: by created_at instead of arrival.
            purpose: why, for the rules of presets and profiles: ``move`` to another store of the
                same house, ``access`` by the person it is about, ``transfer``, or ``sale``.
            **filters: those of ``query``, with past grains unless ``current=True``; without any,
                all grains.

        Raises:
            IntegrityError: a stored grain is damaged.
            UnsupportedError: a rule of a preset or of a profile keeps a grain here; ``rule`` names
                it, and nothing was written.
            StoreError: the file cannot be written.

        Spec: OMS §11
        """
        from omsgrain.exchange import export_mg

        if purpose not in ("move", "access", "transfer", "sale"):
            raise SchemaError(
                "no such purpose", field="/purpose", expected="move, access, transfer or sale"
            )
        filters = {"current": None, **filters} if filters else {}
        states: dict[str, Mapping[str, Any]] = {}
        rules: set[str] = set()
        for grain in self._marked(filters):
            state = self.state(grain.address)
            rules.update(leaving.check(self._settings, grain, state.held, purpose))
            if told := leaving.told(state):
                states[grain.address] = told
        written = export_mg(path, self._blobs(filters), states, codec=codec, sort=sort)
        if not self._store.readonly:
            told_of: dict[str, int | str] = {"grains": written.grains, "purpose": purpose}
            if rules:
                told_of["review"] = ",".join(sorted(rules))[:256]
            self._store.write(lambda w: self._note(w, "export", [], details=told_of))
        return written

    def _marked(self, filters: dict[str, Any]) -> Iterator[Grain]:
        """The chosen grains that have a state, or that a rule may keep here."""
        if filters or self._settings.preset is not None:
            yield from map(Grain, self._blobs(filters))
            return
        with self._store.read() as reader:
            seqs = {SEQUENCE.unpack(key)[0] for key, _ in reader.rows(STATES)}
            seqs |= leaving.under_rules(reader)
        for seq in sorted(seqs):
            with self._store.read() as reader:
                blob = reader.blob_at(seq)
            if blob is not None:
                yield Grain(blob)

    def _blobs(self, filters: dict[str, Any]) -> Iterator[bytes]:
        if not filters:
            yield from (entry.blob for entry in entries(self._store))
            return
        cursor = None
        while True:
            page = self.query(**filters, limit=_PAGE, cursor=cursor, scan=True)
            yield from (hit.grain.blob for hit in page.results)
            cursor = page.next_cursor
            if cursor is None:
                return

    def import_mg(
        self, path: str | os.PathLike[str], *, errors: OnError = "raise"
    ) -> ImportReport:
        """Take in the grains of a .mg file, or of all its parts, after verifying every byte.

        What the file says of their state is a claim. That a grain was superseded is taken over
        where the grain that did so is there and the policies allow it; a verification is never
        raised by a claim, and counts of reads stay where they were counted.

        Raises:
            OmsError: what is wrong with the file; nothing was stored then. With ``raise``, why
                the store refuses a grain; those before it stay, with their states.
            StoreError: read-only or full; what was stored by then stays, and the import can be
                run again.

        Spec: OMS §11
        """
        from omsgrain.exchange import import_mg

        def put(blobs: list[bytes]) -> tuple[int, int, list[ItemError]]:
            report = self.put_many(blobs, errors="collect", batch_size=len(blobs))
            return report.stored, report.duplicates, report.errors

        def merge(claims: list[Claim]) -> Merged:
            return self._store.write(
                lambda writer: merging.merge(
                    writer, self._settings, claims, partial(noted, writer)
                )
            )

        def noted(writer: Writer, operation: str, digests: list[bytes]) -> None:
            self._note(writer, operation, digests, reason_code="import")

        return import_mg(path, put, merge, errors=errors)
