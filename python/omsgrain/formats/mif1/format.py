# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 as a format: converts documents to grains and back, without a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from omsgrain.errors import SchemaError
from omsgrain.formats.base import Said, Spelling
from omsgrain.formats.convert.base import PREFIXES
from omsgrain.formats.convert.mif1 import HUB, SAID_BY_TYPE, SPACES
from omsgrain.formats.document import (
    Import,
    Loss,
    Manifest,
    RecordItem,
    Vector,
    check_exact,
    spelled,
    vector_of,
)
from omsgrain.formats.json_text import COMPACT, Style, style_of, whole
from omsgrain.formats.mif import Parsed, Reads, VersionedMif, formed_of
from omsgrain.formats.mif1 import check, envelope
from omsgrain.formats.mif1 import document as documents
from omsgrain.formats.mif1.records import TABLE
from omsgrain.formats.problems import Verdict
from omsgrain.formats.records import Record

_ARRAYS: Final = {**check.ARRAYS, check.CONSENT: "consent"}


class Mif1(VersionedMif):
    """MIF 1.0 documents, in JSON, YAML and JSON lines. Spec: MIF 1.0."""

    name = check.FORMAT
    title = "MIF 1.0"
    suffixes = tuple(check.EXTENSIONS.values())
    options = frozenset(("layout", "passphrase", "key"))
    named_options = frozenset(("layout",))
    load_options = frozenset(("passphrase",))
    arrays = _ARRAYS
    hub = HUB
    export_member = "export/id"
    spaces = SPACES
    said_by_type = SAID_BY_TYPE
    table = TABLE
    limits = check.LIMITS
    embedding_member = "embedding"
    around = "export"
    checksums = documents.CHECKSUM
    checker = check.Mif1Checker
    references = check.REFERENCES
    renamed = frozenset(("memory", "todo"))
    single = frozenset((check.CONSENT,))
    layouts = get_args(check.Layout)
    formed = formed_of(check.SHAPES, check.REFERENCES)

    def sniff(self, said: Said) -> bool:
        if not said.is_object:
            return not said.is_array and documents.looks_like_yaml(said.data)
        if said.version is not None:
            return said.is_version_1
        encryption = said.members.get("encryption", "")
        return encryption is None or said.members.get("$schema") == check.SCHEMA

    def load(
        self,
        data: bytes,
        *,
        user_id: str | None = None,
        limits: check.Mif1Limits = check.LIMITS,
        exact: bool = False,
        layout: check.Layout | None = None,
        passphrase: str | None = None,
        key: bytes | None = None,
    ) -> Import:
        if passphrase is not None or key is not None:
            if not envelope.is_sealed(data):
                raise SchemaError("the document is not encrypted", field="/passphrase")
            data = envelope.open_document(data, passphrase, key=key, limits=limits)
        read = self.parsed(data, limits, layout)
        found = self.taken(read)
        style = _style(data, read) if exact and not found.problems else None
        del read  # or all of it would stay until the end
        return self.imported(data, found, style, user_id=user_id, exact=exact)

    def parsed(self, data: bytes, limits: check.Mif1Limits, layout: check.Layout | None) -> Parsed:
        return documents.parse(data, layout, limits)

    def vector(self, item: RecordItem) -> Vector | None:
        return vector_of(item.value.get("embedding"))

    def numbered(self, kind: str, id: str, count: int) -> str | None:
        return f"{id} {count}" if kind == "entity" else None

    def counted(
        self, envelope: dict[str, Any], arrays: Mapping[str, Iterable[Any]]
    ) -> dict[str, Any]:
        return documents.counted(envelope, arrays, self.arrays)

    def spelled(
        self, document: dict[str, Any], own: Manifest | None, how: Spelling
    ) -> tuple[bytes, list[Loss]]:
        layout, exact, get = how.layout, how.exact, how.get
        if layout not in (None, *self.layouts):
            raise SchemaError(f"unknown layout {layout!r}", expected=", ".join(self.layouts))
        kept = _layout(None if own is None else own.layout)
        changed = layout not in (None, kept)
        check_exact(own, exact=exact, changed=changed)
        if own is None or changed:
            return documents.spell(document, layout or kept), []
        if kept == "json":
            return spelled(own, document, get, exact=exact), []
        return spelled(
            own, document, get, exact=exact,
            read=lambda text: documents.parse(text, kept, _ANY).document,
            write=lambda document: documents.spell(document, kept),
        ), []  # fmt: skip

    def reads_of(
        self, envelope: Mapping[str, Any], id: str | None, record: Callable[[], Record]
    ) -> Reads | None:
        memory = record()
        return Reads.of(memory.get("access_count"), memory.get("accessed_at"))

    def with_reads(self, record: Record, kind: str, reads: Mapping[str, Reads]) -> Record:
        if kind != "memory" or not isinstance(record, dict):
            return record
        id = str(record.get("id", ""))
        # A memory imported from MIF 2.0 has the id without the prefix.
        found = reads.get(id) or reads.get(id.removeprefix(PREFIXES["memory"]))
        return record if found is None else found.said_in(record, "access_count", "accessed_at")

    def pieces(self, document: dict[str, Any], layout: str) -> Iterator[bytes]:
        if layout == "jsonl":
            return documents.spell_lines(document)
        if layout == "yaml":
            return iter((documents.spell(whole(document), "yaml"),))
        return super().pieces(document, layout)

    def finished(
        self, document: dict[str, Any], arrays: Mapping[str, Any], privacy: dict[str, Any] | None
    ) -> dict[str, Any]:
        made = {**document, "metadata": {"privacy": privacy}}
        return self.checksums.sealed(self.counted(made, arrays))

    def options_of_path(self, path: Path) -> dict[str, Any]:
        named = (layout for layout, end in check.EXTENSIONS.items() if path.name.endswith(end))
        return {"layout": next(named, "json")}

    def is_sealed(self, path: Path) -> bool:
        return envelope.is_sealed(self.read_bytes(path))

    def validate(
        self, data: bytes, passphrase: str | None = None, limits: Any = None, layout: Any = None
    ) -> Verdict:
        if passphrase is not None:
            data = envelope.open_document(data, passphrase)
        return super().validate(data, None, limits, layout)

    def seal(self, data: bytes, passphrase: str | None, key: bytes | None) -> bytes:
        return envelope.seal_document(data, passphrase, key=key)


# -- how a document is spelled --------------------------------------------------------------------


def _style(data: bytes, read: Parsed) -> Style | None:
    """The JSON style of a text. For YAML and JSON lines, only our own style is known."""
    layout = _layout(read.layout)
    if layout == "json":
        return style_of(data, read.document)
    return COMPACT if documents.spell(read.document, layout) == data else None


_ANY: Final = check.Mif1Limits(document=sys.maxsize - 1, line=sys.maxsize - 1)
"""No limits: the stored text was within the limits when it was imported."""


def _layout(said: str | None) -> check.Layout:
    for layout in get_args(check.Layout):
        if layout == said:
            return layout  # type: ignore[no-any-return]
    return "json"


MIF1: Final = Mif1()
