# SPDX-License-Identifier: Apache-2.0
"""A bundle that holds a bit of everything, and what ``rules/aimem.json`` changes in it.

Each fault breaks one rule at one place. Where the draft forbids something, the status is the
draft's. Where it is silent, the basis is a ``recommendation`` of ours, which other servers need
not follow.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

from omsgrain.conformance.edits import edited, value_of
from omsgrain.conformance.rule import documents, table
from omsgrain.formats.aimem import checksum

PRODUCER: Final = "probe"
TENANT: Final = "11111111-1111-4111-8111-111111111111"

Document = dict[str, Any]
Basis = Literal["draft", "recommendation"]


@dataclass(frozen=True, slots=True)
class Good:
    """One change after which a bundle is as good as before.

    Attributes:
        name: in short.
        section: of the draft.
        basis: the draft, or a recommendation.
        change: what is set and removed.
        warning: the rule that a reader warns of.
    """

    name: str
    section: str
    basis: Basis
    change: Mapping[str, Any]
    warning: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One change that makes a bundle bad.

    Attributes:
        name: in short.
        section: of the draft.
        basis: the draft, or a recommendation.
        change: what is set and removed.
        rule: our id of the rule.
        pointer: where the defect is.
        status: of the answer.
    """

    name: str
    section: str
    basis: Basis
    change: Mapping[str, Any]
    rule: str
    pointer: str
    status: int


@dataclass(frozen=True, slots=True)
class TextFault:
    """One change of the text, which is no bundle then."""

    name: str
    section: str
    basis: Basis
    old: str
    new: str
    rule: str


def _basis(row: Mapping[str, Any]) -> Basis:
    return "recommendation" if row.get("basis") == "recommendation" else "draft"


GOODS: Final = tuple(
    Good(row["name"], row["section"], _basis(row), row, row.get("warns"))
    for row in table("aimem")["accepted"]
)
FAULTS: Final = tuple(
    Fault(
        row["name"],
        row["section"],
        _basis(row),
        row,
        row["rule"],
        row["at"],
        row.get("status", 422),
    )
    for row in table("aimem")["refused"]
)
TEXTS: Final = tuple(
    TextFault(
        row["name"],
        row["section"],
        _basis(row),
        row["old"],
        "".join(map(value_of, row["new"])),
        row["rule"],
    )
    for row in table("aimem")["texts"]
)


def sample() -> Document:
    """A good bundle."""
    whole: Document = copy.deepcopy(documents("aimem")["sample"])
    return whole


def chunk(local: str, content: str, **more: Any) -> Document:
    """A chunk with what must be there, and its hash."""
    return {
        "id": f"urn:aimem:{PRODUCER}:{local}",
        "content": content,
        "content_hash": f"sha256:{sha256(content.encode()).hexdigest()}",
        "memory_type": "fact",
        "created_at": "2026-04-01T09:30:00Z",
        **more,
    }


def one_chunk(**more: Any) -> Document:
    """A bundle of one chunk."""
    whole: Document = documents("aimem")["one chunk"]
    return whole | {"chunks": [chunk("c1", "The lamp is on.", **more)]}


def renamed(document: Document, producer: str) -> Document:
    """The same of another producer, so that a server has seen none of it."""
    text = json.dumps(document).replace(f"urn:aimem:{PRODUCER}:", f"urn:aimem:{producer}:")
    whole: Document = json.loads(text)
    return {**whole, "producer": producer} if whole.get("producer") == PRODUCER else whole


def sealed(document: Document) -> Document:
    """The same with its checksum."""
    return document | {"checksum": checksum.of_document(spelled(document))}


def changed(change: Mapping[str, Any]) -> Document:
    """The sample with a change, and with its checksum."""
    return resealed(edited(sample(), change), change)


def resealed(document: Document, change: Mapping[str, Any]) -> Document:
    """The changed document with its checksum, unless the change is about that."""
    places = [*change.get("set", {}), *change.get("remove", ())]
    return document if "/checksum" in places else sealed(document)


def spelled(document: Any) -> bytes:
    """As JSON."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")
