# SPDX-License-Identifier: Apache-2.0
"""``store.trust``: signatures and verification status of grains."""

from __future__ import annotations

from typing import get_args

from omsgrain import _core
from omsgrain.errors import NotFoundError, SchemaError
from omsgrain.storage import signatures
from omsgrain.storage.base import Writer
from omsgrain.storage.records import Verification
from omsgrain.storage.signatures import Signature
from omsgrain.store.context import StorePart, seq_of, stored_digest
from omsgrain.store.lifecycle import set_status

_STATUSES = get_args(Verification)


class GrainTrust(StorePart):
    """``store.trust``: signatures and verification status of grains."""

    __slots__ = ()

    def set_verification(
        self, address: str, status: Verification, *, reason: str | None = None
    ) -> None:
        """Set the verification status: unverified, verified, contested or retracted.

        Args:
            address: the grain.
            status: the new status.
            reason: the reason, which some policies require.

        Raises:
            SchemaError: the status is unknown.
            NotFoundError: the grain is not in the store.
            InvalidationDeniedError: a policy or a hold forbids the change.
            StoreError: the store is read-only, full or damaged. Nothing was stored.

        Spec: OMS §23
        """
        if status not in _STATUSES:
            raise SchemaError(
                "unknown verification status", field="/status", expected=", ".join(_STATUSES)
            )
        context = self._context
        digest = _core.parse_address(address)

        def work(writer: Writer) -> None:
            about = [stored_digest(writer, digest)]
            operation = set_status(writer, context.settings, digest, status, reason)
            if operation is not None:
                context.note(writer, operation, about, reason_code=status, note=reason)

        context.storage.write(work)

    def signatures(self, address: str) -> list[Signature]:
        """Return the signatures of a grain, sorted by signer; none if it is unsigned.

        Args:
            address: the grain.

        Raises:
            NotFoundError: the grain is not in the store.
            IntegrityError: a stored signature is damaged.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return signatures.signatures(reader, seq_of(reader, digest))

    def envelope(self, address: str, signer: str | None = None) -> bytes:
        """Return a signed grain in its envelope, byte for byte as received.

        Args:
            address: the grain.
            signer: the DID of the signer. Default: the lowest DID of a verified signature, or
                else the lowest DID.

        Raises:
            NotFoundError: the grain is not in the store, or has no signature of this signer.
            IntegrityError: a stored signature is damaged.
        """
        chosen = signatures.by_signer(self.signatures(address), signer)
        if chosen is None:
            raise NotFoundError(
                "the grain has no signature, or none of this signer", found=address
            )
        return chosen.envelope
