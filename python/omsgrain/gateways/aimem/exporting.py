# SPDX-License-Identifier: Apache-2.0
"""The memory of a tenant as bundles, one for each producer. Spec: AIMEM §2, §5.2, §5.5.

What was imported leaves under the URNs it came with; what never was AIMEM, under our own producer.
What was superseded, retracted or restricted stays here, and so does all that is being erased.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from omsgrain.engine import leaving
from omsgrain.errors import SchemaError, StoreError
from omsgrain.formats.aimem import checksum, embedding, times, urn
from omsgrain.formats.aimem.bundle import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, FORMAT, VERSION, Kind
from omsgrain.formats.aimem.records import from_grain
from omsgrain.gateways.aimem.asking import Asked, ExportReport
from omsgrain.gateways.aimem.choosing import Part, choose, said
from omsgrain.gateways.memory import Memory, Page
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = ["Export", "export_bundle"]


def export_bundle(
    store: GrainStore,
    tenant: str,
    *,
    actor: str | None = None,
    report: ExportReport | None = None,
    **options: Any,
) -> list[Bundle]:
    """Export a tenant: one bundle for each producer, in the order of their names.

    The same store and the same ``now`` give the same bundles. There is always one, if with
    nothing in it. All of them are in memory at once; ``export_stream`` needs little.

    Args:
        store: where from.
        tenant: the ``user_id`` of the grains.
        actor: who exports, for the audit trail, if it is another than the store's.
        report: an empty one, to be filled.
        **options: what is wanted, as ``Asked`` has it.

    Raises:
        SchemaError: an argument; ``rule`` is the format's.
        UnsupportedError: a rule keeps a grain here, and ``rule`` names it; or chunks of one
            bundle have embeddings of several models, which ``found`` names.
        KeyMissingError: grains are sealed, and it cannot be told whose they are.
        ErasedError: the tenant was erased meanwhile.
        StoreError: grains were removed or restricted meanwhile.

    Spec: AIMEM §2, §5.5
    """
    export = Export(store, tenant, Asked(**options), report)
    bundles = [export.bundle(name) for name in export.producers]
    export.memory.check()
    export.note(actor)
    return bundles


class Export:
    """An export under way: what leaves was chosen, and is read when it is asked for.

    Attributes:
        memory: the tenant's grains.
        producers: of the bundles, sorted.
        report: what is lost.
    """

    def __init__(
        self,
        store: GrainStore,
        tenant: str,
        asked: Asked,
        report: ExportReport | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._asked = store, asked
        self._tenant_id = tenant if asked.tenant_id is None else asked.tenant_id
        if not urn.is_tenant(self._tenant_id):
            raise SchemaError(
                "not the id of a tenant",
                field="/tenant_id",
                expected="a UUID or a URI, or another name for it as tenant_id",
                rule="invalid_tenant",
            )
        self._now = store._settings.clock() if asked.now is None else asked.now
        self.report = ExportReport() if report is None else report
        self.memory = Memory(store, tenant, alive, asked.purpose)
        self._parts = choose(self.memory, asked, self.report)
        self.report.withheld = self.memory.withheld()
        if not self._parts:
            self._parts = {asked.only_producer or asked.producer: Part.empty()}
        self.producers = self.report.producers = tuple(self._parts)
        self._sums: dict[tuple[str, Kind], bytes] = {}  # of the embeddings, of what was read
        self._rules: set[str] = set()

    def envelope(self, producer: str) -> dict[str, Any]:
        """The envelope of a bundle, without its checksum."""
        model = self._parts[producer].model
        members = {
            "format": FORMAT,
            "version": VERSION,
            "producer": producer,
            "tenant_id": self._tenant_id,
            "exported_at": times.spell(self._now),
            "scope": self._asked.wanted.scope,
            "since": self._asked.wanted.since,
            "embedding_dim": None if model is None else model.dimension,
            "embedding_model": None if model is None else model.name,
        }
        return {name: value for name, value in members.items() if value is not None}

    def records(self, producer: str, kind: Kind) -> Iterator[dict[str, Any]]:
        """The records of a kind; as often as it is asked for, and each time the same.

        Raises:
            UnsupportedError: a rule keeps a grain here; the first time.
            ErasedError, StoreError: the grains are not what they were.
        """
        part, digest = self._parts[producer], sha256()
        seqs = part.seqs(kind)
        first = (producer, kind) not in self._sums
        if first:
            counts = self.report.counts
            counts[kind] = counts.get(kind, 0) + len(seqs)
        for record, vector in self.memory.each(seqs, partial(self._record, part, kind, first)):
            if vector is not None:
                digest.update(vector)
                record["embedding"] = embedding.encode(vector)
            yield record
        if self._sums.setdefault((producer, kind), digest.digest()) != digest.digest():
            raise StoreError("embeddings were changed while they were exported")

    def _record(
        self, part: Part, kind: Kind, first: bool, page: Page, seq: int, grain: Grain
    ) -> tuple[dict[str, Any], bytes | None]:
        settings = self._store._settings
        # Profiles are declared by tags: without any only a preset can have a rule.
        ruled = "structural_tags" in grain.fields or leaving.SHARING in grain.fields
        if first and (settings.preset is not None or ruled):
            held = page.held(seq)
            self._rules.update(leaving.check(settings, grain, held, self._asked.purpose))
        is_chunk = kind == "chunk"
        if is_chunk and seq in part.natives:
            chunk, _ = said(grain, self._asked)
        else:
            found = from_grain(grain, page.get)
            chunk = None if found is None else found[1]
        if chunk is None:
            raise StoreError("a grain is not the record that it was")
        model = part.model if is_chunk else None
        return chunk, None if model is None else page.vector(seq, model)

    def bundle(self, producer: str) -> Bundle:
        """A whole bundle, with its checksum."""
        records = {kind: list(self.records(producer, kind)) for kind in ARRAYS.values()}
        made = Bundle(self.envelope(producer), records)
        text = json.dumps(made.to_dict()).encode("ascii")
        made.envelope[checksum.MEMBER] = checksum.of_document(text)
        return made

    def note(self, actor: str | None) -> None:
        """Note the export in the audit trail: how much of what sort, and not whose."""
        store = self._store
        if store._store.readonly:
            return
        told: dict[str, int | str] = {
            "format": "aimem",
            "scope": self._asked.wanted.scope,
            "bundles": len(self.producers),
            "grains": sum(self.report.counts.values()),
            "embeddings": int(self._asked.include_embeddings),
            "purpose": self._asked.purpose,
        }
        if self.report.withheld:
            told["withheld"] = sum(self.report.withheld.values())
        if self._rules:
            told["review"] = ",".join(sorted(self._rules))[:256]
        store._store.write(lambda w: store._note(w, "export", [], details=told, actor=actor))
