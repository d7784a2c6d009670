# SPDX-License-Identifier: Apache-2.0
"""Sealed grains and blind tokens made the plainest way, with AES written out. Not fast, not safe.

As a script it writes the vectors of ``data/sealed.json``.
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from hashlib import sha256
from typing import Any

import cbor2

import omsgrain as og
from omsgrain import _core
from support.paths import TEST_DATA

DATA = TEST_DATA / "sealed.json"


def _doubled(x: int) -> int:
    return (x << 1) ^ (0x11B if x & 0x80 else 0)


def _sbox() -> list[int]:
    """The inverse in GF(2^8), then the affine map. Spec: FIPS 197 §5.1.1."""
    power, table = [1], [0x63] * 256
    while len(power) < 255:
        power.append(power[-1] ^ _doubled(power[-1]))  # powers of 3 are all but zero
    for i, x in enumerate(power):
        y = power[-i % 255]
        bits = y ^ y << 1 ^ y << 2 ^ y << 3 ^ y << 4
        table[x] = (bits ^ bits >> 8) & 0xFF ^ 0x63
    return table


_S = _sbox()


def _round_keys(key: bytes) -> list[bytes]:
    words = [key[i : i + 4] for i in range(0, 32, 4)]
    rcon = 1
    for i in range(8, 60):
        last = words[-1]
        if i % 8 == 0:
            last = bytes(_S[b] for b in last[1:] + last[:1])
            last = bytes((last[0] ^ rcon,)) + last[1:]
            rcon = _doubled(rcon)
        elif i % 8 == 4:
            last = bytes(_S[b] for b in last)
        words.append(_xor(words[-8], last))
    return [b"".join(words[i : i + 4]) for i in range(0, 60, 4)]


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=False))


def aes(key: bytes, block: bytes) -> bytes:
    """AES-256 of one block. Spec: FIPS 197."""
    first, *middle, last = _round_keys(key)
    state = _xor(block, first)
    for number, round_key in enumerate([*middle, last]):
        state = bytes(_S[state[(i * 5) % 16]] for i in range(16))  # bytes, then rows shifted
        if number < len(middle):
            columns = [state[i : i + 4] for i in range(0, 16, 4)]
            state = bytes(
                _doubled(c[i]) ^ _doubled(c[(i + 1) % 4]) ^ c[(i + 1) % 4]
                ^ c[(i + 2) % 4] ^ c[(i + 3) % 4]
                for c in columns for i in range(4)
            )  # fmt: skip
        state = _xor(state, round_key)
    return state


def _times(x: int, y: int) -> int:
    """The product in GF(2^128). Spec: NIST SP 800-38D §6.3."""
    product = 0
    for i in range(127, -1, -1):
        product ^= x if y >> i & 1 else 0
        x = x >> 1 ^ (0xE1 << 120 if x & 1 else 0)
    return product


def gcm(key: bytes, nonce: bytes, data: bytes, aad: bytes) -> bytes:
    """AES-256-GCM: cipher text and tag."""

    def stream(counter: int) -> bytes:
        return aes(key, nonce + counter.to_bytes(4, "big"))

    parts = [data[i : i + 16] for i in range(0, len(data), 16)]
    cipher = b"".join(_xor(part, stream(i)) for i, part in enumerate(parts, 2))
    lengths = (8 * len(aad)).to_bytes(8, "big") + (8 * len(cipher)).to_bytes(8, "big")
    covered = aad + bytes(-len(aad) % 16) + cipher + bytes(-len(cipher) % 16) + lengths
    hash_key, total = int.from_bytes(aes(key, bytes(16)), "big"), 0
    for i in range(0, len(covered), 16):
        total = _times(total ^ int.from_bytes(covered[i : i + 16], "big"), hash_key)
    return cipher + _xor(total.to_bytes(16, "big"), stream(1))


def blob_in(plain: bytes) -> bytes:
    if plain[:1] != b"\xd2":
        return plain
    blob: bytes = cbor2.loads(plain).value[2]
    return blob


def outer(plain: bytes, *, by_payload: bool, hide_header: bool, signed: bool) -> bytes:
    """The header of a sealed grain."""
    head = blob_in(plain)[:9]
    kept = 0xC0 | (0x24 if by_payload else 0) | (0 if hide_header else 0x18)
    flags = head[1] & kept | 2 | signed
    return bytes((1, flags, head[2])) + (bytes(6) if hide_header else head[3:])


def seal(key: bytes, nonce: bytes, plain: bytes, *, by_payload: bool, **how: bool) -> bytes:
    header = outer(plain, by_payload=by_payload, **how)
    return header + nonce + gcm(key, nonce, plain[9:] if by_payload else plain, header)


def token(key: bytes, term: bytes) -> bytes:
    return hmac.new(key, term, sha256).digest()[:16]


def rows(plain: bytes) -> tuple[list[bytes], int]:
    """The keys of a grain's index rows, and the time of its place."""
    tail = _core.Tail()
    tail.add([1], [plain], [bytes(32)])
    found = tail.rows_after(None, 1 << 30)
    return [key for key, _ in found], int.from_bytes(found[0][1][0][:6], "big")


def blind(key: bytes, plain: bytes, words: list[bytes]) -> tuple[bytes, int]:
    keys, time = rows(plain)
    terms = {*keys, *(b"w" + word for word in words)}
    return b"".join(sorted(token(key, term) for term in terms)), time


def mask(key: bytes, places: bytes) -> bytes:
    out = b""
    for at in range(0, len(places), 16):
        time, rest = places[at : at + 6], places[at + 6 : at + 16]
        out += _xor(time, aes(key, rest + bytes(6))) + rest
    return out


def user_key(root: bytes, user_id: str, salt: bytes | None, generation: int) -> bytes:
    """HKDF of one block. Spec: RFC 5869."""
    name = unicodedata.normalize("NFC", user_id).encode()
    info = b"omsgrain/1 user" + generation.to_bytes(4, "big") + name
    first = hmac.new(salt or bytes(32), root, sha256).digest()
    return hmac.new(first, info + b"\x01", sha256).digest()


def plain_grains() -> dict[str, tuple[bytes, bool]]:
    """Grains to seal, and whether their payload is enough."""
    belief = {
        "type": "belief", "subject": "ann", "relation": "likes", "object": "tea", "user_id": "u-7",
        "confidence": 0.5, "created_at": 1768471200123, "namespace": "home",
        "structural_tags": ["pii:food", "morning"], "derived_from": ["07" * 32],
    }  # fmt: skip
    refs = belief | {"content_refs": [{"uri": "mem:1", "modality": "image"}]}
    bare = {"type": "event", "content": "the door is open", "created_at": 999}
    event = og.encode(bare)
    signed = og.encode(belief)
    signed = signed[:1] + bytes((signed[1] | 1,)) + signed[2:]
    return {
        "belief": (og.encode(belief), True),
        "references, cbor": (og.encode(refs, encoding="cbor", sensitivity=3), True),
        "compressed": (og.encode(refs | {"object": "tea " * 50}, compress=True), True),
        "no namespace": (event, True),
        "another writer's ns_hash": (event[:3] + b"\xe3\xb0" + event[5:], False),
        "opaque, without a time": (og.encode({"x": [1, {"y": 2}]}, type_byte=240), True),
        "envelope": (cbor2.dumps(cbor2.CBORTag(18, [b"\xa0", {}, signed, bytes(64)])), False),
    }


def vectors() -> dict[str, Any]:
    """The vectors, from seeds that everybody knows."""

    def known(*seed: object) -> bytes:
        return sha256(repr(seed).encode()).digest()

    key, token_key = known("content"), known("token")
    words = [b"tea", "\u00fcber".encode(), b"", b"long" * 30, b"tea"]
    grains, ways = [], ((False, True, False), (True, False, True), (False, False, False))
    for name, (plain, enough) in plain_grains().items():
        tokens, time = blind(token_key, plain, words)
        cases = []
        for whole, hide_header, signed in ways:
            nonce = known("nonce", name, whole, hide_header, signed)[:12]
            by_payload = enough and not whole
            how = {"hide_header": hide_header, "signed": signed}
            sealed = seal(key, nonce, plain, by_payload=by_payload, **how)
            address = sha256(sealed).hexdigest()
            cases.append({"whole": whole, **how, "nonce": nonce.hex(), "sealed": sealed.hex(),
                          "address": address})  # fmt: skip
        grains.append({"name": name, "plain": plain.hex(), "tokens": tokens.hex(), "time": time,
                       "sealed": cases})  # fmt: skip
    places = b"".join(known("place", n)[:16] for n in range(3))
    users = [("ann", known("salt"), 1), ("Ame\u0301lie", known("salt"), 2), ("", known("salt"), 1),
             ("ann", None, 0)]  # fmt: skip
    return {
        "made_by": "tests/oracle_seal.py",
        "key": key.hex(),
        "token_key": token_key.hex(),
        "words": [word.decode() for word in words],
        "grains": grains,
        "place_key": known("places").hex(),
        "places": places.hex(),
        "masked": mask(known("places"), places).hex(),
        "root": known("root").hex(),
        "user_keys": [
            {
                "user_id": user,
                "salt": salt and salt.hex(),
                "generation": generation,
                "key": user_key(known("root"), user, salt, generation).hex(),
            }
            for user, salt, generation in users
        ],
    }


if __name__ == "__main__":
    DATA.write_text(json.dumps(vectors(), indent=2) + "\n", encoding="utf-8")
