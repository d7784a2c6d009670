# SPDX-License-Identifier: Apache-2.0
"""The checksum of a document: ours, and that of the reference implementation. Spec: MIF 1.0 §2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats.checksums import Checksums, of_bytes

_EXPORT: Final = "export"


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
    return frozenset(of_bytes((counts + one).encode()) for one in spelled)


_OURS: Final = Checksums(_EXPORT, of_counts)
of_document, verify_checksum = _OURS.of_document, _OURS.verify
sealed, own, current = _OURS.sealed, _OURS.own, _OURS.current
