# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0 as a format: a document as grains, and grains as a document, without a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from omsgrain.formats import document as documents
from omsgrain.formats import json_text, mif
from omsgrain.formats.base import Said
from omsgrain.formats.convert.mif1 import SAID_BY_TYPE
from omsgrain.formats.convert.mif2 import CARRIED, HUB, METADATA, SHODH
from omsgrain.formats.json_text import of_bytes, style_of
from omsgrain.formats.mif2 import check
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.records import Record, short_name

_COUNTED: Final = ("memories", "todos", "projects", "reminders")


def of_counts(document: Mapping[str, Any]) -> str:
    """The checksum that the reference implementation writes: of how many records there are."""
    arrays = [document.get(name) for name in _COUNTED]
    counts = (len(array) if isinstance(array, list) else 0 for array in arrays)
    return of_bytes(":".join(map(str, counts)).encode("ascii"))


CHECKSUM: Final = mif.Checksums("export_meta", lambda document: (of_counts(document),))


class Mif2(mif.VersionedMif):
    """MIF 2.0 documents. Spec: MIF 2.0."""

    name = check.FORMAT
    title = "MIF 2.0"
    suffixes = (".mif.json",)
    arrays = check.ARRAYS
    hub = HUB
    export_member = "export_meta/id"
    external = "member"
    relation_ids = True
    carries_inside = False
    said_by_type = SAID_BY_TYPE
    table = TABLE
    limits = check.LIMITS
    embedding_member = "embeddings"
    around = "export_meta"
    checksums = CHECKSUM
    checker = check.Mif2Checker
    references = check.REFERENCES
    renamed = frozenset(check.REFERENCES)
    vendors = True
    formed = mif.formed_of(check.SHAPES, check.REFERENCES)

    def sniff(self, said: Said) -> bool:
        return said.is_object and said.version is not None and not said.is_version_1

    def load(
        self,
        data: bytes,
        *,
        user_id: str | None = None,
        limits: json_text.JsonLimits = check.LIMITS,
        exact: bool = False,
    ) -> documents.Import:
        read = self.parsed(data, limits, None)
        style = style_of(data, read.document) if exact else None
        found = self.taken(read)
        del read  # or all of it would stay until the end
        return self.imported(data, found, style, user_id=user_id, exact=exact)

    def parsed(self, data: bytes, limits: json_text.JsonLimits, layout: None) -> mif.Parsed:
        return mif.Parsed(limits.parse(data))

    def export_name(self, id: Any) -> str | None:
        return super().export_name(short_name(id))

    def vector(self, item: documents.RecordItem) -> documents.Vector | None:
        if item.kind != "memory" or item.of is not None:
            return None
        return documents.vector_of(item.value.get("embeddings"))

    def carry_beside(self, envelope: dict[str, Any], grains: dict[str, str]) -> None:
        vendors = envelope.setdefault("vendor_extensions", {})
        vendors.setdefault(CARRIED, {})["grains"] = grains

    def reads_of(
        self, envelope: Mapping[str, Any], id: str | None, record: Callable[[], Record]
    ) -> mif.Reads | None:
        told = envelope.get("vendor_extensions")
        for name in (SHODH, METADATA, id):
            told = told.get(name) if isinstance(told, dict) else None
        if not isinstance(told, dict):
            return None
        return mif.Reads.of(told.get("access_count"), told.get("last_accessed"))

    def finished(
        self, document: dict[str, Any], arrays: Mapping[str, Any], privacy: dict[str, Any] | None
    ) -> dict[str, Any]:
        if privacy is not None:
            meta = {**document.get("export_meta", {}), "privacy": privacy}
            document = {**document, "export_meta": meta}
        return self.checksums.sealed(document)


MIF2: Final = Mif2()
