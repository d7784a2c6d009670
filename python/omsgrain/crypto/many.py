# SPDX-License-Identifier: Apache-2.0
"""Many signed grains: their signatures verified by the core, on all cores, one by one.

The core knows the shape that nearly all envelopes have: ours, with a did:key of Ed25519. The rest
it leaves to `envelope.prove`, whose verdict is its own in every case. That is a plain loop:
`cryptography` holds the GIL while it verifies ECDSA, so threads would win next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from omsgrain import _core
from omsgrain.crypto.did import Resolver
from omsgrain.crypto.envelope import Proof, Signed, prove
from omsgrain.errors import OmsError, SchemaError, SignatureError
from omsgrain.grain import Grain, bare
from omsgrain.header import SIGNED_BIT, as_bytes

#: What the core reads of a blob: name of the type, warnings, fields.
_Parts = tuple[str | None, Sequence[str], Mapping[str, Any]]


def prove_many(
    envelopes: Iterable[bytes], *, resolver: Resolver | None = None
) -> list[tuple[bytes, Proof] | OmsError]:
    """Verify the signature of each envelope, as `prove` does.

    Args:
        envelopes: COSE_Sign1 with a blob in each.
        resolver: finds the key of a DID that is no did:key. It is called here, one by one.

    Returns:
        In their order: the blob, and whose signature it has; or why it is refused.
    """
    given = [as_bytes(envelope) for envelope in envelopes]
    verdicts = zip(given, _core.prove_many(given), strict=True)
    return [_judged(envelope, verdict, resolver) for envelope, verdict in verdicts]


def _judged(
    envelope: bytes,
    verdict: tuple[bytes, str, int | None] | Literal[False] | None,
    resolver: Resolver | None,
) -> tuple[bytes, Proof] | OmsError:
    if verdict:
        blob, signer, iat = verdict
        return blob, Proof(signer, iat)
    if verdict is False:
        return SignatureError("the signature does not hold")
    try:
        return prove(envelope, resolver=resolver)
    except OmsError as error:
        return error


@overload
def open_many(
    envelopes: Iterable[bytes],
    *,
    resolver: Resolver | None = None,
    errors: Literal["raise"] = "raise",
) -> list[Signed]: ...
@overload
def open_many(
    envelopes: Iterable[bytes],
    *,
    resolver: Resolver | None = None,
    errors: Literal["collect"],
) -> list[Signed | OmsError]: ...
def open_many(
    envelopes: Iterable[bytes],
    *,
    resolver: Resolver | None = None,
    errors: Literal["raise", "collect"] = "raise",
) -> list[Signed] | list[Signed | OmsError]:
    """Verify many signed grains in full, as `open_signed` does, and tell who signed them.

    Args:
        envelopes: COSE_Sign1 with a blob in each.
        resolver: finds the key of a DID that is no did:key.
        errors: "raise" refuses all for one; "collect" gives the refusal in the place of each that
            is not good.

    Returns:
        What is in them, in their order.

    Raises:
        OmsError: the first refusal, with errors="raise"; as for `verify_signed`.

    Spec: OMS §9
    """
    if errors not in ("raise", "collect"):
        raise SchemaError("unknown way to treat errors", expected='"raise" or "collect"')
    given = [as_bytes(envelope) for envelope in envelopes]
    proved = prove_many(given, resolver=resolver)
    blobs = [bare(one[0]) for one in proved if not isinstance(one, OmsError)]
    fields, known, wrong = _core.decode_many(blobs)
    refused = dict(wrong)
    read: Iterator[_Parts | OmsError] = (
        refused[i] if found is None or said is None else (*said, found)
        for i, (said, found) in enumerate(zip(known, fields, strict=True))
    )
    opened: list[Signed | OmsError] = [
        one if isinstance(one, OmsError) else _opened(envelope, *one, next(read))
        for envelope, one in zip(given, proved, strict=True)
    ]
    if errors == "collect":
        return opened
    good: list[Signed] = []
    for signed in opened:
        if isinstance(signed, OmsError):
            raise signed
        good.append(signed)
    return good


def _opened(
    envelope: bytes, blob: bytes, proof: Proof, parts: _Parts | OmsError
) -> Signed | OmsError:
    """A proved grain of the parts that the core has read, as if its signed bit were not there."""
    if isinstance(parts, OmsError):
        if parts.offset is not None:
            parts.offset += envelope.find(blob)
        return parts
    name, notes, fields = parts
    version, flags, type_byte, ns_hash, created_at = _core.header(blob)
    header = (version, flags | SIGNED_BIT, type_byte, ns_hash, created_at)
    grain = Grain._of(blob, header, name, notes, fields)
    author = grain.get("author_did")
    matches = None if author is None else author == proof.signer
    return Signed(grain, proof.signer, proof.iat, matches, envelope)
