# SPDX-License-Identifier: Apache-2.0
"""The end of an audit trail at some time, for safe keeping elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass

from omsgrain.errors import FormatError
from omsgrain.store.audit.entry import HASH, HEAD_RECORD, HEAD_VALUE, NOTHING, NUMBER, read_entry
from omsgrain.store.base import Reader
from omsgrain.store.tables import AUDIT, META

__all__ = ["Checkpoint", "checkpoint"]

_DIGITS = set("0123456789abcdef")
_MOST = 1_000  # letters; one line of four values
_KIND = "omsgrain audit checkpoint 1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where an audit trail ended at some time; kept outside of the store it proves the tail.

    Attributes:
        number: the last entry; 0 before the first.
        hash: its hash, 64 hex digits.
        time: its time, ms since 1970.
    """

    number: int
    hash: str
    time: int

    def to_json(self) -> str:
        """One line of JSON, always the same for the same checkpoint, so that it can be signed."""
        row = {"hash": self.hash, "kind": _KIND, "number": self.number, "time": self.time}
        return json.dumps(row, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        """Read what ``to_json`` wrote.

        Raises:
            FormatError: it is something else.
        """
        try:
            row = json.loads(text) if len(text) < _MOST else None
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or row.keys() != {"hash", "kind", "number", "time"}:
            raise FormatError("not a checkpoint of an audit trail", expected=_KIND)
        if row["kind"] != _KIND:
            raise FormatError("not a checkpoint that is known", field="/kind", expected=_KIND)
        for name in ("number", "time"):
            if type(row[name]) is not int or not 0 <= row[name] < 2**64:
                raise FormatError("not a number", field=f"/{name}", expected="0 to 2^64 - 1")
        digits = row["hash"]
        if type(digits) is not str or len(digits) != 2 * HASH or set(digits) - _DIGITS:
            raise FormatError("not a hash", field="/hash", expected="64 hex digits")
        return cls(row["number"], digits, row["time"])


def checkpoint(reader: Reader) -> Checkpoint:
    """Return the end of the trail as its record says; ``verify`` first if you doubt it."""
    head = reader.row(META, HEAD_RECORD)
    if head is None or len(head) != HEAD_VALUE.size:
        return Checkpoint(0, NOTHING.hex(), 0)
    number, digest = HEAD_VALUE.unpack(head)
    row = reader.row(AUDIT, NUMBER.pack(number))
    body = None if row is None else read_entry(row)
    return Checkpoint(number, digest.hex(), 0 if body is None else body["t"])
