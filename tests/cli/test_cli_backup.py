# SPDX-License-Identifier: Apache-2.0
"""Incremental backups on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from support.backup_places import filled
from support.shell import USAGE, Shell, exit_code


@pytest.fixture
def store(tmp_path: Path) -> Path:
    filled(tmp_path / "memory.omsg", 30).close()
    return tmp_path / "memory.omsg"


def test_back_up_list_restore_prune(shell: Shell, store: Path, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    first = shell.json("backup", store, "--to", place)
    assert (first["grains"], first["sent"]) == (30, first["parts"])
    with og.open(store) as opened:
        gone = next(iter(opened)).address
        opened.delete(gone, reason="wrong")
    second = shell.json("backup", store, "--to", place)
    assert second["parent"] == first["id"]
    assert [one["id"] for one in shell.json("backups", place)["backups"]] == [
        first["id"],
        second["id"],
    ]
    shell.json("restore", place, tmp_path / "newest.omsg", "--actor", "ops")
    shell.json("restore", place, tmp_path / "first.omsg", "--at", first["id"][:16])
    shell.json("restore", place, tmp_path / "then.omsg", "--at", first["created_at"])
    for name, has in (("newest", False), ("first", True), ("then", True)):
        with og.open(tmp_path / f"{name}.omsg", readonly=True) as restored:
            assert (gone in restored) == has
    report = shell.json("backups", place, "--prune", "--keep-last", 1, "--keep-within", "1h")
    assert (report["kept"], report["removed"], report["waiting"]) == (2, [], False)
    report = shell.json("backups", place, "--prune", "--keep-last", 1)
    assert (report["kept"], report["removed"]) == (1, [first["id"]])
    assert shell("backups", place) == 0
    (place / "running" / "mark").write_bytes(b"")
    assert shell("backups", place, "--prune", "--keep-last", 1) == exit_code("ERR_STORE")


def test_what_a_place_has_is_told(shell: Shell, store: Path, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    place.mkdir()
    assert (shell("backups", place), shell.err) == (0, b"0 backups\n")
    first = shell.json("backup", store, "--to", place)
    assert (shell("backups", place), shell.err) == (0, b"1 backup\n")
    code, error = shell.error("restore", place, tmp_path / "new.omsg", "--at", "2020-01-01")
    assert code == exit_code("ERR_NOT_FOUND")
    assert first["created_at"] in error["found"]


def test_what_is_refused(shell: Shell, store: Path, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    words: tuple[object, ...]
    for words in (
        ("backup", store),
        ("backup", store, tmp_path / "copy.omsg", "--to", place),
        ("backup", store, "--to", "postgresql://hub/memory"),
        ("backups", place),
        ("restore", place, tmp_path / "new.omsg"),
    ):
        assert shell.error(*words)[0] == USAGE
    assert shell("backup", store, "--to", place) == 0
    for words in (
        ("backups", place, "--prune"),
        ("backups", place, "--keep-last", 1),
        ("backups", place, "--prune", "--keep-within", "soon"),
        ("backups", place, "--prune", "--keep-last", 0),
    ):
        assert shell.error(*words)[0] == USAGE
    for at, code in (("soon", "ERR_SCHEMA"), ("0" * 64, "ERR_NOT_FOUND")):
        status = shell.error("restore", place, tmp_path / "new.omsg", "--at", at)[0]
        assert status == exit_code(code)
    status = shell.error("restore", place, store)[0]
    assert status == exit_code("ERR_STORE")


def test_no_key_in_a_url_is_shown(shell: Shell, store: Path) -> None:
    for url in ("s3://key:hunter2@bucket/robots", "az://container?sig=hunter2"):
        for words in (("backup", store, "--to", url), ("backups", url)):
            assert shell(*words) == exit_code("ERR_SCHEMA")
            assert b"hunter2" not in shell.out + shell.err
