# SPDX-License-Identifier: Apache-2.0
"""A grain as an agent reads it: an id, a kind, a text, tags, times, whatever its format was."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import FormatError, NotFoundError
from omsgrain.formats.records import is_duplicate
from omsgrain.formats.source import DUPLICATE, Source, is_beside
from omsgrain.formats.table import FORMATS
from omsgrain.json_values import time_text
from omsgrain.query.envelope import gist
from omsgrain.store.context import context_of
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.formats.source import Get
    from omsgrain.grain import Grain
    from omsgrain.storage.records import GrainStatus
    from omsgrain.store.source_index import SourcedGrain, SourceSnapshot

_TEXTS: Final = ("content", "summary", "name")
_TYPES: Final = (
    "memory_type",
    "conceptType",
    "memoryType",
    "type",
    "entity_type",
    "relation_type",
)


def id_of(grain: Grain) -> str:
    """Return the id of a memory: the id from its document, or its address."""
    source = Source.of(grain)
    return grain.address if source is None else source.id


def record_of(
    grain: Grain, get: Get, *, format: str | None = None
) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the record of a grain; None if it never was a readable record."""
    source = Source.of(grain)
    if source is None or format not in (None, source.format):
        return None
    known = FORMATS.get(source.format)
    if known is None:
        return None
    try:
        found = known.record_of(grain, get, source)
    except (FormatError, NotFoundError):  # its fields can still be shown
        return None
    return None if found is None else (str(found[0]), dict(found[1]))


def values_of(
    grain: Grain, get: Get, *, state: GrainStatus | None = None, most: int | None = None
) -> dict[str, Any]:
    """Return a grain as JSON-ready values, without unknown ones."""
    kind, record = record_of(grain, get) or (grain.type, {})
    said = grain.get("content")  # of an event; its blocks would repeat it
    content = next((text for name in _TEXTS if (text := record.get(name))), None)
    content = content or (said if isinstance(said, str) and said else gist(grain))
    metadata = record.get("metadata")
    importance = record.get("importance", grain.get("importance"))
    if importance is None and isinstance(metadata, dict):
        importance = metadata.get("importance")
    values: dict[str, Any] = {
        "id": id_of(grain),
        "kind": kind,
        "type": next((name for key in _TYPES if (name := record.get(key))), kind),
        "content": content if most is None else content[:most],
        "cut": True if most is not None and len(content) > most else None,
        "tags": record.get("tags") or grain.get("structural_tags"),
        "importance": importance,
        "metadata": metadata or None,
        "created_at": record.get("created_at") or time_text(grain["created_at"]),
        "content_address": grain.address,
    }
    if state is not None:
        values |= {
            "current": state.superseded_by is None and not state.successors,
            "superseded_by": state.superseded_by,
            "verification_status": state.verification_status,
        }
    return {name: value for name, value in values.items() if value is not None}


HASH: Final = "sha256:"
"""The prefix of the origin that finds a grain by its text."""
_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")


def found(snapshot: SourceSnapshot, id: str, *, expired: bool = False) -> list[SourcedGrain]:
    """Return what a user has under an id, the current grain first; or at an address.

    ``expired``: also grains whose end of life has come, and which nothing has removed yet.
    """
    there: list[SourcedGrain] = []
    if _ADDRESS.fullmatch(id):
        one = snapshot.get(id)
        there = [] if one is None else [one]
    elif not id.startswith(HASH):
        there = snapshot.find([id]).get(id, [])
    there = [one for one in there if not is_beside(one.grain) and (expired or not one.expired)]
    if not there:
        raise NotFoundError("there is no memory with this id")
    return there


def head(snapshot: SourceSnapshot, id: str) -> SourcedGrain:
    one = found(snapshot, id)[0]
    if not one.current:
        one = found(snapshot, id_of(one.grain))[0]
    if not one.current:
        raise NotFoundError("the memory has no current version")
    return one


class UserGrains:
    def __init__(self, store: og.GrainStore, user_id: str) -> None:
        self._store = store
        self._user_id = user_id
        self._name = normalize("NFC", user_id)

    def get(self, address: str) -> Grain:
        """Return one of them, such as a part of a large memory."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            one = snapshot.get(address)
        if one is None:
            raise NotFoundError("a part of the memory is missing")
        return one.grain

    def has(self, address: str) -> bool:
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            return snapshot.get(address) is not None

    def has_content(self, grain: Grain) -> bool:
        """Return whether a grain is the user's, can be read, and is no bookkeeping."""
        return not grain.sealed and grain.get("user_id") == self._name and not is_beside(grain)

    def versions(self, id: str, *, expired: bool = False) -> list[Grain]:
        """Return all versions of a memory, the oldest first; ``expired`` as for ``found``."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            first = found(snapshot, id, expired=expired)
            own = id_of(first[0].grain)
            first = snapshot.find([own]).get(own, first)
        joined: dict[str, Grain] = {}
        for one in reversed(first):  # the oldest first
            if one.address not in joined and not is_beside(one.grain):
                with suppress(NotFoundError):  # deleted meanwhile
                    joined |= {grain.address: grain for grain in self._store.history(one.address)}
        over: set[str] = set()
        if not expired:
            with open_sources(context_of(self._store), self._user_id) as snapshot:
                over = snapshot.expired(joined)
        versions = [
            grain
            for grain in joined.values()
            if grain.address not in over and self.has_content(grain)
        ]
        if not versions:
            raise NotFoundError("there is no memory with this id")
        return versions

    def left_of(self, grains: Sequence[Grain]) -> tuple[list[str], set[str]]:
        """Return what else contains the text of deleted grains, and the ids that end with them.

        The first are the addresses of their parts, except parts of remaining versions, and of
        duplicates without another version.
        """
        going = {grain.address for grain in grains}
        sources = [source for grain in grains if (source := Source.of(grain)) is not None]
        stay: dict[tuple[str, str, str], Source] = {}
        kept: set[str] = set()
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            for several in snapshot.find({source.id for source in sources}).values():
                for one in several:
                    other = Source.of(one.grain)
                    if other is None or one.address in going or is_duplicate(one.grain):
                        continue
                    stay[other.format, other.kind, other.id] = other
                    kept.update(other.parts)
        gone = {one.id for one in sources if (one.format, one.kind, one.id) not in stay}
        copies = list(self._copies(gone)) if gone else []
        copied = [source for grain in copies if (source := Source.of(grain)) is not None]
        sources += copied
        gone |= self._unused(
            {one.id for one in copied}, going.union(one.address for one in copies)
        )
        parts = dict.fromkeys(part for source in sources for part in source.parts)
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            there = [one for one in parts if one not in kept and snapshot.get(one) is not None]
        more = dict.fromkeys([*(grain.address for grain in copies), *there])
        return [one for one in more if one not in going], gone

    def _unused(self, ids: Set[str], going: Set[str]) -> set[str]:
        """Return those ids that only deleted grains have."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            there = snapshot.find(ids)
        return {id for id in ids if {one.address for one in there.get(id, ())} <= going}

    def listed(self, addresses: Iterable[str]) -> set[str]:
        """Return the addresses by which documents name grains, also of sealed grains."""
        with open_sources(context_of(self._store), self._user_id) as snapshot:
            there = (snapshot.get(address) for address in addresses)
            return {_core.address(one.grain.blob) for one in there if one is not None}

    def _copies(self, ids: Set[str]) -> Iterator[Grain]:
        """Yield the stored copies of records that contain the text of these ids; few do."""
        copies = self._store.iter_query(
            user_id=self._user_id, namespace=DUPLICATE, current=None, bookkeeping=True
        )
        for grain in copies:
            if is_duplicate(grain) and grain["context"].get("of") in ids:
                yield grain
