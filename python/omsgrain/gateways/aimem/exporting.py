# SPDX-License-Identifier: Apache-2.0
"""The memory of a tenant as bundles, one for each producer. Spec: AIMEM §2, §5.2, §5.5.

What was imported leaves under the URNs it came with; what never was AIMEM, under our own producer.
What was superseded, retracted or restricted stays here, and so does all that is being erased.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from omsgrain.engine import leaving
from omsgrain.errors import SchemaError, StoreError
from omsgrain.formats.aimem import checksum, embedding, times, urn
from omsgrain.formats.aimem.bundle import Bundle
from omsgrain.formats.aimem.fields import ARRAYS, FORMAT, VERSION, Kind
from omsgrain.formats.aimem.records import from_grain
from omsgrain.gateways.aimem.choosing import Asked, ExportReport, Part, choose, said
from omsgrain.gateways.aimem.scopes import wanted
from omsgrain.gateways.memory import Memory, Page
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.privacy import Purpose

__all__ = ["PRODUCER", "Export", "ExportReport", "export_bundle"]

PRODUCER: Final = "omsgrain"
"""Our own producer namespace, if no other is given."""

Record = tuple[Kind, dict[str, Any]]


def export_bundle(
    store: GrainStore,
    tenant: str,
    *,
    scope: str = "FULL",
    since: str | None = None,
    producer: str = PRODUCER,
    only_producer: str | None = None,
    include_embeddings: bool = False,
    embedding_model: str | None = None,
    strict: bool = False,
    now: int | None = None,
    tenant_id: str | None = None,
    purpose: Purpose = "transfer",
    actor: str | None = None,
    report: ExportReport | None = None,
) -> list[Bundle]:
    """Export a tenant: one bundle for each producer, in the order of their names.

    The same store and the same ``now`` give the same bundles. There is always one, if with
    nothing in it. All of them are in memory at once; ``export_stream`` needs little.

    Args:
        store: where from.
        tenant: the ``user_id`` of the grains.
        scope: ``FULL``; ``DNA_ONLY``: chunks that must not decay; ``SINCE``: those of ``since``
            or later.
        since: with SINCE: a time in UTC.
        producer: our own namespace, under which grains leave that never were AIMEM.
        only_producer: only the bundle of this producer.
        include_embeddings: whether they leave; they can tell what they were made of.
        embedding_model: the model of those that do, if the chunks have several.
        strict: nothing that is no member of the format; the report tells what is lost by it.
        now: ms since 1970, instead of the clock.
        tenant_id: what the bundle calls the tenant, if it is not ``tenant``.
        purpose: why, for the rules of presets and profiles, as with ``export_mg``.
        actor: who exports, for the audit trail, if it is another than the store's.
        report: an empty one, to be filled.

    Raises:
        SchemaError: an argument; ``rule`` is the format's.
        UnsupportedError: a rule keeps a grain here, and ``rule`` names it; or chunks of one
            bundle have embeddings of several models, which ``found`` names.
        KeyMissingError: grains are sealed, and it cannot be told whose they are.
        ErasedError: the tenant was erased meanwhile.
        StoreError: grains were removed or restricted meanwhile.

    Spec: AIMEM §2, §5.5
    """
    asked = Asked(
        wanted(scope, since),
        producer,
        only_producer,
        strict,
        include_embeddings,
        embedding_model,
    )
    export = Export(store, tenant, asked, now, tenant_id, purpose, report)
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
        now: int | None = None,
        tenant_id: str | None = None,
        purpose: Purpose = "transfer",
        report: ExportReport | None = None,
    ) -> None:
        self._store, self._asked, self._purpose = store, asked, purpose
        self._tenant_id = tenant if tenant_id is None else tenant_id
        _check(self._tenant_id, asked, purpose)
        self._now = store._settings.clock() if now is None else now
        self.report = ExportReport() if report is None else report
        self.memory = Memory(store, tenant)
        self._parts = choose(self.memory, asked, self.report)
        if not self._parts:
            self._parts = {asked.only or asked.producer: Part.empty()}
        self.producers = self.report.producers = tuple(self._parts)
        self._sums: dict[str, bytes] = {}  # of the embeddings, of bundles that were read
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

    def records(self, producer: str) -> Iterator[Record]:
        """The records of a bundle; as often as it is asked for, and each time the same.

        Raises:
            UnsupportedError: a rule keeps a grain here; the first time.
            ErasedError, StoreError: the grains are not what they were.
        """
        part, digest = self._parts[producer], sha256()
        first = producer not in self._sums
        kinds: tuple[tuple[Kind, Any], ...] = (
            ("chunk", part.chunks),
            ("edge", part.edges),
            ("entity", part.entities),
            ("chunk_entity", part.links),
        )
        for kind, seqs in kinds:
            if first:
                counts = self.report.counts
                counts[kind] = counts.get(kind, 0) + len(seqs)
            work = partial(self._record, part, kind, first)
            for record, vector in self.memory.each(seqs, work):
                if vector is not None:
                    digest.update(vector)
                    record["embedding"] = embedding.encode(vector)
                yield kind, record
        if self._sums.setdefault(producer, digest.digest()) != digest.digest():
            raise StoreError("embeddings were changed while they were exported")

    def _record(
        self, part: Part, kind: Kind, first: bool, page: Page, seq: int, grain: Grain
    ) -> tuple[dict[str, Any], bytes | None]:
        settings = self._store._settings
        # Profiles are declared by tags: without any only a preset can have a rule.
        ruled = "structural_tags" in grain.fields or leaving.SHARING in grain.fields
        if first and (settings.preset is not None or ruled):
            held = page.held(seq)
            self._rules.update(leaving.check(settings, grain, held, self._purpose))
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
        records: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in ARRAYS.values()}
        for kind, record in self.records(producer):
            records[kind].append(record)
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
            "embeddings": int(self._asked.embeddings),
            "purpose": self._purpose,
        }
        if self._rules:
            told["review"] = ",".join(sorted(self._rules))[:256]
        store._store.write(lambda w: store._note(w, "export", [], details=told, actor=actor))


def _check(tenant_id: str, asked: Asked, purpose: str) -> None:
    if not urn.is_tenant(tenant_id):
        expected = "a UUID or a URI"
        raise SchemaError(
            "not the id of a tenant", field="/tenant_id", expected=expected, rule="invalid_tenant"
        )
    for name in (asked.producer, asked.only):
        if name is not None and not urn.is_producer(name):
            raise SchemaError(
                "not a producer namespace",
                field="/producer",
                expected="1 to 63 of a-z, 0-9 and -",
                rule="invalid_producer",
            )
    if purpose not in ("move", "access", "transfer", "sale"):
        expected = "move, access, transfer or sale"
        raise SchemaError("no such purpose", field="/purpose", expected=expected)
