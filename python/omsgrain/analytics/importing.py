# SPDX-License-Identifier: Apache-2.0
"""Grains of a Parquet file on their way into a store, with what the file says became of them."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import Any

from omsgrain.analytics import parquet
from omsgrain.batch import ItemError, OnError, stops
from omsgrain.errors import OmsError
from omsgrain.exchange import ImportReport, Merge, PutMany, take_in

__all__ = ["import_parquet"]


def import_parquet(
    path: str | os.PathLike[str], put: PutMany, merge: Merge, *, errors: OnError
) -> ImportReport:
    """Put the grains of a Parquet file into a store.

    The file is read twice: every blob is compared with its address before the first grain is
    written. ``index`` of an error is the number of its row, from 0.

    Raises:
        OmsError: with ``raise``, the first thing that is wrong; with ``collect``, what is wrong
            with the file itself. Nothing was written if it is wrong with the file; the grains
            before one that the store refuses stay, with their states.
    """
    stop = stops(errors)
    bad: dict[int, OmsError] = {}
    claims: dict[str, dict[str, Any]] = {}
    first = 0
    for rows in parquet.read(path):
        bad.update((first + i, error) for i, error in rows.wrong.items())
        if stop and bad:
            raise bad[min(bad)]
        claims.update(rows.states)
        first += len(rows.grains)
    refused = [ItemError(i, None, error) for i, error in sorted(bad.items())]
    return take_in(_batches(path, bad), claims, refused, put, merge, stop=stop)


def _batches(
    path: str | os.PathLike[str], bad: Container[int]
) -> Iterator[tuple[list[int], list[bytes]]]:
    first = 0
    for rows in parquet.read(path):
        positions: list[int] = []
        grains: list[bytes] = []
        for number, same in enumerate(rows.grains, first):
            if number not in bad:
                positions += [number] * len(same)
                grains += same
        first += len(rows.grains)
        yield positions, grains
