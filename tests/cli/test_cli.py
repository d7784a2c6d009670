# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: what it prints as JSON, its exit codes, its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors
from omsgrain.cli import COMMANDS
from support.shell import USAGE, Shell, belief, lines


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with three grains."""
    path = tmp_path / "memory.omsg"
    with og.open(path) as grains:
        grains.put_many([belief(n) for n in range(3)])
    return path


def test_version_and_help(shell: Shell) -> None:
    assert shell("--version") == 0
    assert shell.out.decode().split() == ["omsgrain", og.__version__]
    assert shell("--help") == 0
    text = shell.out.decode()
    for command in COMMANDS:
        assert f"\n  {command} " in text
        assert shell(command, "--help") == 0
        assert "--json" in shell.out.decode()


@pytest.mark.parametrize(
    "args",
    [("nonsense",), ("--nonsense",), ("stats", "--nonsense"), ("get",), ("show",), ("verify",),
     ("ingest",), ("stats", "a", "b"), ("vectors", "nowhere"), ("get", "nowhere", "0" * 64)],
)  # fmt: skip
def test_usage_errors(shell: Shell, args: tuple[str, ...]) -> None:
    assert shell(*args) == USAGE
    assert shell.out == b""
    code, error = shell.error(*args)
    assert (code, error["code"]) == (USAGE, "USAGE")


def test_get(shell: Shell, tmp_path: Path, store: Path) -> None:
    fields = belief(1, x_bytes=b"\x00\xff", x_text="\u202e\x9b é")
    with og.open(store) as grains:
        address = grains.put(fields)
    assert shell("get", store, address) == 0
    shown = json.loads(shell.out)
    assert shown["x_bytes"] == {"$bytes": "AP8="}
    assert shown["x_text"] == "\u202e\x9b é"
    assert "\u202e".encode() not in shell.out
    assert "é".encode() in shell.out
    assert shell.json("get", store, address) == {
        "address": address, "grain": shown, "warnings": [],
    }  # fmt: skip
    blob = og.encode(fields)
    assert shell("get", store, address, "--blob") == 0
    assert shell.out == blob
    assert shell("get", store, address, "--blob", "-o", tmp_path / "g.mg") == 0
    assert (tmp_path / "g.mg").read_bytes() == blob
    code, error = shell.error("get", store, address, "-o", tmp_path / "g.mg")
    assert (code, error["code"]) == (1, "EEXIST")
    assert (tmp_path / "g.mg").read_bytes() == blob


@pytest.mark.parametrize(
    ("address", "code"),
    [("0" * 64, "ERR_NOT_FOUND"), ("0" * 63, "ERR_HASH_LENGTH"), ("A" * 64, "ERR_HASH_FORMAT")],
)
def test_no_such_grain(shell: Shell, store: Path, address: str, code: str) -> None:
    for command in ("get", "show"):
        exit_code, error = shell.error(command, store, address)
        assert error["code"] == code
        assert exit_code == errors.BY_CODE[code].exit_code


def test_not_a_store(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "file").write_bytes(b"hello")
    (directory := tmp_path / "directory").mkdir()
    (directory / "x").write_bytes(b"")
    for path in (file, directory):
        assert shell.error("stats", path)[1]["code"] == "ERR_STORE"
        assert shell.error("get", path, "0" * 64)[1]["code"] == "ERR_STORE"
        assert shell.error("ingest", path, stdin=lines(belief(1)))[1]["code"] == "ERR_STORE"
    assert file.read_bytes() == b"hello"
    assert [p.name for p in directory.iterdir()] == ["x"]


def test_stats(shell: Shell, store: Path) -> None:
    assert shell.json("stats", store)["grains"] == 3
    assert shell("stats", store) == 0
    assert b"3" in shell.out


def test_verify(shell: Shell, tmp_path: Path, store: Path) -> None:
    assert shell.json("verify", store) == {"verified": 3, "failed": []}
    (blobs := tmp_path / "blobs").mkdir()
    blob, address = og.encode(belief(1)), og.address(og.encode(belief(1)))
    (blobs / "a.mg").write_bytes(blob)
    (blobs / f"{address}.mg").write_bytes(blob)
    (blobs / "deeper").mkdir()
    (blobs / "deeper" / address).write_bytes(blob)
    (blobs / "readme.txt").write_bytes(b"not a blob")
    assert shell.json("verify", blobs, store)["verified"] == 6
    assert shell.json("verify", blobs / "a.mg", "--address", address)["verified"] == 1
    assert shell("verify", blobs / "a.mg", "--address", "0" * 64) == 33
    assert shell("verify", blobs, "--address", address) == USAGE
    flipped = blob.replace(b"s1", b"s2")
    (blobs / f"{address}.mg").write_bytes(flipped)
    (blobs / "z.mg").write_bytes(flipped[:-1])
    assert shell("verify", blobs, "--json") == 33
    failed = json.loads(shell.out)["failed"]
    assert [row["error"]["code"] for row in failed] == ["ERR_INTEGRITY", "ERR_CORRUPT"]
    (empty := tmp_path / "empty").mkdir()
    assert shell.error("verify", empty)[1]["code"] == "ERR_NOT_FOUND"


def test_verify_a_damaged_store(shell: Shell, store: Path) -> None:
    data = (store / "data.mdb").read_bytes()
    assert b"\xa2s1" in data
    (store / "data.mdb").write_bytes(data.replace(b"\xa2s1", b"\xa2s7"))
    assert shell("verify", store, "--json") == 33
    got = json.loads(shell.out)
    assert got["verified"] == 2
    assert [row["error"]["code"] for row in got["failed"]] == ["ERR_INTEGRITY"]


def test_show(shell: Shell, tmp_path: Path, store: Path) -> None:
    fields = belief(1, namespace="shared", structural_tags=["pii:x"], confidance=0.5)
    blob = og.encode_many([fields], encoding="cbor").blobs[0]
    (file := tmp_path / "g.mg").write_bytes(blob)
    got = shell.json("show", file, "--hex")
    assert got["address"] == og.address(blob)
    assert got["blob_hex"] == blob.hex()
    assert [(p["name"], p["offset"], p["size"], p["hex"]) for p in got["header"]] == [
        ("version", 0, 1, "01"), ("flags", 1, 1, "a0"), ("type", 2, 1, "01"),
        ("ns_hash", 3, 2, "a4d2"), ("created_at", 5, 4, "00000000"),
    ]  # fmt: skip
    assert len(got["warnings"]) == 1
    at = 10
    for field in got["fields"]:
        assert field["offset"] == at
        at = field["end"]
    assert at == len(blob)
    shown = {field["name"]: field["value"] for field in got["fields"]}
    assert shown == dict(og.decode(blob))
    assert shell("show", file, "--hex") == 0
    assert og.address(blob).encode() in shell.out
    with og.open(store) as grains:
        address = grains.put(blob)
    assert shell.json("show", store, address)["address"] == address
    assert shell("show", store) == USAGE
    assert shell("show", file, address) == USAGE


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_show_compressed(shell: Shell, tmp_path: Path, encoding: Any) -> None:
    fields = belief(1, x_text="tick " * 50)
    (file := tmp_path / "g.mg").write_bytes(og.encode(fields, encoding=encoding, compress=True))
    plain = og.encode(fields, encoding=encoding)
    got = shell.json("show", file)
    assert got["fields"][-1]["end"] == len(plain)
    assert got["size"] < len(plain)


def test_show_leniently(shell: Shell, tmp_path: Path) -> None:
    blob = og.encode(belief(1, x=5)).replace(b"\xa1x\x05", b"\xa1x\xcc\x05")
    (file := tmp_path / "g.mg").write_bytes(blob)
    assert shell.error("show", file)[1]["code"] == "ERR_CORRUPT"
    got = shell.json("show", file, "--lenient")
    assert got["error"]["code"] == "ERR_CORRUPT"
    shown = {field["name"]: field["value"] for field in got["fields"]}
    assert (shown["x"], shown["subject"]) == (5, "s1")
    for cut in range(10, len(blob)):
        file.write_bytes(blob[:cut])
        assert shell("show", file, "--lenient", "--hex") == 0
    file.write_bytes(blob[:9])
    assert shell.error("show", file, "--lenient")[1]["code"] == "ERR_TOO_SHORT"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    """As in ``omsgrain ... | head``: the exit code of SIGPIPE, and no complaint."""
    (file := tmp_path / "g.mg").write_bytes(og.encode(belief(1)))
    program = "import sys; from omsgrain.cli import main; main()"
    command = [sys.executable, "-c", program, "show", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_version_is_quick() -> None:
    program = (
        "import sys; from omsgrain.cli import run; run(['--version']);"
        "print({'rich', 'lmdb', 'cbor2', 'msgpack', 'csv'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split()[-1] == b"set()"


def test_counting_a_store_is_quick(tmp_path: Path) -> None:
    og.open(tmp_path / "s.omsg").close()
    program = (
        "import sys; from omsgrain.cli import run; run(['stats', sys.argv[1]]);"
        "packages = {'rich', 'cryptography', 'cbor2', 'csv', 'asyncio', 'starlette'};"
        "ours = 'crypto', 'formats.document', 'interchange', 'memory', 'query.query', 'server',"
        " 'store.lifecycle', 'sync';"
        "print(packages.union(f'omsgrain.{one}' for one in ours) & set(sys.modules))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "s.omsg")]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.split()[-1] == b"set()"
