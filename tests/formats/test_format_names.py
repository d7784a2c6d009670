# SPDX-License-Identifier: Apache-2.0
"""Formats are objects: nothing outside a format's own folder compares its name or looks it up.

What a format needs is a field or a method of its object (`omsgrain.formats.base`).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import omsgrain
from omsgrain import formats
from omsgrain.formats.source import FOREIGN, NAMES
from omsgrain.mcp.tools import EXPORTED

ROOT = Path(omsgrain.__file__).parent
#: The one list of the names, the specifications that a conformance report is about, and the
#: choices of an MCP tool, whose schema is told before any format is loaded.
NAMED = {"formats/source.py", "conformance/rule.py", "mcp/tools.py"}

Constants = dict[tuple[str, str], str]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def parsed(texts: dict[Path, str], words: Collection[str]) -> dict[Path, ast.Module]:
    """The modules with one of these words; to parse all of them takes seconds."""
    return {
        path: ast.parse(text)
        for path, text in texts.items()
        if any(word in text for word in words)
    }


def constants(trees: dict[str, ast.Module]) -> Constants:
    """The constants of the package that are names of formats, by module and name."""
    found: Constants = {}
    for module, tree in trees.items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            value = getattr(node, "value", None)
            if isinstance(value, ast.Constant) and value.value in NAMES:
                names = (one.id for one in targets if isinstance(one, ast.Name))
                found.update(((module, name), str(value.value)) for name in names)
    return found


def imported(nodes: list[ast.AST], known: Constants) -> tuple[dict[str, str], dict[str, str]]:
    """The names of formats and the modules that a module imports, by the names they have there."""
    names, modules = {}, {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                as_ = one.asname or one.name
                modules[as_] = f"{node.module}.{one.name}"
                if (node.module, one.name) in known:
                    names[as_] = known[node.module, one.name]
    return names, modules


def comparisons(module: str, tree: ast.Module, known: Constants) -> Iterator[tuple[int, str]]:
    """The lines where a module compares names of formats, has them as keys or lists several."""
    nodes = list(ast.walk(tree))
    names, modules = imported(nodes, known)
    names |= {name: value for (of, name), value in known.items() if of == module}

    def said(node: ast.AST | None) -> list[str]:
        if isinstance(node, ast.Constant):
            return [node.value] if node.value in NAMES else []
        if isinstance(node, ast.Name):
            return [names[node.id]] if node.id in names else []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of = modules.get(node.value.id, "")
            return [known[of, node.attr]] if (of, node.attr) in known else []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return [name for one in node.elts for name in said(one)]
        return []

    for node in nodes:
        told: list[str] = []
        if isinstance(node, ast.Compare):
            told = [name for one in (node.left, *node.comparators) for name in said(one)]
        elif isinstance(node, ast.Dict):
            told = [name for one in node.keys for name in said(one)]
        elif isinstance(node, ast.Subscript | ast.MatchValue):
            told = said(node.slice if isinstance(node, ast.Subscript) else node.value)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            told = said(node) if len(said(node)) > 1 else []
        for name in told[:1]:
            yield getattr(node, "lineno", 0), name


def test_no_name_of_a_format_is_compared_outside_its_folder() -> None:
    texts = {path: path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py"))}
    trees = parsed(texts, [f'"{name}"' for name in NAMES])
    known = constants({module_of(path): tree for path, tree in trees.items()})
    trees |= parsed(texts, {name for _, name in known})
    found = []
    for path, tree in trees.items():
        file = path.relative_to(ROOT).as_posix()
        for line, name in comparisons(module_of(path), tree, known):
            folder = name.replace("-", "_")
            own = (f"formats/{folder}/", f"formats/convert/{folder}.py")
            if file not in NAMED and not file.startswith(own):
                found.append(f"{file}:{line}: {name}")
    assert not found, "\n".join(found)


def test_a_tool_exports_every_format_that_a_store_can_write() -> None:
    assert set(EXPORTED) == set(NAMES)


def test_the_table_has_the_named_formats() -> None:
    assert tuple(formats.FORMATS) == (*NAMES, *FOREIGN)
    assert all(one.name == name for name, one in formats.FORMATS.items())
