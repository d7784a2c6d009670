# SPDX-License-Identifier: Apache-2.0
"""Export grains with their states to .mg files, and import .mg files."""

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
from omsgrain.query import query as queries
from omsgrain.storage import erasure_queue, signatures
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import RESTRICTED
from omsgrain.storage.scan import ScannedBlob, damaged, pages
from omsgrain.storage.tables import HOLDS, SEQUENCE, STATES
from omsgrain.store import export_filter, state_merge
from omsgrain.store.export_filter import Leavers, Numbered
from omsgrain.store.lifecycle import status
from omsgrain.store.state_merge import Put
from omsgrain.store.write import put_many, write_grains

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.container.layout import Codec
    from omsgrain.container.region import Block
    from omsgrain.container.write import WrittenContainer
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.store.context import Context
    from omsgrain.store.state_merge import Claim, ImportReport, Merged

_GRAINS_A_PAGE = 1_000
_RESOLVED = b"did:key:"  # near the start of nearly every envelope


def export_mg(
    context: Context,
    path: str | os.PathLike[str],
    *,
    codec: Codec = "none",
    seekable: bool = False,
    sort: bool = False,
    purpose: Purpose = "transfer",
    **filters: Unpack[Filters],
) -> WrittenContainer:
    """Write grains to a .mg file, or to several if they exceed one file."""
    from omsgrain.container.write import write_blocks
    from omsgrain.crypto.detached import signature_path

    filters = {"current": None, **filters} if filters else {}
    states, rules, leavers = export_plan(context, filters, purpose)
    grains = _packed(context, filters, leavers)
    written = write_blocks(path, grains, states, codec=codec, seekable=seekable, sort=sort)
    for file in written.paths:
        signature_path(file).unlink(missing_ok=True)  # the signature of the replaced file
    note_export(context, written.grains, purpose, rules, leavers)
    return replace(written, withheld=dict(leavers.withheld))


def export_plan(
    context: Context, filters: Filters, purpose: Purpose
) -> tuple[dict[str, Mapping[str, Any]], set[str], Leavers]:
    """Return the states to export, the rules that require a review, and which grains may leave."""
    if purpose not in ("move", "access", "transfer", "sale"):
        raise SchemaError(
            "unknown purpose", field="/purpose", expected="move, access, transfer or sale"
        )
    states: dict[str, Mapping[str, Any]] = {}
    rules: set[str] = set()
    leavers = leavers_for(context, purpose)
    for grain in _marked(context, filters, leavers):
        try:
            state = status(context, grain.address)
        except NotFoundError:  # it was removed meanwhile
            continue
        rules.update(export_filter.check(context.settings, grain, state.held, purpose))
        if entry := export_filter.manifest_entry(state):
            states[grain.address] = entry
    return states, rules, leavers


def note_export(
    context: Context, grains: int, purpose: Purpose, rules: set[str], leavers: Leavers
) -> None:
    """Note an export in the audit trail, unless the store is read-only."""
    if context.storage.readonly:
        return
    details: dict[str, int | str] = {"grains": grains, "purpose": purpose}
    if leavers.withheld:
        details["withheld"] = leavers.withheld.total()
    if rules:
        details["review"] = ",".join(sorted(rules))[:256]
    context.storage.write(lambda w: context.note(w, "export", [], details=details))


def _marked(context: Context, filters: Filters, leavers: Leavers) -> Iterator[Grain]:
    """Return the chosen grains that have a state or that a rule may withhold."""
    if filters or context.settings.preset is not None:
        for page in chosen_pages(context, filters):
            leavers.count(page)
            yield from _opened(context, (seq for seq, _ in leavers.of(page)))
        return
    leavers.count_all()
    with context.storage.read() as reader:
        seqs = {SEQUENCE.unpack(key)[0] for key, _ in reader.rows(STATES)}
        seqs |= export_filter.under_rules(reader)
    for seq in sorted(seqs.difference(leavers.stays)):
        if seq <= leavers.last:
            yield from _opened(context, [seq])


def _opened(context: Context, seqs: Iterable[int]) -> list[Grain]:
    """Return grains, decrypted where the store has the keys."""
    with context.storage.read() as reader:
        return [grain for seq in seqs if (grain := reader.grain(seq)) is not None]


def leavers_for(context: Context, purpose: Purpose) -> Leavers:
    """Return which grains may be exported for a purpose."""
    with context.storage.read() as reader:
        last = reader.last_seq()
        if purpose == "access":  # a person gets all of their data
            return Leavers({}, last)
        over = erasure_queue.retention_over(reader, context.settings.clock())
        if purpose == "move":
            # Held grains are evidence and must move too.
            free = (s for s in over if reader.row(HOLDS, SEQUENCE.pack(s)) is None)
            return Leavers(dict.fromkeys(free, export_filter.OVER), last)
        rows = reader.rows(STATES)
        idle = (SEQUENCE.unpack(key)[0] for key, row in rows if row[0] & RESTRICTED)
        stays = dict.fromkeys(idle, export_filter.RESTRICTED)
        return Leavers(stays | dict.fromkeys(over, export_filter.OVER), last)


def _packed(context: Context, filters: Filters, leavers: Leavers) -> Iterator[Block]:
    """Return the chosen grains in blocks, as a file has them."""
    from omsgrain.container.read import gather

    count = 0
    for page in chosen_pages(context, filters) if filters else _all(context, leavers):
        if not isinstance(page, list):
            count += len(page)
            yield page
            continue
        with context.storage.read() as reader:
            packed = [in_envelopes(reader, seq, blob) for seq, blob in leavers.of(page)]
        for block in gather(chain.from_iterable(packed), count):
            count += len(block)
            yield block


def _all(context: Context, leavers: Leavers) -> Iterator[Block | list[Numbered]]:
    for page in export_filter.whole(context.storage, leavers.last, singly=bool(leavers.stays)):
        if isinstance(page, list):
            yield sound(page)
        else:
            yield page


def chosen_pages(context: Context, filters: Filters) -> Iterator[list[Numbered]]:
    """Return pages of the grains that match the filters; without filters, all grains."""
    if not filters:
        yield from map(sound, pages(context.storage))
        return
    chosen: Filters = {"bookkeeping": True, **filters}
    cursor = None
    while True:
        with context.storage.read() as reader:
            page = queries.run(
                reader,
                chosen,
                order="oldest",
                limit=_GRAINS_A_PAGE,
                cursor=cursor,
                scan=True,
            )
            digests = [bytes.fromhex(hit.address) for hit in page.results]
            seqs = [seq for seq in reader.find(digests) if seq is not None]
            found = [(seq, blob) for seq in seqs if (blob := reader.blob_at(seq)) is not None]
        yield found
        cursor = page.next_cursor
        if cursor is None:
            return


def import_mg(
    context: Context,
    path: str | os.PathLike[str],
    *,
    errors: OnError = "raise",
    allow_erased: bool = False,
    adapt: bool = False,
    trust_state_from: Iterable[str | os.PathLike[str]] = (),
) -> ImportReport:
    """Import a .mg file with all its parts, after verifying every byte."""
    trusted = _is_trusted(context, path, trust_state_from)
    arrival = Arrival(context, allow_erased=allow_erased, trusted=trusted)
    return state_merge.import_mg(path, arrival.put, arrival.merge, errors=errors, adapt=adapt)


def _is_trusted(
    context: Context, path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]
) -> bool:
    """Whether one of the given keys signed all parts of a .mg file."""
    from omsgrain import container
    from omsgrain.crypto.detached import signer_of
    from omsgrain.crypto.trust import Trust

    given, resolver = [os.fspath(one) for one in sources], context.settings.resolver
    if not given:
        return False
    trust = Trust.load(given, resolver)
    with ExitStack() as opened:
        parts = [opened.enter_context(container.read(one)) for one in container.parts(path)]
        signer = signer_of(((one.path, one.inside.data) for one in parts), trust, resolver)
    return signer in {one.did for one in trust.keys}


class Arrival:
    """Writes the grains of a file and merges the states that it claims.

    Args:
        context: the context of the store.
        allow_erased: also store grains that were erased before.
        trusted: believe the file that grains were verified.
    """

    __slots__ = ("_allow_erased", "_context", "_since", "_trusted")

    def __init__(self, context: Context, *, allow_erased: bool, trusted: bool = False) -> None:
        self._context = context
        self._allow_erased = allow_erased
        self._trusted = trusted
        with context.storage.read() as reader:
            self._since = None if trusted else reader.last_seq()

    def put(self, grains: list[bytes]) -> Put:
        """Store grains in one transaction."""
        report = put_many(
            self._context,
            grains,
            errors="collect",
            batch_size=len(grains),
            allow_erased=self._allow_erased,
        )
        unproven = _unproven(self._context, grains, report.addresses)
        return Put(report.stored, report.duplicates, report.errors, unproven)

    def merge(self, claims: list[Claim]) -> Merged:
        """Merge claims about grains in one transaction."""
        coming = state_merge.claimed_grains(claims, self._context.settings.resolver)

        def work(writer: Writer) -> Merged:
            return state_merge.merge_claims(
                writer,
                self._context.settings,
                claims,
                coming.split(coming.given),
                partial(self._note, writer),
                allow_erased=self._allow_erased,
                trusted=self._trusted,
                since=self._since,
            )

        return write_grains(self._context, coming.given, work, allow_erased=self._allow_erased)

    def _note(self, writer: Writer, operation: str, digests: list[bytes]) -> None:
        self._context.note(writer, operation, digests, reason_code="import")


def _unproven(context: Context, grains: list[bytes], addresses: list[str | None]) -> int:
    """Count the envelopes that are kept with an unverifiable signature."""
    asked = [
        (bytes.fromhex(address), grain)
        for grain, address in zip(grains, addresses, strict=True)
        if grain[:1] == ENVELOPE_BYTE and address is not None and _RESOLVED not in grain[:64]
    ]
    if not asked:
        return 0
    with context.storage.read() as reader:
        seqs = reader.find([digest for digest, _ in asked])
        return sum(
            not one.proven and one.envelope == envelope
            for (_, envelope), seq in zip(asked, seqs, strict=True)
            if seq is not None
            for one in signatures.signatures(reader, seq)
        )


def sound(entries: list[ScannedBlob]) -> list[Numbered]:
    """Return the numbers and blobs of a page; raises for a damaged one."""
    for entry in entries:
        if not entry.sound:
            raise damaged(entry)
    return [(entry.seq, entry.blob) for entry in entries]


def in_envelopes(reader: Reader, seq: int, blob: bytes) -> list[bytes]:
    """Return a grain as a file has it: its blob, or one envelope per signer."""
    if not blob[1] & SIGNED_BIT:
        return [blob]
    found = signatures.signatures(reader, seq)
    first = signatures.by_signer(found)
    if first is None:
        if reader.blob_at(seq) is None:  # it was removed meanwhile
            return []
        raise IntegrityError("a stored grain has the signed bit but no signature")
    return [first.envelope, *(one.envelope for one in found if one is not first)]
