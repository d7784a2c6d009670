# SPDX-License-Identifier: Apache-2.0
"""Checksums of documents, as text; and that of MIF, which says nowhere what it is made of.

So a checksum of others is kept as it is and never refused. Ours is SHA-256 of the canonical text
of the document without it, and says so: beside it stands ``"checksum_of": "document"``. A document
that says that and has another checksum was changed, and is refused. The checksum of the reference
implementation is made of counts. Spec: RFC 8785
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

from omsgrain.errors import OmsError
from omsgrain.formats.json_text import digest

Verdict = Literal["matched-jcs", "matched-shodh-counts", "unknown"]
"""``matched-jcs``: it is made of all that the document says. ``matched-shodh-counts``: of how many
records it has, which says nothing about what is in them. ``unknown``: of something else, or of
another document."""
MEMBER: Final = "checksum"
_OF, _DOCUMENT = "checksum_of", "document"


def of_bytes(data: bytes) -> str:
    """SHA-256 as all formats write it."""
    return f"sha256:{sha256(data).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Checksums:
    """The checksums of the documents of one version of MIF.

    Attributes:
        place: the member in which the checksum stands.
        of_counts: gives those that the reference implementation may write.
    """

    place: str
    of_counts: Callable[[Mapping[str, Any]], Collection[str]]

    def of_document(self, document: Mapping[str, Any]) -> str:
        """The checksum that omsgrain writes, whatever the document says of itself."""
        whole = dict(document)
        if isinstance(around := whole.get(self.place), dict):
            whole[self.place] = {name: value for name, value in around.items() if name != MEMBER}
        return f"sha256:{digest(whole)}"

    def verify(self, document: Mapping[str, Any]) -> Verdict | None:
        """Say what the checksum of a document was made of; None if it has none."""
        around = document.get(self.place)
        given = around.get(MEMBER) if isinstance(around, dict) else None
        if not isinstance(given, str) or not given:
            return None
        given = given.lower()
        if given in self.of_counts(document):
            return "matched-shodh-counts"
        try:
            return "matched-jcs" if given == self.of_document(document) else "unknown"
        except OmsError:
            return "unknown"

    def sealed(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A document of our own, with its checksum made anew, at the end of the member."""
        said = document.get(self.place) or {}
        around = {name: value for name, value in said.items() if name not in (MEMBER, _OF)}
        whole = {**document, self.place: around}
        around[_OF] = _DOCUMENT
        around[MEMBER] = self.of_document(whole)
        return whole

    def own(self, document: Mapping[str, Any]) -> bool:
        """Whether a document says that its checksum is made as ours is."""
        around = document.get(self.place)
        return isinstance(around, dict) and around.get(_OF) == _DOCUMENT and MEMBER in around

    def current(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document as it is written again: a checksum of our own is that of what it says now."""
        return self.sealed(document) if self.own(document) else document
