# SPDX-License-Identifier: Apache-2.0
"""How a server behaves, and how much it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omsgrain.formats.json_text import VALUES

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Signer
    from omsgrain.crypto.trust import Trust
    from omsgrain.policy.rules import Purpose


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server behaves.

    Attributes:
        producer: the namespace of what was born here, and the producer of our bundles.
        purpose: why exports leave, for the rules of a policy.
        signer: signs what is exported.
        trust: whose signatures on imports count.
        require_signature: refuse imports that nobody in ``trust`` has signed.
        document: bytes of a body that is one JSON document, and of a list of grains, unpacked.
        lines: bytes of a bundle by lines, unpacked.
        signed: bytes of a bundle that is signed here: a signature is made over one piece.
        large: a body of more bytes than this counts as large: parsed, it takes ten times as much.
        values: values of one JSON document, keys not counted.
        ratio: how many times larger a packed body may get.
        timeout: seconds without a byte, after which a client is given up.
        slowest: bytes a second of a body, over all of it, below which a client is given up.
        at_work: requests that work at once.
        at_large: those of them that have a large body.
        uploads: bodies that are received at once.
        waiting: requests that may wait for each of these; more are told to come back.
        retry_after: seconds after which they should.
        scanned: changes that one request for changes looks at.
        log_tokens: whether the access log has the names of tokens.
    """

    producer: str = "omsgrain"
    purpose: Purpose = "transfer"
    signer: Signer | None = None
    trust: Trust | None = None
    require_signature: bool = False
    document: int = 64 << 20
    lines: int = 8 << 30
    signed: int = 64 << 20
    values: int = VALUES
    large: int = 4 << 20
    ratio: int = 250
    timeout: float = 30.0
    slowest: int = 4 << 10
    at_work: int = 16
    at_large: int = 2
    uploads: int = 256
    waiting: int = 1_000
    retry_after: int = 2
    scanned: int = 2_000
    log_tokens: bool = False
