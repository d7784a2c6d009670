# SPDX-License-Identifier: Apache-2.0
"""The grains of one user: by id, by address, in all their versions.

Those of others are not there, and what is asked for in vain is answered for like what never was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import NotFoundError
from omsgrain.formats.raw import DUPLICATE, is_beside
from omsgrain.formats.records import is_duplicate
from omsgrain.formats.source import Source
from omsgrain.ops.memories import id_of

if TYPE_CHECKING:
    from omsgrain.engine.sources import Found, Snapshot
    from omsgrain.grain import Grain

__all__ = ["HASH", "Owned", "found", "head"]

HASH: Final = "sha256:"
"""How the origin begins by which a grain is found by its text."""
_PAGE: Final = 1_000  # grains
_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")


def found(snapshot: Snapshot, id: str) -> list[Found]:
    """What a user has under an id, the current one first; or at an address.

    Raises:
        NotFoundError: nothing.
    """
    there: list[Found] = []
    if _ADDRESS.fullmatch(id):
        one = snapshot.get(id)
        there = [] if one is None else [one]
    elif not id.startswith(HASH):
        there = snapshot.find([id]).get(id, [])
    there = [one for one in there if not is_beside(one.grain)]
    if not there:
        raise NotFoundError("there is no such memory")
    return there


def head(snapshot: Snapshot, id: str) -> Found:
    """The current version of a memory.

    Raises:
        NotFoundError: there is none.
    """
    one = found(snapshot, id)[0]
    if not one.current:
        one = found(snapshot, id_of(one.grain))[0]
    if not one.current:
        raise NotFoundError("there is no current version of this memory")
    return one


class Owned:
    """The grains of one user.

    Args:
        store: where.
        user_id: whose they are.
    """

    def __init__(self, store: og.GrainStore, user_id: str) -> None:
        self._store = store
        self._user_id = user_id
        self._name = normalize("NFC", user_id)

    def get(self, address: str) -> Grain:
        """One of them, such as a part of a large memory.

        Raises:
            NotFoundError: it is not there.
        """
        with self._store.sources(self._user_id) as snapshot:
            one = snapshot.get(address)
        if one is None:
            raise NotFoundError("a part of a memory is not there")
        return one.grain

    def has(self, address: str) -> bool:
        """Whether it is one of them."""
        with self._store.sources(self._user_id) as snapshot:
            return snapshot.get(address) is not None

    def those(self, grains: Iterable[Grain]) -> Iterator[Grain]:
        """Those of some grains that are the user's, and say something."""
        for grain in grains:
            if not grain.sealed and grain.get("user_id") == self._name and not is_beside(grain):
                yield grain

    def versions(self, id: str) -> list[Grain]:
        """All versions of a memory, the oldest first.

        Args:
            id: its id, or the address of one of them.

        Raises:
            NotFoundError: the user has no such memory.
        """
        with self._store.sources(self._user_id) as snapshot:
            first = found(snapshot, id)
            own = id_of(first[0].grain)
            first = snapshot.find([own]).get(own, first)
        joined: dict[str, Grain] = {}
        for one in reversed(first):  # the oldest first
            if one.address not in joined and not is_beside(one.grain):
                with suppress(NotFoundError):  # somebody has deleted it since
                    joined |= {grain.address: grain for grain in self._store.history(one.address)}
        if not joined:
            raise NotFoundError("there is no such memory")
        return list(self.those(joined.values()))

    def beside(self, versions: Sequence[Grain]) -> list[str]:
        """The addresses of what else holds the text of a memory: its parts, its duplicates.

        Args:
            versions: of the memory.
        """
        sources = [source for grain in versions if (source := Source.of(grain)) is not None]
        copies = list(self._copies({source.id for source in sources}))
        sources += [source for grain in copies if (source := Source.of(grain)) is not None]
        parts = dict.fromkeys(part for source in sources for part in source.parts)
        with self._store.sources(self._user_id) as snapshot:
            there = [part for part in parts if snapshot.get(part) is not None]
        return [*(grain.address for grain in copies), *there]

    def left_of(self, grains: Sequence[Grain]) -> tuple[list[str], set[str]]:
        """What else holds the text of grains that go, and what is not there any more without them.

        Args:
            grains: of the user.

        Returns:
            The addresses of their parts, but for those of versions that stay, and of duplicates
            of what has no version any more; and the ids of that.
        """
        going = {grain.address for grain in grains}
        sources = [source for grain in grains if (source := Source.of(grain)) is not None]
        stay: dict[tuple[str, str, str], Source] = {}
        kept: set[str] = set()
        with self._store.sources(self._user_id) as snapshot:
            for several in snapshot.find({source.id for source in sources}).values():
                for one in several:
                    other = Source.of(one.grain)
                    if other is None or one.address in going or is_duplicate(one.grain):
                        continue
                    stay[other.format, other.kind, other.id] = other
                    kept.update(other.parts)
        gone = {one.id for one in sources if (one.format, one.kind, one.id) not in stay}
        copies = list(self._copies(gone)) if gone else []
        sources += [source for grain in copies if (source := Source.of(grain)) is not None]
        parts = dict.fromkeys(part for source in sources for part in source.parts)
        with self._store.sources(self._user_id) as snapshot:
            there = [one for one in parts if one not in kept and snapshot.get(one) is not None]
        more = dict.fromkeys([*(grain.address for grain in copies), *there])
        return [one for one in more if one not in going], gone

    def listed(self, addresses: Iterable[str]) -> set[str]:
        """The addresses by which documents name grains: of what they say, also where sealed."""
        with self._store.sources(self._user_id) as snapshot:
            there = (snapshot.get(address) for address in addresses)
            return {_core.address(one.grain.blob) for one in there if one is not None}

    def _copies(self, ids: Set[str]) -> Iterator[Grain]:
        """What is kept of records that have the text of one with such an id; few have any."""
        cursor: str | None = None
        while True:
            page = self._store.query(
                user_id=self._user_id,
                namespace=DUPLICATE,
                current=None,
                bookkeeping=True,
                limit=_PAGE,
                cursor=cursor,
            )
            for hit in page.results:
                if is_duplicate(hit.grain) and hit.grain["context"].get("of") in ids:
                    yield hit.grain
            cursor = page.next_cursor
            if cursor is None:
                return
