# SPDX-License-Identifier: Apache-2.0
"""Semantic fingerprints, and the rows by which grains are followed backwards."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

import blake3
import cbor2
import msgpack
import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain.errors import CorruptError, SchemaError
from omsgrain.grain import Encoding
from omsgrain.query.graph import duplicates, find_same
from omsgrain.storage.base import Reader, Which
from support.history_stores import ABSENT, FORMS, TIME, Kept, belief, kept_in
from support.random_grains import random_grain
from support.scale import Scale

SAID: dict[str, Any] = {"type": "event", "content": "the door is open", "created_at": TIME}
#: The short names of what tells when a statement was made, and who read it how often.
LEFT_OUT = {"ca", "tms", "ac", "laa"}


def in_order(value: Any) -> Any:
    """Maps by the UTF-8 of their keys, as canonical MessagePack has them."""
    if isinstance(value, dict):
        return {k: in_order(value[k]) for k in sorted(value, key=lambda k: k.encode())}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def expected(blob: bytes) -> bytes:
    """The fingerprint, made with other libraries from the payload of an uncompressed blob."""
    read = cbor2.loads if blob[1] & 32 else msgpack.unpackb
    fields = {k: v for k, v in read(blob[9:]).items() if k not in LEFT_OUT}
    return blake3.blake3(msgpack.packb(in_order(fields))).digest()[:16]


def envelope(blob: bytes) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(18, [b"\xa0", {"iat": 1}, blob, b"signed"]))


def test_against_other_libraries(scale: Scale) -> None:
    rng = Random(20)
    for _ in range(scale.grains // 4):
        fields = random_grain(rng)
        blob = og.encode(fields)
        found = _core.fingerprint(blob)
        assert found == expected(blob)
        cbor = og.encode(fields, encoding="cbor")
        assert expected(cbor) == found
        encoding: Encoding = rng.choice(("msgpack", "cbor"))
        packed = og.encode(fields, encoding=encoding, compress=True, sensitivity=3)
        for same in (cbor, packed, envelope(blob), envelope(packed)):
            assert _core.fingerprint(same) == found
        assert _core.fingerprint(og.encode(fields | {"x_more": 1})) != found


def test_only_the_times_do_not_count() -> None:
    changes: dict[str, dict[str, Any]] = {
        "first": {},
        "later": {"created_at": TIME + 1},
        "imported": {"timestamp_ms": TIME - 5},
        "valid": {"valid_from": TIME},
        "known": {"system_valid_from": TIME},
        "elsewhere": {"namespace": "house"},
        "session": {"session_id": "monday"},
        "derived": {"derived_from": [ABSENT]},
        "type": {"type": "episode"},
    }
    blobs = {n: og.encode(SAID | c, keep_type_name=True) for n, c in changes.items()}
    prints = {name: _core.fingerprint(blob) for name, blob in blobs.items()}
    assert prints["first"] == prints["later"] == prints["imported"]
    assert len(set(prints.values())) == len(prints) - 2


def test_opaque_grains() -> None:
    for time in ({}, {"created_at": TIME}, {"created_at": "never"}, {"timestamp_ms": [1]}):
        blob = og.encode({"x": [1, {"y": None, "z": 2}], **time}, type_byte=240)
        print_ = _core.fingerprint(blob)
        assert (
            print_
            == expected(blob)
            == blake3.blake3(b"\x81\xa1x\x92\x01\x81\xa1z\x02").digest()[:16]
        )


def test_what_has_none() -> None:
    blob = bytearray(og.encode(SAID))
    blob[1] |= 2  # sealed
    assert _core.fingerprint(bytes(blob)) is None
    assert _core.fingerprint(envelope(bytes(blob))) is None
    good = og.encode(SAID)
    for junk in (b"\xd2\x84", envelope(good)[:-1], good[:-1], good + b"\x00"):
        with pytest.raises(CorruptError):
            _core.fingerprint(junk)


def test_its_term() -> None:
    assert _core.term("fingerprint", bytes(range(16))) == b"f" + bytes(range(16))
    for wrong in (bytes(15), bytes(17), "0" * 16, None):
        with pytest.raises(SchemaError):
            _core.term("fingerprint", wrong)


def keys_of(*blobs: bytes) -> list[bytes]:
    tail = _core.Tail()
    tail.add(list(range(1, len(blobs) + 1)), list(blobs), [sha256(b).digest() for b in blobs])
    return [key for key, places in tail.rows_after(None, 100_000) for _ in places]


def test_rows() -> None:
    a, b, c = (f"{n:02x}" * 32 for n in (1, 2, 3))
    blob = og.encode(SAID)
    assert keys_of(blob) == [b"a", _core.term("fingerprint", expected(blob)), b"t\x02"]
    goal = {"type": "goal", "description": "tidy", "goal_state": "suspended", "created_at": TIME}
    found = keys_of(
        og.encode(goal | {"depends_on": [b, a, b], "parent_goals": [a], "derived_from": [c, c]}),
        og.encode(SAID | {"parent_message_id": c, "prior_consent": c, "related_to": []}),
    )
    links = [_core.term("link", address) for address in (a, b, c)]
    assert sorted(key for key in found if key[:1] == b"l") == sorted(links)
    assert [key for key in found if key[:1] == b"d"] == [_core.term("derived_from", c)]
    odd = og.encode({"parent_message_id": 7, "depends_on": [1, None, a]}, type_byte=240)
    assert [key for key in keys_of(odd) if key[:1] == b"l"] == links[:1]


def test_many_names_are_quick() -> None:
    """A grain of a mebibyte: looking each name up among the others would take half a minute."""
    many = [f"{n:064x}" for n in range(15_000)]
    blob = og.encode(SAID | {"derived_from": [*reversed(many), "00" * 32]})
    assert sum(key[:1] == b"d" for key in keys_of(blob)) == len(many)


kept = pytest.fixture(params=FORMS)(kept_in)


def groups(reader: Reader, which: Which = "current", most: int = 9) -> list[tuple[str, ...]]:
    found = list(duplicates(reader, which, most=most))
    assert [same.fingerprint for same in found] == sorted(same.fingerprint for same in found)
    assert all(same.count >= len(same.addresses) for same in found)
    return sorted(same.addresses for same in found)


def test_duplicates(kept: Kept) -> None:
    on = kept.put(*(belief("on", at) for at in (30, 10, 20)))
    kept.put(belief("dim"), belief("on", namespace="house"))
    off = kept.put(belief("off", 1), belief("off", 0))
    by_age = [(on[1], on[2], on[0]), (off[1], off[0])]
    assert kept.ask(groups) == sorted(by_age)
    assert kept.ask(groups, most=1) == sorted([(on[1],), (off[1],)])
    kept.retract(off[0])
    assert kept.ask(groups) == by_age[:1]
    assert kept.ask(groups, "past") == []
    assert kept.ask(groups, "all") == sorted(by_age)
    kept.remove(off[1])
    assert kept.ask(groups, "all") == by_age[:1]


def test_many_of_one(kept: Kept) -> None:
    kept.put(*(belief("on", at) for at in range(500)))
    (same,) = kept.ask(lambda reader: list(duplicates(reader, most=3)))
    assert (same.count, len(same.addresses)) == (500, 3)


def test_finding_the_same(kept: Kept) -> None:
    new = belief("on", 50)
    assert kept.ask(find_same, new) is None
    first, _, older = kept.put(belief("on", 10), belief("off"), belief("on", 5))
    assert kept.ask(find_same, new) == older
    assert kept.ask(find_same, belief("on", 10)) == first, "itself, if it is there"
    kept.retract(older)
    assert kept.ask(find_same, new) == first
    assert kept.ask(find_same, belief("on", 5)) == older, "itself, even if it was retracted"
    kept.remove(first)
    assert kept.ask(find_same, new) is None
    assert kept.store.write(lambda w: (w.put([pair(belief("on", 7))]), find_same(w, new))[1])


def test_a_duplicate_needs_equal_protection(kept: Kept) -> None:
    fields = {"x": 1, "created_at": TIME}
    kept.put(og.encode(fields, type_byte=240))
    assert kept.ask(find_same, og.encode(fields | {"created_at": 1}, type_byte=241)) is None
    public, phi = (og.encode(SAID | {"created_at": at}, sensitivity=at) for at in (0, 3))
    (address,) = kept.put(public)
    assert kept.ask(find_same, phi) is None
    assert kept.ask(find_same, og.encode(SAID)) == address
    (safer,) = kept.put(phi)
    kept.retract(address)
    assert kept.ask(find_same, og.encode(SAID)) == safer
    signed = bytes([1, phi[1] | 1]) + phi[2:]
    assert kept.ask(find_same, signed) is None


def pair(blob: bytes) -> tuple[bytes, bytes]:
    return sha256(blob).digest(), blob
