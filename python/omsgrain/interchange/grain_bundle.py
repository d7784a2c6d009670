# SPDX-License-Identifier: Apache-2.0
"""A bundle of another engine into a store: its grains as they are, and what supersedes what."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omsgrain.batch import ItemError, OnError, stops
from omsgrain.errors import FormatError
from omsgrain.formats.foreign.areev import AREEV, GrainBundle
from omsgrain.store.context import context_of
from omsgrain.store.mg_files import Arrival, ImportReport

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

_BATCH: Final = 1_000


def read_bundle(file: Path) -> GrainBundle:
    return AREEV.read_grains(AREEV.read_bytes(file))


def import_grains(
    store: GrainStore, read: GrainBundle, *, errors: OnError = "raise", allow_erased: bool = False
) -> ImportReport:
    """Store the grains of a bundle; those that are stored already are not changed."""
    arrival = Arrival(context_of(store), stop=stops(errors), allow_erased=allow_erased)
    refused = [
        ItemError(int(one.pointer[1:]), None,
                  FormatError(one.message, field=one.pointer, rule=one.rule))
        for one in read.problems
    ]  # fmt: skip
    return arrival.take(_batches(read), read.states, refused)


def _batches(read: GrainBundle) -> Iterator[tuple[list[int], list[bytes]]]:
    blobs = iter(enumerate(read.blobs.values()))
    while batch := list(islice(blobs, _BATCH)):
        yield [at for at, _ in batch], [blob for _, blob in batch]
