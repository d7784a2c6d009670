# SPDX-License-Identifier: Apache-2.0
"""Signatures of bundles: a detached COSE_Sign1 over the text that the checksum is made of.

So a signature is one of what a bundle says, not of how it is spelled or sent: the same one holds
for a bundle in one document and for the same bundle by lines. Beside a file it is ``NAME.sig``, in
HTTP the header ``AIMEM-Signature``, in base64url without padding. Spec: AIMEM §5.3
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from omsgrain import _core
from omsgrain.crypto import cose
from omsgrain.crypto.cose import issued
from omsgrain.crypto.signers import Pieces, Signer
from omsgrain.errors import SignatureError
from omsgrain.formats import json_text
from omsgrain.formats.aimem.document import MEMBER, Sum, records
from omsgrain.formats.aimem.fields import LIMITS

HEADER: Final = "AIMEM-Signature"

_BASE64 = re.compile("[A-Za-z0-9_-]*")


def canonical(data: bytes) -> bytes:
    """The signed bytes of a bundle in one document."""
    return _core.canonical_json(data.removeprefix(json_text.MARK), MEMBER, LIMITS.depth)


def canonical_of_lines(source: IO[bytes]) -> bytes:
    """The signed bytes of a bundle by lines, whole in memory: a signature needs one piece."""
    with pieces_of_lines(source) as pieces:
        return b"".join(pieces())


@contextmanager
def pieces_of_lines(source: IO[bytes]) -> Iterator[Pieces]:
    """The signed bytes of a scanned bundle by lines, from the source's position."""
    start = source.tell()
    envelope = json.loads(source.readline())
    source.seek(start)
    with Sum() as total:
        for kind, record in records(source):
            total.add(kind, json_text.canonical_text(record))
        yield lambda: total.pieces(envelope)


def sign_bundle(
    text: bytes, signer: Signer, *, kid: str | None = None, iat: int | None = None
) -> bytes:
    return cose.write(signer, text, detached=True, iat=issued(iat, None), kid=kid)


def to_header(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii")


def from_header(value: str) -> bytes:
    text = value.strip().rstrip("=")
    if len(text) <= 2 * cose.MAX_OVERHEAD and _BASE64.fullmatch(text) and len(text) % 4 != 1:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    expected = "base64url, without padding"
    raise SignatureError("not a signature", rule="signature_invalid", expected=expected)
