# SPDX-License-Identifier: Apache-2.0
"""Checksums of documents, as text; and that of MIF, which says nowhere what it is made of.

So one that was read is kept as it is and never refused. Ours is SHA-256 of the canonical text of
the document without it. That of the reference implementation is made of counts. Spec: RFC 8785
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, Final, Literal

from omsgrain.errors import OmsError
from omsgrain.formats.texts import digest

__all__ = ["MEMBER", "Verdict", "of_bytes", "of_document", "sealed", "verified"]

Verdict = Literal["matched-jcs", "matched-shodh-counts", "unknown"]
"""``matched-jcs``: it is made of all that the document says. ``matched-shodh-counts``: of how many
records it has, which says nothing about what is in them. ``unknown``: of something else, or of
another document."""
MEMBER: Final = "checksum"


def of_bytes(data: bytes) -> str:
    """SHA-256 as all formats write it."""
    return f"sha256:{sha256(data).hexdigest()}"


def of_document(document: Mapping[str, Any], place: str) -> str:
    """The checksum that omsgrain writes, whatever the document says of itself.

    Args:
        document: all of it.
        place: the member in which the checksum stands.

    Raises:
        OmsError: what was given has no canonical form.
    """
    whole = dict(document)
    if isinstance(around := whole.get(place), dict):
        whole[place] = {name: value for name, value in around.items() if name != MEMBER}
    return f"sha256:{digest(whole)}"


def verified(
    document: Mapping[str, Any],
    place: str,
    of_counts: Callable[[Mapping[str, Any]], Collection[str]],
) -> Verdict | None:
    """Say what the checksum of a document was made of; None if it has none.

    Args:
        document: what was read of it.
        place: the member in which the checksum stands.
        of_counts: gives those that the reference implementation may write.
    """
    around = document.get(place)
    given = around.get(MEMBER) if isinstance(around, dict) else None
    if not isinstance(given, str) or not given:
        return None
    given = given.lower()
    if given in of_counts(document):
        return "matched-shodh-counts"
    try:
        return "matched-jcs" if given == of_document(document, place) else "unknown"
    except OmsError:
        return "unknown"


def sealed(document: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A document of our own, with its checksum made anew, at the end of the member."""
    around = {k: v for k, v in (document.get(place) or {}).items() if k != MEMBER}
    whole = {**document, place: around}
    around[MEMBER] = of_document(whole, place)
    return whole
