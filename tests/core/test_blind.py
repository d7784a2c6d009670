# SPDX-License-Identifier: Apache-2.0
"""Blind tokens against HMACs of the index rows, and whose a grain is."""

from __future__ import annotations

import json
from hashlib import sha256
from random import Random
from typing import Any

import cbor2
import pytest

import omsgrain as og
import oracle_seal as oracle
from omsgrain import _core
from omsgrain.crypto.seal import UserKeys, mask, mask_stream, seal
from omsgrain.errors import CorruptError, KeyMissingError
from omsgrain.grain import bare
from omsgrain.search import words
from omsgrain.storage.blind_index import place_of
from support.random_grains import random_grain
from support.random_values import random_text
from support.scale import Scale

KEYS = [bytes((n,)) * 32 for n in range(5)]
ADDRESS_KEYS = [bytes((100 + n,)) * 32 for n in range(5)]
FIELDS: dict[str, Any] = {"type": "event", "content": "x", "created_at": 1768471200999}


def blind(plain: list[bytes], texts: list[str], keys: list[bytes]) -> list[tuple[bytes, int]]:
    """The tokens and the times of grains with these words."""
    found = [(text, False, bytes(32)) for text in texts]
    whose = [(bytes(8), key, key) for key in keys]
    return [(one.tokens, one.created_at) for one in _core.blind(plain, found, whose)]


def envelope(blob: bytes) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(18, [b"\xa0", {"iat": 1}, blob, b"signed"]))


def flagged(blob: bytes) -> bytes:
    return blob[:1] + bytes((blob[1] | 1,)) + blob[2:]


def test_vectors() -> None:
    """Those of an empty word too, which no text has: it is left out here."""
    vectors = json.loads(oracle.DATA.read_text(encoding="utf-8"))
    key, text = bytes.fromhex(vectors["token_key"]), " ".join(vectors["words"])
    plain = [bytes.fromhex(grain["plain"]) for grain in vectors["grains"]]
    found = blind(plain, [text] * len(plain), [key] * len(plain))
    empty = oracle.token(key, b"w")
    expected = [(split(bytes.fromhex(g["tokens"])), g["time"]) for g in vectors["grains"]]
    assert all(empty in tokens for tokens, _ in expected)
    assert [(sorted([*split(tokens), empty]), time) for tokens, time in found] == expected


def split(tokens: bytes) -> list[bytes]:
    return [tokens[at : at + 16] for at in range(0, len(tokens), 16)]


def test_against_the_index_rows(scale: Scale) -> None:
    """Of a batch that is large enough for all cores."""
    rng = Random(32)
    plain, texts, keys = [], [], []
    for _ in range(scale.grains // 2):
        blob = og.encode(
            random_grain(rng),
            encoding=rng.choice(("msgpack", "cbor")),
            compress=rng.random() < 0.2,
            keep_type_name=True,
        )
        plain.append(rng.choice((blob, flagged(blob), envelope(flagged(blob)))))
        own = [random_text(rng).replace(" ", "") for _ in range(rng.choice((0, 1, 6, 30)))]
        texts.append(" ".join(own + own[:2]))
        keys.append(rng.choice(KEYS))
    apart = [[word.encode() for word in text.split(" ") if word] for text in texts]
    expected = [oracle.blind(*row) for row in zip(keys, plain, apart, strict=True)]
    assert blind(plain, texts, keys) == expected
    one = [blind([b], [w], [k])[0] for b, w, k in zip(plain, texts, keys, strict=True)]
    assert one[:200] == expected[:200]


def test_an_entry_names_its_grain_and_key() -> None:
    rng = Random(36)
    plain = [og.encode(FIELDS | {"content": str(n)}) for n in range(40)]
    found = [("", rng.random() < 0.5, sha256(blob).digest()) for blob in plain]
    whose = [rng.randrange(5) for _ in plain]
    keys = [(bytes([n]) * 8, KEYS[n], ADDRESS_KEYS[n]) for n in whose]
    for n, one in enumerate(_core.blind(plain, found, keys)):
        _, kept, digest = found[n]
        assert (one.number, one.digest, one.kept) == (keys[n][0], digest, kept)
        assert one.name == keys[n][0] + oracle.token(ADDRESS_KEYS[whose[n]], digest)


def test_rows_of_entries() -> None:
    """Of each table, against the layout of docs/store-layout.md."""
    rng = Random(37)
    plain = [og.encode(FIELDS | {"content": "x" * n, "created_at": n}) for n in range(1, 41)]
    users = [UserKeys(bytes([n]) * 8, KEYS[n]) for n in range(3)]
    own = [rng.choice(users) for _ in plain]
    found = [(f"w{n % 7}", n % 3 == 0, sha256(blob).digest()) for n, blob in enumerate(plain)]
    keys = [(one.number, one.token, one.address) for one in own]
    entries = _core.blind(plain, found, keys)
    digests = [rng.randbytes(32) for _ in plain]
    grains = list(zip(entries, digests, range(5, 45), strict=True))
    blocks = _core.blind_blocks(grains)
    streams = [mask_stream(own[first].place, block) for first, block in blocks]
    expected = []
    for (entry, digest, seq), one in zip(grains, own, strict=True):
        place = mask(one.place, place_of(entry.created_at, digest, seq))
        expected += [(one.number + token + place, b"") for token in split(entry.tokens)]
    assert list(_core.blind_rows(grains, streams)) == sorted(expected)
    named, sealed, keyed, kept = _core.key_rows(grains)
    seqs = [seq.to_bytes(8, "big") for _, _, seq in grains]
    under = [one.number + seq for one, seq in zip(own, seqs, strict=True)]
    assert named == [(entry.name, seq) for entry, seq in zip(entries, seqs, strict=True)]
    assert sealed == [(seq, one.number) for seq, one in zip(seqs, own, strict=True)]
    assert keyed == [(key, b"") for key in under]
    assert kept == [(key, b"") for key, entry in zip(under, entries, strict=True) if entry.kept]
    assert (_core.blind_blocks([]), list(_core.blind_rows([], []))) == ([], [])
    with pytest.raises(ValueError, match="each key"):
        _core.blind_rows(grains, streams[1:])
    with pytest.raises(CorruptError):
        _core.blind_rows(grains, [streams[0][:-16], *streams[1:]])
    with pytest.raises(ValueError, match="32 bytes"):
        _core.blind_blocks([(entries[0], bytes(31), 5)])


def test_searched_texts(scale: Scale) -> None:
    """The core finds the words of a grain that are found in its fields."""
    rng = Random(35)
    kept = frozenset(("created_at", "importance"))
    folds = words.spaced("".join(map(chr, range(128)))).encode()
    fields = _core.TextFields(words.UNSEARCHED, words.PLAIN_KEYS, kept, folds)
    blobs = []
    for _ in range(scale.grains // 2):
        made = random_grain(rng)
        blob = og.encode(made, encoding=rng.choice(("msgpack", "cbor")), keep_type_name=True)
        blobs.append(rng.choice((blob, flagged(blob))))
    for blob, (text, marked, digest) in zip(blobs, fields.of(blobs), strict=True):
        said = _core.decode(bare(blob))
        assert set(words.split(text)) == words.words_of(said)
        assert not text.isascii() or text == words.spaced(text)
        assert marked == (not kept.isdisjoint(said))
        assert digest.hex() == og.address(blob)
    with pytest.raises(CorruptError):
        fields.of([*blobs, blobs[0][:-1]])


def test_a_query_finds_what_was_put() -> None:
    """The tokens of a query's terms are among those of the grain, and no others."""
    fields = FIELDS | {"user_id": "ann", "structural_tags": ["a", "b"], "session_id": "long " * 30}
    key = KEYS[1]
    [(tokens, time)] = blind([og.encode(fields)], ["tea"], [key])
    there = set(split(tokens))
    assert time == fields["created_at"]
    terms = [
        _core.term("user_id", "ann"),
        _core.term("tag", "a"),
        _core.term("tag", "b"),
        _core.term("session_id", "long " * 30),
        _core.term("type", 2),
        _core.term("all", None),
        b"wtea",
    ]
    assert set(_core.tokens(key, terms)) < there
    assert len(there) == len(terms) + 1  # and the fingerprint
    absent = [_core.term("user_id", "bob"), b"wte", b"wteas", _core.term("subject", "a")]
    assert there.isdisjoint(_core.tokens(key, absent))
    assert there.isdisjoint(_core.tokens(KEYS[2], terms))


def test_tokens() -> None:
    rng = Random(33)
    for count in (0, 1, 2, 7, 8, 9, 1500):
        terms = [rng.randbytes(rng.choice((0, 5, 32, 54, 55, 56, 64, 500))) for _ in range(count)]
        expected = [oracle.token(KEYS[3], term) for term in terms]
        assert _core.tokens(KEYS[3], terms) == expected
        keys = [rng.randbytes(32) for _ in range(count)]
        for term in (b"", bytes(32), bytes(55), bytes(56), bytes(500)):
            expected = [oracle.token(key, term) for key in keys]
            assert _core.tokens_many(keys, term) == expected


def test_words_are_no_index_rows() -> None:
    """No kind of row begins as the term of a word does."""
    tail = _core.Tail()
    blob = og.encode(FIELDS | {"user_id": "wtea", "subject": "w", "relation": "w", "object": "w"})
    tail.add([1], [blob], [bytes(32)])
    assert all(key[:1] != b"w" for key, _ in tail.rows_after(None, 100))


def test_times() -> None:
    late = 1 << 50
    for fields, type_byte, time in (
        (FIELDS, None, FIELDS["created_at"]),
        (FIELDS | {"created_at": 0}, None, 0),
        ({"created_at": -5}, 240, 0),
        ({"created_at": late}, 240, (1 << 47) - 1),
        ({"created_at": "never"}, 240, 0),
        ({"x": 1}, 240, 0),
    ):
        blob = og.encode(fields, type_byte=type_byte)
        assert blind([blob], [""], [KEYS[0]])[0][1] == time


def test_refusals() -> None:
    good = og.encode(FIELDS)
    sealed = seal(good, KEYS[0], whole=False)
    for blob, error in (
        (sealed, KeyMissingError),
        (envelope(flagged(sealed)), KeyMissingError),
        (good[:-1], CorruptError),
        (envelope(good)[:-1], CorruptError),
    ):
        with pytest.raises(error):
            blind([good, blob], ["", ""], KEYS[:2])
    for key in (b"", bytes(31), bytes(64)):
        with pytest.raises(KeyMissingError):
            blind([good], [""], [key])
        with pytest.raises(KeyMissingError):
            _core.tokens(key, [])
        for keys in ([key], [*KEYS, key]):
            with pytest.raises(KeyMissingError):
                _core.tokens_many(keys, b"")
    for texts, keys in (([], KEYS[:1]), ([""], [])):
        with pytest.raises(ValueError, match="each grain"):
            blind([good], texts, keys)
    with pytest.raises(ValueError, match="8 bytes"):
        _core.blind([good], [("", False, bytes(32))], [(bytes(7), KEYS[0], KEYS[0])])
    assert _core.blind([], [], []) == []


def test_user_ids(scale: Scale) -> None:
    rng = Random(34)
    blobs, expected = [], []
    for _ in range(scale.grains // 4):
        user = {"user_id": random_text(rng)} if rng.random() < 0.5 else {}
        fields = random_grain(rng)
        if "user_id" in fields.get("_elided", {}):
            user = {}  # a field is shown or elided
        blob = og.encode(
            fields | user,
            encoding=rng.choice(("msgpack", "cbor")),
            compress=rng.random() < 0.2,
            keep_type_name=True,
        )
        blobs.append(rng.choice((blob, flagged(blob), envelope(flagged(blob)))))
        expected.append(og.decode(blob).get("user_id"))
    assert None in expected and len(set(expected)) > 10
    assert _core.user_ids(blobs) == expected
    deep = {"type": "state", "context": {"user": "not me", "a": [{"user_id": 1}]}, "created_at": 1}
    assert _core.user_ids([og.encode(deep)]) == [None]
    assert _core.user_ids([og.encode({"user_id": 7}, type_byte=240)]) == [None]
    assert _core.user_ids([og.encode(deep | {"user_id": ""})]) == [""]
    ann = og.encode(FIELDS | {"user_id": "ann"})
    assert _core.user_ids([seal(ann, KEYS[0], whole=w) for w in (True, False)]) == [None] * 2
    for bad in (ann[:-1], ann + b"\x00", envelope(ann)[:-1]):
        with pytest.raises(CorruptError):
            _core.user_ids([ann, bad])
