# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0 as a format: a document as grains, and grains as a document, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from omsgrain.errors import SchemaError
from omsgrain.formats import json_text, times
from omsgrain.formats.base import Mif, Reads, Records, Said, with_room
from omsgrain.formats.checksums import of_bytes
from omsgrain.formats.convert.mif2 import CARRIED, HUB, METADATA, SHODH
from omsgrain.formats.convert.words import SAID_BY_TYPE
from omsgrain.formats.document import (
    Dump,
    Import,
    Loss,
    Manifest,
    RecordItem,
    Vector,
    bare,
    fill,
    gathered,
    manifest,
    owner_of,
    spelled,
    the_one,
    vector_of,
)
from omsgrain.formats.json_text import style_of
from omsgrain.formats.mif2 import document as documents
from omsgrain.formats.mif2.check import (
    ARRAYS,
    FORMAT,
    LIMITS,
    REFERENCES,
    SHAPES,
    WARNINGS,
    Mif2Limits,
)
from omsgrain.formats.mif2.check import name as name_of
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.problems import Problem, Verdict
from omsgrain.formats.records import Record
from omsgrain.formats.source import Get, getter
from omsgrain.grain import Grain


class Mif2(Mif):
    """MIF 2.0 documents. Spec: MIF 2.0."""

    name = FORMAT
    title = "MIF 2.0"
    suffixes = (".mif.json",)
    arrays = ARRAYS
    hub = HUB
    export_member = "export_meta/id"
    external = "member"
    relation_ids = True
    carries_inside = False
    said_by_type = SAID_BY_TYPE
    table = TABLE
    limits = LIMITS
    embedding_member = "embeddings"
    references = REFERENCES
    renamed = frozenset(REFERENCES)
    vendors = True
    formed = frozenset(one.name for shape in SHAPES.values() for one in shape if one.form) | {
        path.split("/")[-1] for of in REFERENCES.values() for path in of
    }

    def sniff(self, said: Said) -> bool:
        """Whether it has a version; one that is not 1 is for the reader to refuse."""
        return said.is_object and said.version is not None and not said.is_version_1

    def load(
        self,
        data: bytes,
        *,
        user_id: str | None = None,
        limits: Mif2Limits = LIMITS,
        exact: bool = False,
    ) -> Import:
        """Make grains of a document; a bad record is left out, and told in ``problems``."""
        read = documents.parsed(data, limits)
        style = style_of(data, read) if exact else None
        found = documents.of_dict(read)
        del read  # or all of it would stay until the end
        meta, warnings = found.envelope.get("export_meta", {}), found.warnings
        owner, unnamed = owner_of(meta.get("user_id"), user_id)
        if unnamed:
            says, where = WARNINGS["owner_not_kept"].says, "/export_meta/user_id"
            warnings = (*warnings, Problem("owner_not_kept", where, says))
        made = gathered(TABLE, found.records, owner, _vector)
        when = times.parse(meta.get("created_at", ""), floating=True)
        known = name_of(meta.get("id")) or of_bytes(data)
        whole = Manifest(self.name, known, found.envelope, made.arrays, style)
        text = data if exact and style is None else None
        more = manifest(whole, created_at=times.of_grain(when), user_id=owner, text=text)
        return Import(
            self.name, [*made.grains.values(), *more], made.vectors, warnings, found.problems
        )

    def dump(
        self,
        grains: Iterable[Grain],
        vectors: Mapping[str, Vector] | None = None,
        *,
        embeddings: bool = True,
        exact: bool = False,
    ) -> Dump:
        """Make a document of grains that were one; it comes back as it was."""
        by_address = {grain.address: grain for grain in grains}
        get = getter(by_address)
        found = the_one(by_address.values(), self.name, get)
        if exact and found.style is None and not found.text:
            raise SchemaError("how the document was spelled was not kept when it was loaded")
        losses: list[Loss] = []

        def record(address: str) -> Any:
            born = TABLE.from_grain(get(address), get)
            if born is None:
                raise SchemaError("a record of the document is none", field=f"/{address}")
            kind, value = born
            if kind == "memory" and "embeddings" in value and not embeddings:
                losses.append(Loss(value["id"], "embeddings", "embeddings were not asked for"))
                return {key: one for key, one in value.items() if key != "embeddings"}
            return bare(kind, value)

        arrays = {place: [record(one) for one in listed] for place, listed in found.arrays.items()}
        return Dump(
            spelled(
                found, documents.CHECKSUM.current(fill(found.envelope, arrays)), get, exact=exact
            ),
            losses,
        )

    def carry_beside(self, envelope: dict[str, Any], grains: dict[str, str]) -> None:
        """Put grains into our place among the vendors' extensions."""
        vendors = envelope.setdefault("vendor_extensions", {})
        vendors.setdefault(CARRIED, {})["grains"] = grains

    def together(self, envelope: dict[str, Any], arrays: Records) -> dict[str, Any]:
        """The records of a document in their places."""
        return fill(envelope, arrays)

    def assembled(
        self, envelope: dict[str, Any], arrays: Records, *, summed: bool
    ) -> dict[str, Any]:
        """A document that is made anew."""
        whole = fill(with_room(envelope, arrays), arrays)
        return documents.CHECKSUM.sealed(whole) if summed else documents.CHECKSUM.current(whole)

    def spelled(
        self,
        document: dict[str, Any],
        own: Manifest | None,
        *,
        layout: object,
        shape: object,
        exact: bool,
        get: Get,
    ) -> tuple[bytes, list[Loss]]:
        """The bytes of a document, spelled as the one that was loaded."""
        if own is None:
            return json_text.spell(document), []
        return spelled(own, document, get, exact=exact), []

    def validate(self, data: bytes, passphrase: str | None) -> Verdict:
        """Say all that is wrong with a document."""
        return documents.validate(data)

    def reads_of(
        self, envelope: Mapping[str, Any], id: str | None, record: Callable[[], Record]
    ) -> Reads | None:
        """How often a memory was read, which a vendor says of it."""
        told = envelope.get("vendor_extensions")
        for name in (SHODH, METADATA, id):
            told = told.get(name) if isinstance(told, dict) else None
        if not isinstance(told, dict):
            return None
        return Reads.of(told.get("access_count"), told.get("last_accessed"))

    def current(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document whose checksum, if it is ours, is that of what it says now."""
        return documents.CHECKSUM.current(document)

    def finished(
        self, document: dict[str, Any], arrays: Mapping[str, Any], privacy: dict[str, Any] | None
    ) -> dict[str, Any]:
        """An export with what was found in it, and its documents.CHECKSUM."""
        if privacy is not None:
            meta = {**document.get("export_meta", {}), "privacy": privacy}
            document = {**document, "export_meta": meta}
        return documents.CHECKSUM.sealed(document)


def _vector(item: RecordItem) -> Vector | None:
    if item.kind != "memory" or item.of is not None:
        return None
    told = item.value.get("embeddings")
    return None if told is None else vector_of(told)


MIF2: Final = Mif2()
