# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of an audit trail that are signed, so that who keeps them need not be trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omsgrain import errors as err
from omsgrain.storage.audit import Checkpoint
from omsgrain.storage.tables import AUDIT, META
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from support.shell import Shell
from support.signed_stores import EVERYWHERE, WEB, WEB_ALICE, belief, find_web, make
from support.signers import ALICE, BOB, IAT


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    with make(request.param, tmp_path) as opened:
        for number in range(4):
            opened.put(belief(f"number {number}"))
        yield opened


def test_there_and_back(store: GrainStore) -> None:
    plain = store.audit.checkpoint()
    kept = store.audit.checkpoint(ALICE, iat=IAT)
    assert replace(kept, signature=None) == plain and kept.signature is not None
    assert Checkpoint.from_json(kept.to_json()) == kept
    assert Checkpoint.from_json(kept.to_json().encode()) == kept
    assert kept.proof().signer == kept.proof(signer=ALICE.did).signer == ALICE.did
    assert kept.proof().iat == IAT
    store.put(belief("one more"))
    for signer in (None, ALICE.did):
        assert store.audit.verify(kept, signer=signer, grains=True).ok
    assert store.audit.verify(plain).ok


def test_it_proves_the_tail(store: GrainStore) -> None:
    kept = store.audit.checkpoint(BOB)

    def cut(writer: Any) -> None:
        for number in (3, 4):
            writer.set_row(AUDIT, number.to_bytes(8, "big"), None)
        row = writer.row(AUDIT, (2).to_bytes(8, "big"))
        writer.set_row(META, b"audit.head", (2).to_bytes(8, "big") + row[:32])

    context_of(store).storage.write(cut)
    assert not any(one.where == "chain" for one in store.audit.verify().problems)
    found = store.audit.verify(kept, signer=BOB.did).problems
    assert [one.number for one in found if one.where == "chain"] == [3]


@pytest.mark.parametrize("change", [{"number": 3}, {"hash": "00" * 32}, {"time": 1}])
def test_a_changed_one_is_refused(store: GrainStore, change: dict[str, Any]) -> None:
    kept = json.loads(store.audit.checkpoint(ALICE).to_json())
    with pytest.raises(err.SignatureError):
        store.audit.verify(Checkpoint.from_json(json.dumps(kept | change)))


def test_the_required_signer(store: GrainStore) -> None:
    kept, plain = store.audit.checkpoint(BOB), store.audit.checkpoint()
    for checkpoint in (kept, plain, None):
        with pytest.raises(err.SignatureError):
            store.audit.verify(checkpoint, signer=ALICE.did)
    with pytest.raises(err.SignatureError):
        plain.proof()


def test_a_name_that_needs_a_resolver(store: GrainStore) -> None:
    kept = store.audit.checkpoint(WEB_ALICE)
    with pytest.raises(err.DidError):
        store.audit.verify(kept)
    assert store.audit.verify(kept, signer=WEB, resolver=find_web).ok


@pytest.mark.parametrize("signature", ["not base64!", "\u00e9", 7, [], "A" * 5_000])
def test_invalid_signatures(signature: Any) -> None:
    row = json.loads(Checkpoint(7, "0a" * 32, 1).to_json())
    with pytest.raises(err.FormatError):
        Checkpoint.from_json(json.dumps(row | {"signature": signature}))
    kept = Checkpoint.from_json(json.dumps(row | {"signature": ""}))
    with pytest.raises(err.CorruptError):
        kept.proof()


def test_by_files(shell: Shell, tmp_path: Path) -> None:
    key, file = tmp_path / "key.pem", tmp_path / "end.json"
    ALICE.save(key)
    path = tmp_path / "signed.omsg"
    with make("lmdb", tmp_path) as store:
        store.put(belief("so"))
    made = shell.json("audit", path, "--checkpoint", "--key", key)
    assert "signature" not in shell.json("audit", path, "--checkpoint")
    file.write_text(json.dumps(made))
    verify = ("audit", path, "--verify", "--against", file, "--signer")
    assert shell.json(*verify, ALICE.did)["problems"] == []
    assert shell.error(*verify, BOB.did)[1]["code"] == "ERR_SIGNATURE"
