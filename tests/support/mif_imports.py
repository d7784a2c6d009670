# SPDX-License-Identifier: Apache-2.0
"""Small MIF documents of either version to be imported, and what a store holds of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import omsgrain as og
from omsgrain import formats
from omsgrain.crypto.keyring import KeyRing
from omsgrain.formats import Import
from omsgrain.formats.document import KIND
from omsgrain.formats.source import NAMES, Source
from omsgrain.interchange.mif_import import import_document
from omsgrain.interchange.outcome import MifReport
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings
from support.origins import find_origins

USER = "ada"
TIME = "2026-03-04T05:06:07.080Z"
NOW = 1_780_000_000_000


def uuid(number: int) -> str:
    return str(UUID(int=(0xABCD << 112) | number))


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes documents of one version."""

    format: str

    def id(self, number: int, kind: str = "memory") -> str:
        """An id as records of a kind have one."""
        if self.format == "mif2":
            return uuid(number)
        return f"{'mem' if kind == 'memory' else kind}_{uuid(number)}"

    def memory(self, number: int, content: str, **fields: Any) -> dict[str, Any]:
        kind = {"memory_type": "observation"} if self.format == "mif2" else {"type": "Observation"}
        base = {"id": self.id(number), "content": content, "created_at": TIME}
        return {**base, **kind, **fields}

    def todo(self, number: int, content: str, **fields: Any) -> dict[str, Any]:
        base = {"id": self.id(number, "todo"), "content": content, "status": "todo"}
        more = {"priority": "high", "created_at": TIME, "updated_at": TIME}
        return {**base, **more, **fields}

    def document(self, *memories: dict[str, Any], **members: Any) -> dict[str, Any]:
        meta = {"id": "exp_a1b2", "created_at": TIME, "user_id": USER}
        if self.format == "mif2":
            head: dict[str, Any] = {"mif_version": "2.0", "export_meta": meta}
        else:
            head = {"mif_version": "1.0", "export": meta}
        return {**head, "memories": list(memories), **members}

    def load(self, document: dict[str, Any], **options: Any) -> Import:
        data = json.dumps(document).encode("utf-8")
        if self.format == "mif2":
            from omsgrain.formats.mif2.format import MIF2

            return MIF2.load(data, **options)
        from omsgrain.formats.mif1.format import MIF1

        return MIF1.load(data, **options)

    def dump(self, grains: list[og.Grain], **options: Any) -> dict[str, Any]:
        data = formats.dump(grains, format=self.format, **options).data
        found: dict[str, Any] = json.loads(data)
        return found

    def take(self, store: og.GrainStore, *memories: dict[str, Any], **more: Any) -> MifReport:
        """Import a document; what is no member of it is an option of the import."""
        names = (
            "todos", "projects", "reminders", "knowledge_graph", "vendor_extensions", "graph",
            "consent",
        )  # fmt: skip
        members = {name: more.pop(name) for name in names if name in more}
        return import_document(store, self.load(self.document(*memories, **members)), **more)


MAKERS = [Maker("mif2"), Maker("mif1")]


@contextmanager
def opened(ring: KeyRing | None = None, now: int = NOW) -> Iterator[og.GrainStore]:
    """An empty store with a stopped clock."""
    with og.GrainStore(MemoryStorage(), Settings(keys=ring, clock=lambda: now)) as store:
        yield store


def fates(report: MifReport) -> list[str]:
    """Return the outcome of each record, in the order of the document."""
    return [one.fate for one in report.records]


def kept_documents(store: og.GrainStore, user_id: str = USER) -> dict[str, str]:
    """The formats of a user's kept documents, by id."""
    found = [
        Source.of(grain)
        for name in NAMES
        for grain in store.iter_query(
            user_id=user_id, type="state", namespace=name, bookkeeping=True
        )
    ]
    return {source.id: source.format for source in found if source and source.kind == KIND}


def contents(store: og.GrainStore, user_id: str = USER) -> list[str]:
    """The texts of all current memories of a user, sorted."""
    found = []
    for grain in store:
        state = store.status(grain.address)
        if state.successors or state.restricted or state.verification_status == "retracted":
            continue
        if grain.get("user_id") == user_id and grain.type == "observation":
            found.append(str(grain["object"]))
    return sorted(found)


def current(store: og.GrainStore, name: str, user_id: str = USER) -> og.Grain:
    """The one current grain of a record that is no duplicate."""
    found = find_origins(store, [name], user_id=user_id).get(name, [])
    (one,) = [one for one in found if one.current and one.grain.type != "state"]
    return one.grain
