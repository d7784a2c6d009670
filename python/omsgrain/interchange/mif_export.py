# SPDX-License-Identifier: Apache-2.0
"""Export a user's memory as a document of MIF, of either version or in JSON-LD.

Records of the format are exported unchanged; other grains are converted. The document's own
counts, times and checksums are new. Superseded, retracted and restricted grains are not exported,
nor grains that are being erased. Spec: MIF 2.0 §1, §8; MIF 1.0 §2, §6
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain import formats
from omsgrain.crypto.detached import signature_path
from omsgrain.durable import NewFiles
from omsgrain.errors import FormatError, NotFoundError, SchemaError
from omsgrain.formats import times
from omsgrain.formats.convert import convert
from omsgrain.formats.convert.base import NOT_ASKED, BuildOptions
from omsgrain.formats.convert.mif2 import METADATA, about
from omsgrain.formats.document import Dump, Loss, Manifest, Vector, keyed, lift, parted
from omsgrain.formats.json_text import JsonTexts, drained, value_at
from omsgrain.formats.mif import (
    OURS,
    VENDORS,
    Mif,
    Reads,
    merged_vendors,
    overlaid,
    vendor_keys,
    without_keys,
)
from omsgrain.formats.mif1.check import EXTENSIONS
from omsgrain.formats.mif1.envelope import seal_document
from omsgrain.formats.records import Record, is_duplicate
from omsgrain.formats.source import Get, Source, checking, getter
from omsgrain.formats.table import FORMATS, VERSIONS, version
from omsgrain.grain import Grain, as_put
from omsgrain.interchange.export import ExportedFile, ExportOptions, ExportReport, MemoryExport
from omsgrain.interchange.kept import kept_pieces
from omsgrain.interchange.redact import Redactor
from omsgrain.interchange.user_memory import MemoryPage
from omsgrain.store.context import context_of
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.privacy.redact import Flags
    from omsgrain.store import GrainStore

_GRAPH: Final = frozenset(("entity", "relationship", "episode", "node", "edge", "chunk_entity"))
"""Kinds of records that are neither memories nor tasks."""
_NO_PLACE: Final = "only its document knows where it stood"
_CHANGING: Final = ("redact_pii", "since", "strict")
"""Options that do not apply to the export of an imported document."""
USUAL: Final = "mif2"
"""The format of an export, if none is named."""


@dataclass(frozen=True, kw_only=True)
class MifOptions(ExportOptions):
    """The options of an export as MIF, besides those of every export."""

    format: str = USUAL  # ``mif2``, ``mif1`` or ``mif-ld``
    layout: str = "json"  # ``json``; of MIF 1.0 also ``yaml`` or ``jsonl``
    include_graph: bool = True  # whether entities, relationships and the like leave
    redact_pii: bool = False  # take out personal data and secrets
    scan: bool = True  # warn of personal data and secrets
    local: bool = False  # whether memories of the namespace ``_local`` leave
    shape: str | None = None  # of MIF in JSON-LD: ``0.1`` or ``1.x``

    def __post_init__(self) -> None:
        self._spell_since()
        if self.layout not in self.to.layouts:
            expected = ", ".join(self.to.layouts)
            raise SchemaError(
                f"{self.to.title} has no such layout", field="/layout", expected=expected
            )
        self.to.refuse(shape=self.shape)
        ExportOptions.__post_init__(self)
        _ = self.earliest

    @cached_property
    def to(self) -> Mif:
        return version(self.format)

    @cached_property
    def earliest(self) -> int | None:
        """The time of ``since``, ms since 1970."""
        if self.since is None:
            return None
        instant = times.parse(self.since) if isinstance(self.since, str) else None
        if instant is None:
            expected = "such as 2026-01-15T10:00:00Z"
            raise SchemaError("not a time with an offset", field="/since", expected=expected)
        return instant.millis

    def takes(self, grain: Grain, source: Source | None) -> bool:
        if source is not None and source.kind in _GRAPH and not self.include_graph:
            return False
        created = grain.get("created_at", 0)
        return self.earliest is None or (created if type(created) is int else 0) >= self.earliest


def export_document(store: GrainStore, user_id: str, **options: Any) -> tuple[Dump, ExportReport]:
    """Export a user's memory as one document, which is in memory; all else as `export_pieces`."""
    found, losses, report = export_pieces(store, user_id, **options)
    return Dump(b"".join(found), *parted(losses)), report


def export_pieces(
    store: GrainStore,
    user_id: str,
    *,
    document: str | None = None,
    passphrase: str | None = None,
    actor: str | None = None,
    alive: Callable[[], None] = lambda: None,
    **options: Any,
) -> tuple[Iterable[bytes], list[Loss], ExportReport]:
    """Export a user's memory as one document, by pieces, or export an imported document again.

    The same store and the same ``now`` give the same document. The records are in memory once, as
    text. If some grains need conversion, all records are in memory as objects too for a while.
    """
    found: Iterable[bytes]
    if document is not None:
        for name in _CHANGING:
            if options.get(name):
                expected = "a document that is given back is not changed"
                raise SchemaError("not with a document", field=f"/{name}", expected=expected)
        purpose = options.get("purpose", "transfer")
        found, losses = kept_pieces(store, user_id, document, purpose=purpose, actor=actor)
        report = ExportReport("", document=document)
    else:
        version(options.get("format", USUAL)).refuse(passphrase=passphrase)
        asked = MifOptions(**options)
        if not user_id:
            raise SchemaError("the user whose memory to export is not given", field="/user_id")
        if not context_of(store).storage.readonly:
            context_of(store).write_counts()
        kind = MifExport if asked.to.in_pieces else MifLdExport
        export = kind(store, user_id, asked, alive)
        found, losses = export.pieces(actor)
        report = export.report
    if passphrase is not None:
        found = [seal_document(b"".join(found), passphrase)]
    return found, losses, report


_YAML: Final = ".mif.yml"


def layout_of_name(file: Path) -> str | None:
    """The layout by the name of a file; None if it says none."""
    if file.name.endswith(_YAML):
        return "yaml"
    return next((one for one, end in EXTENSIONS.items() if file.name.endswith(end)), None)


def export_mif(
    store: GrainStore,
    file: Path,
    *,
    user_id: str,
    layout: str | None = None,
    replace: bool = False,
    **options: Any,
) -> tuple[ExportedFile, ExportReport]:
    """Write a user's memory as a document in a file; all else as ``export_pieces``."""
    if options.get("document") is None:
        options["layout"] = layout or layout_of_name(file) or "json"
        of = version(options.get("format", USUAL))
        if file.suffix.lower() in of.no_exports:
            raise SchemaError(f"an export of {of.title} is one document of JSON", field="/file",
                              expected=".jsonld", found=file.suffix)  # fmt: skip
    with NewFiles(replace=replace) as files:
        found, _, report = export_pieces(store, user_id, **options)
        size = files.add(file, found).stat().st_size
        if replace:
            files.drop(signature_path(file))  # it would be one of another document
    return ExportedFile(file, size), report


class MifExport(MemoryExport):
    """An export of all memory of a user as a document of MIF."""

    def __init__(
        self,
        store: GrainStore,
        user_id: str,
        asked: MifOptions,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, user_id, asked.to, asked, ExportReport(asked.to.name), alive)
        self._format, self._asked, self._user_id = asked.to, asked, user_id
        # The exported grains, opened, by plain address, in the order of arrival.
        self.grains: dict[str, Grain] = {}
        self.own: dict[str, str] = {}  # the kinds of those that were records of the format already
        self.parts: set[str] = set()  # the parts of these
        self.vectors: dict[str, Vector] = {}  # the embeddings of the others
        self.reads: dict[str, Reads] = {}  # of records that were read, by id
        self.foreign = Foreign()
        self.choose(self._take, self._take_document)

    def _take(self, page: MemoryPage, seq: int, grain: Grain) -> None:
        """Take a grain that is memory, if it is wanted."""
        source = Source.of(grain)
        if not self._asked.takes(grain, source):
            if source is not None:
                self.foreign.stays(source.id)
            return
        self.allow_at(page, seq, grain)
        # An encrypted grain has an address of its own; it leaves in the clear.
        plain = as_put(grain)
        self.grains[plain.address] = plain
        own = source is not None and source.format == self._format.name
        if source is not None:
            for address in source.parts:
                part = as_put(page.get(address))
                self.grains[part.address] = part
            if own:
                self.own[plain.address] = source.kind
                self.parts.update(source.parts)
            count, last = page.reads(seq)
            if count or last:
                self.reads[source.id] = Reads(count, last)
        if self._asked.include_embeddings and not own:  # a record of MIF has its own in itself
            for model in page.models:
                data = page.vector(seq, model)
                if data is not None:
                    self.vectors[plain.address] = Vector(model.name, data)

    def _take_document(self, page: MemoryPage, seq: int, grain: Grain, manifest: Manifest) -> None:
        """Take what other systems say in a document; the counters in it leave anyway."""
        if self.foreign.add(manifest, grain, page.get) or FORMATS[manifest.format].counters:
            self.allow_at(page, seq, grain)

    def pieces(self, actor: str | None) -> tuple[Iterator[bytes], list[Loss]]:
        """The document by pieces, and what it cannot hold."""
        asked, number = self._asked, len(self.grains)
        redactor = Redactor(redact=asked.redact_pii, scan=asked.scan)
        document, losses, flags = self._document(redactor)
        losses = redactor.losses([*losses, *self.lost_around(document)])
        self._count(document)
        self.report.lose(losses)
        self.report.privacy = None if flags is None else flags.to_dict()
        self.report.warnings = redactor.warnings
        self.memory.check()
        told = {"format": self.to.name, "grains": number, "redacted": int(asked.redact_pii)}
        self.audit(told, actor, self.report.withheld)
        return self._format.pieces(document, asked.layout), losses

    def _count(self, document: Record) -> None:
        for pointer, kind in self._format.exported.items():
            array = value_at(document, pointer)
            if isinstance(array, list | JsonTexts):
                self.report.counts[kind] = len(array)

    def _document(self, redactor: Redactor) -> tuple[Record, list[Loss], Flags | None]:
        """The document, what it cannot hold, and what was found in it."""
        options = BuildOptions(
            self._asked.include_embeddings,
            self._asked.strict or self._asked.redact_pii,
            user=self._user_id,
            exported_at=times.spell(self.now),
            checksum=False,
        )
        found = self._gathered(options)
        if self._format.vendors and self.foreign:
            found = found._replace(envelope=self._with_foreign(found))
        document, flags = redactor.finish(found.envelope, found.arrays, self._format)
        return document, [*found.losses, *self.foreign.losses], flags

    def _gathered(self, options: BuildOptions) -> GatheredDocument:
        pointers = {kind: pointer for pointer, kind in self._format.arrays.items()}
        lost = [Loss(at, kind, _NO_PLACE) for at, kind in self.own.items() if kind not in pointers]
        with checking():
            if self.grains.keys() <= self.own.keys() | self.parts:
                found = self._own_records(options, pointers)
            else:
                found = self._all_records(options)
        return found._replace(losses=[*lost, *found.losses])

    def _own_records(self, options: BuildOptions, pointers: dict[str, str]) -> GatheredDocument:
        """Records of the format, one by one."""
        format, grains = self._format, self.grains
        places = [pointers[kind] for kind in self.own.values() if kind in pointers]
        envelope = convert.shell(grains, format, options, dict.fromkeys(places))
        arrays = {pointer: JsonTexts() for pointer in dict.fromkeys(("/memories", *places))}
        losses: list[Loss] = []
        table, get = format.table, getter(grains)
        for address, kind in self.own.items():
            grain = grains[address]
            if address not in self.parts:
                del grains[address]
            found = table.from_grain(grain, get)
            if found is None:
                raise FormatError("a grain is not the record that it was", field=f"/{address}")
            if kind in pointers:
                record = _asked(found[1], format.embedding_member, options, losses)
                arrays[pointers[kind]].append(format.with_reads(record, kind, self.reads))
        grains.clear()
        return GatheredDocument(envelope, arrays, losses)

    def _all_records(self, options: BuildOptions) -> GatheredDocument:
        """Records of any format, and grains that never were records."""
        grains: list[Grain] = list(self.grains.values())
        self.grains.clear()
        looked, stay = convert.leaving(grains, self._format, local=self._asked.local)
        if self.foreign:  # importance, say, which has a place in the other version
            told = {OURS: {METADATA: about(self.foreign.envelope())}}
            looked.said[self.foreign.format.name] = {VENDORS: told}
        del grains
        document, losses = convert.DocumentWriter(self._format, self.vectors, options).tree(looked)
        del looked
        format = self._format
        envelope, lists = lift(document, [at for at in format.arrays if at not in format.single])
        del document
        arrays = {}
        for pointer, listed in lists.items():
            kind = format.arrays[pointer]
            arrays[pointer] = JsonTexts(
                format.with_reads(record, kind, self.reads)
                for page in drained(listed)
                for record in page
            )
        return GatheredDocument(envelope, arrays, [*stay, *losses])

    def _with_foreign(self, found: GatheredDocument) -> Record:
        """The envelope with what other systems say of what is in the document."""
        ids = {one["id"] for array in found.arrays.values() for one in array
               if isinstance(one, dict) and isinstance(one.get("id"), str)}  # fmt: skip
        said = self.foreign.said(self._store, self._user_id, ids)
        if self._asked.strict:
            said.pop(OURS, None)
        if not said:
            return found.envelope
        before = found.envelope.get(VENDORS, {})
        return {**found.envelope, VENDORS: overlaid(said, before)}


class MifLdExport(MifExport):
    """An export of all memory of a user as a corpus of MIF in JSON-LD."""

    def _document(self, redactor: Redactor) -> tuple[Record, list[Loss], Flags | None]:
        """The corpus, what it cannot hold, and what was found in it."""
        asked = self._asked
        dumped = formats.dump(
            self.grains.values(),
            format=self.to.name,
            vectors=self.vectors,
            user_id=self._user_id,
            exported_at=times.spell(self.now),
            embeddings=asked.include_embeddings,
            strict=asked.strict or asked.redact_pii,
            local=asked.local,
            shape=asked.shape,
        )
        corpus = json.loads(dumped.data)
        document, flags = redactor.finish_corpus(corpus, self.reads, self.around.counters())
        return document, [*dumped.losses, *dumped.added], flags


class GatheredDocument(NamedTuple):
    """A document that is not put together yet."""

    envelope: Record  # the document's members around its records, with room for the records
    arrays: dict[str, JsonTexts]  # the records, by pointer
    losses: list[Loss]  # what it cannot hold


def _asked(
    record: Record, member: str | None, options: BuildOptions, losses: list[Loss]
) -> Record:
    """A record without its embedding, if that was not asked for."""
    if options.embeddings or member is None or not isinstance(record.get(member), dict):
        return record
    losses.append(Loss(str(record.get("id", "")), member, NOT_ASKED))
    return {name: value for name, value in record.items() if name != member}


_OF_COPY: Final = "kept under the id of a duplicate, which does not leave"


class Foreign:
    """Extensions of other systems, in the order in which the documents came."""

    # the only one that has a place for it
    format: Final = next(one for one in VERSIONS.values() if one.vendors)

    def __init__(self) -> None:
        self._envelopes: list[Mapping[str, Any]] = []
        self._keyed: set[str] = set()
        self._stays: set[str] = set()
        self.losses: list[Loss] = []  # what stays under the ids of duplicates; `said` finds it

    def __bool__(self) -> bool:
        return bool(self._envelopes)

    def add(self, found: Manifest, grain: Grain, get: Get) -> bool:
        """Add the manifest of a document; False if it says nothing of this sort."""
        if not FORMATS[found.format].vendors:
            return False
        try:
            ids = keyed(grain, get)
        except (NotFoundError, FormatError):  # something of it was erased
            return False
        said = merged_vendors([found.envelope])
        if said:
            self._envelopes.append({VENDORS: said})
            self._keyed |= ids
        return bool(said)

    def stays(self, id: str) -> None:
        """Note the id of a record that does not leave."""
        self._stays.add(id)

    def said(self, store: GrainStore, user_id: str, ids: Collection[str]) -> dict[str, Any]:
        """The exported extensions, by system."""
        whole = self.envelope()
        names = vendor_keys(whole).difference(ids)
        if not names:
            everything: dict[str, Any] = whole[VENDORS]
            return everything
        asked = [(kind, name) for name in names for kind in self.format.arrays.values()]
        with open_sources(context_of(store), user_id) as snapshot:
            erased = snapshot.erased(asked, format=self.format.name)
            stay = names & (self._keyed | self._stays)
            copies = {
                name
                for name, grains in snapshot.find(stay).items()
                if all(is_duplicate(one.grain) for one in grains)
            }
        gone = {name for _, name in erased}
        self.losses = [Loss(name, VENDORS, _OF_COPY) for name in sorted(copies - gone)]
        gone |= stay
        left: dict[str, Any] = without_keys(whole, gone)[VENDORS]
        return left

    def envelope(self) -> dict[str, Any]:
        """All of it, as the envelope of one document has it."""
        return {VENDORS: merged_vendors(self._envelopes)}
