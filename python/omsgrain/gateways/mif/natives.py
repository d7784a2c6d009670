# SPDX-License-Identifier: Apache-2.0
"""The user's grains that no index finds by their text, since they never were records of MIF.

They are read once an import, by pages; what is kept of them is what the document asks for. One
that is put while the import goes on is not seen, as if it came behind it: whoever puts a grain is
not asked whether a record has its text. Whether one that was seen counts still is asked again.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from typing import TYPE_CHECKING

from omsgrain.formats.across.native import said_by_type
from omsgrain.formats.aimem.native import text_of
from omsgrain.formats.source import Source
from omsgrain.gateways.memory import Memory, Page
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = ["hash_of", "natives"]

_BESIDE = "omsgrain:"


def natives(
    store: GrainStore, user_id: str, hashes: Collection[str], format: str
) -> dict[str, str]:
    """Find the current grains of a user that have one of some texts, by the hash of that.

    Args:
        store: where.
        user_id: whose they are.
        hashes: SHA-256 of texts, in hex.
        format: in which they are told.

    Returns:
        Of each hash the address of one grain, the first.

    Raises:
        KeyMissingError: there are sealed grains of which nobody here knows whose they are.
    """
    found: dict[str, str] = {}
    if not hashes:
        return found

    def look(page: Page, seq: int, grain: Grain) -> None:
        hash_ = hash_of(grain, format, user_id)
        if hash_ in hashes and hash_ is not None:
            found.setdefault(hash_, grain.address)

    memory = Memory(store, user_id)
    for _ in memory.each(memory.seqs, look, strict=False):
        pass
    return found


def hash_of(grain: Grain, format: str, owner: str) -> str | None:
    """SHA-256 of the text of a grain that no index finds by it, in hex; None if it has none.

    Args:
        grain: any.
        format: in which it is told.
        owner: in whose memory.
    """
    text = _said(grain, format, owner)
    return None if text is None else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _said(grain: Grain, format: str, owner: str) -> str | None:
    source = Source.of(grain)
    if source is not None and (source.hash is not None or source.format.startswith("mif")):
        return None
    if grain.type == "state":
        context = grain.get("context")
        kind = context.get("kind") if isinstance(context, dict) else None
        if isinstance(kind, str) and kind.startswith(_BESIDE):
            return None
    return text_of(grain, owner, said_by_type(format))[0] or None
