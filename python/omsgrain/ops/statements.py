# SPDX-License-Identifier: Apache-2.0
"""Statements in JSON with a signature in them: checkpoints and certificates of erasures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omsgrain.ops.opening import resolver_in_use
from omsgrain.ops.signed import SignedBy

if TYPE_CHECKING:
    from omsgrain.crypto.trust import Trust

MOST: Final = 64 << 10
"""Bytes of a statement at the most."""
_KIND = re.compile(rb'\s*\{[^{}]*"kind"\s*:\s*"omsgrain (?:audit checkpoint|erasure certificate) ')


def is_statement(head: bytes) -> bool:
    """Whether a file that begins so is a statement of ours."""
    return _KIND.match(head) is not None


def verify_statement(data: bytes, file: Path, trust: Trust | None) -> SignedBy | None:
    """Verify the form of a statement, and its signature."""
    from omsgrain.crypto.trust import check
    from omsgrain.storage.audit.verify import Checkpoint
    from omsgrain.store.privacy.certificate import KIND, Certificate

    certifies = KIND.encode() in data
    kept = Certificate.from_json(data) if certifies else Checkpoint.from_json(data)
    proof = check(
        kept.signature,
        kept.signed_bytes(),
        trust,
        required=certifies,
        resolver=resolver_in_use(),
    )
    return None if proof is None else SignedBy(str(file), proof.signer, proof.iat)
