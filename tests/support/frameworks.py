# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks, each in an environment of its own under target/.

Together they need hundreds of packages, and some exclude each other, so none is among the packages
of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: By the name of the adapter: the extra, and a module that is there if the framework is.
FRAMEWORKS: dict[str, tuple[str, str]] = {
    "anthropic": ("anthropic", "anthropic"),
    "langgraph": ("langgraph", "langgraph.graph"),
    "crewai": ("crewai", "crewai"),
    "strands": ("strands", "strands"),
    "openai_agents": ("openai-agents", "agents"),
    "autogen": ("autogen", "autogen_core"),
    "llama_index": ("llama-index", "llama_index.core"),
    "google_adk": ("google-adk", "google.adk"),
}
#: What the tests of an adapter need beside its extra.
_BESIDE: dict[str, tuple[str, ...]] = {"langgraph": ("langgraph",)}
_TOOLS = ("hypothesis", "pytest", "typing-extensions")


def installed(name: str) -> bool:
    try:
        return find_spec(FRAMEWORKS[name][1]) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def environment(name: str) -> Path:
    """Return the Python of an environment with the newest framework; it is made if missing."""
    extra = FRAMEWORKS[name][0]
    wanted = [*_project("dependencies"), *_project("postgres"), *_project(extra), *_TOOLS]
    wanted += _BESIDE.get(name, ())
    return python_with(ROOT / "target" / "frameworks" / name, wanted)


def python_with(folder: Path, wanted: list[str]) -> Path:
    """Return the Python of an environment with packages; it is made if missing."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    made = folder / ".made"
    if not made.exists() or made.read_text("utf-8").splitlines() != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted)
        made.write_text("\n".join(wanted), "utf-8")
    return python


def run_tests(name: str) -> tuple[str, int]:
    """Run the tests of an adapter in its environment; return what they say and how they end."""
    path = ROOT / "tests" / "integrations" / f"test_{name}.py"
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    for variable in list(variables):
        if variable.startswith("PYTEST_"):
            del variables[variable]
    done = subprocess.run(
        [
            str(environment(name)),
            "-m",
            "pytest",
            "--services",
            "-p",
            "no:cacheprovider",
            "-W",
            "default",  # frameworks warn about their own code
            str(path),
        ],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode


def run_page(name: str, place: Path) -> None:
    """Run the Python blocks of the guide to an adapter."""
    from support.doc_blocks import Reader
    from support.markdown_page import fences

    page = ROOT / "docs" / "how-to" / f"{name.replace('_', '-')}.md"
    reader = Reader(page, place)
    blocks = [block for block in fences(page) if block.language == "python"]
    assert blocks
    before = Path.cwd()
    os.chdir(place)  # pages make their stores here
    try:
        for block in blocks:
            reader.python(block)
    finally:
        os.chdir(before)


def _project(part: str) -> list[str]:
    """Return what pyproject.toml requires."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = project["dependencies"] if part == "dependencies" else None
    return list(found or project["optional-dependencies"][part])


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
