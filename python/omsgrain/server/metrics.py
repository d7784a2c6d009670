# SPDX-License-Identifier: Apache-2.0
"""Figures of a server, a bridge or a store, in the text format of Prometheus.

The counters of requests are in memory that all workers of a server share, a row for each worker,
so any worker can answer for all. A figure has no content, no user and no token.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from mmap import mmap
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from omsgrain._core import __version__

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the times of requests, in seconds."""
OTHER: Final = "other"
"""The route of a request that has none."""
_CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx", "aborted")
_STORE: Final = {
    "grains": "Number of grains.",
    "blob_bytes": "Bytes of the grains' blobs.",
    "file_bytes": "Bytes of the store's file.",
    "free_bytes": "Bytes of the file that new grains use again.",
    "map_bytes": "Bytes of address space that the store reserves.",
    "last_seq": "The last sequence number.",
    "watermark": "The last sequence number whose index rows are on disk.",
    "format": "The store format.",
}
_REMOVED: Final = {"removed_grains": "Grains that left the store, for any reason."}
_HISTORY: Final = {
    "oldest_grain_timestamp_seconds": "When the oldest grain was created.",
    "history_run_timestamp_seconds": "When grains last left by age or by size.",
    "history_keep_seconds": "The age at which grains leave.",
    "history_max_bytes": "The size of the file at which the oldest grains leave.",
}

Kind = Literal["counter", "gauge", "histogram"]


class Figure(NamedTuple):
    """A figure with its samples: the ending of the name, the labels, the value."""

    name: str
    kind: Kind
    help: str
    samples: Sequence[tuple[str, Mapping[str, str], float]]


def text_of(figures: Iterable[Figure]) -> str:
    return "".join(line + "\n" for figure in figures for line in _lines(figure))


def _lines(figure: Figure) -> Iterator[str]:
    yield f"# HELP {figure.name} {figure.help}"
    yield f"# TYPE {figure.name} {figure.kind}"
    for ending, labels, value in figure.samples:
        pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        number = int(value) if value == math.floor(value) else value
        yield (
            f"{figure.name}{ending}{{{pairs}}} {number}"
            if pairs
            else (f"{figure.name}{ending} {number}")
        )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def gauges(prefix: str, values: Mapping[str, float], helps: Mapping[str, str]) -> list[Figure]:
    return [
        Figure(f"{prefix}_{name}", "gauge", text, [("", {}, values[name])])
        for name, text in helps.items()
    ]


def counters(prefix: str, values: Mapping[str, float], helps: Mapping[str, str]) -> list[Figure]:
    return [
        Figure(f"{prefix}_{name}_total", "counter", text, [("", {}, values[name])])
        for name, text in helps.items()
    ]


def store_figures(store: GrainStore) -> list[Figure]:
    """Return the figures of a store; those of a bounded history only if something bounds it."""
    version = [("", {"version": __version__}, 1.0)]
    prefix, history = "omsgrain_store", store.maintenance.history_state()
    values = {
        "oldest_grain_timestamp_seconds": _seconds(history.oldest_at),
        "history_run_timestamp_seconds": _seconds(history.retained_at),
        "history_keep_seconds": _seconds(history.keep),
        "history_max_bytes": history.max_bytes,
    }
    there = {name: value for name, value in values.items() if value is not None}
    return [
        Figure("omsgrain_info", "gauge", "The version of omsgrain.", version),
        *gauges(prefix, asdict(store.stats()), _STORE),
        *counters(prefix, {"removed_grains": history.removed}, _REMOVED),
        *gauges(prefix, there, {name: _HISTORY[name] for name in there}),
    ]


def _seconds(millis: int | None) -> float | None:
    return None if millis is None else millis / 1000


class RequestCounts:
    """Counts of requests by route, of all workers of a server."""

    def __init__(self, routes: Iterable[str], workers: int = 1) -> None:
        self._routes = {route: at for at, route in enumerate(dict.fromkeys([*routes, OTHER]))}
        # of a route: the classes of status, the buckets, one for slower ones, seconds, bytes
        self._width = len(_CLASSES) + len(BUCKETS) + 3
        self._size = len(self._routes) * self._width
        self._rows = workers
        self._cells = memoryview(mmap(-1, 8 * self._size * workers)).cast("d")
        self.worker = 0
        """The row of this process."""

    def add(self, route: str, status: int | None, size: int, seconds: float) -> None:
        """Count a request; the status is None if its response was cut."""
        at = self._routes.get(route, self._routes[OTHER])
        start = (self.worker % self._rows) * self._size + at * self._width
        kind = _CLASSES.index("aborted") if status is None else min(max(status // 100, 1), 5) - 1
        cells, times = self._cells, start + len(_CLASSES)
        cells[start + kind] += 1
        cells[times + bisect_left(BUCKETS, seconds)] += 1
        cells[times + len(BUCKETS) + 1] += seconds
        cells[times + len(BUCKETS) + 2] += size

    def figures(self) -> list[Figure]:
        """Return the counts of all workers."""
        requests: list[tuple[str, Mapping[str, str], float]] = []
        times: list[tuple[str, Mapping[str, str], float]] = []
        sizes: list[tuple[str, Mapping[str, str], float]] = []
        for route, at in self._routes.items():
            cells = self._sums(at)
            counts, rest = cells[: len(_CLASSES)], cells[len(_CLASSES) :]
            total = sum(counts)
            if not total:
                continue
            requests += [
                ("", {"route": route, "status": name}, count)
                for name, count in zip(_CLASSES, counts, strict=True)
                if count
            ]
            below = 0.0
            for bound, count in zip((*BUCKETS, math.inf), rest, strict=False):
                below += count
                limit = "+Inf" if bound == math.inf else str(bound)
                times.append(("_bucket", {"route": route, "le": limit}, below))
            times += [("_sum", {"route": route}, rest[-2]), ("_count", {"route": route}, below)]
            sizes.append(("", {"route": route}, rest[-1]))
        http = "omsgrain_http"
        return [
            Figure(f"{http}_requests_total", "counter", "Requests, by status.", requests),
            Figure(f"{http}_request_seconds", "histogram", "Times of requests.", times),
            Figure(f"{http}_response_bytes_total", "counter", "Bytes of responses.", sizes),
        ]

    def _sums(self, at: int) -> list[float]:
        starts = [row * self._size + at * self._width for row in range(self._rows)]
        return [sum(self._cells[start + i] for start in starts) for i in range(self._width)]
