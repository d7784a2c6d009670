# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: what it prints as JSON, its exit codes, its files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from minimal import minimal
from omsgrain import errors
from omsgrain.cli import COMMANDS, run
from omsgrain.ops import source

USAGE = 2


class Shell:
    """Runs command lines in this process and keeps what the last one printed."""

    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capture = capfdbinary
        self._monkeypatch = monkeypatch
        self.out = self.err = b""

    def __call__(self, *args: object, stdin: bytes = b"") -> int:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run([str(arg) for arg in args])
        sys.stdout.flush()
        self.out, self.err = self._capture.readouterr()
        return code

    def json(self, *args: object, stdin: bytes = b"") -> Any:
        """What a command that succeeds prints with --json."""
        assert self(*args, "--json", stdin=stdin) == 0, self.err
        return json.loads(self.out)

    def error(self, *args: object, stdin: bytes = b"") -> tuple[int, dict[str, Any]]:
        """The exit code and the error that a command prints with --json."""
        code = self(*args, "--json", stdin=stdin)
        return code, json.loads(self.err)["error"]


@pytest.fixture
def shell(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(capfdbinary, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with three grains."""
    path = tmp_path / "memory.omsg"
    with og.open(path) as grains:
        grains.put_many([belief(n) for n in range(3)])
    return path


def belief(n: int, **more: Any) -> dict[str, Any]:
    return minimal("belief", subject=f"s{n}", **more)


def lines(*dicts: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(fields).encode() + b"\n" for fields in dicts)


def count(path: Path) -> int:
    with og.open(path, readonly=True) as grains:
        return len(grains)


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


SOURCES = {
    "lines.jsonl": lines(belief(1), belief(2), belief(1)),
    "lines.txt": b"\xef\xbb\xbf\n"
    + lines(belief(1), belief(2), belief(1)).replace(b"\n", b"\r\n"),
    "array.json": json.dumps([belief(1), belief(2), belief(1)]).encode(),
    "pretty.json": json.dumps([belief(1), belief(2), belief(1)], indent=2).encode(),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("by_stdin", [False, True])
def test_ingest(shell: Shell, tmp_path: Path, name: str, by_stdin: bool) -> None:
    target = tmp_path / "new.omsg"
    (file := tmp_path / name).write_bytes(SOURCES[name])
    args, stdin = (("-",), SOURCES[name]) if by_stdin else ((file,), b"")
    got = shell.json("ingest", target, *args, stdin=stdin)
    assert (got["stored"], got["duplicates"], got["rejected"]) == (2, 1, 0)
    assert got["bytes"] == len(SOURCES[name])
    assert count(target) == 2
    with og.open(target, readonly=True) as grains:
        assert [grain["subject"] for grain in grains] == ["s1", "s2"]


def test_ingest_one_object_and_nothing(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "new.omsg"
    pretty = json.dumps(belief(1), indent=4).encode()
    assert shell.json("ingest", target, stdin=pretty)["stored"] == 1
    assert shell.json("ingest", target, stdin=b"")["stored"] == 0
    assert shell.json("ingest", target, stdin=b"\n\n")["stored"] == 0
    assert shell.json("ingest", target, stdin=b"[]")["stored"] == 0
    assert shell("ingest", target, "--format", "json", stdin=b"") == errors.FormatError.exit_code


def test_ingest_blobs(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "new.omsg"
    paths = []
    for n in range(3):
        paths.append(tmp_path / f"{n}.mg")
        paths[-1].write_bytes(og.encode(belief(n % 2)))
    got = shell.json("ingest", target, *paths)
    assert (got["stored"], got["duplicates"]) == (2, 1)
    assert shell.json("ingest", target, stdin=og.encode(belief(9)))["stored"] == 1
    code, error = shell.error("ingest", target, paths[0], "--encoding", "cbor")
    assert (code, error["code"]) == (errors.UnsupportedError.exit_code, "ERR_UNSUPPORTED")
    paths[0].write_bytes(og.encode(belief(7))[:-1])
    assert shell.error("ingest", target, paths[0])[1]["code"] == "ERR_CORRUPT"
    paths[0].write_bytes(b"\x01" + bytes(5 << 20))
    assert shell.error("ingest", target, paths[0])[1]["code"] in ("ERR_TOO_LARGE", "ERR_CORRUPT")


def test_ingest_options(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "new.omsg"
    options = ("--encoding", "cbor", "--compress", "--sensitivity", "pii")
    assert shell.json("ingest", target, *options, stdin=lines(belief(1)))["stored"] == 1
    with og.open(target, readonly=True) as grains:
        (grain,) = grains
    header = grain.header
    assert (header.encoding, header.compressed, header.sensitivity) == ("cbor", True, 2)
    extra = lines(belief(1, importance=0.5))
    assert shell.error("ingest", target, "--profile", "lightweight", stdin=extra)[0] == 20


def test_ingest_stops_and_stores_nothing(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "x.jsonl").write_bytes(
        lines(belief(1)) + b"\n" + lines(belief(2, confidence=2.0), belief(3))
    )
    target = tmp_path / "new.omsg"
    code, error = shell.error("ingest", target, file)
    assert (code, error["code"], error["line"]) == (24, "ERR_RANGE", 3)
    assert count(target) == 0
    assert shell("ingest", target, file) == 24
    assert not list(tmp_path.glob("*.rejects*"))


def test_ingest_collects(shell: Shell, tmp_path: Path) -> None:
    bad = b'{"type"\n' + lines(belief(2, confidence=2.0), {"type": "belief"})
    (file := tmp_path / "x.jsonl").write_bytes(lines(belief(1)) + b"\n" + bad + lines(belief(3)))
    target = tmp_path / "new.omsg"
    assert shell("ingest", target, file, "--errors", "collect", "--json") == 70
    got = json.loads(shell.out)
    assert (got["stored"], got["rejected"]) == (2, 3)
    rejects = Path(got["reject_files"][0])
    assert rejects == tmp_path / "x.jsonl.rejects.jsonl"
    rows = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(row["line"], row["code"]) for row in rows] == [
        (3, "ERR_FORMAT"), (4, "ERR_RANGE"), (5, "ERR_SCHEMA"),
    ]  # fmt: skip
    assert all(row["input"] == str(file) and row["message"] for row in rows)
    before = rejects.read_bytes()
    assert shell("ingest", target, file, "--errors", "collect", "--json") == 70
    assert json.loads(shell.out)["reject_files"] == [str(tmp_path / "x.jsonl.rejects.2.jsonl")]
    assert rejects.read_bytes() == before


def test_ingest_collects_from_documents(shell: Shell, tmp_path: Path) -> None:
    dicts = [belief(1), belief(2, confidence=2.0), belief(3)]
    text = json.dumps(dicts, indent=2)[:-2] + ",\n"
    (file := tmp_path / "x.json").write_text(text)
    target = tmp_path / "new.omsg"
    assert shell("ingest", target, file, "--errors", "collect", "--json") == 24
    got = json.loads(shell.out)
    assert (got["stored"], got["rejected"]) == (2, 2)
    rows = [json.loads(line) for line in Path(got["reject_files"][0]).read_text().splitlines()]
    assert [row["code"] for row in rows] == ["ERR_RANGE", "ERR_FORMAT"]
    begin = text.rindex("{", 0, text.index('"s2"'))
    assert rows[0]["line"] == text[:begin].count("\n") + 1


def test_rejects_option(shell: Shell, tmp_path: Path) -> None:
    target, rejects = tmp_path / "new.omsg", tmp_path / "r.jsonl"
    collect = ("--errors", "collect")
    assert shell("ingest", target, *collect, stdin=b"{}") == USAGE
    assert shell("ingest", target, "--rejects", rejects, stdin=b"{}") == USAGE
    assert not target.exists()
    assert shell("ingest", target, *collect, "--rejects", rejects, stdin=b"{}\n5\n") == 21
    assert len(rejects.read_bytes().splitlines()) == 2
    before = rejects.read_bytes()
    assert shell("ingest", target, *collect, "--rejects", rejects, stdin=b"{}\n") == USAGE
    assert rejects.read_bytes() == before
    (never := tmp_path / "never.jsonl").unlink(missing_ok=True)
    assert shell("ingest", target, *collect, "--rejects", never, stdin=lines(belief(1))) == 0
    assert not never.exists()


def test_what_may_not_be_put(shell: Shell, tmp_path: Path) -> None:
    data = lines(belief(1)) + b"\n" + lines(belief(2, supersession_justification="x"), belief(3))
    (file := tmp_path / "x.jsonl").write_bytes(data)
    target = tmp_path / "new.omsg"
    code, error = shell.error("ingest", target, file)
    assert (code, error["code"], error["line"]) == (20, "ERR_SCHEMA", 3)
    assert count(target) == 0
    assert shell("ingest", target, file, "--errors", "collect") == 20
    (row,) = map(json.loads, (tmp_path / "x.jsonl.rejects.jsonl").read_text().splitlines())
    assert (row["code"], row["line"]) == ("ERR_SCHEMA", 3)
    assert count(target) == 2


def test_chunks_keep_their_lines(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "CHUNK", 512)
    monkeypatch.setattr(source, "PEEK", 64)
    dicts = [belief(n, confidence=2.0 if n % 10 == 7 else 0.5) for n in range(100)]
    (file := tmp_path / "x.jsonl").write_bytes(lines(*dicts))
    target = tmp_path / "new.omsg"
    assert shell("ingest", target, file, "--errors", "collect") == 24
    rows = (tmp_path / "x.jsonl.rejects.jsonl").read_text().splitlines()
    assert [json.loads(row)["line"] for row in rows] == list(range(8, 100, 10))
    assert count(target) == 90


def test_warnings_are_shown(shell: Shell, tmp_path: Path) -> None:
    data = lines(belief(1), belief(2, confidance=0.5))
    assert shell.json("ingest", tmp_path / "a.omsg", stdin=data)["warnings"] == 1
    assert shell("ingest", tmp_path / "a.omsg", stdin=data) == 0
    assert b"line 2" in shell.err


def test_errors_hold_no_content(shell: Shell, tmp_path: Path) -> None:
    secret = "very private words"
    data = lines(belief(1, structural_tags=[secret, 5])) + lines({"type": secret, "created_at": 0})
    data += f'{{"type": "belief", "object": "{secret}'.encode() + b"\n"
    rejects = tmp_path / "r.jsonl"
    args = ("ingest", tmp_path / "a.omsg", "--errors", "collect", "--rejects", rejects)
    assert shell(*args, stdin=data) == 20
    assert len(rejects.read_bytes().splitlines()) == 3
    assert secret.encode() not in rejects.read_bytes() + shell.out + shell.err


def test_junk(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "new.omsg"
    for junk in (bytes(range(2, 256)) * 100, b"\xff\xfe{\0}\0", b"MG\x01", b"hello"):
        code, error = shell.error("ingest", target, stdin=junk)
        assert (code, error["code"]) == (70, "ERR_FORMAT")
    assert shell("ingest", target, "--format", "jsonl", stdin=b"hello\n") == 70
    assert shell("ingest", target, "--format", "blob", stdin=b"hello") != 0
    assert count(target) == 0


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
    assert data.count(b"\xa2s1") == 1
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
