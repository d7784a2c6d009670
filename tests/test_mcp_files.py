# SPDX-License-Identifier: Apache-2.0
"""Files below the root of a server, and none elsewhere; lines of stdin, bounded."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from omsgrain.errors import OmsError
from omsgrain.services.mcp.root import Root
from omsgrain.services.mcp.stdio import Lines

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
def test_what_is_elsewhere_is_refused_whether_it_is_there_or_not(root: Path, path: str) -> None:
    assert rule_of(root, path) == "outside_root"


@pytest.mark.parametrize(
    "path", ["b.json", "deep", ".", "", "a.json/b", "pipe", "deep/x/y.json", "x" * 5_000]
)
def test_what_is_no_file_is_refused(root: Path, path: str) -> None:
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
    """Lines of a pipe; ``long`` counts those that were too long."""

    def __init__(self, most: int = MOST) -> None:
        self.reads, self.writes = os.pipe()
        self.long = 0
        self.lines = Lines(self.reads, most, self._told)

    def _told(self) -> None:
        self.long += 1

    def give(self, data: bytes) -> None:
        os.write(self.writes, data)


def test_lines_come_whole() -> None:
    pipe = Pipe()
    pipe.give("one\ntw\u00f6\n\nth".encode())
    assert [pipe.lines.readline() for _ in range(3)] == ["one\n", "tw\u00f6\n", "\n"]
    pipe.give(b"ree\nrest")
    os.close(pipe.writes)
    assert [pipe.lines.readline() for _ in range(4)] == ["three\n", "rest", "", ""]


def test_a_line_that_is_too_long_is_the_last() -> None:
    pipe = Pipe(most=10)
    pipe.give(b"short\n" + b"x" * 20 + b"\nmore\n")
    assert [pipe.lines.readline() for _ in range(3)] == ["short\n", "", ""]
    assert pipe.long == 1


def test_who_waits_for_a_line_can_be_told_to_stop() -> None:
    pipe = Pipe()
    said: list[str] = []
    waiting = threading.Thread(target=lambda: said.append(pipe.lines.readline()))
    waiting.start()
    pipe.lines.stop()
    waiting.join(timeout=10)
    assert said == [""]
