# SPDX-License-Identifier: Apache-2.0
"""Counts over all grains, in bounded memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.json_values import time_text

_FLAGS: Final = ("signed", "sealed", "compressed", "content refs", "embedding refs", "CBOR")

#: Widths of a column in seconds, each a multiple of the one before, so that columns can be merged.
_WIDTHS: Final = (60, 600, 3600, 21_600, 86_400, 604_800, 2_419_200, 31_449_600)
_COLUMNS: Final = 120

_GRAINS: Final = 5_000  # the newest grains, for triples and signers
_BYTES: Final = 64 << 20  # of their blobs

_NAMES = {kind.byte: kind.name for kind in og.registry.TYPES}


class TimeColumns:
    """Counts of grains by type and time, in columns that are widened as needed."""

    def __init__(self) -> None:
        self._width = 0
        self._counts: Counter[tuple[int, str]] = Counter()
        self._first = self._last = -1

    def add(self, second: int, kind: str) -> None:
        """Count a grain made in this second since 1970."""
        column = second // _WIDTHS[self._width]
        self._counts[column, kind] += 1
        self._first = column if self._first < 0 else min(column, self._first)
        self._last = max(column, self._last)
        while self._last - self._first >= _COLUMNS and self._width + 1 < len(_WIDTHS):
            self._widen()

    def _widen(self) -> None:
        by = _WIDTHS[self._width + 1] // _WIDTHS[self._width]
        self._width += 1
        joined: Counter[tuple[int, str]] = Counter()
        for (column, kind), count in self._counts.items():
            joined[column // by, kind] += count
        self._counts = joined
        self._first //= by
        self._last //= by

    def values(self) -> dict[str, Any]:
        """Return the width in seconds, and each column: its begin and its counts by type."""
        width = _WIDTHS[self._width]
        columns: dict[int, dict[str, int]] = {}
        for (column, kind), count in sorted(self._counts.items()):
            columns.setdefault(column, {})[kind] = count
        made = [{"from": column * width, "types": counts} for column, counts in columns.items()]
        return {"width": width, "columns": made}


class Newest:
    """The last grains in order of arrival, up to a number and an amount of bytes."""

    def __init__(self, shown: int) -> None:
        self._grains = max(shown, _GRAINS)
        self._kept: deque[og.Grain] = deque()
        self._bytes = 0

    def add(self, grain: og.Grain) -> None:
        self._kept.append(grain)
        self._bytes += len(grain.blob)
        while len(self._kept) > self._grains or self._bytes > _BYTES:
            self._bytes -= len(self._kept.popleft().blob)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[og.Grain]:
        """Yield the newest first."""
        return reversed(self._kept)


class Tally:
    """Counts of grains by their headers; no payload is read."""

    def __init__(self) -> None:
        self.grains = 0
        self._bytes = 0
        self._types: Counter[str] = Counter()
        self._sensitivity = [0, 0, 0, 0]
        self._flags: Counter[str] = Counter()
        self._times = TimeColumns()
        self._first: int | None = None
        self._last: int | None = None

    def add(self, grain: og.Grain) -> None:
        blob = grain.blob
        header = og.read_header(blob)
        kind = _NAMES.get(header.type_byte, f"0x{header.type_byte:02x}")
        self.grains += 1
        self._bytes += len(blob)
        self._types[kind] += 1
        self._sensitivity[header.sensitivity] += 1
        self._flags.update(name for bit, name in enumerate(_FLAGS) if header.flags >> bit & 1)
        self._times.add(header.created_at, kind)
        at = header.created_at
        self._first = at if self._first is None else min(at, self._first)
        self._last = at if self._last is None else max(at, self._last)

    def values(self) -> dict[str, Any]:
        return {
            "grains": self.grains,
            "bytes": self._bytes,
            "first": None if self._first is None else time_text(self._first * 1000),
            "last": None if self._last is None else time_text(self._last * 1000),
            "types": dict(self._types.most_common()),
            "sensitivity": self._sensitivity,
            "flags": {name: self._flags[name] for name in _FLAGS},
            "times": self._times.values(),
        }
