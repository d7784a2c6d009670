# SPDX-License-Identifier: Apache-2.0
"""Disclosures on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.crypto import open_signed, sign
from omsgrain.crypto.disclosure import view_of
from omsgrain.errors import IntegrityError, KeyMissingError, SchemaError, SignatureError
from support.shell import USAGE, Shell
from support.signers import ALICE, FIELDS, IAT

GRAIN = og.Grain(og.encode(FIELDS | {"user_id": "u7"}))
ENVELOPE = sign(GRAIN, ALICE, iat=IAT)
VIEW = view_of(GRAIN, ["user_id", "object"])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, data in (("whole", GRAIN.blob), ("envelope", ENVELOPE), ("view", VIEW.blob)):
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_make(shell: Shell, files: Path) -> None:
    assert shell("disclose", files / "whole", "--hide", "user_id,object") == 0
    assert shell.out == VIEW.blob
    assert b"user_id" in shell.err
    assert b"u7" not in shell.err
    new = files / "new"
    assert shell("disclose", "-", "--hide", "user_id", "--hide", "object", "-o", new,
                 stdin=GRAIN.blob) == 0  # fmt: skip
    assert new.read_bytes() == VIEW.blob
    assert VIEW.address in shell.out.decode()
    assert shell("disclose", files / "whole", "--hide", "user_id", "-o", new) == 1
    assert new.read_bytes() == VIEW.blob


def test_make_json(shell: Shell, files: Path) -> None:
    said = shell.json("disclose", files / "whole", "--hide", "user_id,object", "-o", files / "new")
    assert (said["address"], said["disclosure_of"]) == (VIEW.address, GRAIN.address)
    assert set(said["hidden"]) == {"user_id", "object"}
    assert said["path"] == str(files / "new")
    assert said["grain"] == VIEW.to_dict()
    assert len(said["warnings"]) == 2


def test_check(shell: Shell, files: Path) -> None:
    said = shell.json("disclose", files / "view", "--check")
    assert (said["verified"], said["signer"]) == (False, None)
    said = shell.json("disclose", files / "view", "--check", "--original", files / "whole")
    assert (said["verified"], said["disclosure_of"]) == (True, GRAIN.address)
    assert set(said["hidden"]) == {"user_id", "object"}
    assert shell("disclose", "-", "--check", stdin=VIEW.blob) == 0
    assert b"not verified" in shell.out


def test_check_with_an_envelope(shell: Shell, files: Path) -> None:
    assert shell("disclose", files / "envelope", "--hide", "object", "-o", files / "new") == 0
    args = ("disclose", files / "new", "--check", "--original", files / "envelope")
    said = shell.json(*args)
    assert (said["verified"], said["signer"], said["iat"]) == (True, ALICE.did, IAT)
    assert said["disclosure_of"] == open_signed(ENVELOPE).grain.address
    assert shell(*args) == 0
    assert ALICE.did.encode() in shell.out
    (files / "envelope").write_bytes(ENVELOPE[:-1] + bytes((ENVELOPE[-1] ^ 1,)))
    assert shell(*args) == SignatureError.exit_code


def test_refusals(shell: Shell, files: Path) -> None:
    (files / "other").write_bytes(og.encode(FIELDS))
    (files / "sealed").write_bytes(bytes((1, 2)) + GRAIN.blob[2:])
    check = ("disclose", files / "view", "--check", "--original")
    for args, error in (
        ((*check, files / "other"), IntegrityError), ((*check, files / "view"), IntegrityError),
        (("disclose", files / "whole", "--check"), SchemaError),
        (("disclose", files / "whole", "--hide", "relation"), SchemaError),
        (("disclose", files / "sealed", "--hide", "object"), KeyMissingError),
    ):  # fmt: skip
        code, said = shell.error(*args)
        assert (code, said["code"]) == (error.exit_code, error.code)


@pytest.mark.parametrize(
    "args",
    [
        (), ("--hide", ""), ("--check", "--hide", "object"), ("--check", "-o", "new"),
        ("--hide", "object", "--original", "view"),
    ],
)  # fmt: skip
def test_usage(
    shell: Shell, files: Path, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert shell("disclose", "whole", *args) == USAGE
    assert not (files / "new").exists()
    assert shell("disclose", "nowhere", "--hide", "object") == USAGE
