# SPDX-License-Identifier: Apache-2.0
"""Documents that were imported and kept: which there are, and giving one back as it came.

A document is given back to whoever may export all of its records, whatever became of these since:
a record that was superseded is in it still. One that was erased or restricted is not, and then
there is no document any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from omsgrain import formats
from omsgrain.errors import FormatError, NotFoundError
from omsgrain.formats import problems
from omsgrain.formats.base import Format, Mif
from omsgrain.formats.convert.base import lost
from omsgrain.formats.convert.gather import parts_of
from omsgrain.formats.document import KIND, Dump, Loss, Manifest, bare, keyed, open_manifest
from omsgrain.formats.json_text import COMPACT, JsonTexts
from omsgrain.formats.mif1.document import STAYS, together
from omsgrain.formats.records import Record
from omsgrain.formats.source import Get, Source
from omsgrain.formats.table import FORMATS, VERSIONS, version
from omsgrain.grain import Grain, as_put
from omsgrain.interchange.report import note_export
from omsgrain.interchange.user_memory import MemoryPage, UserMemory
from omsgrain.store import export_filter
from omsgrain.store.context import context_of
from omsgrain.store.source_index import open_sources

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.store import GrainStore


_PAGE: Final = 256  # records that are read together


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A document that is kept.

    Attributes:
        id: by what it is known: that of the export, or else the hash of its bytes.
        format: ``mif2``, ``mif1`` or ``mif-ld``.
        created_at: when it was made, ms since 1970.
        seq: the number of the grain that lists it.
    """

    id: str
    format: str
    created_at: int
    seq: int

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON-ready values."""
        return {"id": self.id, "format": self.format, "created_at": self.created_at}


def documents(
    store: GrainStore, user_id: str, purpose: Purpose = "transfer"
) -> list[KeptDocument]:
    """Return the documents that are kept of a user, in the order in which they came."""
    found: list[KeptDocument] = []

    def look(page: MemoryPage, seq: int, grain: Grain) -> None:
        source = Source.of(grain)
        if source is not None and source.kind == KIND and source.format in VERSIONS:
            created_at = grain.get("created_at", 0)
            found.append(KeptDocument(source.id, source.format, created_at, seq))

    memory = UserMemory(store, user_id, purpose=purpose)
    for _ in memory.each(memory.seqs, look, strict=False):
        pass
    return found


def export_kept(store: GrainStore, user_id: str, id: str, **options: Any) -> Dump:
    """Give a document back as it came, in memory; all else as `kept_pieces`."""
    found, losses = kept_pieces(store, user_id, id, **options)
    return Dump(b"".join(found), losses)


def kept_pieces(
    store: GrainStore,
    user_id: str,
    id: str,
    *,
    purpose: Purpose = "transfer",
    actor: str | None = None,
    **options: Any,
) -> tuple[Iterator[bytes], list[Loss]]:
    """Give a document back as it came, by pieces; of several with one id the one that came last.

    Its records are in memory once, as text. Where it is to be spelled in a way of its own, or is
    of memories in JSON-LD, or grains of another format are in it, all of it is made at once.
    """
    named = [one for one in documents(store, user_id, purpose) if one.id == id]
    if not named:
        raise NotFoundError("no such document is kept of this user", field="/document")
    reading = _SnapshotReader(store, user_id, named[-1], purpose)
    of = version(reading.of.format)
    document, losses = None if options else reading.texts(), list[Loss]()
    if document is not None:
        found = of.pieces(of.current(document), reading.manifest.layout or "json")
    else:
        dumped = formats.dump(reading.grains(), format=reading.of.format, **options)
        found, losses = iter((dumped.data,)), dumped.losses
    reading.memory.check()
    told = {"format": of.name, "document": 1, "purpose": purpose}
    note_export(store, told, {}, reading.rules, actor)
    return found, losses


class _SnapshotReader:
    """A document that is read from a store.

    Attributes:
        of: which one.
        memory: that it is of.
        manifest: what it lists.
        rules: by which somebody should look at it.
    """

    def __init__(
        self, store: GrainStore, user_id: str, of: KeptDocument, purpose: Purpose
    ) -> None:
        self.of, self.memory = of, UserMemory(store, user_id, purpose=purpose)
        self.rules: set[str] = set()
        self._settings, self._purpose = context_of(store).settings, purpose

        def look(page: MemoryPage, seq: int, whole: Grain) -> Manifest | None:
            return open_manifest(whole, partial(self._one, page))

        (manifest,) = self.memory.each([of.seq], look)
        if manifest is None:
            raise NotFoundError("no such document is kept of this user", field="/document")
        self.manifest = manifest

    def _one(self, page: MemoryPage, address: str) -> Grain:
        """A grain of the document, if it may leave."""
        found = page.get(address)
        held, restricted = page.state_at(found.address)
        if restricted and self._purpose != "access":
            raise NotFoundError("something of the document is restricted")
        self.rules.update(export_filter.check(self._settings, found, held, self._purpose))
        return as_put(found)

    def texts(self) -> dict[str, Any] | None:
        """The document with its records as texts; None if it cannot be made so."""
        found, kind = self.manifest, version(self.of.format)
        if not kind.in_pieces or found.text or found.style not in (None, COMPACT):
            return None
        arrays: dict[str, Any] = {}
        for pointer, listed in found.arrays.items():
            records = arrays[pointer] = JsonTexts()
            for at in range(0, len(listed), _PAGE):
                look = partial(self._records, kind, listed[at : at + _PAGE])
                for record in next(self.memory.each([self.of.seq], look)):
                    if record is None:
                        return None
                    records.append(bare(*record))
            if pointer in kind.single:
                arrays[pointer] = list(records)
        return together(found.envelope, arrays)

    def _records(
        self, kind: Mif, addresses: list[str], page: MemoryPage, seq: int, whole: Grain
    ) -> list[tuple[str, Record] | None]:
        get = partial(self._one, page)
        return [kind.table.from_grain(get(address), get) for address in addresses]

    def grains(self) -> list[Grain]:
        """All grains that the document is made of."""
        (found,) = self.memory.each([self.of.seq], self._all)
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


class Foreign:
    """Gathers what other systems say, in the order in which the documents came.

    Attributes:
        format: the only one that has a place for it.
    """

    format: Final = next(one for one in VERSIONS.values() if one.vendors)

    def __init__(self) -> None:
        self._envelopes: list[Mapping[str, Any]] = []
        self._keyed: set[str] = set()
        self._stays: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self._envelopes)

    def add(self, found: Manifest, grain: Grain, get: Get) -> bool:
        """Take the manifest of a document; False if it says nothing of this sort."""
        if not FORMATS[found.format].vendors:
            return False
        try:
            ids = keyed(grain, get)
        except (NotFoundError, FormatError):  # something of it was erased
            return False
        said = problems.merged([found.envelope])
        if said:
            self._envelopes.append({problems.MEMBER: said})
            self._keyed |= ids
        return bool(said)

    def stays(self, id: str) -> None:
        """Note the id of a record that does not leave."""
        self._stays.add(id)

    def said(self, store: GrainStore, user_id: str, ids: Collection[str]) -> dict[str, Any]:
        """What leaves, by system."""
        whole = self.envelope()
        names = problems.keys(whole).difference(ids)
        if not names:
            everything: dict[str, Any] = whole[problems.MEMBER]
            return everything
        asked = [(kind, name) for name in names for kind in self.format.arrays.values()]
        with open_sources(context_of(store), user_id) as snapshot:
            told = snapshot.erased(asked, format=self.format.name)
        gone = {name for (_, name), erased in zip(asked, told, strict=True) if erased}
        gone |= names & (self._keyed | self._stays)
        left: dict[str, Any] = problems.without(whole, gone)[problems.MEMBER]
        return left

    def envelope(self) -> dict[str, Any]:
        """All of it, as it stands around the records of one document."""
        return {problems.MEMBER: problems.merged(self._envelopes)}


_COUNTERS: Final = "volatile"
_COUNTED: Final = frozenset(("temporal/accessCount", "temporal/lastAccessed"))
"""The counters of a memory that the store itself keeps."""
_OTHERS: Final = "vendor_extensions/"
"""What other systems say, which leaves in MIF 2.0."""


class ManifestList:
    """Gathers what documents say of themselves, in the order in which they came."""

    def __init__(self) -> None:
        self._documents: list[Manifest] = []

    def add(self, grain: Grain, get: Get) -> Manifest | None:
        """Take the manifest of a document; None if this grain is none that can be read."""
        try:
            found = open_manifest(grain, get)
        except (NotFoundError, FormatError):  # something of it was erased
            return None
        if found is not None:
            self._documents.append(replace(found, arrays={}, text=()))
        return found

    def counters(self) -> dict[str, Any]:
        """The counters of memories of MIF in JSON-LD, by ``@id``; the last document counts."""
        found: dict[str, Any] = {}
        for one in self._documents:
            said = one.envelope.get(_COUNTERS) if FORMATS[one.format].counters else None
            found |= said if isinstance(said, dict) else {}
        return found

    def losses(self, to: Format, envelope: Mapping[str, Any]) -> list[Loss]:
        """What an export does not say of what the documents say of themselves."""
        there = to.hub.read([], envelope).document
        found: dict[tuple[str, str], None] = {}
        for one in self._documents:
            of = FORMATS[one.format]
            # Its id and its time are those of that document, and made anew.
            around = replace(of.hub.read([], one.envelope).document, id="", user=None,
                             exported_at=None)  # fmt: skip
            for name, _ in lost(around, there, None, of.hub.told, to.title):
                kept = to.vendors and name.startswith(_OTHERS)
                if not kept and name not in to.made_anew:
                    found[one.id, name] = None
            if of.counters and not to.counters:
                found |= dict.fromkeys((one.id, name) for name in self._counted(one))
        return [Loss(id, name, STAYS) for id, name in found]

    def _counted(self, one: Manifest) -> Iterator[str]:
        """The names of the counters in a document that the store does not keep."""
        for listed in (one.envelope.get(_COUNTERS) or {}).values():
            for difference in listed:
                yield from (at for at in _pointers(difference, "") if at not in _COUNTED)


def _pointers(difference: Any, at: str) -> Iterator[str]:
    """The members that a difference adds, by their ways."""
    if not isinstance(difference, dict):
        return
    for name, inner in (difference.get("~") or {}).items():
        yield from _pointers(inner, f"{at}{name}/")
    for name, value in (difference.get("+") or {}).items():
        if isinstance(value, dict):
            yield from _pointers({"+": value}, f"{at}{name}/")
        else:
            yield f"{at}{name}"
