# SPDX-License-Identifier: Apache-2.0
"""A signed statement that a person or a tenant was erased, for the person or a regulator.

It says when and why, counts what was destroyed and what was kept, and names the end of the audit
trail. It has no name and no address. The signature is a detached COSE_Sign1 over the canonical
text (RFC 8785) of the statement without it.
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
_MOST: Final = 64 << 10  # bytes; a certificate has about one thousand
_COUNTS: Final = ("keys_destroyed", "grains_unreadable", "grains_removed", "grains_named")
_FLAGS: Final = ("files_rewritten", "key_file_rewritten", "complete")


@dataclass(frozen=True, slots=True)
class Certificate:
    """What an erasure did.

    Attributes:
        time: when it was certified, ms since 1970.
        reason_code: why.
        of: ``person`` or ``tenant``.
        keys_destroyed: how many keys were destroyed.
        grains_unreadable: how many grains nobody can read any more.
        grains_removed: how many grains were removed that were not encrypted; copies that were made
            before still hold them.
        grains_named: how many grains of others only bear a name, and stay.
        kept: how many grains stay, restricted, by the rule that keeps them.
        files_rewritten: whether the files hold no bytes of what was removed.
        files_due: by when they must not, ms since 1970, if they still may.
        key_file_rewritten: whether the key file was rewritten.
        complete: whether nothing is left to do.
        incomplete: what is left, as ``ErasureReport`` has it.
        checkpoint: the end of the audit trail after the erasure.
        signature: over all of that; None of an unsigned one.
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
        """Make the certificate of an erasure, without a signature."""
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
        """The same certificate with a signature."""
        from omsgrain.crypto.detached import sign_detached

        return replace(self, signature=sign_detached(self.signed_bytes(), signer, iat=iat))

    def signed_bytes(self) -> bytes:
        """What the signature is made over."""
        return _canonical(replace(self, signature=None).to_json().encode())

    def to_json(self) -> str:
        """The certificate as JSON that a person can read."""
        row: dict[str, Any] = {"kind": KIND, **asdict(self)}
        row["checkpoint"] = json.loads(self.checkpoint.to_json())
        del row[_SIGNATURE]
        if self.signature is not None:
            row[_SIGNATURE] = b64encode(self.signature).decode("ascii")
        return json.dumps(row, indent=2) + "\n"

    @classmethod
    def from_json(cls, data: bytes) -> Certificate:
        """Read what ``to_json`` wrote; the signature is not verified."""
        try:
            if len(data) > _MOST:
                raise ValueError
            _canonical(data)  # refuses what could be read in two ways
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
    """Whether each value is of its kind."""
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
    return FormatError("not a certificate of an erasure", expected=KIND)
