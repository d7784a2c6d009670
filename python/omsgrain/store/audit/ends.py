# SPDX-License-Identifier: Apache-2.0
"""The end of an audit trail at some time, for safe keeping elsewhere."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omsgrain.errors import FormatError, SignatureError
from omsgrain.store.audit.entry import HASH, HEAD_RECORD, HEAD_VALUE, NOTHING, NUMBER, read_entry
from omsgrain.store.base import Reader
from omsgrain.store.tables import AUDIT, META

if TYPE_CHECKING:
    from omsgrain.crypto import Proof, Resolver, Signer

__all__ = ["Checkpoint", "checkpoint"]

_DIGITS = set("0123456789abcdef")
_MOST = 1_000  # letters; one line of four values
_MOST_SIGNED = 4_000  # a signature names its signer, who can have a long DID
_KIND = "omsgrain audit checkpoint 1"
_KEYS = {"hash", "kind", "number", "time"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where an audit trail ended at some time; kept outside of the store it proves the tail.

    Attributes:
        number: the last entry; 0 before the first.
        hash: its hash, 64 hex digits.
        time: its time, ms since 1970.
        signature: a COSE_Sign1 over the line of JSON without it; None of an unsigned one.
    """

    number: int
    hash: str
    time: int
    signature: bytes | None = None

    def to_json(self) -> str:
        """One line of JSON, always the same for the same checkpoint, so that it can be signed."""
        row = {"hash": self.hash, "kind": _KIND, "number": self.number, "time": self.time}
        if self.signature is not None:
            row["signature"] = b64encode(self.signature).decode("ascii")
        return json.dumps(row, separators=(",", ":"), sort_keys=True)

    def signed(self, signer: Signer, *, iat: int | None = None) -> Checkpoint:
        """The same checkpoint with a signature: who keeps it need not be trusted.

        Args:
            signer: who signs.
            iat: when, in epoch seconds; left out, if not given.

        Raises:
            SignatureError: the signer gave no signature that holds.
        """
        from omsgrain.crypto import sign_detached

        return replace(self, signature=sign_detached(self.signed_bytes(), signer, iat=iat))

    def proof(self, *, resolver: Resolver | None = None, signer: str | None = None) -> Proof:
        """Verify the signature.

        Args:
            resolver: finds the key of a DID that is no did:key.
            signer: the DID that must have signed; without one, anybody may have.

        Returns:
            Who signed.

        Raises:
            SignatureError: there is none, it does not hold, or it is somebody else's.
            DidError: no key was found for the signer's DID.
            CorruptError: it is no signature.
        """
        from omsgrain.crypto import verify_detached

        if self.signature is None:
            raise SignatureError("the checkpoint is not signed")
        found = verify_detached(self.signature, self.signed_bytes(), resolver=resolver)
        if signer not in (None, found.signer):
            raise SignatureError("the checkpoint is signed by somebody else")
        return found

    def signed_bytes(self) -> bytes:
        """What the signature is made over."""
        return replace(self, signature=None).to_json().encode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        """Read what ``to_json`` wrote.

        Raises:
            FormatError: it is something else.
        """
        try:
            row = json.loads(text) if len(text) < _MOST_SIGNED else None
        except (ValueError, RecursionError):
            row = None
        signature = row.pop("signature", None) if isinstance(row, dict) else None
        most = _MOST if signature is None else _MOST_SIGNED
        if not isinstance(row, dict) or row.keys() != _KEYS or len(text) >= most:
            raise FormatError("not a checkpoint of an audit trail", expected=_KIND)
        if row["kind"] != _KIND:
            raise FormatError("not a checkpoint that is known", field="/kind", expected=_KIND)
        for name in ("number", "time"):
            if type(row[name]) is not int or not 0 <= row[name] < 2**64:
                raise FormatError("not a number", field=f"/{name}", expected="0 to 2^64 - 1")
        digits = row["hash"]
        if type(digits) is not str or len(digits) != 2 * HASH or set(digits) - _DIGITS:
            raise FormatError("not a hash", field="/hash", expected="64 hex digits")
        return cls(row["number"], digits, row["time"], _signature(signature))


def _signature(text: object) -> bytes | None:
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except ValueError:
        pass
    raise FormatError("not a signature", field="/signature", expected="base64")


def checkpoint(reader: Reader) -> Checkpoint:
    """Return the end of the trail as its record says; ``verify`` first if you doubt it."""
    head = reader.row(META, HEAD_RECORD)
    if head is None or len(head) != HEAD_VALUE.size:
        return Checkpoint(0, NOTHING.hex(), 0)
    number, digest = HEAD_VALUE.unpack(head)
    row = reader.row(AUDIT, NUMBER.pack(number))
    body = None if row is None else read_entry(row)
    return Checkpoint(number, digest.hex(), 0 if body is None else body["t"])
