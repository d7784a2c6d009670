# SPDX-License-Identifier: Apache-2.0
"""Signing in a store, and what signatures are asked for: policies, holds, required signatures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain import policy
from omsgrain.crypto import Signer, co_sign, with_signed_bit
from omsgrain.grain import stored_grain
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from omsgrain.store.trust import Required
from support.signed_stores import (
    EVERYWHERE,
    KINDS,
    WEB,
    WEB_ALICE,
    belief,
    find_web,
    make,
    signed,
    signed_by,
)
from support.signers import ALICE, BOB, CAROL, FIELDS, GRAIN, IAT, SMALL, Fixed

LATER = FIELDS["created_at"] + 1000
COURT = frozenset({CAROL.did})


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    with make(request.param, tmp_path) as opened:
        yield opened


def names(store: GrainStore, address: str) -> list[str]:
    return [one.signer for one in store.trust.signatures(address)]


def current(store: GrainStore) -> list[str]:
    return [hit.address for hit in store.query(relation="prefers").results]


# --- signing -------------------------------------------------------------------------------------


def test_a_signed_grain_of_the_store_supersedes_another(store: GrainStore) -> None:
    old = store.put({**FIELDS, "created_at": LATER})
    new = store.sign(store.put(FIELDS), ALICE, iat=IAT)
    assert store.supersede(old, store.get(new)) == new
    assert store.status(old).superseded_by == new
    assert names(store, new) == [ALICE.did]


def test_a_signed_grain_without_its_signature_supersedes_nothing(store: GrainStore) -> None:
    old = store.put({**FIELDS, "created_at": LATER})
    with pytest.raises(err.SignedMismatchError):
        store.supersede(old, with_signed_bit(GRAIN))


def test_an_unsigned_grain_is_superseded_by_a_signed_one(store: GrainStore) -> None:
    old = store.put(FIELDS)
    new = store.sign(old, ALICE, iat=IAT)
    grain = store.get(new)
    assert dict(grain) == {**FIELDS, "derived_from": [old]}
    assert grain.header.signed and new != with_signed_bit(GRAIN).address
    assert [version.address for version in store.history(new)] == [old, new]
    assert store.status(old).successors == (new,)
    assert store.status(old).system_valid_to == FIELDS["created_at"]
    assert current(store) == [new]
    assert og.crypto.open_signed(store.trust.envelope(new)).signer == ALICE.did
    assert [one.iat for one in store.trust.signatures(new)] == [IAT]
    assert store.trust.signatures(old) == []


def test_a_signed_grain_gets_one_more_signature(store: GrainStore) -> None:
    old = store.put(FIELDS)
    new = store.sign(old, ALICE)
    assert store.sign(new, BOB) == new
    assert store.sign(old, CAROL) == new  # the same grain would come of it
    assert store.sign(new, BOB) == store.sign(old, ALICE) == new
    assert names(store, new) == sorted(one.did for one in (ALICE, BOB, CAROL))
    for envelope in (store.trust.envelope(new, did) for did in names(store, new)):
        assert og.crypto.verify_signed(envelope, address=new) == store.get(new)
    assert len(store) == 2 and len(store.history(new)) == 2


def test_it_is_audited(store: GrainStore) -> None:
    old = store.put(FIELDS)
    new = store.sign(old, ALICE)
    store.sign(new, BOB)
    store.sign(new, BOB)  # nothing new
    told = [(entry.operation, entry.count) for entry in store.audit.entries()]
    assert told == [("put", 1), ("sign", 2), ("sign", 1)]
    assert len(list(store.audit.entries(address=new))) == 2
    assert store.audit.verify(grains=True).ok


@pytest.mark.parametrize("options", [{}, {"encoding": "cbor"}, {"compress": True}])
def test_the_form_stays(store: GrainStore, options: dict[str, Any]) -> None:
    tags = {"structural_tags": ["pii:name"], "derived_from": ["ab" * 32]}
    old = store.put(og.encode(FIELDS | tags, sensitivity="phi", **options))
    header = store.get(new := store.sign(old, BOB)).header
    before = store.get(old).header
    assert (header.encoding, header.compressed) == (before.encoding, before.compressed)
    assert header.sensitivity == before.sensitivity == 3
    assert store.get(new)["derived_from"] == ["ab" * 32, old]


@pytest.mark.parametrize(
    "blob",
    [
        og.encode(FIELDS | {"type": "fact"}, keep_type_name=True),
        og.encode({"type": "x", "created_at": 5, "hours": [1]}, type_byte=0xF0),
    ],
    ids=["older name", "opaque"],
)
def test_older_and_opaque_grains(store: GrainStore, blob: bytes) -> None:
    old = store.put(blob)
    new = store.get(store.sign(old, ALICE))
    assert new["type"] == store.get(old)["type"]
    assert new.header.type_byte == blob[2]


def test_an_opaque_grain_with_other_parents(store: GrainStore) -> None:
    fields = {"type": "x", "created_at": 5, "derived_from": "nobody"}
    old = store.put(og.encode(fields, type_byte=0xF0))
    with pytest.raises(err.SchemaError):
        store.sign(old, ALICE)


def test_a_name_that_cannot_be_resolved(tmp_path: Path) -> None:
    for kind, resolver in zip(KINDS, (None, find_web), strict=True):
        with make(kind, tmp_path, resolver=resolver) as store:
            address = store.sign(store.put(FIELDS), WEB_ALICE)
            assert [one.proven for one in store.trust.signatures(address)] == [
                resolver is not None
            ]


def test_grains_that_cannot_be_signed(store: GrainStore) -> None:
    class Broken:
        alg, did = ALICE.alg, ALICE.did

        def sign(self, data: bytes) -> bytes:
            return bytes(64)

    with pytest.raises(err.NotFoundError):
        store.sign("ab" * 32, ALICE)
    old = store.put(FIELDS)
    with pytest.raises(err.SignatureError):
        store.sign(old, Broken())
    with pytest.raises(err.RangeError):
        store.sign(old, ALICE, iat=-1)
    assert len(store) == 1 and store.status(old).superseded_by is None


def test_bytes_that_were_damaged_are_not_signed(tmp_path: Path) -> None:
    from omsgrain.storage.tables import BLOBS, SEQUENCE

    with make("lmdb", tmp_path) as store:
        old = store.put(FIELDS)
        context_of(store).inner.flush()
        with context_of(store).storage.read() as reader:
            row = reader.row(BLOBS, SEQUENCE.pack(1)) or b""
        bad = row.replace(b"dark mode", b"dusk mode")
        context_of(store).storage.write(
            lambda writer: writer.set_row(BLOBS, SEQUENCE.pack(1), bad)
        )
        with pytest.raises(err.IntegrityError):
            store.sign(old, ALICE)


def test_why_it_superseded_another_is_no_reason_to_sign_it(store: GrainStore) -> None:
    soft = {"invalidation_policy": {"mode": "soft_locked"}}
    first = store.put(belief("first", **soft))
    second = store.supersede(first, belief("second", **soft), justification="it changed")
    with pytest.raises(err.InvalidationDeniedError):
        store.sign(second, ALICE)
    third = store.sign(second, ALICE, justification="to prove it")
    assert store.get(third)["supersession_justification"] == "to prove it"
    assert [review.justification for review in store.reviews.pending()] == [
        "it changed",
        "to prove it",
    ]
    assert [g.address for g in store.history(third)] == [first, second, third]


def test_a_locked_grain_stays_unsigned(store: GrainStore) -> None:
    locked = store.put(belief("so", invalidation_policy={"mode": "locked"}))
    with pytest.raises(err.InvalidationDeniedError):
        store.sign(locked, ALICE)
    held = store.put(belief("held"))
    store.holds.add(held, authority="court", reason_code="case")
    with pytest.raises(err.InvalidationDeniedError):
        store.sign(held, ALICE)
    assert len(store) == 2 and store.audit.verify().ok


def test_a_locked_grain_that_came_signed_takes_more_signatures(store: GrainStore) -> None:
    envelope = signed_by(ALICE, belief("so", invalidation_policy={"mode": "locked"}))
    address = store.put(envelope)
    assert store.sign(address, BOB) == address
    assert names(store, address) == sorted((ALICE.did, BOB.did))


# --- policies ------------------------------------------------------------------------------------


def delegated(*authorized: Signer) -> dict[str, Any]:
    return {"mode": "delegated", "authorized": [one.did for one in authorized]}


def new_fields(**fields: Any) -> dict[str, Any]:
    return belief("light mode", created_at=LATER, author_did=CAROL.did, **fields)


def test_delegated_accepts_the_named_signer(store: GrainStore) -> None:
    rule: dict[str, Any] = {"invalidation_policy": delegated(BOB, CAROL)}
    old = store.put(belief("dark mode", **rule))
    rule["derived_from"] = [old]
    bad: list[Any] = [new_fields(**rule), signed_by(ALICE, new_fields(**rule))]
    for refused in bad:
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.supersede(old, refused)
        assert denied.value.rule == "delegated"
    assert len(store) == 1
    envelope = signed_by(BOB, new_fields(**rule))
    new = store.supersede(old, envelope)
    assert (current(store), names(store, new)) == ([new], [BOB.did])


def test_delegated_does_not_count_a_name_that_is_not_proven(tmp_path: Path) -> None:
    rule = {"invalidation_policy": {"mode": "delegated", "authorized": [WEB]}}
    fields = belief("dark mode", **rule)
    link = replaces(og.address(og.encode(fields)))
    envelope = signed_by(WEB_ALICE, new_fields(**rule, related_to=link))
    for kind, resolver in zip(KINDS, (None, find_web), strict=True):
        with make(kind, tmp_path, resolver=resolver) as store:
            old = store.put(fields)
            if resolver is None:
                with pytest.raises(err.InvalidationDeniedError):
                    store.supersede(old, envelope)
            else:
                new = store.supersede(old, envelope)
                assert current(store) == [new]


def test_delegated_counts_who_signed_before(store: GrainStore) -> None:
    """A grain that is in the store already has signatures of its own."""
    rule = {"invalidation_policy": delegated(BOB)}
    old = store.put(belief("dark mode", **rule))
    by_alice, by_bob = signed(new_fields(**rule, derived_from=[old]), ALICE, BOB)
    new = store.put(by_bob)
    assert store.supersede(old, by_alice) == new
    assert store.status(old).successors == (new,)
    assert names(store, new) == sorted((ALICE.did, BOB.did))


@pytest.mark.parametrize("lock", ["delegated", "timed"])
@pytest.mark.parametrize("stored", [False, True])
def test_another_statement_of_the_delegate_lifts_nothing(
    store: GrainStore, lock: str, stored: bool
) -> None:
    """Anybody can replay another statement that the delegate signed."""
    over = {"mode": "timed", "locked_until": 0, "fallback_mode": "delegated"}
    rule = {"invalidation_policy": {**delegated(BOB), **(over if lock == "timed" else {})}}
    old, other = store.put(belief("dark mode", **rule)), store.put(belief("of Monday"))
    links = {"related_to": [{"hash": old, "relation_type": "supports"}]}
    elsewhere: list[dict[str, Any]] = [{}, {"derived_from": [other]}, links]
    for about in (*elsewhere, {"related_to": replaces(other)}):
        replayed = signed_by(BOB, belief("good morning", created_at=LATER, **about))
        if stored:
            store.put(replayed)
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.supersede(old, replayed)
        assert (denied.value.rule, denied.value.field) == ("delegated", "/derived_from")
    assert store.status(old).superseded_by is None
    named: list[dict[str, Any]] = [{"derived_from": [other, old]}, {"related_to": replaces(old)}]
    for n, about in enumerate(named):
        new = store.supersede(old, signed_by(BOB, belief(f"{n}", created_at=LATER, **about)))
        assert new in store.status(old).successors


def test_a_policy_counts_no_key_of_small_order(store: GrainStore) -> None:
    """Anybody can sign under such a key, even if a policy names its DID."""
    weak = Fixed(-8, bytes.fromhex(SMALL[0]), bytes.fromhex(SMALL[0]) + bytes(32))
    for mode in ({"mode": "delegated"}, {"mode": "quorum", "threshold": 1}):
        rule = {"invalidation_policy": {**mode, "authorized": [weak.did]}}
        old = store.put(belief("dark mode", **rule))
        fields = new_fields(derived_from=[old])
        made = og.Grain(og.encode(fields))
        entry = weak.detached(policy.claim(made), bytes.fromhex(old))
        with pytest.raises(err.DidError):
            store.supersede(old, weak.envelope(with_signed_bit(made).blob))
        with pytest.raises(err.InvalidationDeniedError):
            store.supersede(old, {**fields, "supersession_auth": [entry]})


def test_a_delegate_may_agree_apart_from_the_grain(store: GrainStore) -> None:
    """A signature over the superseding claim names the old grain as external data."""
    rule = {"invalidation_policy": delegated(BOB)}
    old, other = (store.put(belief(name, **rule)) for name in ("dark mode", "another"))
    for refused in (with_auth(old, ALICE, **rule), with_auth(other, BOB, **rule)):
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.supersede(old, refused)
        assert denied.value.rule == "delegated"
    new = store.supersede(old, with_auth(old, BOB, **rule))
    assert store.status(old).successors == (new,)


def test_signing_obeys_delegated(store: GrainStore) -> None:
    old = store.put(belief("dark mode", invalidation_policy=delegated(BOB)))
    with pytest.raises(err.InvalidationDeniedError):
        store.sign(old, ALICE)
    assert len(store) == 1
    new = store.sign(old, BOB)
    assert current(store) == [new]


def replaces(address: str) -> list[dict[str, str]]:
    return [{"hash": address, "relation_type": "replaces"}]


def with_auth(old: str, *agree: Signer, **fields: Any) -> dict[str, Any]:
    fields = new_fields(**fields)
    claim = policy.claim(og.Grain(og.encode(fields)))
    return {**fields, "supersession_auth": [co_sign(claim, old, one) for one in agree]}


def quorum(threshold: int, *named: str) -> dict[str, Any]:
    return {"mode": "quorum", "threshold": threshold, "authorized": list(named)}


def test_quorum_counts_real_signatures(store: GrainStore) -> None:
    rule = {"invalidation_policy": quorum(2, ALICE.did, BOB.did, CAROL.did)}
    old = store.put(belief("dark mode", **{**rule, "author_did": "did:example:author"}))
    for few in ((), (BOB,), (BOB, BOB)):
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.supersede(old, with_auth(old, *few, **rule))
        assert denied.value.rule == "quorum"
    with pytest.raises(err.InvalidationDeniedError):  # signatures for another supersession
        store.supersede(old, with_auth("ab" * 32, ALICE, BOB, **rule))
    assert len(store) == 1
    assert current(store) == [old]
    new = store.supersede(old, with_auth(old, ALICE, BOB, **rule))
    assert current(store) == [new]


def test_a_quorum_asks_the_resolver_for_those_it_names_only(tmp_path: Path) -> None:
    asked: list[str] = []

    def resolver(did: str) -> Any:
        asked.append(did)
        return find_web(did)

    stranger = type(WEB_ALICE)(WEB_ALICE._key, "did:web:evil.example")
    with make("memory", tmp_path, resolver=resolver) as store:
        rule = {"invalidation_policy": quorum(1, WEB)}
        old = store.put(belief("dark mode", **{**rule, "author_did": "did:example:author"}))
        with pytest.raises(err.InvalidationDeniedError):
            store.supersede(old, with_auth(old, stranger, **rule))
        assert asked == []
        store.supersede(old, with_auth(old, stranger, WEB_ALICE, **rule))
        assert asked == [WEB]


def test_one_key_under_two_names_is_one_vote(tmp_path: Path) -> None:
    named = quorum(2, ALICE.did, WEB, BOB.did)
    with make("memory", tmp_path, resolver=find_web) as store:
        rule = {"invalidation_policy": named, "author_did": "did:example:author"}
        old = store.put(belief("dark mode", **rule))
        for few in ((ALICE, WEB_ALICE), (WEB_ALICE, ALICE, ALICE)):
            with pytest.raises(err.InvalidationDeniedError) as denied:
                store.supersede(old, with_auth(old, *few))
            assert (denied.value.rule, denied.value.found) == ("quorum", "1")
        new = store.supersede(old, with_auth(old, WEB_ALICE, BOB))
        assert store.status(old).successors == (new,)


@pytest.mark.parametrize("author", [ALICE.did, WEB])
def test_the_author_does_not_vote_under_another_name(tmp_path: Path, author: str) -> None:
    rule = {"invalidation_policy": quorum(1, ALICE.did, WEB), "author_did": author}
    with make("memory", tmp_path, resolver=find_web) as store:
        old = store.put(belief("dark mode", **rule))
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.supersede(old, with_auth(old, ALICE, WEB_ALICE))
        assert (denied.value.rule, denied.value.found) == ("quorum", "0")


def test_every_quorum_on_the_way_limits_the_signers(store: GrainStore) -> None:
    """The policy of an ancestor binds who supersedes what was derived from it."""
    rule = {"invalidation_policy": quorum(1, BOB.did)}
    root = store.put(belief("root", **{**rule, "author_did": "did:example:author"}))
    old = store.put(belief("leaf", derived_from=[root]))
    with context_of(store).storage.read() as reader:
        from omsgrain.store.policy_context import PolicyContext

        new = og.Grain(og.encode(new_fields()))
        act = policy.Act("supersede", old, new=new)
        assert policy.authorized(PolicyContext(reader, new), act) == {BOB.did}
        gone = policy.Act("supersede", "ab" * 32, new=new)
        assert policy.authorized(PolicyContext(reader, new), gone) == frozenset()
    with pytest.raises(err.InvalidationDeniedError):
        store.supersede(old, with_auth(old, ALICE))
    store.supersede(old, with_auth(old, BOB))
    assert store.status(old).superseded_by is not None


# --- holds in grains -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_hold_in_a_grain_binds_if_an_authority_signed_it(kind: str, tmp_path: Path) -> None:
    hold = belief("kept", invalidation_policy={"mode": "hold"})
    by_alice, by_court = signed(hold, ALICE, CAROL)
    with make(kind, tmp_path, hold_authorities=COURT) as store:
        unsigned = store.put(hold)
        assert rule_of(store, unsigned, "supersede") == "hold"
        assert rule_of(store, unsigned, "erase") is None
        address = store.put(by_alice)
        assert rule_of(store, address, "erase") is None
        store.put(by_court)
        assert rule_of(store, address, "erase") == rule_of(store, address, "delete") == "hold"
    with make("memory", tmp_path) as store:  # nobody is named, so everybody's binds
        assert rule_of(store, store.put(hold), "erase") == "hold"


def rule_of(store: GrainStore, address: str, operation: Any) -> str | None:
    """The rule that refuses an operation."""
    from omsgrain.store.policy_context import PolicyContext

    new = og.Grain(og.encode(new_fields())) if operation == "supersede" else None
    act = policy.Act(operation, address, new=new)
    with context_of(store).storage.read() as reader:
        try:
            policy.check(
                PolicyContext(reader, *([] if new is None else [new])),
                act,
                hold_authorities=context_of(store).settings.hold_authorities,
            )
        except err.InvalidationDeniedError as denied:
            return denied.rule
    return None


# --- required signatures -------------------------------------------------------------------------

ROBOTS = {"namespace": ["robots:*", "house"]}


@pytest.mark.parametrize(
    ("value", "fields", "asked"),
    [
        (True, {}, True),
        ({"type": ["belief"]}, {}, True),
        ({"type": ["fact", "goal"]}, {}, True),
        ({"type": ["goal"]}, {}, False),
        (ROBOTS, {"namespace": "robots:arm"}, True),
        (ROBOTS, {"namespace": "house"}, True),
        (ROBOTS, {"namespace": "robots"}, False),
        (ROBOTS, {"namespace": "houses"}, False),
        (ROBOTS, {"namespace": None}, False),
        ({"namespace": ["nai\u0308ve:*"]}, {"namespace": "na\u00efve:arm"}, True),
        ({"type": ["belief"], **ROBOTS}, {"namespace": "robots:arm"}, True),
        ({"type": ["goal"], **ROBOTS}, {"namespace": "robots:arm"}, False),
        ({"type": ["belief"], **ROBOTS}, {"namespace": "elsewhere"}, False),
    ],
)
def test_which_grains_are_asked(value: Any, fields: dict[str, Any], asked: bool) -> None:
    required = Required.parse(value)
    assert required is not None
    assert required.asks(og.Grain(og.encode(FIELDS | fields))) is asked


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (True, True),
        ({"type": ["belief"]}, True),
        ({"type": ["goal"]}, False),
        (ROBOTS, True),  # its namespace cannot be read
        ({"type": ["goal"], **ROBOTS}, False),
    ],
)
def test_sealed_grains_are_asked_if_in_doubt(value: Any, asked: bool) -> None:
    sealed = stored_grain(bytes((1, 2, 1)) + bytes(60), "ab" * 32)
    required = Required.parse(value)
    assert required is not None and required.asks(sealed) is asked


@pytest.mark.parametrize(
    "value",
    [
        {}, {"type": []}, {"type": "belief"}, {"type": ["nothing"]}, {"type": [7]},
        {"kind": ["x"]}, {"namespace": ["robots*"]}, {"namespace": ["*"]}, {"namespace": [""]},
        "all", 1, ["belief"],
    ],
)  # fmt: skip
def test_invalid_signature_requirements(value: Any) -> None:
    with pytest.raises(err.SchemaError):
        Required.parse(value)


def test_nothing_required() -> None:
    assert Required.parse(False) is Required.parse(None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_requires_signatures(kind: str, tmp_path: Path) -> None:
    asked = Required.parse({"namespace": ["robots:*"]})
    fields = belief("ready", namespace="robots:arm")
    with make(kind, tmp_path, require=asked) as store:
        store.put(FIELDS)
        items: list[Any] = [fields, signed_by(WEB_ALICE, fields)]
        for item in items:
            with pytest.raises(err.SignatureError):
                store.put(item)
        envelope = signed_by(BOB, fields)
        address = store.put(envelope)
        report = store.put_many([fields, envelope, FIELDS], errors="collect")
        assert [(bad.index, bad.error.code) for bad in report.errors] == [(0, "ERR_SIGNATURE")]
        assert (report.stored, report.duplicates) == (0, 2)
        assert store.sign(address, ALICE) == address
        with pytest.raises(err.SignatureError):
            store.supersede(address, {**fields, "created_at": LATER})
        assert store.supersede(address, signed_by(ALICE, {**fields, "created_at": LATER}))
