# SPDX-License-Identifier: Apache-2.0
"""The fields of an envelope and of its records: one table for checks, documents and tests.

Spec: AIMEM §2.1 to §2.7
"""

from __future__ import annotations

import binascii
import math
import re
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from omsgrain.formats import times
from omsgrain.formats.json_text import JsonLimits
from omsgrain.formats.schema import SchemaField, needed, nullable
from omsgrain.formats.times import is_uuid

PRODUCER = 63
"""Characters of a producer namespace. Spec: AIMEM §2.3"""
LOCAL = 256
"""Characters of an identifier behind its producer. Spec: AIMEM §2.3"""
TAG = 64
"""Code points of a tag. Spec: AIMEM §2.2"""
NAME = 2_048
"""Code points of the id of a tenant, a model, a type of edge, a kind of entity. Ours."""
TEXT = 65_536
"""Code points of a content, which the draft asks for; of an entity's name, which is ours."""


@dataclass(frozen=True, slots=True)
class AimemLimits(JsonLimits):
    """The limits of a reader of bundles."""

    document: int = 64 << 20  # bytes of a bundle in one JSON document; a larger one comes by lines
    depth: int = 64
    line: int = 8 << 20  # bytes of a line of NDJSON
    content: int = TEXT  # code points of a chunk's content. Spec: AIMEM §2.2
    dimension: int = 65_536  # floats of an embedding


LIMITS = AimemLimits()


Kind: TypeAlias = Literal["chunk", "edge", "entity", "chunk_entity"]
Scope: TypeAlias = Literal["FULL", "DNA_ONLY", "SINCE"]

FORMAT: Final = "aimem-bundle"
LEGACY_FORMAT: Final = "memoryai-bundle"
"""Read, never written."""
VERSION: Final = "1"
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
DNA: Final = ("preference", "decision", "identity", "pitfall", "procedure")
"""Memory that is never silently decayed, deleted or superseded. Spec: AIMEM §1.2, §5.1"""
MEMORY_TYPES: Final = ("fact", *DNA, "episodic", "goal")
ZONES: Final = ("critical", "important", "standard")
EDGE_TYPES: Final = ("hebbian", "semantic", "temporal", "causal")
ENTITY_KINDS: Final = ("person", "organization", "place", "technology", "concept")

ARRAYS: Final[dict[str, Kind]] = {
    "chunks": "chunk",
    "edges": "edge",
    "entities": "entity",
    "chunk_entities": "chunk_entity",
}
"""The arrays of a bundle, in the order in which they are read and written by lines."""


_ID = "urn:aimem:<producer>:<local>"
_EDGE_FIELDS = "hebbian, semantic, temporal, causal or x-..."
_ENTITY_FIELDS = "person, organization, place, technology, concept or x-..."

ENVELOPE: Final = (
    needed("format", "str", f"`{FORMAT}`; `{LEGACY_FORMAT}` is read", breach="bad_format"),
    needed("version", "str", f"`{VERSION}`", breach="unsupported_version"),
    needed("producer", "str", "a producer namespace: 1 to 63 of a-z, 0-9, -"),
    needed("tenant_id", "str", "a UUID or a URI", most=NAME),
    needed("exported_at", "str", "a time in UTC"),
    needed("scope", "str", "FULL, DNA_ONLY or SINCE"),
    nullable("since", "str", "a time in UTC; with the scope SINCE"),
    nullable("embedding_dim", "int", "floats of an embedding"),
    nullable("embedding_model", "str", "the model of the embeddings", most=NAME),
    needed("checksum", "str", "sha256 of the canonical bundle", breach="missing_checksum"),
)

_CREATED: Final = needed("created_at", "str", "a time in UTC", form="utc")

RECORDS: Final[dict[Kind, tuple[SchemaField, ...]]] = {
    "chunk": (
        needed("id", "str", _ID),
        needed("content", "str", "1 to 65,536 code points", least=1),
        nullable("content_hash", "str", "sha256 of the content", breach="bad_hash_format"),
        needed("memory_type", "str", "the memory type", known=MEMORY_TYPES),
        nullable("zone", "str", "critical, important or standard", known=ZONES),
        nullable("is_pinned", "bool", "protected like memory of the DNA class"),
        _CREATED,
        nullable("tags", "array", "strings of 1 to 64 code points", "str", least=1, most=TAG),
        nullable("embedding", "str", "float32, little-endian, in base64", form="embedding"),
    ),
    "edge": (
        needed("source_id", "str", _ID),
        needed("target_id", "str", _ID),
        needed("edge_type", "str", _EDGE_FIELDS, known=EDGE_TYPES, most=NAME),
        needed("weight", "number", "0 to 1", least=0, most=1),
        _CREATED,
    ),
    "entity": (
        needed("id", "str", _ID),
        needed("name", "str", "its name", least=1, most=TEXT),
        needed("kind", "str", _ENTITY_FIELDS, known=ENTITY_KINDS, most=NAME),
        _CREATED,
    ),
    "chunk_entity": (needed("chunk_id", "str", _ID), needed("entity_id", "str", _ID)),
}
"""The fields of each kind of record."""


_LEAST: Final = 1 << 8


class DocumentTexts:
    """The identifiers of a document, whose texts are in memory anyway."""

    exact = True  # two are the same only if their texts are

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> bool:
        """Take one; whether it is new."""
        before = len(self._names)
        self._names.add(name)
        return len(self._names) > before


class Hashed:
    """The identifiers of a bundle by lines: 64 bits of each, in a table of 12 to 24 bytes.

    Python keys its hash differently in each process, so no one can construct a collision; among a
    million, two collide in one of thirty million bundles. The caller compares the texts of an
    identifier that is not new.
    """

    exact = False

    def __init__(self) -> None:
        self._slots = array("q", bytes(8 * _LEAST))  # 0: free
        self._count = 0

    def __contains__(self, name: str) -> bool:
        return self._slots[self._place(hash(name) or 1)] != 0

    def add(self, name: str) -> bool:
        """Take one; whether it is new."""
        mark = hash(name) or 1
        place = self._place(mark)
        if self._slots[place]:
            return False
        self._slots[place] = mark
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    def _place(self, mark: int) -> int:
        """The slot of a number, or the slot that it would get."""
        slots, last = self._slots, len(self._slots) - 1
        place = mark & last
        while slots[place] and slots[place] != mark:
            place = (place + 1) & last
        return place

    def _grow(self) -> None:
        before, self._slots = self._slots, array("q", bytes(16 * len(self._slots)))
        for mark in before:
            if mark:
                self._slots[self._place(mark)] = mark


_UTC = re.compile(r"(?:[Zz]|[+-]00(?::?00)?)\Z")


def parse_time(text: str) -> times.Instant | None:
    """Read a time; None if it is none, or not in UTC."""
    utc = text.endswith(("Z", "z")) or _UTC.search(text) is not None
    return times.parse(text) if utc and " " not in text else None


_PRODUCER = f"[a-z0-9-]{{1,{PRODUCER}}}"
_LOCAL_PART = f"[\\x21-\\x39\\x3b-\\x7e]{{1,{LOCAL}}}"  # printable, but for the colon
_URN = re.compile(f"urn:aimem:({_PRODUCER}):({_LOCAL_PART})")
_NAMESPACE = re.compile(_PRODUCER)
# RFC 3986, as far as it can be said without the scheme: an absolute URI.
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
)


class Urn(NamedTuple):
    """An identifier: who gave it, and what it is there. The local part means nothing here."""

    producer: str
    local: str


def parse_urn(text: str) -> Urn | None:
    # fullmatch: `$` would let a line end pass.
    found = _URN.fullmatch(text)
    return None if found is None else Urn(found[1], found[2])


def of_producer(producer: str) -> Callable[[str], object]:
    """Tells whether a text is an identifier of one producer; of any, if it is empty."""
    return re.compile(
        f"urn:aimem:{producer}:{_LOCAL_PART}" if producer else _URN.pattern
    ).fullmatch


def urn(producer: str, local: str) -> str:
    return f"urn:aimem:{producer}:{local}"


def is_producer(text: str) -> bool:
    return _NAMESPACE.fullmatch(text) is not None


def is_tenant(text: str) -> bool:
    """Whether this can name a tenant: a UUID, or a URI, such as a DID."""
    return is_uuid(text) or _URI.fullmatch(text) is not None


def decode(text: str) -> bytes | None:
    """The bytes of an embedding; None if it is none: junk, no whole floats, NaN or infinity."""
    data = _bytes(text)
    return data if data is not None and _is_finite(data) else None


def is_endless(text: str) -> bool:
    """Whether it would be an embedding, were there not NaN or infinity in it."""
    data = _bytes(text)
    return data is not None and not _is_finite(data)


def _bytes(text: str) -> bytes | None:
    if len(text) % 4 or not text.isascii():
        return None
    try:
        data = binascii.a2b_base64(text)
    except binascii.Error:
        return None
    # One spelling only, so that what is written again is what was read.
    return None if len(data) % 4 or encode(data) != text else data


def is_zero(data: bytes) -> bool:
    """Whether all floats of an embedding are zero: it points nowhere."""
    return not any(_floats(data))


def _is_finite(data: bytes) -> bool:
    # No sum of float32 overflows a double; NaN and infinity come through it.
    return math.isfinite(sum(_floats(data)))


def _floats(data: bytes) -> array[float]:
    floats = array("f", data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def encode(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
