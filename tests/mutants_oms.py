# SPDX-License-Identifier: Apache-2.0
"""Rules of OMS that are broken on purpose, and those of conformance that must notice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from mutants import (
    Mutant,
    always,
    instead,
    nothing,
    reader,
    rewritten,
    writer,
)

__all__ = ["MUTANTS"]

_READ = ("omsgrain._core.verify", "omsgrain._core.check")
_WRITE = ("omsgrain._core.encode", "omsgrain._core.encode_plain")
_POLICY = "omsgrain.index.policy."

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
        reader("less than the tags"),
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
        ("omsgrain.crypto.elided.refuse_unless_elidable",),
        nothing,
        "oms.disclosure",
        "oms.disclosure.shown",
    ),
    Mutant(
        "guesses",
        ("omsgrain.crypto.elided.guessable",),
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
    # containers
    Mutant(
        "footers",
        ("omsgrain.container.verify._Check.footer",),
        nothing,
        "oms.file",
        "oms.file.footer oms.file.every-byte",
    ),
    Mutant(
        "sorted files",
        ("omsgrain.container.verify._Check._check_order",),
        nothing,
        "oms.file",
        "oms.file.sorted",
    ),
    Mutant(
        "manifests",
        ("omsgrain.container.verify._Check.manifest",),
        nothing,
        "oms.file",
        "oms.file.manifest oms.file.manifest.others oms.file.import.verified",
    ),
    Mutant(
        "end marks",
        ("omsgrain.container.stream.END",),
        instead(b""),
        "oms.stream",
        "oms.stream.frames",
    ),
    # policies
    Mutant(
        "locks",
        (f"{_POLICY}modes._ASK",),
        lambda real: {**real, "locked": lambda *_: False},
        "oms.policy",
        "oms.policy.locked oms.policy.unknown oms.policy.malformed oms.policy.timed "
        "oms.policy.timed.malformed oms.policy.scope.subtree oms.policy.scope.lineage "
        "oms.policy.scope.grain oms.policy.scope.unknown",
    ),
    Mutant(
        "reasons",
        (f"{_POLICY}modes._ASK",),
        lambda real: {**real, "soft_locked": lambda *_: True},
        "oms.policy.soft",
        "oms.policy.soft.without",
    ),
    Mutant(
        "quorums",
        (f"{_POLICY}modes._count",),
        always(1),
        "oms.policy.quorum",
        "oms.policy.quorum",
    ),
    Mutant(
        "delegates",
        (f"{_POLICY}modes._ASK",),
        lambda real: {**real, "delegated": lambda *_: False},
        "oms.policy",
        "oms.policy.delegated",
    ),
    Mutant(
        "authors",
        (f"{_POLICY}modes.separate",),
        nothing,
        "oms.policy.author oms.policy.quorum",
        "oms.policy.author",
    ),
    Mutant(
        "steps",
        (f"{_POLICY}reach.HOPS",),
        instead(15),
        "oms.policy.scope",
        "oms.policy.scope.subtree",
    ),
    Mutant(
        "evidence",
        (f"{_POLICY}goals.evidence",),
        nothing,
        "oms.goal",
        "oms.goal.evidence oms.goal.evidence.put",
    ),
    Mutant(
        "dependencies",
        (f"{_POLICY}goals.dependencies",),
        nothing,
        "oms.goal",
        "oms.goal.depends",
    ),
    Mutant(
        "laundering",
        (f"{_POLICY}goals.inherit",),
        nothing,
        "oms.goal",
        "oms.goal.laundering",
    ),
    # stores
    Mutant(
        "tombstones",
        ("omsgrain.store.tombstones.add",),
        nothing,
        "oms.erase",
        "oms.erase.again",
    ),
    Mutant(
        "holds",
        (f"{_POLICY}decide._holds",),
        nothing,
        "oms.policy.hold",
        "oms.policy.hold.erasure oms.policy.hold.store oms.policy.hold.authorities",
    ),
    Mutant(
        "what is kept",
        ("omsgrain.engine.rights.keeping.refusal",),
        always(None),
        "oms.erase oms.policy.hold",
        "oms.policy.hold.erasure oms.policy.hold.authorities oms.erase.kept",
    ),
    Mutant(
        "the oldest first",
        ("omsgrain.index.query.run",),
        lambda real: lambda *a, **k: real(*a, **{**k, "order": "oldest"}),
        "oms.store.order oms.store.envelope",
        "oms.store.order oms.store.envelope",
    ),
    Mutant(
        "ends of truth",
        ("omsgrain.index.holds._time",),
        always(None),
        "oms.time",
        "oms.time.valid oms.time.known",
    ),
    Mutant(
        "chains",
        ("omsgrain.store.audit.writing.link",),
        lambda real: lambda previous, body: real(bytes(32), body),
        "oms.audit",
        "oms.audit.chain oms.audit.tail",
    ),
)
