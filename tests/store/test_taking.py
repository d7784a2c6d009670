# SPDX-License-Identifier: Apache-2.0
"""Messages put in one commit: every form, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.crypto import prove, sign
from omsgrain.errors import StoreError
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from omsgrain.store.take_messages import take
from support.shell import belief, lines
from support.signers import ALICE


@pytest.fixture
def store() -> GrainStore:
    return GrainStore(MemoryStorage())


def text(n: int, **more: object) -> bytes:
    return json.dumps(belief(n, **more)).encode()


def test_every_form_of_a_message(store: GrainStore) -> None:
    blob = og.encode(belief(1))
    signed = [sign(og.encode(belief(n)), ALICE) for n in (2, 3)]
    many = json.dumps([belief(5), belief(6)], indent=2).encode()
    messages = [blob, b"".join(signed), text(4), many, lines(belief(7), belief(8))]
    messages += [
        b"\xef\xbb\xbf" + text(11),
        b" \n" + text(9) + b"\n\n",
        json.dumps(belief(10), indent=1).encode(),
    ]
    taken = take(store, messages)
    assert (taken.stored, taken.duplicates, taken.refused) == (11, 0, {})
    assert {grain["subject"] for grain in store} == {f"s{n}" for n in range(1, 12)}
    blob, proof = prove(signed[0])
    assert [one.signer for one in store.trust.signatures(og.address(blob))] == [proof.signer]
    again = take(store, messages)
    assert (again.stored, again.duplicates) == (0, 11)


def test_one_commit_for_all_of_them(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        take(store, [text(n) for n in range(50)] + [og.encode(belief(n)) for n in range(50, 99)])
        puts = [entry for entry in store.audit.entries() if entry.operation == "put"]
        assert len(puts) == 1


@pytest.mark.parametrize(
    ("message", "code", "line"),
    [
        (b"", "ERR_EMPTY", None),
        (b" \r\n ", "ERR_EMPTY", None),
        (b"[]", "ERR_EMPTY", None),
        (b"no grain", "ERR_FORMAT", None),
        (b"\x01\x02", "ERR_TOO_SHORT", None),
        (b"\xd2\x84", "ERR_CORRUPT", None),
        (b"{}", "ERR_NO_TYPE", None),
        (text(1, confidence=2), "ERR_RANGE", None),
        (text(1, superseded_by="a" * 64), "ERR_SCHEMA", None),
        (text(1) + b"\n" + text(2, confidence=2) + b"\n", "ERR_RANGE", 2),
        (b'[{"type": "belief"', "ERR_FORMAT", 1),
        (b'{"type": "bel\xff"}', "ERR_FORMAT", None),
        (b"x" * 5_000, "ERR_TOO_LARGE", None),
        (og.encode(belief(1))[:-1], "ERR_CORRUPT", None),
    ],
)
def test_what_is_refused(store: GrainStore, message: bytes, code: str, line: int | None) -> None:
    """It says why, and holds up none of the others."""
    taken = take(store, [text(100), message, og.encode(belief(101))], most=4_000)
    assert list(taken.refused) == [1]
    refusal = taken.refused[1]
    assert (refusal.error.code, refusal.error.line, refusal.count) == (code, line, 1)
    assert store.query(subject="s100").results
    assert store.query(subject="s101").results


def test_the_good_lines_of_a_message_are_stored(store: GrainStore) -> None:
    bad = text(2, confidence=2)
    taken = take(store, [b"\n".join([text(1), bad, text(3), bad, text(4)])])
    assert taken.stored == 3
    assert (taken.refused[0].error.line, taken.refused[0].count) == (2, 2)


def test_erased_grains_do_not_come_back(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(belief(1, user_id="u1"))
        store.privacy.erase(["u1"], reason_code="asked")
        message = text(1, user_id="u1")
        assert take(store, [message]).refused[0].error.code == "ERR_ERASED"
        assert take(store, [message], allow_erased=True).stored == 1


def test_likely_mistakes_are_counted(store: GrainStore) -> None:
    assert take(store, [text(1, confidense=1), text(2)]).warnings == 1


def test_a_store_that_cannot_be_written_refuses_no_message(tmp_path: Path) -> None:
    og.open(tmp_path / "m.omsg").close()
    with og.open(tmp_path / "m.omsg", readonly=True) as store:
        with pytest.raises(StoreError):
            take(store, [text(1)])


@pytest.mark.parametrize(
    "rest", [b"\n", b"\n" + text(1), b"\x08\nX", text(1) + b"\n" + text(2), b"[]\n"]
)
def test_data_after_an_envelope_is_not_json(store: GrainStore, rest: bytes) -> None:
    """It was read as lines, and those of other messages took each other's places."""
    signed = sign(og.encode(belief(3)), ALICE)
    taken = take(store, [text(4), signed + rest, text(5), text(6, confidence=7)])
    assert (taken.stored, list(taken.refused)) == (3, [3, 1])
    assert taken.refused[1].error.code in ("ERR_CORRUPT", "ERR_VERSION", "ERR_TOO_SHORT")
    assert taken.refused[1].count == 1


def test_a_byte_order_mark_is_taken_once(store: GrainStore) -> None:
    taken = take(store, [b"\xef\xbb\xbf" * 2 + text(1), b"\xef\xbb\xbf" + text(2)])
    assert (taken.stored, list(taken.refused)) == (1, [0])
