# SPDX-License-Identifier: Apache-2.0
"""Export, import and verification of .mg files on the command line; check, rebuild, backup."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import container
from omsgrain.container.layout import ENTRY_SIZE, FOOTER_SIZE, HEADER_SIZE
from support.shell import USAGE, Shell, belief, count, exit_code

GRAINS = 12
CODECS = ["none", "zstd", "lz4"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "memory.omsg"
    with og.open(path) as into:
        into.put_many(
            [belief(n, created_at=90_000 * (n % 5), namespace=f"n{n % 2}") for n in range(GRAINS)]
        )
    return path


@pytest.fixture
def file(shell: Shell, tmp_path: Path, store: Path) -> Path:
    assert shell("export", store, tmp_path / "memory.mg") == 0
    return tmp_path / "memory.mg"


def addresses(path: Path) -> list[str]:
    with og.open(path, readonly=True) as grains:
        return [grain.address for grain in grains]


def read(path: Path) -> list[str]:
    with container.read(path) as source:
        return [source.address(i) for i in range(len(source))]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("codec", CODECS)
def test_export_and_import(shell: Shell, tmp_path: Path, store: Path, codec: str) -> None:
    file, other = tmp_path / "x.mg", tmp_path / "other.omsg"
    said = shell.json("export", store, file, "--codec", codec)
    size = file.stat().st_size
    assert said == {"paths": [str(file)], "grains": GRAINS, "bytes": size, "withheld": {}}
    assert read(file) == addresses(store)
    with container.read(file) as source:
        assert source.codec == codec
    assert shell.json("verify", file) == {"verified": GRAINS, "failed": []}
    assert shell.json("import", other, file) == {
        "stored": GRAINS, "duplicates": 0, "rejected": [], "claims": 0, "merged": 0, "refused": [],
        "waiting": 0, "unproven": 0, "passed_over": 0,
    }  # fmt: skip
    assert addresses(other) == addresses(store)
    assert shell.json("import", other, file)["duplicates"] == GRAINS
    assert shell("import", other, file) == 0
    assert shell.json("query", other) == shell.json("query", store)


def test_export_by_filter(shell: Shell, tmp_path: Path, store: Path) -> None:
    file = tmp_path / "x.mg"
    options = ("--namespace", "n1", "--after", "90000")
    said = shell.json("export", store, file, *options)
    found = shell.json("query", store, *options, "--order", "oldest")["results"]
    assert 0 < said["grains"] < GRAINS
    assert read(file) == [row["content_address"] for row in found]
    assert shell("export", store, tmp_path / "y.mg", "--subject", "nobody") == 0
    assert read(tmp_path / "y.mg") == []


def test_export_sorted(shell: Shell, tmp_path: Path, store: Path) -> None:
    assert shell("export", store, tmp_path / "x.mg", "--sort") == 0
    with container.read(tmp_path / "x.mg") as source:
        times = [source.grain(i)["created_at"] for i in range(len(source))]
        assert source.header.sorted
    assert times == sorted(times)


def test_export_replaces_only_on_request(shell: Shell, store: Path, file: Path) -> None:
    before = file.read_bytes()
    code, error = shell.error("export", store, file, "--codec", "zstd")
    assert (code, error["code"]) == (1, "EEXIST")
    assert "--replace" in error["message"]
    assert file.read_bytes() == before
    assert shell("export", store, file, "--codec", "zstd", "--replace") == 0
    assert read(file) == addresses(store)


def test_export_that_cannot_be(shell: Shell, tmp_path: Path, store: Path) -> None:
    assert shell.error("export", store, tmp_path / "no" / "x.mg")[1]["code"] == "ERR_NOT_FOUND"
    assert shell.error("export", store, tmp_path / "x.mg", "--type", "x")[0] == 20
    assert shell("export", store, tmp_path / "x.mg", "--codec", "rar") == USAGE
    assert shell("export", store, tmp_path / "x.mg", "--limit", 3) == USAGE
    assert shell("export", tmp_path / "nowhere", tmp_path / "x.mg") == USAGE
    assert {path.name for path in tmp_path.iterdir()} == {"memory.omsg"}


def test_a_flipped_byte_in_each_part(shell: Shell, tmp_path: Path, file: Path) -> None:
    data = file.read_bytes()
    with container.read(file) as source:
        grains_at, first = source.header.grains_at, source.address(0)
    assert grains_at == HEADER_SIZE + ENTRY_SIZE * GRAINS
    for part, number, at in [
        ("header", None, 4),
        ("index", 3, HEADER_SIZE + ENTRY_SIZE * 3 + 3),
        ("grain", 0, grains_at + 12),
        ("footer", None, len(data) - FOOTER_SIZE),
    ]:
        file.write_bytes(data)
        flip(file, at)
        code = shell("verify", file, "--json")
        problems = json.loads(shell.out)["failed"]
        named = problems[0]
        assert (named["name"], named["part"], named["number"]) == (str(file), part, number)
        assert code == og.errors.BY_CODE[named["error"]["code"]].exit_code
        if part == "grain":
            assert len(named["address"]) == 64
            assert named["address"] != first
            assert json.loads(shell.out)["verified"] == GRAINS - 1
            assert problems[-1]["part"] == "footer"
        other = tmp_path / f"{part}.omsg"
        assert shell("import", other, file) == code
        assert not other.exists() or count(other) == 0
        assert shell("verify", file) == code
        assert len(shell.err.splitlines()) == len(problems)


def test_verify_shows_no_content(shell: Shell, file: Path) -> None:
    data = file.read_bytes()
    at = data.index(b"\xa2s5")
    file.write_bytes(data[:at] + b"\xa2\xff5" + data[at + 3 :])
    assert shell("verify", file) != 0
    assert b"s4" not in shell.out + shell.err


def test_verify_a_directory(shell: Shell, tmp_path: Path, file: Path) -> None:
    (blobs := tmp_path / "blobs").mkdir()
    (blobs / "a.mg").write_bytes(og.encode(belief(1)))
    (blobs / "b.mg").write_bytes(file.read_bytes())
    assert shell.json("verify", blobs)["verified"] == 1 + GRAINS
    flip(blobs / "b.mg", -1)
    assert shell("verify", blobs, "--json") == 33
    got = json.loads(shell.out)
    assert got["verified"] == 1 + GRAINS
    assert [row["name"] for row in got["failed"]] == [str(blobs / "b.mg")]


def test_an_unreadable_file_hides_no_other_file(
    shell: Shell, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found := tmp_path / "found").mkdir()
    (found / "closed").mkdir()
    (found / "a.mg").symlink_to("gone.mg")
    (found / "b.mg").write_bytes(og.encode(belief(1)))
    (found / "c.jsonld").write_bytes(b"{}")
    (found / ("0" * 64)).write_bytes(file.read_bytes())  # a container, which has no address
    (found / "z.mg").write_bytes(file.read_bytes())
    flip(found / "z.mg", -1)
    opened, scan = Path.open, os.scandir

    def opens(path: Path, *given: Any, **named: Any) -> Any:
        if path.name == "c.jsonld":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *given, **named)

    def scans(path: Any) -> Any:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(Path, "open", opens)
    monkeypatch.setattr(os, "scandir", scans)
    assert shell("verify", found, "--json") == 63
    got = json.loads(shell.out)
    assert got["verified"] == 1 + GRAINS
    failed = {row["name"]: row["error"]["code"] for row in got["failed"]}
    assert failed == {
        str(found / "closed"): "ERR_ACCESS",
        str(found / ("0" * 64)): "ERR_UNSUPPORTED",
        str(found / "a.mg"): "ERR_NOT_FOUND",
        str(found / "c.jsonld"): "ERR_ACCESS",
        str(found / "z.mg"): "ERR_INTEGRITY",
    }


def test_verify_what_is_no_container(shell: Shell, tmp_path: Path, file: Path) -> None:
    assert shell.error("verify", file, "--address", "0" * 64)[1]["code"] == "ERR_UNSUPPORTED"
    data = file.read_bytes()
    for changed, code in [
        (data[:20], 11),  # too short
        (b"MG\x02" + data[3:], 13),  # another version
        (b"NG\x01" + data[3:], 13),  # read as a blob, whose version is 1
        (b"", 11),
    ]:
        (tmp_path / "y.mg").write_bytes(changed)
        assert shell("verify", tmp_path / "y.mg") == code


def test_import_parts(shell: Shell, tmp_path: Path, store: Path, file: Path) -> None:
    with container.read(file) as source:
        blobs = list(source)
    for number, some in enumerate((blobs[:5], blobs[5:]), 1):
        container.write(tmp_path / f"x-{number:04d}.mg", some)
    assert shell.json("import", tmp_path / "o.omsg", tmp_path / "x.mg")["stored"] == GRAINS
    assert addresses(tmp_path / "o.omsg") == addresses(store)


@pytest.mark.parametrize("errors", ["raise", "collect"])
def test_import_of_a_grain_that_may_not_be_put(shell: Shell, tmp_path: Path, errors: str) -> None:
    """One claims to supersede another; its content is not shown."""
    refused = belief(2, invalidation_reason="the secret reason")
    container.write(tmp_path / "x.mg", og.encode_many([belief(1), refused, belief(3)]).blobs)
    args: tuple[Any, ...] = ("import", tmp_path / "o.omsg", tmp_path / "x.mg", "--errors", errors)
    assert shell(*args) == 20
    assert b"secret" not in shell.out + shell.err
    if errors == "collect":
        assert shell(*args, "--json") == 20
        report = json.loads(shell.out)
        assert (report["stored"], report["duplicates"], report["claims"]) == (0, 2, 0)
        assert [(r["grain"], r["code"]) for r in report["rejected"]] == [(1, "ERR_SCHEMA")]


def test_import_counts_claims(shell: Shell, tmp_path: Path) -> None:
    batch = og.encode_many([belief(1), belief(2)])
    state = {batch.addresses[0]: {"verification_status": "verified"}}
    container.write(tmp_path / "x.mg", batch.blobs, manifest=state)
    assert shell.json("import", tmp_path / "o.omsg", tmp_path / "x.mg")["claims"] == 1
    assert shell("import", tmp_path / "p.omsg", tmp_path / "x.mg") == 0


def test_import_rejects_other_files(shell: Shell, tmp_path: Path, store: Path) -> None:
    (file := tmp_path / "x.mg").write_bytes(b"nothing of the kind" * 9)
    other = tmp_path / "o.omsg"
    assert shell.error("import", other, file)[1]["code"] == "ERR_CORRUPT"
    assert shell.error("import", other, tmp_path / "y.mg")[1]["code"] == "ERR_NOT_FOUND"
    assert shell.error("import", other, store)[1]["code"] == "ERR_STORE"
    assert shell("import", other, file, "--errors", "ignore") == USAGE
    assert not other.exists()


@pytest.mark.parametrize("text", ["hello\n", '{"a": 1}', '{"a": 1,', "[1]", "ts,device\n1,a\n"])
def test_import_of_text_says_that_it_is_no_document(
    shell: Shell, tmp_path: Path, text: str
) -> None:
    for name in ("x.json", "x.csv", "x"):
        (file := tmp_path / name).write_text(text)
        error = shell.error("import", tmp_path / "new.omsg", file)[1]
        assert error["code"] == "ERR_UNSUPPORTED", error
        assert "ingest" in error["expected"] and "container" not in error["message"]
    (file := tmp_path / "x.mg").write_text(text)
    assert shell.error("import", tmp_path / "new.omsg", file)[1]["code"] != "ERR_UNSUPPORTED"
    assert not (tmp_path / "new.omsg").exists()


def test_stats_shows_the_watermark(shell: Shell, store: Path) -> None:
    assert 0 <= shell.json("stats", store)["watermark"] <= shell.json("stats", store)["last_seq"]
    with og.open(store) as grains:
        grains.maintenance.rebuild()
    assert shell.json("stats", store)["watermark"] == GRAINS


def test_check_and_rebuild(shell: Shell, store: Path) -> None:
    said = shell.json("check", store)
    assert (said["ok"], said["grains"], said["problems"]) == (True, GRAINS, [])
    made = shell.json("rebuild", store)
    assert (made["grains"], made["damaged"]) == (GRAINS, [])
    assert shell.json("check", store)["rows"] == made["rows"] > GRAINS
    assert shell("check", store) == shell("rebuild", store) == 0


def test_check_a_damaged_store(shell: Shell, store: Path) -> None:
    with og.open(store) as grains:
        numbers = {grain["subject"]: i for i, grain in enumerate(grains, 1)}
    data = (store / "data.mdb").read_bytes()
    assert b"\xa2s7" in data
    (store / "data.mdb").write_bytes(data.replace(b"\xa2s7", b"\xa2s\xff"))
    assert shell("check", store, "--json") == 60
    said = json.loads(shell.out)
    assert not said["ok"]
    assert ("blob", numbers["s7"]) in {(p["where"], p["seq"]) for p in said["problems"]}
    assert shell("check", store) == 60
    assert shell("rebuild", store, "--json") == 33
    assert json.loads(shell.out)["damaged"] == [numbers["s7"]]
    assert shell("rebuild", store) == 33
    assert count(store) == GRAINS  # a damaged grain is kept: it may be mended by hand


def test_check_a_store_behind_its_side_file(shell: Shell, store: Path, tmp_path: Path) -> None:
    """As if the newest commit were damaged: refused, until the note of it is removed."""
    older = tmp_path / "older.omsg"
    assert shell("backup", store, older) == 0
    with og.open(store) as grains:
        grains.put(belief(50))
    (older / "head").write_bytes((store / "head").read_bytes())
    assert shell("check", older) == 60
    assert shell.error("stats", older)[1]["code"] == "ERR_STORE"
    (older / "head").unlink()
    assert shell.json("check", older)["grains"] == GRAINS


def test_backup(shell: Shell, tmp_path: Path, store: Path) -> None:
    copy = tmp_path / "copy.omsg"
    with og.open(store) as grains:  # in use
        said = shell.json("backup", store, copy)
        assert len(grains) == GRAINS
    assert said == {"path": str(copy), "bytes": sum(f.stat().st_size for f in copy.iterdir())}
    assert addresses(copy) == addresses(store)
    assert shell.json("check", copy)["ok"]
    before = sha256((copy / "data.mdb").read_bytes()).digest()
    assert shell.error("backup", store, copy)[1]["code"] == "ERR_STORE"
    assert shell.error("backup", store, tmp_path / "no" / "copy")[1]["code"] == "ERR_STORE"
    assert sha256((copy / "data.mdb").read_bytes()).digest() == before


def test_maintenance_rejects_other_directories(shell: Shell, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    for args in (("check", empty), ("rebuild", empty), ("backup", empty, tmp_path / "b")):
        code, error = shell.error(*args)
        assert (code, error["code"]) == (60, "ERR_STORE")
        assert shell(args[0], tmp_path / "nowhere", *args[2:]) == USAGE
    assert list(empty.iterdir()) == []


def test_import_of_a_state_that_a_policy_refuses(shell: Shell, tmp_path: Path) -> None:
    """The grains are stored, but what the file says of one of them is not so here."""
    locked = og.encode(belief(1, invalidation_policy={"mode": "locked"}))
    newer = og.encode(belief(2))
    lie = {"superseded_by": og.address(newer), "verification_status": "retracted"}
    states = {og.address(locked): lie}
    container.write(tmp_path / "x.mg", [locked, newer], manifest=states)
    code, said = shell.refused("import", tmp_path / "m.omsg", tmp_path / "x.mg")
    assert (said["stored"], [one["code"] for one in said["refused"]]) == (
        2, ["ERR_INVALIDATION_DENIED"],
    )  # fmt: skip
    assert code == exit_code("ERR_INVALIDATION_DENIED")


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.csv"])
def test_a_container_is_not_written_under_the_name_of_a_text(
    shell: Shell, store: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    assert shell("export", store, file) == USAGE
    assert b".mg" in shell.err and not file.exists()
    assert shell("export", store, file, "--format", "mg") == 0
