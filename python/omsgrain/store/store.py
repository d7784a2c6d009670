# SPDX-License-Identifier: Apache-2.0
"""``GrainStore``: grains by address, with the verbs that write, read, find and change them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from omsgrain import _core
from omsgrain.errors import StoreError
from omsgrain.grain import Grain
from omsgrain.store import read, write
from omsgrain.store.context import Context, Lazy, StorePart, absent
from omsgrain.store.write import BATCH

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from omsgrain.batch import GrainBatch, OnError, VerifyReport
    from omsgrain.container.layout import Codec
    from omsgrain.container.write import WrittenContainer
    from omsgrain.crypto.signers import Signer
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.query.query import Order, Page
    from omsgrain.search.vectors import Vector
    from omsgrain.storage.audit.trail import AuditLog
    from omsgrain.storage.base import Storage, StoreStats
    from omsgrain.storage.records import GrainStatus
    from omsgrain.store.consumers import Consumers
    from omsgrain.store.context import Settings
    from omsgrain.store.graph import GrainGraph
    from omsgrain.store.holds import Holds
    from omsgrain.store.maintenance import Maintenance
    from omsgrain.store.parquet import Parquet
    from omsgrain.store.privacy.privacy import Privacy
    from omsgrain.store.read import Change
    from omsgrain.store.reviews import Reviews
    from omsgrain.store.state_merge import ImportReport
    from omsgrain.store.trust import GrainTrust
    from omsgrain.store.vectors import Vectors
    from omsgrain.store.write import Item, PutReport


class GrainStore(StorePart):
    """Grains by content address, in order of arrival.

    A context manager; any thread may use it. In a forked child it refuses: open the store there.

    Args:
        storage: where the blobs are kept; ``omsgrain.open`` gives a store on disk.
        settings: how the store behaves.
    """

    def __init__(self, storage: Storage, settings: Settings | None = None) -> None:
        super().__init__(Context(storage, settings))

    consumers: Lazy[Consumers] = Lazy("consumers", "Consumers", "Positions of readers of changes.")
    graph: Lazy[GrainGraph] = Lazy("graph", "GrainGraph", "Versions, origins, threads, goals.")
    holds: Lazy[Holds] = Lazy("holds", "Holds", "Orders that keep grains from any change.")
    maintenance: Lazy[Maintenance] = Lazy("maintenance", "Maintenance", "Check, compact, back up.")
    parquet: Lazy[Parquet] = Lazy("parquet", "Parquet", "Grains as Parquet files.")
    privacy: Lazy[Privacy] = Lazy("privacy.privacy", "Privacy", "Report, restrict, erase people.")
    reviews: Lazy[Reviews] = Lazy("reviews", "Reviews", "Changes that wait for a review.")
    trust: Lazy[GrainTrust] = Lazy("trust", "GrainTrust", "Signatures and verification.")
    vectors: Lazy[Vectors] = Lazy("vectors", "Vectors", "The embedding vectors of grains.")

    @property
    def audit(self) -> AuditLog:
        """The audit trail: who did what, each entry bound to all before it."""
        from omsgrain.storage.audit.trail import AuditLog

        return AuditLog(self._context.storage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        inner = self._context.inner
        try:
            state = f"{len(self)} grains" + ", read-only" * inner.readonly
        except StoreError:
            state = "closed"
        return f"<GrainStore {inner.name!r}, {state}>"

    def put(
        self,
        item: Item,
        *,
        dedupe: Literal["semantic"] | None = None,
        allow_erased: bool = False,
    ) -> str:
        """Store one grain. It is durable when this returns; a grain that is there already stays.

        With keys, a grain that has a ``user_id``, or that a preset wants encrypted, is sealed;
        ``get`` opens it.

        Args:
            item: fields, a grain, a blob, or an envelope with a signed blob.
            dedupe: ``semantic``: if a current grain says the same, apart from when it was said,
                store nothing and return that grain's address.
            allow_erased: store it although it was erased before.

        Returns:
            The address under which it is stored: for a sealed grain that of the sealed blob.

        Raises:
            ErasedError: this grain was erased.
            SignatureError: the signature does not hold, or the store requires one.
            SchemaError: the fields do not fit the type, or the grain claims to supersede another,
                which only ``supersede`` may do.
            OmsError: any other refusal of the format, or of a preset.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §28
        """
        return write.put(self._context, item, dedupe=dedupe, allow_erased=allow_erased)

    def put_many(
        self,
        items: Iterable[Item] | GrainBatch,
        *,
        errors: OnError = "raise",
        batch_size: int = BATCH,
        allow_erased: bool = False,
    ) -> PutReport:
        """Store many grains.

        With ``errors="raise"`` it is all or nothing: every item is checked first, then one
        transaction stores them all, so they must fit in memory. With ``errors="collect"`` each
        ``batch_size`` items are a transaction of their own, refused items are reported, and an
        endless iterator works. If it fails half way, whole batches are stored.

        Args:
            items: as for ``put``, in any mixture; or what ``encode_many`` or ``encode_jsonl``
                returned, whose good grains are not checked again.
            errors: ``raise`` or ``collect``.
            batch_size: items a transaction, with ``collect``; fewer if the store was opened with
                too little memory for as many.
            allow_erased: store items although they were erased before.

        Raises:
            OmsError: with ``raise``, the first refusal; a ``batch_size`` below 1.
            StoreError: read-only, full or broken.

        Spec: OMS §28
        """
        return write.put_many(
            self._context, items, errors=errors, batch_size=batch_size, allow_erased=allow_erased
        )

    def get(self, address: str) -> Grain:
        """Return the grain at an address; its blob is hashed again before you get it.

        Args:
            address: of the grain as it is stored; with keys also that of a sealed grain before it
                was sealed.

        Returns:
            The grain. With keys a sealed grain is opened: its blob is what was put, its address
            that of the sealed blob. Without keys it shows its header, and ``sealed`` says so.

        Raises:
            NotFoundError: it is not in the store (a KeyError too).
            ErasedError: the key that sealed it was destroyed.
            KeyMissingError: the keys of the store are not those that sealed it.
            HashFormatError, HashLengthError: that is no address.
            CorruptError, IntegrityError: the stored bytes are damaged.

        Spec: OMS §28
        """
        context, digest = self._context, _core.parse_address(address)
        with context.storage.read() as reader:
            grain = reader.named(digest)
        if grain is None:
            raise absent(digest)
        context.count_reads((digest,))
        return grain

    def get_many(self, addresses: Iterable[str]) -> list[Grain]:
        """Return the grains at the addresses, in their order; raises as ``get`` does."""
        return read.get_many(self._context, addresses)

    def exists(self, address: str) -> bool:
        """Tell whether a grain is in the store, without reading it.

        Raises:
            HashFormatError, HashLengthError: that is no address.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return reader.find([digest])[0] is not None

    def __contains__(self, item: object) -> bool:
        """Whether a grain, or the grain at an address, is in the store."""
        address = item.address if isinstance(item, Grain) else item
        return isinstance(address, str) and self.exists(address)

    def __len__(self) -> int:
        with self._context.storage.read() as reader:
            return reader.count()

    def __iter__(self) -> Iterator[Grain]:
        """All grains in order of arrival; those that arrive meanwhile are left out."""
        return read.iterate(self._context)

    def supersede(self, old: str, new: Item, justification: str | None = None) -> str:
        """Replace a grain by a newer one, in one step: both or nothing.

        The old grain stays, with ``superseded_by`` and ``system_valid_to`` in its status, and
        leaves current results. Its policy, and those of grains that it stands under, decide
        whether it may be superseded.

        Args:
            old: the address of the grain to supersede. If it is superseded already, it gets a
                second successor: a fork, whose heads both stay.
            new: fields, a grain, or a blob; it may be in the store already. Fields that supersede
                a protected goal and name no policy get the goal's.
            justification: the reason, for policies that ask for one. Given fields, it becomes
                their ``supersession_justification``; otherwise only reviews show it.

        Returns:
            The address of the new grain.

        Raises:
            NotFoundError: the old grain is not in the store.
            InvalidationDeniedError: a policy or a hold refuses.
            EvidenceRequiredError: the goal asks for evidence that is not there.
            SchemaError: the new grain is the old one, or an ancestor of it.
            RangeError: the new grain would have too many signatures.
            OmsError: any other refusal of the new grain.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §23
        """
        from omsgrain.store import lifecycle

        return lifecycle.supersede(self._context, old, new, justification)

    def contest(self, address: str, *, reason: str | None = None) -> None:
        """Say that a grain is in doubt; it stays among current results, marked as contested.

        Args:
            address: the grain.
            reason: why; some policies ask for it.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``.

        Spec: OMS §23
        """
        self.trust.set_verification(address, "contested", reason=reason)

    def retract(self, address: str, *, reason: str | None = None) -> None:
        """Withdraw a grain: it leaves current results and stays readable by its address.

        Args:
            address: the grain.
            reason: why; some policies ask for it.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``.

        Spec: OMS §23
        """
        self.trust.set_verification(address, "retracted", reason=reason)

    def delete(
        self, address: str, *, reason: str | None = None, approvals: Collection[str] = ()
    ) -> None:
        """Take a grain out of the store; its address stays in the audit trail, under a key.

        Free pages of the file can still hold its bytes until ``compact``.

        Args:
            address: the grain.
            reason: why; some policies ask for it.
            approvals: approvals that were given, by the names that a retention policy asks for.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``supersede``; a hold or a
                minimum retention refuses too.

        Spec: OMS §28
        """
        self.delete_many((address,), reason=reason, approvals=approvals)

    def delete_many(
        self,
        addresses: Iterable[str],
        *,
        reason: str | None = None,
        approvals: Collection[str] = (),
        erased: str | None = None,
        beside: Iterable[str] = (),
    ) -> None:
        """Take several grains out in one step: all of them, or none.

        Args:
            addresses: the grains; at most a thousand.
            reason: why; some policies ask for it.
            approvals: as ``delete``.
            erased: remember also what they were, under this word for the reason: no import brings
                them back then, unless it is allowed to. Without it they may come again.
            beside: grains that go with them, of which nothing is remembered.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as ``delete``; nothing was done.
            SchemaError: ``erased`` is no word.
        """
        from omsgrain.store import lifecycle

        lifecycle.delete_many(
            self._context,
            addresses,
            reason=reason,
            approvals=approvals,
            erased=erased,
            beside=beside,
        )

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
            limit: results a page, 1 to 10,000; ``page.next()`` returns the next page.
            cursor: ``next_cursor`` of an earlier page, to resume; the filters must be the same.
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
        from omsgrain.query import query as queries

        terms: dict[str, Any] = {"order": order, "limit": limit, "scan": scan}
        terms |= {"count": count, "explain": explain}
        context = self._context
        with context.storage.read() as reader:
            page = queries.run(
                reader,
                filters,
                cursor=cursor,
                ask=partial(self.query, **terms, **filters),
                **terms,
            )
        if context.counts_reads:
            context.count_reads([bytes.fromhex(hit.address) for hit in page.results])
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
        from omsgrain.query import query as queries

        return queries.iterate(self._context.storage.read, filters, scan=scan)

    def search(
        self,
        text: str | None = None,
        *,
        vector: Vector | None = None,
        model: str | None = None,
        limit: int = 10,
        most_bytes: int | None = None,
        **filters: Unpack[Filters],
    ) -> Page:
        """Find the grains that best match words, a vector, or both.

        Words: a grain matches if it has any of them, the better the rarer they are; ``"two
        words"`` must stand together, ``+word`` must be there, ``-word`` must not, ``mem*`` is any
        word that begins so. Words and vectors together are ranked by reciprocal ranks.

        Args:
            text: what to search for.
            vector: where to look, among the vectors of ``store.vectors``.
            model: the model that made it; may be left out where the store has just one.
            limit: results, 1 to 1,000.
            most_bytes: end with the grain by which the blobs of the results are so many bytes.
            **filters: those of ``query``; past grains are left out unless ``current`` says so.
                Sealed grains cannot be ranked. Where the keys of the store open some, a search is
                refused unless ``sealed=False`` leaves them out.

        Returns:
            The best first, with ``score`` 1 for the best, ``matched_fields``, and a ``snippet``
            that marks the words with brackets. ``incomplete`` is "refused" if the search stopped
            since the filters refused 100,000 matches, and "bytes" if it did for ``most_bytes``.

        Raises:
            SchemaError: neither text nor vector, no word in the text, a filter that cannot be, or
                a vector that is not as long as any of the model.
            RangeError: a limit.
            UnsupportedError: there are sealed grains.

        Spec: OMS §28.1
        """
        from omsgrain.store import search

        return search.search(
            self._context,
            text,
            vector=vector,
            model=model,
            limit=limit,
            most_bytes=most_bytes,
            **filters,
        )

    def history(self, address: str) -> list[Grain]:
        """Return all versions of what a grain says, oldest first, whichever of them is asked for.

        Where histories have forked, all branches are in it.

        Raises:
            NotFoundError: the grain is not in the store.
            RangeError: there are too many versions.
        """
        from omsgrain.query.history import chain

        with self._context.storage.read() as reader:
            return chain(reader, address)

    def changes(self, since: int = 0) -> Iterator[Change]:
        """Walk through what has happened after a sequence number, up to now.

        A grain that was deleted since shows its deletion, and no longer its arrival.

        Args:
            since: the last ``seq`` already seen; 0 from the start.

        Raises:
            IntegrityError: stored bytes are damaged.
        """
        return read.changes(self._context, since)

    def status(self, address: str) -> GrainStatus:
        """Return what became of a grain.

        ``access_count`` includes what this handle has counted; what other processes have counted
        and not written yet is missing.

        Raises:
            NotFoundError: it is not in the store.
        """
        from omsgrain.store import lifecycle

        return lifecycle.status(self._context, address)

    def sign(
        self,
        address: str,
        signer: Signer,
        *,
        iat: int | None = None,
        justification: str | None = None,
    ) -> str:
        """Sign a grain of the store.

        A grain that is signed already gets one more signature, and keeps its address. The bit that
        says so is part of what an address covers, so an unsigned grain is superseded by another
        one, which says the same, is derived from it, is signed, and is restricted if it was.
        Policies are asked as for every supersession: a locked grain cannot be signed any more.

        Args:
            address: the grain.
            signer: who signs.
            iat: when, in epoch seconds; now, if not given.
            justification: the reason, for policies that ask for one; it stands in the new grain.

        Returns:
            The address of the signed grain.

        Raises:
            NotFoundError: the grain is not in the store.
            SignatureError: the signer gave no signature that holds.
            InvalidationDeniedError: a policy or a hold refuses the supersession.
            RangeError: the grain has as many signatures as it can have.
            KeyMissingError: it is sealed, and its key is not here; or the store has sealed grains
                and is open without keys.
            OmsError: any other refusal of the new grain.
            StoreError: read-only, full or broken; nothing was stored.

        Spec: OMS §9
        """
        from omsgrain.store import sign

        return sign.sign(self._context, address, signer, iat=iat, justification=justification)

    def verify(self, *, errors: OnError = "raise") -> VerifyReport:
        """Verify every grain: address, canonical form, schema.

        Returns:
            How many are good, and the others; ``index`` is their sequence number.

        Raises:
            OmsError: with ``errors="raise"``, the first that is not good.
        """
        return read.verify(self._context, errors=errors)

    def export_mg(
        self,
        path: str | os.PathLike[str],
        *,
        codec: Codec = "none",
        seekable: bool = False,
        sort: bool = False,
        purpose: Purpose = "transfer",
        **filters: Unpack[Filters],
    ) -> WrittenContainer:
        """Export grains to a .mg file, or to several if one cannot hold them.

        The manifest keeps their status: superseded by which, until when, verification. A signed
        grain stands in its envelope, once for each signer; a sealed grain stays sealed.

        Args:
            path: the file; one that is there is replaced when all is written.
            codec: "none", "zstd" or "lz4"; the grains are packed into one frame.
            seekable: pack them into frames of about 1 MiB, so that reading one grain unpacks one
                frame. Other decoders may stop after the first frame without an error.
            sort: by created_at instead of arrival.
            purpose: why, for the rules of presets and profiles: ``move`` to another of your
                stores, ``access`` by the person it is about, ``transfer``, or ``sale``.
            **filters: those of ``query``, with past grains unless ``current=True``; without any,
                all grains. Restricted grains leave for ``move`` and ``access`` only; grains whose
                retention is over for ``access``, and for ``move`` if they are held. The report
                counts what stays as ``withheld``.

        Raises:
            IntegrityError: a stored grain, or a signature, is damaged.
            UnsupportedError: a rule of a preset or of a profile keeps a grain here; ``rule`` names
                it, and nothing was written.
            StoreError: the file cannot be written.

        Spec: OMS §11
        """
        from omsgrain.store import mg_files

        return mg_files.export_mg(
            self._context,
            path,
            codec=codec,
            seekable=seekable,
            sort=sort,
            purpose=purpose,
            **filters,
        )

    def import_mg(
        self,
        path: str | os.PathLike[str],
        *,
        errors: OnError = "raise",
        allow_erased: bool = False,
        adapt: bool = False,
        trust_state_from: Iterable[str | os.PathLike[str]] = (),
    ) -> ImportReport:
        """Import the grains of a .mg file, or of all its parts, after verifying every byte.

        What the file says of their status is a claim. A supersession counts if the newer grain is
        there and the policies allow it. "Verified" counts only in a file that is signed by
        somebody you trust; only such a file can bring grains that were here before under a
        policy with scope ``lineage``. Counts of reads are not imported.

        Signatures are verified. One whose DID cannot be resolved is kept and does not count until
        it is verified. Sealed grains stay sealed; those that a key of the store opens are found as
        if they had been put here, all others by their addresses only.

        Args:
            path: the file, or the name that its parts have in common.
            errors: ``raise``: stop at the first refusal; ``collect``: go on, and list them.
            allow_erased: import grains although they were erased before.
            adapt: store a conforming grain in place of one that another engine wrote in its own
                way, and keep the foreign blob in it; see ``omsgrain.Grain.adapt``.
            trust_state_from: DIDs, or files of public keys. A grain that is unverified here
                becomes verified if the file says so, and one of these keys has signed every part
                of it, as ``PART.sig``.

        Raises:
            SignatureError: with ``trust_state_from``, a signature beside the file does not hold;
                nothing was stored.
            OmsError: what is wrong with the file; nothing was stored. With ``raise``, why the
                store refuses a grain; those before it stay, with their status.
            StoreError: read-only or full; what was stored stays, and you can import again.

        Spec: OMS §11
        """
        from omsgrain.store import mg_files

        return mg_files.import_mg(
            self._context,
            path,
            errors=errors,
            allow_erased=allow_erased,
            adapt=adapt,
            trust_state_from=trust_state_from,
        )

    def to_arrow(
        self,
        *,
        columns: Iterable[str] | None = None,
        unsealed: bool = False,
        **filters: Unpack[Filters],
    ) -> Any:
        """Return grains as a stream of Arrow batches, read from the store as they are taken.

        The columns are those of docs/analytics.md: address and blob, status, and each field with
        its type in the registry; anything else is JSON in ``extra``. Grains that are restricted,
        or whose retention is over, are left out.

        Args:
            columns: the names of the columns, in order; None for all. Without a column of a field
                no grain is decoded.
            unsealed: show the fields of sealed grains that the keys of the store open. Without it
                their fields are null; blob and address are those of the sealed grain anyway.
            **filters: those of ``query``, answered by the index, with past grains unless
                ``current=True``; the column ``current`` tells them apart. Without any, all grains
                in order of arrival.

        Returns:
            A ``pyarrow.RecordBatchReader``, with batches of bounded size. It raises what goes
            wrong while it is read.

        Raises:
            SchemaError: an unknown column or filter.
            UnsupportedError: pyarrow is not installed, or sealed grains cannot be asked that.
        """
        from omsgrain.store import arrow

        return arrow.to_arrow(self._context, columns=columns, unsealed=unsealed, **filters)

    def stats(self) -> StoreStats:
        """Return how much the store holds, and how large its file is."""
        return self._context.storage.stats()

    def flush(self) -> None:
        """Write the memtable and make durable what was put with ``durability="relaxed"``."""
        storage = self._context.storage
        if not storage.readonly:
            storage.flush()
        storage.sync()

    def as_actor(self, actor: str) -> GrainStore:
        """Return a handle on the same store for another actor, whom the audit trail then names.

        Both handles share the storage: closing one closes it for both.

        Args:
            actor: who acts: a DID, a user, a service.
        """
        context = self._context
        return GrainStore(context.inner, replace(context.settings, actor=actor))

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self._context.close()
