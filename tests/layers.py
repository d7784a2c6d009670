# SPDX-License-Identifier: Apache-2.0
"""Imports point one way: from the command line down to the core. Run by ``make check``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

#: The rooms from the ground up. A room may import from its own floor and from those before it.
FLOORS = (
    ("_core", "counts", "durable", "errors"),
    ("registry", "header"),
    ("grain", "lenient", "constructors"),
    ("text",),
    ("crypto",),
    ("batch", "container"),
    ("formats",),
    ("store",),
    ("intake",),
    ("index", "privacy"),
    ("search",),
    ("exchange", "analytics"),
    ("engine",),
    ("omsgrain",),
    ("gateways", "sync"),
    ("ops",),
    ("cli", "conformance", "services"),
)
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
#: What may read arguments, the environment or sockets.
OUTSIDE = {"cli", "services"}
FORBIDDEN = {"argparse", "socket", "click"}
#: The one file of the library that does: it must see the address before it connects.
RESOLVER = "crypto/web.py"
PACKAGE = Path(__file__).parents[1] / "python" / "omsgrain"


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and full name of every import, lazy ones too; those for types only are left out."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = node.module == "omsgrain"
            names = [f"omsgrain.{n.name}" for n in node.names] if inside else [node.module]
            found += [(node.lineno, name) for name in names]
    return found


def room_of(module: str) -> str:
    """The room of a module of ours; a name that is no room is one of the package's own exports."""
    parts = module.split(".")
    room = parts[1] if len(parts) > 1 else "omsgrain"
    return room if room in FLOOR else "omsgrain"


def faults() -> list[str]:
    """Every import that points up, or outside from where it must not."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        room = "omsgrain" if parts == ("__init__",) else parts[0]
        if parts == ("__main__",):
            room = "cli"
        if room not in FLOOR:
            found.append(f"{path}: room {room!r} stands on no floor")
            continue
        for line, module in imports(ast.parse(path.read_text("utf-8"))):
            top = module.split(".")[0]
            if top == "omsgrain" and FLOOR[room_of(module)] > FLOOR[room]:
                found.append(f"{path}:{line}: {room} imports {module}, which is above it")
            outside = room in OUTSIDE or path.relative_to(PACKAGE).as_posix() == RESOLVER
            if top in FORBIDDEN and not outside:
                found.append(f"{path}:{line}: {room} imports {module}")
    return found


if __name__ == "__main__":
    bad = faults()
    print("\n".join(bad))
    sys.exit(bool(bad))
