# SPDX-License-Identifier: Apache-2.0
"""How each block of a page is tried: run, read as a command line, parsed as data, or looked at.

python tests/support/doc_blocks.py      how many of each kind each page has
"""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from omsgrain.cli import omsgrain
from omsgrain.cli.command import contexts
from support.doc_terminal import COMMAND, typed
from support.markdown_page import Fence, fences
from support.paths import ROOT

PAGES: Final = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "examples/README.md"]
)
#: What differs from run to run: how long it took, when it was, the names of new keys and of sealed
#: grains, tokens, and the directory of a key file.
VARYING: Final = re.compile(
    r"[\d.]+ s, \d+ grains/s|did:key:z[\w.]+|(?<=names the person: )[\w.]+|/\S+/(?=\w+\.keys:)"
    r"|\b20[\w:.-]+(?= as the signer)|\bomg_[\w.-]+|(?<=Sent: )\d+ grains, \d+ bytes"
    r"|(?<=file: )\d+ bytes, \d+(?= of them free)"
    r"|\b2026-1[12]-[\w:.-]+|\d+(?= bytes: )|(?<=, )\d+(?= bytes, \d+ states)"
)
#: Blocks of commands that are not run here, by page and first line: why. Their `omsgrain` lines
#: are read, so that each command, option and argument in them is one.
NOT_RUN: Final = {
    ("README.md", "make demo"): "it builds all: test_demo.py",
    ("install.md", "pip install"): "it needs a network: release/trial.py",
    ("install.md", "rustup"): "it needs a network: release/wheels.py",
    (
        "analytics.md",
        "python examples/fleet",
    ): "test_examples.py runs it, with a stand-in for Dask",
    ("openai-agents.md", ">>> "): "a framework: test_frameworks.py",
    ("autogen.md", ">>> "): "a framework: test_frameworks.py",
    ("llama-index.md", ">>> "): "a framework: test_frameworks.py",
    ("google-adk.md", ">>> "): "a framework: test_frameworks.py",
    ("anthropic.md", ">>> "): "a framework: test_frameworks.py",
    ("crewai.md", ">>> "): "a framework: test_frameworks.py",
    ("strands.md", ">>> "): "a framework: test_frameworks.py",
    ("backup.md", "export AWS_ACCESS"): "object storage: test_objects.py",
    ("bounded-history.md", "omsgrain bridge"): "a broker: test_history_options.py",
    ("bridge.md", "omsgrain bridge hub.omsg --mqtt"): "a broker: test_docs_hosts.py",
    ("bridge.md", ">>> import asyncio, nats"): "a broker: test_docs_hosts.py",
    ("bridge.md", "omsgrain bridge hub.omsg --nats"): "a broker: test_docs_hosts.py",
    ("dependencies.md", "pip install --require"): "a network: `make sbom` does the same",
    ("deploy.md", "sudo python3"): "another machine: test_deploy.py",
    ("install.md", "sudo apt install"): "another machine: test_debian.py",
    ("deploy.md", "journalctl"): "another machine: test_deploy.py",
    ("deploy.md", "make wheel"): "it needs Docker: test_deploy.py",
    ("deploy.md", "umask 077"): "it needs Docker: test_deploy.py",
    ("implement.md", "go run"): "it needs Go: test_go_verifier.py",
    ("langgraph.md", ">>> from langgraph.graph"): "a framework: test_frameworks.py",
    ("operations.md", "omsgrain bench"): "it takes its time: test_bench.py",
    ("scale.md", "createdb fleet"): "a database: test_docs_hosts.py",
    ("scale.md", '>>> with og.open("postgresql:'): "a database: test_docs_hosts.py",
    ("scale.md", "export PGPASSFILE"): "a database: test_docs_hosts.py",
    ("small.md", "rust/nostd/run.sh"): "`make test` runs it",
    ("sync.md", "omsgrain token add"): "a host of another name, with TLS: test_docs_hosts.py",
}
#: Where the pages' servers listen, and lines that have nothing of the shell but a redirection.
SERVED: Final = "http://127.0.0.1:8080"
PLAIN: Final = re.compile(rf"{COMMAND} [^$&|;`]+")
RUN, DATA, DRAWN = ("python", "console", "sh"), ("json", "pyi", "toml", "c"), ("text",)


def why_not(page: Path, block: Fence) -> str | None:
    """Why a block of commands is not run; None if it is."""
    reasons = [
        reason
        for (name, first), reason in NOT_RUN.items()
        if name == page.name and block.text.startswith(first)
    ]
    return reasons[0] if reasons else None


def kind(page: Path, block: Fence) -> str:
    """Return how a block is tried: run, read, parsed, drawn; unknown for another language."""
    if why_not(page, block) is not None:
        return "read"
    for name, languages in (("run", RUN), ("parsed", DATA), ("drawn", DRAWN)):
        if block.language in languages:
            return name
    return "unknown"


def counts(page: Path) -> Counter[str]:
    """How many blocks of each kind a page has."""
    return Counter(kind(page, block) for block in fences(page))


class Reader:
    """Goes through a page from its first block to its last, as somebody does who tries it.

    Names of Python, variables of the shell and servers that were started stay until it ends.
    """

    def __init__(self, page: Path, place: Path) -> None:
        self._page = page
        self._place = place
        self._names: dict[str, Any] = {}
        self._shell: Shell | None = None

    def try_block(self, block: Fence) -> None:
        """Try one."""
        match kind(self._page, block), block.language:
            case "run", "python":
                self.python(block)
            case "run", "console":
                console(block)
            case "run", _:
                for line in block.text.replace("\\\n", " ").splitlines():
                    self._sh(line)
            case "read", _:
                read(block)
            case "parsed", "json":
                for server in json.loads(block.text).get("mcpServers", {}).values():
                    assert server["command"] == COMMAND
                    known(server["args"])
            case "parsed", "pyi":
                ast.parse(block.text)
            case "parsed", "c":
                _c(block.text)
            case "parsed", _:
                _toml(block.text)
            case "drawn", _:
                assert not re.search(r"^\s*(\$ |>>> )", block.text, re.MULTILINE), block.line
            case _:
                raise AssertionError(f"line {block.line}: a block in {block.language!r}")

    def close(self) -> None:
        """End what was started."""
        if self._shell is not None:
            self._shell.close()

    def _sh(self, line: str) -> None:
        """A line of the shell; one that only calls us needs no process of its own."""
        if PLAIN.fullmatch(line):
            served = SERVED if self._shell is None else self._shell.served
            code, said = typed(line.replace(SERVED, served))
            assert code == 0, (line, said)
        else:
            self._shell = self._shell or Shell(self._place)
            self._shell.run(line)

    def python(self, block: Fence) -> None:
        """Run a block of Python, with what it shows if it is a session."""
        page, names = self._page, self._names
        if ">>> " not in block.text:
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, names)
            return
        test = doctest.DocTestParser().get_doctest(
            block.text, names, page.name, str(page), block.line - 1
        )
        said: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        result = runner.run(test, out=said.append, clear_globs=False)
        names.update(test.globs)
        assert not result.failed, "".join(said)


def console(block: Fence) -> None:
    """Run each command and compare what it says, stdout and stderr as a terminal mixes them."""
    parts = re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)
    assert len(parts) > 1 and not parts[0], f"line {block.line}: a session begins with '$ '"
    for part in parts[1:]:
        line, expected = part.split("\n", 1)
        while line.endswith("\\"):
            more, expected = expected.split("\n", 1)
            line = line[:-1] + more.lstrip()
        _, found = typed(line.removeprefix("$ "))
        said, shown = (
            [row.rstrip() for row in VARYING.sub("...", text).strip().split("\n")]
            for text in (found, expected)
        )
        assert said == shown, line


def read(block: Fence) -> None:
    """Read each command line of ours: the command is there, and so are its options."""
    text = block.text.replace("\\\n", " ")
    for line in re.findall(rf"^(?:\$ )?({COMMAND} .+)$", text, re.MULTILINE):
        known(shlex.split(line, comments=True)[1:])


def known(words: list[str]) -> None:
    """Whether there is such a command, with these options."""
    (*_, context) = [
        one
        for one in contexts(omsgrain, COMMAND)
        if (path := one.command_path.split()[1:]) == words[: len(path)]
    ]
    assert context.parent is not None or words[0].startswith("-"), words
    options = {
        name
        for param in context.command.get_params(context)
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    for word in words:
        if re.fullmatch(r"-\w|--[\w-]+(=.*)?", word):
            assert word.split("=")[0] in options, (words, word)


def _c(text: str) -> None:
    """Compile the statements of a block, with the header of the library."""
    program = f'#include "omsgrain.h"\nint main(void) {{\n{text}\nreturn code;\n}}\n'
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'rust' / 'nostd'}")
    compiler = ("cc", "-fsyntax-only", *flags, "-x", "c", "-")
    subprocess.run(compiler, input=program, text=True, check=True)


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    values: dict[str, Any] = toml.loads(text)
    return values


class Shell:
    """One `sh`, in which `omsgrain`, `python` and `curl` are those of this run.

    Attributes:
        served: where the server listens that was started last.
    """

    END = "-- the block has ended"

    def __init__(self, place: Path) -> None:
        programs = place / ".bin"
        programs.mkdir()
        for name, what in (
            ("omsgrain", "-m omsgrain"),
            ("python", ""),
            ("curl", shlex.quote(str(ROOT / "tests/support/curl.py"))),
        ):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {what} "$@"\n')
            program.chmod(0o755)
        self.served = SERVED
        self._servers = 0
        self._sh = subprocess.Popen(
            ["sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place,
            start_new_session=True,
        )
        self.run(f"set -e; PATH={shlex.quote(str(programs))}:$PATH")

    def run(self, line: str) -> str:
        """Run a line; what it says.

        A server goes on in the background. The shell waits for it to listen, on a port that is
        free, and what is asked of its address is asked there.
        """
        assert self._sh.stdin is not None and self._sh.stdout is not None
        if serves := re.fullmatch(r"(omsgrain serve .+) &", line):
            self._servers += 1
            pipe = f".served.{self._servers}"
            line = f"mkfifo {pipe}; {serves[1]} --port 0 > {pipe} 2>.log & head -n 1 < {pipe}"
        self._sh.stdin.write(f"{line.replace(SERVED, self.served)}\necho; echo '{self.END}'\n")
        self._sh.stdin.flush()
        said: list[str] = []
        for line in self._sh.stdout:
            if line == self.END + "\n":
                if serves:
                    self.served = "".join(said).split()[-1]
                return "".join(said)
            said.append(line)
        raise AssertionError("".join(said))

    def close(self) -> None:
        """End it, and what it started."""
        os.killpg(self._sh.pid, signal.SIGTERM)
        self._sh.communicate(timeout=30)


if __name__ == "__main__":
    for each in PAGES:
        if found := counts(each):
            told = ", ".join(f"{number} {name}" for name, number in sorted(found.items()))
            print(f"{each.relative_to(ROOT)}: {told}")
