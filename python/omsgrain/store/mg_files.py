# SPDX-License-Identifier: Apache-2.0
"""Carrying grains, and what became of them, from store to store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from omsgrain.batch import OnError
from omsgrain.errors import IntegrityError, NotFoundError, SchemaError
from omsgrain.grain import Grain
from omsgrain.header import ENVELOPE_BYTE, SIGNED_BIT
from omsgrain.query.filters import conditions
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import RESTRICTED
from omsgrain.storage.scan import ScannedBlob, damaged, pages
from omsgrain.storage.tables import HOLDS, SEQUENCE, STATES
from omsgrain.store import export_filter, state_merge
from omsgrain.store.export_filter import Leavers, Numbered
from omsgrain.store.lifecycle import Changing
from omsgrain.store.prepared import Incoming
from omsgrain.store.reading import Finding
from omsgrain.store.write import Putting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.container.layout import Codec
    from omsgrain.container.region import Block
    from omsgrain.container.write import WrittenContainer
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.store.state_merge import Claim, ImportReport, Merge, Merged, PutMany

_GRAINS_A_PAGE = 1_000
_RESOLVED = b"did:key:"  # in the first bytes of nearly every envelope


class Moving(Finding, Putting, Changing):
    """The part of a GrainStore that writes and reads .mg files."""

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
        """Write grains to a .mg file, or to several if one cannot hold them.

        What became of them (superseded by which, until when, verification) goes along in the
        manifest. A signed grain stands in its envelope, and once more for each further signer; a
        sealed one stays sealed, and only who has the key can read it there.

        Args:
            path: the file; one that is there is replaced when all is written.
            codec: "none", "zstd" or "lz4"; the grains are packed into one frame.
            seekable: pack them into frames of about 1 MiB, so that reading one grain unpacks one
                frame. Other decoders may stop after the first frame without an error.
            sort: by created_at instead of arrival.
            purpose: why, for the rules of presets and profiles: ``move`` to another store of the
                same house, ``access`` by the person it is about, ``transfer``, or ``sale``.
            **filters: those of ``query``, with past grains unless ``current=True``; without any,
                all grains. Restricted grains go along to ``move`` and for ``access`` only. What
                may be kept no longer goes along for ``access``, and to ``move`` if somebody
                holds it. The report counts as ``withheld`` what stays.

        Raises:
            IntegrityError: a stored grain, or a signature, is damaged.
            UnsupportedError: a rule of a preset or of a profile keeps a grain here; ``rule`` names
                it, and nothing was written.
            StoreError: the file cannot be written.

        Spec: OMS §11
        """
        from omsgrain.container.write import write_blocks

        filters = {"current": None, **filters} if filters else {}
        states, rules, leavers = self._leaving(filters, purpose)
        grains = self._packed(filters, leavers)
        written = write_blocks(path, grains, states, codec=codec, seekable=seekable, sort=sort)
        self._note_export(written.grains, purpose, rules, leavers)
        return replace(written, withheld=dict(leavers.withheld))

    def _leaving(
        self, filters: Filters, purpose: Purpose
    ) -> tuple[dict[str, Mapping[str, Any]], set[str], Leavers]:
        """See what may leave: what is told of it, which rules want a look, which grains."""
        if purpose not in ("move", "access", "transfer", "sale"):
            raise SchemaError(
                "no such purpose", field="/purpose", expected="move, access, transfer or sale"
            )
        states: dict[str, Mapping[str, Any]] = {}
        rules: set[str] = set()
        leavers = self._leavers(purpose)
        for grain in self._marked(filters, leavers):
            try:
                state = self.state(grain.address)
            except NotFoundError:  # it was removed meanwhile
                continue
            rules.update(export_filter.check(self._settings, grain, state.held, purpose))
            if told := export_filter.manifest_entry(state):
                states[grain.address] = told
        return states, rules, leavers

    def _note_export(
        self, grains: int, purpose: Purpose, rules: set[str], leavers: Leavers
    ) -> None:
        """Tell the audit trail of an export, where it can be written."""
        if self._store.readonly:
            return
        told: dict[str, int | str] = {"grains": grains, "purpose": purpose}
        if leavers.withheld:
            told["withheld"] = leavers.withheld.total()
        if rules:
            told["review"] = ",".join(sorted(rules))[:256]
        self._store.write(lambda w: self._note(w, "export", [], details=told))

    def _marked(self, filters: Filters, leavers: Leavers) -> Iterator[Grain]:
        """The chosen grains that have a state, or that a rule may keep here."""
        if filters or self._settings.preset is not None:
            for page in self._chosen(filters):
                leavers.count(page)
                yield from self._opened(seq for seq, _ in leavers.of(page))
            return
        leavers.count_all()
        with self._store.read() as reader:
            seqs = {SEQUENCE.unpack(key)[0] for key, _ in reader.rows(STATES)}
            seqs |= export_filter.under_rules(reader)
        for seq in sorted(seqs.difference(leavers.stays)):
            if seq <= leavers.last:
                yield from self._opened([seq])

    def _opened(self, seqs: Iterable[int]) -> list[Grain]:
        """Grains as who holds the keys sees them."""
        with self._store.read() as reader:
            return [grain for seq in seqs if (grain := reader.grain(seq)) is not None]

    def _leavers(self, purpose: Purpose) -> Leavers:
        """Which grains may leave: none that is of no use, or only to be erased."""
        with self._store.read() as reader:
            last = reader.last_seq()
            if purpose == "access":  # a person's own data, as long as they are here
                return Leavers({}, last)
            over = export_filter.retention_over(reader, self._settings.clock())
            if purpose == "move":
                # What a hold keeps is evidence, and must not be left behind.
                free = (s for s in over if reader.row(HOLDS, SEQUENCE.pack(s)) is None)
                return Leavers(dict.fromkeys(free, export_filter.OVER), last)
            rows = reader.rows(STATES)
            idle = (SEQUENCE.unpack(key)[0] for key, row in rows if row[0] & RESTRICTED)
            stays = dict.fromkeys(idle, export_filter.RESTRICTED)
            return Leavers(stays | dict.fromkeys(over, export_filter.OVER), last)

    def _packed(self, filters: Filters, leavers: Leavers) -> Iterator[Block]:
        """The chosen grains as they stand in a file."""
        from omsgrain.container.read import gather

        count = 0
        for page in self._chosen(filters) if filters else self._all(leavers):
            if not isinstance(page, list):
                count += len(page)
                yield page
                continue
            with self._store.read() as reader:
                packed = [in_envelopes(reader, seq, blob) for seq, blob in leavers.of(page)]
            for block in gather(chain.from_iterable(packed), count):
                count += len(block)
                yield block

    def _all(self, leavers: Leavers) -> Iterator[Block | list[Numbered]]:
        for page in export_filter.whole(self._store, leavers.last, singly=bool(leavers.stays)):
            if isinstance(page, list):
                yield _sound(page)
            else:
                yield page

    def _chosen(self, filters: Filters) -> Iterator[list[Numbered]]:
        if not filters:
            yield from map(_sound, pages(self._store))
            return
        chosen: Filters = {"bookkeeping": True, **filters}
        conditions(chosen)
        cursor = None
        # An export is told of as one, and no reading by a user.
        asked = type(self)(self._below, replace(self._settings, count_access=False))
        while True:
            page = asked.query(
                **chosen, order="oldest", limit=_GRAINS_A_PAGE, cursor=cursor, scan=True
            )
            digests = [bytes.fromhex(hit.content_address) for hit in page.results]
            with self._store.read() as reader:
                seqs = [seq for seq in reader.find(digests) if seq is not None]
                found = [(seq, blob) for seq in seqs if (blob := reader.blob_at(seq)) is not None]
            yield found
            cursor = page.next_cursor
            if cursor is None:
                return

    def import_mg(
        self,
        path: str | os.PathLike[str],
        *,
        errors: OnError = "raise",
        allow_erased: bool = False,
        adapt: bool = False,
        trust_state_from: Iterable[str | os.PathLike[str]] = (),
    ) -> ImportReport:
        """Take in the grains of a .mg file, or of all its parts, after verifying every byte.

        What the file says of their state is a claim. That a grain was superseded is taken over
        where the grain that did so is there and the policies allow it; that a grain was verified,
        only from a file that is signed by whom you trust. Without such a signature no policy with
        scope ``lineage`` comes to cover grains that were in the store before. Counts of reads
        stay where they were counted.

        The signatures of signed grains are verified. One whose DID cannot be resolved is kept, and
        does not count until it is verified. Sealed grains come in as they are. Those that a key of
        the store opens are found as if they had been put here, also if they came before the key;
        all others by their addresses only.

        Args:
            path: the file, or the name that its parts have in common.
            errors: ``raise``: stop at the first refusal; ``collect``: go on, and list them.
            allow_erased: take in those, too, that were erased before.
            adapt: store a conforming grain in place of one that another engine wrote in its own
                way, and keep the foreign blob in it; see ``omsgrain.Grain.adapt``.
            trust_state_from: DIDs, or files of public keys. A grain that is unverified here
                becomes verified if the file says so, and one of these keys has signed every part
                of it, as ``PART.sig``.

        Raises:
            SignatureError: with ``trust_state_from``, a signature beside the file does not hold;
                nothing was stored.
            OmsError: what is wrong with the file; nothing was stored then. With ``raise``, why
                the store refuses a grain; those before it stay, with their states.
            StoreError: read-only or full; what was stored by then stays, and the import can be
                run again.

        Spec: OMS §11
        """
        from omsgrain.store.state_merge import import_mg

        put, merge = self._taking_in(allow_erased, self._is_trusted(path, trust_state_from))
        return import_mg(path, put, merge, errors=errors, adapt=adapt)

    def _is_trusted(
        self, path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]
    ) -> bool:
        """Whether one of some keys has signed a .mg file, or all its parts."""
        from omsgrain import container
        from omsgrain.crypto.detached import signer_of
        from omsgrain.crypto.trust import Trust

        given, resolver = [os.fspath(one) for one in sources], self._settings.resolver
        if not given:
            return False
        trust = Trust.load(given, resolver)
        with ExitStack() as opened:
            parts = [opened.enter_context(container.read(one)) for one in container.parts(path)]
            signer = signer_of(((one.path, one.inside.data) for one in parts), trust, resolver)
        return signer in {one.did for one in trust.keys}

    def _taking_in(self, allow_erased: bool, trusted: bool = False) -> tuple[PutMany, Merge]:
        """How grains of a file come in, and what it claims of them."""
        from omsgrain.store.state_merge import Put

        with self._store.read() as reader:
            last = reader.last_seq()

        def put(grains: list[bytes]) -> Put:
            report = self.put_many(
                grains, errors="collect", batch_size=len(grains), allow_erased=allow_erased
            )
            unproven = self._unproven(grains, report.addresses)
            return Put(report.stored, report.duplicates, report.errors, unproven)

        def merge(claims: list[Claim]) -> Merged:
            coming = state_merge.arriving(claims, self._settings.resolver)

            def work(writer: Writer, given: Incoming) -> Merged:
                return state_merge.merge_claims(
                    writer,
                    self._settings,
                    claims,
                    coming.split(given),
                    partial(noted, writer),
                    allow_erased=allow_erased,
                    trusted=trusted,
                    since=None if trusted else last,
                )

            return self._bring(coming.intake, work, allow_erased=allow_erased)

        def noted(writer: Writer, operation: str, digests: list[bytes]) -> None:
            self._note(writer, operation, digests, reason_code="import")

        return put, merge

    def _unproven(self, grains: list[bytes], addresses: list[str | None]) -> int:
        """How many of the envelopes are kept with a signature that could not be verified."""
        asked = [
            (bytes.fromhex(address), grain)
            for grain, address in zip(grains, addresses, strict=True)
            if grain[:1] == ENVELOPE_BYTE and address is not None and _RESOLVED not in grain[:64]
        ]
        if not asked:
            return 0
        with self._store.read() as reader:
            seqs = reader.find([digest for digest, _ in asked])
            return sum(
                not one.proven and one.envelope == envelope
                for (_, envelope), seq in zip(asked, seqs, strict=True)
                if seq is not None
                for one in signatures.signatures(reader, seq)
            )


def _sound(entries: list[ScannedBlob]) -> list[Numbered]:
    for entry in entries:
        if not entry.sound:
            raise damaged(entry)
    return [(entry.seq, entry.blob) for entry in entries]


def in_envelopes(reader: Reader, seq: int, blob: bytes) -> list[bytes]:
    """A grain as it stands in a file: its blob, or an envelope of it for each of its signers."""
    if not blob[1] & SIGNED_BIT:
        return [blob]
    found = signatures.signatures(reader, seq)
    first = signatures.by_signer(found)
    if first is None:
        if reader.blob_at(seq) is None:  # it was removed meanwhile
            return []
        raise IntegrityError("a stored grain says that it is signed, and has no signature")
    return [first.envelope, *(one.envelope for one in found if one is not first)]
