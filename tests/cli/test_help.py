# SPDX-License-Identifier: Apache-2.0
"""Each command has a page that says all of it, and whose examples can be typed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from omsgrain import cli as omsgrain_cli
from omsgrain.cli import GROUPS, VARIABLES, omsgrain
from omsgrain.cli.command import DocumentedArgument, Manual, contexts
from support.command_examples import examples, world
from support.doc_terminal import typed

PAGES = {
    " ".join(context.command_path.split()[1:]): context
    for context in contexts(omsgrain, "omsgrain")
}
NUMBERS = (click.types.IntParamType, click.types.FloatParamType)
# What would not end, or asks a server or a broker: read, and run by the tests of these commands.
NOT_RUN = {"serve", "mcp", "bridge", "conformance", "bench"}
AFAR = ("https://", "s3://")
# What must have been done, or must not be there, before the examples are typed.
BEFORE = {
    "release": 'hold memory.omsg ADDRESS --authority "court 7" --reason litigation',
    "unrestrict": "restrict memory.omsg ADDRESS --reason gdpr18",
}
NEW = {"sign": ["robot.mg.sig"], "sync": ["robot.mg"]}
REFUSED = {"policy": 20}  # what the world of the examples does not keep to


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    place = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return place, world(place)


def test_each_command_has_a_page() -> None:
    assert len(PAGES) > 50
    for name, context in PAGES.items():
        assert isinstance(context.command, Manual), name
        assert context.command.help and context.command.get_short_help_str(99).endswith("."), name
        assert any(line.startswith(f"omsgrain {name}") for line in examples(context.command)), name
        page = context.command.get_help(context)
        for section in ("Usage:", "Options:", "Exit status:", "Examples:"):
            assert section in page, (name, section)


def test_each_argument_and_option_says_something() -> None:
    for name, context in PAGES.items():
        page = context.command.get_help(context)
        for param in context.command.get_params(context):
            where = (name, param.name)
            if isinstance(param, click.Option):
                assert param.help and param.help.endswith((".", ".mg")), where
                given = param.to_info_dict()["default"]
                assert param.show_default or not given, where
                assert param.metavar or not isinstance(param.type, NUMBERS), where
                assert all(one in page for one in param.opts), where
            else:
                assert isinstance(param, DocumentedArgument) and param.text.endswith("."), where
                assert param.human_readable_name in page, where


def _help_texts(context: click.Context) -> list[str]:
    """Return the description of a command, and the help of its parameters and exit statuses."""
    command = context.command
    assert isinstance(command, Manual)
    paragraphs = (command.help or "").split("\n\n")
    params = command.get_params(context)
    options = [param.help or "" for param in params if isinstance(param, click.Option)]
    arguments = [param.text for param in params if isinstance(param, DocumentedArgument)]
    return [*paragraphs, *options, *arguments, *(text for _, text in command.statuses())]


def test_sentences_of_the_help_are_short() -> None:
    long = [
        (name, len(sentence.split()), sentence)
        for name, context in PAGES.items()
        for text in _help_texts(context)
        for sentence in re.split(r"(?<=[.:;?!])\s+", text)
        if len(sentence.split()) > 25
    ]
    assert long == []


@pytest.mark.parametrize("name", PAGES)
def test_examples(
    name: str,
    built: tuple[Path, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, meant = built
    monkeypatch.chdir(shutil.copytree(source, tmp_path / "world", symlinks=True))
    monkeypatch.setenv("OMSGRAIN_MASTER_HEX", "5a" * 32)
    for file in NEW.get(name, []):
        Path(file).unlink()
    command = PAGES[name].command
    assert isinstance(command, Manual)
    lines = [f"omsgrain {BEFORE[name]}"] if name in BEFORE else []
    for line in lines + examples(command):
        for word, meaning in meant.items():
            line = line.replace(word, meaning)
        words = shlex.split(line)[1:]
        if words[0] in NOT_RUN or any(scheme in line for scheme in AFAR):
            assert _reads(words), line
            continue
        code, said = typed(line)
        assert code in (0, REFUSED.get(name, 0)), (line, said)


def _reads(words: list[str]) -> bool:
    """Whether a command line is one: each option there, each value of its kind."""
    context = PAGES[words[0]]
    context.command.make_context(words[0], words[1:], parent=context.parent)
    return True


def test_commands_are_in_groups_and_variables_in_an_index() -> None:
    page = PAGES[""].command.get_help(PAGES[""])
    titles = [*GROUPS, "Environment variables"]
    places = [page.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)
    source = "".join(
        file.read_text("utf-8") for file in Path(omsgrain_cli.__file__).parent.glob("*.py")
    )
    assert set(re.findall(r'"(OMSGRAIN_\w+)"', source)) == set(VARIABLES)


def test_a_store_may_come_from_the_environment(
    built: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, meant = built
    monkeypatch.chdir(shutil.copytree(source, tmp_path / "world", symlinks=True))
    said = {line: typed(line) for line in ("omsgrain stats memory.omsg --json",)}
    monkeypatch.setenv("OMSGRAIN_STORE", "memory.omsg")
    assert {"omsgrain stats memory.omsg --json": typed("omsgrain stats --json")} == said
    address = meant["ADDRESS"]
    assert typed(f"omsgrain state {address}")[0] == 0
    assert typed(f"omsgrain get {address}") == typed(f"omsgrain get memory.omsg {address}")
    monkeypatch.setenv("OMSGRAIN_STORE", "other.omsg")
    assert typed(f"omsgrain get {address}")[0] == 2
    assert typed(f"omsgrain get memory.omsg {address}")[0] == 0
