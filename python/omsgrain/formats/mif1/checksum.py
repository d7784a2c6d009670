# SPDX-License-Identifier: Apache-2.0
"""The checksum of a document: ours, and that of the reference implementation. Spec: MIF 1.0 §2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats import checksums
from omsgrain.formats.checksums import Verdict

__all__ = [
    "Verdict",
    "current",
    "of_counts",
    "of_document",
    "own",
    "sealed",
    "verify_checksum",
]

_EXPORT: Final = "export"


def of_document(document: Mapping[str, Any]) -> str:
    """The checksum that omsgrain writes, whatever the document says of itself.

    Raises:
        OmsError: what was given has no canonical form.
    """
    return checksums.of_document(document, _EXPORT)


def of_counts(document: Mapping[str, Any]) -> frozenset[str]:
    """The checksums that the reference implementation may write.

    They are made of the number of memories, that of todos and the time of the export, which it
    spells with Z in one place and with +00:00 in the other.
    """
    export = document.get(_EXPORT)
    time = export.get("created_at") if isinstance(export, dict) else None
    if not isinstance(time, str):
        return frozenset()
    arrays = (document.get("memories"), document.get("todos"))
    counts = "".join(str(len(array) if isinstance(array, list) else 0) for array in arrays)
    bare = time.removesuffix("Z").removesuffix("+00:00")
    spelled = (time, bare + "Z", bare + "+00:00")
    return frozenset(checksums.of_bytes((counts + one).encode()) for one in spelled)


def verify_checksum(document: Mapping[str, Any]) -> Verdict | None:
    """Say what the checksum of a document was made of; None if it has none.

    Args:
        document: what was read of it.
    """
    return checksums.verified(document, _EXPORT, of_counts)


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of our own, with its checksum made anew, at the end of ``export``."""
    return checksums.sealed(document, _EXPORT)


def own(document: Mapping[str, Any]) -> bool:
    """Whether a document says that its checksum is made as ours is."""
    return checksums.own(document, _EXPORT)


def current(document: dict[str, Any]) -> dict[str, Any]:
    """A document as it is written again: a checksum of our own is that of what it says now."""
    return checksums.current(document, _EXPORT)
