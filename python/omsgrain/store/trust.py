# SPDX-License-Identifier: Apache-2.0
"""``store.trust``: who signed a grain, and what verification found."""

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
    """``store.trust``: signatures of grains, and their verification status."""

    __slots__ = ()

    def set_verification(
        self, address: str, status: Verification, *, reason: str | None = None
    ) -> None:
        """Set what verification found: unverified, verified, contested or retracted.

        Args:
            address: the grain.
            status: the new status.
            reason: why; some policies ask for it.

        Raises:
            SchemaError: an unknown status.
            NotFoundError: the grain is not in the store.
            InvalidationDeniedError: a policy or a hold refuses.
            StoreError: read-only, full or broken; nothing was stored.

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
        """Return the signatures over a grain, sorted by signer; an unsigned one has none.

        Raises:
            NotFoundError: it is not in the store.
            IntegrityError: a stored signature is damaged.
        """
        digest = _core.parse_address(address)
        with self._context.storage.read() as reader:
            return signatures.signatures(reader, seq_of(reader, digest))

    def envelope(self, address: str, signer: str | None = None) -> bytes:
        """Return a signed grain in its envelope, byte for byte as it came.

        Args:
            address: the grain.
            signer: whose envelope. If not given: of those that were verified, the one of the
                lowest DID; if none was, the one of the lowest DID.

        Raises:
            NotFoundError: it is not in the store, or this signer has not signed it.
            IntegrityError: a stored signature is damaged.
        """
        chosen = signatures.by_signer(self.signatures(address), signer)
        if chosen is None:
            raise NotFoundError("the grain has no such signature", found=address)
        return chosen.envelope
