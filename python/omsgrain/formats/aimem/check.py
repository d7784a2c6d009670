# SPDX-License-Identifier: Apache-2.0
"""Whether an envelope and its records are what the format asks for; all defects, each once.

Spec: AIMEM §2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.formats import times
from omsgrain.formats.aimem import fields
from omsgrain.formats.json_text import kind_of
from omsgrain.formats.problems import MOST, Problem
from omsgrain.formats.schema import KINDS, Form, Problems, SchemaField, Shapes


class AimemRule(NamedTuple):
    """What its breach is called, and its status in HTTP."""

    says: str
    status: int = 422


RULES: Final[dict[str, AimemRule]] = {
    # the document
    "not_json": AimemRule("the document is not valid JSON"),
    "not_object": AimemRule("a bundle must be a JSON object"),
    "too_deep": AimemRule("the document is nested too deeply"),
    "too_large": AimemRule("the document is too large", 413),
    "invalid_type": AimemRule("the value has the wrong type"),
    "missing_field": AimemRule("a required field is missing"),
    "unknown_kind": AimemRule("the kind of record is unknown"),
    "too_long": AimemRule("the text is too long"),
    # the envelope
    "bad_format": AimemRule("the format name is wrong"),
    "unsupported_version": AimemRule("the version is not supported"),
    "invalid_producer": AimemRule("the producer namespace is invalid"),
    "invalid_tenant": AimemRule("the tenant id is invalid"),
    "invalid_timestamp": AimemRule("the time is invalid, or not in UTC"),
    "invalid_scope": AimemRule("the scope is unknown"),
    "since_missing": AimemRule("a bundle with scope SINCE needs a since time"),
    "missing_checksum": AimemRule("the checksum has the wrong form"),
    "checksum_mismatch": AimemRule("the checksum does not match the content", 409),
    # chunks
    "invalid_urn": AimemRule("the AIMEM identifier is invalid"),
    "duplicate_chunk_id": AimemRule("two chunks have the same id"),
    "empty_content": AimemRule("the chunk has no content"),
    "content_too_long": AimemRule("the content is too long"),
    "bad_hash_format": AimemRule("the content hash has the wrong form"),
    "hash_mismatch": AimemRule("the content hash does not match the content"),
    "invalid_memory_type": AimemRule("the memory type is unknown"),
    "invalid_zone": AimemRule("the zone is unknown"),
    "invalid_tag": AimemRule("the tag is invalid"),
    "embedding_envelope_missing": AimemRule(
        "the envelope names no model or dimension for the embedding"
    ),
    "invalid_embedding_dim": AimemRule("the embedding dimension is out of range"),
    "embedding_invalid": AimemRule("the embedding is not finite float32 values in base64"),
    "embedding_dim_mismatch": AimemRule("the embedding has the wrong dimension"),
    # edges
    "edge_source_unknown": AimemRule("the edge's source is not in this bundle"),
    "edge_target_unknown": AimemRule("the edge's target is not in this bundle"),
    "invalid_edge_type": AimemRule("the edge type is unknown"),
    "edge_weight_out_of_range": AimemRule("the edge's weight is out of range"),
    # entities and their links
    "duplicate_entity_id": AimemRule("two entities have the same id"),
    "empty_entity_name": AimemRule("the entity has no name"),
    "invalid_entity_kind": AimemRule("the entity kind is unknown"),
    "ce_chunk_unknown": AimemRule("the link's chunk is not in this bundle"),
    "ce_entity_unknown": AimemRule("the link's entity is not in this bundle"),
    # signatures
    "signature_invalid": AimemRule("the signature does not match this bundle"),
    "signature_untrusted": AimemRule("no trusted key has signed this bundle"),
    "signature_missing": AimemRule("a signature is required, and the bundle has none"),
}
"""Breaking one of them refuses the bundle."""

WARNINGS: Final[dict[str, str]] = {
    "legacy_format": "the bundle has the format's older name",
    "foreign_producer": "the identifier belongs to another producer",
    "shared_id": "a chunk and an entity have the same id",
    "scope_mismatch": "the chunk is outside the bundle's scope",
    "unsupported_model": "embeddings of an unsupported model were dropped",
    "zero_embedding": "embeddings with only zeros have no direction and were dropped",
    "document_not_kept": "some records are not stored exactly as received",
}


_ENVELOPE: Final = "envelope"
_TIME: Final = "such as 2026-01-15T10:00:00Z"
_FLOATS: Final = "base64 of finite float32"
_FORMS: Final = {
    "utc": Form("invalid_timestamp", _TIME, fields.parse_time, like="utc"),
    "embedding": Form("embedding_invalid", _FLOATS, fields.decode),
}
# Names, hashes and how long a content may be are not looked at.
_SHAPES: Final = Shapes(
    {str(kind): table for kind, table in fields.RECORDS.items()} | {_ENVELOPE: fields.ENVELOPE},
    _FORMS,
    records=fields.RECORDS,
    more=(_ENVELOPE,),
)


CHECKSUM = "sha256:"
"""How a checksum begins. One that begins so and is wrong in any way does not match."""
_HASH = re.compile("sha256:[0-9a-f]{64}")

_URN = "urn:aimem:<producer>:<local>"
_ENDS: dict[fields.Kind, tuple[tuple[str, fields.Kind, str], ...]] = {
    "chunk": (),
    "entity": (),
    "edge": (
        ("source_id", "chunk", "edge_source_unknown"),
        ("target_id", "chunk", "edge_target_unknown"),
    ),
    "chunk_entity": (
        ("chunk_id", "chunk", "ce_chunk_unknown"),
        ("entity_id", "entity", "ce_entity_unknown"),
    ),
}
"""The members of edges and links that name a record, and the rule if the bundle lacks it."""


class AimemChecker:
    """Checks one bundle: its envelope first, then its records."""

    def __init__(self, limits: fields.AimemLimits = fields.LIMITS, *, many: bool = False) -> None:
        self.faults, self.problems, self.warnings = Problems(), Problems(), Problems()
        self._found = self.problems
        self._line: int | None = None
        self.unresolved = 0  # how many edges and links came before both their ends
        # identifiers that may occur twice, and whether the second look has met them
        self.doubtful: dict[tuple[fields.Kind, str], bool] = {}
        self._limits = limits
        self._producer = self._scope = ""
        self._is_own = fields.of_producer("")
        self._since: times.Instant | None = None
        self._dimension: int | None = None  # of an embedding; none: of any length
        self._undeclared: set[str] = set()
        kind: type[fields.Hashed | fields.DocumentTexts] = (
            fields.Hashed if many else fields.DocumentTexts
        )
        self._seen: dict[fields.Kind, fields.Hashed | fields.DocumentTexts] = {
            "chunk": kind(),
            "entity": kind(),
        }

    @property
    def is_full(self) -> bool:
        return self.problems.total >= MOST

    # -- the envelope ---------------------------------------------------------------------------

    def envelope(self, envelope: dict[str, Any], line: int | None = None) -> None:
        """Check an envelope. Its arrays are not looked at."""
        self._line, self._found = line, self.faults
        good = self._fields("", _ENVELOPE, envelope)
        format_ = good.get("format", fields.FORMAT)
        if format_ == fields.LEGACY_FORMAT:
            self._warn("legacy_format", "/format")
        elif format_ != fields.FORMAT:
            self._wrong("bad_format", "/format", f'"{fields.FORMAT}"')
        if good.get("version", fields.VERSION) != fields.VERSION:
            self._wrong("unsupported_version", "/version", f'"{fields.VERSION}"')
        if "producer" in good:
            self._producer = good["producer"]
            if not fields.is_producer(self._producer):
                self._wrong("invalid_producer", "/producer", "1 to 63 of a-z, 0-9 and -")
                self._producer = ""
            self._is_own = fields.of_producer(self._producer)
        if "tenant_id" in good and not fields.is_tenant(good["tenant_id"]):
            self._wrong("invalid_tenant", "/tenant_id", "a UUID or a URI")
        self._time("", "exported_at", good)
        self._scope = good.get("scope", "")
        self._one_of("", "scope", good, fields.SCOPES, "invalid_scope")
        self._since = self._time("", "since", good)
        if self._scope == "SINCE" and envelope.get("since") is None:
            self._wrong("since_missing", "/since", "a time in UTC")
        if not good.get("checksum", CHECKSUM).startswith(CHECKSUM):
            self._wrong("missing_checksum", "/checksum", f"{CHECKSUM} and 64 hex digits")
        self._declared(envelope, good)

    def _declared(self, envelope: dict[str, Any], good: dict[str, Any]) -> None:
        """Note which embeddings the envelope declares; a record with one needs all of it."""
        names = ("embedding_dim", "embedding_model")
        self._undeclared = {name for name in names if envelope.get(name) in (None, "")}
        dimension = good.get("embedding_dim")
        if dimension is None:
            return
        if 1 <= dimension <= self._limits.dimension:
            self._dimension = dimension
        else:
            most = f"1 to {self._limits.dimension}"
            self._wrong("invalid_embedding_dim", "/embedding_dim", most)

    # -- records --------------------------------------------------------------------------------

    def record(
        self,
        kind: fields.Kind,
        record: Any,
        pointer: str,
        line: int | None = None,
        *,
        ends: bool = True,
    ) -> None:
        if _SHAPES.fit(kind, record) and self._is_sure(kind, record):
            return
        self._line, self._found = line, self.problems
        if type(record) is not dict:
            self._wrong("invalid_type", pointer, "an object", kind_of(record))
            return
        good = self._fields(pointer, kind, record)
        if kind == "chunk":
            self._chunk(pointer, good)
        elif kind == "entity":
            self._entity(pointer, good)
        else:
            if kind == "edge":
                self._edge(pointer, good)
            for name, _, _ in _ENDS[kind]:
                if name in good and fields.parse_urn(good[name]) is None:
                    self._wrong("invalid_urn", f"{pointer}/{name}", _URN)
                    del good[name]
            if ends:
                self.ends(kind, good, pointer, line)
            else:
                self.unresolved += sum(1 for _ in self._unknown(kind, good))

    def _is_sure(self, kind: fields.Kind, record: dict[str, Any]) -> bool:
        """Whether nothing is to be said of a record that fits; what is not sure is looked into."""
        if _ENDS[kind]:
            return all(record[name] in self._seen[other] for name, other, _ in _ENDS[kind])
        if kind == "chunk":
            content, given = record["content"], record.get("content_hash")
            if len(content) > self._limits.content or self._scope not in ("FULL", ""):
                return False
            if given is not None and given != CHECKSUM + sha256(content.encode()).hexdigest():
                return False
        name = record["id"]
        if not self._is_own(name) or name in self._seen["entity" if kind == "chunk" else "chunk"]:
            return False
        return self._seen[kind].add(name)

    def ends(
        self, kind: fields.Kind, record: dict[str, Any], pointer: str, line: int | None = None
    ) -> None:
        self._line, self._found = line, self.problems
        for name, rule in self._unknown(kind, record):
            if fields.parse_urn(record[name]) is not None:  # else it is reported already
                self._wrong(rule, f"{pointer}/{name}")

    def _unknown(self, kind: fields.Kind, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for name, other, rule in _ENDS[kind]:
            value = record.get(name)
            if type(value) is str and value not in self._seen[other]:
                yield name, rule

    def _chunk(self, pointer: str, good: dict[str, Any]) -> None:
        self._name("chunk", "entity", pointer, good)
        self._content(pointer, good)
        self._one_of(pointer, "memory_type", good, fields.MEMORY_TYPES, "invalid_memory_type")
        self._one_of(pointer, "zone", good, fields.ZONES, "invalid_zone")
        created = self._time(pointer, "created_at", good)
        for i, tag in enumerate(good.get("tags", ())):
            if self.is_full:
                break
            if type(tag) is not str or not 1 <= len(tag) <= fields.TAG:
                found = f"{len(tag)} code points" if type(tag) is str else kind_of(tag)
                self._wrong("invalid_tag", f"{pointer}/tags/{i}", "1 to 64 code points", found)
        if "embedding" in good:
            self._embedding(f"{pointer}/embedding", good["embedding"])
        if self._scope == "FULL":
            return
        dna = good.get("memory_type") in fields.DNA or good.get("is_pinned") is True
        older = created is not None and self._since is not None and created < self._since
        if (self._scope == "DNA_ONLY" and not dna) or (self._scope == "SINCE" and older):
            self._warn("scope_mismatch", pointer)

    def _content(self, pointer: str, good: dict[str, Any]) -> None:
        given = good.get("content_hash")
        well = given is None or _HASH.fullmatch(given) is not None
        if not well:
            expected = "sha256: and 64 digits of 0-9 and a-f"
            self._wrong("bad_hash_format", f"{pointer}/content_hash", expected)
        content = good.get("content")
        if content is None:
            return
        if not content:
            self._wrong("empty_content", f"{pointer}/content")
        elif len(content) > self._limits.content:
            most, size = f"at most {self._limits.content}", f"{len(content)} code points"
            self._wrong("content_too_long", f"{pointer}/content", most, size)
        elif well and given and given[7:] != sha256(content.encode()).hexdigest():
            self._wrong("hash_mismatch", f"{pointer}/content_hash")

    def _embedding(self, pointer: str, text: str) -> None:
        for name in sorted(self._undeclared):
            self._wrong("embedding_envelope_missing", f"/{name}", f"said, because of {pointer}")
        self._undeclared.clear()  # reported once, not once a chunk
        data = fields.decode(text) if len(text) <= 6 * self._limits.dimension + 8 else None
        if data is None:
            found = "NaN or infinity" if fields.is_endless(text) else None
            self._wrong("embedding_invalid", pointer, _FLOATS, found)
        elif self._dimension is not None and len(data) != 4 * self._dimension:
            floats = f"{self._dimension} floats"
            self._wrong("embedding_dim_mismatch", pointer, floats, str(len(data) // 4))

    def _entity(self, pointer: str, good: dict[str, Any]) -> None:
        self._name("entity", "chunk", pointer, good)
        if good.get("name") == "":
            self._wrong("empty_entity_name", f"{pointer}/name")
        self._one_of(pointer, "kind", good, fields.ENTITY_KINDS, "invalid_entity_kind", own=True)
        self._time(pointer, "created_at", good)

    def _edge(self, pointer: str, good: dict[str, Any]) -> None:
        self._one_of(pointer, "edge_type", good, fields.EDGE_TYPES, "invalid_edge_type", own=True)
        if "weight" in good and not 0 <= good["weight"] <= 1:
            self._wrong("edge_weight_out_of_range", f"{pointer}/weight", "0 to 1")
        self._time(pointer, "created_at", good)

    def _name(
        self, kind: fields.Kind, other: fields.Kind, pointer: str, good: dict[str, Any]
    ) -> None:
        """Check an identifier, and that it names one thing."""
        if "id" not in good:
            return
        found = fields.parse_urn(good["id"])
        if found is None:
            self._wrong("invalid_urn", f"{pointer}/id", _URN)
            return
        if found.producer != self._producer and self._producer:
            self._warn("foreign_producer", f"{pointer}/id")
        new = self._seen[kind].add(good["id"])
        if not new and (self._seen[kind].exact or len(self.doubtful) == MOST):
            self._wrong(f"duplicate_{kind}_id", f"{pointer}/id")
        elif not new:
            self.doubtful[kind, good["id"]] = False
        elif good["id"] in self._seen[other]:
            self._warn("shared_id", f"{pointer}/id")

    def twice(
        self, kind: fields.Kind, record: dict[str, Any], pointer: str, line: int | None
    ) -> None:
        """Look again at a record whose identifier may occur twice; call it in their order."""
        name = record.get("id")
        if type(name) is not str or (kind, name) not in self.doubtful:
            return
        if self.doubtful[kind, name]:
            self._line, self._found = line, self.problems
            self._wrong(f"duplicate_{kind}_id", f"{pointer}/id")
        self.doubtful[kind, name] = True

    # -- values ---------------------------------------------------------------------------------

    def _fields(self, pointer: str, shape: str, values: dict[str, Any]) -> dict[str, Any]:
        good = {}
        for name, row in _SHAPES.rows[shape].items():
            field = row.field
            value: Any = values.get(name)
            most = field.most if field.kind == "str" else None
            if type(value) in row.types and (most is None or len(value) <= most):
                good[name] = value
            elif value is not None or field.required or (name in values and not field.nullable):
                self._odd(f"{pointer}/{name}", field, value, name in values, good)
        return good

    def _odd(
        self, pointer: str, field: SchemaField, value: Any, there: bool, good: dict[str, Any]
    ) -> None:
        """Say what is wrong with a field; a float that is whole is an integer after all."""
        words, types = KINDS[field.kind]
        if not there:
            self._wrong(field.breach or "missing_field", pointer, field.says)
        elif type(value) in types:
            most, size = f"at most {field.most}", f"{len(value)} code points"
            self._wrong("too_long", pointer, most, size)
        elif field.kind == "int" and type(value) is float and value.is_integer():
            good[field.name] = int(value)  # canonical JSON makes no difference
        else:
            self._wrong(field.breach or "invalid_type", pointer, words, kind_of(value))

    def _one_of(
        self,
        pointer: str,
        name: str,
        good: dict[str, Any],
        allowed: tuple[str, ...],
        rule: str,
        *,
        own: bool = False,
    ) -> None:
        value = good.get(name)
        if value is None or value in allowed or (own and value[:2] == "x-" and len(value) > 2):
            return
        expected = ", ".join(allowed) + (" or x-..." if own else "")
        self._wrong(rule, f"{pointer}/{name}", expected)

    def _time(self, pointer: str, name: str, good: dict[str, Any]) -> times.Instant | None:
        text = good.get(name)
        found = None if text is None else fields.parse_time(text)
        if text is not None and found is None:
            self._wrong("invalid_timestamp", f"{pointer}/{name}", _TIME)
        return found

    def _wrong(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        says = RULES[rule].says
        self._found.add(Problem(rule, pointer, says, expected, found, self._line))

    def _warn(self, rule: str, pointer: str) -> None:
        self.warnings.add(Problem(rule, pointer, WARNINGS[rule], line=self._line))
