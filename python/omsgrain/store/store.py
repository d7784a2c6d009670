# SPDX-License-Identifier: Apache-2.0
"""``GrainStore``: write, read, find and change grains by address."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from omsgrain import _core
from omsgrain.errors import SchemaError, StoreError
from omsgrain.grain import Grain
from omsgrain.store import read, write
from omsgrain.store.context import Context, Lazy, Settings, StorePart, absent

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from omsgrain.batch import GrainBatch, OnError, VerifyReport
    from omsgrain.container.layout import Codec
    from omsgrain.container.write import WrittenContainer
    from omsgrain.crypto.signers import Signer
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.query.query import Order, Page
    from omsgrain.query.times import Time
    from omsgrain.search.vectors import Vector
    from omsgrain.storage.audit.trail import AuditLog
    from omsgrain.storage.base import Storage, StoreStats
    from omsgrain.storage.records import GrainStatus
    from omsgrain.store.graph import GrainGraph
    from omsgrain.store.holds import Holds
    from omsgrain.store.maintenance import Maintenance
    from omsgrain.store.mg_files import ImportReport
    from omsgrain.store.parquet import Parquet
    from omsgrain.store.paths import Paths
    from omsgrain.store.privacy.privacy import Privacy
    from omsgrain.store.read import Consumers
    from omsgrain.store.reviews import Reviews
    from omsgrain.store.trust import GrainTrust
    from omsgrain.store.vectors import ModelVectors, Vectors
    from omsgrain.store.write import Item, PutReport


class GrainStore(StorePart):
    """Grains by content address, in the order in which they were stored.

    Open a store with ``omsgrain.open``. It is a context manager, and threads may share it. A
    forked child must open the store again: the parent's handle raises StoreError there.
    """

    def __init__(self, storage: Storage, settings: Settings | None = None) -> None:
        super().__init__(Context(storage, settings))

    consumers: Lazy[Consumers] = Lazy("read", "Consumers", "Positions of consumers.")
    graph: Lazy[GrainGraph] = Lazy("graph", "GrainGraph", "Versions, sources, threads, goals.")
    holds: Lazy[Holds] = Lazy("holds", "Holds", "Legal holds on grains.")
    maintenance: Lazy[Maintenance] = Lazy("maintenance", "Maintenance", "Check, compact, back up.")
    paths: Lazy[Paths] = Lazy("paths", "Paths", "Paths whose values have an index.")
    parquet: Lazy[Parquet] = Lazy("parquet", "Parquet", "Export and import Parquet files.")
    privacy: Lazy[Privacy] = Lazy("privacy.privacy", "Privacy", "Report, restrict, erase people.")
    reviews: Lazy[Reviews] = Lazy("reviews", "Reviews", "Changes that await a review.")
    trust: Lazy[GrainTrust] = Lazy("trust", "GrainTrust", "Signatures and verification.")
    vectors: Lazy[Vectors] = Lazy("vectors", "Vectors", "Embedding vectors of grains.")

    @property
    def audit(self) -> AuditLog:
        """The audit trail: who did what, each entry chained to the one before it."""
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
        expires_at: Time | None = None,
        replaces: Filters | None = None,
        vectors: ModelVectors | None = None,
    ) -> str:
        """Store one grain. After the call, it is durable, and queries in any process find it.

        A grain that is already in the store is not stored twice. If the store has keys, it
        encrypts grains that have a ``user_id`` and grains that a preset wants encrypted. ``get``
        decrypts them. Spec: OMS §28.

        Args:
            item: fields, a ``Grain``, a blob, or an envelope with a signed blob.
            dedupe: with "semantic", if a current grain has the same content apart from its times,
                store nothing and return that grain's address.
            allow_erased: store the grain even if it was erased before.
            expires_at: the end of its life: a time, or how long from now as a ``timedelta``. From
                then on no query finds it; ``get`` reads it until ``privacy.run_due`` removes it.
            replaces: filters; the grain supersedes the current grains that match them, at most
                100, in the same transaction. So writers that race lose no version. It excludes
                ``dedupe`` and ``allow_erased``.
            vectors: vectors by model name, stored in the same transaction, as ``vectors.add``.

        Returns:
            The address of the stored blob; for an encrypted grain, of the encrypted blob.

        Raises:
            ErasedError: the grain was erased.
            SignatureError: the signature is invalid, or the store requires one.
            SchemaError: a field is invalid, or only ``supersede`` may store the grain.
            OmsError: the format or a preset rejects the grain.
            StoreError: the store is read-only, full or damaged. Nothing was stored.
        """
        if replaces is not None:
            from omsgrain.store import lifecycle

            if dedupe is not None or allow_erased:
                message = "replaces excludes dedupe and allow_erased"
                raise SchemaError(message, field="/replaces")
            items = [(item, replaces)]
            return lifecycle.replace_many(self._context, items, expires_at, [vectors])[0]
        return write.put(self._context, item, dedupe, allow_erased, expires_at, vectors)

    def put_many(
        self,
        items: Iterable[Item] | GrainBatch,
        *,
        errors: OnError = "raise",
        batch_size: int = write.BATCH,
        allow_erased: bool = False,
        expires_at: Time | None = None,
        vectors: Sequence[ModelVectors | None] | None = None,
    ) -> PutReport:
        """Store many grains.

        With ``errors="raise"``, the call checks every item, then stores all of them in one
        transaction, or none. All items must fit in memory. With ``errors="collect"``, each batch
        is a transaction of its own: rejected items are reported, an endless iterator works, and a
        failure keeps the batches before it. Spec: OMS §28.

        Args:
            items: items as for ``put``; or the result of ``encode_many`` or ``encode_jsonl``,
                whose grains are not checked again.
            errors: "raise" or "collect".
            batch_size: items per transaction, with "collect"; fewer if the memory limit is small.
            allow_erased: store items even if they were erased before.
            expires_at: as for ``put``.
            vectors: for each item None, or vectors as for ``put``.

        Raises:
            OmsError: the first rejected item, with "raise"; a ``batch_size`` below 1.
            StoreError: the store is read-only, full or damaged.
        """
        options = errors, batch_size, allow_erased, expires_at, vectors
        return write.put_many(self._context, items, *options)

    def get(self, address: str) -> Grain:
        """Return the grain at an address, after hashing its blob again. Spec: OMS §28.

        Args:
            address: the address of the stored grain or, with keys, the one before encryption.

        Returns:
            The grain, decrypted if the store has its key; ``address`` is always the stored one.
            Without the key, only the header is readable, and ``sealed`` is True.

        Raises:
            NotFoundError: the grain is not in the store. It is also a KeyError.
            ErasedError: the grain's key was destroyed.
            KeyMissingError: the store's keys do not include the grain's key.
            AddressError: the argument is not an address.
            CorruptError, IntegrityError: the stored bytes are damaged.
        """
        context = self._context
        grain = context.get(address)
        if grain is not None:
            return grain
        digest = _core.parse_address(address)
        with context.storage.read() as reader:
            grain = reader.named(digest)
        if grain is None:
            raise absent(digest)
        context.count_reads((digest,))
        return grain

    def get_many(self, addresses: Iterable[str]) -> list[Grain]:
        """Return the grains at the addresses, in the same order. Raises as ``get`` does."""
        return read.get_many(self._context, addresses)

    def exists(self, address: str) -> bool:
        """Return whether a grain is in the store. Raises AddressError for an invalid address."""
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return reader.find([digest])[0] is not None

    def __contains__(self, item: object) -> bool:
        """Return whether a grain, or the grain at an address, is in the store."""
        address = item.address if isinstance(item, Grain) else item
        return isinstance(address, str) and self.exists(address)

    def __len__(self) -> int:
        with self._context.storage.read() as reader:
            return reader.count()

    def __iter__(self) -> Iterator[Grain]:
        """Iterate over all grains in storage order, except those stored after the start."""
        return read.iterate(self._context)

    def supersede(self, old: str, new: Item, justification: str | None = None) -> str:
        """Replace a grain by a newer one in one transaction. Spec: OMS §23.

        The old grain stays in the history, with ``superseded_by`` and ``system_valid_to`` in its
        status. It is no longer current. The policies that cover it must allow the change.

        Args:
            old: the grain to supersede. If it is superseded already, the history forks.
            new: an item as for ``put``, or a grain of the store. Fields without a policy that
                supersede a protected goal get the goal's policy.
            justification: the reason, for policies that require one. With fields, it becomes their
                ``supersession_justification``; otherwise only reviews show it.

        Returns:
            The address of the new grain.

        Raises:
            NotFoundError: the old grain is not in the store.
            InvalidationDeniedError: a policy or a hold forbids the change.
            EvidenceRequiredError: the goal requires evidence that is missing.
            SchemaError: the new grain is the old one, or a version before it.
            RangeError: the new grain would have too many signatures.
            OmsError, StoreError: as for ``put``.
        """
        from omsgrain.store import lifecycle

        return lifecycle.supersede(self._context, old, new, justification)

    def contest(self, address: str, *, reason: str | None = None) -> None:
        """Mark a grain as contested. It stays current. Spec: OMS §23.

        Args:
            address: the grain.
            reason: the reason, which some policies require.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as for ``supersede``.
        """
        self.trust.set_verification(address, "contested", reason=reason)

    def retract(self, address: str, *, reason: str | None = None) -> None:
        """Retract a grain. It stays readable, but is no longer current. Spec: OMS §23.

        Args:
            address: the grain.
            reason: the reason, which some policies require.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as for ``supersede``.
        """
        self.trust.set_verification(address, "retracted", reason=reason)

    def delete(
        self, address: str, *, reason: str | None = None, approvals: Collection[str] = ()
    ) -> None:
        """Delete a grain. The audit trail keeps a keyed hash of its address. Spec: OMS §28.

        Free pages of the data file can still hold its bytes until ``maintenance.compact``.

        Args:
            address: the grain.
            reason: the reason, which some policies require.
            approvals: the names of approvals that were given, for a retention policy.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as for ``supersede``.
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
        """Delete several grains in one transaction: all of them, or none.

        Args:
            addresses: the grains; at most a thousand.
            reason: the reason, which some policies require.
            approvals: as for ``delete``.
            erased: a reason code, one word. With it, the store also writes tombstones, which stop
                imports from bringing the grains back. Without it, they can be stored again.
            beside: other grains to delete, for which no tombstone is written.

        Raises:
            NotFoundError, InvalidationDeniedError, StoreError: as for ``delete``.
            SchemaError: ``erased`` is not a word.
        """
        from omsgrain.store import lifecycle

        lifecycle.delete_many(self._context, addresses, reason, approvals, erased, beside)

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
        """Return the grains that match all filters. Spec: OMS §28.1.

        Args:
            order: "newest" first, then by address; or "oldest", the exact reverse.
            limit: results per page, 1 to 10,000. ``page.next()`` returns the next page.
            cursor: ``next_cursor`` of a page, to resume with the same filters.
            count: count all matches too, which may read all of them.
            explain: describe how the store ran the query.
            scan: allow the query to read every grain if no index answers it.
            **filters: see ``omsgrain.query.filters.Filters``.

        Raises:
            SchemaError: a filter or the cursor is invalid.
            RangeError: the limit or the confidence is out of range.
            UnsupportedError: no index answers the query, or none for encrypted grains.
        """
        ask = partial(
            self.query,
            order=order,
            limit=limit,
            count=count,
            explain=explain,
            scan=scan,
            **filters,
        )
        return read.query(self._context, ask, filters, order, limit, cursor, count, explain, scan)

    def iter_query(self, *, scan: bool = False, **filters: Unpack[Filters]) -> Iterator[Grain]:
        """Iterate over all grains that match all filters, newest first.

        The store is read page by page, each in its own snapshot, so an open iterator does not
        delay writers. It includes grains stored meanwhile that sort after the last one returned.
        Errors are those of ``query``, at the first grain.

        Args:
            scan: as for ``query``.
            **filters: as for ``query``.
        """
        from omsgrain.query import query as queries

        context = self._context
        clock = context.settings.clock
        return queries.iterate(context.storage.read, filters, scan=scan, clock=clock)

    def latest(
        self, per: str, *, limit: int = 1_000, scan: bool = False, **filters: Unpack[Filters]
    ) -> list[Grain]:
        """Return the newest grain of each value of a field, newest first.

        With an index of the path, the store reads one grain for each value; see ``store.paths``.

        Args:
            per: the field, such as ``observer_id``, or a path as in the filter ``where``. Grains
                without a text, number or bool there are left out.
            limit: the number of values, 1 to 10,000; those with the newest grains.
            scan: allow it to read every grain if no index answers.
            **filters: as for ``query``; the newest grains of those that match.

        Raises:
            SchemaError, RangeError, UnsupportedError: as for ``query``.
        """
        return read.latest(self._context, per, limit, scan, filters)

    def namespaces(self, prefix: str = "", *, user_id: str | None = None) -> list[str]:
        """Return the namespaces of the current grains, sorted, without reading every grain.

        Args:
            prefix: what the namespaces begin with, such as ``robots:``.
            user_id: only namespaces with a grain of this user. Those of encrypted grains need it;
                the store then opens the user's grains.

        Raises:
            SchemaError: an argument is no text.
            UnsupportedError: the user has too many encrypted grains to open them all.
        """
        from omsgrain.query.namespaces import namespaces

        with self._context.storage.read() as reader:
            return namespaces(reader, prefix, user_id, self._context.settings.clock)

    def search(
        self,
        text: str | None = None,
        *,
        vector: Vector | None = None,
        model: str | None = None,
        vector_weight: float | None = None,
        limit: int = 10,
        most_bytes: int | None = None,
        wait: bool = True,
        **filters: Unpack[Filters],
    ) -> Page:
        """Return the grains that best match words, a vector, or both. Spec: OMS §28.1.

        A grain matches if it has any of the words, or another form of one; rare words count more.
        ``"two words"`` finds a phrase, ``+word`` requires a word, ``-word`` excludes it, and
        ``mem*`` finds all words that begin so: these are not stemmed. Reciprocal rank fusion
        combines words and a vector.

        Args:
            text: the words to search for.
            vector: the vector to compare with those in ``store.vectors``.
            model: the model of the vector; optional if the store has vectors of one model only.
            vector_weight: the share of the vector in the rank, if there are words too: 0 to 1, by
                default 0.2.
            limit: number of results, 1 to 1,000.
            most_bytes: stop once the blobs of the results reach this size.
            wait: first add new grains to the text index. With False, search only what is in the
                index, and let the rest be added in the next quiet moment.
            **filters: as for ``query``. If the store can decrypt any grains, name a ``user_id``,
                or pass ``sealed=False``: encrypted grains are ranked for one user at a time.

        Returns:
            The best first, with ``score`` 1 for the best, ``matched_fields``, and a ``snippet``
            that marks the words with brackets. ``incomplete`` is "bytes" if ``most_bytes`` ended
            the search, and "refused" if the filters rejected 100,000 matches. ``behind`` is the
            number of grains, at most, that are not in the index yet; 0 after waiting.

        Raises:
            SchemaError: no text and no vector, a text without words, an invalid filter or vector.
            RangeError: a limit is out of range.
            UnsupportedError: the store can decrypt grains, and there is neither a ``user_id`` nor
                ``sealed=False``; or the user has more than 50,000 encrypted grains.
        """
        from omsgrain.store import search

        return search.search(
            self._context, text, vector, model, limit, most_bytes, wait, filters, vector_weight
        )

    def history(self, address: str) -> list[Grain]:
        """Return all versions of a grain, oldest first, including all branches of a fork.

        Args:
            address: any version.

        Raises:
            NotFoundError: the grain is not in the store.
            RangeError: there are too many versions.
        """
        from omsgrain.query.history import chain

        with self._context.storage.read() as reader:
            return chain(reader, address)

    def changes(self, since: int = 0) -> Iterator[read.Change]:
        """Iterate over the changes after a sequence number, up to now.

        For a grain that was deleted, the change of kind ``put`` is missing.

        Args:
            since: the last ``seq`` that you have processed; 0 for all changes.
        """
        return read.changes(self._context, since)

    def status(self, address: str) -> GrainStatus:
        """Return the status of a grain: superseded, verified, restricted, held, reads.

        Raises:
            NotFoundError: the grain is not in the store.
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
        """Sign a grain in the store. Spec: OMS §9.

        A signed grain gets one more signature and keeps its address. An unsigned grain is
        superseded by a signed copy with its own address, which is derived from it and restricted
        if it is. Policies must allow the supersession: a locked grain cannot be signed.

        Args:
            address: the grain.
            signer: the signer.
            iat: the time of the signature in epoch seconds; default now.
            justification: the reason, for policies that require one. The copy contains it.

        Returns:
            The address of the signed grain.

        Raises:
            NotFoundError: the grain is not in the store.
            SignatureError: the signer returned an invalid signature.
            InvalidationDeniedError: a policy or a hold forbids the supersession.
            RangeError: the grain has the maximum number of signatures.
            KeyMissingError: the grain's key is missing, or keys to write to an encrypted store.
            OmsError, StoreError: as for ``supersede``.
        """
        from omsgrain.store import trust

        return trust.sign(self._context, address, signer, iat, justification)

    def verify(self, *, errors: OnError = "raise") -> VerifyReport:
        """Verify the address, canonical form and fields of every grain.

        Returns:
            The number of valid grains, and the invalid ones; ``index`` is their sequence number.

        Raises:
            OmsError: the first invalid grain, with ``errors="raise"``.
        """
        return read.verify(self._context, errors)

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
        """Export grains to a .mg file, or to several if they exceed one file. Spec: OMS §11.

        The manifest has the state of the grains: successor, end of validity, verification. A
        signed grain is written in one envelope per signer. Encrypted grains stay encrypted.

        Args:
            path: the file. An existing file is replaced once the new one is complete.
            codec: "none", "zstd" or "lz4".
            seekable: compress in frames of about 1 MiB, so that reading one grain decompresses one
                frame. Other decoders may silently stop after the first frame.
            sort: sort by ``created_at`` instead of storage order.
            purpose: for the rules of presets and profiles: "move" to your own store, "access" for
                the person whom the grains are about, "transfer" or "sale". "transfer" and "sale"
                leave out restricted grains. All but "access" leave out grains past their
                retention, apart from held ones for "move". ``withheld`` counts them.
            **filters: as for ``query``, with past grains unless ``current=True``.

        Raises:
            IntegrityError: a stored grain or signature is damaged.
            UnsupportedError: a rule, named in ``rule``, forbids the export. Nothing was written.
            StoreError: the file cannot be written.
        """
        from omsgrain.store import mg_files

        return mg_files.export_mg(self._context, path, codec, seekable, sort, purpose, filters)

    def import_mg(
        self,
        path: str | os.PathLike[str],
        *,
        errors: OnError = "raise",
        allow_erased: bool = False,
        adapt: bool = False,
        trust_state_from: Iterable[str | os.PathLike[str]] = (),
    ) -> ImportReport:
        """Import a .mg file, with all its parts, after verifying every byte. Spec: OMS §11.

        States in the file are claims. A supersession applies if the newer grain is present and the
        policies allow it. Signatures are verified; one whose DID cannot be resolved is kept, but
        does not count yet. Encrypted grains stay encrypted: queries find them if a key of the
        store decrypts them, otherwise only their addresses do.

        Args:
            path: the file, or the common name of its parts.
            errors: "raise" stops at the first rejected grain; "collect" skips and reports them.
            allow_erased: import grains even if they were erased before.
            adapt: convert grains in another engine's dialect instead of rejecting them, and keep
                the original blob inside; see ``omsgrain.Grain.adapt``.
            trust_state_from: DIDs or public key files. If one of these keys signed every part, in
                ``PART.sig``, the status "verified" is believed, and imported policies of scope
                ``lineage`` may cover grains that were here before.

        Raises:
            OmsError: the file or a signature file is invalid, and nothing was stored. With
                "raise", also the first rejected grain; the grains before it stay.
            StoreError: the store is read-only or full. Grains stored so far stay; import again.
        """
        from omsgrain.store import mg_files

        return mg_files.import_mg(
            self._context, path, errors, allow_erased, adapt, trust_state_from
        )

    def to_arrow(
        self,
        *,
        columns: Iterable[str] | None = None,
        unsealed: bool = False,
        **filters: Unpack[Filters],
    ) -> Any:
        """Return grains as a stream of Arrow batches, read from the store on demand.

        The columns are address, blob, state, each field, and ``extra`` with anything else as JSON;
        see docs/analytics.md. Restricted grains and grains past their retention are left out.

        Args:
            columns: column names in order; None for all.
            unsealed: decrypt the fields of encrypted grains, which are null otherwise. Blob and
                address are always those of the encrypted grain.
            **filters: as for ``query``, with past grains unless ``current=True``.

        Returns:
            A ``pyarrow.RecordBatchReader`` with batches of bounded size. Reading it can raise too.

        Raises:
            SchemaError: a column or filter is unknown.
            UnsupportedError: pyarrow is not installed, or a filter cannot match encrypted grains.
        """
        from omsgrain.store import arrow

        return arrow.to_arrow(self._context, columns, unsealed, filters)

    def to_pandas(
        self,
        *,
        columns: Iterable[str] | None = None,
        unsealed: bool = False,
        **filters: Unpack[Filters],
    ) -> Any:
        """Return grains as a ``pandas.DataFrame``, all in memory.

        Arguments and errors are those of ``to_arrow``; pandas must be installed too.
        """
        from omsgrain.store import arrow

        arrow.needed("pandas")
        return self.to_arrow(columns=columns, unsealed=unsealed, **filters).read_pandas()

    def to_polars(
        self,
        *,
        columns: Iterable[str] | None = None,
        unsealed: bool = False,
        **filters: Unpack[Filters],
    ) -> Any:
        """Return grains as a ``polars.DataFrame``, all in memory.

        Arguments and errors are those of ``to_arrow``; Polars must be installed too.
        """
        from omsgrain.store import arrow

        polars = arrow.needed("polars")
        found = self.to_arrow(columns=columns, unsealed=unsealed, **filters)
        return polars.from_arrow(found.read_all())

    def stats(self) -> StoreStats:
        """Return the number of grains, the sizes on disk and other figures of the store."""
        return self._context.inner.stats()

    def flush(self) -> None:
        """Write the memtable, and sync what was put with ``durability="relaxed"``."""
        storage = self._context.inner
        if not storage.readonly:
            storage.flush()
        storage.sync()

    def as_actor(self, actor: str) -> GrainStore:
        """Return a handle on the same store for another actor. Closing one closes both.

        Args:
            actor: the name in the audit trail: a DID, a user or a service.
        """
        context = self._context
        return GrainStore(context.inner, replace(context.settings, actor=actor))

    def close(self) -> None:
        """Close the store. A second call does nothing."""
        self._context.close()
