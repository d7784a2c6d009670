# SPDX-License-Identifier: Apache-2.0
"""The modes of an invalidation policy, and what each requires. Spec: OMS §23.2, §23.3.

An unknown mode or scope, a map without a mode, or an unreachable quorum counts as locked. A new
word must never open an old lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from omsgrain.grain import Grain, make
from omsgrain.policy.reach import Act, Scope, denied, goes_by, replaced

Mode = Literal["open", "soft_locked", "locked", "quorum", "delegated", "hold", "consent_cascade"]

FIELD = "invalidation_policy"
#: Modes that deny nothing.
FREE = frozenset(("open", "consent_cascade"))
#: Modes that the grain's author may not lift. A hold that is not binding is a lock.
SEPARATE = frozenset(("locked", "quorum", "hold"))
_MODES: Mapping[str, Mode] = MappingProxyType({mode: mode for mode in get_args(Mode)})
_SCOPES: Mapping[str, frozenset[Scope]] = MappingProxyType(
    {"grain": frozenset(), "subtree": frozenset({"subtree"}), "lineage": frozenset({"lineage"})}
)
_WIDEST: frozenset[Scope] = frozenset({"subtree", "lineage"})


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a grain at a moment."""

    # the effective mode: a timed lock is locked or its fallback, and an unknown mode is locked
    mode: Mode
    rule: str  # the name in a denial: the mode, ``timed`` or ``unknown``
    terms: Mapping[str, Any]  # the policy map of the grain
    scopes: frozenset[Scope] = frozenset()  # how far it extends beyond the grain
    fault: str | None = None  # JSON pointer to the part that is unknown or invalid
    whose: str = "the grain"  # which grain has it, in words, relative to the target of the act


_NO_TERMS: Mapping[str, Any] = MappingProxyType({})
OPEN = Policy("open", "open", _NO_TERMS)
#: The policy of a consent without one. It is not written, because that would change the address.
CONSENT = Policy("soft_locked", "soft_locked", _NO_TERMS)


def read(grain: Grain, now: int, whose: str = "the grain") -> Policy:
    terms = grain.get(FIELD)
    if terms is None:
        return CONSENT if grain.type == "consent" else OPEN
    if not isinstance(terms, Mapping):  # possible in opaque grains
        return Policy("locked", "unknown", _NO_TERMS, fault=f"/{FIELD}", whose=whose)
    scope = terms.get("scope", "grain")
    scopes = _SCOPES.get(scope, _WIDEST) if isinstance(scope, str) else _WIDEST
    mode, rule, fault = _mode(terms, now)
    pointer = None if fault is None else f"/{FIELD}/{fault}"
    return Policy(mode, rule, terms, scopes, pointer, whose)


def covers_lineage(grain: Grain) -> bool:
    """Whether a grain's policy covers all its versions."""
    return FIELD in grain and "lineage" in read(grain, 0).scopes


def holds_others(grain: Grain) -> bool:
    """Whether a grain is a hold, or becomes one, that extends beyond itself."""
    terms = grain.get(FIELD)
    if not isinstance(terms, Mapping) or "hold" not in (
        terms.get("mode"),
        terms.get("fallback_mode"),
    ):
        return False
    return bool(read(grain, 0).scopes)


def _mode(terms: Mapping[str, Any], now: int) -> tuple[Mode, str, str | None]:
    """Return the mode, the rule, and the key that is unknown."""
    name, key = terms.get("mode"), "mode"
    if name == "timed":
        until = _count(terms.get("locked_until"))
        if until is None or now < until * 1000:
            return "locked", "timed", "locked_until" if until is None else None
        # A single step: a lock cannot fall back to "timed".
        name, key = terms.get("fallback_mode"), "fallback_mode"
    mode = _MODES.get(name) if isinstance(name, str) else None
    return ("locked", "unknown", key) if mode is None else (mode, mode, None)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= 0 else None


def ask(policy: Policy, grain: Grain, target: Grain, act: Act) -> bool:
    """Check an act against a policy; returns whether it needs a review."""
    return _ASK[policy.mode](policy, grain, target, act)


def _free(policy: Policy, grain: Grain, target: Grain, act: Act) -> bool:
    return False


def _soft_locked(policy: Policy, grain: Grain, target: Grain, act: Act) -> bool:
    written = None if act.new is None else act.new.get("supersession_justification")
    if any(isinstance(said, str) and said.strip() for said in (act.justification, written)):
        return True
    raise denied(
        f"{policy.whose} is soft_locked, so a change needs a justification",
        policy.rule,
        field="/supersession_justification",
        expected="a justification",
        found="none",
    )


def _locked(policy: Policy, grain: Grain, target: Grain, act: Act) -> bool:
    if policy.fault is not None:
        text = f"{policy.whose} is locked, because its policy is invalid"
        raise denied(text, policy.rule, field=policy.fault, found="unknown or missing")
    raise denied(f"{policy.whose} is locked", policy.rule, field=f"/{FIELD}")


def _quorum(policy: Policy, grain: Grain, target: Grain, act: Act) -> bool:
    authorized = _authorized(policy)
    needed = _count(policy.terms.get("threshold"))
    if needed is None or not 1 <= needed <= len(authorized):
        raise denied(
            f"{policy.whose} is locked, because its quorum is impossible",
            policy.rule,
            field=f"/{FIELD}/threshold",
            expected="1 to the number of authorized DIDs",
            found="another value",
        )
    separate(grain, act)
    # One key under two names has one vote, and the author's key has none.
    author = grain.get("author_did")
    votes = {did: act.keys.get(did, did) for did in authorized & act.co_signers}
    own = {author, votes.get(author)} if isinstance(author, str) else set()
    found = {key for did, key in votes.items() if own.isdisjoint((did, key))}
    if len(found) < needed:
        raise denied(
            f"{policy.whose} requires a quorum",
            policy.rule,
            field="/supersession_auth",
            expected=f"{needed} signatures by distinct keys of authorized DIDs, not by the author",
            found=str(len(found)),
        )
    return False


def _delegated(policy: Policy, grain: Grain, target: Grain, act: Act) -> bool:
    authorized = _authorized(policy)
    if authorized & act.co_signers:
        return False
    if not authorized & act.signers:
        raise denied(
            f"only an authorized DID may invalidate {policy.whose}",
            policy.rule,
            expected="the signature of an authorized DID",
            found=f"{len(act.signers)} signatures of others",
        )
    # A delegate signs many statements. Only one about this grain permits to supersede it.
    if act.new is not None and replaced(act.new).isdisjoint(goes_by(act.address, target)):
        raise denied(
            f"the delegate did not sign the supersession of {policy.whose}",
            policy.rule,
            field="/derived_from",
            expected="the address of the superseded grain in derived_from, or in related_to with "
            "replaces; or a signature of the delegate in supersession_auth",
            found="another statement",
        )
    return False


def _authorized(policy: Policy) -> frozenset[str]:
    named = policy.terms.get("authorized")
    if isinstance(named, list) and named and all(isinstance(did, str) for did in named):
        return frozenset(named)
    raise denied(
        f"{policy.whose} is locked, because its policy authorizes no one",
        policy.rule,
        field=f"/{FIELD}/authorized",
        expected="DIDs",
        found="none",
    )


def separate(grain: Grain, act: Act) -> None:
    """Deny an act by the DID that wrote the grain. Spec: OMS §23.8.

    Otherwise an agent that works under its user's key could pass as the user.
    """
    author = grain.get("author_did")
    writer = None if act.new is None else act.new.get("author_did")
    if isinstance(author, str) and (author == writer or author in act.signers):
        raise denied(
            "the author of a locked or quorum grain may not supersede it",
            "key_separation",
            field="/author_did",
            expected="another DID",
            found="the author of the grain",
        )


# A binding hold denies earlier; a hold that is not binding is a lock.
_ASK: Mapping[Mode, Callable[[Policy, Grain, Grain, Act], bool]] = MappingProxyType(
    {
        "open": _free,
        "consent_cascade": _free,
        "soft_locked": _soft_locked,
        "locked": _locked,
        "quorum": _quorum,
        "delegated": _delegated,
        "hold": _locked,
    }
)


_HEADER = 9
_TEN_TYPES = 10


def claim(new: Grain) -> bytes:
    """Return the claim that a superseding grain makes, which co-signers sign.

    It is the canonical payload in the grain's own encoding, uncompressed, without the
    co-signatures. Each signature also covers the superseded grain's address as external data, so
    that it permits no other supersession. Spec: OMS §23.2
    """
    fields = new.to_dict()
    fields.pop("supersession_auth", None)
    byte = new.header.type_byte
    bare = make(
        fields,
        encoding=new.header.encoding,
        keep_type_name=True,
        type_byte=byte if byte > _TEN_TYPES else None,
    )
    return bare.blob[_HEADER:]
