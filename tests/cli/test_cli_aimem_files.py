# SPDX-License-Identifier: Apache-2.0
"""Bundles in files on the command line: verified, signed, converted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import container
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem.fields import ARRAYS
from support.aimem_files import EXAMPLE, chunk, made
from support.aimem_strategies import TENANT
from support.shell import Shell, belief, exit_code
from support.signers import ALICE

SECRET = "the door code is 4711"
REFUSED = exit_code("ERR_FORMAT")
UNSIGNED = exit_code("ERR_SIGNATURE")


# -- verify ---------------------------------------------------------------------------------------


def test_verify(shell: Shell, bundle_file: Path) -> None:
    said = shell.json("verify", bundle_file, EXAMPLE)
    assert (said["verified"], said["failed"]) == (2, [])
    assert [one["records"]["chunks"] for one in said["documents"]] == [2, 8]
    assert shell("verify", bundle_file) == 0


@pytest.mark.parametrize("ending", ["json", "ndjson"])
def test_a_byte_order_mark_is_skipped(
    shell: Shell, tmp_path: Path, bundle_file: Path, alice_keys: Path, ending: str
) -> None:
    path = tmp_path / f"m.aimem.{ending}"
    assert shell("convert", bundle_file, path) == 0
    assert shell("sign", path, "--key", alice_keys) == 0
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (signed,) = shell.json("verify", path, "--trust", ALICE.did)["signed"]
    assert signed["signer"] == ALICE.did
    store, there = tmp_path / "m.omsg", tmp_path / "m.mif.json"
    assert shell("import", store, path) == 0
    assert shell("convert", path, there) == 0
    assert len(json.loads(there.read_bytes())["memories"]) == 2


def test_verify_reports_every_problem(shell: Shell, tmp_path: Path) -> None:
    bad = made(chunk(1, SECRET, zone="cellar"), chunk(1, "", tags=["x" * 65]), scope="SOME")
    (path := tmp_path / "bad.aimem.json").write_bytes(bad)
    assert shell("verify", path, "--json") == REFUSED
    told = [(one["error"]["rule"], one["error"]["field"])
            for one in json.loads(shell.out)["failed"]]  # fmt: skip
    assert told == [
        ("invalid_scope", "/scope"),
        ("invalid_zone", "/chunks/0/zone"),
        ("duplicate_chunk_id", "/chunks/1/id"),
        ("empty_content", "/chunks/1/content"),
        ("invalid_tag", "/chunks/1/tags/0"),
    ]
    assert shell("verify", path) == REFUSED
    assert b"invalid_tag" in shell.err
    assert SECRET.encode() not in shell.out + shell.err


def test_verify_warns(shell: Shell, tmp_path: Path) -> None:
    (path := tmp_path / "x.aimem.json").write_bytes(made(chunk(1, id="urn:aimem:others:1")))
    said = shell.json("verify", path)
    assert [one["rule"] for one in said["documents"][0]["warnings"]] == ["foreign_producer"]
    assert shell("verify", path) == 0
    assert b"foreign_producer" in shell.err


def test_verify_by_lines(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    lines = tmp_path / "y.aimem.ndjson"
    assert shell("convert", bundle_file, lines) == 0
    assert shell.json("verify", lines)["documents"][0]["records"]["chunks"] == 2
    whole = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(b"".join(whole[:-1]))
    assert shell("verify", lines, "--json") == REFUSED
    (failed,) = json.loads(shell.out)["failed"]
    assert failed["error"]["rule"] == "checksum_mismatch"


def test_a_document_that_is_cut_short(shell: Shell, bundle_file: Path) -> None:
    bundle_file.write_bytes(bundle_file.read_bytes()[:-20])
    assert shell("verify", bundle_file) == REFUSED
    assert shell.error("import", "m.omsg", bundle_file)[1]["rule"] == "not_json"
    assert not Path("m.omsg").exists()


@pytest.mark.parametrize("by", ["document", "lines"])
def test_an_empty_bundle(shell: Shell, tmp_path: Path, by: str) -> None:
    """Without arrays, a document and an envelope look the same but for their checksums."""
    (path := tmp_path / "x.aimem.json").write_bytes(made())
    if by == "lines":
        assert shell("convert", path, "x.aimem.ndjson") == 0
        path = tmp_path / "x.aimem.ndjson"
    else:
        document = json.loads(made())
        empty = bundle.Bundle({n: v for n, v in document.items() if n not in ARRAYS})
        path.write_bytes(bundle.write_bundle(empty, ()))
    assert len(path.read_bytes().splitlines()) == 1
    assert shell.json("verify", path)["verified"] == 1


def test_verify_a_directory(
    shell: Shell, tmp_path: Path, bundle_file: Path, alice_keys: Path
) -> None:
    (there := tmp_path / "there").mkdir()
    (there / "x.aimem.json").write_bytes(bundle_file.read_bytes())
    assert shell("sign", there / "x.aimem.json", "--key", alice_keys) == 0
    said = shell.json("verify", there, "--trust", "alice.cose")
    assert said["verified"] == len(said["signed"]) == 1
    (there / "y.json").write_bytes(b"{}")
    assert shell.json("verify", there)["verified"] == 1


# -- signatures -----------------------------------------------------------------------------------


def test_sign_and_verify(
    shell: Shell, tmp_path: Path, bundle_file: Path, alice_keys: Path
) -> None:
    """The signature covers the values of a bundle, not their spelling."""
    assert shell("sign", bundle_file, "--key", alice_keys) == 0
    bundle_file.write_text(json.dumps(json.loads(bundle_file.read_bytes()), indent=3))
    for path in (bundle_file, tmp_path / "x.aimem.json.sig"):
        for trust in (
            [],
            ["--trust", "alice.cose"],
            ["--trust", ALICE.did],
            ["--trust", alice_keys],
        ):
            (signed,) = shell.json("verify", path, *trust)["signed"]
            assert signed["signer"] == ALICE.did
        assert shell("verify", path, "--trust", "bob.cose", "--json") == UNSIGNED
        (failed,) = json.loads(shell.out)["failed"]
        assert failed["error"]["rule"] == "signature_untrusted"
    bundle_file.write_bytes(made(chunk(1)))
    assert shell("verify", bundle_file) == UNSIGNED
    assert shell("verify", bundle_file, "--trust", "alice.cose", "--json") == UNSIGNED
    (failed,) = json.loads(shell.out)["failed"]
    assert failed["error"]["rule"] == "signature_invalid"


def test_keys_that_are_none(shell: Shell, bundle_file: Path, alice_keys: Path) -> None:
    assert shell("sign", bundle_file, "--key", alice_keys) == 0
    assert shell.error("verify", bundle_file, "--trust", bundle_file)[1]["code"] == "ERR_KEY"
    assert shell.error("verify", bundle_file, "--trust", "nowhere")[1]["code"] == "ENOENT"
    assert (
        shell.error("verify", bundle_file, "--trust", "did:web:a.example")[1]["code"] == "ERR_DID"
    )


# -- convert --------------------------------------------------------------------------------------


def test_to_grains_and_back(shell: Shell, tmp_path: Path) -> None:
    said = shell.json("convert", EXAMPLE, "x.mg")
    assert {one["field"] for one in said["losses"]} == {"embedding"}
    assert len(said["losses"]) == 8
    assert shell("verify", "x.mg") == 0
    assert shell.json("convert", "x.mg", "y.aimem.json")["losses"] == []
    document = json.loads(EXAMPLE.read_bytes())
    for one in document["chunks"]:
        del one["embedding"]
    back = json.loads(Path("y.aimem.json").read_bytes())
    del document["checksum"], back["checksum"]
    assert back == document


def test_by_lines_and_back(shell: Shell, tmp_path: Path) -> None:
    assert shell.json("convert", EXAMPLE, "x.aimem.ndjson", "--embeddings")["losses"] == []
    assert shell.json("convert", "x.aimem.ndjson", "y.aimem.json", "--embeddings")["losses"] == []
    assert json.loads(Path("y.aimem.json").read_bytes()) == json.loads(EXAMPLE.read_bytes())
    assert len(shell.json("convert", EXAMPLE, "z.aimem.json")["losses"]) == 8


def test_grains_that_never_were_aimem(shell: Shell, tmp_path: Path) -> None:
    old, new = og.encode(belief(1, user_id=TENANT)), og.encode(belief(2, user_id=TENANT))
    states = {og.address(old): {"superseded_by": og.address(new)}}
    container.write(tmp_path / "x.mg", [old, new, og.crypto.sign(new, ALICE)], manifest=states)
    said = shell.json("convert", "x.mg", "x.aimem.json", "--producer", "robots")
    assert [one["field"] for one in said["losses"]] == ["grain", "signature"]
    assert shell.json("verify", "x.aimem.json")["documents"][0]["records"]["chunks"] == 2
    assert shell("convert", "x.mg", "y.aimem.json") == 0
    assert b"superseded" in shell.err


def test_a_file_that_is_there(shell: Shell, bundle_file: Path) -> None:
    for target in ("x.mg", "y.aimem.json", "y.aimem.ndjson"):
        Path(target).write_bytes(b"mine")
        assert shell.error("convert", bundle_file, target)[1]["code"] == "EEXIST"
        assert Path(target).read_bytes() == b"mine"
        assert shell("convert", bundle_file, target, "--replace") == 0
        assert shell("verify", target) == 0


def test_what_cannot_be_converted(shell: Shell, tmp_path: Path, bundle_file: Path) -> None:
    (bad := tmp_path / "bad.aimem.json").write_bytes(
        bundle_file.read_bytes().replace(b"FULL", b"SOME")
    )
    (tmp_path / "other.json").write_bytes(b'{"format": "another"}')
    before = {path.name for path in tmp_path.iterdir()}
    assert shell.error("convert", bad, "x.mg")[1]["rule"] == "invalid_scope"
    assert shell.error("convert", bundle_file, "x.txt")[1]["code"] == "ERR_SCHEMA"
    assert (
        shell.error("convert", bundle_file, "x.mg", "--format", "yaml")[1]["code"] == "ERR_SCHEMA"
    )
    assert shell.error("convert", "other.json", "x.mg")[1]["code"] == "ERR_UNSUPPORTED"
    assert shell.error("convert", bundle_file, "no/x.mg")[0] != 0
    assert shell.error("convert", bundle_file, "no/x.aimem.json")[1]["code"] == "ENOENT"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_write_that_fails_leaves_nothing(
    shell: Shell, tmp_path: Path, bundle_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name for path in tmp_path.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert shell.error("convert", bundle_file, "y.aimem.json")[1]["code"] == "ENOSPC"
    assert {path.name for path in tmp_path.iterdir()} == before
