# SPDX-License-Identifier: Apache-2.0
"""Export a tenant's memory as AIMEM bundles: one for each producer, or one by lines.

One walk chooses the grains and keeps a few numbers of each. The records are read when they are
written. Spec: AIMEM §2, §3.1, §5.5
"""

from __future__ import annotations

import json
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omsgrain.crypto.detached import signature_path
from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError, StoreError, UnsupportedError
from omsgrain.formats import times
from omsgrain.formats.aimem import document, fields
from omsgrain.formats.aimem.document import Bundle, checksum_of
from omsgrain.formats.aimem.fields import ARRAYS, DNA, FORMAT, SCOPES, VERSION, Kind
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.aimem.records import TABLE, checked, native
from omsgrain.formats.aimem.signature import sign_bundle
from omsgrain.formats.document import Loss
from omsgrain.grain import Grain
from omsgrain.interchange.export import (
    AimemExportReport,
    ExportedFile,
    ExportOptions,
    MemoryExport,
)
from omsgrain.interchange.signed_files import signed_text_of
from omsgrain.interchange.user_memory import MemoryPage
from omsgrain.search.vectors import Model

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Signer
    from omsgrain.store import GrainStore


_TIME = "such as 2026-01-15T10:00:00Z"
PRODUCER: Final = "omsgrain"
"""Our own producer namespace, if no other is given."""


@dataclass(frozen=True, kw_only=True)
class BundleOptions(ExportOptions):
    """The options of ``export_bundle`` and ``export_stream``, besides those of every export."""

    # ``FULL``; ``DNA_ONLY``: chunks that must not decay; ``SINCE``: those of ``since`` or later
    scope: str = "FULL"
    producer: str = PRODUCER  # our own namespace, under which grains leave that never were AIMEM
    only_producer: str | None = None  # only the bundle of this producer
    # put the records of all producers into our bundle, under their own names; readers that follow
    # §2.3 strictly refuse it
    together: bool = False
    # the model of the embeddings that leave, if the chunks have several
    embedding_model: str | None = None
    tenant_id: str | None = None  # what the bundle calls the tenant, if it is not the ``user_id``

    def __post_init__(self) -> None:
        self._spell_since()
        self._check_scope()
        for name in (self.producer, self.only_producer):
            if name is not None and not fields.is_producer(name):
                raise SchemaError(
                    "not a producer namespace",
                    field="/producer",
                    expected="1 to 63 of a-z, 0-9 and -",
                    rule="invalid_producer",
                )
        ExportOptions.__post_init__(self)

    def _check_scope(self) -> None:
        if self.scope not in SCOPES:
            raise SchemaError(
                "not a scope", field="/scope", expected=", ".join(SCOPES), rule="invalid_scope"
            )
        if self.scope != "SINCE":
            if self.since is not None:  # to pass over it would be to send more than was asked for
                raise SchemaError(
                    "this scope has no time",
                    field="/since",
                    expected="only with the scope SINCE",
                    rule="invalid_scope",
                )
        elif self.since is None:
            raise SchemaError("since when", field="/since", expected=_TIME, rule="since_missing")
        elif self.instant is None:
            raise SchemaError(
                "not a time in UTC", field="/since", expected=_TIME, rule="invalid_timestamp"
            )

    @cached_property
    def instant(self) -> times.Instant | None:
        """The time of ``since``, to compare with."""
        return fields.parse_time(self.since) if isinstance(self.since, str) else None

    def takes_chunk(self, chunk: Mapping[str, Any]) -> bool:
        """Whether a chunk is in the scope."""
        if self.scope == "DNA_ONLY":
            return chunk["memory_type"] in DNA or chunk.get("is_pinned") is True
        if self.instant is None:
            return True
        created = fields.parse_time(chunk["created_at"])
        return created is not None and created >= self.instant

    def takes(self, producer: str) -> bool:
        """Whether the bundle of a producer is wanted."""
        return self.only_producer in (None, producer)


class GrainColumns:
    """Grains of one kind, in columns: number, time, and two more."""

    def __init__(self) -> None:
        self.seqs, self.times = array("Q"), array("Q")
        self.one, self.two = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.seqs)

    def add(self, seq: int, time: int, one: int, two: int) -> None:
        self.seqs.append(seq)
        self.times.append(time)
        self.one.append(one)
        self.two.append(two)

    def each(self) -> Iterator[tuple[int, int, int]]:
        """The numbers, each with its two."""
        return zip(self.seqs, self.one, self.two, strict=True)

    def sort(self) -> None:
        """Order them by time; those of one time stay in order of arrival."""
        times = self.times
        if any(times[i - 1] > times[i] for i in range(1, len(times))):
            self.keep(sorted(range(len(times)), key=times.__getitem__))

    def keep(self, which: Sequence[int]) -> None:
        """Take some of them, in that order."""
        for column in (self.seqs, self.times, self.one, self.two):
            column[:] = array(column.typecode, map(column.__getitem__, which))


class NumberIndex:
    """Values by a number, in a fifth of the room that a dict takes."""

    def __init__(self, keys: Sequence[int], values: Sequence[int]) -> None:
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._keys = array("q", map(keys.__getitem__, order))
        self._values = array("q", map(values.__getitem__, order))

    def __contains__(self, key: int) -> bool:
        return next(self.values(key), None) is not None

    def values(self, key: int) -> Iterator[int]:
        at = bisect_left(self._keys, key)
        while at < len(self._keys) and self._keys[at] == key:
            yield self._values[at]
            at += 1

    def has_twice(self) -> bool:
        keys = self._keys
        return any(keys[i - 1] == keys[i] for i in range(1, len(keys)))


@dataclass(slots=True)
class BundlePart:
    natives: NumberIndex  # the numbers of those grains among the chunks that never were chunks
    model: Model | None = None  # of the embeddings; None if there are none, or they do not leave
    # the numbers of the grains of each kind, in the order of the export
    seqs: dict[Kind, array[int]] = field(
        default_factory=lambda: {kind: array("Q") for kind in ARRAYS.values()}
    )


class BundleChoice:
    """Chooses which grains of a tenant leave, and in which bundle."""

    def __init__(self, asked: BundleOptions, report: AimemExportReport) -> None:
        self._asked, self._report = asked, report
        self._names: list[str] = []  # of producers
        self._numbers: dict[str, int] = {}
        self._models: dict[int, Counter[Model]] = {}  # by producer: the embeddings of each
        # With the hash of the URN, and the producer.
        self._chunks, self._entities = GrainColumns(), GrainColumns()
        # With the hashes of the URNs that they join.
        self._edges, self._links = GrainColumns(), GrainColumns()
        self._natives = array("q")

    def add(self, page: MemoryPage, seq: int, grain: Grain) -> None:
        time = grain.get("created_at", 0)
        found = checked(grain, page.get)
        if found is None:
            chunk, losses = said(grain, self._asked)
            if chunk is None or self._chunk(page, seq, time, chunk):
                self._report.lose(losses)
            if chunk is not None:
                self._natives.append(seq)
            return
        # Python's hash is keyed: no one can make two names with one hash.
        kind, record = found
        if kind == "chunk":
            self._chunk(page, seq, time, record)
        elif kind == "edge":
            self._edges.add(seq, time, hash(record["source_id"]), hash(record["target_id"]))
        elif kind == "chunk_entity":
            self._links.add(seq, time, hash(record["chunk_id"]), hash(record["entity_id"]))
        else:
            self._entities.add(seq, time, hash(record["id"]), self._number(record))

    def _chunk(self, page: MemoryPage, seq: int, time: int, chunk: Mapping[str, Any]) -> bool:
        number = self._number(chunk)
        if not self._asked.takes(self._names[number]) or not self._asked.takes_chunk(chunk):
            return False
        self._chunks.add(seq, time, hash(chunk["id"]), number)
        if self._asked.include_embeddings:
            self._vectors(page, seq, chunk["id"], number)
        return True

    def _vectors(self, page: MemoryPage, seq: int, name: str, number: int) -> None:
        for model in page.models:
            if page.has_vector(seq, model):
                if self._asked.embedding_model in (None, model.name):
                    self._models.setdefault(number, Counter())[model] += 1
                else:
                    self._report.lose([Loss(name, "embedding", "it is of another model")])

    def _number(self, record: Mapping[str, Any]) -> int:
        found = fields.parse_urn(record["id"])
        return self._number_of("" if found is None else found.producer)

    def _number_of(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def parts(self) -> dict[str, BundlePart]:
        named = {self._names[n] for n in {*self._chunks.two, *self._entities.two}}
        self._report.named = tuple(sorted(filter(self._asked.takes, named)))
        if self._asked.together and len(self._report.named) > 1:
            self._join()
        natives = NumberIndex(self._natives, self._natives)
        parts: dict[int, BundlePart] = {}

        def part(number: int) -> BundlePart:
            if number not in parts:
                parts[number] = BundlePart(natives, self._model(number))
            return parts[number]

        chunks, entities = self._chunks, self._entities
        for rows in (chunks, self._edges, self._links, entities):
            rows.sort()
        home = self._newest(chunks, "chunk", "chunks")
        known = self._newest(entities, "entity", "entities")
        for seq, number in zip(chunks.seqs, chunks.two, strict=True):
            part(number).seqs["chunk"].append(seq)
        left = 0
        for seq, source, target in self._edges.each():
            at = next(home.values(source), None)
            if at is not None and at == next(home.values(target), None):
                part(at).seqs["edge"].append(seq)
            else:
                left += 1
        self._tell_left(left, "edge")
        linked = GrainColumns()
        for seq, chunk, entity in self._links.each():
            at = next(home.values(chunk), None)
            if at is not None and entity in known:
                part(at).seqs["chunk_entity"].append(seq)
                linked.add(seq, 0, entity, at)
        self._tell_left(len(self._links) - len(linked), "chunk_entity")
        homes = NumberIndex(linked.one, linked.two)
        for seq, entity, owner in entities.each():
            numbers = set(homes.values(entity)) or (
                {owner} if self._asked.scope == "FULL" else set()
            )
            for number in numbers:
                part(number).seqs["entity"].append(seq)
        found = {self._names[number]: one for number, one in parts.items()}
        return {name: found[name] for name in sorted(found) if self._asked.takes(name)}

    def _join(self) -> None:
        """Combine all bundles into our own."""
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

    def _newest(self, rows: GrainColumns, one: str, several: str) -> NumberIndex:
        """Keep the newest of several current grains of one record; return an index by name.

        Merged stores can have several; an import never makes them.
        """
        found = NumberIndex(rows.one, rows.two)
        if not found.has_twice():
            return found
        newest = {name: i for i, name in enumerate(rows.one)}
        older = len(rows) - len(newest)
        self._report.lose([Loss(f"{older} {several}", "id", f"a newer {one} has the same")])
        rows.keep(sorted(newest.values()))
        return NumberIndex(rows.one, rows.two)

    def _tell_left(self, count: int, what: str) -> None:
        """Report the edges or links of a full export whose ends are in different bundles."""
        if count and self._asked.scope == "FULL":
            why = "what they join is in no one bundle"
            self._report.lose([Loss(f"{count} of the kind {what}", what, why)])


def said(grain: Grain, asked: BundleOptions) -> tuple[dict[str, Any] | None, list[Loss]]:
    """Make a chunk of a grain that never was AIMEM, and list what the chunk cannot hold."""
    owner = grain.get("user_id")  # all grains are of the tenant
    return native(grain, producer=asked.producer, owner=owner, strict=asked.strict)


def export_bundle(
    store: GrainStore,
    tenant: str,
    *,
    actor: str | None = None,
    report: AimemExportReport | None = None,
    alive: Callable[[], None] = lambda: None,
    **options: Any,
) -> list[Bundle]:
    """Export a tenant: one bundle for each producer, in the order of their names.

    The same store and the same ``now`` give the same bundles. There is always at least one, which
    may be empty. All of them are in memory at once; ``export_stream`` needs little memory.

    Spec: AIMEM §2, §5.5
    """
    export = AimemExport(store, tenant, BundleOptions(**options), report, alive)
    bundles = [export.bundle(name) for name in export.producers]
    export.memory.check()
    export.note(actor)
    return bundles


class AimemExport(MemoryExport):
    """An export of a tenant's memory: grains are chosen first, and read for each bundle."""

    report: AimemExportReport  # what is lost

    def __init__(
        self,
        store: GrainStore,
        tenant: str,
        asked: BundleOptions,
        report: AimemExportReport | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._asked = asked
        self._tenant_id = tenant if asked.tenant_id is None else asked.tenant_id
        if not fields.is_tenant(self._tenant_id):
            raise SchemaError(
                "not the id of a tenant",
                field="/tenant_id",
                expected="a UUID or a URI, or another name for it as tenant_id",
                rule="invalid_tenant",
            )
        report = AimemExportReport() if report is None else report
        super().__init__(store, tenant, AIMEM, asked, report, alive)
        choice = BundleChoice(asked, report)
        self.choose(choice.add)
        report.lose(self.lost_around({}))
        self._parts = choice.parts()
        if not self._parts:
            self._parts = {asked.only_producer or asked.producer: BundlePart(NumberIndex((), ()))}
        self.producers = report.producers = tuple(self._parts)
        self._sums: dict[tuple[str, Kind], bytes] = {}  # of the embeddings, of what was read

    def envelope(self, producer: str) -> dict[str, Any]:
        """The envelope of a bundle, without its checksum."""
        model = self._parts[producer].model
        members = {
            "format": FORMAT,
            "version": VERSION,
            "producer": producer,
            "tenant_id": self._tenant_id,
            "exported_at": times.spell(self.now),
            "scope": self._asked.scope,
            "since": self._asked.since,
            "embedding_dim": None if model is None else model.dimension,
            "embedding_model": None if model is None else model.name,
        }
        return {name: value for name, value in members.items() if value is not None}

    def records(self, producer: str, kind: Kind) -> Iterator[dict[str, Any]]:
        """The records of a kind; as often as it is asked for, and each time the same."""
        part, digest = self._parts[producer], sha256()
        seqs = part.seqs[kind]
        first = (producer, kind) not in self._sums
        if first:
            counts = self.report.counts
            counts[kind] = counts.get(kind, 0) + len(seqs)
        for record, vector in self.memory.each(seqs, partial(self._record, part, kind, first)):
            if vector is not None:
                digest.update(vector)
                record["embedding"] = fields.encode(vector)
            yield record
        if self._sums.setdefault((producer, kind), digest.digest()) != digest.digest():
            raise StoreError("embeddings were changed while they were exported")

    def _record(
        self, part: BundlePart, kind: Kind, first: bool, page: MemoryPage, seq: int, grain: Grain
    ) -> tuple[dict[str, Any], bytes | None]:
        if first:
            self.allow_at(page, seq, grain)
        is_chunk = kind == "chunk"
        if is_chunk and seq in part.natives:
            chunk, _ = said(grain, self._asked)
        else:
            found = TABLE.from_grain(grain, page.get)
            chunk = None if found is None else found[1]
        if chunk is None:
            raise StoreError("a grain is not the record that it was")
        model = part.model if is_chunk else None
        return chunk, None if model is None else page.vector(seq, model)

    def bundle(self, producer: str) -> Bundle:
        records = {kind: list(self.records(producer, kind)) for kind in ARRAYS.values()}
        made = Bundle(self.envelope(producer), records)
        text = json.dumps(made.to_dict()).encode("ascii")
        made.envelope[document.MEMBER] = checksum_of(text)
        return made

    def note(self, actor: str | None) -> None:
        told = {
            "format": AIMEM.name,
            "scope": self._asked.scope,
            "bundles": len(self.producers),
            "grains": sum(self.report.counts.values()),
            "embeddings": int(self._asked.include_embeddings),
        }
        self.audit(told, actor, self.report.withheld)


PIECE = 1 << 16
"""Bytes of a piece, at least, but for the first, which is the envelope, and the last."""


def export_stream(
    store: GrainStore,
    tenant: str,
    *,
    actor: str | None = None,
    report: AimemExportReport | None = None,
    alive: Callable[[], None] = lambda: None,
    piece: int = PIECE,
    **options: Any,
) -> Iterator[bytes]:
    """Export one bundle by lines; the call itself refuses an invalid request.

    After an error the lines are incomplete, and the envelope's checksum shows it.

    Spec: AIMEM §3.1
    """
    export = AimemExport(store, tenant, BundleOptions(**options), report, alive)
    if len(export.producers) > 1:
        raise UnsupportedError(
            "a bundle has the chunks of one producer",
            field="/producer",
            expected="one of them",
            found=", ".join(export.producers[:10]),
            rule="several_producers",
        )
    (name,) = export.producers
    lines = document.write_lines(export.envelope(name), partial(export.records, name))
    first = next(lines)
    export.note(actor)
    return _pieces(export, first, lines, piece)


def _pieces(
    export: AimemExport, first: bytes, lines: Iterator[bytes], least: int
) -> Iterator[bytes]:
    export.memory.check()
    yield first
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= least:
            export.memory.check()
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    export.memory.check()
    if waiting:
        yield b"".join(waiting)


def export_aimem(
    store: GrainStore,
    file: Path,
    *,
    tenant: str,
    lines: bool = False,
    signer: Signer | None = None,
    key_url: str | None = None,
    replace: bool = False,
    **options: Any,
) -> tuple[list[ExportedFile], AimemExportReport]:
    """Write the memory of a tenant as a bundle, or as one for each producer of its identifiers."""
    report = AimemExportReport()
    with NewFiles(replace=replace) as files:
        made: Iterable[tuple[str, Iterable[bytes]]]
        if lines:
            made = _lines(store, tenant, options, report)
        else:
            bundles = export_bundle(store, tenant, report=report, **options)
            made = ((one.envelope["producer"], [document.write_bundle(one)]) for one in bundles)
        done = []
        for producer, pieces in made:
            path = file if len(report.producers) == 1 else _named(file, producer)
            partial = files.add(path, pieces)
            if signer is not None:
                text = signed_text_of(partial)
                mark = sign_bundle(text, signer, kid=key_url, iat=int(time.time()))
                files.add(signature_path(path), [mark])
            elif replace:
                files.drop(signature_path(path))  # it would be one of another bundle
            by = None if signer is None else signer.did
            done.append(ExportedFile(path, partial.stat().st_size, producer, by))
    return done, report


def _lines(
    store: GrainStore, tenant: str, options: dict[str, Any], report: AimemExportReport
) -> Iterator[tuple[str, Iterable[bytes]]]:
    try:
        only = export_stream(store, tenant, report=report, **options)
    except UnsupportedError as error:
        if error.rule != "several_producers":
            raise
        for name in report.producers:
            yield name, export_stream(store, tenant, only_producer=name, **options)
    else:
        yield report.producers[0], only


def _named(file: Path, producer: str) -> Path:
    """The name of the bundle of one of several producers."""
    ending = next((one for one in AIMEM.suffixes if file.name.endswith(one)), file.suffix)
    return file.with_name(f"{file.name.removesuffix(ending)}-{producer}{ending}")
