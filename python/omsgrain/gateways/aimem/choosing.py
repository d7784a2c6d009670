# SPDX-License-Identifier: Apache-2.0
"""Which of a tenant's grains leave, as what, and in which bundle.

All grains are read once for it. What is kept of each is its number, its time and the hashes of its
URNs, some 30 bytes, so that a million chunks fit anywhere.

    chunks      those of the scope, each in the bundle of the producer that its URN names
    natives     grains that never were AIMEM are chunks of our own producer
    edges       between two chunks of one bundle
    links       of a chunk to an entity, in the bundle of the chunk
    entities    in each bundle that has a link to them; one that has none, of a whole export, in
                that of its own producer
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omsgrain.errors import UnsupportedError
from omsgrain.formats.across.names import AIMEM
from omsgrain.formats.aimem import urn
from omsgrain.formats.aimem.fields import Kind
from omsgrain.formats.aimem.native import native
from omsgrain.formats.aimem.records import checked
from omsgrain.formats.document import Loss
from omsgrain.formats.mif1.consent import STAYS, is_consent
from omsgrain.formats.raw import is_beside
from omsgrain.gateways.aimem.asking import Asked, ExportReport
from omsgrain.gateways.aimem.columns import Index, Rows
from omsgrain.gateways.around import Around
from omsgrain.gateways.memory import Memory, Page
from omsgrain.grain import Grain
from omsgrain.search.vectors import Model

__all__ = ["Part", "choose", "said"]


@dataclass(slots=True)
class Part:
    """What goes into one bundle: the numbers of its grains, each kind in the order it leaves in.

    Attributes:
        chunks: of grains that were chunks, and of natives.
        edges: of edges.
        entities: of entities.
        links: of links.
        natives: of those among the chunks that never were one.
        model: of the embeddings; None if there are none, or they do not leave.
    """

    chunks: array[int]
    edges: array[int]
    entities: array[int]
    links: array[int]
    natives: Index
    model: Model | None = None

    @classmethod
    def empty(cls, natives: Index | None = None, model: Model | None = None) -> Part:
        """One with nothing in it."""
        natives = Index((), ()) if natives is None else natives
        return cls(array("Q"), array("Q"), array("Q"), array("Q"), natives, model)

    def seqs(self, kind: Kind) -> array[int]:
        """The grains of a kind."""
        by_kind: dict[Kind, array[int]] = {
            "chunk": self.chunks,
            "edge": self.edges,
            "entity": self.entities,
            "chunk_entity": self.links,
        }
        return by_kind[kind]


class _Choice:
    """The walk through all grains of a tenant."""

    def __init__(self, asked: Asked, report: ExportReport) -> None:
        self._asked, self._report = asked, report
        self._names: list[str] = []  # of producers
        self._numbers: dict[str, int] = {}
        self._models: dict[int, Counter[Model]] = {}  # by producer: the embeddings of each
        self._chunks, self._entities = Rows(), Rows()  # with the hash of the URN, the producer
        self._edges, self._links = Rows(), Rows()  # with the hashes of the URNs they join
        self._natives = array("q")
        self._around = Around()

    def look(self, page: Page, seq: int, grain: Grain) -> None:
        """Take one grain."""
        if is_consent(grain):
            self._report.passed_over += 1
            self._report.lose([Loss(grain.address, "consent", STAYS)])
            return
        if is_beside(grain):
            self._report.passed_over += 1
            self._around.add(grain, page.get)
            return
        time = grain.get("created_at", 0)
        found = checked(grain, page.get)
        if found is None:
            chunk, losses = said(grain, self._asked)
            if chunk is None or self._chunk(page, seq, time, chunk):
                self._report.lose(losses)
            if chunk is not None:
                self._natives.append(seq)
            return
        # Python's hash is keyed: nobody can make two names that have the same.
        kind, record = found
        if kind == "chunk":
            self._chunk(page, seq, time, record)
        elif kind == "edge":
            self._edges.add(seq, time, hash(record["source_id"]), hash(record["target_id"]))
        elif kind == "chunk_entity":
            self._links.add(seq, time, hash(record["chunk_id"]), hash(record["entity_id"]))
        else:
            self._entities.add(seq, time, hash(record["id"]), self._number(record))

    def _chunk(self, page: Page, seq: int, time: int, chunk: Mapping[str, Any]) -> bool:
        number = self._number(chunk)
        if not self._asked.takes(self._names[number]) or not self._asked.wanted.takes(chunk):
            return False
        self._chunks.add(seq, time, hash(chunk["id"]), number)
        if self._asked.include_embeddings:
            self._vectors(page, seq, chunk["id"], number)
        return True

    def _vectors(self, page: Page, seq: int, name: str, number: int) -> None:
        for model in page.models:
            if page.has_vector(seq, model):
                if self._asked.embedding_model in (None, model.name):
                    self._models.setdefault(number, Counter())[model] += 1
                else:
                    self._report.lose([Loss(name, "embedding", "it is of another model")])

    def _number(self, record: Mapping[str, Any]) -> int:
        found = urn.parse(record["id"])
        return self._number_of("" if found is None else found.producer)

    def _number_of(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def parts(self) -> dict[str, Part]:
        """What leaves, by producer."""
        self._report.lose(self._around.losses(AIMEM, {}))
        named = {self._names[n] for n in {*self._chunks.two, *self._entities.two}}
        self._report.named = tuple(sorted(filter(self._asked.takes, named)))
        if self._asked.together and len(self._report.named) > 1:
            self._join()
        natives = Index(self._natives, self._natives)
        parts: dict[int, Part] = {}

        def part(number: int) -> Part:
            if number not in parts:
                parts[number] = Part.empty(natives, self._model(number))
            return parts[number]

        chunks, entities = self._chunks, self._entities
        for rows in (chunks, self._edges, self._links, entities):
            rows.sort()
        home = self._newest(chunks, "chunk", "chunks")
        known = self._newest(entities, "entity", "entities")
        for seq, number in zip(chunks.seqs, chunks.two, strict=True):
            part(number).chunks.append(seq)
        left = 0
        for seq, source, target in self._edges.each():
            at = next(home.values(source), None)
            if at is not None and at == next(home.values(target), None):
                part(at).edges.append(seq)
            else:
                left += 1
        self._tell_left(left, "edge")
        linked = Rows()
        for seq, chunk, entity in self._links.each():
            at = next(home.values(chunk), None)
            if at is not None and entity in known:
                part(at).links.append(seq)
                linked.add(seq, 0, entity, at)
        self._tell_left(len(self._links) - len(linked), "chunk_entity")
        homes = Index(linked.one, linked.two)
        for seq, entity, owner in entities.each():
            numbers = set(homes.values(entity)) or ({owner} if self._asked.wanted.whole else set())
            for number in numbers:
                part(number).entities.append(seq)
        found = {self._names[number]: one for number, one in parts.items()}
        return {name: found[name] for name in sorted(found) if self._asked.takes(name)}

    def _join(self) -> None:
        """Make of all bundles one, our own."""
        ours = self._number_of(self._asked.producer)
        for rows in (self._chunks, self._entities):
            rows.two = array("q", [ours]) * len(rows)
        self._models = {ours: sum(self._models.values(), Counter())}

    def _model(self, number: int) -> Model | None:
        found = self._models.get(number, Counter[Model]())
        names = {model.name for model in found}
        if len(names) > 1:
            raise UnsupportedError(
                "a bundle has embeddings of one model",
                field="/embedding_model",
                expected="one of them",
                found=", ".join(sorted(names)),
            )
        chosen = max(found, key=lambda model: (found[model], model.dimension), default=None)
        if chosen is not None and (left := found.total() - found[chosen]):
            why = f"it has another dimension than {chosen.dimension}, which most have"
            self._report.lose([Loss(f"{left} chunks", "embedding", why)])
        return chosen

    def _newest(self, rows: Rows, one: str, several: str) -> Index:
        """Leave the newest of several current grains that were one record; look-ups by name.

        Two stores that were merged can have that; one import never makes it.
        """
        found = Index(rows.one, rows.two)
        if not found.has_twice():
            return found
        newest = {name: i for i, name in enumerate(rows.one)}
        older = len(rows) - len(newest)
        self._report.lose([Loss(f"{older} {several}", "id", f"a newer {one} has the same")])
        rows.keep(sorted(newest.values()))
        return Index(rows.one, rows.two)

    def _tell_left(self, count: int, what: str) -> None:
        """Say how many of a whole export stay, since what they join is in no one bundle."""
        if count and self._asked.wanted.whole:
            why = "what they join is in no one bundle"
            self._report.lose([Loss(f"{count} of the kind {what}", what, why)])


def choose(memory: Memory, asked: Asked, report: ExportReport) -> dict[str, Part]:
    """Choose what leaves, by the producers of the bundles, which are sorted.

    Args:
        memory: what there is.
        asked: what is wanted of it.
        report: is told what is lost.

    Raises:
        UnsupportedError: a bundle would have embeddings of several models.
    """
    choice = _Choice(asked, report)
    for _ in memory.each(memory.seqs, choice.look, strict=False):
        pass
    return choice.parts()


def said(grain: Grain, asked: Asked) -> tuple[dict[str, Any] | None, list[Loss]]:
    """A grain that never was AIMEM as a chunk, and what that cannot hold."""
    owner = grain.get("user_id")  # all grains are of the tenant
    return native(grain, producer=asked.producer, owner=owner, strict=asked.strict)
