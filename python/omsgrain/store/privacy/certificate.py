# SPDX-License-Identifier: Apache-2.0
"""A signed certificate of an erasure, for the person, the tenant or a regulator.

It has the time, the reason, counts of what was destroyed and kept, and the end of the audit trail.
It contains no name and no address. The signature is a detached COSE_Sign1 over the canonical JSON
(RFC 8785) of the certificate without its signature.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError
from omsgrain.storage.audit.verify import Checkpoint
from omsgrain.store.context import check_reason

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Signer
    from omsgrain.store.privacy.erasure import ErasureReport

KIND: Final = "omsgrain erasure certificate 1"
_SIGNATURE: Final = "signature"
_DEPTH: Final = 4
_MOST: Final = 64 << 10  # bytes; a certificate has about 1,000
_COUNTS: Final = ("keys_destroyed", "grains_unreadable", "grains_removed", "grains_named")
_FLAGS: Final = ("files_rewritten", "key_file_rewritten", "complete")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The result of an erasure, without names.

    Attributes:
        time: when the certificate was made, ms since 1970.
        reason_code: the reason, one word.
        of: ``person`` or ``tenant``.
        keys_destroyed: number of destroyed keys.
        grains_unreadable: number of grains that cannot be decrypted any more.
        grains_removed: number of removed plain grains. Earlier copies still contain them.
        grains_named: number of other people's grains that have one of the names; they stay.
        kept: number of grains that stay, restricted, by the rule that keeps them.
        files_rewritten: whether the files contain no removed bytes.
        files_due: deadline for rewriting the files, ms since 1970; None if they are rewritten.
        key_file_rewritten: whether the key file was rewritten.
        complete: whether nothing is left to do.
        incomplete: what is left, as in ``ErasureReport``.
        checkpoint: the end of the audit trail after the erasure.
        signature: the signature over all other fields; None if unsigned.
    """

    time: int
    reason_code: str
    of: Literal["person", "tenant"]
    keys_destroyed: int
    grains_unreadable: int
    grains_removed: int
    grains_named: int
    kept: dict[str, int]
    files_rewritten: bool
    files_due: int | None
    key_file_rewritten: bool
    complete: bool
    incomplete: tuple[str, ...]
    checkpoint: Checkpoint
    signature: bytes | None = None

    @classmethod
    def of_report(
        cls,
        report: ErasureReport,
        checkpoint: Checkpoint,
        *,
        reason_code: str,
        of: Literal["person", "tenant"],
        time: int,
    ) -> Certificate:
        """Make the unsigned certificate of an erasure."""
        check_reason(reason_code)
        return cls(
            time,
            reason_code,
            of,
            report.keys,
            report.sealed,
            report.erased,
            len(report.named),
            dict(sorted(Counter(rule for _, rule in report.kept).items())),
            report.scrubbed,
            report.scrub_due,
            report.rekeyed,
            report.complete,
            report.incomplete,
            replace(checkpoint, signature=None),
        )

    def signed(self, signer: Signer, *, iat: int | None = None) -> Certificate:
        """Return the certificate with a signature.

        Args:
            signer: the signer.
            iat: the time of the signature in epoch seconds; default: left out.
        """
        from omsgrain.crypto.detached import sign_detached

        return replace(self, signature=sign_detached(self.signed_bytes(), signer, iat=iat))

    def signed_bytes(self) -> bytes:
        return _canonical(replace(self, signature=None).to_json().encode())

    def to_json(self) -> str:
        """Return the certificate as readable JSON."""
        row: dict[str, Any] = {"kind": KIND, **asdict(self)}
        row["checkpoint"] = json.loads(self.checkpoint.to_json())
        del row[_SIGNATURE]
        if self.signature is not None:
            row[_SIGNATURE] = b64encode(self.signature).decode("ascii")
        return json.dumps(row, indent=2) + "\n"

    @classmethod
    def from_json(cls, data: bytes) -> Certificate:
        """Parse what ``to_json`` returned, without verifying the signature.

        Raises:
            FormatError: it is not a certificate.
        """
        try:
            if len(data) > _MOST:
                raise ValueError
            _canonical(data)  # refuses ambiguous JSON
            row = json.loads(data)
            signature = row.pop(_SIGNATURE, None)
            kind, end = row.pop("kind"), row.pop("checkpoint")
            row["incomplete"] = tuple(row["incomplete"])
            made = cls(
                **row,
                checkpoint=Checkpoint.from_json(json.dumps(end)),
                signature=None if signature is None else b64decode(signature, validate=True),
            )
        except (OmsError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise _none() from None
        if kind != KIND or not _is_sound(made):
            raise _none()
        return made


def _canonical(data: bytes) -> bytes:
    return _core.canonical_json(data, _SIGNATURE, _DEPTH)


def _is_sound(made: Certificate) -> bool:
    """Whether each value has the right type."""
    numbers = [made.time, *(getattr(made, name) for name in _COUNTS)]
    if not isinstance(made.kept, dict) or made.checkpoint.signature is not None:
        return False
    numbers += [*made.kept.values(), 0 if made.files_due is None else made.files_due]
    texts = (made.reason_code, *made.incomplete, *made.kept)
    return (
        all(type(one) is int and 0 <= one < 2**63 for one in numbers)
        and all(isinstance(one, str) for one in texts)
        and all(isinstance(getattr(made, name), bool) for name in _FLAGS)
        and made.of in ("person", "tenant")
    )


def _none() -> FormatError:
    return FormatError("not an erasure certificate", expected=KIND)
