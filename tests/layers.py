# SPDX-License-Identifier: Apache-2.0
"""Imports point one way: from the command line down to the core. Run by ``make check``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

#: The packages from the ground up. One may import from its own floor and from those before it.
FLOORS = (
    ("_core", "counts", "durable", "errors"),
    ("registry", "header"),
    ("grain", "lenient", "constructors", "json_values", "query.times"),
    ("crypto",),
    ("batch", "container"),
    ("formats",),
    ("search.words", "search.stem"),
    ("storage",),
    ("policy", "privacy"),
    ("search",),
    ("query",),
    ("store",),
    ("omsgrain",),
    ("interchange", "sync"),
    ("memory",),
    ("integrations",),
    ("inspect",),
    ("server.log",),
    ("mcp",),
    ("server",),
    ("bridge",),
    ("conformance",),
    ("cli",),
)
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
#: What may read arguments, the environment or sockets.
OUTSIDE = {"bridge", "cli", "mcp", "server"}
FORBIDDEN = {"argparse", "socket", "click"}
#: The one file of the library that does: it must see the address before it connects.
RESOLVER = "crypto/did_web.py"
PACKAGE = Path(__file__).parents[1] / "python" / "omsgrain"


def imports(tree: ast.AST, *, lazy: bool = True) -> list[tuple[int, str]]:
    """Line and name of every import but those for types; without `lazy`, of the module only."""
    found = []
    todo = list(ast.iter_child_nodes(tree))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{name.name}") for name in node.names]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += node.orelse
        elif lazy or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo += ast.iter_child_nodes(node)
    return sorted(found)


def room_of(module: str) -> str:
    """The room of a module of ours; a name that is no room is one of the package's own exports."""
    parts = module.split(".")
    inner = ".".join(parts[1:3])
    room = inner if inner in FLOOR else parts[1] if len(parts) > 1 else "omsgrain"
    return room if room in FLOOR else "omsgrain"


def faults() -> list[str]:
    """Every import that points up, or outside from where it must not, and every circle."""
    found = []
    for path, module in MODULES.items():
        room = "cli" if module == "omsgrain.__main__" else room_of(module)
        if module.count(".") and room == "omsgrain":
            found.append(f"{path}: {module} stands on no floor")
            continue
        for line, name in imports(ast.parse(path.read_text("utf-8"))):
            top = name.split(".")[0]
            if top == "omsgrain" and FLOOR[room_of(name)] > FLOOR[room]:
                found.append(f"{path}:{line}: {room} imports {name}, which is above it")
            outside = room in OUTSIDE or path.relative_to(PACKAGE).as_posix() == RESOLVER
            if top in FORBIDDEN and not outside:
                found.append(f"{path}:{line}: {room} imports {name}")
    return found + [f"circle of imports: {' '.join(circle)}" for circle in circles()]


def _module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def circles() -> list[list[str]]:
    """The modules that import each other in a circle as they load."""
    names = set(MODULES.values())
    needs = {}
    for path, module in MODULES.items():
        wanted = {name for _, name in imports(ast.parse(path.read_text("utf-8")), lazy=False)}
        known = {w if w in names else w.rpartition(".")[0] for w in wanted} & names
        needs[module] = known - {module}
    while free := [module for module, wanted in needs.items() if not wanted & needs.keys()]:
        for module in free:
            del needs[module]
    # What is left stands in a circle, or imports one.
    while free := [m for m in needs if not any(m in wanted for wanted in needs.values())]:
        for module in free:
            del needs[module]
    return [sorted(needs)] if needs else []


MODULES = {path: _module_of(path) for path in sorted(PACKAGE.rglob("*.py"))}


if __name__ == "__main__":
    bad = faults()
    print("\n".join(bad))
    sys.exit(bool(bad))
