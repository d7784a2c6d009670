# SPDX-License-Identifier: Apache-2.0
"""Are the grains of a store those that its audit trail names?"""

from __future__ import annotations

import hmac as standard
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from omsgrain.store.audit.entry import TAG, hmac
from omsgrain.store.base import Reader

__all__ = ["Arrivals"]


class Arrivals:
    """One walk over all blobs, in step with a walk over the entries.

    A grain arrived with the first entry whose last sequence number is not below its own.

    Args:
        reader: the snapshot.
        key: the key of the tags.
    """

    __slots__ = ("_blobs", "_key", "_next")

    def __init__(self, reader: Reader, key: bytes) -> None:
        self._key = key
        self._blobs = _walk(reader)
        self._next = next(self._blobs, None)

    def skip(self, last_seq: int) -> None:
        """Pass over what arrived up to a sequence number."""
        for _ in self._until(last_seq):
            pass

    def are_named(self, body: dict[str, Any], count: int) -> bool:
        """Tell whether the grains that arrived with an entry, and are left, are those it names.

        Of a large batch this can be told only while all of it is left.
        """
        if "h" not in body:
            tags = body.get("g", b"")
            known = {tags[i : i + TAG] for i in range(0, len(tags), TAG)}
            return all([self._tag(blob) in known for blob in self._until(body["s"])])
        left, all_tags = 0, standard.new(self._key, digestmod="sha256")
        for blob in self._until(body["s"]):
            left += 1
            all_tags.update(sha256(blob).digest())
        return left < count or (left == count and all_tags.digest() == body["h"])

    def _tag(self, blob: bytes) -> bytes:
        return hmac(self._key, sha256(blob).digest())[:TAG]

    def _until(self, last_seq: int) -> Iterator[bytes]:
        while self._next is not None and self._next[0] <= last_seq:
            blob = self._next[1]
            self._next = next(self._blobs, None)
            yield blob


def _walk(reader: Reader) -> Iterator[tuple[int, bytes]]:
    after = 0
    while page := reader.page(after):
        yield from page
        after = page[-1][0]
