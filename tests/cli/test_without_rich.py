# SPDX-License-Identifier: Apache-2.0
"""Commands without rich: the same tables in plain text, and progress on one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.cli.console import TableColumn, TextTable, cells, plain_lines
from support.paths import ROOT
from support.shell import Shell, belief

MARK = "== "
_CHILD = f"""
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refuse())
from omsgrain.cli import run
for words in json.loads(sys.argv[1]):
    code = run(words)
    print("{MARK}" + str(code), flush=True)
"""


def without_rich(*lines: str) -> tuple[list[str], str]:
    """The outputs of command lines in one process; stderr is a terminal."""
    terminal, theirs = os.openpty()
    try:
        command = [sys.executable, "-c", _CHILD, json.dumps([line.split() for line in lines])]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True
        )
        os.close(theirs)
        said = b""
        while piece := _read(terminal):
            said += piece
    finally:
        os.close(terminal)
    outputs = done.stdout.split(MARK)
    assert [part.partition("\n")[0] for part in outputs[1:]] == ["0"] * len(lines), said
    return [outputs[0], *(part.partition("\n")[2] for part in outputs[1:-1])], said.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""


def test_tables_are_as_with_rich(shell: Shell, tmp_path: Path) -> None:
    blob = og.encode(belief(1, object="東京 cafe\u0301 " * 30))
    (tmp_path / "g.mg").write_bytes(blob)
    assert shell("ingest", "s.omsg", ROOT / "examples/mission.jsonl") == 0
    lines = [
        "query s.omsg",
        "query s.omsg --full --all --limit 3 --count --explain",
        "query s.omsg --subject nothing",
        "show g.mg --hex",
        "conformance --rule oms.header.size",
        f"vectors {ROOT / 'test_vectors'}",
        "search s.omsg gauge",
    ]
    plain, _ = without_rich(*lines)
    for line, found in zip(lines, plain, strict=True):
        assert shell(*line.split()) == 0
        assert found.splitlines() == [one.rstrip() for one in shell.out.decode().splitlines()], (
            line
        )


def test_commands_with_progress(shell: Shell, tmp_path: Path) -> None:
    for name in ("robot-7.aimem.json", "mission.jsonl"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    outputs, said = without_rich(
        "ingest s.omsg mission.jsonl",
        "import s.omsg robot-7.aimem.json",
        "export s.omsg other.aimem.json --tenant 6f1c3d7a-58b2-4c0e-9d41-0a7e52b8c936",
        "export s.omsg some.mg --run mission-7",
        "validate robot-7.aimem.json",
        "verify s.omsg some.mg",
        "sync s.omsg t.omsg --create",
        "inspect s.omsg -o page.html",
        "conformance --rule oms.header",
        "bench --seconds 0.01 --batch 1",
    )
    for name in ("reading", "records", "files", "paths", "grains", "rules", "measured"):
        assert f"{name} ..." in said, name
    assert said.endswith("\r\x1b[K")
    assert outputs[0].startswith("22 ")


def test_a_table_as_wide_as_the_terminal() -> None:
    table = TextTable(
        (TableColumn("address", 5), TableColumn("type"), TableColumn("says", cut=True))
    )
    table.rows.append(("0123456789", "event", "京都 has temples"))
    table.rows.append(("01234", "goal", "it"))
    assert list(plain_lines(table, 20)) == [
        "addr…  type   says",
        "0123…  event  京都 …",
        "01234  goal   it",
    ]


@pytest.mark.parametrize(("text", "places"), [("abc", 3), ("京都", 4), ("e\u0301", 1), ("", 0)])
def test_places_of_a_text(text: str, places: int) -> None:
    assert cells(text) == places
