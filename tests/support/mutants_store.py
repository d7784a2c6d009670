# SPDX-License-Identifier: Apache-2.0
"""Rules of OMS for containers and stores, broken on purpose, and those that must notice."""

from __future__ import annotations

from typing import Final

from support.mutants import Mutant, always, instead, nothing

__all__ = ["MUTANTS"]

_POLICY = "omsgrain.policy."

MUTANTS: Final[tuple[Mutant, ...]] = (
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
    Mutant(
        "rebuilding",
        ("omsgrain.storage.lmdb.storage.LmdbStorage.rebuild",),
        nothing,
        "oms.store.rebuild",
        "oms.store.rebuild",
    ),
    # policies
    Mutant(
        "tools of delegates",
        (f"{_POLICY}delegation._allows",),
        lambda real: (
            lambda grain, name, value: name == "authorized_tools" or real(grain, name, value)
        ),
        "oms.delegation",
        "oms.delegation.bounds",
    ),
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
        ("omsgrain.storage.tombstones.add",),
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
        ("omsgrain.store.privacy.removal.refusal",),
        always(None),
        "oms.erase oms.policy.hold",
        "oms.policy.hold.erasure oms.policy.hold.authorities oms.erase.kept",
    ),
    Mutant(
        "the oldest first",
        ("omsgrain.query.query.run",),
        lambda real: lambda *a, **k: real(*a, **{**k, "order": "oldest"}),
        "oms.store.order oms.store.envelope",
        "oms.store.order oms.store.envelope",
    ),
    Mutant(
        "ends of truth",
        ("omsgrain.query.walk._time",),
        always(None),
        "oms.time",
        "oms.time.valid oms.time.known",
    ),
    Mutant(
        "chains",
        ("omsgrain.storage.audit.log.link",),
        lambda real: lambda previous, body: real(bytes(32), body),
        "oms.audit",
        "oms.audit.chain oms.audit.tail",
    ),
)
