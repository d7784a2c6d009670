# SPDX-License-Identifier: Apache-2.0
"""Values of a sync that come from outside: whatever they are, they are taken or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.container.stream import pack_stream
from omsgrain.errors import OmsError
from omsgrain.sync import http, protocol
from omsgrain.sync.batch import digests
from omsgrain.sync.peer import (
    START,
    Batch,
    BatchResult,
    GrainState,
    Hello,
    HoldToggle,
    Position,
    Reconciled,
    Refusal,
    Tombstone,
)
from omsgrain.sync.protocol import ANSWERS, QUESTIONS, Reconcile
from support.sync_messages import BATCH, GOOD, GREETING, KEY, STATE, STORE


@pytest.mark.parametrize("name", GOOD)
def test_messages_come_back(name: str) -> None:
    question, answer = GOOD[name]
    assert protocol.unpack(QUESTIONS[name], protocol.pack(question)) == question
    assert protocol.unpack(ANSWERS[name], protocol.pack(answer)) == answer
    assert GOOD.keys() == QUESTIONS.keys() == ANSWERS.keys()


BAD = [
    Hello(b"s"),
    Hello(STORE, ("x" * 1_025,)),
    Hello(STORE, ("x",) * 1_001),
    Position(-1, b""),
    Position(2**63, b""),
    Position(1, b"m" * 33),
    replace(GREETING, store=b"s"),
    replace(GREETING, grains=-1),
    replace(GREETING, seen=Position(-1, b"")),
    Reconciled(bytes(9 << 20)),
    Reconciled(b"a", sample=(b"k",)),
    Reconcile("grains", bytes(3 << 20), Hello(), True, 1 << 16),
    Reconcile("grains", b"a", Hello(b"s"), True, 1 << 16),
    Reconcile("grains", b"a", Hello(), True, 4_095),
    Reconcile("grains", b"a", Hello(), True, 2 << 20),
    (BatchResult(),) * 100_001,
    replace(BATCH, store=b"s"),
    replace(BATCH, until=Position(-1, b"")),
    replace(BATCH, rest=(b"k",)),
    replace(BATCH, states=(STATE,) * 8_001),
    replace(BATCH, tombstones=(Tombstone(b"k", 1, ""),)),
    replace(BATCH, tombstones=(Tombstone(KEY, -1, ""),)),
    replace(BATCH, tombstones=(Tombstone(KEY, 1, "", 0),)),
    replace(BATCH, tombstones=(Tombstone(KEY, 1, "x" * 257),)),
    replace(BATCH, states=(replace(STATE, address=b"k"),)),
    replace(BATCH, states=(replace(STATE, successors=(b"k",)),)),
    replace(BATCH, states=(replace(STATE, successors=(KEY,) * 100_001),)),
    replace(BATCH, states=(replace(STATE, restricted=-1),)),
    replace(BATCH, states=(replace(STATE, valid_to=2**63),)),
    replace(BATCH, states=(replace(STATE, holds=(HoldToggle("x" * 1_025, 1),)),)),
    replace(BATCH, states=(replace(STATE, holds=(HoldToggle("x", -1),)),)),
    replace(BATCH, withheld=(Refusal("grain", b"k", "ERR_KEY"),)),
    replace(BATCH, tombstones=(Tombstone(KEY, 1, "", 1, b"hint"),)),
    replace(BATCH, followed=b"d" * 33),
    replace(GREETING, followed=b"d" * 33),
    BatchResult(stored=-1),
    BatchResult(waiting=(b"k",)),
    BatchResult(refused=(Refusal("grain", KEY, "x" * 257),)),
]


@pytest.mark.parametrize("value", BAD, ids=lambda value: type(value).__name__)
def test_what_cannot_be(value: Any) -> None:
    with pytest.raises(OmsError) as refused:
        protocol.check(value)
    assert refused.value.code in ("ERR_SCHEMA", "ERR_RANGE")


@given(st.sampled_from(sorted(GOOD)), st.integers(0, 400), st.binary(max_size=3))
def test_noise(name: str, at: int, more: bytes) -> None:
    """Only declared errors, whatever the bytes are."""
    data = protocol.pack_value(GOOD[name][0])
    at %= len(data)
    bad = data[:at] + more + data[at + len(more) :]
    framed = b"".join(pack_stream((), len(bad).to_bytes(4, "big") + bad))
    try:
        protocol.unpack(QUESTIONS[name], framed)
    except OmsError:
        pass


@given(st.integers(1, 3_000), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_parts_are_the_whole(size: int, grains: int, states: int, stones: int) -> None:
    blobs = tuple(bytes([1, 0, 1]) + bytes([n]) * 100 * n for n in range(grains))
    addresses = digests(blobs)
    told = tuple(
        GrainState(addresses[n], tuple(addresses[n + 1 :: 3])) if n < grains
        else GrainState(KEY, (KEY,) * n)
        for n in range(states)
    )  # fmt: skip
    marks = tuple(Tombstone(bytes([n]) * 32, 1, "asked") for n in range(stones))
    whole = Batch(STORE, None, blobs, told, marks, Position(9, b"m"), START)
    left: Batch | None = whole
    came: list[bytes] = []
    found = Batch(STORE)
    counted: set[GrainState] = set()
    while left is not None:
        part, left = http.cut_batch(left, size)
        assert (part.until is None) == part.more == (left is not None)
        came += digests(part.grains)
        fresh = set(digests(part.grains))
        assert {one for one in told if one.address in fresh} <= set(part.states), "with its grain"
        counted |= {
            one for one in part.states
            if {one.address, *one.successors} & set(addresses) <= set(came)
        }  # fmt: skip
        found = replace(http.together(found, part), tombstones=found.tombstones + part.tombstones)
    assert found.grains == blobs and found.tombstones == marks
    assert counted == set(told), "each once, at least, when all it speaks of is there"
    assert found.until == whole.until
