# SPDX-License-Identifier: Apache-2.0
"""Reading the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.errors import SignatureError
from omsgrain.storage.audit.log import (
    HASH,
    KEY_BYTES,
    KEY_RECORD,
    NUMBER,
    SALT,
    STORING,
    TAG,
    AuditEntry,
    check_operation,
    hmac,
    read_entry,
)
from omsgrain.storage.audit.verify import AuditReport, Checkpoint, checkpoint, verify
from omsgrain.storage.base import Reader, Storage
from omsgrain.storage.tables import AUDIT, DELETED, EVENT, EVENTS, META, NOTES

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.signers import Signer

_PAGE = 1_000  # entries read in one snapshot


def tag(reader: Reader, address: str) -> bytes | None:
    """Return the tag that entries have for an address; None where nothing was written yet.

    Raises:
        HashFormatError, HashLengthError: that is no address.
    """
    digest = _core.parse_address(address)
    key = reader.row(META, KEY_RECORD)
    return None if key is None or len(key) != KEY_BYTES else hmac(key, digest)[:TAG]


class AuditLog:
    """The audit trail of a store.

    Args:
        store: whose trail it is.
    """

    __slots__ = ("_store",)

    def __init__(self, store: Storage) -> None:
        self._store = store

    def entries(
        self, after: int = 0, *, address: str | None = None, operation: str | None = None
    ) -> Iterator[AuditEntry]:
        """Walk the entries, those that arrive meanwhile too.

        Each thousand is a snapshot of its own, so that a long walk holds back no pages of the
        file.

        Args:
            after: the last number already seen; 0 from the start.
            address: only entries about the grain with this address. Grains that came in large
                batches are found by their sequence number; that of an erased grain is unknown.
            operation: only entries of this operation.

        Yields:
            The entries in order; one whose row is damaged has ``sound`` False, and comes whatever
            was asked for.

        Raises:
            SchemaError: an operation that there is not.
            HashFormatError, HashLengthError: that is no address.
        """
        with self._store.read() as reader:
            walk = _TrailWalk(reader, after, address, operation)
        while True:
            with self._store.read() as reader:
                page = walk.page(reader)
            if page is None:
                return
            yield from page

    def verify(
        self,
        checkpoint: Checkpoint | None = None,
        *,
        grains: bool = False,
        signer: str | None = None,
        resolver: Resolver | None = None,
    ) -> AuditReport:
        """Verify the whole trail, in one snapshot; see the function ``verify``.

        Args:
            checkpoint: an end that the trail once had. If it is signed, the signature is verified
                before anything is read.
            grains: also read every grain.
            signer: the DID that must have signed the checkpoint.
            resolver: finds the key of a DID that is no did:key.

        Raises:
            SignatureError: the signature of the checkpoint does not hold, or is somebody else's,
                or there is none where there must be one.
            DidError: no key was found for its DID.
        """
        if checkpoint is not None and (signer is not None or checkpoint.signature is not None):
            checkpoint.proof(resolver=resolver, signer=signer)
        elif signer is not None:
            raise SignatureError("there is no checkpoint that is signed")
        with self._store.read() as reader:
            return verify(reader, checkpoint, grains=grains)

    def checkpoint(self, signer: Signer | None = None, *, iat: int | None = None) -> Checkpoint:
        """Return the end of the trail, to be kept outside of the store.

        Args:
            signer: who signs it; without one it proves the tail only to who kept it himself.
            iat: when, in epoch seconds; left out, if not given.

        Raises:
            SignatureError: the signer gave no signature that holds.
        """
        with self._store.read() as reader:
            end = checkpoint(reader)
        return end if signer is None else end.signed(signer, iat=iat)


class _TrailWalk:
    """A walk that can go on in another snapshot."""

    def __init__(
        self, reader: Reader, after: int, address: str | None, operation: str | None
    ) -> None:
        if operation is not None:
            check_operation(operation)
        self._operation = operation
        self._after = NUMBER.pack(min(max(after, 0), 2**64 - 1))
        self._tag: bytes | None = None
        self._numbers: set[int] | None = None
        self._last_seq = 0  # of the entry before
        if address is not None:
            self._tag = tag(reader, address)
            self._numbers = _numbers(reader, _core.parse_address(address))
            row = reader.row(AUDIT, self._after)
            body = None if row is None else read_entry(row)
            self._last_seq = 0 if body is None else body["s"]

    def page(self, reader: Reader) -> list[AuditEntry] | None:
        """Read the next entries, and give those that were asked for; None at the end."""
        rows = list(islice(reader.rows(AUDIT, self._after), _PAGE))
        if not rows:
            return None
        self._after = rows[-1][0]
        found = []
        for place, row in rows:
            body = read_entry(row)
            if body is None:
                found.append(AuditEntry(int.from_bytes(place, "big"), sound=False))
            elif self._wants(body):
                found.append(_entry(reader, place, row, body))
        return found

    def _wants(self, body: dict[str, Any]) -> bool:
        low, self._last_seq = self._last_seq, body["s"]
        if self._operation not in (None, body["o"]):
            return False
        if self._tag is None:
            return self._numbers is None
        if self._tag in body.get("g", b""):
            return self._tag in _tags(body)  # and not half of one tag and half of the next
        if "h" not in body or body["o"] not in STORING:
            return False
        return any(low < seq <= body["s"] for seq in self._numbers or ())


def _tags(body: dict[str, Any]) -> tuple[bytes, ...]:
    tags = body.get("g", b"")
    return tuple(tags[i : i + TAG] for i in range(0, len(tags), TAG))


def _numbers(reader: Reader, digest: bytes) -> set[int]:
    """The sequence numbers that a grain has and had, as far as its deletion tells them."""
    found = {seq for seq in reader.find([digest]) if seq is not None}
    for _, row in reader.rows(EVENTS):
        if row.endswith(digest) and len(row) == EVENT.size and row[:1] == DELETED:
            found.add(EVENT.unpack(row)[1])
    return found


def _entry(reader: Reader, place: bytes, row: bytes, body: dict[str, Any]) -> AuditEntry:
    note = reader.row(NOTES, place) if "m" in body else None
    tags = _tags(body)
    return AuditEntry(
        int.from_bytes(place, "big"),
        time=body["t"],
        operation=body["o"],
        actor=body.get("a"),
        count=body.get("n", len(tags)),
        tags=tags,
        batch_tag=body.get("h"),
        reason_code=body.get("r"),
        note=None if note is None else note[SALT:].decode("utf-8", "replace"),
        note_erased="m" in body and note is None,
        details=body.get("d", {}),
        last_seq=body["s"],
        grains=body["c"],
        notes_erased=body.get("x", 0),
        hash=row[:HASH].hex(),
    )
