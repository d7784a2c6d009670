# SPDX-License-Identifier: Apache-2.0
"""``GrainStore``, the one object that users hold, and ``open``, which gives it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from omsgrain import _core
from omsgrain.batch import (
    GrainBatch,
    ItemError,
    ItemWarning,
    OnError,
    VerifyReport,
    stops,
    verify_many,
)
from omsgrain.errors import (
    IntegrityError,
    NotFoundError,
    OmsWarning,
    RangeError,
    SchemaError,
    UnsupportedError,
)
from omsgrain.grain import Grain
from omsgrain.index.query import Order, Page, Time, run
from omsgrain.intake import Item, Pair, intakes, take_one
from omsgrain.store.base import (
    PAGE_GRAINS,
    CheckReport,
    RebuildReport,
    Store,
    StoreStats,
    damaged,
    entries,
    pages,
)

if TYPE_CHECKING:
    from omsgrain.container import Written
    from omsgrain.container.layout import Codec
    from omsgrain.exchange import ImportReport

__all__ = ["BATCH", "Change", "GrainStore", "PutReport", "open"]

BATCH = 1_000
"""Grains a commit: enough that syncing to the disk costs little beside encoding."""


@dataclass(frozen=True, slots=True)
class PutReport:
    """What ``put_many`` did.

    Attributes:
        addresses: one for each item, in their order; None where it was refused.
        stored: how many were new.
        duplicates: how many were there already, or came twice.
        errors: the refusals, by position.
        warnings: what is allowed but looks like a mistake.
    """

    addresses: list[str | None]
    stored: int
    duplicates: int
    errors: list[ItemError]
    warnings: list[ItemWarning]


@dataclass(frozen=True, slots=True)
class Change:
    """One event in the life of the store.

    Attributes:
        seq: its number; they rise, and some may be missing.
        kind: ``put``: the grain arrived. Later versions may add kinds.
        address: the grain.
    """

    seq: int
    kind: str
    address: str


class GrainStore:
    """Grains by content address, in order of arrival.

    A context manager; any thread may use it. In a forked child it refuses: open the store there.

    Args:
        store: where the blobs are kept; ``omsgrain.open`` gives one on disk.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, item: Item) -> str:
        """Store one grain, durably when this returns; one that is there already stays as it is.

        Args:
            item: fields, a grain, or a blob.

        Returns:
            Its address.

        Raises:
            SchemaError: the fields are not what the type asks for, or the grain claims to
                supersede another, which only ``supersede`` may do.
            OmsError: any other refusal of the format.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §28
        """
        pair, notes = take_one(item)
        for note in notes:
            warnings.warn(note, OmsWarning, stacklevel=2)
        self._store.write(lambda writer: writer.put([pair]))
        return pair[0].hex()

    def put_many(
        self,
        items: Iterable[Item] | GrainBatch,
        *,
        errors: OnError = "raise",
        batch_size: int = BATCH,
    ) -> PutReport:
        """Store many grains.

        With ``errors="raise"`` it is all or nothing, whatever happens: every item is checked
        first, then one transaction stores them all. They all have to fit in memory.

        With ``errors="collect"`` each ``batch_size`` items are a transaction of their own, and a
        refused item is reported without holding up the others. An endless iterator works. When it
        fails half way (a full disk, an exception of the iterator), whole batches are stored.

        Args:
            items: as for ``put``, in any mixture; or what ``encode_many`` or ``encode_jsonl``
                gave, whose good grains are not checked again.
            errors: ``raise`` or ``collect``.
            batch_size: items a transaction, with ``collect``.

        Raises:
            OmsError: with ``raise``, the first refusal; a ``batch_size`` below 1.
            StoreError: read-only, full or broken.

        Spec: OMS §28
        """
        stop = stops(errors)
        if batch_size < 1:
            raise RangeError("a batch has at least one item", found=f"batch_size={batch_size}")
        addresses: list[str | None] = []
        bad: list[ItemError] = []
        notes: list[ItemWarning] = []
        held: list[Pair] = []
        counts = [0, 0]
        for intake in intakes(items, batch_size):
            if stop and intake.errors:
                raise intake.errors[0].error
            good = [pair for pair in intake.pairs if pair is not None]
            if stop:
                held += good
            else:
                self._put_pairs(good, counts)
            addresses += [pair and pair[0].hex() for pair in intake.pairs]
            bad += intake.errors
            notes += intake.warnings
        self._put_pairs(held, counts)
        return PutReport(addresses, counts[1], counts[0], bad, notes)

    def _put_pairs(self, pairs: list[Pair], counts: list[int]) -> None:
        if pairs:
            for new in self._store.write(lambda writer: writer.put(pairs)):
                counts[new] += 1

    def get(self, address: str) -> Grain:
        """Return the grain at the address; its blob is hashed again before you get it.

        Raises:
            NotFoundError: it is not in the store (a KeyError too).
            HashFormatError, HashLengthError: that is no address.
            IntegrityError: the stored bytes are damaged.

        Spec: OMS §28
        """
        digest = _core.parse_address(address)
        with self._store.read() as reader:
            blob = reader.get(digest)
        return _grain(address, blob)

    def get_many(self, addresses: Iterable[str]) -> list[Grain]:
        """Return the grains at the addresses, in their order; raises as ``get`` does."""
        asked = [(address, _core.parse_address(address)) for address in addresses]
        grains: list[Grain] = []
        for start in range(0, len(asked), PAGE_GRAINS):
            page = asked[start : start + PAGE_GRAINS]
            with self._store.read() as reader:
                found = [(address, reader.get(digest)) for address, digest in page]
            grains += [_grain(address, blob) for address, blob in found]
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
        return (Grain(entry.blob) for entry in entries(self._store))

    def changes(self, since: int = 0) -> Iterator[Change]:
        """Walk through what has happened after a sequence number, up to now.

        Args:
            since: the last ``seq`` already seen; 0 from the start.

        Raises:
            IntegrityError: stored bytes are damaged.
        """
        for entry in entries(self._store, max(since, 0)):
            yield Change(entry.seq, "put", entry.digest.hex())

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
            report = verify_many(
                ((entry.blob, entry.digest.hex()) for entry in page), errors="collect"
            )
            wrong = {item.index: item.error for item in report.errors}
            wrong |= {i: damaged(entry) for i, entry in enumerate(page) if not entry.sound}
            bad += [ItemError(page[i].seq, None, wrong[i]) for i in sorted(wrong)]
            if stop and bad:
                raise bad[0].error
            verified += len(page) - len(wrong)
        return VerifyReport(verified, bad)

    def query(
        self,
        *,
        type: str | int | None = None,
        namespace: str | None = None,
        subject: str | None = None,
        relation: str | None = None,
        object: Any = None,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
        tag: str | None = None,
        created_after: Time | None = None,
        created_before: Time | None = None,
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        count: bool = False,
        explain: bool = False,
    ) -> Page:
        """Find grains that match every filter given.

        A grain is found from the moment its put returns, in this process and in others.

        Args:
            type: name of a grain type, or its byte.
            namespace: the whole namespace.
            subject: the subject; with ``relation`` and ``object`` any of the eight patterns.
            relation: the relation.
            object: the object: a string, or what else the grain holds there.
            user_id: the user.
            session_id: the session.
            run_id: the run.
            tag: one of the structural tags.
            created_after: created at this time or later: ms since 1970, an aware datetime or RFC
                3339 text.
            created_before: created before this time, so that neighbouring spans share no grain.
            order: "newest" first and then by address, or "oldest", its exact reverse.
            limit: results a page, 1 to 10,000.
            cursor: ``next_cursor`` of the page before; the filters must be the same.
            count: also count all that match, which may read them all.
            explain: also say how the query was answered.

        Raises:
            SchemaError: a filter or cursor that cannot be.
            RangeError: the limit.

        Spec: OMS §28.1
        """
        filters = {
            "type": type,
            "namespace": namespace,
            "subject": subject,
            "relation": relation,
            "object": object,
            "user_id": user_id,
            "session_id": session_id,
            "run_id": run_id,
            "tag": tag,
        }
        with self._store.read() as reader:
            return run(
                reader,
                filters,
                created_after=created_after,
                created_before=created_before,
                order=order,
                limit=limit,
                cursor=cursor,
                count=count,
                explain=explain,
            )

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

    def check(self) -> CheckReport:
        """Look at every byte that matters: blobs, addresses, index rows, counts.

        It runs in a process of its own, because LMDB does not survive every damaged page.
        """
        return self._store.check()

    def rebuild(self) -> RebuildReport:
        """Make the index anew from the blobs; the same blobs give the same bytes.

        Raises:
            StoreError: read-only, or no room; the old index is kept then.
        """
        return self._store.rebuild()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a new directory, while it is in use.

        Raises:
            StoreError: there is something at the path, or it cannot be written.
        """
        self._store.backup(path)

    def stats(self) -> StoreStats:
        """Return how much the store holds, and how large its file is."""
        return self._store.stats()

    def sync(self) -> None:
        """Make durable what was put with ``durability="relaxed"``."""
        self._store.sync()

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> GrainStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open(
    path: str | os.PathLike[str],
    *,
    keys: None = None,
    readonly: bool = False,
    durability: Literal["commit", "relaxed"] = "commit",
) -> GrainStore:
    """Open the store at a path, a directory such as ``memory.omsg``; make it if it is not there.

    Opening a store again in the same process shares it; any number of processes may read, and
    writers take turns.

    Args:
        path: the directory; its parent must exist.
        keys: for encrypted grains, which this version does not know: must be None.
        readonly: refuse to write, and do not make a store.
        durability: ``commit``: what is put is on the disk when the call returns. ``relaxed``: the
            operating system has it then, much sooner; a killed process loses nothing, but a power
            cut can cost what was put since the last ``sync`` or ``close``, and in the worst case
            the whole store.

    Raises:
        StoreError: not a store, of a newer format, missing, or no permission.
        UnsupportedError: ``keys`` were given.
    """
    from omsgrain.store.lmdb import LmdbStore

    if keys is not None:
        raise UnsupportedError("this version stores no encrypted grains", expected="keys=None")
    if durability not in ("commit", "relaxed"):
        raise SchemaError("unknown durability", expected='"commit" or "relaxed"')
    return GrainStore(LmdbStore(path, readonly=readonly, durability=durability))


def _grain(address: str, blob: bytes | None) -> Grain:
    if blob is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    found = _core.address(blob)
    if found != address:
        raise IntegrityError("the stored bytes are damaged", expected=address, found=found)
    return Grain(blob)
