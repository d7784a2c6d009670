# SPDX-License-Identifier: Apache-2.0
"""Files below the root of a server, and none elsewhere; lines of stdin, bounded."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from omsgrain.errors import OmsError
from omsgrain.mcp.service import Root
from omsgrain.mcp.transport import TOO_LONG, DescriptorLines

MOST = 1_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file and a directory; beside it is a secret."""
    (tmp_path / "secret.json").write_text("secret")
    (tmp_path / "root-2").mkdir()
    (tmp_path / "root-2" / "b.json").write_text("beside")
    inside = tmp_path / "root"
    (inside / "deep").mkdir(parents=True)
    (inside / "a.json").write_text("{}")
    (inside / "deep" / "c.json").write_text("[]")
    (inside / "large.json").write_text("x" * (MOST + 1))
    (inside / "here").symlink_to("deep")
    (inside / "out").symlink_to(tmp_path)
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (inside / "gone.json").symlink_to(tmp_path / "nothing.json")
    os.mkfifo(inside / "pipe")
    return inside


def rule_of(root: Path | None, path: str) -> str | None:
    with pytest.raises(OmsError) as caught:
        Root(root).read(path, MOST, field="/data")
    assert (caught.value.code, caught.value.field) == ("ERR_UNSUPPORTED", "/data")
    assert str(root) not in str(caught.value)
    return caught.value.rule


def test_what_is_below_is_read(root: Path) -> None:
    for path in ("a.json", "./deep/../a.json", str(root / "a.json")):
        assert Root(root).read(path, MOST, field="/data") == b"{}"
    for path in ("deep/c.json", "here/c.json"):
        assert Root(root).read(path, MOST, field="/data") == b"[]"
    Root(root / "here").read("c.json", MOST, field="/data")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.json",
        "../nothing.json",
        "../root-2/b.json",
        "deep/../../secret.json",
        "link.json",
        "gone.json",
        "out/secret.json",
        "out/nothing.json",
        "/etc/passwd",
        "/dev/zero",
        "a\0b",
        "\ud800",
    ],
)
def test_paths_outside_the_root_are_refused_alike(root: Path, path: str) -> None:
    assert rule_of(root, path) == "outside_root"


@pytest.mark.parametrize(
    "path", ["b.json", "deep", ".", "", "a.json/b", "pipe", "deep/x/y.json", "x" * 5_000]
)
def test_paths_that_are_no_file_are_refused(root: Path, path: str) -> None:
    assert rule_of(root, path) == "no_file"


def test_large_files_are_refused(root: Path) -> None:
    assert rule_of(root, "large.json") == "too_large"


def test_without_a_root_no_path_is_read(root: Path) -> None:
    assert rule_of(None, str(root / "a.json")) == "no_root"


def test_a_link_that_was_put_in_the_way_since_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.path.realpath

    def late(path: str, **more: bool) -> str:
        before = found(path, **more)
        (root / "deep" / "c.json").unlink()
        (root / "deep" / "c.json").symlink_to(root.parent / "secret.json")
        return before

    one = Root(root)
    monkeypatch.setattr(os.path, "realpath", late)
    with pytest.raises(OmsError) as caught:
        one.read("deep/c.json", MOST, field="/data")
    assert caught.value.rule == "no_file"


def test_new_files_are_written_below(root: Path) -> None:
    assert Root(root).write("here/d.json", b"new", field="/path") == "deep/d.json"
    assert (root / "deep" / "d.json").read_bytes() == b"new"
    assert (root / "deep" / "d.json").stat().st_mode & 0o777 == 0o600
    rules = {
        "a.json": "file_exists",
        "deep": "file_exists",
        "x/y.json": "no_file",
        "gone.json": "outside_root",
        "out/new.json": "outside_root",
        "../new.json": "outside_root",
    }
    for path, rule in rules.items():
        with pytest.raises(OmsError) as caught:
            Root(root).write(path, b"new", field="/path")
        assert caught.value.rule == rule, path
    assert (root / "a.json").read_bytes() == b"{}"
    assert not (root.parent / "new.json").exists()
    assert not (root.parent / "nothing.json").exists()


class Pipe:
    """Lines of a pipe."""

    def __init__(self, most: int = MOST) -> None:
        self.reads, self.writes = os.pipe()
        self.lines = DescriptorLines(self.reads, most)

    def give(self, data: bytes) -> None:
        os.write(self.writes, data)


def test_lines_come_whole() -> None:
    pipe = Pipe()
    pipe.give("one\ntw\u00f6\n\nth".encode())
    assert [pipe.lines.readline() for _ in range(3)] == ["one\n", "tw\u00f6\n", "\n"]
    pipe.give(b"ree\nrest")
    os.close(pipe.writes)
    assert [pipe.lines.readline() for _ in range(4)] == ["three\n", "rest", "", ""]


@pytest.mark.parametrize("pieces", [1, 7, 60_000])
def test_a_line_that_is_too_long_is_passed_over(pieces: int) -> None:
    pipe = Pipe(most=10)
    long = b'{"method": "m", "params": {"id": 4}, "x": "%b", "id": 5 }' % (b"x" * 50_000)
    data = b"short\n" + long + b"\n" + b"y" * 20 + b"\nmore\n" + b"z" * 11

    def write() -> None:
        for at in range(0, len(data), pieces):
            pipe.give(data[at : at + pieces])
        os.close(pipe.writes)

    writing = threading.Thread(target=write)
    writing.start()
    found = list(iter(pipe.lines.readline, ""))
    writing.join(timeout=10)
    said = [json.loads(line) for line in found if line.startswith("{")]
    assert [one["method"] for one in said] == [TOO_LONG] * 3
    assert [one["params"]["id"] for one in said] == [5, None, None]
    assert [line for line in found if not line.startswith("{")] == ["short\n", "more\n"]


def test_a_wait_for_a_line_can_be_stopped() -> None:
    pipe = Pipe()
    said: list[str] = []
    waiting = threading.Thread(target=lambda: said.append(pipe.lines.readline()))
    waiting.start()
    pipe.lines.stop()
    waiting.join(timeout=10)
    assert said == [""]
