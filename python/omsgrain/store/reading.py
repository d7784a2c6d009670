# SPDX-License-Identifier: Apache-2.0
"""Reading grains by address and by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.batch import ItemError, OnError, VerifyReport, stops
from omsgrain.errors import IntegrityError, NotFoundError, OmsError, StoreError
from omsgrain.grain import Grain, bare
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.query import query as queries
from omsgrain.query.query import Order, Page
from omsgrain.storage.base import PAGE_GRAINS, KeyedReader, Reader
from omsgrain.storage.scan import ScannedBlob, damaged, entries, pages, stored
from omsgrain.storage.tables import (
    DELETED,
    EMBEDDED,
    EVENTS,
    HELD,
    RELEASED,
    RESTRICTED,
    SEQUENCE,
    SIGNED,
    SUPERSEDED,
    VERIFIED,
    event_of,
)
from omsgrain.store.base import Base
from omsgrain.store.policy_context import seq_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.query.filters import Filters

_digest = bytes.fromhex


class Finding(Base):
    """The part of a GrainStore that answers questions."""

    def query(
        self,
        *,
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        count: bool = False,
        explain: bool = False,
        scan: bool = False,
        **filters: Unpack[Filters],
    ) -> Page:
        """Find grains that match every filter given.

        A grain is found from the moment its put returns, in this process and in others.

        Args:
            order: "newest" first and then by address, or "oldest", its exact reverse.
            limit: results a page, 1 to 10,000.
            cursor: ``next_cursor`` of the page before; the filters must be the same.
            count: also count all that match, which may read them all.
            explain: also say how the query was answered.
            scan: allow a query that no index answers to read every grain.
            **filters: those of ``omsgrain.query.filters.Filters``.

        Raises:
            SchemaError: a filter or cursor that cannot be.
            RangeError: the limit, or the confidence.
            UnsupportedError: no index answers, and ``scan`` was not given; or there are sealed
                grains, and they cannot be asked that.

        Spec: OMS §28.1
        """
        with self._store.read() as reader:
            page = queries.run(
                reader,
                filters,
                order=order,
                limit=limit,
                cursor=cursor,
                count=count,
                explain=explain,
                scan=scan,
            )
        if self._counts:
            self._count_reads([_digest(hit.content_address) for hit in page.results])
        return page

    def iter_query(self, *, scan: bool = False, **filters: Unpack[Filters]) -> Iterator[Grain]:
        """Walk all grains that match every filter given, newest first.

        The store is read by pages, each in a snapshot of its own, so a walk holds back no writer.
        It also meets grains that arrive meanwhile and are older than the last one it returned.

        Args:
            scan: as for ``query``.
            **filters: as for ``query``.

        Raises:
            SchemaError: a filter that cannot be.
            RangeError: the confidence.
            UnsupportedError: as for ``query``, when the walk begins.
        """
        return queries.iterate(self._store.read, filters, scan=scan)


_NOTHING = b""

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
    """One event in the life of the store.

    Attributes:
        seq: its number; they rise, and some may be missing.
        kind: ``put``: the grain arrived; ``supersede``: it was superseded; ``verify``: its
            verification status changed; ``vector``: it was given one; ``sign``: it got a
            further signature; ``hold``, ``release``, ``restrict``, ``delete``. Later versions may
            add kinds.
        address: the grain.
    """

    seq: int
    kind: str
    address: str


class Reading(Base):
    """The part of a GrainStore that gives grains back."""

    def get(self, address: str) -> Grain:
        """Return the grain at the address; its blob is hashed again before you get it.

        Args:
            address: of the grain as it is stored; with keys also that of a sealed grain before it
                was sealed.

        Returns:
            The grain. A sealed one is opened with the keys of the store: its blob is what was put,
            its address that of the sealed blob. Without keys it shows its header, and ``sealed``
            says so.

        Raises:
            ErasedError: the key that sealed it was destroyed.
            KeyMissingError: the keys of the store are not those that sealed it.
            CorruptError: it came sealed, and what is sealed is no grain.
            NotFoundError: it is not in the store (a KeyError too).
            HashFormatError, HashLengthError: that is no address.
            IntegrityError: the stored bytes are damaged.

        Spec: OMS §28
        """
        digest = _core.parse_address(address)
        with self._store.read() as reader:
            grain = _read(reader, digest)
        if self._counts and self._access.count((digest,), self._settings.clock()):
            self._write_counts()
        return grain

    def get_many(self, addresses: Iterable[str]) -> list[Grain]:
        """Return the grains at the addresses, in their order; raises as ``get`` does."""
        asked = [(address, _core.parse_address(address)) for address in addresses]
        grains: list[Grain] = []
        for start in range(0, len(asked), PAGE_GRAINS):
            page = asked[start : start + PAGE_GRAINS]
            with self._store.read() as reader:
                reader.expect([digest for _, digest in page])
                grains += [_read(reader, digest) for _, digest in page]
            self._count_reads([digest for _, digest in page])
        return grains

    def exists(self, address: str) -> bool:
        """Tell whether a grain is in the store, without reading it.

        Raises:
            HashFormatError, HashLengthError: that is no address.
        """
        digest = _core.parse_address(address)
        with self._store.read() as reader:
            return reader.find([digest])[0] is not None

    def __contains__(self, item: object) -> bool:
        """Whether a grain, or the grain at an address, is in the store."""
        if isinstance(item, Grain):
            item = item.address
        return isinstance(item, str) and self.exists(item)

    def __len__(self) -> int:
        with self._store.read() as reader:
            return reader.count()

    def __iter__(self) -> Iterator[Grain]:
        """All grains in order of arrival; those that arrive meanwhile are left out."""
        for entry in entries(self._store):
            if not entry.blob[1] & ENCRYPTED_BIT:
                yield stored(entry.blob)
                continue
            with self._store.read() as reader:
                grain = reader.grain(entry.seq)
            if grain is not None:
                yield grain

    def changes(self, since: int = 0) -> Iterator[Change]:
        """Walk through what has happened after a sequence number, up to now.

        A grain that was deleted since shows its deletion, and no longer its arrival.

        Args:
            since: the last ``seq`` already seen; 0 from the start.

        Raises:
            IntegrityError: stored bytes are damaged.
        """
        since = max(since, 0)
        with self._store.read() as reader:
            last = reader.last_seq()
        if since >= last:  # perhaps no number of a store at all
            return
        puts = (
            Change(entry.seq, "put", entry.digest.hex()) for entry in entries(self._store, since)
        )
        events = self._events(since)
        for change in merge(puts, events, key=lambda change: change.seq):
            if change.seq > last:  # what has happened meanwhile
                return
            yield change

    def _events(self, after: int) -> Iterator[Change]:
        while True:
            with self._store.read() as reader:
                page = list(islice(reader.rows(EVENTS, SEQUENCE.pack(after)), PAGE_GRAINS))
            for key, row in page:
                (after,) = SEQUENCE.unpack(key)
                kind, _, digest = event_of(row)
                yield Change(after, _KINDS.get(kind, "other"), digest.hex())
            if len(page) < PAGE_GRAINS:
                return

    def verify(self, *, errors: OnError = "raise") -> VerifyReport:
        """Verify every grain: address, canonical form, schema.

        Returns:
            How many are good, and the others; ``index`` is their sequence number.

        Raises:
            OmsError: with ``errors="raise"``, the first that is not good.
        """
        stop = stops(errors)
        verified = 0
        bad: list[ItemError] = []
        for page in pages(self._store):
            wrong = self._wrong(page)
            wrong |= {i: damaged(entry) for i, entry in enumerate(page) if not entry.sound}
            bad += [ItemError(page[i].seq, None, wrong[i]) for i in sorted(wrong)]
            if stop and bad:
                raise bad[0].error
            verified += len(page) - len(wrong)
        return VerifyReport(verified, bad)

    def _wrong(self, page: Sequence[ScannedBlob]) -> dict[int, OmsError]:
        """What is wrong with grains, by position; sealed ones as far as they can be opened."""
        blobs = [bare(entry.blob) for entry in page]
        sealed = [i for i, entry in enumerate(page) if entry.blob[1] & ENCRYPTED_BIT]
        unopened: dict[int, OmsError] = {}
        if sealed:
            with self._store.read() as reader:
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


def _read(reader: Reader, digest: bytes) -> Grain:
    """The grain at an address, stored or plain."""
    grain = reader.named(digest)
    if grain is None:
        raise NotFoundError("no grain with this address is in the store", expected=digest.hex())
    address = digest.hex()
    if grain.address != address and _core.address(grain.blob) != address:
        raise IntegrityError("the stored bytes are damaged", expected=address, found=grain.address)
    if grain.blob[1] & ENCRYPTED_BIT and isinstance(reader, KeyedReader):
        return reader.tried(seq_of(reader, digest))
    return grain
