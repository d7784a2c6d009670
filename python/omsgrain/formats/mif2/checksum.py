# SPDX-License-Identifier: Apache-2.0
"""The checksum of a document: ours, and that of the reference implementation. Spec: MIF 2.0 §1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats.checksums import Checksums, of_bytes

_COUNTED: Final = ("memories", "todos", "projects", "reminders")


def of_counts(document: Mapping[str, Any]) -> str:
    """The checksum that the reference implementation writes: of how many records there are."""
    arrays = [document.get(name) for name in _COUNTED]
    counts = (len(array) if isinstance(array, list) else 0 for array in arrays)
    return of_bytes(":".join(map(str, counts)).encode("ascii"))


_OURS: Final = Checksums("export_meta", lambda document: (of_counts(document),))
of_document, verify_checksum = _OURS.of_document, _OURS.verify
sealed, own, current = _OURS.sealed, _OURS.own, _OURS.current
