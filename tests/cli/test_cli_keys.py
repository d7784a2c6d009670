# SPDX-License-Identifier: Apache-2.0
"""Key files on the command line: made, counted, changed; and stores opened with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import BY_CODE, KeyMissingError
from support.shell import USAGE, Shell

TIME = 1_768_471_200_000
MISSING = BY_CODE["ERR_KEY"].exit_code


@pytest.fixture
def shell(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("OMSGRAIN_KEYS", "OMSGRAIN_MASTER"):
        monkeypatch.delenv(name, raising=False)
    return Shell(capfdbinary, monkeypatch)


@pytest.fixture
def folder(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to work in, with a master key and a key file."""
    monkeypatch.chdir(tmp_path)
    assert shell("keys", "master", "master.key") == 0
    assert shell("keys", "create", "people.keys", "--master", "master.key") == 0
    yield tmp_path


KEYS = ("--keys", "people.keys", "--master", "master.key")


def grain(what: str, **more: Any) -> bytes:
    fields = {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.9,
        "created_at": TIME,
    }
    return json.dumps({**fields, **more}).encode() + b"\n"


MINE = grain("brass and old", user_id="mira-17")


def test_the_master_key_is_random_and_private(shell: Shell, folder: Path) -> None:
    path = folder / "master.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(path.read_text())) == 32
    text = path.read_text().strip().encode()
    assert text not in shell.out + shell.err
    assert shell.json("keys", "master", "other.key") == {"path": "other.key"}
    assert (folder / "other.key").read_bytes() != path.read_bytes()
    assert shell.error("keys", "master", "master.key")[1]["code"] == "EEXIST"
    assert path.read_text().strip().encode() == text


def test_create_and_status(shell: Shell, folder: Path) -> None:
    told = shell.json("keys", "status", "people.keys", "--master", "file:master.key")
    path = str((folder / "people.keys").resolve())
    assert told == {"path": path, "live": 0, "erased": 0, "generation": 1}
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE) == 0
    assert shell("keys", "status", "people.keys", "--master", "master.key") == 0
    assert b" 1 user," in shell.out
    error = shell.error("keys", "create", "people.keys", "--master", "master.key")
    assert error[1]["code"] == "EEXIST"


def test_a_master_key_in_the_environment(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = ("keys", "status", "people.keys")
    assert shell(*status) == USAGE
    monkeypatch.setenv("OMSGRAIN_MASTER", "env:OUR_KEY")
    assert shell.error(*status)[0] == MISSING
    text = (folder / "master.key").read_text().strip()
    for value, code in [
        (text, 0),
        (text.upper(), 0),
        (text[:32], MISSING),  # as many letters as a key has bytes
        ("", MISSING),
        ("z" * 64, MISSING),
        ("0" * 64, MISSING),
    ]:
        monkeypatch.setenv("OUR_KEY", value)
        assert shell(*status) == code, value
        assert not value or value.encode() not in shell.out + shell.err


def test_keys_from_the_environment(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE) == 0
    assert shell.json("query", "m.omsg", "--user", "mira-17")["results"] == []
    monkeypatch.setenv("OMSGRAIN_MASTER", "file:master.key")
    assert shell.json("query", "m.omsg", "--user", "mira-17")["results"] == []
    monkeypatch.setenv("OMSGRAIN_KEYS", "people.keys")
    asked = ("query", "m.omsg", "--user", "mira-17", "--words", "OLD brass")
    (hit,) = shell.json(*asked)["results"]
    assert hit["grain"]["object"] == "brass and old"
    assert shell.json(*asked, "--no-sealed", "--scan")["results"] == []
    monkeypatch.delenv("OMSGRAIN_MASTER")
    assert shell(*asked) == USAGE
    assert shell("keygen", "signing.key") == 0  # no store, so no keys


def test_without_keys_a_sealed_grain_shows_its_header(shell: Shell, folder: Path) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE + grain("lit")) == 0
    with og.open(folder / "m.omsg", readonly=True) as store:
        (sealed,) = [g for g in store if g.sealed]
    code, error = shell.error("get", "m.omsg", sealed.address)
    assert (code, error["code"]) == (MISSING, "ERR_KEY")
    assert shell("get", "m.omsg", sealed.address, "--blob") == 0
    assert shell.out == sealed.blob
    shown = shell.json("show", "m.omsg", sealed.address)
    assert (shown["address"], shown["type"], shown["fields"]) == (sealed.address, "belief", [])
    opened = shell.json("show", "m.omsg", sealed.address, *KEYS)
    assert opened["address"] == sealed.address
    assert {part["name"] for part in opened["fields"]} >= {"object", "user_id"}
    assert shell.json("get", "m.omsg", sealed.address, *KEYS)["grain"]["user_id"] == "mira-17"
    plain = og.address(og.encode(json.loads(MINE)))
    assert shell.json("get", "m.omsg", plain, *KEYS)["address"] == sealed.address
    assert shell.error("get", "m.omsg", plain)[1]["code"] == "ERR_NOT_FOUND"
    for command in ("verify", "check", "stats"):
        assert shell(command, "m.omsg") == 0
        assert shell(command, "m.omsg", *KEYS) == 0
    assert shell("query", "m.omsg", "--subject", "lamp", *KEYS) == 0
    assert b"brass" in shell.out


def test_commands_without_keys_store_no_user_in_the_clear(shell: Shell, folder: Path) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE + grain("lit")) == 0
    other = grain("tin", user_id="mira-17")
    assert shell("ingest", "m.omsg", stdin=other) != 0
    assert b"ERR_KEY" in shell.err
    assert shell("ingest", "other.omsg", stdin=other) == 0
    assert shell("export", "other.omsg", "other.mg") == 0
    assert shell.error("import", "m.omsg", "other.mg")[1]["code"] == "ERR_KEY"
    assert shell("sync", "m.omsg", "other.omsg", "--plain", "--create") == 0
    assert shell("import", "m.omsg", "other.mg", "--plain") == 0
    assert shell("ingest", "m.omsg", "--plain", stdin=grain("zinc", user_id="mira-17")) == 0
    assert shell("ingest", "m.omsg", "--plain", *KEYS, stdin=other) == USAGE


def test_search_says_that_sealed_grains_cannot_be_ranked(shell: Shell, folder: Path) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE + grain("brass")) == 0
    assert shell.error("search", "m.omsg", "brass", *KEYS)[1]["code"] == "ERR_UNSUPPORTED"
    found = shell.json("search", "m.omsg", "brass", *KEYS, "--no-sealed")["results"]
    assert [hit["grain"]["object"] for hit in found] == ["brass"]


def test_wrong_keys(shell: Shell, folder: Path) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE) == 0
    assert shell("keys", "master", "other.key") == 0
    stats = ("stats", "m.omsg", "--keys")
    for keys, master in [
        ("people.keys", "other.key"),
        ("people.keys", "no.key"),
        ("no.keys", "master.key"),
        ("master.key", "master.key"),
    ]:
        code, error = shell.error(*stats, keys, "--master", master)
        assert (code, error["code"]) == (MISSING, "ERR_KEY"), (keys, master)
    (folder / "master.key").chmod(0o644)
    assert shell.error(*stats, "people.keys", "--master", "master.key")[1]["code"] == "ERR_KEY"
    (folder / "master.key").chmod(0o600)
    (folder / "people.keys").chmod(0o640)
    assert shell.error(*stats, "people.keys", "--master", "master.key")[1]["code"] == "ERR_KEY"
    assert shell(*stats, "people.keys") == USAGE
    assert shell("stats", "m.omsg", "--master", "master.key") == USAGE


def test_a_path_that_is_no_store_needs_no_keys(shell: Shell, folder: Path) -> None:
    (folder / "empty").mkdir()
    code, error = shell.error("stats", "empty", "--keys", "no.keys", "--master", "no.key")
    assert (code, error["code"]) == (BY_CODE["ERR_STORE"].exit_code, "ERR_STORE")


def test_rewrap_and_rekey(shell: Shell, folder: Path) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE) == 0
    assert shell("keys", "master", "new.key") == 0
    asked = ("query", "m.omsg", "--user", "mira-17", "--keys", "people.keys", "--master")
    for command, old, new in [("rewrap", "master.key", "new.key"), ("rekey", "new.key", "third")]:
        if new == "third":
            assert shell("keys", "master", new) == 0
        change = ("keys", command, "people.keys", "--master", old, "--new-master")
        assert shell(*change[:-1]) == USAGE
        before = shell.json("keys", "status", "people.keys", "--master", old)["generation"]
        told = shell.json(*change, new)
        assert (told["live"], told["erased"]) == (1, 0)
        assert told["generation"] > before
        assert shell.error(*asked, old)[1]["code"] == "ERR_KEY"
        assert len(shell.json(*asked, new)["results"]) == 1
    assert (
        shell.error("keys", "rewrap", "people.keys", "--master", "third", "--new-master", "x")[1][
            "code"
        ]
        == "ERR_KEY"
    )
    assert len(shell.json(*asked, "third")["results"]) == 1


def test_backup(shell: Shell, folder: Path) -> None:
    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE) == 0
    backup = ("keys", "backup", "people.keys", "copy.keys", "--master", "master.key")
    assert shell.json(*backup) == {
        "path": "copy.keys", "live": 1, "erased": 0,
        "generation": shell.json("keys", "status", "copy.keys", *KEYS[2:])["generation"],
    }  # fmt: skip
    (folder / "people.keys").unlink()
    asked = ("query", "m.omsg", "--user", "mira-17", "--keys", "copy.keys", *KEYS[2:])
    assert len(shell.json(*asked)["results"]) == 1
    assert (
        shell.error("keys", "backup", "copy.keys", "copy.keys", *KEYS[2:])[1]["code"] == "EEXIST"
    )


def test_a_ring_is_opened_once_when_it_is_needed_and_closed(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[KeyRing] = []
    whole = KeyRing.open

    def counted(*given: Any, **more: Any) -> KeyRing:
        opened.append(whole(*given, **more))
        return opened[-1]

    assert shell("ingest", "m.omsg", *KEYS, stdin=MINE) == 0
    monkeypatch.setattr(KeyRing, "open", counted)
    assert shell.error("query", "nowhere.omsg", *KEYS)[0] != 0
    assert opened == []
    assert shell("check", "m.omsg", *KEYS) == 0
    assert shell("erase", "m.omsg", "mira-17", "--reason", "gdpr17", *KEYS) == 0
    assert len(opened) == 2
    for ring in opened:
        with pytest.raises(KeyMissingError):
            ring.refresh()


def test_help_names_no_secret(shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (folder / "master.key").read_text().strip()
    monkeypatch.setenv("OMSGRAIN_MASTER", text)  # a mistake that is easily made
    for command in (("query", "--help"), ("keys", "status", "--help"), ("keys", "--help")):
        assert shell(*command) == 0
        assert text.encode() not in shell.out + shell.err
    code, error = shell.error("keys", "status", "people.keys")
    assert (code, error["code"]) == (MISSING, "ERR_KEY")
    assert text.encode() not in shell.out + shell.err
