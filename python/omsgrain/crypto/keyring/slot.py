# SPDX-License-Identifier: Apache-2.0
"""A slot of a key file, which says where everything is. `file` has the layout."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, NamedTuple

__all__ = ["SIZE", "Head", "read_slot", "slot"]

_SLOT = struct.Struct(">QQQQQIII8s")
_SUM = 16
#: Bytes of a slot.
SIZE = _SLOT.size + _SUM


class Head(NamedTuple):
    """What a slot says."""

    sequence: int
    generation: int
    end: int
    records: int
    erased: int
    erasing: int
    area: int
    size: int
    check: bytes

    def next(self, **changes: Any) -> Head:
        """The head after a change."""
        return self._replace(sequence=self.sequence + 1, **changes)


def slot(head: Head) -> bytes:
    """The bytes of a slot."""
    body = _SLOT.pack(*head)
    return body + hashlib.sha256(body).digest()[:_SUM]


def read_slot(raw: bytes) -> Head | None:
    """Read a slot; None if it is torn or damaged."""
    body, check = raw[: _SLOT.size], raw[_SLOT.size : SIZE]
    if len(check) < _SUM or hashlib.sha256(body).digest()[:_SUM] != check:
        return None
    return Head(*_SLOT.unpack(body))
