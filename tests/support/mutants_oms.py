# SPDX-License-Identifier: Apache-2.0
"""Rules of OMS for one grain, broken on purpose, and those of conformance that must notice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from support.mutants import Mutant, always, instead, nothing, reader, rewritten, writer

__all__ = ["MUTANTS"]

_READ = ("omsgrain._core.verify", "omsgrain._core.check")
_WRITE = ("omsgrain._core.encode", "omsgrain._core.encode_plain")

MUTANTS: Final[tuple[Mutant, ...]] = (
    # what the core refuses
    Mutant(
        "short forms of integers",
        _READ,
        reader("shortest|shorter"),
        "oms.msgpack",
        "oms.msgpack.integers.unsigned oms.msgpack.integers.negative oms.msgpack.strings "
        "oms.msgpack.bytes oms.msgpack.arrays oms.msgpack.maps",
    ),
    Mutant(
        "order of keys",
        _READ,
        reader("not in order"),
        "oms.msgpack oms.cbor",
        "oms.msgpack.keys.sorted oms.cbor.keys",
    ),
    Mutant(
        "keys twice",
        _READ,
        reader("twice"),
        "oms.msgpack oms.cbor",
        "oms.msgpack.keys.unique oms.cbor.keys",
    ),
    Mutant(
        "composed text",
        _READ,
        reader("normal form C"),
        "oms.text",
        "oms.text.nfc",
    ),
    Mutant(
        "floats that are none",
        _READ,
        reader("NaN"),
        "oms.floats oms.cbor",
        "oms.floats.finite",
    ),
    Mutant(
        "nulls",
        _READ,
        reader("holds a null"),
        "oms.msgpack oms.cbor",
        "oms.msgpack.nil oms.cbor.simple",
    ),
    Mutant(
        "sensitivity",
        _READ,
        reader("less than the tags|lower sensitivity than the tags"),
        "oms.header",
        "oms.header.sensitivity.lower",
    ),
    Mutant(
        "versions",
        _READ,
        reader("is not known"),
        "oms.header",
        "oms.header.version",
    ),
    Mutant(
        "seconds",
        _READ,
        reader("created_at differs"),
        "oms.header",
        "oms.header.created",
    ),
    Mutant(
        "bytes behind",
        _READ,
        reader("bytes follow the payload"),
        "oms.payload",
        "oms.payload.whole",
    ),
    Mutant(
        "empty texts",
        _WRITE,
        writer("ERR_EMPTY"),
        "oms.type",
        "oms.type.belief.empty oms.type.event.says oms.type.workflow.empty",
    ),
    Mutant(
        "ranges",
        _WRITE,
        writer("ERR_RANGE"),
        "oms.field.core",
        "oms.field.core.confidence oms.field.core.importance oms.field.core.success_count "
        "oms.field.core.failure_count oms.field.core.category",
    ),
    Mutant(
        "DIDs",
        _WRITE,
        writer("ERR_DID"),
        "oms.field.core",
        "oms.field.core.author_did oms.field.core.origin_did oms.field.core.observer_did "
        "oms.field.core.subject_did oms.field.core.invalidation_initiator",
    ),
    Mutant(
        "sizes",
        _WRITE,
        writer("ERR_TOO_LARGE"),
        "oms.profile",
        "oms.profile.lightweight oms.profile.standard oms.profile.extended",
    ),
    # what the core writes
    Mutant(
        "no namespace",
        _WRITE,
        rewritten(lambda b: b[:3] + b"\0\0" + b[5:]),
        "oms.vector",
        "oms.vector.1 oms.vector.2 oms.vector.5 oms.vector.6 oms.vector.belief",
    ),
    Mutant(
        "no seconds",
        _WRITE,
        rewritten(lambda b: b[:5] + bytes(4) + b[9:]),
        "oms.vector oms.write.order",
        "oms.vector.1 oms.vector.2 oms.vector.3 oms.vector.4 oms.vector.5 oms.vector.6 "
        "oms.vector.belief oms.write.order",
    ),
    Mutant(
        "upper-case addresses",
        ("omsgrain._core.address",),
        lambda real: lambda blob: real(blob).upper(),
        "oms.address",
        "oms.address",
    ),
    # signatures and identities
    Mutant(
        "signatures",
        ("omsgrain.crypto.cose.Sign1.check",),
        nothing,
        "oms.sign oms.did",
        "oms.sign.alg-19 oms.sign.every-byte oms.sign.kid-of-another oms.sign.detached",
    ),
    Mutant(
        "DIDs that are none",
        ("omsgrain.crypto.did.parse",),
        lambda real: lambda text: real(text if text.startswith("did:") else "did:x:y"),
        "oms.sign oms.did",
        "oms.did.malformed",
    ),
    Mutant(
        "algorithms",
        ("omsgrain.crypto.cose.algorithm_of",),
        always(-8),
        "oms.sign oms.did",
        "oms.sign.others oms.sign.alg-19 oms.sign.author oms.sign.many oms.sign.detached",
    ),
    Mutant(
        "views",
        ("omsgrain.crypto.disclosure._compare",),
        nothing,
        "oms.disclosure",
        "oms.disclosure.forged",
    ),
    Mutant(
        "what must be shown",
        ("omsgrain.crypto.disclosure.refuse_unless_elidable",),
        nothing,
        "oms.disclosure",
        "oms.disclosure.shown",
    ),
    Mutant(
        "guesses",
        ("omsgrain.crypto.disclosure.guessable",),
        always(False),
        "oms.disclosure",
        "oms.disclosure.guessable",
    ),
    # seals
    Mutant(
        "nonces",
        ("omsgrain.crypto.seal.os",),
        instead(SimpleNamespace(urandom=bytes)),
        "oms.seal",
        "oms.seal.nonce",
    ),
    Mutant(
        "shown headers",
        ("omsgrain._core.sealed_header",),
        lambda real: lambda blob, whole, hidden, signed: real(blob, whole, False, signed),
        "oms.seal.header oms.seal.layout oms.seal.open",
        "oms.seal.header",
    ),
    Mutant(
        "salts",
        ("omsgrain.crypto.seal.user_key",),
        lambda real: (
            lambda root, name, *, salt, generation: real(
                root, name, salt=bytes(32), generation=generation
            )
        ),
        "oms.seal.hkdf oms.seal.open",
        "oms.seal.hkdf",
    ),
)
