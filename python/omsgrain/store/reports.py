# SPDX-License-Identifier: Apache-2.0
"""What a store says of itself: how much it holds, and what looking after it found."""

from __future__ import annotations

from dataclasses import dataclass

from omsgrain.counts import counted

__all__ = ["CheckReport", "CompactReport", "Problem", "RebuildReport", "StoreStats"]


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How much a store holds.

    Attributes:
        grains: number of grains.
        blob_bytes: bytes of their blobs together.
        last_seq: the last sequence number given.
        watermark: the last sequence number that the index tables cover; the rest is in memory.
        file_bytes: size of the store's file; 0 in memory.
        map_bytes: address space set aside for it, which grows by itself; 0 in memory.
        format: the store format; 0 in memory.
    """

    grains: int
    blob_bytes: int
    last_seq: int
    watermark: int = 0
    file_bytes: int = 0
    map_bytes: int = 0
    format: int = 0


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild found.

    Attributes:
        grains: how many were indexed.
        rows: how many index rows they have.
        readdressed: how many addresses were missing from the table.
        damaged: sequence numbers of blobs that are no longer what was put; they get no rows.
    """

    grains: int
    rows: int
    readdressed: int
    damaged: tuple[int, ...]

    __repr__ = counted


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did.

    Attributes:
        before: bytes of the data file.
        after: bytes of the new one.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a check found.

    Attributes:
        where: "blob", "address", "term", "head" or "file".
        seq: the sequence number of the grain, if it is about one.
        message: what is wrong.
    """

    where: str
    seq: int | None
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found.

    Attributes:
        ok: nothing is wrong.
        problems: what is wrong, the first thousand.
        grains: how many were checked.
        rows: how many index rows were checked.
    """

    ok: bool
    problems: tuple[Problem, ...]
    grains: int
    rows: int

    __repr__ = counted
