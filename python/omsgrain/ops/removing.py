# SPDX-License-Identifier: Apache-2.0
"""Taking grains out of a store with all that else holds what they say.

A record that came in a document stands in parts of its own if it is large, in duplicates, and in
what is kept of the document around its records. ``GrainStore.delete`` takes one grain alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from omsgrain import _core
from omsgrain.interchange.snapshot import trimmed
from omsgrain.memory.memory import UserGrains
from omsgrain.store.privacy import removal
from omsgrain.store.privacy.identity import Identities, select

if TYPE_CHECKING:
    from omsgrain import GrainStore
    from omsgrain.grain import Grain

_PAGE: Final = 100  # grains: an entry of the audit trail names a thousand, parts among them


def delete(store: GrainStore, address: str, *, reason: str | None = None) -> None:
    """Take a grain out, and what documents keep of it besides; all of it or nothing.

    What is said around the records of documents under its id goes with its last version.
    """
    grain = _opened(store, address)
    owner = None if grain is None else grain.get("user_id")
    if grain is None or not isinstance(owner, str):
        store.delete(address, reason=reason)
        return
    owned = UserGrains(store, owner)
    more, ids = owned.left_of([grain])
    with trimmed(store, owner, ids, owned.listed([grain.address, *more])) as beside:
        store.delete_many([grain.address], beside=[*more, *beside], reason=reason)


def clear_mentions(store: GrainStore, identities: Identities | Iterable[str]) -> None:
    """Take out what documents of others keep of grains that only bear a name of a person.

    For erasures that take these grains too, and before them: what is done here is done again if
    the erasure has to be.
    """
    owners: dict[str, list[str]] = {}
    for found in select(store._store, identities):
        grain = _opened(store, found.address) if found.other else None
        if grain is not None and _goes(store, grain):
            owners.setdefault(str(grain["user_id"]), []).append(grain.address)
    for owner, addresses in owners.items():
        owned = UserGrains(store, owner)
        for page in _pages(addresses):
            grains = [one for address in page if (one := _opened(store, address)) is not None]
            more, ids = owned.left_of(grains)
            with trimmed(store, owner, ids, owned.listed([*page, *more])) as beside:
                if more or beside:
                    store.delete_many([*more, *beside])


def _opened(store: GrainStore, address: str) -> Grain | None:
    """A grain as who holds the keys sees it; None if it is not there, or nobody can read it."""
    with store._store.read() as reader:
        (seq,) = reader.find([_core.parse_address(address)])
        return None if seq is None else removal.readable(reader, seq)


def _goes(store: GrainStore, grain: Grain) -> bool:
    """Whether nothing keeps a grain from being erased."""
    now = store._settings.clock()
    with store._store.read() as reader:
        return removal.refusal(reader, store._settings, grain, now) is None


def _pages(addresses: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(addresses)
    while page := list(islice(rest, _PAGE)):
        yield page
