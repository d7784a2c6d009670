# SPDX-License-Identifier: Apache-2.0
"""Read grains by address or in storage order, verify them, and follow the change feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.batch import ItemError, OnError, VerifyReport, stops
from omsgrain.errors import IntegrityError, OmsError, SchemaError, StoreError
from omsgrain.grain import Grain, bare
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import records
from omsgrain.storage.base import PAGE_GRAINS, ScannedBlob, damaged, entries, pages, stored
from omsgrain.storage.tables import (
    DELETED,
    EMBEDDED,
    EVENTS,
    HELD,
    LONGEST_KEY,
    META,
    RELEASED,
    RESTRICTED,
    SEQUENCE,
    SIGNED,
    SUPERSEDED,
    VERIFIED,
    event_of,
)
from omsgrain.store.context import Context, StorePart, absent

if TYPE_CHECKING:
    from omsgrain.query.filters import Filters
    from omsgrain.query.query import Order, Page

_NOTHING = b""
_BATCHES = 16  # of removed grains, each up to thousands
POSITION_PREFIX = b"position."
"""Prefix of the names of rows with a position."""

_KINDS = {
    SUPERSEDED: "supersede",
    VERIFIED: "verify",
    DELETED: "delete",
    HELD: "hold",
    RELEASED: "release",
    RESTRICTED: "restrict",
    EMBEDDED: "vector",
    SIGNED: "sign",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change in a store.

    Attributes:
        seq: its number. Numbers rise, with gaps.
        kind: ``put``, ``supersede`` (the grain was superseded), ``verify`` (its verification
            status changed), ``vector`` (it got a vector), ``sign`` (it got another signature),
            ``hold``, ``release``, ``restrict``, ``delete``, or ``remove`` (an erasure or the end
            of a retention removed grains). Later versions may add kinds.
        address: the grain; after an erasure a mark in its place; empty for ``remove``.
        removed: for ``remove``, the ranges of the ``put`` changes whose grains are gone: the
            first and the last ``seq`` of each. Those of a bounded history may cover other
            changes too, and repeat what an earlier ``remove`` said.
    """

    seq: int
    kind: str
    address: str
    removed: tuple[tuple[int, int], ...] = ()


def get_many(context: Context, addresses: Iterable[str]) -> list[Grain]:
    asked = list(addresses)
    grains: list[Grain] = []
    for start in range(0, len(asked), PAGE_GRAINS):
        found_at_once = context.get_many(asked[start : start + PAGE_GRAINS])
        if found_at_once is not None:
            grains += found_at_once
            continue
        page = [_core.parse_address(address) for address in asked[start : start + PAGE_GRAINS]]
        with context.storage.read() as reader:
            found = reader.named_many(page)
        for digest, grain in zip(page, found, strict=False):  # which ends at one that is absent
            if grain is None:
                raise absent(digest)
            grains.append(grain)
        context.count_reads(page)
    return grains


def iterate(context: Context) -> Iterator[Grain]:
    for entry in entries(context.storage):
        if not entry.blob[1] & ENCRYPTED_BIT:
            yield stored(entry.blob)
            continue
        with context.storage.read() as reader:
            grain = reader.grain(entry.seq)
        if grain is not None:
            yield grain


def changes(context: Context, since: int = 0) -> Iterator[Change]:
    since = max(since, 0)
    with context.storage.read() as reader:
        last = reader.last_seq()
    if since >= last:  # also if it does not fit a sequence number
        return
    puts = (
        Change(entry.seq, "put", entry.digest.hex()) for entry in entries(context.storage, since)
    )
    events, batches = _events(context, since), _removals(context, since)
    for change in merge(puts, events, batches, key=lambda change: change.seq):
        if change.seq > last:  # a change from after the start
            return
        yield change


def _events(context: Context, after: int) -> Iterator[Change]:
    while True:
        with context.storage.read() as reader:
            page = list(islice(reader.rows(EVENTS, SEQUENCE.pack(after)), PAGE_GRAINS))
        for key, row in page:
            (after,) = SEQUENCE.unpack(key)
            kind, _, digest = event_of(row)
            yield Change(after, _KINDS.get(kind, "other"), digest.hex())
        if len(page) < PAGE_GRAINS:
            return


def _removals(context: Context, after: int) -> Iterator[Change]:
    while True:
        with context.storage.read() as reader:
            page = list(islice(records.removal_batches(reader, after), _BATCHES))
        for after, ranges in page:
            yield Change(after, "remove", "", tuple(ranges))
        if len(page) < _BATCHES:
            return


def query(
    context: Context,
    ask: Callable[..., Page],
    filters: Filters,
    order: Order,
    limit: int,
    cursor: str | None,
    count: bool,
    explain: bool,
    scan: bool,
) -> Page:
    """Answer a query by the core if one list of the index has all of it; else on a snapshot."""
    from omsgrain.query import query as queries
    from omsgrain.query.filters import conditions

    asked = conditions(filters, context.settings.clock)
    if cursor is None and not (count or explain or context.is_overdue()):
        page = queries.first_page(context.page, asked, order, limit, ask)
        if page is not None:
            return page
    with context.storage.read() as reader:
        page = queries.run(
            reader,
            asked,
            order=order,
            limit=limit,
            cursor=cursor,
            count=count,
            explain=explain,
            scan=scan,
            ask=ask,
            clock=context.settings.clock,
        )
    context.count_reads([hit.address for hit in page.results])
    return page


def latest(context: Context, per: str, limit: int, scan: bool, filters: Filters) -> list[Grain]:
    from omsgrain.query import latest as newest
    from omsgrain.query.filters import conditions
    from omsgrain.query.where import path_of

    clock = context.settings.clock
    try:
        path = path_of(per)
    except SchemaError as error:
        error.field = "/per"
        raise
    asked = conditions(filters, clock)
    with context.storage.read() as reader:
        found = newest.latest(reader, asked, path, limit=limit, scan=scan, clock=clock)
    context.count_reads([grain.address for _, grain in found])
    return [grain for _, grain in found]


def verify(context: Context, errors: OnError) -> VerifyReport:
    stop = stops(errors)
    verified = 0
    bad: list[ItemError] = []
    for page in pages(context.storage):
        wrong = _wrong(context, page)
        wrong |= {i: damaged(entry) for i, entry in enumerate(page) if not entry.sound}
        bad += [ItemError(page[i].seq, None, wrong[i]) for i in sorted(wrong)]
        if stop and bad:
            raise bad[0].error
        verified += len(page) - len(wrong)
    return VerifyReport(verified, bad)


def _wrong(context: Context, page: Sequence[ScannedBlob]) -> dict[int, OmsError]:
    """Return the errors of grains by position; encrypted grains are decrypted if possible."""
    blobs = [bare(entry.blob) for entry in page]
    sealed = [i for i, entry in enumerate(page) if entry.blob[1] & ENCRYPTED_BIT]
    unopened: dict[int, OmsError] = {}
    if sealed:
        with context.storage.read() as reader:
            for i in sealed:
                blobs[i] = _NOTHING
                try:
                    grain = reader.grain(page[i].seq)
                except StoreError:
                    raise
                except OmsError as error:
                    unopened[i] = error
                    continue
                if grain is not None and not grain.sealed:
                    blobs[i] = bare(grain.blob)
    checked = [i for i, blob in enumerate(blobs) if blob is not _NOTHING]
    _, wrong = _core.check_many([blobs[i] for i in checked])
    return unopened | {checked[n]: error for n, error in wrong}


class Consumers(StorePart):
    """``store.consumers``: the position of each consumer of ``changes``.

    It is kept in the store itself: after a restore from a backup, the store assigns sequence
    numbers again, and a position outside the store would be wrong.
    """

    __slots__ = ()

    def position(self, name: str) -> int:
        """Return the ``seq`` of the last change that a consumer has processed, or 0.

        Args:
            name: the consumer's name.

        Raises:
            SchemaError: the name is invalid.
            IntegrityError: the row is damaged.
        """
        key = _key(name)
        with self._context.storage.read() as reader:
            row = reader.row(META, key)
        if row is None:
            return 0
        if len(row) != SEQUENCE.size:
            raise IntegrityError("the row with this consumer's position is damaged")
        return int(SEQUENCE.unpack(row)[0])

    def set_position(self, name: str, seq: int) -> None:
        """Store the position of a consumer durably.

        Args:
            name: the consumer's name.
            seq: the ``seq`` of the last change that it has processed.

        Raises:
            SchemaError: the name is invalid, or the store has no such sequence number.
            StoreError: the store cannot be written.
        """
        key = _key(name)
        with self._context.storage.read() as reader:
            last = reader.last_seq()
        if type(seq) is not int or not 0 <= seq <= last:
            raise SchemaError("no change has this number", field="/seq", expected=f"0 to {last}")
        self._context.storage.write(lambda writer: writer.set_row(META, key, SEQUENCE.pack(seq)))


def _key(name: str) -> bytes:
    text = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else b""
    key = POSITION_PREFIX + text
    if not text or len(key) > LONGEST_KEY:
        longest = LONGEST_KEY - len(POSITION_PREFIX)
        raise SchemaError(
            "invalid consumer name", field="/name", expected=f"1 to {longest} bytes of UTF-8"
        )
    return key
