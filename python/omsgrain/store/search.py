# SPDX-License-Identifier: Apache-2.0
"""Finding grains by words and by vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import OmsError, RangeError, SchemaError, UnsupportedError, number_found
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.query.filters import conditions
from omsgrain.query.query import Hit, Page
from omsgrain.query.walk import Walk, holds, is_opened, lists_beside, state_holds, there
from omsgrain.storage.base import KeyedReader, Reader, Writer
from omsgrain.store.base import Base
from omsgrain.store.policy_context import seq_of, stored_digest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from omsgrain.crypto.seal import Sealer
    from omsgrain.query.filters import Conditions, Filters
    from omsgrain.search.find import TextIndex
    from omsgrain.search.nearest import Nearest
    from omsgrain.search.vectors import Vector

_FEW = 5_000  # grains that filters leave: these are looked at, and not what has the words
_LIMIT = 1_000
_DEEP = 100  # results of each kind that a common ranking is made of, at least


class Searching(Base):
    """The part of a GrainStore that searches."""

    _text_index: TextIndex | None = None
    _nearest: Nearest | None = None
    _opening = threading.Lock()

    def search(
        self,
        text: str | None = None,
        *,
        vector: Vector | None = None,
        model: str | None = None,
        limit: int = 10,
        most_bytes: int | None = None,
        **filters: Unpack[Filters],
    ) -> Page:
        """Find the grains that best match words, a vector, or both.

        Words: a grain matches if it has any of them, the better the rarer they are; ``"two
        words"`` must stand together, ``+word`` must be there, ``-word`` must not, ``mem*`` is any
        word that begins so. Words and vectors together are ranked by reciprocal ranks.

        Args:
            text: what to search for.
            vector: where to look, among the vectors of ``add_vector``.
            model: the model that made it; may be left out where the store has just one.
            limit: results, 1 to 1,000.
            most_bytes: end with the grain by which the blobs of the results are so many bytes.
            **filters: those of ``query``; past grains are left out unless ``current`` says so.
                Sealed grains cannot be ranked. Where the keys of the store open some, a search is
                refused unless ``sealed=False`` leaves them out.

        Returns:
            The best first, with ``score`` 1 for the best, ``matched_fields``, and a ``snippet``
            that marks the words with brackets. ``incomplete`` is "refused" if the search stopped
            since the filters refused 100,000 matches, and "bytes" if it did for ``most_bytes``.

        Raises:
            SchemaError: neither text nor vector, no word in the text, a filter that cannot be, or
                a vector that is not as long as any of the model.
            RangeError: a limit.
            UnsupportedError: there are sealed grains.

        Spec: OMS §28.1
        """
        if text is None and vector is None:
            raise SchemaError("nothing to search for", expected="text, vector, or both")
        if type(limit) is not int or not 1 <= limit <= _LIMIT:
            raise RangeError(
                "a search cannot have that many results",
                field="/limit",
                expected=f"1 to {_LIMIT}",
                found=number_found(limit),
            )
        if most_bytes is not None and (type(most_bytes) is not int or most_bytes < 1):
            expected = "an integer of at least 1"
            raise RangeError("no size of results", field="/most_bytes", expected=expected)
        asked = conditions(filters)
        self._refuse_sealed(asked.sealed)
        few = self._few(asked)
        most = limit if text is None or vector is None else max(_DEEP, 4 * limit)
        with ExitStack() as stack:
            # One snapshot for all of it: a second one would wait for a writer that waits for this.
            readers: list[Reader] = []
            accept = None if few is not None else self._accept(asked, stack, readers)
            lists: list[list[tuple[int, float]]] = []
            complete = True
            if text is not None:
                found = self._texts().search(
                    self._below.read, text, limit=most, seqs=few, accept=accept
                )
                lists.append([(match.seq, match.score) for match in found.matches])
                complete = found.complete or len(found.matches) == most
            if not readers:
                readers.append(stack.enter_context(self._below.read()))
            reader = readers[0]
            if vector is not None:
                near = self._vectors().search(
                    reader, vector, model=model, limit=most, allowed=few, accept=accept
                )
                lists.append([(one.seq, max(0.0, one.score)) for one in near])
            page = self._page(reader, lists, text, limit, most_bytes, asked.names)
        if page.incomplete is None and not complete:
            page = replace(page, incomplete="refused")
        self._count_reads([bytes.fromhex(hit.content_address) for hit in page.results])
        return page

    def add_vector(self, address: str, vector: Vector, *, model: str) -> None:
        """Keep a vector for a grain; one of the same model's name is replaced.

        That of a sealed grain is sealed, too: ``vectors`` gives it back, and no search finds it.

        Args:
            address: the grain.
            vector: floats, or the bytes of float32 in little-endian order.
            model: the name of what made it. Vectors of different models, or of different lengths,
                are never compared.

        Raises:
            NotFoundError: the grain is not in the store.
            SchemaError, RangeError: not such a vector.
            StoreError: read-only, full or broken.
        """
        from omsgrain.search import vectors

        digest = _core.parse_address(address)

        def work(writer: Writer) -> None:
            before, seq = writer.last_seq(), seq_of(writer, digest)
            sealer = sealer_of(writer, seq)
            seal = None if sealer is None else sealer.seal_vector
            vectors.add(writer, seq, vector, model, seal)
            if writer.last_seq() > before:
                self._note(writer, "vector", [stored_digest(writer, digest)])

        self._store.write(work)

    def vectors(self, address: str) -> dict[str, Sequence[float]]:
        """Return the vectors of a grain by the name of their model, as they were given.

        Raises:
            NotFoundError: the grain is not in the store.
            KeyMissingError, ErasedError: it is sealed, and the key is not here or was destroyed.
        """
        from omsgrain.search import vectors

        digest = _core.parse_address(address)
        with self._store.read() as reader:
            seq = seq_of(reader, digest)
            sealer = sealer_of(reader, seq)
            unseal = None if sealer is None else sealer.unseal_vector
            return dict(vectors.vectors_of(reader, seq, unseal))

    def _refuse_sealed(self, sealed: bool) -> None:
        if not sealed or self._settings.keys is None:
            return
        with self._store.read() as reader:
            if is_opened(reader) and reader.has_sealed():
                raise UnsupportedError(
                    "sealed grains cannot be ranked; query() finds them by words",
                    expected="sealed=False, to search the others",
                )

    def _few(self, asked: Conditions) -> Set[int] | None:
        """The grains that the filters leave, if they are few."""
        if not asked.terms:
            return None
        with self._below.read() as reader:
            walk = Walk(reader, asked, True)
            if walk.estimate > _FEW:
                return None
            return walk.seqs()

    def _accept(
        self, asked: Conditions, stack: ExitStack, readers: list[Reader]
    ) -> Callable[[int], bool]:
        """A test of one grain; it keeps a snapshot from its first call on."""
        plain = not (asked.equal or asked.bounded or asked.prefix or asked.tested)
        hides: list[bool] = []

        def accept(seq: int) -> bool:
            if not readers:
                readers.append(stack.enter_context(self._below.read()))
            reader = readers[0]
            if not hides:
                hides.append(bool(there(reader, lists_beside(asked), asked.which)))
            if plain and not hides[0]:
                return state_holds(reader, seq, asked)
            grain = reader.grain(seq)
            return grain is not None and holds(reader, seq, grain, asked)

        return accept

    def _page(
        self,
        reader: Reader,
        lists: list[list[tuple[int, float]]],
        text: str | None,
        limit: int,
        most_bytes: int | None,
        names: tuple[str, ...],
    ) -> Page:
        """Read the best of the lists, as far as they are wanted."""
        from omsgrain.search.find import read_query
        from omsgrain.search.rank import fuse
        from omsgrain.search.snippet import show

        ranked = lists[0]
        if len(lists) > 1:
            merged = fuse(
                [[seq for seq, _ in one] for one in lists], place=partial(_place, reader)
            )
            ranked = [(one.seq, one.score) for one in merged]
        query = None if text is None else read_query(text)
        hits: list[Hit] = []
        size, incomplete = 0, False
        for seq, score in islice(ranked, limit):
            incomplete = most_bytes is not None and size >= most_bytes
            if incomplete:
                break
            grain = reader.grain(seq)
            if grain is None:
                continue
            shown = None if query is None else show(grain, query)
            fields = names if shown is None else (*shown.fields, *names)
            snippet = None if shown is None or shown.snippet is None else shown.snippet.marked()
            hits.append(Hit(grain, score, fields, grain.address, snippet))
            size += len(grain.blob)
        return Page(hits, None, None, None, "bytes" if incomplete else None)

    def _texts(self) -> TextIndex:
        with self._opening:
            if self._text_index is None:
                from omsgrain.search.text_index import texts_of

                self._text_index = texts_of(self._below, self._settings.budget)
            return self._text_index

    def _vectors(self) -> Nearest:
        with self._opening:
            if self._nearest is None:
                from omsgrain.search.text_index import vectors_of

                self._nearest = vectors_of(self._below)
            return self._nearest

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        try:
            with suppress(OmsError):  # it will be caught up at the next search
                if self._text_index is not None and not self._store.readonly:
                    self._text_index.catch_up(self._store.read)
                if self._nearest is not None:
                    self._nearest.catch_up(self._store, make=False)
        finally:
            if self._text_index is not None:
                self._text_index.close()
            if self._nearest is not None:
                self._nearest.close()
            super().close()


def sealer_of(reader: Reader, seq: int) -> Sealer | None:
    """What seals and opens the vectors of a grain; None if it is not sealed, or without keys."""
    blob = reader.blob_at(seq)
    if blob is None or not blob[1] & ENCRYPTED_BIT or not isinstance(reader, KeyedReader):
        return None
    from omsgrain.crypto.seal import Sealer

    return Sealer(reader.keys_of(seq).vector)


def _place(reader: Reader, seq: int) -> bytes:
    """What sorts grains upwards as the index does: by time, then by address backwards."""
    grain = reader.grain(seq)
    if grain is None:
        return b""
    time = grain.get("created_at", 0)
    address = bytes(255 - byte for byte in bytes.fromhex(grain.address))
    return (time if isinstance(time, int) and time > 0 else 0).to_bytes(8, "big") + address
