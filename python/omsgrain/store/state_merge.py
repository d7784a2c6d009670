# SPDX-License-Identifier: Apache-2.0
"""Import .mg files, and merge the states that they claim for their grains.

A grain is verified by its address; a state is only a claim. A claim has the same effect as the
same act by the importer: policies decide, and a claim never raises a status.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import compress, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from omsgrain import container
from omsgrain.batch import ItemError, OnError, stops
from omsgrain.container.layout import Codec
from omsgrain.container.read import blob_of, examine
from omsgrain.container.verify import check_footer
from omsgrain.counts import counted
from omsgrain.errors import KeyMissingError, OmsError, SchemaError, StoreError
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import Verification
from omsgrain.store import lifecycle
from omsgrain.store.prepared import (
    PreparedGrains,
    is_sync_record,
    superseding,
    sync_record,
)
from omsgrain.store.write import let_back, place, prepare_one, refuse, was_erased

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.store.context import Settings

_BATCH = 4_000  # grains per commit
_CLAIMS = 1_000  # claims per commit


class Put(NamedTuple):
    """The result of writing some grains.

    Attributes:
        new: how many were stored.
        there: how many were in the store already.
        errors: the rejected grains, by position.
        unproven: how many signatures were kept although their DID could not be resolved.
    """

    new: int
    there: int
    errors: list[ItemError]
    unproven: int = 0


PutMany = Callable[[list[bytes]], Put]
"""Writes blobs and envelopes."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The state that a manifest claims for a grain.

    Attributes:
        address: the grain.
        superseded_by: the address of its successor.
        verification_status: its status.
        new: the superseding grain, if it can be stored only by superseding: its blob, or one
            envelope for each of its signers.
    """

    address: str
    superseded_by: str | None
    verification_status: Verification
    new: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging claims.

    Attributes:
        stored: how many grains were stored by superseding.
        taken: how many claims changed something.
        refused: claims that a policy denied, or whose grain has too many signatures.
        waiting: claims about a grain that the store does not have.
        unproven: how many signatures have an unresolvable DID.
    """

    stored: int
    taken: int
    refused: list[tuple[str, OmsError]]
    waiting: list[Claim]
    unproven: int = 0

    __repr__ = counted


Merge = Callable[[list[Claim]], Merged]


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


def export_mg(
    path: str | os.PathLike[str],
    grains: Iterable[bytes],
    states: Mapping[str, Mapping[str, Any]],
    *,
    codec: Codec,
    seekable: bool,
    sort: bool,
) -> container.WrittenContainer:
    """Write blobs and envelopes of a store to a .mg file, with their states."""
    return container.write(
        path,
        grains,
        manifest=states,
        codec=codec,
        seekable=seekable,
        sort=sort,
        check=False,
    )


def import_mg(
    path: str | os.PathLike[str],
    put: PutMany,
    merge: Merge,
    *,
    errors: OnError,
    adapt: bool = False,
) -> ImportReport:
    """Import the grains of a .mg file with all its parts into a store.

    Every byte is verified before the first grain is written. Grains are written in batches, so
    memory use does not grow with the file. An interrupted import can be repeated.
    """
    stop = stops(errors)
    files = container.parts(path)
    if is_sync_file(files):
        raise SchemaError(
            "this is a sync file, not an export",
            expected="an export; apply a sync file with omsgrain sync FILE STORE",
        )
    if adapt:
        return _import_adapted(files, put, merge, stop=stop)
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
    if stop and bad:
        raise bad[min(bad)]
    refused = [ItemError(i, None, error) for i, error in sorted(bad.items())]
    return take_in(_batches(files, bad), claims, refused, put, merge, stop=stop)


def _import_adapted(
    files: Sequence[os.PathLike[str]], put: PutMany, merge: Merge, *, stop: bool
) -> ImportReport:
    """Import files with grains in another engine's dialect; see `import_mg`."""
    claims: dict[str, Mapping[str, Any]] = {}
    refused: list[ItemError] = []
    for file in files:
        with container.read(file) as source:
            check_footer(source)
            claims.update(source.manifest)
    for _ in _adapted(files, refused):
        if stop and refused:
            raise refused[0].error
    if stop and refused:
        raise refused[0].error
    return take_in(_adapted(files, []), claims, refused, put, merge, stop=stop)


def _adapted(
    files: Iterable[os.PathLike[str]], refused: list[ItemError]
) -> Iterator[tuple[list[int], list[bytes]]]:
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


def take_in(
    batches: Iterable[tuple[list[int], list[bytes]]],
    claims: Mapping[str, Mapping[str, Any]],
    refused: list[ItemError],
    put: PutMany,
    merge: Merge,
    *,
    stop: bool,
) -> ImportReport:
    """Write grains, and merge the claims about them."""
    named = {by for claim in claims.values() if (by := claim.get("superseded_by")) is not None}
    replacing: dict[str, list[bytes]] = {}
    stored = duplicates = unproven = passed_over = 0
    for positions, grains in batches:
        if records := [i for i, one in enumerate(grains) if is_sync_record(one)]:
            passed_over += len(records)
            kept = [i for i in range(len(grains)) if i not in set(records)]
            positions, grains = [positions[i] for i in kept], [grains[i] for i in kept]
        if named:
            positions, grains = _set_apart(positions, grains, named, replacing)
        new, old, wrong, unknown = put(grains) if grains else Put(0, 0, [])
        stored, duplicates, unproven = stored + new, duplicates + old, unproven + unknown
        refused += [ItemError(positions[item.index], None, item.error) for item in wrong]
        if stop and wrong:
            _merged(claims, replacing, merge)  # or superseded grains would stay current
            raise wrong[0].error
    merged = _merged(claims, replacing, merge)
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


def is_sync_file(files: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether the files come from a sync: they begin with a head and end with a tail."""
    try:
        with container.read(files[0]) as first, container.read(files[-1]) as last:
            ends = (first[0], last[len(last) - 1]) if len(first) and len(last) else (b"", b"")
    except OmsError:
        return False  # reading the grains reports what is wrong
    return [sync_record(one) for one in ends] == ["head", "tail"]


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


def _merged(
    claims: Mapping[str, Mapping[str, Any]], apart: Mapping[str, list[bytes]], merge: Merge
) -> Merged:
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
            merged = merge(batch)
            stored, taken = stored + merged.stored, taken + merged.taken
            unproven += merged.unproven
            refused += merged.refused
            waiting += merged.waiting
        if len(waiting) in (0, before):
            return Merged(stored, taken, refused, waiting, unproven)


def _batches(
    files: Iterable[os.PathLike[str]], bad: Mapping[int, OmsError]
) -> Iterator[tuple[list[int], list[bytes]]]:
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


_RANK = {"verified": 0, "unverified": 1, "contested": 2, "retracted": 3}
"""Order of trust: a claim may only lower it."""


Note: TypeAlias = Callable[[str, list[bytes]], None]
"""Adds an entry to the audit trail: the operation, and the grains."""

GrainsByAddress: TypeAlias = Mapping[str, "PreparedGrains | OmsError"]
"""Superseding grains by address: each with all its signers, or its refusal."""


class ClaimedGrains:
    """The verified grains that claims bring along.

    Attributes:
        given: all of them together, ready for encryption.
    """

    def __init__(self) -> None:
        self.given = PreparedGrains([])
        self._parts: list[PreparedGrains] = []
        self._places: dict[str, list[int]] = {}
        self._refused: dict[str, OmsError] = {}

    def add(self, address: str, items: Sequence[bytes], resolver: Resolver | None) -> None:
        """Add a grain, which has one envelope per signer."""
        if address in self._places:
            return
        places = self._places.setdefault(address, [])
        for item in items:
            try:
                one = prepare_one(item, replacing=True, resolver=resolver)
            except OmsError as error:
                self._refused.setdefault(address, error)
                continue
            places.append(len(self._parts))
            self._parts.append(one)

    def join(self) -> None:
        """Join all added grains into ``given``."""
        self.given = PreparedGrains.joined(self._parts)

    def split(self, given: PreparedGrains) -> GrainsByAddress:
        """Return each grain by address, or its refusal."""
        found: dict[str, PreparedGrains | OmsError] = {}
        for address, places in self._places.items():
            if not places:
                found[address] = self._refused[address]
                continue
            if not given.erased.isdisjoint(places):
                found[address] = was_erased()
                continue
            found[address] = given.only(places)
        return found


def claimed_grains(claims: Sequence[Claim], resolver: Resolver | None) -> ClaimedGrains:
    """Verify the grains that claims bring along."""
    found = ClaimedGrains()
    for claim in claims:
        if claim.superseded_by is not None and claim.new:
            found.add(claim.superseded_by, claim.new, resolver)
    found.join()
    return found


def merge_claims(
    writer: Writer,
    settings: Settings,
    claims: Sequence[Claim],
    arrivals: GrainsByAddress,
    note: Note,
    *,
    allow_erased: bool = False,
    trusted: bool = False,
    since: int | None = None,
) -> Merged:
    """Merge the claims about grains that the store has, if the policies allow it."""
    taken, before = 0, writer.count()
    refused: list[tuple[str, OmsError]] = []
    waiting: list[Claim] = []
    merged: set[str] = set()
    for claim in claims:
        try:
            new = _new(writer, settings, claim, arrivals, allow_erased)
            done, late = _merge(writer, settings, claim, new, note, trusted, since)
        except StoreError:
            raise
        except OmsError as error:
            refused.append((claim.address, error))
            continue
        if late is not None:
            refused.append((claim.address, late))
        if done is None:
            waiting.append(claim)
        else:
            if allow_erased and new is not None:
                let_back(writer, new)
            taken += done
            merged.update(filter(None, [claim.superseded_by]))
    came = [given for new in merged if isinstance(given := arrivals.get(new), PreparedGrains)]
    unproven = sum(not one.proven for given in came for one in given.signatures.values())
    return Merged(writer.count() - before, taken, refused, waiting, unproven)


def _new(
    writer: Writer, settings: Settings, claim: Claim, arrivals: GrainsByAddress, allow_erased: bool
) -> PreparedGrains | None:
    """Return the superseding grain; None if the claim has none or the store lacks it."""
    if claim.superseded_by is None:
        return None
    given = arrivals.get(claim.superseded_by)
    if given is None:
        return _stored(writer, claim.superseded_by)
    if isinstance(given, OmsError):
        raise given
    refuse(writer, settings, given, allow_erased)
    return given


def _merge(
    writer: Writer,
    settings: Settings,
    claim: Claim,
    new: PreparedGrains | None,
    note: Note,
    trusted: bool,
    since: int | None,
) -> tuple[bool | None, OmsError | None]:
    """Merge a claim; returns whether it changed something (None: it waits), and a late refusal."""
    digest = bytes.fromhex(claim.address)
    seq = writer.find([digest])[0]
    if seq is None or (new is None and claim.superseded_by is not None):
        return None, None
    changed, late = False, None
    if new is not None:
        after, done = lifecycle.put_successor(
            writer, settings, digest, new, None, whole=False, since=since
        )
        placed = place(writer, new, range(len(new.pairs)))
        late = next((one.refusal for one in placed if one.refusal is not None), None)
        if done:
            note("supersede", [digest, after])
            changed = True
    status = claim.verification_status
    if status in ("contested", "retracted") or (trusted and status == "verified"):
        now = lifecycle.state_of(writer, seq).verification_status
        if (now, status) == ("unverified", "verified") or _RANK[status] > _RANK[now]:
            operation = lifecycle.set_status(writer, settings, digest, status, None)
            if operation is not None:
                note(operation, [digest])
                changed = True
    return changed, late


def _stored(reader: Reader, address: str) -> PreparedGrains | None:
    """Return a stored grain, decrypted."""
    seq = reader.find([bytes.fromhex(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if grain is None:
        return None
    if grain.sealed:
        raise KeyMissingError("the superseding grain is encrypted, and its key is missing")
    return PreparedGrains([(bytes.fromhex(grain.address), grain.blob)])
