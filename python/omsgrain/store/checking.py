# SPDX-License-Identifier: Apache-2.0
"""What every check of a store does, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Generic, TypeVar

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.grain import bare
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store.audit import verify
from omsgrain.store.base import CheckReport, Problem
from omsgrain.store.check_sealed import sealed_problems
from omsgrain.store.check_signatures import signature_problems
from omsgrain.store.check_states import state_problems
from omsgrain.store.examined import Examined
from omsgrain.store.tables import EVENTS, SEQUENCE

__all__ = ["Hashed", "Pass", "examine"]

_MOST = 1_000  # problems that are told one by one

Hashed = tuple[int, bytes, bytes | None]
"""A number, a blob, and its address; no address for a damaged blob."""

R = TypeVar("R", bound=Examined)


class Pass(Generic[R]):
    """One pass over the blobs of a snapshot, and what the index says of each.

    Attributes:
        reader: the snapshot.
        grains: how many were met.
        rows: how many index rows they must have.
        blob_bytes: how long they are together.
    """

    def __init__(self, reader: R) -> None:
        self.reader = reader
        self.grains = self.rows = self.blob_bytes = 0

    def problems(self) -> Iterator[Problem]:
        """Walk, and yield what is wrong."""
        raise NotImplementedError

    def of_blobs(self, page: list[Hashed]) -> Iterator[Problem]:
        """Count the blobs of a page, and yield which are no longer what was put."""
        self.grains += len(page)
        self.blob_bytes += sum(len(blob) for _, blob, _ in page)
        bad = [seq for seq, _, digest in page if digest is None]
        yield from (Problem("blob", seq, "the bytes are not those that were put") for seq in bad)
        # Of a sealed one only its address can be told; signatures are looked at elsewhere.
        good = [(seq, blob) for seq, blob, digest in page if digest is not None]
        plain = [(seq, bare(blob)) for seq, blob in good if not blob[1] & ENCRYPTED_BIT]
        for index, error in _core.check_many([blob for _, blob in plain])[1]:
            yield Problem("blob", plain[index][0], str(error))

    def of_head(
        self, last: int, head: tuple[int, int, int], addresses: tuple[int, int], rows: int
    ) -> Iterator[Problem]:
        """Compare the counts of a store with what was met.

        Args:
            last: the last number that a grain has.
            head: as the store's head says: grains, bytes of blobs, last number.
            addresses: how many there are, and how many there should be.
            rows: how many index rows there are.
        """
        event = self.reader.last_row(EVENTS)
        if event is not None and len(event[0]) == SEQUENCE.size:
            last = max(last, *SEQUENCE.unpack(event[0]))
        if head[:2] != (self.grains, self.blob_bytes) or last > head[2]:
            yield Problem("head", None, "the counts of the store are not those of its blobs")
        if addresses[0] != addresses[1]:
            yield Problem("address", None, "there are more or fewer addresses than grains")
        if rows != self.rows:
            yield Problem("term", None, "there are more or fewer index rows than the grains have")


def examine(
    reader: Examined,
    blobs: Pass[R],
    first: tuple[Problem, ...] = (),
    passing: tuple[type[OmsError], ...] = (),
) -> CheckReport:
    """Look at all there is in a snapshot.

    Args:
        reader: the snapshot.
        blobs: the pass over its blobs.
        first: what was found before.
        passing: errors that say nothing about the store, and so are raised.
    """
    problems, grains, rows = [*first], 0, 0
    try:
        found = chain(
            blobs.problems(),
            state_problems(reader),
            sealed_problems(reader),
            signature_problems(reader),
            _audit_problems(reader),
        )
        for problem in found:
            if len(problems) < _MOST:
                problems.append(problem)
        grains, rows = blobs.grains, blobs.rows
    except passing:
        raise
    except OmsError as error:
        problems.append(Problem("file", None, str(error)))
    return CheckReport(not problems, tuple(problems), grains, rows)


def _audit_problems(reader: Examined) -> Iterator[Problem]:
    for problem in verify(reader).problems:
        where = "" if problem.number is None else f"entry {problem.number}: "
        yield Problem("audit", None, where + problem.message)
