# SPDX-License-Identifier: Apache-2.0
"""Signatures on the command line: made in a store, taken in, verified in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.crypto import signers
from omsgrain.crypto.did_web import WebResolver
from omsgrain.crypto.seal import Sealer
from omsgrain.errors import SignatureError
from support.aimem_files import chunk, made
from support.paths import ROOT
from support.shell import USAGE, Shell, exit_code, lamp
from support.signers import ALICE, BOB, CAROL, GRAIN, IAT, by_hand, headers

EXAMPLES = ROOT / "examples"
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


def test_grains_that_cannot_be_signed_in_a_store(shell: Shell, tmp_path: Path, key: Path) -> None:
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


# -- whom to trust --------------------------------------------------------------------------------

UNSIGNED = exit_code("ERR_SIGNATURE")


def files_of_each_kind(tmp_path: Path) -> dict[str, Path]:
    """A file of each kind that can be verified, none of them signed."""
    there = tmp_path / "there"
    there.mkdir()
    container.write(there / "grains.mg", [GRAIN])
    (there / "blob.mg").write_bytes(GRAIN.blob)
    view = og.disclose(og.encode({**lamp("on"), "user_id": "ada of the lamps"}), ["user_id"])
    (there / "view.mg").write_bytes(view.blob)
    chunks = made(chunk(1))
    (there / "brain.aimem.json").write_bytes(chunks)
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("on"))
        (there / "checkpoint.mg").write_text(store.audit.checkpoint().to_json())
    (there / "notes.mif.json").write_bytes((EXAMPLES / "garden.mif.json").read_bytes())
    (there / "notes.memory.json").write_bytes((EXAMPLES / "watering.memory.json").read_bytes())
    return {path.name: path for path in sorted(there.iterdir())}


def lines_too(shell: Shell, files: dict[str, Path]) -> dict[str, Path]:
    path = files["brain.aimem.json"].with_name("brain.aimem.ndjson")
    assert shell("convert", files["brain.aimem.json"], path) == 0
    return {**files, path.name: path}


def rules_of(shell: Shell, *args: object) -> tuple[int, list[str | None]]:
    """The exit code of a verification, and the rules that failures broke."""
    code = shell("verify", *args, "--json")
    return code, [one["error"].get("rule") for one in json.loads(shell.out)["failed"]]


def test_with_trust_every_kind_of_file_is_signed_by_a_trusted_key(
    shell: Shell, tmp_path: Path, key: Path
) -> None:
    BOB.save(tmp_path / "bob.key")
    files = lines_too(shell, files_of_each_kind(tmp_path))
    there = tmp_path / "there"
    trust = ("--trust", ALICE.did)
    for name, path in files.items():
        assert shell.json("verify", path)["verified"] == 1, name
        assert rules_of(shell, path, *trust) == (UNSIGNED, ["signature_missing"]), name
    assert rules_of(shell, there, *trust) == (UNSIGNED, ["signature_missing"] * len(files))
    for path in files.values():
        assert shell("sign", path, "--key", key, "--detached") == 0
        assert shell.json("verify", path, *trust)["signed"][0]["signer"] == ALICE.did
        assert shell.json("verify", f"{path}.sig", *trust)["verified"] == 1
    assert shell.json("verify", there, *trust)["verified"] == len(files)
    for path in files.values():
        Path(f"{path}.sig").unlink()
        assert shell("sign", path, "--key", "bob.key", "--detached") == 0
        for found in (path, f"{path}.sig"):
            assert rules_of(shell, found, *trust) == (UNSIGNED, ["signature_untrusted"]), found
            assert shell("verify", found, *trust, "--trust", BOB.did) == 0
    assert rules_of(shell, there, *trust) == (UNSIGNED, ["signature_untrusted"] * len(files))


def test_a_signature_beside_any_file_must_hold(shell: Shell, tmp_path: Path, key: Path) -> None:
    files = lines_too(shell, files_of_each_kind(tmp_path))
    for path in files.values():
        beside = Path(f"{path}.sig")
        beside.write_bytes(b"garbage")
        for found in (path, beside):
            assert rules_of(shell, found) == (UNSIGNED, ["signature_invalid"]), found
        beside.write_bytes(crypto.sign_detached(b"other bytes", ALICE))
        for found in (path, beside):
            assert rules_of(shell, found) == (UNSIGNED, ["signature_invalid"]), found
    code, rules = rules_of(shell, tmp_path / "there")
    assert (code, rules) == (UNSIGNED, ["signature_invalid"] * len(files))


def test_with_trust_envelopes_are_of_a_trusted_key(shell: Shell, tmp_path: Path) -> None:
    by_alice, by_bob = (crypto.sign(GRAIN, one, iat=IAT) for one in (ALICE, BOB))
    (tmp_path / "x.cose").write_bytes(by_alice + by_bob)
    assert rules_of(shell, "x.cose", "--trust", ALICE.did) == (UNSIGNED, ["signature_untrusted"])
    assert shell("verify", "x.cose", "--trust", ALICE.did, "--trust", BOB.did) == 0
    sealed = Sealer(bytes(32)).seal(GRAIN.blob, whole=False, signed=True)
    (tmp_path / "x.cose").write_bytes(crypto.sign(sealed, BOB, iat=IAT))
    assert rules_of(shell, "x.cose", "--trust", ALICE.did) == (UNSIGNED, ["signature_untrusted"])
    named = by_hand(headers(kid=WEB.encode()), crypto.verify_signed(by_alice).blob)
    (tmp_path / "x.cose").write_bytes(named)
    (tmp_path / "web.cose").write_bytes(signers.dumps_public(ALICE.public_key, WEB))
    assert shell("verify", "x.cose") == exit_code("ERR_DID")
    assert shell("verify", "x.cose", "--trust", "web.cose") == 0
    (tmp_path / "web.cose").write_bytes(signers.dumps_public(BOB.public_key, WEB))
    assert shell("verify", "x.cose", "--trust", "web.cose") == UNSIGNED
    # A key that only calls itself by the name of another is not the other.
    (tmp_path / "x.cose").write_bytes(by_alice)
    (tmp_path / "liar.cose").write_bytes(signers.dumps_public(BOB.public_key, ALICE.did))
    assert shell("verify", "x.cose", "--trust", "liar.cose") == UNSIGNED


def test_with_trust_checkpoints_and_disclosures(shell: Shell, tmp_path: Path, key: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("on"))
    assert shell("audit", "m.omsg", "--checkpoint", "--key", key) == 0
    kept = shell.out
    (tmp_path / "kept.json").write_bytes(kept)
    for trust in ((), ("--trust", ALICE.did)):
        assert shell.json("verify", "kept.json", *trust)["signed"][0]["signer"] == ALICE.did
    assert rules_of(shell, "kept.json", "--trust", BOB.did) == (UNSIGNED, ["signature_untrusted"])
    (tmp_path / "kept.json").write_bytes(kept.replace(b'"number":1', b'"number":2'))
    assert rules_of(shell, "kept.json") == (UNSIGNED, ["signature_invalid"])
    (tmp_path / "x.cose").write_bytes(crypto.sign(GRAIN, ALICE, iat=IAT))
    assert shell("disclose", "x.cose", "--hide", "object", "-o", "view.mg") == 0
    check = ("disclose", "view.mg", "--check", "--original")
    assert shell(*check, "x.cose", "--trust", ALICE.did) == 0
    assert shell.error(*check, "x.cose", "--trust", BOB.did)[1]["rule"] == "signature_untrusted"
    plain = crypto.with_signed_bit(GRAIN)
    (tmp_path / "plain.mg").write_bytes(GRAIN.blob)
    assert plain.address == crypto.verify_signed((tmp_path / "x.cose").read_bytes()).address
    assert shell("disclose", "plain.mg", "--hide", "object", "-o", "other.mg") == 0
    said = shell.error(
        "disclose", "other.mg", "--check", "--original", "plain.mg", "--trust", ALICE.did
    )
    assert said[1]["rule"] == "signature_missing"
    assert shell("disclose", "view.mg", "--check", "--trust", ALICE.did) == USAGE


def test_with_trust_every_grain_of_a_store_is_signed(
    shell: Shell, tmp_path: Path, key: Path
) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(crypto.sign(GRAIN, ALICE, iat=IAT))
        store.put(crypto.sign(GRAIN, BOB, iat=IAT))
    for one in (ALICE, BOB):
        assert shell.json("verify", "m.omsg", "--trust", one.did)["verified"] == 1
    assert rules_of(shell, "m.omsg", "--trust", CAROL.did) == (UNSIGNED, ["signature_untrusted"])
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("on"))
    assert rules_of(shell, "m.omsg", "--trust", BOB.did) == (UNSIGNED, ["signature_missing"])


def test_who_signed_a_file_in_python(tmp_path: Path) -> None:
    path = tmp_path / "x.mg"
    container.write(path, [GRAIN])
    with pytest.raises(SignatureError) as refused:
        container.verify(path, signer=ALICE.did)
    assert refused.value.rule == "signature_missing"
    Path(f"{path}.sig").write_bytes(crypto.sign_file(path, ALICE))
    assert crypto.verify_file(path, signer=ALICE.did).signer == ALICE.did
    assert container.verify(path, signer=ALICE.did).ok
    for check in (crypto.verify_file, container.verify):
        with pytest.raises(SignatureError) as refused:
            check(path, signer=BOB.did)
        assert refused.value.rule == "signature_untrusted"
    Path(f"{path}.sig").write_bytes(crypto.sign_detached(b"other", ALICE))
    with pytest.raises(SignatureError):
        container.verify(path, signer=ALICE.did, errors="collect")


def importable(shell: Shell, tmp_path: Path) -> dict[str, tuple[object, ...]]:
    """A file of each kind that can be imported, and with which options."""
    files = lines_too(shell, files_of_each_kind(tmp_path))
    options: dict[str, tuple[object, ...]] = {
        "grains.mg": (),
        "brain.aimem.json": (),
        "brain.aimem.ndjson": (),
        "notes.mif.json": ("--user", "ada"),
        "notes.memory.json": ("--user", "ada"),
    }
    return {str(files[name]): given for name, given in options.items()}


def test_import_looks_at_the_signature_beside_any_file(
    shell: Shell, tmp_path: Path, key: Path
) -> None:
    for n, (path, options) in enumerate(importable(shell, tmp_path).items()):
        take = ("import", f"{n}.omsg", path, *options)
        trust = ("--trust", ALICE.did)
        required = (*trust, "--require-signature")
        assert shell.error(*take, *required)[1]["rule"] == "signature_missing", path
        for signature in (b"garbage", crypto.sign_detached(b"other bytes", ALICE)):
            Path(f"{path}.sig").write_bytes(signature)
            for given in ((), trust, required):
                assert shell.error(*take, *given)[1]["rule"] == "signature_invalid", path
        Path(f"{path}.sig").unlink()
        assert shell("sign", path, "--key", key) == 0
        other = shell.error(*take, "--trust", BOB.did)[1]
        assert other["rule"] == "signature_untrusted", path
        assert not Path(f"{n}.omsg").exists()
        for given in (required, trust, ()):
            assert shell(*take, *given) == 0, shell.err


def test_import_of_parts_and_tables_and_directories(
    shell: Shell, tmp_path: Path, key: Path
) -> None:
    for number in (1, 2):
        container.write(tmp_path / f"x-000{number}.mg", [og.encode(lamp("on", number))])
        assert shell("sign", f"x-000{number}.mg", "--key", key) == 0
    required = ("--trust", ALICE.did, "--require-signature")
    assert shell("import", "m.omsg", "x.mg", *required) == 0
    (tmp_path / "x-0002.mg.sig").write_bytes(crypto.sign_detached(b"other", ALICE))
    assert shell.error("import", "n.omsg", "x.mg")[1]["rule"] == "signature_invalid"
    assert shell("export", "m.omsg", "x.parquet") == 0
    assert (
        shell.error("import", "n.omsg", "x.parquet", *required)[1]["rule"] == "signature_missing"
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.memory.json").write_bytes(
        (EXAMPLES / "watering.memory.json").read_bytes()
    )
    take = ("import", "n.omsg", "notes", "--user", "ada")
    assert shell.error(*take, *required)[1]["rule"] == "signature_missing"
    assert shell("sign", "notes/a.memory.json", "--key", key) == 0
    assert shell(*take, *required) == 0, shell.err


def test_an_unknown_file_has_its_own_message(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"hello": 1}')
    (tmp_path / "x.txt").write_text("hello")
    for command in ("verify", "show"):
        for name, found in (("x.json", "JSON of no known format"), ("x.txt", "no known format")):
            shell(command, name)
            assert found in shell.err.decode() and "version" not in shell.err.decode()
    assert shell("verify", "x.json") == exit_code("ERR_UNSUPPORTED")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("m.mg", ("export", "m.omsg", "m.mg")),
        ("m.mif.json", ("export", "m.omsg", "m.mif.json", "--user", "ada")),
        ("m.aimem.json", ("convert", "old.mif.json", "m.aimem.json", "--user", "ada")),
    ],
)
def test_a_file_that_is_replaced_leaves_no_signature_behind(
    shell: Shell, tmp_path: Path, key: Path, name: str, arguments: tuple[str, ...]
) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("on", user_id="ada"))
    assert shell("export", "m.omsg", "old.mif.json", "--user", "ada") == 0, shell.err
    assert shell(*arguments) == 0, shell.err
    assert shell("sign", name, "--key", key) == 0, shell.err
    with og.open(tmp_path / "m.omsg") as store:
        store.put(lamp("off", user_id="ada"))
    assert shell("export", "m.omsg", "old.mif.json", "--user", "ada", "--replace") == 0, shell.err
    assert shell(*arguments, "--replace") == 0, shell.err
    assert not (tmp_path / f"{name}.sig").exists()
    assert shell("verify", name) == 0, shell.err
