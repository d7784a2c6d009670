# SPDX-License-Identifier: Apache-2.0
"""The checksum of a document: ours, and that of the reference implementation. Spec: MIF 2.0 §1."""

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

_META: Final = "export_meta"
_COUNTED: Final = ("memories", "todos", "projects", "reminders")


def of_document(document: Mapping[str, Any]) -> str:
    """The checksum that omsgrain writes, whatever the document says of itself.

    Raises:
        OmsError: what was given has no canonical form.
    """
    return checksums.of_document(document, _META)


def of_counts(document: Mapping[str, Any]) -> str:
    """The checksum that the reference implementation writes: of how many records there are."""
    arrays = [document.get(name) for name in _COUNTED]
    counts = (len(array) if isinstance(array, list) else 0 for array in arrays)
    return checksums.of_bytes(":".join(map(str, counts)).encode("ascii"))


def verify_checksum(document: Mapping[str, Any]) -> Verdict | None:
    """Say what the checksum of a document was made of; None if it has none.

    Args:
        document: what was read of it.
    """
    return checksums.verified(document, _META, lambda found: (of_counts(found),))


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of our own, with its checksum made anew, at the end of ``export_meta``."""
    return checksums.sealed(document, _META)


def own(document: Mapping[str, Any]) -> bool:
    """Whether a document says that its checksum is made as ours is."""
    return checksums.own(document, _META)


def current(document: dict[str, Any]) -> dict[str, Any]:
    """A document as it is written again: a checksum of our own is that of what it says now."""
    return checksums.current(document, _META)
