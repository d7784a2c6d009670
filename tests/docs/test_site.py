# SPDX-License-Identifier: Apache-2.0
"""The site has every page, and its pages about commands have every command."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from omsgrain.cli import omsgrain
from omsgrain.cli.command import contexts
from support.paths import ROOT

DOCS = ROOT / "docs"


def constants(path: Path) -> dict[str, Any]:
    """The constants of a module that cannot be imported where MkDocs is not installed."""
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


MADE = constants(DOCS / "make_site.py")


def entries(nav: Any) -> Iterator[str]:
    """The pages of a navigation, in its order."""
    for entry in nav:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else entries(value)


def test_navigation() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    named = list(entries(config["nav"]))
    assert len(named) == len(set(named))
    own = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = {*MADE["PAGES"].values(), "reference/commands.md"}
    assert set(named) == own | made
    assert all((ROOT / file).is_file() for file in MADE["PAGES"])


def test_the_list_of_pages_is_complete() -> None:
    """docs/pages.md links each page of the navigation, in the part of its kind."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    kinds = {name: pages for entry in nav for name, pages in entry.items()}
    places = {page: Path("..", file) for file, page in MADE["PAGES"].items()}
    parts = re.split("^## ", (DOCS / "pages.md").read_text("utf-8"), flags=re.MULTILINE)
    listed = {part.split("\n")[0]: set(re.findall(r"\]\(([^)]+)\)", part)) for part in parts}
    for kind, part in [
        ("Tutorials", "Tutorials"),
        ("How to", "How-to guides"),
        ("Explanation", "Explanation"),
        ("Reference", "Reference"),
    ]:
        own = {page for page in entries(kinds[kind]) if not page.startswith("reference/")}
        own |= {"reference/python.md"} if kind == "Reference" else set()
        assert {places.get(page, Path(page)).as_posix() for page in own} <= listed[part], kind


def test_commands() -> None:
    spec = importlib.util.spec_from_file_location("make_commands", DOCS / "make_commands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page: str = module.content()
    sections = dict(zip(*[iter(_split(page))] * 2, strict=True))
    for context in list(contexts(omsgrain, "omsgrain"))[1:]:
        text = sections[context.command_path]
        for param in context.command.get_params(context):
            if isinstance(param, click.Option):
                assert all(one in text for one in (*param.opts, *param.secondary_opts))
            else:
                assert f"`{param.human_readable_name}`" in text


def _split(page: str) -> list[str]:
    return re.split(r"^#{2,3} (omsgrain .+)$", page, flags=re.MULTILINE)[1:]
