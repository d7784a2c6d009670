# SPDX-License-Identifier: Apache-2.0
"""Between a store and .mg files. Spec: OMS §11, §28."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any

from omsgrain import container
from omsgrain.batch import ItemError, OnError, stops
from omsgrain.container.layout import Codec
from omsgrain.errors import OmsError, UnsupportedError
from omsgrain.intake import superseding
from omsgrain.store.state import Verification

__all__ = ["Claim", "ImportReport", "Merged", "export_mg", "import_mg"]

_ENVELOPE = b"\xd2"
_BATCH = 4_000  # grains a commit
_CLAIMS = 1_000  # claims a commit

PutMany = Callable[[list[bytes]], "tuple[int, int, list[ItemError]]"]
"""Stores blobs; gives how many were new, how many were there, and the refusals by position."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a manifest says became of a grain.

    Attributes:
        address: the grain.
        superseded_by: by which it is said to be superseded.
        verification_status: what verification is said to have found.
        new: the superseding grain's blob, if only superseding can store it.
    """

    address: str
    superseded_by: str | None
    verification_status: Verification
    new: bytes | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of claims.

    Attributes:
        stored: how many grains came in by superseding.
        taken: how many changed something.
        refused: those that a policy refused.
        waiting: those that name a grain which is not here.
    """

    stored: int
    taken: int
    refused: list[tuple[str, OmsError]]
    waiting: list[Claim]


Merge = Callable[[list[Claim]], Merged]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a .mg file.

    Attributes:
        stored: grains that were new.
        duplicates: grains that were there already.
        errors: the refusals; ``index`` counts the grains of all files, from 0.
        claims: states in the manifest. What a file says of its grains' state is a claim.
        merged: claims that were taken over; the rest said nothing new or nothing that counts.
        refused: claims that a policy refused, by the address of the grain they are about.
        waiting: claims that name a grain which is not here; import them again when it is.
    """

    stored: int
    duplicates: int
    errors: list[ItemError]
    claims: int
    merged: int = 0
    refused: list[tuple[str, OmsError]] = field(default_factory=list)
    waiting: int = 0


def export_mg(
    path: str | os.PathLike[str],
    blobs: Iterable[bytes],
    states: Mapping[str, Mapping[str, Any]],
    *,
    codec: Codec,
    sort: bool,
) -> container.Written:
    """Write blobs that a store has verified to a .mg file, with what became of them."""
    return container.write(path, blobs, manifest=states, codec=codec, sort=sort, check=False)


def import_mg(
    path: str | os.PathLike[str], put: PutMany, merge: Merge, *, errors: OnError
) -> ImportReport:
    """Put the grains of a .mg file, or of all its parts, into a store.

    Every byte is verified before the first grain is written; then they go in by batches, so that
    memory does not grow with the file. An import that was cut off can be run again.

    Raises:
        OmsError: with ``raise``, the first thing that is wrong; with ``collect``, what is wrong
            with the file itself (its index, its footer). Nothing was written if it is wrong with
            the file; the grains before one that the store refuses stay, with their states.
    """
    stop = stops(errors)
    files = container.parts(path)
    bad: dict[int, OmsError] = {}
    replacing: dict[str, bytes] = {}
    claims: dict[str, Mapping[str, Any]] = {}
    first = 0
    for file in files:
        with container.read(file) as source:
            report = source.verify(errors=errors)
            for problem in report.problems:
                # With such a problem, or too many to list, no grain of the file can be trusted.
                if problem.part != "grain" or problem.number is None or not report.complete:
                    raise problem.error
                bad[first + problem.number] = problem.error
            claims.update(source.manifest)
            for number, blob in enumerate(source):
                if blob[:1] == _ENVELOPE:
                    bad[first + number] = UnsupportedError("this version stores no signed grains")
            first += len(source)
    if stop and bad:
        raise bad[min(bad)]
    named = {claim.get("superseded_by") for claim in claims.values()}
    refused = [ItemError(i, None, error) for i, error in sorted(bad.items())]
    stored = duplicates = 0
    for positions, blobs in _batches(_good(files, bad)):
        positions, blobs = _set_apart(positions, blobs, named, replacing)
        new, old, wrong = put(blobs) if blobs else (0, 0, [])
        stored, duplicates = stored + new, duplicates + old
        refused += [ItemError(positions[item.index], None, item.error) for item in wrong]
        if stop and wrong:
            _merge(claims, replacing, merge)  # what is stored by now is not to pass for current
            raise wrong[0].error
    merged = _merge(claims, replacing, merge)
    kept_out = {address for address, _ in merged.refused} | {c.address for c in merged.waiting}
    held_back = {claims[address].get("superseded_by") for address in kept_out} & replacing.keys()
    duplicates += max(0, len(replacing) - len(held_back) - merged.stored)
    refused.sort(key=lambda item: item.index)
    return ImportReport(
        stored + merged.stored,
        duplicates,
        refused,
        len(claims),
        merged.taken,
        merged.refused,
        len(merged.waiting),
    )


def _set_apart(
    positions: list[int], blobs: list[bytes], named: set[Any], apart: dict[str, bytes]
) -> tuple[list[int], list[bytes]]:
    """Keep back grains that only superseding can store, if a claim says what they supersede."""
    kept = []
    marked = superseding(blobs)
    for i, blob in enumerate(blobs):
        if i in marked and (address := sha256(blob).hexdigest()) in named:
            apart[address] = blob
        else:
            kept.append(i)
    return [positions[i] for i in kept], [blobs[i] for i in kept]


def _merge(
    claims: Mapping[str, Mapping[str, Any]], apart: Mapping[str, bytes], merge: Merge
) -> Merged:
    """Offer the claims until none of those that wait can be taken over any more."""
    waiting = [
        Claim(
            address,
            (by := told.get("superseded_by")),
            told.get("verification_status", "unverified"),
            apart.get(by) if by is not None else None,
        )
        for address, told in claims.items()
    ]
    stored = taken = 0
    refused: list[tuple[str, OmsError]] = []
    while True:
        before, source = len(waiting), iter(waiting)
        waiting = []
        while batch := list(islice(source, _CLAIMS)):
            merged = merge(batch)
            stored, taken = stored + merged.stored, taken + merged.taken
            refused += merged.refused
            waiting += merged.waiting
        if len(waiting) in (0, before):
            return Merged(stored, taken, refused, waiting)


def _good(
    files: Iterable[os.PathLike[str]], bad: dict[int, OmsError]
) -> Iterator[tuple[int, bytes]]:
    first = 0
    for file in files:
        with container.read(file) as source:
            for number, blob in enumerate(source):
                if first + number not in bad:
                    yield first + number, blob
            first += len(source)


def _batches(grains: Iterator[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[bytes]]]:
    while batch := list(islice(grains, _BATCH)):
        yield [position for position, _ in batch], [blob for _, blob in batch]
