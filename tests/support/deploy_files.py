# SPDX-License-Identifier: Apache-2.0
"""The files in deploy/, read into what they say."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from omsgrain.cli import omsgrain
from support.paths import ROOT

DEPLOY = ROOT / "deploy"


class Instruction(NamedTuple):
    """An instruction of a Dockerfile: its word, and the rest on one line."""

    word: str
    text: str

    def words(self) -> list[str]:
        """The words of its form as a list."""
        found = json.loads(self.text)
        assert isinstance(found, list)
        return [str(word) for word in found]


def stages(path: Path = DEPLOY / "Dockerfile") -> list[list[Instruction]]:
    """The instructions before the first FROM, and those of each stage."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[list[Instruction]] = [[]]
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, text = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append(Instruction(word, text.strip()))
    return found


def only(stage: list[Instruction], word: str) -> Instruction:
    """The one instruction of a stage with a word."""
    (found,) = [one for one in stage if one.word == word]
    return found


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return loaded


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """The sections of a unit: its settings, each with all of its values."""
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text("utf-8").splitlines():
        if re.fullmatch(r"\[\w+\]", line):
            section = found[line[1:-1]] = defaultdict(list)
        elif line and not line.startswith(("#", ";")):
            setting, equals, value = line.partition("=")
            assert equals, line
            section[setting].append(value)
    return found


def read_command(words: list[str] | str) -> click.Context:
    """Read a command line of omsgrain, without its first word; it is not run."""
    given = shlex.split(words) if isinstance(words, str) else words
    top = click.Context(omsgrain, info_name="omsgrain")
    command = omsgrain.get_command(top, given[0])
    assert command is not None, given
    return command.make_context(given[0], given[1:], parent=top)
