# SPDX-License-Identifier: Apache-2.0
"""Between a store and .mg files. Spec: OMS §11, §28."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from omsgrain import container
from omsgrain.batch import ItemError, OnError, stops
from omsgrain.container.layout import Codec
from omsgrain.errors import OmsError, UnsupportedError

__all__ = ["ImportReport", "export_mg", "import_mg"]

_ENVELOPE = b"\xd2"
_BATCH = 4_000  # grains a commit

PutMany = Callable[[list[bytes]], "tuple[int, int, list[ItemError]]"]
"""Stores blobs; gives how many were new, how many were there, and the refusals by position."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a .mg file.

    Attributes:
        stored: grains that were new.
        duplicates: grains that were there already.
        errors: the refusals; ``index`` counts the grains of all files, from 0.
        claims: states in the manifest. What a file says of its grains' state is a claim; this
            version takes none over.
    """

    stored: int
    duplicates: int
    errors: list[ItemError]
    claims: int


def export_mg(
    path: str | os.PathLike[str], blobs: Iterable[bytes], *, codec: Codec, sort: bool
) -> container.Written:
    """Write blobs that a store has verified to a .mg file."""
    return container.write(path, blobs, codec=codec, sort=sort, check=False)


def import_mg(path: str | os.PathLike[str], put: PutMany, *, errors: OnError) -> ImportReport:
    """Put the grains of a .mg file, or of all its parts, into a store.

    Every byte is verified before the first grain is written; then they go in by batches, so that
    memory does not grow with the file. An import that was cut off can be run again.

    Raises:
        OmsError: with ``raise``, the first thing that is wrong; with ``collect``, what is wrong
            with the file itself (its index, its footer). Nothing was written then.
    """
    stop = stops(errors)
    files = container.parts(path)
    bad: dict[int, OmsError] = {}
    claims = first = 0
    for file in files:
        with container.read(file) as source:
            report = source.verify(errors=errors)
            for problem in report.problems:
                # With such a problem, or too many to list, no grain of the file can be trusted.
                if problem.part != "grain" or problem.number is None or not report.complete:
                    raise problem.error
                bad[first + problem.number] = problem.error
            claims += len(source.manifest)
            for number, blob in enumerate(source):
                if blob[:1] == _ENVELOPE:
                    bad[first + number] = UnsupportedError("this version stores no signed grains")
            first += len(source)
    if stop and bad:
        raise bad[min(bad)]
    refused = [ItemError(i, None, error) for i, error in sorted(bad.items())]
    stored = duplicates = 0
    for positions, blobs in _batches(_good(files, bad)):
        new, old, wrong = put(blobs)
        stored, duplicates = stored + new, duplicates + old
        refused += [ItemError(positions[item.index], None, item.error) for item in wrong]
        if stop and wrong:
            raise wrong[0].error
    return ImportReport(stored, duplicates, sorted(refused, key=lambda item: item.index), claims)


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
