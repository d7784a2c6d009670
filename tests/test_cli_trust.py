# SPDX-License-Identifier: Apache-2.0
"""Signatures on the command line: made in a store, taken in, verified in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.crypto.seal import Sealer
from omsgrain.crypto.web import WebResolver
from shell import USAGE, Shell, exit_code, lamp
from signing import ALICE, BOB, GRAIN, IAT, by_hand, headers

WEB = "did:web:robots.example"


@pytest.fixture
def key(shell: Shell, tmp_path: Path) -> Path:
    ALICE.save(tmp_path / "alice.key")
    return tmp_path / "alice.key"


def test_sign_in_a_store(shell: Shell, tmp_path: Path, key: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        old = store.put(lamp("on"))
    told = shell.json("sign", old, "--key", key, "--store", "m.omsg", "--actor", "clerk")
    assert told["did"] == ALICE.did
    new = told["address"]
    BOB.save(tmp_path / "bob.key")
    assert shell.json("sign", new, "--key", "bob.key", "--store", "m.omsg")["address"] == new
    (hit,) = shell.json("query", "m.omsg")["results"]
    assert hit["content_address"] == new
    shown = shell.json("show", "m.omsg", new)["signatures"]
    assert {(one["signer"], one["proven"]) for one in shown} == {
        (ALICE.did, True), (BOB.did, True),
    }  # fmt: skip
    assert "signatures" not in shell.json("show", "m.omsg", old)
    assert shell("show", "m.omsg", new, "--hex") == 0
    assert ALICE.did.encode() in shell.out
    assert shell.json("audit", "m.omsg", "--operation", "sign")[0]["actor"] == "clerk"
    assert shell("get", "m.omsg", new, "--envelope", "--signer", BOB.did, "-o", "e.cose") == 0
    assert crypto.open_signed((tmp_path / "e.cose").read_bytes()).signer == BOB.did
    code, error = shell.error("get", "m.omsg", new, "-o", "e.cose")
    assert (code, error["code"]) == (1, "EEXIST")


def test_what_cannot_be_signed_in_a_store(shell: Shell, tmp_path: Path, key: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        locked = store.put(lamp("on", invalidation_policy={"mode": "locked"}))
    sign = ("sign", locked, "--key", key)
    code, error = shell.error(*sign, "--store", "m.omsg")
    assert (code, error["code"]) == (
        exit_code("ERR_INVALIDATION_DENIED"), "ERR_INVALIDATION_DENIED",
    )  # fmt: skip
    assert shell.error("sign", "0" * 64, "--key", key, "--store", "m.omsg")[0] == exit_code(
        "ERR_NOT_FOUND"
    )
    assert shell(*sign) == USAGE
    assert shell(*sign, "--store", "m.omsg", "--detached") == USAGE
    assert shell("sign", key, "--key", key, "--justification", "x") == USAGE
    assert shell("get", "m.omsg", locked, "--envelope", "--json") == USAGE
    assert shell("get", "m.omsg", locked, "--signer", "x") == USAGE


def test_verify_envelopes(shell: Shell, tmp_path: Path) -> None:
    one = crypto.sign(GRAIN, ALICE, iat=IAT)
    plain = og.encode({**lamp("a " * 4_000), "type": "belief"})
    two = crypto.sign(plain, BOB, iat=IAT)
    file = tmp_path / "signed"  # by what is in it, and not by its name
    file.write_bytes(one)
    address = crypto.verify_signed(one).address
    (signed,) = shell.json("verify", file, "--address", address)["signed"]
    assert signed == {
        "name": str(file), "signer": ALICE.did, "iat": IAT, "iat_proven": False,
        "address": address,
    }  # fmt: skip
    assert shell("verify", file, "--address", "0" * 64) == exit_code("ERR_INTEGRITY")
    file.write_bytes(one + two + one)
    told = shell.json("verify", file)
    assert told["verified"] == 3
    assert [signed["signer"] for signed in told["signed"]] == [ALICE.did, BOB.did, ALICE.did]
    assert shell("verify", file) == 0
    assert shell.out.count(b"not proven") == 3
    assert shell("verify", file, "-q") == 0
    assert shell.out == b""


def test_verify_envelopes_that_are_not_good(shell: Shell, tmp_path: Path) -> None:
    one = crypto.sign(GRAIN, ALICE, iat=IAT)
    forged = one[:-1] + bytes([one[-1] ^ 1])
    web = by_hand(headers(kid=WEB.encode()), crypto.verify_signed(one).blob)
    file = tmp_path / "x.cose"
    for data, codes in [
        (forged, ["ERR_SIGNATURE"]),
        (one + forged + one, ["ERR_SIGNATURE"]),
        (one + one[:-1], ["ERR_CORRUPT"]),
        (one + b"\xd2", ["ERR_CORRUPT"]),
        (b"\xd2", ["ERR_CORRUPT"]),
        (web, ["ERR_DID"]),
        (one + b"junk", ["ERR_CORRUPT"]),
    ]:
        file.write_bytes(data)
        status = shell("verify", tmp_path, "--json")
        failed = json.loads(shell.out)["failed"]
        assert [bad["error"]["code"] for bad in failed] == codes, data[-8:]
        assert status == exit_code(codes[0])


def test_verify_the_envelope_of_a_sealed_grain(shell: Shell, tmp_path: Path) -> None:
    sealed = Sealer(bytes(32)).seal(GRAIN.blob, whole=False, signed=True)
    (tmp_path / "x.cose").write_bytes(crypto.sign(sealed, ALICE, iat=IAT))
    (signed,) = shell.json("verify", "x.cose")["signed"]
    assert (signed["signer"], signed["address"]) == (ALICE.did, og.address(sealed))


def test_verify_a_signature_beside_a_file(shell: Shell, tmp_path: Path, key: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("hello")
    assert shell("sign", file, "--key", key) == 0
    (signed,) = shell.json("verify", "letter.txt.sig")["signed"]
    assert (signed["name"], signed["signer"]) == ("letter.txt", ALICE.did)
    assert shell("verify", tmp_path, "--json") == 0
    assert shell("verify", "letter.txt.sig", "--address", "0" * 64) == exit_code("ERR_UNSUPPORTED")
    (tmp_path / "letter.txt.sig").rename(tmp_path / "moved")
    assert shell("verify", "moved") == exit_code("ERR_NOT_FOUND")
    assert shell.json("verify", "moved", "--of", file)["verified"] == 1
    assert shell("verify", "moved", "letter.txt", "--of", file) == USAGE
    file.write_text("hallo")
    assert shell("verify", "moved", "--of", file) == exit_code("ERR_SIGNATURE")


def test_of_goes_with_nothing_but_a_detached_signature(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.blob").write_bytes(GRAIN.blob)
    (tmp_path / "x.cose").write_bytes(crypto.sign(GRAIN.blob, ALICE, iat=IAT))
    container.write(tmp_path / "x.mg", [GRAIN])
    (tmp_path / "x.aimem.json").write_text('{"aimem_version": "1.0"}')
    for name in ("x.blob", "x.cose", "x.mg", "x.aimem.json"):
        assert shell.error("verify", name, "--of", "x.blob")[1]["code"] == "ERR_UNSUPPORTED", name


def test_ingest_envelopes(shell: Shell, tmp_path: Path) -> None:
    envelopes = [crypto.sign(og.encode(lamp(f"on {n}", n)), ALICE, iat=IAT) for n in range(20)]
    (tmp_path / "many.cose").write_bytes(b"".join(envelopes))
    options = ("--require-signatures", "--errors", "collect")
    assert shell.json("ingest", "m.omsg", "many.cose", *options)["stored"] == 20
    assert shell("verify", "m.omsg") == 0
    text = json.dumps(lamp("unsigned")).encode()
    code, error = shell.error("ingest", "m.omsg", "--require-signatures", stdin=text)
    assert (code, error["code"]) == (exit_code("ERR_SIGNATURE"), "ERR_SIGNATURE")
    assert shell.json("ingest", "m.omsg", stdin=text)["stored"] == 1
    code, _ = shell.error("ingest", "m.omsg", "many.cose", "--compress")
    assert code == exit_code("ERR_UNSUPPORTED")


def test_signers_with_names_on_the_web(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def find(self: WebResolver, did: str) -> crypto.PublicKey:
        asked.append(did)
        return ALICE.public_key

    monkeypatch.setattr(WebResolver, "__call__", find)
    blob = crypto.verify_signed(crypto.sign(GRAIN, ALICE)).blob
    envelope = by_hand(headers(kid=WEB.encode()), blob)
    (tmp_path / "x.cose").write_bytes(envelope)
    address = og.address(blob)
    for store, web in (("known.omsg", True), ("unknown.omsg", False)):
        options = ["--web"] * web
        assert shell("verify", "x.cose", *options) == (0 if web else exit_code("ERR_DID"))
        assert shell("ingest", store, "x.cose", *options) == 0
        (signature,) = shell.json("show", store, address)["signatures"]
        assert (signature["signer"], signature["proven"]) == (WEB, web)
        assert shell("show", store, address) == 0
        assert (b"not proven" in shell.out) is not web
        assert shell("export", store, f"{store}.mg") == 0
    assert asked == [WEB, WEB]
    assert shell.json("import", "third.omsg", "unknown.omsg.mg")["unproven"] == 1
    assert shell.json("import", "fourth.omsg", "unknown.omsg.mg", "--web")["unproven"] == 0


def test_a_signed_checkpoint(shell: Shell, tmp_path: Path, key: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("on"))
    assert shell("audit", "m.omsg", "--checkpoint", "--key", key) == 0
    (tmp_path / "kept.json").write_bytes(shell.out)
    against = ("audit", "m.omsg", "--verify", "--against", "kept.json", "--signer")
    assert shell.json(*against, ALICE.did)["ok"]
    assert shell.error(*against, BOB.did)[0] == exit_code("ERR_SIGNATURE")
    assert shell("audit", "m.omsg", "--key", key) == USAGE
    assert shell("audit", "m.omsg", "--verify", "--signer", ALICE.did) == USAGE
