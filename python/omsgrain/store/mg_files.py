# SPDX-License-Identifier: Apache-2.0
"""Export grains with their states to .mg files, and import .mg files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from omsgrain import container
from omsgrain.batch import ItemError, OnError, stops
from omsgrain.container.read import blob_of, examine
from omsgrain.container.verify import check_footer
from omsgrain.counts import counted
from omsgrain.errors import IntegrityError, OmsError, SchemaError
from omsgrain.header import ENVELOPE_BYTE, SIGNED_BIT
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, Writer
from omsgrain.store import export_filter, state_merge
from omsgrain.store.export_filter import Leavers
from omsgrain.store.prepared import is_sync_record, superseding, sync_record
from omsgrain.store.state_merge import Claim, Merged
from omsgrain.store.write import put_many, write_grains

if TYPE_CHECKING:
    from omsgrain.container.layout import Codec
    from omsgrain.container.region import Block
    from omsgrain.container.write import WrittenContainer
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.store.context import Context

_RESOLVED = b"did:key:"  # near the start of nearly every envelope
_BATCH = 4_000  # grains per commit
_CLAIMS = 1_000  # claims per commit

States: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The claimed states of grains by address, as a manifest has them."""

Batches: TypeAlias = Iterator[tuple[list[int], list[bytes]]]
"""Blobs and envelopes with their positions in the files."""


def export_mg(
    context: Context,
    path: str | os.PathLike[str],
    codec: Codec,
    seekable: bool,
    sort: bool,
    purpose: Purpose,
    filters: Filters,
) -> WrittenContainer:
    """Write grains to a .mg file, or to several if they exceed one file."""
    from omsgrain.container.write import write_blocks
    from omsgrain.crypto.detached import signature_path

    states, rules, leavers = export_filter.export_plan(context, filters, purpose)
    grains = _packed(context, filters, leavers)
    written = write_blocks(path, grains, states, codec=codec, seekable=seekable, sort=sort)
    for file in written.paths:
        signature_path(file).unlink(missing_ok=True)  # the signature of the replaced file
    export_filter.note_export(
        context, {"grains": written.grains}, purpose, rules, leavers.withheld
    )
    return replace(written, withheld=dict(leavers.withheld))


def _packed(context: Context, filters: Filters, leavers: Leavers) -> Iterator[Block]:
    """Return the chosen grains in blocks, as a file has them."""
    from omsgrain.container.read import gather

    count = 0
    chosen = (
        export_filter.chosen_pages(context, filters)
        if filters
        else export_filter.whole(context, leavers)
    )
    for page in chosen:
        if not isinstance(page, list):
            count += len(page)
            yield page
            continue
        with context.storage.read() as reader:
            packed = [in_envelopes(reader, seq, blob) for seq, blob in leavers.of(page)]
        for block in gather(chain.from_iterable(packed), count):
            count += len(block)
            yield block


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


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of importing a .mg file.

    Attributes:
        stored: new grains.
        duplicates: grains that were in the store already. A grain in several envelopes counts once
            as new.
        errors: the rejected grains; ``index`` counts the grains of all files, from 0.
        claims: states in the manifest.
        merged: claims that changed something.
        refused: denied claims by the address of their grain, and merged claims whose superseding
            grain has too many signatures.
        waiting: claims about grains that the store does not have; import them again later.
        unproven: signatures that are kept but do not count, because their DID could not be
            resolved.
        passed_over: sync records among the grains, which are skipped.
    """

    stored: int
    duplicates: int
    errors: list[ItemError]
    claims: int
    merged: int = 0
    refused: list[tuple[str, OmsError]] = field(default_factory=list)
    waiting: int = 0
    unproven: int = 0
    passed_over: int = 0

    __repr__ = counted


def import_mg(
    context: Context,
    path: str | os.PathLike[str],
    errors: OnError,
    allow_erased: bool,
    adapt: bool,
    trust_state_from: Iterable[str | os.PathLike[str]],
) -> ImportReport:
    """Import the grains of a .mg file with all its parts into a store.

    Every byte is verified before the first grain is written. Grains are written in batches, so
    memory use does not grow with the file. An interrupted import can be repeated.
    """
    trusted = _is_trusted(context, path, trust_state_from)
    arrival = Arrival(context, stop=stops(errors), allow_erased=allow_erased, trusted=trusted)
    files = container.parts(path)
    if is_sync_file(files):
        raise SchemaError(
            "this is a sync file, not an export",
            expected="an export; apply a sync file with omsgrain sync FILE STORE",
        )
    if adapt:
        return _import_adapted(files, arrival)
    bad: dict[int, OmsError] = {}
    claims: dict[str, Mapping[str, Any]] = {}
    first = 0
    for file in files:
        with container.read(file) as source:
            report = source.verify(errors=errors)
            for problem in report.problems:
                # After any other problem, or too many, no grain of the file can be trusted.
                if problem.part != "grain" or problem.number is None or not report.complete:
                    raise problem.error
                bad[first + problem.number] = problem.error
            claims.update(source.manifest)
            first += len(source)
    refused = [ItemError(i, None, error) for i, error in sorted(bad.items())]
    return arrival.take(_batches(files, bad), claims, refused)


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


def _import_adapted(files: Sequence[os.PathLike[str]], arrival: Arrival) -> ImportReport:
    """Import files with grains in another engine's dialect; see `import_mg`."""
    claims: dict[str, Mapping[str, Any]] = {}
    refused: list[ItemError] = []
    for file in files:
        with container.read(file) as source:
            check_footer(source)
            claims.update(source.manifest)
    for _ in _adapted(files, refused):
        if arrival.stop and refused:
            break
    return arrival.take(_adapted(files, []), claims, refused)


def _adapted(files: Iterable[os.PathLike[str]], refused: list[ItemError]) -> Batches:
    """Return grains with their positions, converted if they do not conform."""
    from omsgrain.lenient import adapt

    first = 0
    for file in files:
        with container.read(file) as source:
            for number, _, block in source.inside.blocks():
                grains = dict(enumerate(block.grains(), first + number))
                for i, error in examine(block)[1]:
                    at = first + number + i
                    try:
                        grains[at] = adapt(grains[at]).blob
                    except OmsError:
                        refused.append(ItemError(at, None, error))
                        del grains[at]
                yield list(grains), list(grains.values())
            first += len(source)


def _batches(files: Iterable[os.PathLike[str]], bad: Mapping[int, OmsError]) -> Batches:
    """Return the grains without problems, with their positions."""
    positions: list[int] = []
    grains: list[bytes] = []
    first = 0
    for file in files:
        with container.read(file) as source:
            for found in source.together():
                numbers = range(first, first + len(found))
                first += len(found)
                if bad:
                    good = [i not in bad for i in numbers]
                    positions.extend(compress(numbers, good))
                    grains.extend(compress(found, good))
                else:
                    positions.extend(numbers)
                    grains.extend(found)
                while len(grains) >= _BATCH:
                    yield positions[:_BATCH], grains[:_BATCH]
                    del positions[:_BATCH], grains[:_BATCH]
    if grains:
        yield positions, grains


def is_sync_file(files: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether the files come from a sync: they begin with a head and end with a tail."""
    try:
        with container.read(files[0]) as first, container.read(files[-1]) as last:
            ends = (first[0], last[len(last) - 1]) if len(first) and len(last) else (b"", b"")
    except OmsError:
        return False  # reading the grains reports what is wrong
    return [sync_record(one) for one in ends] == ["head", "tail"]


class Arrival:
    """Writes the grains of a file and merges the states that it claims."""

    def __init__(
        self, context: Context, *, stop: bool, allow_erased: bool, trusted: bool = False
    ) -> None:
        self._context = context
        self.stop = stop
        self._allow_erased = allow_erased
        self._trusted = trusted
        with context.storage.read() as reader:
            self._since = None if trusted else reader.last_seq()

    def take(self, batches: Batches, claims: States, refused: list[ItemError]) -> ImportReport:
        """Write grains, and merge the claims about them; ``refused`` was refused before."""
        if self.stop and refused:
            raise refused[0].error
        named = {by for claim in claims.values() if (by := claim.get("superseded_by")) is not None}
        replacing: dict[str, list[bytes]] = {}
        stored = duplicates = unproven = passed_over = 0
        for positions, grains in batches:
            if records := {i for i, one in enumerate(grains) if is_sync_record(one)}:
                passed_over += len(records)
                kept = [i for i in range(len(grains)) if i not in records]
                positions, grains = [positions[i] for i in kept], [grains[i] for i in kept]
            if named:
                positions, grains = _set_apart(positions, grains, named, replacing)
            if not grains:
                continue
            put = put_many(self._context, grains, "collect", len(grains), self._allow_erased)
            stored, duplicates = stored + put.stored, duplicates + put.duplicates
            unproven += _unproven(self._context, grains, put.addresses)
            refused += [ItemError(positions[item.index], None, item.error) for item in put.errors]
            if self.stop and put.errors:
                self._merge_all(claims, replacing)  # or superseded grains would stay current
                raise put.errors[0].error
        merged = self._merge_all(claims, replacing)
        kept_out = {address for address, _ in merged.refused} | {c.address for c in merged.waiting}
        held_back = {claims[address].get("superseded_by") for address in kept_out}
        apart = sum(len(same) for new, same in replacing.items() if new not in held_back)
        refused.sort(key=lambda item: item.index)
        return ImportReport(
            stored + merged.stored,
            duplicates + max(0, apart - merged.stored),
            refused,
            len(claims),
            merged.taken,
            merged.refused,
            len(merged.waiting),
            unproven + merged.unproven,
            passed_over,
        )

    def _merge_all(self, claims: States, apart: Mapping[str, list[bytes]]) -> Merged:
        """Merge the claims, repeatedly while a waiting one could be merged."""
        waiting = [
            Claim(
                address,
                (by := state.get("superseded_by")),
                state.get("verification_status", "unverified"),
                tuple(apart.get(by, ())) if by is not None else (),
            )
            for address, state in claims.items()
        ]
        stored = taken = unproven = 0
        refused: list[tuple[str, OmsError]] = []
        while True:
            before, source = len(waiting), iter(waiting)
            waiting = []
            while batch := list(islice(source, _CLAIMS)):
                merged = self._merge(batch)
                stored, taken = stored + merged.stored, taken + merged.taken
                unproven += merged.unproven
                refused += merged.refused
                waiting += merged.waiting
            if len(waiting) in (0, before):
                return Merged(stored, taken, refused, waiting, unproven)

    def _merge(self, claims: list[Claim]) -> Merged:
        context = self._context
        coming = state_merge.claimed_grains(claims, context.settings.resolver)

        def work(writer: Writer) -> Merged:
            return state_merge.merge_claims(
                writer,
                context.settings,
                claims,
                coming.split(coming.given),
                partial(context.note, writer, reason_code="import"),
                allow_erased=self._allow_erased,
                trusted=self._trusted,
                since=self._since,
            )

        return write_grains(context, coming.given, work, allow_erased=self._allow_erased)


def _set_apart(
    positions: list[int], grains: list[bytes], named: set[Any], apart: dict[str, list[bytes]]
) -> tuple[list[int], list[bytes]]:
    """Separate grains that must supersede, if a claim says which grain."""
    kept = []
    blobs = [blob_of(grain) for grain in grains]
    marked = superseding(blobs)
    for i, blob in enumerate(blobs):
        if i in marked and (address := sha256(blob).hexdigest()) in named:
            apart.setdefault(address, []).append(grains[i])
        else:
            kept.append(i)
    return [positions[i] for i in kept], [grains[i] for i in kept]


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
