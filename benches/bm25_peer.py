# SPDX-License-Identifier: Apache-2.0
"""bm25s as rows S6 and M2 use it: an index in memory of the texts of documents, ranked by BM25.

It reads no file and knows no versions, users or filters; its answer are the numbers of documents.
"""

from __future__ import annotations

from collections.abc import Sequence

from benches import peer


class Index:
    """An index of texts. It leaves out English stop words, as bm25s does unless told otherwise."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._bm25s = peer.module("bm25s")
        self._model = self._bm25s.BM25()
        self._model.index(self._words(list(texts)), show_progress=False)

    def _words(self, texts: list[str]) -> object:
        return self._bm25s.tokenize(texts, stopwords="en", show_progress=False)

    def best(self, text: str, limit: int) -> list[int]:
        """The numbers of the documents that match best, of those that match."""
        found, scores = self._model.retrieve(self._words([text]), k=limit, show_progress=False)
        pairs = zip(found[0].tolist(), scores[0].tolist(), strict=True)
        return [int(number) for number, score in pairs if score > 0]
