# SPDX-License-Identifier: Apache-2.0
"""The checksum of a document, which the format names and nowhere says what it is made of.

So one that was read is kept as it is and never refused. Ours is SHA-256 of the canonical text of
the document without it. That of the reference implementation is made of four counts alone.
Spec: MIF 2.0 §1, RFC 8785
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Literal

from omsgrain.formats.texts import digest

__all__ = ["MEMBER", "Verdict", "of_counts", "of_document", "verify_checksum"]

Verdict = Literal["matched-jcs", "matched-shodh-counts", "unknown"]

MEMBER: Final = "checksum"
_META: Final = "export_meta"
_COUNTED: Final = ("memories", "todos", "projects", "reminders")


def of_document(document: Mapping[str, Any]) -> str:
    """The checksum that omsgrain writes, whatever the document says of itself."""
    whole = dict(document)
    meta = whole.get(_META)
    if isinstance(meta, dict):
        whole[_META] = {name: value for name, value in meta.items() if name != MEMBER}
    return f"sha256:{digest(whole)}"


def of_counts(document: Mapping[str, Any]) -> str:
    """The checksum that the reference implementation writes: of how many records there are."""
    arrays = [document.get(name) for name in _COUNTED]
    counts = (len(array) if isinstance(array, list) else 0 for array in arrays)
    return _spell(":".join(map(str, counts)).encode("ascii"))


def verify_checksum(document: Mapping[str, Any]) -> Verdict | None:
    """Say what the checksum of a document was made of.

    Args:
        document: what was read of it.

    Returns:
        ``matched-jcs``: of all that it says. ``matched-shodh-counts``: of how many records it has,
        which says nothing about what is in them. ``unknown``: of something else, or of another
        document. None: it has none.
    """
    meta = document.get(_META)
    given = meta.get(MEMBER) if isinstance(meta, dict) else None
    if not isinstance(given, str) or not given:
        return None
    given = given.lower()
    if given == of_document(document):
        return "matched-jcs"
    return "matched-shodh-counts" if given == of_counts(document) else "unknown"


def _spell(text: bytes) -> str:
    return f"sha256:{sha256(text).hexdigest()}"
