# SPDX-License-Identifier: Apache-2.0
"""AIMEM as a format: a bundle as grains, and grains as a bundle, without a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from omsgrain.errors import OmsError, SchemaError
from omsgrain.formats import document as documents
from omsgrain.formats import times
from omsgrain.formats.aimem import document, fields
from omsgrain.formats.aimem.document import Bundle, checksum_of
from omsgrain.formats.aimem.records import FORMAT as NAME
from omsgrain.formats.aimem.records import TABLE, bare, native
from omsgrain.formats.base import Format, Records
from omsgrain.formats.convert.aimem import HUB, tenant_of
from omsgrain.formats.convert.base import AS_MEMORIES
from omsgrain.formats.convert.mif1 import SAID_BY_TYPE
from omsgrain.formats.document import RecordItem, Vector
from omsgrain.formats.json_text import looked_into
from omsgrain.formats.problems import DocumentError, DocumentFindings
from omsgrain.formats.records import Record
from omsgrain.grain import Grain


class Aimem(Format):
    """AIMEM bundles. Spec: AIMEM §2."""

    name = NAME
    title = "AIMEM"
    suffixes = (".aimem.json", ".aimem.ndjson")
    names = (fields.FORMAT, fields.LEGACY_FORMAT)
    limits = fields.LIMITS
    options = frozenset(("producer",))
    signed_as_text = True
    arrays = fields.ARRAYS
    hub = HUB
    table = TABLE
    embeddings = False
    external = "id"
    spaces = AS_MEMORIES
    ordered = False
    takes_natives = True
    made_anew = frozenset(("producer", "scope", "since"))
    said_by_type = SAID_BY_TYPE

    def by_lines(self, file: IO[bytes]) -> bool:
        """Whether the first line of a bundle is its envelope, and each other line a record."""
        file.seek(0)
        first = file.readline(fields.LIMITS.line + 1)
        envelope = looked_into(first)
        if not isinstance(envelope, dict) or envelope.get("format") not in self.names:
            return False
        while line := file.readline(fields.LIMITS.line):
            if line.strip():
                return True
        if not envelope.keys().isdisjoint(fields.ARRAYS):
            return False
        # Without records and without arrays it could be both; the checksum is of one of them.
        try:
            return checksum_of(first) != envelope.get(document.MEMBER)
        except OmsError:
            return False

    def load(self, data: bytes, *, limits: fields.AimemLimits = fields.LIMITS) -> documents.Import:
        read = document.read_bundle(data, limits)
        tenant: str = read.envelope["tenant_id"]
        embeddings = {
            chunk["id"]: chunk["embedding"]
            for chunk in read.records.get("chunk", ())
            if isinstance(chunk.get("embedding"), str)
        }
        items = {
            name: [RecordItem(kind, bare(kind, record)) for record in read.records[kind]]
            for name, kind in fields.ARRAYS.items()
            if kind in read.records
        }

        def vector(item: RecordItem) -> Vector | None:
            text = embeddings.get(item.value["id"]) if item.kind == "chunk" else None
            data = None if text is None else fields.decode(text)
            return None if data is None else Vector(read.envelope["embedding_model"], data)

        made = documents.gathered(TABLE, items, tenant, vector)
        created_at = times.of_grain(fields.parse_time(read.envelope["exported_at"]))
        whole = documents.Manifest(
            self.name, read.envelope["checksum"], read.envelope, made.arrays
        )
        more = documents.manifest(whole, created_at=created_at, user_id=tenant)
        grains = [*made.grains.values(), *more]
        return documents.Import(self.name, grains, made.vectors, read.warnings)

    def read_bytes(self, path: Path) -> bytes:
        with path.open("rb") as source:
            lines = self.by_lines(source)
            data = document.whole(source)
            if not lines:
                return data
            if len(data) > fields.LIMITS.document:
                most = f"at most {fields.LIMITS.document} bytes; a larger one can be imported"
                raise DocumentError([document.problem("too_large", "", most)])
            source.seek(0)
            envelope = document.scan(source).envelope
            records: dict[Any, list[Record]] = {kind: [] for kind in fields.ARRAYS.values()}
            source.seek(0)
            for kind, record in document.records(source):
                records[kind].append(record)
        return document.write_bundle(Bundle(envelope, records))

    def laid_out(self, path: Path, data: bytes) -> Iterable[bytes]:
        if not path.name.endswith(".ndjson"):
            return [data]
        whole = json.loads(data)
        envelope = {name: value for name, value in whole.items() if name not in fields.ARRAYS}
        arrays = {kind: whole.get(name, ()) for name, kind in fields.ARRAYS.items()}
        return document.write_lines(envelope, arrays.__getitem__)

    def check_file(self, file: Path, passphrase: str | None = None) -> DocumentFindings:
        with file.open("rb") as source:
            if self.by_lines(source):
                source.seek(0)
                return _scanned(str(file), source)
            verdict = document.validate(document.whole(source))
        found = verdict.document or {}
        arrays = {array: found.get(array) for array in fields.ARRAYS}
        counts = {array: len(a) if isinstance(a, list) else 0 for array, a in arrays.items()}
        return DocumentFindings(
            str(file), self.name, counts, verdict.problems, verdict.total, verdict.warnings
        )

    def user_of(self, user: str | None, producer: str) -> str | None:
        if not fields.is_producer(producer):
            raise SchemaError("not a producer namespace", expected="1 to 63 of a-z, 0-9 and -")
        if (tenant := tenant_of(user)) is None:
            says = "the bundle names no tenant"
            raise SchemaError(says, field="/tenant_id", expected="a UUID or a URI")
        return tenant

    def native(
        self, grain: Grain, *, producer: str, owner: str | None, strict: bool
    ) -> tuple[str, Record | None, list[documents.Loss]]:
        return "chunks", *native(grain, producer=producer, owner=owner, strict=strict)

    def kept_options(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        return {"producer": envelope["producer"]} if "producer" in envelope else {}

    def with_vector(self, record: Record, data: bytes) -> Record:
        return record | {"embedding": fields.encode(data)}

    def together(self, envelope: dict[str, Any], arrays: Records) -> dict[str, Any]:
        records: dict[Any, Any] = {fields.ARRAYS[name]: array for name, array in arrays.items()}
        return document.as_document(Bundle(envelope, records), arrays)


def _scanned(name: str, source: IO[bytes]) -> DocumentFindings:
    try:
        found = document.scan(source)
    except DocumentError as error:
        nothing = dict.fromkeys(fields.ARRAYS, 0)
        return DocumentFindings(name, NAME, nothing, error.problems, error.total)
    counts = {array: found.counts[kind] for array, kind in fields.ARRAYS.items()}
    return DocumentFindings(name, NAME, counts, warnings=found.warnings)


AIMEM: Final = Aimem()
