# SPDX-License-Identifier: Apache-2.0
"""A storage that counts what is read of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


class CountedStorage:
    """Counts the rows that its readers yield, and all calls of their methods."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.rows = self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def read(self) -> Iterator[Any]:
        with self._inner.read() as reader:
            yield _CountedReader(reader, self)

    def write(self, work: Any, **options: Any) -> Any:
        return self._inner.write(lambda writer: work(_CountedReader(writer, self)), **options)


class _CountedReader:
    def __init__(self, inner: Any, count: CountedStorage) -> None:
        self._inner, self._count = inner, count

    def __getattr__(self, name: str) -> Any:
        self._count.calls += 1
        found = getattr(self._inner, name)
        walks = name in ("rows", "places", "keys")
        return partial(self._each, found) if walks else found

    def _each(self, walk: Any, *given: Any, **named: Any) -> Iterator[Any]:
        for one in walk(*given, **named):
            self._count.rows += 1
            yield one
