# SPDX-License-Identifier: Apache-2.0
"""What stories of several requests are made of.

What was taken is looked for in an export, so that a server is judged by what it keeps and not by
what it says alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.faults import Basis
from omsgrain.conformance.http.probe import Mismatch, Probe, as_kind, must
from omsgrain.conformance.http.sample import bundle, chunk
from omsgrain.formats.aimem.fields import ARRAYS

Document = dict[str, Any]


class Flow(NamedTuple):
    """A story: its name, the section of the draft, who asks for it, and how it goes."""

    name: str
    section: str
    basis: Basis
    run: Callable[[Probe], None]


class Gathering:
    """A list of stories, and the decorator that adds one, by its name, section and basis."""

    def __init__(self) -> None:
        self.flows: list[Flow] = []

    def __call__(
        self, name: str, section: str, basis: Basis = "draft"
    ) -> Callable[[Callable[[Probe], None]], Callable[[Probe], None]]:
        """Add one."""

        def take(run: Callable[[Probe], None]) -> Callable[[Probe], None]:
            self.flows.append(Flow(name, section, basis, run))
            return run

        return take


def one_chunk(probe: Probe, **more: Any) -> Document:
    """A fresh bundle of one chunk."""
    base: Document = {name: [] for name in ARRAYS} | {
        "chunks": [chunk("c1", "The lamp is on.", **more)]
    }
    return probe.fresh(bundle() | base)


def with_content(document: Document, content: str, **more: Any) -> Document:
    """The same chunk with another content."""
    new = chunk("c1", content) | more
    return edited(
        document,
        {"/chunks/0/content": new["content"], "/chunks/0/content_hash": new["content_hash"]}
        | {f"/chunks/0/{name}": value for name, value in more.items()},
    )


def kept_of(probe: Probe, document: Document, **query: str) -> dict[str, Document]:
    """The chunks of this document that the server has, by their ids."""
    ids = {one["id"] for one in document["chunks"]}
    found = {one["id"]: one for one in chunks_of(probe.exported(**query)) if one["id"] in ids}
    if found:
        return found
    # A server that keeps producers apart may have to be asked for this one.
    try:
        whole = probe.exported(**query, producer=document["producer"])
    except Mismatch:
        return {}
    return {one["id"]: one for one in chunks_of(whole) if one["id"] in ids}


def chunks_of(document: Document) -> list[Document]:
    """The chunks of a document that have an id."""
    chunks = document.get("chunks", [])
    must(isinstance(chunks, list), "an array of chunks", as_kind(chunks))
    return [one for one in chunks if isinstance(one, dict) and isinstance(one.get("id"), str)]


def content_of(probe: Probe, document: Document) -> str:
    """What the server has as the content of the one chunk of a document."""
    kept = kept_of(probe, document)
    must(len(kept) == 1, "the chunk in an export", f"{len(kept)} of it")
    return str(next(iter(kept.values())).get("content"))
