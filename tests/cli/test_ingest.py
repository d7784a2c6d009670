# SPDX-License-Identifier: Apache-2.0
"""``omsgrain ingest``: every format, every kind of bad input, and what becomes of the rejects."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import errors
from omsgrain.formats import source_lines
from support.processes import COMMAND
from support.shell import USAGE, Shell, belief, count, exit_code, lines

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


def test_grains_that_cannot_be_put(shell: Shell, tmp_path: Path) -> None:
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
    monkeypatch.setattr(source_lines, "CHUNK", 512)
    monkeypatch.setattr(source_lines, "PEEK", 64)
    dicts = [belief(n, confidence=2.0 if n % 10 == 7 else 0.5) for n in range(100)]
    (file := tmp_path / "x.jsonl").write_bytes(lines(*dicts))
    target = tmp_path / "new.omsg"
    assert shell("ingest", target, file, "--errors", "collect") == 24
    rows = (tmp_path / "x.jsonl.rejects.jsonl").read_text().splitlines()
    assert [json.loads(row)["line"] for row in rows] == list(range(8, 100, 10))
    assert count(target) == 90


@pytest.mark.parametrize("array", [False, True], ids=["lines", "array"])
def test_a_byte_order_mark_is_valid_only_at_the_beginning(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: bool
) -> None:
    """Where a chunk began it was taken, and elsewhere refused."""
    monkeypatch.setattr(source_lines, "CHUNK", 1)
    monkeypatch.setattr(source_lines, "PEEK", 1)
    rows = [b"\xef\xbb\xbf" + line for line in lines(*map(belief, range(3))).splitlines()]
    data = rows[0][:3] + b"[\n" + b",\n".join(rows) + b"]" if array else b"\n".join(rows)
    kind = "json" if array else "jsonl"
    asked = ("ingest", tmp_path / "a.omsg", "--format", kind, "--errors", "collect", "--rejects")
    assert shell(*asked, tmp_path / "r.jsonl", stdin=data) == exit_code("ERR_FORMAT")
    told = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    places = [(row["line"], row["offset"]) for row in told]
    at = [i for i in range(len(data)) if data.startswith(b"\xef", i)][1:]
    assert places == list(zip([2, 3, 4] if array else [2, 3], at, strict=True))


def test_warnings_are_shown(shell: Shell, tmp_path: Path) -> None:
    data = lines(belief(1), *(belief(n, confidance=0.5) for n in range(2, 22)))
    got = shell.json("ingest", tmp_path / "a.omsg", stdin=data)
    assert (got["warnings"], len(got["first_warnings"])) == (20, 10)
    assert shell.err == b""
    assert shell("ingest", tmp_path / "a.omsg", stdin=data) == 0
    assert b"line 2:" in shell.err
    assert len(shell.err.splitlines()) == 11


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


def test_interrupted(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "CHUNK", 256)
    monkeypatch.setattr(source_lines, "PEEK", 64)

    class Typist(io.BytesIO):
        """Gives its lines, then presses Ctrl-C."""

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            if data or size == 0:
                return data
            raise KeyboardInterrupt

    data = lines(*(belief(n) for n in range(20)))
    target = tmp_path / "new.omsg"
    assert shell("ingest", target, "--json", stdin=Typist(data)) == 130
    assert json.loads(shell.err)["error"]["code"] == "INTERRUPTED"
    assert json.loads(shell.out)["stored"] == count(target) > 0


@pytest.mark.parametrize("arguments", [["ingest", "m.omsg", "-"], ["ingest", "m.omsg"],
                                       ["disclose", "-", "--hide", "object"]])  # fmt: skip
def test_a_closed_stdin_is_an_error(tmp_path: Path, arguments: list[str]) -> None:
    """It is not the end of the input, as that of an empty file is."""
    shell = 'exec "$@" <&-'
    command = [sys.executable, "-c", COMMAND, *arguments, "--json"]
    done = subprocess.run(
        ["sh", "-c", shell, "sh", *command], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, json.loads(done.stderr)["error"]["code"]) == (1, "EBADF")
    empty = subprocess.run(
        [*command[:3], "ingest", "m.omsg", "-"], cwd=tmp_path, input=b"", check=False,
        capture_output=True,
    )  # fmt: skip
    assert empty.returncode == 0


READINGS = "ts,device,temp\n" + "".join(f"{1768471200 + i},t-{i % 3},2{i}\n" for i in range(99))
MAPPED = ("--as", "observation", "--map", "created_at=ts", "--map", "observer_id=device",
          "--map", "object.temp=temp", "--unit", "created_at=s",
          "--set", "observer_type=temperature", "--set", "confidence=0.9")  # fmt: skip


def test_rows_by_a_suggested_mapping(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "readings.csv").write_text(READINGS + "soon,t-1,20\n")
    assert shell("ingest", "--suggest", file) == 0
    (mapping := tmp_path / "readings.toml").write_bytes(shell.out)
    how = ("--mapping", mapping, "--errors", "collect")
    target = tmp_path / "a.omsg"
    assert shell("ingest", target, file, *how) == exit_code("ERR_SCHEMA")
    (row,) = map(json.loads, Path(f"{file}.rejects.jsonl").read_text().splitlines())
    assert (row["line"], row["code"], row["field"]) == (101, "ERR_SCHEMA", "/created_at")
    with og.open(target, readonly=True) as grains:
        assert {(grain.type, grain["observer_id"]) for grain in grains} == {
            ("observation", f"t-{i}") for i in range(3)
        }


def test_rows_by_options(shell: Shell, tmp_path: Path) -> None:
    (file := tmp_path / "readings.csv").write_text(READINGS)
    target = tmp_path / "a.omsg"
    got = shell.json("ingest", target, file, *MAPPED)
    assert (got["stored"], got["bytes"]) == (99, len(READINGS))
    rows = [dict(zip(("ts", "device", "temp"), line.split(","), strict=True))
            for line in READINGS.splitlines()[1:]]  # fmt: skip
    stdin = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert shell.json("ingest", target, *MAPPED, stdin=stdin)["duplicates"] == 99
    stdin = READINGS.replace(",", "\t").encode()
    assert (
        shell.json("ingest", target, *MAPPED, "--format", "tsv", stdin=stdin)["duplicates"] == 99
    )
    with og.open(target, readonly=True) as grains:
        assert {grain["confidence"] for grain in grains} == {0.9}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), USAGE),
        (("--map", "content=a"), USAGE),
        (("--as", "event", "--map", "content"), USAGE),
        (("--as", "event", "--map", "content=a", "--map", "content=b"), USAGE),
        (("--as", "event", "--mapping", "m.toml"), USAGE),
        (("--as", "dream"), exit_code("ERR_SCHEMA")),
        (("--as", "event", "--map", "contant=ts"), exit_code("ERR_SCHEMA")),
        (("--as", "event", "--map", "content=missing"), exit_code("ERR_SCHEMA")),
        (("--as", "event", "--set", "confidence=high"), exit_code("ERR_SCHEMA")),
    ],
)
def test_wrong_mappings_store_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: object, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("readings.csv").write_text(READINGS)
    Path("m.toml").write_text("type = 'event'\n")
    assert isinstance(options, tuple)
    assert shell("ingest", "a.omsg", "readings.csv", *options) == code
    assert not Path("a.omsg").exists() or count(Path("a.omsg")) == 0
