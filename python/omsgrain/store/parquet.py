# SPDX-License-Identifier: Apache-2.0
"""``store.parquet``: write grains to Parquet files, and import such files.

A file gets its name once it is complete and synced. An import trusts no column: each blob must
have the address in its row.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from omsgrain import _core
from omsgrain.batch import ItemError, OnError, stops
from omsgrain.container.layout import os_errors, pack_states, target_path
from omsgrain.container.read import blob_of
from omsgrain.counts import counted
from omsgrain.durable import NewFiles, file_path
from omsgrain.errors import FormatError, IntegrityError, OmsError, SchemaError
from omsgrain.store.arrow import NEEDED, arrow, batches, chosen, pages_of, schema
from omsgrain.store.context import StorePart
from omsgrain.store.export_filter import export_plan, note_export
from omsgrain.store.mg_files import Arrival, Batches, ImportReport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters


MAGIC = b"PAR1"
"""The first and last bytes of a Parquet file."""
GROUP_ROWS = 131_072
GROUP_BYTES = 64 << 20
"""Approximate bytes of a row group, which a reader must hold in memory."""
_READ = 1_000  # rows read at once
_MUST = ("address", "blob")


@dataclass(frozen=True, slots=True)
class WrittenParquet:
    """The result of writing a Parquet file.

    Attributes:
        path: the file.
        grains: number of grains.
        bytes: its size.
        withheld: how many chosen grains were withheld, by reason.
    """

    path: Path
    grains: int
    bytes: int
    withheld: dict[str, int] = field(default_factory=dict)

    __repr__ = counted


def write_file(path: str | os.PathLike[str], form: Any, batches: Iterable[Any]) -> WrittenParquet:
    """Write batches to a file compressed with zstd. An existing file is replaced at the end."""
    pa = arrow()
    import pyarrow.parquet as pq

    target = target_path(path)
    grains = 0
    with os_errors("write", target), NewFiles(replace=True) as files, files.open(target) as file:
        with pq.ParquetWriter(file, form, compression="zstd", write_page_checksum=True) as writer:
            for group in _groups(batches):
                table = pa.Table.from_batches(group, form)
                writer.write_table(table, row_group_size=GROUP_ROWS)
                grains += table.num_rows
        size = file.tell()
    return WrittenParquet(target, grains, size)


def _groups(batches: Iterable[Any]) -> Iterator[list[Any]]:
    group: list[Any] = []
    rows = size = 0
    for batch in batches:
        if group and (rows + batch.num_rows > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES):
            yield group
            group, rows, size = [], 0, 0
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if group:
        yield group


class ParquetRows(NamedTuple):
    """Rows of a file: the blob or the envelopes of each, and the claimed states.

    ``wrong`` are the rows whose blob does not match, by position.
    """

    grains: list[list[bytes]]
    states: dict[str, dict[str, Any]]
    wrong: dict[int, IntegrityError]


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file starts like a Parquet file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (FileNotFoundError, IsADirectoryError):
        return False


def read_file(path: str | os.PathLike[str]) -> Iterator[ParquetRows]:
    """Read the grains of a file page by page, and compare each with its address."""
    pa, path = arrow(), file_path(path)
    import pyarrow.parquet as pq

    with _damage(pa, path):
        # Prefetching would keep the blobs of all row groups in memory.
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
    with file:
        names = set(file.schema_arrow.names)
        if missing := [name for name in _MUST if name not in names]:
            text = "the file has no such column, so its grains cannot be imported"
            raise SchemaError(text, field=f"/{missing[0]}", expected="address and blob")
        needed = [name for name in NEEDED if name in names]
        source = file.iter_batches(batch_size=_READ, columns=needed)
        while True:
            with _damage(pa, path):
                batch = next(source, None)
                columns = {} if batch is None else batch.to_pydict()
            if batch is None:
                return
            yield _rows(columns, batch.num_rows)


@contextmanager
def _damage(pa: Any, path: Path) -> Iterator[None]:
    with os_errors("read", path):
        try:
            yield
        except (pa.ArrowException, ValueError, OverflowError):
            # Messages of Arrow can quote values, which may be personal data. Values of a time
            # column can exceed the range of Python's datetime.
            raise FormatError("not a Parquet file, or a damaged one") from None
        except OSError as error:
            if error.errno is not None:
                raise
            raise FormatError("not a Parquet file, or a damaged one") from None


def _rows(columns: dict[str, list[Any]], count: int) -> ParquetRows:
    nothing: list[Any] = [None] * count
    addresses, blobs = columns["address"], columns["blob"]
    if set(map(type, addresses)) - {str} or set(map(type, blobs)) - {bytes}:
        raise SchemaError("the column address must have texts, and blob bytes", field="/blob")
    if set(map(type, columns.get("envelopes", ()))) - {list, NoneType}:
        raise SchemaError("the column envelopes must have lists of bytes", field="/envelopes")
    found = ParquetRows([], {}, {})
    more = (columns.get(name, nothing) for name in NEEDED[2:])
    given = zip(addresses, _core.address_many(blobs), blobs, *more, strict=True)
    for i, (address, has, blob, envelopes, by, status) in enumerate(given):
        found.grains.append(list(envelopes) if envelopes else [blob])
        if has != address or (envelopes and any(_inside(one) != blob for one in envelopes)):
            found.wrong[i] = IntegrityError(
                "the blob does not match the address in its row",
                field="/blob",
                expected=address[:64],
            )
        elif by is not None or status not in (None, "unverified"):
            claimed = {"superseded_by": by, "verification_status": status}
            found.states[address] = {name: said for name, said in claimed.items() if said}
    pack_states(found.states)  # refuses an invalid state
    return found


def _inside(envelope: object) -> bytes | None:
    with suppress(OmsError):
        return blob_of(envelope) if isinstance(envelope, bytes) else None
    return None


class Parquet(StorePart):
    """``store.parquet``: export and import Parquet files."""

    __slots__ = ()

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Iterable[str] | None = None,
        unsealed: bool = False,
        purpose: Purpose = "transfer",
        **filters: Unpack[Filters],
    ) -> WrittenParquet:
        """Write grains to a Parquet file, withholding the same grains as ``export_mg``.

        A file with the columns ``address`` and ``blob`` can be imported by ``read``.

        Args:
            path: the file. An existing file is replaced once the new one is complete.
            columns: as for ``to_arrow``; None for all except read counts.
            unsealed: decrypt the fields of encrypted grains: the file then has them in plain text.
            purpose: as for ``export_mg``.
            **filters: as for ``to_arrow``.

        Raises:
            SchemaError: a column, filter or purpose is unknown.
            UnsupportedError: pyarrow is not installed; or a rule, named in ``rule``, forbids the
                export. Nothing was written.
            StoreError: the file cannot be written.
        """
        context = self._context
        asked = chosen(columns, counts=False)
        form = schema(asked)
        _, rules, leavers = export_plan(context, filters, purpose)
        pages = pages_of(context, filters, leavers, asked, unsealed)
        written = write_file(path, form, batches(pages, asked))
        note_export(context, {"grains": written.grains}, purpose, rules, leavers.withheld)
        return replace(written, withheld=dict(leavers.withheld))

    def read(
        self,
        path: str | os.PathLike[str],
        *,
        errors: OnError = "raise",
        allow_erased: bool = False,
    ) -> ImportReport:
        """Import the grains of a Parquet file after comparing each blob with its address.

        Only blobs, envelopes and states are read: a changed value in another column has no effect.
        States are claims, as in a .mg file. The file is read twice. ``index`` of an error is the
        row number, from 0.

        Args:
            path: the file.
            errors: "raise" stops at the first rejected grain; "collect" skips and reports them.
            allow_erased: import grains even if they were erased before.

        Raises:
            FormatError: the file is not a Parquet file, or is damaged.
            SchemaError: the file lacks the columns ``address`` and ``blob``.
            OmsError: with "raise", the first rejected grain; the grains before it stay.
            UnsupportedError: pyarrow is not installed.
        """
        arrival = Arrival(self._context, stop=stops(errors), allow_erased=allow_erased)
        bad: dict[int, OmsError] = {}
        claims: dict[str, dict[str, Any]] = {}
        first = 0
        for rows in read_file(path):
            bad.update((first + i, error) for i, error in rows.wrong.items())
            if arrival.stop and bad:
                raise bad[min(bad)]
            claims.update(rows.states)
            first += len(rows.grains)
        refused = [ItemError(i, None, error) for i, error in sorted(bad.items())]
        return arrival.take(_batches(path, bad), claims, refused)


def _batches(path: str | os.PathLike[str], bad: Container[int]) -> Batches:
    first = 0
    for rows in read_file(path):
        positions: list[int] = []
        grains: list[bytes] = []
        for number, same in enumerate(rows.grains, first):
            if number not in bad:
                positions += [number] * len(same)
                grains += same
        first += len(rows.grains)
        yield positions, grains
