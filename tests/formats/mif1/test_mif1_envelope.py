# SPDX-License-Identifier: Apache-2.0
"""The envelope of encryption: who opens it, and what a hostile one is refused for at once."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.errors import KeyMissingError, UnsupportedError
from omsgrain.formats import DocumentError, sniff
from omsgrain.formats.mif1 import document, envelope
from omsgrain.formats.mif1.check import Mif1Limits
from omsgrain.formats.mif1.envelope import Kdf, open_document, seal_document
from omsgrain.formats.mif1.format import MIF1
from support.edited_documents import GONE, edited
from support.mif1_documents import SEP
from support.mif2_documents import spelled

CHEAP = Kdf(bytes(range(16)), memory_kib=64, iterations=1, parallelism=1)
DATA = spelled(SEP)
SEALED = seal_document(DATA, "a garden at dusk", kdf=CHEAP)
WHOLE: dict[str, Any] = json.loads(SEALED)
KEY = bytes(range(32))


def changed(**edits: Any) -> bytes:
    return spelled(edited(WHOLE, {f"/encryption/{name}": value for name, value in edits.items()}))


def refused(data: bytes, **options: Any) -> tuple[str, str]:
    with pytest.raises(DocumentError) as caught:
        open_document(data, "a garden at dusk", **options)
    return caught.value.problems[0].rule, caught.value.problems[0].pointer


def test_the_right_passphrase_opens_it_and_no_other() -> None:
    assert open_document(SEALED, "a garden at dusk") == DATA
    for other in ("a garden at dawn", "A garden at dusk", "a garden at dusk "):
        with pytest.raises(KeyMissingError):
            open_document(SEALED, other)
    for none in (None, "", "\ud800"):
        for work in (partial(open_document, SEALED, none), partial(seal_document, DATA, none)):
            with pytest.raises(KeyMissingError) as caught:
                work()
            assert caught.value.field == (None if none is None else "/passphrase")


def test_a_passphrase_is_the_same_from_every_keyboard() -> None:
    sealed = seal_document(b"x", "caf\u00e9", kdf=CHEAP)
    assert open_document(sealed, "cafe\u0301") == b"x"


def test_each_envelope_has_its_own_salt_and_nonce() -> None:
    params = [Kdf.fresh() for _ in range(2)]
    assert params[0].salt != params[1].salt
    assert params[0][1:] == (65_536, 3, 4)  # RFC 9106 §4, the second choice
    sealed = [json.loads(seal_document(b"x", key=KEY))["encryption"] for _ in range(2)]
    assert sealed[0]["iv"] != sealed[1]["iv"]


def test_it_is_what_the_sep_draws_and_what_it_forgot() -> None:
    assert list(WHOLE) == ["$schema", "mif_version", "encryption"]
    found = WHOLE["encryption"]
    assert (found["algorithm"], found["key_derivation"]) == ("aes-256-gcm", "argon2id")
    sizes = [
        len(base64.b64decode(found[name])) for name in ("iv", "auth_tag", "encrypted_payload")
    ]
    assert sizes == [12, 16, len(DATA)]
    assert found["kdf_params"] == {
        "salt": base64.b64encode(CHEAP.salt).decode(),
        "version": 19,
        "memory_kib": 64,
        "iterations": 1,
        "parallelism": 1,
    }


def test_a_key_as_it_is() -> None:
    sealed = seal_document(DATA, key=KEY)
    assert open_document(sealed, key=KEY) == DATA
    with pytest.raises(KeyMissingError):
        open_document(sealed, key=bytes(32))
    for short in (b"", bytes(16), bytes(33)):
        with pytest.raises(KeyMissingError):
            seal_document(DATA, key=short)
        with pytest.raises(KeyMissingError):
            open_document(sealed, key=short)
    assert refused(sealed) == ("unknown_algorithm", "/encryption/key_derivation")


def test_an_envelope_of_another() -> None:
    """One that says no more than the SEP draws: no parameters, nothing authenticated besides."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = envelope._derived("a garden at dusk", CHEAP)
    sealed = AESGCM(key).encrypt(bytes(12), DATA, None)
    parts = {"iv": bytes(12), "auth_tag": sealed[-16:], "encrypted_payload": sealed[:-16]}
    texts = {name: base64.b64encode(part).decode() for name, part in parts.items()}
    whole = {"encryption": {"algorithm": "aes-256-gcm", "key_derivation": "argon2id", **texts}}
    data = spelled(whole)
    assert sniff(data) == "mif1"
    assert refused(data) == ("kdf_missing", "/encryption/kdf_params")
    assert open_document(data, key=key) == DATA


@pytest.mark.parametrize("edits", [
    {"/mif_version": "1.1"},
    {"/$schema": GONE},
    {"/x": 1},
    {"/encryption/x": 1},
    {"/encryption/aad": GONE},
    {"/encryption/aad": "mif-1.1"},
    {"/encryption/kdf_params/x": 1},
    {"/encryption/kdf_params/iterations": 2},
    {"/encryption/kdf_params/salt": base64.b64encode(bytes(16)).decode()},
    {"/encryption/iv": base64.b64encode(bytes(12)).decode()},
    {"/encryption/auth_tag": base64.b64encode(bytes(16)).decode()},
    {"/encryption/encrypted_payload": ""},
    {"/encryption/encrypted_payload": "AAAA"},
])  # fmt: skip
def test_a_changed_envelope_does_not_open(edits: dict[str, Any]) -> None:
    with pytest.raises(KeyMissingError):
        open_document(spelled(edited(WHOLE, edits)), "a garden at dusk")


HOSTILE = [
    ("algorithm", "aes-128-gcm", "unknown_algorithm"),
    ("algorithm", GONE, "unknown_algorithm"),
    ("key_derivation", "scrypt", "unknown_algorithm"),
    ("kdf_params", GONE, "kdf_missing"),
    ("kdf_params", [], "invalid_encryption"),
    ("kdf_params/version", 16, "unknown_algorithm"),
    ("kdf_params/memory_kib", 1 << 30, "kdf_too_costly"),
    ("kdf_params/memory_kib", 10**100, "kdf_too_costly"),
    ("kdf_params/memory_kib", 7, "invalid_encryption"),
    ("kdf_params/memory_kib", "64", "invalid_encryption"),
    ("kdf_params/memory_kib", 64.0, "invalid_encryption"),
    ("kdf_params/iterations", 17, "kdf_too_costly"),
    ("kdf_params/iterations", 0, "invalid_encryption"),
    ("kdf_params/iterations", True, "invalid_encryption"),
    ("kdf_params/parallelism", 255, "kdf_too_costly"),
    ("kdf_params/parallelism", -1, "invalid_encryption"),
    ("kdf_params/parallelism", GONE, "invalid_encryption"),
    ("kdf_params/salt", "", "invalid_encryption"),
    ("kdf_params/salt", "AAAA", "invalid_encryption"),
    ("kdf_params/salt", "A" * 100_000, "invalid_encryption"),
    ("iv", base64.b64encode(bytes(16)).decode(), "invalid_encryption"),
    ("iv", "AAAAAAAAAAAAAAA", "invalid_encryption"),
    ("iv", "AAAAAAAA AAAAAAAA", "invalid_encryption"),
    ("iv", None, "invalid_encryption"),
    ("auth_tag", base64.b64encode(bytes(12)).decode(), "invalid_encryption"),
    ("auth_tag", "____", "invalid_encryption"),
    ("encrypted_payload", GONE, "invalid_encryption"),
    ("encrypted_payload", "AAA", "invalid_encryption"),
    ("encrypted_payload", "\u00e9" * 4, "invalid_encryption"),
]


@pytest.mark.parametrize(("name", "value", "rule"), HOSTILE)
def test_a_hostile_envelope_is_refused_before_anything_is_derived(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, rule: str
) -> None:
    def never(secret: bytes, kdf: Kdf) -> bytes:
        raise AssertionError("derived")

    monkeypatch.setattr(envelope, "_argon2id", never)
    assert refused(changed(**{name: value})) == (rule, f"/encryption/{name}")


def test_limits_of_an_envelope() -> None:
    assert refused(SEALED, limits=Mif1Limits(memory_kib=32))[0] == "kdf_too_costly"
    assert refused(SEALED, limits=Mif1Limits(document=100)) == (
        "invalid_encryption",
        "/encryption/encrypted_payload",
    )
    assert refused(SEALED + b" " * 200_000, limits=Mif1Limits(document=100))[0] == "too_large"
    assert refused(b"[]") == ("invalid_encryption", "/encryption")
    assert refused(b"{")[0] == "not_json"
    version = spelled(edited(WHOLE, {"/mif_version": "2.0"}))
    assert refused(version) == ("unsupported_version", "/mif_version")


def test_both_libraries_derive_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = __import__("sys").modules
    key = envelope._derived("p", CHEAP)
    monkeypatch.setitem(modules, "cryptography.hazmat.primitives.kdf.argon2", None)
    assert envelope._derived("p", CHEAP) == key
    monkeypatch.setitem(modules, "argon2.low_level", None)
    with pytest.raises(UnsupportedError) as caught:
        envelope._derived("p", CHEAP)
    assert "'formats'" in (caught.value.expected or "")


@pytest.mark.parametrize("layout", ["json", "yaml", "jsonl"])
def test_a_document_is_sealed_and_opened_on_its_way(layout: Any) -> None:
    loaded = MIF1.load(document.spell(SEP, layout))
    sealed = formats.dump(loaded, format="mif1", key=KEY).data
    assert sniff(sealed) == "mif1"
    again = MIF1.load(sealed, key=KEY)
    assert again == loaded
    with pytest.raises(DocumentError) as caught:
        MIF1.load(sealed)
    assert caught.value.rule == "encrypted"
