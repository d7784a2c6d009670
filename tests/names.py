# SPDX-License-Identifier: Apache-2.0
"""Names are the field's own, each means one thing, and private ones stay in their file.

Run by ``make check``. The lists of exceptions only shrink.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "omsgrain"
#: Modules whose name ends in -ing: a noun each.
NOUNS = {"hashing", "keyring", "ring", "streaming"}
#: Words that said too little, as names of modules, classes and functions.
METAPHORS = {
    *("care", "crew", "door", "gate", "home", "letters", "quiet", "side", "simply", "turn"),
    *("turns", "unsealing", "veil", "veiled", "world"),
}
#: Further words that no module and no class goes by alone.
OLD = METAPHORS | {
    *("across", "acts", "admission", "ahead", "around", "arriving", "asking", "bringing", "call"),
    *("carrying", "examined", "extra", "fate", "finishing", "following", "glance", "held"),
    *("incoming", "intake", "keeping", "lane", "leaving", "linked", "listed", "looks", "merging"),
    *("moving", "natives", "orders", "outline", "owned", "placing", "plain", "putting", "recent"),
    *("recording", "replaying", "reviewing", "rights", "running", "staying", "tabling", "taking"),
    *("telling", "toggles", "tracing", "trimming", "unkeying", "unsettled", "volatile"),
}
#: Of named tuples and of LMDB's binding.
PUBLIC = {"_Database", "_asdict", "_fields", "_replace"}
#: Terms of the field that have such a word in them.
TERMS = re.compile(r"dead_letters?|side_effects?|side_by_side|world_readable")


def words_of(name: str) -> set[str]:
    """The words of a name, of either spelling."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return set(TERMS.sub("", snake).split("_"))


def names() -> list[str]:
    """Modules, classes and functions with a name that the rules forbid."""
    found: list[str] = []
    owners = defaultdict[str, set[str]](set)
    for path, tree in TREES.items():
        stem = Path(path).stem
        if stem in OLD or (stem.endswith("ing") and stem not in NOUNS):
            found.append(f"{path}: no name for a module")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                owners[node.name].add(path)
                if node.name.lower().strip("_") in OLD or words_of(node.name) & METAPHORS:
                    found.append(f"{path}: class {node.name}: an old word")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if words_of(node.name) & METAPHORS - {"letters"}:  # the alphabet has some
                    found.append(f"{path}: {node.name}: an old word")
    for name, paths in owners.items():
        if len(paths) > 1:
            found.append(
                f"{min(paths)}: class {name} is also in {', '.join(map(str, sorted(paths)[1:]))}"
            )
    return found


def reaches() -> Counter[str]:
    """How often each file uses a private name of another: ``x._y`` where it defines no ``_y``."""
    found = Counter[str]()
    for path, tree in TREES.items():
        own = _defined(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and re.match(r"_[^_]", node.attr)
                and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
                and node.attr not in own | PUBLIC
                and f"omsgrain.{node.attr}" != ast.unparse(node)
            ):
                found[path] += 1
    return found


def _defined(tree: ast.Module) -> set[str]:
    """The names that a module defines: functions, classes, variables, attributes and slots."""
    own = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                own.add(node.attr)
    return own


def faults() -> list[str]:
    """Return the names that break the rules and are no exception."""
    found = [fault for fault in names() if not fault.startswith(WAITING)]
    for path, count in reaches().items():
        if count > REACHES.get(path, 0):
            found.append(f"{path}: {count} private names of other modules")
    return found


#: Files that are about to go or to be renamed, and names in them.
WAITING: tuple[str, ...] = ()
#: Files that still use private names of others, and how often. The numbers only go down.
REACHES: dict[str, int] = {}
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}


if __name__ == "__main__":
    bad = faults()
    print("\n".join(bad))
    sys.exit(bool(bad))
