# SPDX-License-Identifier: Apache-2.0
"""Rules of kind ``steps``: operations on a store, one after the other, and their results.

A step is an object with one operation, its options, and the result that it must have.
``rules/README.md`` explains all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.edits import edited, value_of
from omsgrain.conformance.people import ADA, BEN, CAT
from omsgrain.conformance.rule import Entry, Tried, documents, refuses, spec_of, takes

_NAME: Final = re.compile(r"\$(\w+)")
_TIME: Final = re.compile(r"now(?:([+-])(\d+))?")
_OURS: Final = frozenset("try is refused taken of as count contains at_most sorted".split())
"""Members of a step that are no options of its operation."""


class Scene:
    """The store of some steps, and their results by name."""

    def __init__(self, bench: Bench, spec: str) -> None:
        self.bench = bench
        self.spec = spec
        self.names: dict[str, Any] = {"ada": ADA, "ben": BEN, "cat": CAT}

    @cached_property
    def store(self) -> og.GrainStore:
        """A new store in memory, unless a step opened another one."""
        return self.bench.store()

    def value(self, written: Any) -> Any:
        """The value that a step means: names, times and documents in place of their words."""
        return value_of(self._named(written))

    def grain(self, written: Any) -> Any:
        """The grain to put: a blob, or fields; those without a type change the lamp's."""
        if isinstance(written, dict) and "type" not in written:
            return self.value(documents("oms")["lamp"]) | written
        return written

    def path(self, written: str) -> str:
        """A path with the named results in it."""
        return _NAME.sub(lambda name: str(self.names[name[1]]), written)

    def _named(self, written: Any) -> Any:
        if isinstance(written, list):
            return [self._named(inner) for inner in written]
        if isinstance(written, dict):
            return self._object(written)
        if not isinstance(written, str):
            return written
        if name := _NAME.fullmatch(written):
            return self.names[name[1]]
        if time := _TIME.fullmatch(written):
            return NOW + int(f"{time[1] or ''}{time[2] or 0}")
        return written

    def _object(self, written: dict[str, Any]) -> Any:
        if "$encode" in written:
            return og.encode(self.value(written["$encode"]))
        if "$join" in written:
            return [one for part in written["$join"] for one in self._named(part)]
        if "$document" in written:
            whole = edited(documents(self.spec)[written["$document"]], written)
            return at(self._named(whole), written.get("of", ""))
        return {key: self._named(inner) for key, inner in written.items()}


def at(value: Any, path: str) -> Any:
    """The part of a value at a path: members, indexes, ``*`` for each, ``id=x`` for the one."""
    name, _, rest = path.partition("/")
    if not name:
        return value
    if name == "*":
        return [at(inner, rest) for inner in value]
    if isinstance(value, list):
        key, equal, wanted = name.partition("=")
        if equal:
            value = next((one for one in value if one.get(key) == wanted), None)
        else:
            value = value[int(name)]
    else:
        value = None if value is None else value.get(name)
    return at(value, rest)


def run(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Do the steps of a rule."""
    from omsgrain.conformance.operations import OPERATIONS

    scene = Scene(bench, spec_of(entry))
    for step in entry["steps"]:
        (name,) = OPERATIONS.keys() & step.keys()
        options = {key: scene.value(step[key]) for key in step.keys() - _OURS - {name}}
        call = partial(OPERATIONS[name], scene, scene.value(step[name]), **options)
        yield from _step(scene, step, call)


def _step(scene: Scene, step: Entry, call: Callable[[], Any]) -> Iterator[Tried]:
    if "refused" in step:
        yield refuses(step["try"], step["refused"], call)
    elif step.get("taken"):
        yield takes(step["try"], call)
    else:
        found = _part(scene, call(), step.get("of", ""))
        if step.get("sorted"):
            found = sorted(found)
        if "as" in step:
            scene.names[step["as"]] = found
        if "try" in step:
            yield _compared(scene, step, found)


def _part(scene: Scene, found: Any, path: Any) -> Any:
    if isinstance(path, list):
        return [at(found, scene.path(one)) for one in path]
    return at(found, scene.path(path))


def _compared(scene: Scene, step: Entry, found: Any) -> Tried:
    """The result of a step beside the one that it must have."""
    what = step["try"]
    if "count" in step:
        return Tried(what, step["count"], len(found))
    if "at_most" in step:
        return Tried(what, True, found <= step["at_most"])
    if "contains" in step:
        wanted = scene.value(step["contains"])
        parts = wanted if isinstance(wanted, list) else [wanted]
        return Tried(what, True, all(one in found for one in parts))
    expected = scene.value(step["is"])
    return Tried(what, sorted(expected) if step.get("sorted") else expected, found)
