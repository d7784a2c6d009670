# SPDX-License-Identifier: Apache-2.0
"""Grains without the embeddings that stand in them, for what goes along whole without any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from omsgrain.formats.across.gather import Born, Heap, heap, parts_of
from omsgrain.formats.across.names import MIF1, MIF2
from omsgrain.formats.document import Loss, manifest
from omsgrain.formats.records import Built, Table, is_duplicate
from omsgrain.formats.source import Source
from omsgrain.grain import Grain

__all__ = ["MEMBERS", "NOT_ASKED", "bare"]

NOT_ASKED: Final = "embeddings leave only when asked for"
"""Why something is lost even where the grains go along."""
MEMBERS: Final = {MIF2: "embeddings", MIF1: "embedding"}
"""The member that is the embedding of a record."""


def bare(found: Heap) -> tuple[Heap, list[Loss]]:
    """The same grains, but that records with an embedding are made again without it.

    The text of a document that was kept as it is goes too: the embeddings are in it.
    """
    made: dict[str, Built] = {}
    losses: list[Loss] = []
    for format, member in MEMBERS.items():
        for one in found.records.get(format, ()):
            if isinstance(one.record.get(member), dict):
                made[one.address] = _without(found.grains[one.address], format, one, member)
                losses.append(Loss(str(one.record.get("id", "")), member, NOT_ASKED))
    if not made:
        return found, losses
    gone = {part for address in made for part in parts_of(found.grains[address])}
    # Manifests name addresses, so they are made again as well.
    gone.update(found.beside)
    kept = [grain for address, grain in found.grains.items() if address not in gone]
    grains = [one for grain in kept for one in _replaced(grain, made)]
    for whole in found.manifests:
        arrays = {
            pointer: [made[one].grain.address if one in made else one for one in listed]
            for pointer, listed in whole.arrays.items()
        }
        was = next(g for g in found.grains.values() if _is_of(g, whole.id, whole.format))
        created_at, owner = was["created_at"], was.get("user_id")
        grains += manifest(replace(whole, arrays=arrays, text=()), created_at=created_at,
                           user_id=owner)  # fmt: skip
    needed = {part for grain in grains for part in parts_of(grain)} - {g.address for g in grains}
    grains += [found.grains[part] for part in needed if part in found.grains]
    again = heap(grains)
    again.said = found.said
    return again, losses


def _without(grain: Grain, format: str, one: Born, member: str) -> Built:
    record = {name: value for name, value in one.record.items() if name != member}
    table, owner = _table(format), grain.get("user_id")
    if not is_duplicate(grain):
        return table.to_grain(one.kind, record, owner=owner)
    context = grain["context"]
    of = str(context.get("of")) if isinstance(context, Mapping) else "-"
    return table.to_duplicate(one.kind, record, of=of, owner=owner)


def _table(format: str) -> Table:
    if format == MIF2:
        from omsgrain.formats.mif2.records import TABLE

        return TABLE
    from omsgrain.formats.mif1.records import TABLE as TABLE_1

    return TABLE_1


def _replaced(grain: Grain, made: Mapping[str, Built]) -> list[Grain]:
    one = made.get(grain.address)
    return [grain] if one is None else [*one.parts, one.grain]


def _is_of(grain: Grain, id: str, format: str) -> bool:
    source = Source.of(grain)
    return source is not None and (source.kind, source.id, source.format) == (
        "document",
        id,
        format,
    )
