# SPDX-License-Identifier: Apache-2.0
"""Which of a user's grains leave, and what belongs to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from omsgrain.engine import leaving
from omsgrain.formats import times
from omsgrain.formats.document import Vector
from omsgrain.formats.mif1.consent import is_consent
from omsgrain.formats.raw import is_beside
from omsgrain.formats.source import Source
from omsgrain.gateways.around import Around
from omsgrain.gateways.memory import Memory, Page
from omsgrain.gateways.mif import linked
from omsgrain.gateways.mif.foreign import Foreign
from omsgrain.grain import Grain, as_put

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.privacy import Purpose

__all__ = ["Chosen", "Reads", "Wanted", "choose"]

_GRAPH: Final = frozenset(("entity", "relationship", "episode", "node", "edge", "chunk_entity"))
"""Kinds of records that are no memory and nothing to be done."""


class Wanted(NamedTuple):
    """What is wanted of a user's memory; ``export_document`` says what it means."""

    format: str
    embeddings: bool
    graph: bool
    since: times.Instant | None


class Reads(NamedTuple):
    """How often a record was read, and when last in ms since 1970."""

    times: int
    last: int | None


@dataclass(slots=True)
class Chosen:
    """What leaves.

    Attributes:
        memory: it is of; asked again before anything leaves.
        grains: by plain address, in the order of their arrival, opened, with what belongs to them.
        own: the kinds of those that were records of the format already, by plain address.
        parts: of these, by plain address.
        vectors: the embeddings of the others, by plain address.
        reads: of records that were read, by kind and id.
        rules: by which somebody should look at it.
        passed_over: how many grains are no memory of their own.
        consents: the addresses of those among them that are the consent of a document.
        foreign: what other systems say in documents that are kept.
        around: what these documents say of themselves.
        embeddings: whether embeddings leave.
    """

    memory: Memory
    grains: dict[str, Grain] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)
    vectors: dict[str, Vector] = field(default_factory=dict)
    reads: dict[str, Reads] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    passed_over: int = 0
    consents: list[str] = field(default_factory=list)
    foreign: Foreign = field(default_factory=Foreign)
    around: Around = field(default_factory=Around)
    embeddings: bool = False


def choose(
    store: GrainStore,
    user_id: str,
    wanted: Wanted,
    purpose: Purpose,
    alive: Callable[[], None] = lambda: None,
) -> Chosen:
    """Read what leaves, and refuse what may not.

    Raises:
        UnsupportedError: a rule keeps a grain here.
        KeyMissingError, ErasedError, StoreError: as ``export_document``.
    """
    memory = Memory(store, user_id, alive, purpose)
    chosen, settings = Chosen(memory, embeddings=wanted.embeddings), store._settings

    def look(page: Page, seq: int, grain: Grain) -> None:
        allowed = is_consent(grain)
        if allowed or is_beside(grain):
            chosen.passed_over += 1
            if allowed:
                chosen.consents.append(grain.address)
            kept = chosen.around.add(grain, page.get)
            if kept is not None and (
                chosen.foreign.add(kept, grain, page.get) or kept.format == linked.FORMAT
            ):
                chosen.rules.update(leaving.check(settings, grain, page.held(seq), purpose))
            return
        source = Source.of(grain)
        if not _is_wanted(grain, source, wanted):
            if source is not None:
                chosen.foreign.stays(source.id)
            return
        chosen.rules.update(leaving.check(settings, grain, page.held(seq), purpose))
        # A sealed grain stands under an address of its own; it leaves as what it says.
        plain = as_put(grain)
        chosen.grains[plain.address] = plain
        own = source is not None and source.format == wanted.format
        if source is not None:
            for address in source.parts:
                part = as_put(page.get(address))
                chosen.grains[part.address] = part
            if own:
                chosen.own[plain.address] = source.kind
                chosen.parts.update(source.parts)
            count, last = page.reads(seq)
            if count or last:
                chosen.reads[source.id] = Reads(count, last)
        if wanted.embeddings and not own:  # a record of MIF has its own in itself
            for model in page.models:
                data = page.vector(seq, model)
                if data is not None:
                    chosen.vectors[plain.address] = Vector(model.name, data)

    for _ in memory.each(memory.seqs, look, strict=False):
        pass
    return chosen


def _is_wanted(grain: Grain, source: Source | None, wanted: Wanted) -> bool:
    if source is not None and source.kind in _GRAPH and not wanted.graph:
        return False
    if wanted.since is None:
        return True
    return _created(grain) >= wanted.since.millis


def _created(grain: Grain) -> int:
    created = grain.get("created_at", 0)
    return created if type(created) is int else 0
