# SPDX-License-Identifier: Apache-2.0
"""Ids of one format as ids of another: the same every time, and the same wherever one is named.

A UUID stays one wherever a format has it: ``mem_<uuid>``, ``urn:aimem:omsgrain:<uuid>``. An id
that is none becomes a UUID of version 5 of its text; where the target has a place for the id of
another system, the text stands there, so that the way back finds it.
"""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

from omsgrain.formats.aimem import urn
from omsgrain.formats.model import Kind
from omsgrain.formats.uuids import is_uuid

__all__ = ["AIMEM", "MIF1", "MIF2", "MIF_LD", "PRODUCER", "Names", "id_in", "of_address",
           "uuid_of"]  # fmt: skip

AIMEM: Final = "aimem"
MIF2: Final = "mif2"
MIF1: Final = "mif1"
MIF_LD: Final = "mif-ld"
PRODUCER: Final = "omsgrain"
"""The producer namespace of ids that were none of AIMEM's."""
_SPACE: Final = uuid5(NAMESPACE_OID, PRODUCER)
_PREFIX: Final[dict[Kind, str]] = {"memory": "mem_", "todo": "todo_"}
_NODE: Final = "entity:"
_URN: Final = "urn:mif:"
_SPACES: Final[dict[tuple[str, Kind], Kind]] = {
    (AIMEM, "todo"): "memory",
    (AIMEM, "reminder"): "memory",
    (MIF1, "reminder"): "todo",
    (MIF_LD, "todo"): "memory",
    (MIF_LD, "reminder"): "memory",
}
"""What becomes a record of another kind has its id among theirs."""


def of_address(address: str) -> str:
    """The UUID of a grain that never had another id: version 8, of its content address."""
    whole = bytearray.fromhex(address)[:16]
    whole[6] = 0x80 | (whole[6] & 0x0F)
    whole[8] = 0x80 | (whole[8] & 0x3F)
    return str(UUID(bytes=bytes(whole)))


def uuid_of(kind: Kind, id: str) -> str:
    """The UUID that an id has in it; of one that has none, one made of its text."""
    bare = _ours(id).removeprefix(_PREFIX.get(kind, ""))
    return bare if is_uuid(bare) else str(uuid5(_SPACE, id))


def id_in(
    format: str,
    kind: Kind,
    id: str,
    *,
    external: str | None = None,
    name: str | None = None,
    producer: str = PRODUCER,
) -> str:
    """What an id is called in another format.

    Args:
        format: the other one.
        kind: of what it is the id.
        id: as it is in its own.
        external: the id that the record has in another system.
        name: the name of an entity.
        producer: the namespace of what gets an identifier of AIMEM.
    """
    if format == AIMEM:
        if urn.parse(id) is not None:
            return id
        if external and urn.parse(external) is not None and uuid_of(kind, external) == id:
            return external
        named = urn.urn(producer, id)
        return named if urn.parse(named) else urn.urn(producer, uuid_of(kind, id))
    if format == MIF_LD:
        return _urn(kind, id, external)
    if format == MIF2 and kind == "entity" and _ours(id) != id:
        return _ours(id)  # which may be any text there
    if format == MIF2 or kind == "relation":
        return uuid_of(kind, id)
    if kind == "entity":
        return f"{_NODE}{name}"
    if kind == "project":
        return _ours(id)
    kind = _SPACES.get((format, kind), kind)
    prefix = _PREFIX[kind]
    for text in (_ours(id), external or ""):
        if text.startswith(prefix) and (text != external or uuid_of(kind, text) == id):
            return text
    return prefix + uuid_of(kind, id)


def _ours(id: str) -> str:
    """An id without the namespace that we gave it."""
    return _local(id).removeprefix(_URN)


def _local(id: str) -> str:
    found = urn.parse(id)
    return found.local if found is not None and found.producer == PRODUCER else id


def _urn(kind: Kind, id: str, external: str | None) -> str:
    """What an id is called in MIF in JSON-LD: itself, behind the prefix."""
    if kind == "relation":
        return id
    if external and external.startswith(_URN) and uuid_of(kind, external) == id:
        return external
    prefix = _URN + _NODE if kind == "entity" else _URN
    local = _local(id)
    return local if local.startswith(prefix) else prefix + local


class Names:
    """The ids of one document in another format: none twice for what was two.

    Attributes:
        format: the other one.
    """

    def __init__(self, format: str, producer: str = PRODUCER) -> None:
        self.format = format
        self._producer = producer
        self._given: dict[tuple[Kind, str], str] = {}
        self._taken: set[tuple[Kind, str]] = set()

    def give(
        self,
        kind: Kind,
        id: str,
        *,
        external: str | None = None,
        name: str | None = None,
    ) -> str:
        """Name a record.

        Args:
            kind: of what kind it is.
            id: its id.
            external: its id in another system.
            name: the name of an entity.
        """
        wanted = id_in(
            self.format, kind, id, external=external, name=name, producer=self._producer
        )
        space = _SPACES.get((self.format, kind), kind)
        made, count = wanted, 1
        while (space, made) in self._taken:
            count += 1
            made = self._numbered(kind, id, wanted, count)
        self._taken.add((space, made))
        self._given.setdefault((kind, id), made)
        return made

    def of(self, kind: Kind, id: str) -> str:
        """What a record is called that is named somewhere, be it there or not."""
        known = self._given.get((kind, id))
        if known is not None:
            return known
        return id_in(self.format, kind, id, name=id, producer=self._producer)

    def _numbered(self, kind: Kind, id: str, wanted: str, count: int) -> str:
        if self.format == MIF1 and kind == "entity":
            return f"{wanted} {count}"
        return id_in(self.format, kind, str(uuid5(_SPACE, f"{id} {count}")),
                     producer=self._producer)  # fmt: skip
