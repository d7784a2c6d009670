# SPDX-License-Identifier: Apache-2.0
"""What the kept documents of a user say around their records, for an export made of the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from omsgrain.errors import FormatError, NotFoundError
from omsgrain.formats.base import Format
from omsgrain.formats.convert.base import lost
from omsgrain.formats.document import Loss, Manifest, open_manifest
from omsgrain.formats.mif1.document import STAYS
from omsgrain.formats.source import Get
from omsgrain.formats.table import FORMATS
from omsgrain.grain import Grain

_COUNTERS: Final = "volatile"
_COUNTED: Final = frozenset(("temporal/accessCount", "temporal/lastAccessed"))
"""The counters of a memory that the store itself keeps."""
_OTHERS: Final = "vendor_extensions/"
"""What other systems say, which leaves in MIF 2.0."""


class ManifestList:
    """Gathers what documents say of themselves, in the order in which they came."""

    def __init__(self) -> None:
        self._documents: list[Manifest] = []

    def add(self, grain: Grain, get: Get) -> Manifest | None:
        """Take the manifest of a document; None if this grain is none that can be read."""
        try:
            found = open_manifest(grain, get)
        except (NotFoundError, FormatError):  # something of it was erased
            return None
        if found is not None:
            self._documents.append(replace(found, arrays={}, text=()))
        return found

    def counters(self) -> dict[str, Any]:
        """The counters of memories of MIF in JSON-LD, by ``@id``; the last document counts."""
        found: dict[str, Any] = {}
        for one in self._documents:
            said = one.envelope.get(_COUNTERS) if FORMATS[one.format].counters else None
            found |= said if isinstance(said, dict) else {}
        return found

    def losses(self, to: Format, envelope: Mapping[str, Any]) -> list[Loss]:
        """What an export does not say of what the documents say of themselves."""
        there = to.hub.read([], envelope).document
        found: dict[tuple[str, str], None] = {}
        for one in self._documents:
            of = FORMATS[one.format]
            # Its id and its time are those of that document, and made anew.
            around = replace(of.hub.read([], one.envelope).document, id="", user=None,
                             exported_at=None)  # fmt: skip
            for name, _ in lost(around, there, None, of.hub.told, to.title):
                kept = to.vendors and name.startswith(_OTHERS)
                if not kept and name not in to.made_anew:
                    found[one.id, name] = None
            if of.counters and not to.counters:
                found |= dict.fromkeys((one.id, name) for name in self._counted(one))
        return [Loss(id, name, STAYS) for id, name in found]

    def _counted(self, one: Manifest) -> Iterator[str]:
        """The names of the counters in a document that the store does not keep."""
        for listed in (one.envelope.get(_COUNTERS) or {}).values():
            for difference in listed:
                yield from (at for at in _pointers(difference, "") if at not in _COUNTED)


def _pointers(difference: Any, at: str) -> Iterator[str]:
    """The members that a difference adds, by their ways."""
    if not isinstance(difference, dict):
        return
    for name, inner in (difference.get("~") or {}).items():
        yield from _pointers(inner, f"{at}{name}/")
    for name, value in (difference.get("+") or {}).items():
        if isinstance(value, dict):
            yield from _pointers({"+": value}, f"{at}{name}/")
        else:
            yield f"{at}{name}"
