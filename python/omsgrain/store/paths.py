# SPDX-License-Identifier: Apache-2.0
"""``store.paths``: the paths whose values have an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from omsgrain.errors import NotFoundError, SchemaError
from omsgrain.query.walk import is_opened
from omsgrain.query.where import path_of, path_text
from omsgrain.storage import indexed_paths
from omsgrain.storage.base import Writer
from omsgrain.store.context import Context, StorePart


@dataclass(frozen=True, slots=True)
class PathStatus:
    """An indexed path.

    Attributes:
        path: the path, as in the filter ``where``.
        ready: whether queries use the index. It is False while its rows are being made, after a
            process that made them was killed, and for a handle with keys if those of some
            encrypted grains were missing; ``add`` goes on.
    """

    path: str
    ready: bool


class Paths(StorePart):
    """``store.paths``: the paths whose values have an index, at most 16.

    A path is the name of a field, such as ``observer_id``, or leads to a value inside ``object``
    or ``context``, such as ``object.celsius``. The index answers the operators eq, gt, gte, lt
    and lte of the filter ``where``, and the filters of fields such as ``observer_id``.
    """

    __slots__ = ()

    def declared(self) -> list[PathStatus]:
        """Return the indexed paths, sorted."""
        with self._context.storage.read() as reader:
            found = [one for one in indexed_paths.paths_of(reader) if not one.dropped]
            encrypted = is_opened(reader) and reader.has_sealed()
        return sorted(
            [
                PathStatus(path_text(*one.keys), one.ready and (one.blind_ready or not encrypted))
                for one in found
            ],
            key=_path,
        )

    def add(self, *paths: str, progress: Callable[[int], object] | None = None) -> None:
        """Index paths, and make the index rows of the grains that are here.

        That takes several commits, and others may read and write meanwhile. After a crash, call it
        again: it goes on. A path that is indexed already costs nothing. Encrypted grains get blind
        rows, which takes the keys of all of them; without a key that was not destroyed, it ends
        before that, and goes on when you call it again with the key.

        Args:
            *paths: the paths.
            progress: called after each commit with the number of sequence numbers that it covered.

        Raises:
            SchemaError: not a path.
            RangeError: more than 16 paths.
            StoreError: the store is read-only or full.
        """
        declare(self._context, paths, progress)

    def drop(self, path: str, *, progress: Callable[[int], object] | None = None) -> None:
        """Stop indexing a path, and drop its index rows.

        Args:
            path: the path.
            progress: as for ``add``.

        Raises:
            NotFoundError: the path is not indexed.
            SchemaError: not a path.
            StoreError: the store is read-only or full.
        """
        keys, found = _keys(path), None
        while found is None:
            _make_rows(self._context, progress)  # what is begun is ended first
            found = self._context.storage.write(partial(self._drop, keys), alone=True)
        if not found:
            raise NotFoundError("the path is not indexed", field="/path")
        _make_rows(self._context, progress)

    def _drop(self, keys: tuple[str, ...], writer: Writer) -> bool | None:
        found = indexed_paths.drop(writer, keys)
        if found:
            self._context.note(writer, "index", [], details={"dropped": 1})
        return found


def declare(
    context: Context,
    paths: Iterable[str],
    progress: Callable[[int], object] | None = None,
) -> None:
    if isinstance(paths, str):
        raise SchemaError("a list of paths", field="/indexed", found="one text")
    wanted = [_keys(path) for path in paths]
    with context.storage.read() as reader:
        keyed = context.settings.keys is not None
        ready = {
            path.keys
            for path in indexed_paths.paths_of(reader)
            if path.ready and (path.blind_ready or not keyed)
        }

    def work(writer: Writer) -> None:
        added = indexed_paths.add(writer, wanted)
        if added:
            context.note(writer, "index", [], details={"added": added})

    if not ready.issuperset(wanted):
        context.storage.write(work, alone=True)
        _make_rows(context, progress)


def _make_rows(context: Context, progress: Callable[[int], object] | None) -> None:
    for make in (indexed_paths.make_rows, indexed_paths.make_blind_rows):
        while done := context.storage.write(make, alone=True):
            if progress is not None:
                progress(done)


def _keys(path: str) -> tuple[str, ...]:
    try:
        return path_of(path)
    except SchemaError as error:
        error.field = "/indexed"
        raise


def _path(status: PathStatus) -> str:
    return status.path
