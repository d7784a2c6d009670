# SPDX-License-Identifier: Apache-2.0
"""The page of adapters, made from their source: their frameworks need not be installed."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from make_reference_text import HEADER, WIDTH, escaped, indented, prose, quoted

import omsgrain

#: The adapters: a title and a guide for each module of ``omsgrain.integrations``.
ADAPTERS = {
    "anthropic": ("Anthropic's memory tool", "anthropic"),
    "autogen": ("AutoGen", "autogen"),
    "crewai": ("CrewAI", "crewai"),
    "google_adk": ("Google's Agent Development Kit", "google-adk"),
    "langgraph": ("LangGraph", "langgraph"),
    "llama_index": ("LlamaIndex", "llama-index"),
    "mem0": ("mem0", "mem0"),
    "openai_agents": ("OpenAI Agents SDK", "openai-agents"),
    "strands": ("Strands Agents", "strands"),
    "entries": ("Values under names", ""),
}
ADAPTER_INTRO = """\
Each adapter has the methods of a class of its framework, over an open store or an
[`og.Memory`](memory.md). The guides show them at work. omsgrain does not install the frameworks.
If you import an adapter without its framework, UnsupportedError names the package. Any method can
also raise the store's [errors](../errors.md), such as StoreError if the store is read-only.
"""
#: What makes an asynchronous method of another one.
IN_THREAD = re.compile(r"_?in_thread(_of)?$")


def adapters() -> Iterator[str]:
    """Yield the lines of the page of adapters, from their source: their frameworks are missing."""
    yield from (HEADER, "", "# Adapters", "", ADAPTER_INTRO)
    for name, (title, guide) in ADAPTERS.items():
        classes = list(adapter_classes(name))
        names = ", ".join(one.name for one in classes)
        page = f" Guide: [{title}](../how-to/{guide}.md)." if guide else ""
        yield from (f"## {title}", "")
        yield from (f"`from omsgrain.integrations.{name} import {names}`.{page}", "")
        for one in classes:
            yield from _adapter(one)


def adapter_classes(name: str) -> Iterator[ast.ClassDef]:
    """Yield the public classes of an adapter."""
    folder = Path(inspect.getfile(omsgrain)).parent / "integrations"
    for path in sorted((folder / name).glob("*.py")) or [folder / f"{name}.py"]:
        classes = {
            node.name: node
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.ClassDef)
        }
        for node in classes.values():
            node.body = [_in_loop(one, node, classes) for one in node.body]
            if node.name[0] != "_":
                yield node


def _in_loop(one: Any, owner: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Any:
    """Return a member of a class; of one that calls another in a thread, what a user sees."""
    call = one.value if isinstance(one, ast.Assign) else None
    if isinstance(call, ast.Call) and IN_THREAD.match(ast.unparse(call.func)):
        says = ast.unparse(call.args[-1])
        home, _, of = says.rpartition(".")
        found: Any = {getattr(it, "name", ""): it for it in classes.get(home, owner).body}[of]
        name, body = ast.unparse(one.targets[0]), [ast.Expr(ast.Constant(f"As ``{says}``."))]
        return ast.AsyncFunctionDef(name, found.args, body, [], found.returns)
    if isinstance(one, ast.FunctionDef):
        if any(IN_THREAD.match(ast.unparse(mark)) for mark in one.decorator_list):
            return ast.AsyncFunctionDef(one.name, one.args, one.body, [], one.returns)
    return one


def _adapter(node: ast.ClassDef) -> Iterator[str]:
    """Yield the lines of a class: its stub, its words, and those of its methods."""
    methods = [
        one
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and (one.name[0] != "_" or one.name == "__init__")
    ]
    fields = [
        f"    {ast.unparse(one)}"
        for one in node.body
        if isinstance(one, ast.AnnAssign) and ast.unparse(one.target)[0] != "_"
    ]
    bases = ", ".join(re.sub(r"\b_\w+\.", "", ast.unparse(base)) for base in node.bases)
    yield from (f"### class {node.name}", "", "```pyi")
    yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    yield from map(quoted, fields)
    yield from (indented(_stub(one)) for one in methods)
    yield from (*(() if fields or methods else ("    ...",)), "```", "")
    yield from prose(ast.get_docstring(node) or "")
    docs = {one.name: doc for one in methods if (doc := ast.get_docstring(one)) is not None}
    short = {name: doc for name, doc in docs.items() if "\n\n" not in doc}
    yield from (f"- `{name}`: {escaped(doc)}" for name, doc in short.items())
    yield from [""] * bool(short)
    for name, doc in docs.items():
        if name not in short:
            yield from (f"#### {node.name}.{name}", "", *prose(doc))


def _stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a method as a stub, without ``self``."""
    given = node.args
    skips = 0 if given.posonlyargs else 1
    given = ast.arguments(
        given.posonlyargs[1:], given.args[skips:], given.vararg, given.kwonlyargs,
        given.kw_defaults, given.kwarg, given.defaults,
    )  # fmt: skip
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    end = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    arguments = ast.unparse(given)
    line = f"{kind} {node.name}({arguments}){end}: ..."
    if len(line) > WIDTH - 4:
        line = f"{kind} {node.name}(\n    {arguments}\n){end}: ..."
    marks = "".join(f"@{ast.unparse(one)}\n" for one in node.decorator_list)
    return quoted(marks + line)


def missing_adapters() -> Iterator[str]:
    """Yield the adapters without an entry, and their classes and methods without words."""
    folder = Path(inspect.getfile(omsgrain)).parent / "integrations"
    known = {path.stem for path in folder.iterdir() if path.stem[0] not in "_."}
    yield from (f"integrations.{name}: no entry" for name in sorted(known ^ ADAPTERS.keys()))
    for name in sorted(known & ADAPTERS.keys()):
        for node in adapter_classes(name):
            for one in (node, *node.body):
                defines = isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                if defines and one.name[0] != "_" and not ast.get_docstring(one):
                    yield f"{node.name}.{one.name}: no docstring"
