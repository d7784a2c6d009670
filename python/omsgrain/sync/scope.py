# SPDX-License-Identifier: Apache-2.0
"""Which grains a sync is about: those of some namespaces, or all."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from hashlib import sha256

from omsgrain import _core
from omsgrain.errors import OmsError, SchemaError, StoreError
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store.base import Reader, Unsealing

__all__ = ["Scope"]

_FAMILY = ":*"
_WORTH = 4
"""Times as many grains that must have come, for the index to be asked."""


class Scope:
    """A choice of namespaces.

    Args:
        namespaces: exact names, or ``robots:*`` for all that begin with ``robots:``; None: every
            grain.

    Raises:
        SchemaError: an empty choice, or a name that is no text.
    """

    __slots__ = ("_exact", "_families", "namespaces")

    def __init__(self, namespaces: Iterable[str] | None) -> None:
        if isinstance(namespaces, str):
            raise SchemaError("a list of namespaces", field="/namespaces", found="one text")
        self.namespaces = None if namespaces is None else tuple(sorted(set(namespaces)))
        names = self.namespaces or ()
        if self.namespaces == () or not all(isinstance(one, str) and one for one in names):
            raise SchemaError("a choice of namespaces names some", field="/namespaces")
        self._exact = frozenset(one for one in names if not one.endswith(_FAMILY))
        self._families = tuple(one[:-1] for one in names if one.endswith(_FAMILY))

    @property
    def everything(self) -> bool:
        """Whether no grain is left out."""
        return self.namespaces is None

    def numbers(self, reader: Reader, after: int, last: int) -> list[int] | None:
        """The numbers of all grains of them, told by the index.

        Args:
            reader: a snapshot.
            after: what came after this number is looked at.
            last: and up to this.

        Returns:
            None where a walk through all that came costs no more, or the index does not tell.
        """
        if self.namespaces is None or self._families or isinstance(reader, Unsealing):
            return None
        terms = [_core.term("namespace", name) for name in self.namespaces]
        if _WORTH * sum(reader.term_count(term) for term in terms) > last - after:
            return None
        places = (place for term in terms for place in reader.places(term, None, False))
        return sorted(int.from_bytes(place[12:], "big") for place in places)

    def takes_hint(self, hint: bytes) -> bool:
        """Whether what was erased may have been of one of them, by the hash of its namespace."""
        if self.namespaces is None or self._families or not hint:
            return True
        names = (unicodedata.normalize("NFC", name).encode("utf-8") for name in self._exact)
        return any(sha256(name).digest()[: len(hint)] == hint for name in names)

    def takes(self, reader: Reader, seq: int, blob: bytes) -> bool:
        """Whether a grain is one of them; one that cannot be opened is none."""
        if self.namespaces is None:
            return True
        grain: Grain | None
        if blob[1] & ENCRYPTED_BIT:
            try:
                grain = reader.grain(seq)
            except StoreError:
                raise
            except OmsError:  # its key opens it no more
                return False
            if grain is None or grain.sealed:
                return False
        else:
            grain = Grain._stored(blob, "")
        name = grain.get("namespace")
        return isinstance(name, str) and (
            name in self._exact or name.startswith(self._families or ("\0",))
        )
