# SPDX-License-Identifier: Apache-2.0
"""Kept documents: stored beside their records, and exported again as they came.

The store keeps a document without the records that it refused, and without other systems' remarks
about them. It keeps nothing about an erased record, even if the record is not in the document. A
record that is already stored in another form is kept as a duplicate. A duplicate is no memory: it
is exported with its document, and no recall finds it.

To export a document, every record in it must be allowed to leave, also superseded ones. A document
with an erased or restricted record cannot be exported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from omsgrain import _core, formats
from omsgrain.errors import FormatError, NotFoundError, OmsError
from omsgrain.formats import times
from omsgrain.formats.aimem import fields
from omsgrain.formats.aimem.check import WARNINGS
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.aimem.records import FORMAT as AIMEM
from omsgrain.formats.convert.gather import parts_of
from omsgrain.formats.document import (
    KIND,
    Loss,
    Manifest,
    bare,
    beside,
    keyed,
    manifest,
    open_manifest,
)
from omsgrain.formats.json_text import COMPACT, JsonTexts
from omsgrain.formats.mif import VENDORS, Mif
from omsgrain.formats.mif1.check import SHAPES as MIF1
from omsgrain.formats.mif2.check import SHAPES as MIF2
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Record
from omsgrain.formats.source import NAMES, Source
from omsgrain.formats.table import VERSIONS, version
from omsgrain.grain import Grain, as_put
from omsgrain.interchange.export import Export
from omsgrain.interchange.user_memory import MemoryPage
from omsgrain.storage.erasure_queue import RETENTION
from omsgrain.store.context import context_of
from omsgrain.store.import_batch import ImportStep, record
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.store import GrainStore
    from omsgrain.store.source_index import SourceSnapshot

_MISSING: Final = b""


class KeptBundle:
    """An AIMEM bundle that is kept if all its records are stored as they came.

    Of each record it holds the 32 bytes of an address, so that a bundle can have millions.
    """

    def __init__(self, envelope: Mapping[str, Any], kinds: Collection[Kind], tenant: str) -> None:
        self._envelope, self._tenant = dict(envelope), tenant
        self._digests = {kind: list[bytes]() for kind in ARRAYS.values() if kind in kinds}

    def note(self, kind: Kind, place: int, grain: Grain | None, twin: int | None) -> None:
        """Note the grain that says exactly what a record does, or an earlier record that does."""
        listed = self._digests[kind]
        listed.extend([_MISSING] * (place + 1 - len(listed)))
        if twin is not None:
            listed[place] = listed[twin]
        if grain is not None:
            listed[place] = bytes.fromhex(_core.address(grain.blob))

    def keep(self, store: GrainStore, *, allow_erased: bool) -> list[Problem]:
        """Store it; a warning if that is not possible."""
        if any(_MISSING in listed for listed in self._digests.values()):
            return [Problem("document_not_kept", "", WARNINGS["document_not_kept"])]
        names = {kind: name for name, kind in ARRAYS.items()}
        arrays = {
            names[kind]: [digest.hex() for digest in listed]
            for kind, listed in self._digests.items()
        }
        created_at = times.of_grain(fields.parse_time(self._envelope["exported_at"]))
        whole = Manifest(AIMEM, self._envelope["checksum"], self._envelope, arrays)
        grains = manifest(whole, created_at=created_at, user_id=self._tenant)
        store.put_many(grains, allow_erased=allow_erased)
        return []


_PAGE: Final = 256  # records that are read together
_NAMED: Final = frozenset(
    field.name for shapes in (MIF1, MIF2) for shape in shapes.values() for field in shape
)
"""Members that the formats name: one is where it is, whatever the ids of records are."""


@contextmanager
def trimmed(
    store: GrainStore, user_id: str, ids: Collection[str], addresses: Collection[str]
) -> Iterator[list[str]]:
    """Store the documents of a user again without their remarks about some records.

    Yields the addresses of their old grains, which the caller deletes with the records. If that
    fails, the new grains are removed again.
    """
    again: dict[Grain, list[Grain]] = {}
    for whole in _manifests(store, user_id):
        with open_sources(context_of(store), user_id) as snapshot:
            made = _again(snapshot, whole, user_id, frozenset(ids), frozenset(addresses))
        if made is not None:
            again[whole] = made
    if not again:
        yield []
        return
    # Their retention ends when it would have.
    ends = {one.address: one.deadline for one in store.privacy.due() if one.kind == RETENTION}
    steps = [
        ImportStep("", None, one, until=ends.get(whole.address))
        for whole, made in again.items()
        for one in made
    ]
    old = dict.fromkeys(one for whole in again for one in (whole.address, *beside(whole)))
    put = [step.grain.address for step in steps if step.grain is not None]
    with open_sources(context_of(store), user_id) as snapshot:
        new = [one for one in put if snapshot.get(one) is None]
        gone = [one for one in old if one not in put and snapshot.get(one) is not None]
        since = snapshot.seq
    try:
        recorded = record(
            context_of(store), steps, user_id=user_id, since=since, allow_erased=True
        )
        for done in recorded.outcomes:
            if done.error is not None:
                raise done.error
        yield gone
    except OmsError:
        with open_sources(context_of(store), user_id) as snapshot:
            new = [one for one in new if snapshot.get(one) is not None]
        store.delete_many(new)
        raise


def _again(
    snapshot: SourceSnapshot,
    whole: Grain,
    user_id: str,
    ids: frozenset[str],
    addresses: frozenset[str],
) -> list[Grain] | None:
    """Make a manifest without remarks about the records; None if it has no such remarks."""
    try:
        found = open_manifest(whole, snapshot.part)
        known = keyed(whole, snapshot.part)
    except (NotFoundError, FormatError):  # it cannot be given back any more
        return None
    if found is None:
        return None
    lists = any(not addresses.isdisjoint(listed) for listed in found.arrays.values())
    envelope = _without(found.envelope, ids | addresses)
    if envelope == found.envelope and not (found.text and lists):
        return None
    return manifest(
        replace(found, envelope=envelope, text=()),
        created_at=whole["created_at"],
        user_id=user_id,
        keyed=known - ids,
    )


def _without(envelope: dict[str, Any], gone: frozenset[str]) -> dict[str, Any]:
    """Remove the remarks about some ids from an envelope."""
    left: dict[str, Any] = _cleaned({k: v for k, v in envelope.items() if k != VENDORS}, gone)
    if VENDORS not in envelope:
        return left
    systems = envelope[VENDORS]
    if isinstance(systems, dict):  # the names of the systems are no ids
        systems = {name: _cleaned(one, gone) for name, one in systems.items()}
    return {name: systems if name == VENDORS else left[name] for name in envelope
            if name == VENDORS or name in left}  # fmt: skip


def _cleaned(value: Any, gone: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            name: _cleaned(one, gone)
            for name, one in value.items()
            if name not in gone or name in _NAMED
        }
    if isinstance(value, list):
        return [_cleaned(one, gone) for one in value if not _is_of(one, gone)]
    return value


def _is_of(value: Any, gone: frozenset[str]) -> bool:
    """Whether one of several objects is about a record that goes."""
    names = (value.get(name) for name in ("id", "@id")) if isinstance(value, dict) else ()
    return any(isinstance(name, str) and name in gone for name in names)


def _manifests(store: GrainStore, user_id: str) -> Iterator[Grain]:
    for format in NAMES:
        for grain in store.iter_query(
            user_id=user_id, type="state", namespace=format, current=None, bookkeeping=True
        ):
            source = Source.of(grain)
            if source is not None and source.kind == KIND:
                yield grain


# -- giving a document back -----------------------------------------------------------------------


def kept_pieces(
    store: GrainStore,
    user_id: str,
    id: str,
    *,
    purpose: Purpose = "transfer",
    actor: str | None = None,
) -> tuple[Iterator[bytes], list[Loss]]:
    """Export a kept document as it came, by pieces; of several with one id the last one.

    Its records are in memory once, as text. Some documents are made at once: those with a spelling
    of their own, those in JSON-LD, and those that carry grains of another format.
    """
    export = _KeptExport(store, user_id, id, purpose)
    of = export.of
    document, losses = export.texts(), list[Loss]()
    if document is not None:
        found = of.pieces(of.current(document), export.manifest.layout or "json")
    else:
        dumped = formats.dump(export.grains(), format=of.name)
        found, losses = iter((dumped.data,)), dumped.losses
    export.memory.check()
    export.audit({"format": of.name, "document": 1}, actor, {})
    return found, losses


class _KeptExport(Export):
    """The export of a document that is kept; of several with one id the last one."""

    def __init__(self, store: GrainStore, user_id: str, id: str, purpose: Purpose) -> None:
        super().__init__(store, user_id, purpose, origin=id)

        def find(page: MemoryPage, seq: int, grain: Grain) -> int | None:
            source = Source.of(grain)  # a record can have the same id
            if source is None or (source.kind, source.id) != (KIND, id):
                return None
            return seq if source.format in VERSIONS else None

        def look(page: MemoryPage, seq: int, whole: Grain) -> Manifest | None:
            return open_manifest(whole, partial(self._one, page))

        found = self.memory.each(self.memory.seqs, find, strict=False)
        self._whole = [seq for seq in found if seq is not None][-1:]
        manifest = next(self.memory.each(self._whole, look), None)
        if manifest is None:
            raise NotFoundError("no such document is kept of this user", field="/document")
        self.manifest = manifest
        self.of = version(manifest.format)

    def _one(self, page: MemoryPage, address: str) -> Grain:
        """A grain of the document, if it may leave."""
        found = page.get(address)
        held, restricted = page.state_at(found.address)
        if restricted and self._purpose != "access":
            raise NotFoundError("something of the document is restricted")
        self.allow(found, held)
        return as_put(found)

    def texts(self) -> dict[str, Any] | None:
        """The document with its records as texts; None if it cannot be made so."""
        found, kind = self.manifest, self.of
        if not kind.in_pieces or found.text or found.style not in (None, COMPACT):
            return None
        arrays: dict[str, Any] = {}
        for pointer, listed in found.arrays.items():
            records = arrays[pointer] = JsonTexts()
            for at in range(0, len(listed), _PAGE):
                look = partial(self._records, kind, listed[at : at + _PAGE])
                for found_record in next(self.memory.each(self._whole, look)):
                    if found_record is None:
                        return None
                    records.append(bare(*found_record))
            if pointer in kind.single:
                arrays[pointer] = list(records)
        return kind.together(found.envelope, arrays)

    def _records(
        self, kind: Mif, addresses: list[str], page: MemoryPage, seq: int, whole: Grain
    ) -> list[tuple[str, Record] | None]:
        get = partial(self._one, page)
        return [kind.table.from_grain(get(address), get) for address in addresses]

    def grains(self) -> list[Grain]:
        """All grains that the document is made of."""
        (found,) = self.memory.each(self._whole, self._all)
        return found

    def _all(self, page: MemoryPage, seq: int, whole: Grain) -> list[Grain]:
        grains = {whole.address: as_put(whole)}

        def get(address: str) -> Grain:
            if address not in grains:
                grains[address] = self._one(page, address)
            return grains[address]

        open_manifest(whole, get)
        for listed in (*self.manifest.arrays.values(), self.manifest.text):
            for address in listed:
                for part in parts_of(get(address)):
                    get(part)
        for part in parts_of(whole):
            get(part)
        return list(grains.values())
