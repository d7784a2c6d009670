# SPDX-License-Identifier: Apache-2.0
"""Documents that were imported and kept: which there are, and giving one back as it came.

A document is given back to whoever may export all of its records, whatever became of these since:
a record that was superseded is in it still. One that was erased or restricted is not, and then
there is no document any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omsgrain import formats
from omsgrain.engine import leaving
from omsgrain.errors import NotFoundError
from omsgrain.formats.document import KIND, Dump, open_manifest
from omsgrain.formats.source import Source
from omsgrain.gateways.memory import Memory, Page
from omsgrain.gateways.mif.versions import NAMES
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.privacy import Purpose

__all__ = ["KeptDocument", "documents", "export_kept"]


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


def documents(store: GrainStore, user_id: str) -> list[KeptDocument]:
    """Return the documents that are kept of a user, in the order in which they came."""
    found: list[KeptDocument] = []

    def look(page: Page, seq: int, grain: Grain) -> None:
        source = Source.of(grain)
        if source is not None and source.kind == KIND and source.format in NAMES:
            created_at = grain.get("created_at", 0)
            found.append(KeptDocument(source.id, source.format, created_at, seq))

    memory = Memory(store, user_id)
    for _ in memory.each(memory.seqs, look, strict=False):
        pass
    return found


def export_kept(
    store: GrainStore,
    user_id: str,
    id: str,
    *,
    purpose: Purpose = "transfer",
    actor: str | None = None,
    **options: Any,
) -> Dump:
    """Give a document back as it came; of several with one id the one that came last.

    Args:
        store: where it is kept.
        user_id: whose it is.
        id: as ``documents`` names it.
        purpose: why, for the rules of presets and profiles, and of consents.
        actor: who exports, for the audit trail, if it is another than the store's.
        **options: of ``formats.dump``.

    Raises:
        NotFoundError: there is no such document of this user, or something of it is gone.
        UnsupportedError: a rule keeps a grain of it here, and ``rule`` names it.
    """
    named = [one for one in documents(store, user_id) if one.id == id]
    if not named:
        raise NotFoundError("no such document is kept of this user", field="/document")
    last = named[-1]
    memory = Memory(store, user_id)
    settings, rules = store._settings, set[str]()

    def gather(page: Page, seq: int, whole: Grain) -> list[Grain]:
        grains = {whole.address: Grain(whole.blob)}

        def get(address: str) -> Grain:
            if address not in grains:
                found = page.get(address)
                held, restricted = page.state_at(found.address)
                if restricted:
                    raise NotFoundError("something of the document is restricted")
                rules.update(leaving.check(settings, found, held, purpose))
                grains[address] = Grain(found.blob)
            return grains[address]

        manifest = open_manifest(whole, get)
        if manifest is None:
            raise NotFoundError("no such document is kept of this user", field="/document")
        for listed in (*manifest.arrays.values(), manifest.text):
            for address in listed:
                source = Source.of(get(address))
                for part in () if source is None else source.parts:
                    get(part)
        source = Source.of(whole)
        for part in () if source is None else source.parts:
            get(part)
        return list(grains.values())

    (grains,) = memory.each([last.seq], gather)
    dumped = formats.dump(grains, format=last.format, **options)
    memory.check()
    if not store._store.readonly:
        told: dict[str, int | str] = {"format": last.format, "document": 1, "purpose": purpose}
        if rules:
            told["review"] = ",".join(sorted(rules))[:256]
        store._store.write(lambda w: store._note(w, "export", [], details=told, actor=actor))
    return dumped
