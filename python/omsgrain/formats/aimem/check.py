# SPDX-License-Identifier: Apache-2.0
"""Whether an envelope and its records are what the format asks for; all defects, each once.

Spec: AIMEM §2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from omsgrain.formats.aimem import embedding, times, urn
from omsgrain.formats.aimem.fields import (
    DNA,
    EDGE_TYPES,
    ENTITY_KINDS,
    ENVELOPE,
    FORMAT,
    LEGACY_FORMAT,
    MEMORY_TYPES,
    RECORDS,
    SCOPES,
    VERSION,
    ZONES,
    Field,
    Kind,
)
from omsgrain.formats.aimem.limits import LIMITS, TAG, Limits
from omsgrain.formats.aimem.rules import RULES, WARNINGS
from omsgrain.formats.problems import Problem, Problems

__all__ = ["Checker"]

_CHECKSUM = re.compile("sha256:[0-9a-fA-F]{64}")
_HASH = re.compile("sha256:[0-9a-f]{64}")
_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "str": ("a string", str),
    "bool": ("a bool", bool),
    "number": ("a number", (int, float)),
    "int": ("an integer", int),
    "array": ("an array", list),
}

_URN = "urn:aimem:<producer>:<local>"
_ENDS: dict[Kind, tuple[tuple[str, Kind, str], ...]] = {
    "edge": (
        ("source_id", "chunk", "edge_source_unknown"),
        ("target_id", "chunk", "edge_target_unknown"),
    ),
    "chunk_entity": (
        ("chunk_id", "chunk", "ce_chunk_unknown"),
        ("entity_id", "entity", "ce_entity_unknown"),
    ),
}
"""What edges and links name, and the rule that it is in the same bundle."""


class Checker:
    """Checks one bundle: its envelope first, then its records.

    Of what it saw it keeps only the hashes of identifiers, so a bundle can be of any length.

    Attributes:
        faults: what is wrong with the envelope.
        problems: what is wrong with the records.
        warnings: what is taken, and told.
        unresolved: how many edges and links came before both their ends.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.faults = Problems()
        self.problems = Problems()
        self.warnings = Problems()
        self.unresolved = 0
        self._limits = limits
        self._found = self.faults
        self._producer = self._model = ""
        self._dimension: int | None = None
        self._scope = ""
        self._since: times.Instant | None = None
        self._seen: dict[Kind, set[int]] = {"chunk": set(), "entity": set()}
        self._line: int | None = None

    # -- the envelope ---------------------------------------------------------------------------

    def envelope(self, envelope: dict[str, Any], line: int | None = None) -> None:
        """Check an envelope without its arrays."""
        self._line, self._found = line, self.faults
        good = self._fields("", ENVELOPE, envelope)
        format_ = good.get("format")
        if format_ == LEGACY_FORMAT:
            self._warn("legacy_format", "/format")
        elif isinstance(format_, str) and format_ != FORMAT:
            self._wrong("bad_format", "/format", f'"{FORMAT}"')
        if good.get("version", VERSION) != VERSION:
            self._wrong("unsupported_version", "/version", f'"{VERSION}"')
        self._producer = good.get("producer", "")
        if "producer" in good and not urn.is_producer(self._producer):
            self._wrong("invalid_producer", "/producer", "1 to 63 of a-z, 0-9 and -")
        if "tenant_id" in good and not urn.is_tenant(good["tenant_id"]):
            self._wrong("invalid_tenant", "/tenant_id", "a UUID or a URI")
        self._time("/exported_at", good.get("exported_at"))
        self._scope = good.get("scope", "")
        if "scope" in good and self._scope not in SCOPES:
            self._wrong("invalid_scope", "/scope", ", ".join(SCOPES))
        self._since = self._time("/since", good.get("since"))
        if self._scope == "SINCE" and envelope.get("since") is None:
            self._wrong("since_missing", "/since", "a time in UTC")
        if "checksum" in good and not _CHECKSUM.fullmatch(good["checksum"]):
            self._wrong("missing_checksum", "/checksum", "sha256: and 64 hex digits")
        self._dimension, self._model = good.get("embedding_dim"), good.get("embedding_model", "")
        if self._dimension is not None and not 1 <= self._dimension <= self._limits.dimension:
            most = f"1 to {self._limits.dimension}"
            self._wrong("invalid_type", "/embedding_dim", most, str(self._dimension))

    # -- records --------------------------------------------------------------------------------

    def record(
        self, kind: Kind, record: Any, pointer: str, line: int | None = None, *, ends: bool = True
    ) -> None:
        """Check one record.

        Args:
            kind: of what kind it is.
            record: what stands there.
            pointer: where.
            line: of the input, if it comes by lines.
            ends: whether all chunks and entities were seen, so that one that an edge or a link
                names and nobody knows is a defect; else it is counted in ``unresolved``.
        """
        self._line, self._found = line, self.problems
        if not isinstance(record, dict):
            self._wrong("invalid_type", pointer, "an object", _kind(record))
            return
        good = self._fields(pointer, RECORDS[kind], record)
        if kind == "chunk":
            self._chunk(pointer, good)
        elif kind == "entity":
            self._entity(pointer, good)
        elif kind == "edge":
            self._edge(pointer, good)
        for name, _, _ in _ENDS.get(kind, ()):
            if name in good and urn.parse(good[name]) is None:
                self._wrong("invalid_urn", f"{pointer}/{name}", _URN)
        if ends:
            self.ends(kind, good, pointer, line)
        else:
            self.unresolved += sum(1 for _ in self._unknown(kind, good))

    def ends(
        self, kind: Kind, record: dict[str, Any], pointer: str, line: int | None = None
    ) -> None:
        """Check that an edge or a link names what is in the bundle."""
        self._line, self._found = line, self.problems
        for name, rule in self._unknown(kind, record):
            self._wrong(rule, f"{pointer}/{name}")

    def _unknown(self, kind: Kind, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for name, other, rule in _ENDS.get(kind, ()):
            value = record.get(name)
            if not isinstance(value, str) or urn.parse(value) is None:
                continue  # told already
            if hash(value) not in self._seen[other]:
                yield name, rule

    def _chunk(self, pointer: str, good: dict[str, Any]) -> None:
        self._name(pointer, "id", good)
        if "id" in good and not self._first("chunk", good["id"]):
            self._wrong("duplicate_chunk_id", f"{pointer}/id")
        content = good.get("content")
        if content == "":
            self._wrong("empty_content", f"{pointer}/content")
        elif content is not None and len(content) > self._limits.content:
            most = f"at most {self._limits.content} code points"
            self._wrong("content_too_long", f"{pointer}/content", most, str(len(content)))
        elif content is not None and "content_hash" in good:
            self._hash(f"{pointer}/content_hash", good["content_hash"], content)
        self._one_of(pointer, "memory_type", good, MEMORY_TYPES, "invalid_memory_type")
        self._one_of(pointer, "zone", good, ZONES, "invalid_zone")
        created = self._time(f"{pointer}/created_at", good.get("created_at"))
        for i, tag in enumerate(good.get("tags", ())):
            if not isinstance(tag, str) or not 1 <= len(tag) <= TAG:
                found = f"{len(tag)} code points" if isinstance(tag, str) else _kind(tag)
                self._wrong("invalid_tag", f"{pointer}/tags/{i}", "1 to 64 code points", found)
        if "embedding" in good:
            self._embedding(f"{pointer}/embedding", good["embedding"])
        dna = good.get("memory_type") in DNA or good.get("is_pinned") is True
        older = created is not None and self._since is not None and created < self._since
        if (self._scope == "DNA_ONLY" and not dna) or (self._scope == "SINCE" and older):
            self._warn("scope_mismatch", pointer)

    def _entity(self, pointer: str, good: dict[str, Any]) -> None:
        self._name(pointer, "id", good)
        self._first("entity", good.get("id", ""))
        if good.get("name") == "":
            self._wrong("empty_entity_name", f"{pointer}/name")
        self._one_of(pointer, "kind", good, ENTITY_KINDS, "invalid_entity_kind", own=True)
        self._time(f"{pointer}/created_at", good.get("created_at"))

    def _edge(self, pointer: str, good: dict[str, Any]) -> None:
        self._one_of(pointer, "edge_type", good, EDGE_TYPES, "invalid_edge_type", own=True)
        if "weight" in good and not 0 <= good["weight"] <= 1:
            self._wrong("edge_weight_out_of_range", f"{pointer}/weight", "0 to 1")
        self._time(f"{pointer}/created_at", good.get("created_at"))

    # -- one value ------------------------------------------------------------------------------

    def _fields(
        self, pointer: str, table: tuple[Field, ...], values: dict[str, Any]
    ) -> dict[str, Any]:
        """The known fields that are there and of the right type; the others are told."""
        good = {}
        for field in table:
            value = values.get(field.name)
            here = f"{pointer}/{field.name}"
            words, types = _TYPES[field.kind]
            if value is None and (field.name not in values or field.nullable):
                if field.required:
                    self._wrong(field.breach or "missing_field", here, field.says)
            elif not isinstance(value, types) or (
                field.kind != "bool" and isinstance(value, bool)
            ):
                self._wrong(field.breach or "invalid_type", here, words, _kind(value))
            else:
                good[field.name] = value
        return good

    def _name(self, pointer: str, name: str, good: dict[str, Any]) -> None:
        if name not in good:
            return
        found = urn.parse(good[name])
        if found is None:
            self._wrong("invalid_urn", f"{pointer}/{name}", _URN)
        elif found.producer != self._producer:
            self._warn("foreign_producer", f"{pointer}/{name}")

    def _first(self, kind: Kind, name: str) -> bool:
        # Python's hash is keyed, so nobody can make two that are one.
        seen, mark = self._seen[kind], hash(name)
        if mark in seen:
            return False
        seen.add(mark)
        return True

    def _hash(self, pointer: str, given: str, content: str) -> None:
        if not _HASH.fullmatch(given):
            self._wrong("bad_hash_format", pointer, "sha256: and 64 digits of 0-9 and a-f")
        elif given != f"sha256:{sha256(content.encode()).hexdigest()}":
            self._wrong("hash_mismatch", pointer)

    def _embedding(self, pointer: str, text: str) -> None:
        if self._dimension is None or not self._model:
            self._wrong("embedding_envelope_missing", pointer, "embedding_dim and embedding_model")
            return
        data = embedding.decode(text) if len(text) <= 6 * self._limits.dimension else None
        if data is None:
            self._wrong("embedding_invalid", pointer, "base64 of finite float32")
        elif len(data) != 4 * self._dimension:
            floats = f"{self._dimension} floats"
            self._wrong("embedding_dim_mismatch", pointer, floats, str(len(data) // 4))

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

    def _time(self, pointer: str, text: str | None) -> times.Instant | None:
        if text is None:
            return None
        found = times.parse(text)
        if found is None:
            self._wrong("invalid_timestamp", pointer, "such as 2026-01-15T10:00:00Z")
        return found

    def _wrong(
        self, rule: str, pointer: str, expected: str | None = None, found: str | None = None
    ) -> None:
        says = RULES[rule].says
        self._found.add(Problem(rule, pointer, says, expected, found, self._line))

    def _warn(self, rule: str, pointer: str) -> None:
        self.warnings.add(Problem(rule, pointer, WARNINGS[rule].says, line=self._line))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    for words, types in _TYPES.values():
        if isinstance(value, types) and (words == "a bool" or not isinstance(value, bool)):
            return words
    return "an object"
