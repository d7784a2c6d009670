# SPDX-License-Identifier: Apache-2.0
"""Selective disclosure: views that hold, values shown later, and every forgery refused."""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import disclosures
import omsgrain as og
from omsgrain import registry
from omsgrain.crypto import Ed25519Signer, disclosure, open_signed, sign, with_signed_bit
from omsgrain.crypto.disclosure import (
    ELIDED,
    ORIGINAL,
    Disclosed,
    check_disclosure,
    disclose,
    reveal,
    view_of,
)
from omsgrain.errors import (
    BY_CODE,
    DidError,
    IntegrityError,
    KeyMissingError,
    OmsError,
    SchemaError,
    SensitivityMismatchError,
    SignatureError,
    TooLargeError,
)
from omsgrain.grain import Encoding, bare, make, stored_grain
from support.crafted_blobs import made
from support.minimal_grains import minimal
from support.random_grains import grains
from support.signers import ALICE, IAT

VECTORS = json.loads(disclosures.DATA.read_text(encoding="utf-8"))
GOOD = [vector for vector in VECTORS if "address" in vector]
FORGED = [vector for vector in VECTORS if "expect_error" in vector]
ENCODINGS: tuple[Encoding, ...] = ("msgpack", "cbor")

LONG = "Kirchweg 17, 8123 Ebmatingen"  # long enough not to be warned of
FIELDS = minimal("belief", subject=LONG, object={"phone": "x" * 40}, user_id="person-" * 5)
GRAIN = og.Grain(og.encode(FIELDS))
VIEW = disclose(GRAIN, ["subject", "user_id"])

NOT_ELIDABLE = [field.name for field in registry.FIELDS if not field.elidable]


def elidable(grain: og.Grain) -> list[str]:
    return [name for name in grain if name not in NOT_ELIDABLE]


def grain_of(blob: bytes) -> og.Grain:
    return with_signed_bit(og.Grain(bare(blob))) if blob[1] & 1 else og.Grain(blob)


def rewritten(view: og.Grain, **changes: Any) -> og.Grain:
    """The view with some fields set, and those given as ... left out."""
    fields = {n: v for n, v in (view.to_dict() | changes).items() if v is not ...}
    return make(
        fields,
        encoding=view.header.encoding,
        sensitivity=view.header.sensitivity,
        keep_type_name=True,
    )


def other(value: Any) -> Any:
    """A value of the same kind, but another."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, bytes):
        return value + b"x"
    if isinstance(value, list):
        return [*value, *value[:1]] if value else ["x"]
    if isinstance(value, dict):
        return value | {"x_other": 1}
    if isinstance(value, float):
        return 0.25 if value == 0.5 else 1 - value
    return value + (1 if value <= 0 else -1)


@pytest.mark.parametrize("vector", GOOD, ids=lambda v: v["id"])
def test_vectors(vector: dict[str, Any]) -> None:
    whole = grain_of(bytes.fromhex(vector["original_hex"]))
    view = view_of(whole, vector["hide"])
    assert view.blob.hex() == vector["view_hex"]
    assert (view.address, whole.address) == (vector["address"], vector["disclosure_of"])
    assert view.fields[ELIDED] == vector["elided"]
    assert view[ORIGINAL] == vector["disclosure_of"]
    found = check_disclosure(view, whole)
    assert found.verified
    assert set(found.hidden) == set(vector["hide"])
    assert reveal(view, {name: whole[name] for name in vector["hide"]}).blob == whole.blob


@pytest.mark.parametrize("vector", FORGED, ids=lambda v: v["id"])
def test_forged_vectors(vector: dict[str, Any]) -> None:
    whole, view = (bytes.fromhex(vector[name]) for name in ("original_hex", "view_hex"))
    with pytest.raises(BY_CODE[vector["expect_error"]]):
        check_disclosure(view, whole)


def test_the_vectors_are_what_the_oracle_gives() -> None:
    assert disclosures.DATA.read_text(encoding="utf-8") == disclosures.text()


@settings(max_examples=settings().max_examples // 2)
@given(grains(), st.sampled_from(ENCODINGS), st.integers(0, 3), st.booleans(), st.randoms())
def test_any_fields_can_be_hidden(
    fields: dict[str, Any], encoding: Encoding, level: int, signed: bool, rng: Random
) -> None:
    options: dict[str, Any] = {"encoding": encoding, "sensitivity": level}
    whole = og.Grain(og.encode(fields, keep_type_name=True, **options))
    names = elidable(whole)
    assume(names and not disclosure.is_view(whole))
    whole = with_signed_bit(whole) if signed else whole
    hide = rng.sample(names, rng.randint(1, len(names)))
    values = {name: whole[name] for name in hide}
    view = view_of(whole, hide)

    assert check_disclosure(view, whole).hidden == tuple(view.fields[ELIDED])
    assert check_disclosure(view.blob).verified is False
    assert set(view) == set(whole) - set(hide) | {ELIDED, ORIGINAL}
    same = ("type_byte", "created_at", "encoding", "sensitivity")
    assert [getattr(view.header, n) for n in same] == [getattr(whole.header, n) for n in same]
    assert not view.header.signed

    back = reveal(view, values)
    assert (back.blob, back.address, back.fields) == (whole.blob, whole.address, whole.fields)
    first, rest = hide[:1], hide[1:]
    if rest:  # in two steps, there and back
        assert view_of(view_of(whole, first), rest).blob == view.blob
        assert reveal(view, {first[0]: values[first[0]]}).blob == view_of(whole, rest).blob

    forged = rng.choice(hide)
    with pytest.raises(OmsError):  # not what was hidden, or what no such field can be
        reveal(view, values | {forged: other(values[forged])})
    shown = [name for name in view if name not in (ELIDED, ORIGINAL, "type")]
    changed = rng.choice(shown)
    try:
        wrong = rewritten(view, **{changed: other(view[changed])})
    except OmsError:
        return  # the grain's own rules refuse it already
    with pytest.raises((IntegrityError, SensitivityMismatchError)):
        check_disclosure(wrong, whole)


@pytest.mark.parametrize(
    ("hide", "error", "field"),
    [
        ([], SchemaError, None), (["nothing"], SchemaError, "/nothing"),
        (["object", "s"], SchemaError, "/s"), (["a/b~c"], SchemaError, "/a~1b~0c"),
        (["session_id"], SchemaError, "/session_id"), ([ELIDED], SchemaError, "/" + ELIDED),
        (["superseded_by"], SchemaError, "/superseded_by"),
        *(([name], SchemaError, f"/{name}") for name in NOT_ELIDABLE),
    ],
)  # fmt: skip
def test_fields_that_cannot_be_hidden(
    hide: list[str], error: type[OmsError], field: str | None
) -> None:
    whole = og.Grain(og.encode(FIELDS | {"invalidation_policy": {"mode": "locked"}}))
    with pytest.raises(error) as caught:
        disclose(whole, hide)
    assert caught.value.field == field


def test_names_not_one_text() -> None:
    with pytest.raises(TypeError):
        disclose(GRAIN, "subject")


def test_a_name_twice_and_in_another_form() -> None:
    whole = og.Grain(og.encode(FIELDS | {"caf\u00e9": LONG}))
    view = disclose(whole, ["cafe\u0301", "caf\u00e9"])
    assert list(view[ELIDED]) == ["caf\u00e9"]
    assert reveal(view, {"cafe\u0301": LONG}) == whole


def test_a_view_of_a_view() -> None:
    twice = disclose(VIEW, ["object"])
    assert twice[ORIGINAL] == GRAIN.address
    assert set(twice[ELIDED]) == {"subject", "user_id", "object"}
    assert check_disclosure(twice, GRAIN).verified
    with pytest.raises(IntegrityError):
        check_disclosure(twice, VIEW)
    with pytest.raises(SchemaError) as caught:
        disclose(VIEW, ["user_id"])
    assert caught.value.field == "/user_id"
    # Written by others with a prefix: read, and written without.
    prefixed = rewritten(VIEW, **{ORIGINAL: "sha256:" + GRAIN.address})
    assert check_disclosure(prefixed, GRAIN).original == GRAIN.address
    assert disclose(prefixed, ["object"]) == twice


@pytest.mark.parametrize(
    "fields",
    [
        {ELIDED: {"user_id": "sha256:" + "0" * 64}}, {ORIGINAL: "0" * 64},
        {ELIDED: {}, ORIGINAL: "0" * 64},
    ],
)  # fmt: skip
def test_half_a_disclosure(fields: dict[str, Any]) -> None:
    half = og.Grain(og.encode(minimal("belief", subject=LONG, **fields)))
    with pytest.raises(SchemaError):
        disclose(half, ["subject"])
    with pytest.raises(SchemaError):
        reveal(half, {"user_id": "x"})
    with pytest.raises(SchemaError):
        check_disclosure(half, GRAIN)


@pytest.mark.parametrize(
    "fields",
    [
        {ELIDED: 5, ORIGINAL: "0" * 64}, {ELIDED: {"x": 5}, ORIGINAL: "0" * 64},
        {ELIDED: {"x": "0" * 64}, ORIGINAL: "0" * 64},
        {ELIDED: {"x": "sha256:" + "0" * 63}, ORIGINAL: "0" * 64},
        {ELIDED: {"x": "sha256:" + "0" * 64}, ORIGINAL: "A" * 64},
        {ELIDED: {"x": "sha256:" + "0" * 64}, ORIGINAL: [1]},
        {ELIDED: {"relation": "sha256:" + "0" * 64}, ORIGINAL: "0" * 64},
    ],
)  # fmt: skip
def test_the_core_does_not_look_into_opaque_grains(fields: dict[str, Any]) -> None:
    view = og.Grain(og.encode({"type": "drone"} | fields, type_byte=0xF0))
    with pytest.raises((SchemaError, og.errors.AddressError)):
        check_disclosure(view)


def test_with_an_envelope() -> None:
    plain = og.Grain(og.encode(FIELDS | {"author_did": ALICE.did}))
    envelope = sign(plain, ALICE, iat=IAT)
    whole = open_signed(envelope).grain
    view = disclose(whole, ["subject"])
    assert view[ORIGINAL] == whole.address
    for original in (None, whole):
        found = check_disclosure(view, original, envelope=envelope)
        assert found.proof is not None
        assert (found.verified, found.proof.signer, found.proof.iat) == (True, ALICE.did, IAT)
    assert check_disclosure(view, whole) == Disclosed(
        view, whole.address, ("subject",), True, None
    )
    with pytest.raises(IntegrityError):  # the unsigned grain has another address
        check_disclosure(view, plain)
    with pytest.raises(IntegrityError):
        check_disclosure(view, plain, envelope=envelope)
    with pytest.raises(IntegrityError):
        check_disclosure(disclose(plain, ["subject"]), envelope=envelope)
    with pytest.raises(SignatureError):
        check_disclosure(view, envelope=envelope[:-1] + bytes((envelope[-1] ^ 1,)))
    assert reveal(view, {"subject": LONG}) == whole


def test_a_signer_with_an_unknown_key() -> None:
    signer = Ed25519Signer(
        Ed25519PrivateKey.from_private_bytes(bytes(range(32))), "did:web:a.example"
    )
    envelope = sign(GRAIN, signer, iat=IAT)
    view = disclose(
        open_signed(envelope, resolver=lambda did: ALICE.public_key).grain, ["subject"]
    )
    with pytest.raises(DidError):
        check_disclosure(view, envelope=envelope)
    proof = check_disclosure(view, envelope=envelope, resolver=lambda did: ALICE.public_key).proof
    assert proof is not None
    assert proof.signer == "did:web:a.example"


def test_another_type_byte() -> None:
    fields = {"type": "drone", "subject": LONG}
    whole = og.Grain(og.encode(fields, type_byte=0xF0))
    view = disclose(whole, ["subject"])
    twin = og.Grain(og.encode(view.to_dict(), type_byte=0xF1))
    assert check_disclosure(view, whole).verified
    with pytest.raises(IntegrityError):
        check_disclosure(twin, whole)


def test_the_sensitivity_stays() -> None:
    fields = FIELDS | {"structural_tags": ["phi:mrn", LONG]}
    whole = og.Grain(og.encode(fields))
    view = disclose(whole, ["structural_tags"])
    assert view.header.sensitivity == 3
    lowered = og.Grain(og.encode(view.to_dict(), sensitivity=2))
    with pytest.raises(SensitivityMismatchError):
        check_disclosure(lowered, whole)


def test_one_is_not_one_point_nought() -> None:
    whole = og.Grain(og.encode(FIELDS | {"x_n": 1}))
    view = disclose(whole, ["subject"])
    for wrong in (1.0, True, "1"):
        with pytest.raises(IntegrityError) as caught:
            check_disclosure(rewritten(view, x_n=wrong), whole)
        assert caught.value.field == "/x_n"


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({}, SchemaError), ({"object": {}}, SchemaError), ({"nothing": 1}, SchemaError),
        ({"subject": LONG + "."}, IntegrityError), ({"subject": None}, SchemaError),
        ({"user_id": None}, IntegrityError), ({"user_id": 5}, SchemaError),
        ({"user_id": LONG, "subject": LONG}, IntegrityError),
    ],
)  # fmt: skip
def test_values_that_were_not_hidden(values: dict[str, Any], error: type[OmsError]) -> None:
    with pytest.raises(error):
        reveal(VIEW, values)


def test_values_in_any_form_that_encode_takes() -> None:
    time = "2026-01-15T10:00:00Z"
    whole = og.Grain(og.encode(FIELDS | {"importance": 1, "valid_from": time}))
    view = view_of(whole, ["importance", "valid_from"])
    assert reveal(view, {"importance": 1, "valid_from": time}) == whole


def test_a_view_that_names_another_grain() -> None:
    liar = rewritten(VIEW, **{ORIGINAL: "0" * 64})
    values = {"subject": FIELDS["subject"], "user_id": FIELDS["user_id"]}
    assert reveal(VIEW, values) == GRAIN
    assert "subject" in reveal(liar, {"subject": values["subject"]})  # nothing to compare with yet
    with pytest.raises(IntegrityError) as caught:
        reveal(liar, values)
    assert caught.value.field == "/" + ORIGINAL


@pytest.mark.parametrize("word", [b"", b"shared"])
def test_the_ways_to_have_no_namespace(word: bytes) -> None:
    blob = GRAIN.blob[:3] + hashlib.sha256(word).digest()[:2] + GRAIN.blob[5:]
    whole = og.Grain(blob)
    view = disclose(whole, ["subject"])
    assert check_disclosure(view, whole).verified
    assert reveal(view, {"subject": LONG}).blob == blob


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_field_names_of_1_1(encoding: str) -> None:
    """Fields of older names cannot be put together again; the view says so."""
    small = {"t": "tool_call", "ca": 0, "tn": LONG, "args": {}, "res": 1, "ok": True}
    whole = og.Grain(made(encoding, small))
    view = view_of(whole, ["tool_name", "is_error"])
    assert check_disclosure(view, whole).verified
    assert any("keep the grain" in note for note in view.warnings)
    shown = reveal(view, {"tool_name": LONG})
    assert check_disclosure(shown, whole).hidden == ("is_error",)
    with pytest.raises(IntegrityError):
        reveal(view, {"tool_name": LONG, "is_error": False})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_compressed(encoding: Encoding) -> None:
    whole = og.Grain(og.encode(FIELDS, encoding=encoding, compress=True))
    view = disclose(whole, ["subject"])
    assert view.header.compressed
    assert check_disclosure(view, whole).verified
    assert reveal(view, {"subject": LONG}) == whole


def test_a_sealed_grain() -> None:
    sealed = bytes((1, 2)) + GRAIN.blob[2:]
    stored = stored_grain(sealed, "0" * 64)
    for grain in (sealed, stored):
        with pytest.raises(KeyMissingError):
            disclose(grain, ["subject"])
        with pytest.raises(KeyMissingError):
            check_disclosure(VIEW, grain)
        with pytest.raises(KeyMissingError):
            reveal(grain, {"subject": LONG})


def test_a_grain_that_a_store_opened() -> None:
    """It is named by its plain address: who gets the view cannot make the sealed blob."""
    opened = stored_grain(GRAIN.blob, "0" * 64)
    assert disclose(opened, ["subject", "user_id"]) == VIEW
    assert check_disclosure(VIEW, opened).verified


def test_a_grain_read_leniently() -> None:
    lenient = og.decode(GRAIN.blob[:3] + b"\xab\xcd" + GRAIN.blob[5:], strict=False)
    with pytest.raises(OmsError):
        disclose(lenient, ["subject"])


def test_too_large_with_the_hashes() -> None:
    whole = og.Grain(og.encode(FIELDS | {"x_tiny": "", "x_large": bytes((1 << 20) - 300)}))
    with pytest.raises(TooLargeError):
        view_of(whole, ["x_tiny"])


def test_no_error_shows_hidden_values() -> None:
    errors: list[OmsError] = []
    for act in (
        lambda: reveal(VIEW, {"subject": "a secret guess"}),
        lambda: check_disclosure(rewritten(VIEW, relation="a secret guess"), GRAIN),
        lambda: check_disclosure(
            rewritten(VIEW, **{ELIDED: {**VIEW[ELIDED], "subject": "sha256:" + "0" * 64}}), GRAIN
        ),
    ):
        with pytest.raises(IntegrityError) as caught:
            act()
        errors.append(caught.value)
    said = " ".join(json.dumps(error.to_dict()) for error in errors)
    assert "secret" not in said
    assert LONG not in said
    assert disclosure.digest("subject", LONG).hex() not in said
