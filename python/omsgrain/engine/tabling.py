# SPDX-License-Identifier: Apache-2.0
"""Grains as tables: to Arrow, to Parquet files and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from omsgrain import _core
from omsgrain.batch import OnError, decode_many
from omsgrain.engine.leaving import Leavers, Numbered
from omsgrain.engine.moving import Moving
from omsgrain.grain import bare
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.store import signatures
from omsgrain.store.base import Reader
from omsgrain.store.state import State, unpack
from omsgrain.store.tables import COUNTERS, SEQUENCE, STATES, Table, counter_of

if TYPE_CHECKING:
    from omsgrain.analytics.batches import Row
    from omsgrain.analytics.columns import Column
    from omsgrain.analytics.parquet import Written
    from omsgrain.exchange import ImportReport
    from omsgrain.privacy import Purpose

__all__ = ["Tabling"]

_SPREAD = 4  # numbers a grain, up to which it is quicker to walk the states than to look them up
_UNTOUCHED = State()


class Tabling(Moving):
    """The part of a GrainStore that makes tables of grains."""

    def to_arrow(
        self, *, columns: Iterable[str] | None = None, unsealed: bool = False, **filters: Any
    ) -> Any:
        """Return grains as a stream of Arrow batches, read from the store as they are taken.

        The columns are those of docs/analytics.md: the address and the blob, what became of the
        grain, and each field with the type that the registry gives it; what has no column of its
        own is JSON in ``extra``. Grains that are restricted, or may be kept no longer, are left
        out: a table is use.

        Args:
            columns: the names of those wanted, in that order; None for all. Without a column of a
                field no grain is decoded.
            unsealed: show what sealed grains say where the keys of the store open them. Without it
                their fields are null; blob and address are those of the sealed grain anyway.
            **filters: those of ``query``, answered by the index, with past grains unless
                ``current=True``; the column ``current`` tells them apart. Without any, all grains
                in order of arrival.

        Returns:
            A ``pyarrow.RecordBatchReader``, with batches of bounded size. What goes wrong while
            it is read is raised there.

        Raises:
            SchemaError: a column or filter that there is not.
            UnsupportedError: pyarrow is not installed, or sealed grains cannot be asked that.
        """
        from omsgrain.analytics.batches import batches
        from omsgrain.analytics.columns import arrow, chosen, schema

        asked = chosen(columns)
        form = schema(asked)
        leavers = self._leavers("transfer")
        rows = self._rows(_all_unless(filters), leavers, _Look.of(asked, unsealed))
        return arrow().RecordBatchReader.from_batches(form, batches(rows, asked))

    def export_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Iterable[str] | None = None,
        unsealed: bool = False,
        purpose: Purpose = "transfer",
        **filters: Any,
    ) -> Written:
        """Write grains to a Parquet file, by the rules of ``export_mg`` for what may leave.

        With the columns ``address`` and ``blob`` the file brings the same grains back.

        Args:
            path: the file; one that is there is replaced when all is written.
            columns: as for ``to_arrow``; None for all but how often grains were read here.
            unsealed: as for ``to_arrow``: the file then has in plain what the store keeps sealed.
            purpose: why, for the rules of presets and profiles.
            **filters: as for ``to_arrow``. What does not leave for a purpose is as for
                ``export_mg``.

        Raises:
            SchemaError: a column, filter or purpose that there is not.
            UnsupportedError: pyarrow is not installed; or a rule keeps a grain here: ``rule``
                names it, and nothing was written.
            StoreError: the file cannot be written.
        """
        from omsgrain.analytics import parquet
        from omsgrain.analytics.batches import batches
        from omsgrain.analytics.columns import chosen, schema

        asked = chosen(columns, counts=False)
        form = schema(asked)
        filters = _all_unless(filters)
        _, rules, leavers = self._leaving(filters, purpose)
        rows = self._rows(filters, leavers, _Look.of(asked, unsealed))
        written = parquet.write(path, form, batches(rows, asked))
        self._note_export(written.grains, purpose, rules, leavers)
        return replace(written, withheld=dict(leavers.withheld))

    def import_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        errors: OnError = "raise",
        allow_erased: bool = False,
    ) -> ImportReport:
        """Take in the grains of a Parquet file, once each blob was compared with its address.

        The blobs, envelopes and states are read, and no other column: a field that somebody
        changed in the table changes no grain. What the file says of states is a claim, as in a
        .mg file.

        Args:
            path: the file.
            errors: ``raise``: stop at the first refusal; ``collect``: go on, and list them.
            allow_erased: take in those, too, that were erased before.

        Raises:
            FormatError: it is no Parquet file, or damaged.
            SchemaError: it has no columns ``address`` and ``blob``.
            OmsError: with ``raise``, why a grain is refused; those before it stay.
            UnsupportedError: pyarrow is not installed.
        """
        from omsgrain.analytics.importing import import_parquet

        put, merge = self._taking_in(allow_erased)
        return import_parquet(path, put, merge, errors=errors)

    def _rows(self, filters: dict[str, Any], leavers: Leavers, look: _Look) -> Iterator[Row]:
        """The chosen grains, page by page, each page from one snapshot.

        The first page is read now: what cannot be asked is refused to who asks, and not to who
        reads the table.
        """
        pages = self._chosen(filters)
        first = next(pages, [])

        def rows() -> Iterator[Row]:
            for page in chain([first], pages):
                with self._store.read() as reader:
                    found = _looked_at(reader, leavers.of(page), look)
                yield from found

        return rows()


def _all_unless(filters: dict[str, Any]) -> dict[str, Any]:
    """Past grains too, unless it is said otherwise."""
    return {"current": None, **filters} if filters else {}


class _Look(NamedTuple):
    """What of a grain is looked at: what no column shows, is not read."""

    fields: bool
    counts: bool
    unsealed: bool

    @classmethod
    def of(cls, asked: Iterable[Column], unsealed: bool) -> _Look:
        from omsgrain.analytics.columns import COUNTS

        named = {column.name: column.field for column in asked}
        fields = any(field is not None for field in named.values())
        return cls(fields, not named.keys().isdisjoint(COUNTS), unsealed)


def _looked_at(reader: Reader, page: list[Numbered], look: _Look) -> list[Row]:
    """The rows of some grains; what can be done for all of them at once, is."""
    from omsgrain.analytics.batches import Row

    seqs, blobs = [seq for seq, _ in page], [blob for _, blob in page]
    states = _states(reader, seqs, look.counts)
    envelopes = [_envelopes(reader, *one) if one[1][1] & SIGNED_BIT else () for one in page]
    types: list[str | None] = [None] * len(page)
    fields: list[Mapping[str, Any] | None] = [None] * len(page)
    if look.fields:
        plain = [i for i, blob in enumerate(blobs) if not blob[1] & ENCRYPTED_BIT]
        for i, grain in zip(plain, decode_many([bare(blobs[i]) for i in plain]), strict=True):
            types[i], fields[i] = grain.type, grain.fields
        if look.unsealed and len(plain) < len(page):
            for i, (seq, blob) in enumerate(page):
                if blob[1] & ENCRYPTED_BIT and (opened := reader.grain(seq)) and not opened.sealed:
                    types[i], fields[i] = opened.type, opened.fields
    addresses = _core.address_many(blobs)
    return list(map(Row, seqs, addresses, blobs, envelopes, states, types, fields))


def _envelopes(reader: Reader, seq: int, blob: bytes) -> list[bytes]:
    # Those around what was sealed later are in the sealed bytes, and would show it.
    found = signatures.signatures(reader, seq)
    return [one.envelope for one in found if signatures.over(one, blob)]


def _states(reader: Reader, seqs: list[int], counts: bool) -> list[State]:
    """What became of some grains, without holds."""
    rows = _near(reader, STATES, seqs)
    found = {seq: unpack(row) for seq, row in rows.items()}
    if counts:
        for seq, row in _near(reader, COUNTERS, seqs).items():
            count, last = counter_of(row)
            state = found.get(seq, _UNTOUCHED)
            found[seq] = replace(state, access_count=count, last_accessed_at=last)
    return [found.get(seq, _UNTOUCHED) for seq in seqs]


def _near(reader: Reader, table: Table, seqs: list[int]) -> dict[int, bytes]:
    """The rows of some grains, of which nearly all have none."""
    first, last = min(seqs, default=1), max(seqs, default=0)
    if last - first > _SPREAD * len(seqs):
        asked = ((seq, reader.row(table, SEQUENCE.pack(seq))) for seq in seqs)
        return {seq: row for seq, row in asked if row is not None}
    end, after = SEQUENCE.pack(last), SEQUENCE.pack(first - 1)
    near = takewhile(lambda row: row[0] <= end, reader.rows(table, after))
    return {SEQUENCE.unpack(key)[0]: row for key, row in near}
