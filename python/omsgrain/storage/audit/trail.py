# SPDX-License-Identifier: Apache-2.0
"""``store.audit``: read and verify the audit trail."""

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
from omsgrain.storage.base import Reader, Transactions
from omsgrain.storage.tables import AUDIT, DELETED, EVENT, EVENTS, META, NOTES

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.signers import Signer

_PAGE = 1_000  # entries per snapshot


def tag(reader: Reader, address: str) -> bytes | None:
    """Return the tag of an address in entries; None if the trail is empty."""
    digest = _core.parse_address(address)
    key = reader.row(META, KEY_RECORD)
    return None if key is None or len(key) != KEY_BYTES else hmac(key, digest)[:TAG]


class AuditLog:
    """The audit trail of a store.

    Args:
        store: the storage of the trail.
    """

    __slots__ = ("_store",)

    def __init__(self, store: Transactions) -> None:
        self._store = store

    def entries(
        self, after: int = 0, *, address: str | None = None, operation: str | None = None
    ) -> Iterator[AuditEntry]:
        """Iterate over the entries, including those added meanwhile.

        Each page of a thousand is a snapshot of its own, so a long iteration does not make the
        file grow.

        Args:
            after: the number of the last entry that you have processed; 0 for all.
            address: only entries about this grain. Grains of large batches are found by their
                sequence number, which is unknown for an erased grain.
            operation: only entries of this operation.

        Yields:
            The entries in order. A damaged one has ``sound`` False, and is always returned.

        Raises:
            SchemaError: the operation is unknown.
            HashFormatError, HashLengthError: the argument is not an address.
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
        """Verify the whole trail in one snapshot.

        Every entry must follow from the one before it, and the counts of the store must fit.
        Without a checkpoint, a tail that was cut off with the record of the end cannot be
        detected.

        Args:
            checkpoint: an end that the trail once had. A signed one is verified first.
            grains: also read every grain, and compare it with its entry.
            signer: the DID that must have signed the checkpoint.
            resolver: resolves DIDs other than did:key.

        Raises:
            SignatureError: the checkpoint's signature is invalid, of another signer, or missing.
            DidError: no key was found for its signer.
        """
        if checkpoint is not None and (signer is not None or checkpoint.signature is not None):
            checkpoint.proof(resolver=resolver, signer=signer)
        elif signer is not None:
            raise SignatureError("signer needs a signed checkpoint")
        with self._store.read() as reader:
            return verify(reader, checkpoint, grains=grains)

    def checkpoint(self, signer: Signer | None = None, *, iat: int | None = None) -> Checkpoint:
        """Return the end of the trail, to keep outside the store.

        Args:
            signer: signs it, so that others can trust it without trusting its keeper.
            iat: the time of the signature in epoch seconds; default: left out.

        Raises:
            SignatureError: the signer returned an invalid signature.
        """
        with self._store.read() as reader:
            end = checkpoint(reader)
        return end if signer is None else end.signed(signer, iat=iat)


class _TrailWalk:
    """An iteration that can continue in another snapshot."""

    def __init__(
        self, reader: Reader, after: int, address: str | None, operation: str | None
    ) -> None:
        if operation is not None:
            check_operation(operation)
        self._operation = operation
        self._after = NUMBER.pack(min(max(after, 0), 2**64 - 1))
        self._tag: bytes | None = None
        self._numbers: set[int] | None = None
        self._last_seq = 0  # of the previous entry
        if address is not None:
            self._tag = tag(reader, address)
            self._numbers = _numbers(reader, _core.parse_address(address))
            row = reader.row(AUDIT, self._after)
            body = None if row is None else read_entry(row)
            self._last_seq = 0 if body is None else body["s"]

    def page(self, reader: Reader) -> list[AuditEntry] | None:
        """Read the next entries, and return those that match; None at the end."""
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
            return self._tag in _tags(body)  # not parts of two adjacent tags
        if "h" not in body or body["o"] not in STORING:
            return False
        return any(low < seq <= body["s"] for seq in self._numbers or ())


def _tags(body: dict[str, Any]) -> tuple[bytes, ...]:
    tags = body.get("g", b"")
    return tuple(tags[i : i + TAG] for i in range(0, len(tags), TAG))


def _numbers(reader: Reader, digest: bytes) -> set[int]:
    """Return the sequence numbers that a grain has or had, as far as events reveal them."""
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
