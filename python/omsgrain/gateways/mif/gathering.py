# SPDX-License-Identifier: Apache-2.0
"""The grains that leave as records, and what stands around these; each record is text at once.

Where all of them were records of the format, none is ever in memory but as grain or as text. What
has to be told in the words of another format is made of all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from omsgrain.errors import FormatError
from omsgrain.formats import times
from omsgrain.formats.across import convert
from omsgrain.formats.across.bare import MEMBERS, NOT_ASKED
from omsgrain.formats.across.build import ARRAYS, Options
from omsgrain.formats.across.gather import heap
from omsgrain.formats.across.mif2 import METADATA, about
from omsgrain.formats.arrays import lift
from omsgrain.formats.document import Loss
from omsgrain.formats.raw import getter
from omsgrain.formats.source import checking
from omsgrain.formats.texts import Texts, drained
from omsgrain.formats.vendors import MEMBER, OURS
from omsgrain.gateways.mif.choosing import Chosen, Reads
from omsgrain.gateways.mif.foreign import FORMAT
from omsgrain.gateways.mif.versions import version
from omsgrain.grain import Grain

__all__ = ["Gathered", "gathered"]

Record = dict[str, Any]
_MEMORY = "mem_"
_NO_PLACE = "only its document knows where it stood"


class Gathered(NamedTuple):
    """A document that is not put together yet.

    Attributes:
        envelope: what stands around its records, with room for them.
        arrays: the records, by pointer.
        losses: what it cannot hold.
    """

    envelope: Record
    arrays: dict[str, Texts]
    losses: list[Loss]


def gathered(chosen: Chosen, format: str, options: Options, *, local: bool) -> Gathered:
    """Make records of what leaves.

    Args:
        chosen: it; its grains are taken out of it.
        format: ``mif2`` or ``mif1``.
        options: how they are made.
        local: with memories of the namespace ``_local``.

    Raises:
        FormatError: a grain is not the record that it was.
    """
    pointers = {kind: pointer for pointer, kind in ARRAYS[format].items()}
    lost = [Loss(at, kind, _NO_PLACE) for at, kind in chosen.own.items() if kind not in pointers]
    with checking():
        if chosen.grains.keys() <= chosen.own.keys() | chosen.parts:
            found = _own(chosen, format, options, pointers)
        else:
            found = _all(chosen, format, options, local)
    return found._replace(losses=[*lost, *found.losses])


def _own(chosen: Chosen, format: str, options: Options, pointers: dict[str, str]) -> Gathered:
    """Records of the format, one by one."""
    places = [pointers[kind] for kind in chosen.own.values() if kind in pointers]
    envelope = convert.shell(chosen.grains, format, options, dict.fromkeys(places))
    arrays = {pointer: Texts() for pointer in dict.fromkeys(("/memories", *places))}
    losses: list[Loss] = []
    table, get = version(format).table, getter(chosen.grains)
    for address, kind in chosen.own.items():
        grain = chosen.grains[address]
        if address not in chosen.parts:
            del chosen.grains[address]
        found = table.from_grain(grain, get)
        if found is None:
            raise FormatError("a grain is not the record that it was", field=f"/{address}")
        if kind in pointers:
            record = _asked(found[1], MEMBERS[format], options, losses)
            arrays[pointers[kind]].append(_counted(record, kind, format, chosen))
    chosen.grains.clear()
    return Gathered(envelope, arrays, losses)


def _asked(record: Record, member: str, options: Options, losses: list[Loss]) -> Record:
    """A record without its embedding, if that was not asked for."""
    if options.embeddings or not isinstance(record.get(member), dict):
        return record
    losses.append(Loss(str(record.get("id", "")), member, NOT_ASKED))
    return {name: value for name, value in record.items() if name != member}


def _all(chosen: Chosen, format: str, options: Options, local: bool) -> Gathered:
    """Records of any format, and of none."""
    from omsgrain.formats.mif_ld.staying import without_local

    grains: list[Grain] = list(chosen.grains.values())
    chosen.grains.clear()
    stay: list[Loss] = []
    if not local:
        grains, stay = without_local(grains)
    looked = heap(grains)
    if chosen.foreign:  # importance, say, which has a place in the other version
        told = {OURS: {METADATA: about(chosen.foreign.envelope())}}
        looked.said[FORMAT] = {MEMBER: told}
    del grains
    document, losses = convert.tree(looked, format, chosen.vectors, options)
    del looked
    found = version(format)
    envelope, lists = lift(document, [at for at in found.arrays if at not in found.single])
    del document
    arrays = {}
    for pointer, listed in lists.items():
        kind = found.arrays[pointer]
        arrays[pointer] = Texts(_each(listed, kind, format, chosen))
    return Gathered(envelope, arrays, [*stay, *losses])


def _each(listed: list[Record], kind: str, format: str, chosen: Chosen) -> Iterable[Record]:
    for page in drained(listed):
        for record in page:
            yield _counted(record, kind, format, chosen)


def _counted(record: Record, kind: str, format: str, chosen: Chosen) -> Record:
    """A record that says how often it was read by now, where the format has a place for that."""
    if format != "mif1" or kind != "memory" or not isinstance(record, dict):
        return record
    id = str(record.get("id", ""))
    # One that came with MIF 2.0 has its id there.
    reads: Reads | None = chosen.reads.get(id) or chosen.reads.get(id.removeprefix(_MEMORY))
    if reads is None:
        return record
    if reads.times or "access_count" in record:
        record["access_count"] = reads.times
    said = record.get("accessed_at")
    instant = times.parse(said, floating=True) if isinstance(said, str) else None
    if reads.last is not None and (instant is None or instant.millis != reads.last):
        record["accessed_at"] = times.spell(reads.last)
    return record
