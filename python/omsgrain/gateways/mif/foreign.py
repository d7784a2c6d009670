# SPDX-License-Identifier: Apache-2.0
"""What other systems say in the documents of a user that are kept, for a document written afresh.

It leaves with what it is about: what is said under the id of a record that does not leave stays
here, and so does what is said of a record that was erased. Spec: MIF 2.0 §5, §6
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from omsgrain.errors import FormatError, NotFoundError
from omsgrain.formats import vendors
from omsgrain.formats.document import Manifest, keyed
from omsgrain.formats.raw import Get
from omsgrain.gateways.mif.versions import version
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore

__all__ = ["Foreign"]

FORMAT: Final = "mif2"
"""The only format that has a place for it."""


class Foreign:
    """Gathers what other systems say, in the order in which the documents came."""

    def __init__(self) -> None:
        self._envelopes: list[Mapping[str, Any]] = []
        self._keyed: set[str] = set()
        self._stays: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self._envelopes)

    def add(self, found: Manifest, grain: Grain, get: Get) -> bool:
        """Take the manifest of a document; False if it says nothing of this sort.

        Args:
            found: the manifest.
            grain: that it stands in.
            get: gives the grains that it names.
        """
        if found.format != FORMAT:
            return False
        try:
            ids = keyed(grain, get)
        except (NotFoundError, FormatError):  # something of it was erased
            return False
        said = vendors.merged([found.envelope])
        if said:
            self._envelopes.append({vendors.MEMBER: said})
            self._keyed |= ids
        return bool(said)

    def stays(self, id: str) -> None:
        """Note the id of a record that does not leave."""
        self._stays.add(id)

    def said(self, store: GrainStore, user_id: str, ids: Collection[str]) -> dict[str, Any]:
        """What leaves, by system.

        Args:
            store: knows what was erased.
            user_id: whose memory it is.
            ids: of the records that leave.
        """
        whole = self.envelope()
        names = vendors.keys(whole).difference(ids)
        if not names:
            everything: dict[str, Any] = whole[vendors.MEMBER]
            return everything
        asked = [(kind, name) for name in names for kind in version(FORMAT).arrays.values()]
        with store.sources(user_id) as snapshot:
            told = snapshot.erased(asked, format=FORMAT)
        gone = {name for (_, name), erased in zip(asked, told, strict=True) if erased}
        gone |= names & (self._keyed | self._stays)
        left: dict[str, Any] = vendors.without(whole, gone)[vendors.MEMBER]
        return left

    def envelope(self) -> dict[str, Any]:
        """All of it, as it stands around the records of one document."""
        return {vendors.MEMBER: vendors.merged(self._envelopes)}
