# SPDX-License-Identifier: Apache-2.0
"""Encrypts a document: AES-256-GCM with a key from Argon2id. Spec: MIF 1.0 §6.2.

The SEP names both algorithms and shows five members. Another reader also needs the salt and the
costs to decrypt a document, so our envelope adds them:

    {"$schema": ..., "mif_version": "1.0",
     "encryption": {"algorithm": "aes-256-gcm", "key_derivation": "argon2id",
                    "kdf_params": {"salt": base64, "version": 19, "memory_kib": 65536,
                                   "iterations": 3, "parallelism": 4},
                    "aad": "mif-1.0",
                    "iv": base64, "auth_tag": base64, "encrypted_payload": base64}}

``aad`` authenticates the canonical text of the envelope without payload and tag, so a change to
the envelope is detected. The costs are the second choice of RFC 9106 §4.
"""

from __future__ import annotations

import base64
import binascii
import os
import unicodedata
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from omsgrain import _core
from omsgrain.errors import KeyMissingError, UnsupportedError, library
from omsgrain.formats import json_text
from omsgrain.formats.json_text import spell
from omsgrain.formats.mif1.check import LIMITS, RULES, SCHEMA, VERSION, Mif1Limits, is_version
from omsgrain.formats.problems import DocumentError, Problem

MEMBER: Final = "encryption"
KEY: Final = 32
_IV, _TAG, _SALT = 12, 16, 16
_SALTS: Final = range(8, 65)  # accepted bytes of salt; RFC 9106 asks for at least 8
_ALGORITHM: Final = "aes-256-gcm"
_DERIVATION: Final = "argon2id"
_RAW: Final = "none"
_AAD: Final = "mif-1.0"
_ARGON2: Final = 19
_PARTS: Final = ("encrypted_payload", "auth_tag")
_FRAME: Final = 64 << 10  # bytes of an envelope besides its payload


class Kdf(NamedTuple):
    salt: bytes  # random bytes; `fresh` makes 16
    memory_kib: int = 65_536  # memory, in KiB
    iterations: int = 3  # passes over the memory
    parallelism: int = 4  # lanes

    @classmethod
    def fresh(cls) -> Kdf:
        return cls(os.urandom(_SALT))


def seal_document(
    document: bytes,
    passphrase: str | None = None,
    *,
    key: bytes | None = None,
    kdf: Kdf | None = None,
) -> bytes:
    encryption: dict[str, Any] = {"algorithm": _ALGORITHM}
    if key is None:
        kdf = kdf or Kdf.fresh()
        key = _derived(passphrase, kdf)
        encryption["key_derivation"] = _DERIVATION
        encryption["kdf_params"] = {
            "salt": _text(kdf.salt),
            "version": _ARGON2,
            "memory_kib": kdf.memory_kib,
            "iterations": kdf.iterations,
            "parallelism": kdf.parallelism,
        }
    else:
        encryption["key_derivation"] = _RAW
    iv = os.urandom(_IV)
    encryption |= {"aad": _AAD, "iv": _text(iv)}
    envelope = {"$schema": SCHEMA, "mif_version": VERSION, MEMBER: encryption}
    sealed = AESGCM(_checked(key)).encrypt(iv, document, _authenticated(envelope))
    encryption |= {"auth_tag": _text(sealed[-_TAG:]), "encrypted_payload": _text(sealed[:-_TAG])}
    return spell(envelope)


def is_sealed(data: bytes) -> bool:
    text = data.removeprefix(b"\xef\xbb\xbf")
    if not text.lstrip().startswith(b"{"):  # such as YAML
        return False
    return _core.json_member(text, [MEMBER]) is not None


def open_document(
    data: bytes,
    passphrase: str | None = None,
    *,
    key: bytes | None = None,
    limits: Mif1Limits = LIMITS,
) -> bytes:
    most = limits.document // 3 * 4 + _FRAME
    envelope = json_text.parse(data, most=most, depth=limits.depth, values=limits.values)
    found = envelope.get(MEMBER) if isinstance(envelope, dict) else None
    if not isinstance(found, dict):
        raise _refused("invalid_encryption", "", "an object", json_text.kind_of(found))
    if not is_version(envelope.get("mif_version", VERSION)):
        raise DocumentError(
            [Problem("unsupported_version", "/mif_version", RULES["unsupported_version"])]
        )
    if found.get("algorithm") != _ALGORITHM:
        raise _refused("unknown_algorithm", "/algorithm", _ALGORITHM)
    iv = _bytes(found, "iv", range(_IV, _IV + 1))
    tag = _bytes(found, "auth_tag", range(_TAG, _TAG + 1))
    payload = _bytes(found, "encrypted_payload", range(limits.document + 1))
    if key is None:
        key = _derived(passphrase, _kdf(found, limits))
    try:
        return AESGCM(_checked(key)).decrypt(iv, payload + tag, _authenticated(envelope))
    except InvalidTag:
        raise KeyMissingError(
            "the passphrase or key is wrong, or the document was changed"
        ) from None


def _authenticated(envelope: dict[str, Any]) -> bytes | None:
    """The additional authenticated data; None if the envelope has no ``aad``."""
    if envelope[MEMBER].get("aad") is None:
        return None
    inner = {name: value for name, value in envelope[MEMBER].items() if name not in _PARTS}
    return json_text.canonical_text(envelope | {MEMBER: inner})


def _kdf(found: dict[str, Any], limits: Mif1Limits) -> Kdf:
    """Return the key derivation parameters; refuse missing or too costly ones."""
    if found.get("key_derivation") != _DERIVATION:
        raise _refused("unknown_algorithm", "/key_derivation", f"{_DERIVATION}, or a key")
    params = found.get("kdf_params")
    if params is None:
        raise _refused("kdf_missing", "/kdf_params", "kdf_params")
    if not isinstance(params, dict):
        raise _refused("invalid_encryption", "/kdf_params", "an object", json_text.kind_of(params))
    if params.get("version", _ARGON2) != _ARGON2:
        raise _refused("unknown_algorithm", "/kdf_params/version", str(_ARGON2))
    parallelism = _cost(params, "parallelism", 1, limits.parallelism)
    return Kdf(
        _bytes(params, "salt", _SALTS, "/kdf_params"),
        _cost(params, "memory_kib", 8 * parallelism, limits.memory_kib),
        _cost(params, "iterations", 1, limits.iterations),
        parallelism,
    )


def _cost(params: dict[str, Any], name: str, least: int, most: int) -> int:
    value, where = params.get(name), f"/kdf_params/{name}"
    if type(value) is not int or value < least:
        found = json_text.kind_of(value)
        raise _refused("invalid_encryption", where, f"an integer from {least}", found)
    if value > most:
        raise _refused("kdf_too_costly", where, f"at most {most}")
    return value


def _derived(passphrase: str | None, kdf: Kdf) -> bytes:
    if passphrase is None:
        raise KeyMissingError("the document is encrypted", expected="a passphrase or a key")
    if not passphrase:
        expected = "at least one character"
        raise KeyMissingError("the passphrase is empty", field="/passphrase", expected=expected)
    # Another keyboard can produce the same passphrase in decomposed form.
    try:
        secret = unicodedata.normalize("NFC", passphrase).encode()
    except UnicodeEncodeError:
        expected = "text that UTF-8 can encode"
        raise KeyMissingError(
            "the passphrase is not valid Unicode text", field="/passphrase", expected=expected
        ) from None
    try:
        return _argon2id(secret, kdf)
    except MemoryError:
        found = f"{kdf.memory_kib} KiB"
        raise UnsupportedError("not enough memory to derive the key", found=found) from None


def _argon2id(secret: bytes, kdf: Kdf) -> bytes:
    salt, memory, iterations, lanes = kdf
    try:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

        own = Argon2id(
            salt=salt, length=KEY, iterations=iterations, lanes=lanes, memory_cost=memory
        )
        return own.derive(secret)
    except (ImportError, UnsupportedAlgorithm):
        pass  # cryptography before 44, or an older OpenSSL
    argon2 = library("formats", "argon2.low_level", "Argon2id is not available")
    costs = (iterations, memory, lanes, KEY, argon2.Type.ID, _ARGON2)
    derived: bytes = argon2.hash_secret_raw(secret, salt, *costs)
    return derived


def _checked(key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY:
        raise KeyMissingError("the document key has the wrong size", expected=f"{KEY} bytes")
    return key


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(found: dict[str, Any], name: str, sizes: range, below: str = "") -> bytes:
    text, where = found.get(name), f"{below}/{name}"
    least, most = sizes[0], sizes[-1]
    sized = f"{least} bytes" if least == most else f"{least} to {most} bytes"
    if not isinstance(text, str):
        raise _refused("invalid_encryption", where, "base64", json_text.kind_of(text))
    if len(text) <= (most + 2) // 3 * 4:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise _refused("invalid_encryption", where, "base64") from None
        if len(data) in sizes:
            return data
    raise _refused("invalid_encryption", where, sized, f"{len(text)} characters of base64")


def _refused(
    rule: str, pointer: str, expected: str | None = None, found: str | None = None
) -> DocumentError:
    says = RULES[rule]
    return DocumentError([Problem(rule, f"/{MEMBER}{pointer}", says, expected, found)])
