# SPDX-License-Identifier: Apache-2.0
"""The checksum of a document, which the format names and nowhere says what it is made of.

So one that was read is kept as it is and never refused. Ours is SHA-256 of the canonical text of
the document without it. That of the reference implementation is made of two counts and a time.
Spec: MIF 1.0 §2, RFC 8785
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Literal

from omsgrain.errors import OmsError
from omsgrain.formats.texts import digest

__all__ = ["MEMBER", "Verdict", "of_counts", "of_document", "sealed", "verify_checksum"]

Verdict = Literal["matched-jcs", "matched-shodh-counts", "unknown"]

MEMBER: Final = "checksum"
_EXPORT: Final = "export"


def of_document(document: Mapping[str, Any]) -> str:
    """The checksum that omsgrain writes, whatever the document says of itself.

    Raises:
        OmsError: what was given has no canonical form.
    """
    whole = dict(document)
    export = whole.get(_EXPORT)
    if isinstance(export, dict):
        whole[_EXPORT] = {name: value for name, value in export.items() if name != MEMBER}
    return f"sha256:{digest(whole)}"


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
    return frozenset(
        _spell((counts + one).encode()) for one in (time, bare + "Z", bare + "+00:00")
    )


def verify_checksum(document: Mapping[str, Any]) -> Verdict | None:
    """Say what the checksum of a document was made of.

    Args:
        document: what was read of it.

    Returns:
        ``matched-jcs``: of all that it says. ``matched-shodh-counts``: of how many records it has
        and when it was made, which says nothing about what is in them. ``unknown``: of something
        else, or of another document. None: it has none.
    """
    export = document.get(_EXPORT)
    given = export.get(MEMBER) if isinstance(export, dict) else None
    if not isinstance(given, str) or not given:
        return None
    given = given.lower()
    if given in of_counts(document):
        return "matched-shodh-counts"
    try:
        return "matched-jcs" if given == of_document(document) else "unknown"
    except OmsError:
        return "unknown"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of our own, with its checksum made anew, at the end of ``export``."""
    found = document.get(_EXPORT)
    export = {k: v for k, v in (found or {}).items() if k != MEMBER}
    whole = {**document, _EXPORT: export}
    export[MEMBER] = of_document(whole)
    return whole


def _spell(text: bytes) -> str:
    return f"sha256:{sha256(text).hexdigest()}"
