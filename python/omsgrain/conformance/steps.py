# SPDX-License-Identifier: Apache-2.0
"""Rules of kind ``steps``: a sequence of operations on a store, with expected results.

A step is an object with one operation, its options and the expected result; ``rules/README.md``
explains them. Operations are the store's verbs, with JSON results. A change of the store's verbs
only changes this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final

import omsgrain as og
from omsgrain import formats
from omsgrain.conformance import aimem
from omsgrain.conformance.bench import ADA, BEN, CAT, NOW, Bench
from omsgrain.conformance.documents import judged, spelled, validated
from omsgrain.conformance.rule import (
    TAKEN,
    Entry,
    Tried,
    documents,
    edited,
    refuses,
    result,
    spec_of,
    takes,
    value_of,
)
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.memory.removal import erase_tenant
from omsgrain.policy.presets import load as load_preset

_NAME: Final = re.compile(r"\$(\w+)")
_TIME: Final = re.compile(r"now(?:([+-])(\d+))?")
_OURS: Final = frozenset("try is refused taken of as count contains at_most sorted".split())
"""Members of a step that are not options of its operation."""


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
        """Expand a step's value: names, times and documents."""
        return value_of(self._named(written))

    def grain(self, written: Any) -> Any:
        """Return the grain to put: a blob or fields. Fields without a type change the lamp."""
        if isinstance(written, dict) and "type" not in written:
            return self.value(documents("oms")["lamp"]) | written
        return written

    def path(self, written: str) -> str:
        """Replace the names of results in a path."""
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
    """Return the part of a value at a path of members, indexes, ``*`` and ``id=x``.

    The members of an object are its attributes.
    """
    name, _, rest = path.partition("/")
    if isinstance(value, Iterator):
        value = list(value)
    if not name:
        return value
    if name == "*":
        return [at(inner, rest) for inner in value]
    key, equal, wanted = name.partition("=")
    if equal:
        value = next((one for one in value if one.get(key) == wanted), None)
    elif name.isdigit():
        value = value[int(name)]
    elif isinstance(value, Mapping) and name in value:
        value = value[name]
    else:
        value = getattr(value, name, None)
    return at(value, rest)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def run(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Run the steps of a rule."""
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
    """Compare the result of a step with the expected one."""
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
    expected = sorted(expected) if step.get("sorted") else expected
    return Tried(what, plain(expected), plain(found))


# the operations


USER: Final = "user-42"
VERBS: Final = {
    "get": ("get", "fields"),
    "get_many": ("get_many", "*/address"),
    "address": ("get", "address"),
    "blob": ("get", "blob"),
    "contest": ("contest", ""),
    "retract": ("retract", ""),
    "delete": ("delete", ""),
    "status": ("status", ""),
    "changes": ("stats", "last_seq"),
    "query": ("query", "results/*/address"),
    "search": ("search", "results/*/address"),
    "history": ("history", "*/address"),
    "provenance": ("graph.provenance", "nodes/*/address"),
    "descendants": ("graph.descendants", "nodes/*/address"),
    "hold": ("holds.add", ""),
    "release": ("holds.release", ""),
    "reviews": ("reviews.pending", "*/address"),
    "restrict": ("privacy.restrict", ""),
    "run_due": ("privacy.run_due", ""),
    "withdraw_consent": ("privacy.withdraw_consent", ""),
    "erase": ("privacy.erase", ""),
    "audit": ("audit.entries", ""),
}
"""Operation -> a verb of the store, and the part of its result that counts."""


def _verb(verb: str, path: str, scene: Scene, given: Any, **options: Any) -> Any:
    """Call a verb of the store; an object has its keyword arguments."""
    call = attrgetter(verb)(scene.store)
    if isinstance(given, dict):
        return at(call(**given), path)
    return at(call(*([] if given is None else [given]), **options), path)


def _open(scene: Scene, given: dict[str, Any]) -> None:
    if given.pop("keys", False):
        given["keys"] = scene.bench.keys()
    if "preset" in given:
        given["preset"] = load_preset(given["preset"])
    scene.store = scene.bench.store(**given)


def _clock(scene: Scene, given: int) -> None:
    scene.bench.clock = given


def _size(scene: Scene, _: None) -> int:
    return len(scene.store)


def _changes_since(scene: Scene, given: int) -> int:
    return scene.store.stats().last_seq - given


def _put(scene: Scene, given: Any, **options: Any) -> str:
    return scene.store.put(scene.grain(given), **options)


def _put_many(scene: Scene, given: list[Any]) -> list[str | None]:
    return list(scene.store.put_many([scene.grain(one) for one in given]).addresses)


def _supersede(scene: Scene, given: str, *, by: Any, reason: str | None = None) -> str:
    return scene.store.supersede(given, scene.grain(by), reason)


def _set_verification(scene: Scene, given: str, *, to: Any) -> None:
    scene.store.trust.set_verification(given, to)


def _exists(scene: Scene, given: list[str]) -> list[bool]:
    return [scene.store.exists(address) for address in given]


def _readable(scene: Scene, given: list[str]) -> list[bool]:
    return [result(scene.store.get, address) == TAKEN for address in given]


def _report(scene: Scene, given: list[str]) -> dict[str, Any]:
    report = scene.store.privacy.report(given)
    grains = [one.grain.address for one in report.grains()]
    return {"grains": grains, "own": report.own, "named": report.named}


def _export_mg(scene: Scene, given: Any) -> int:
    return scene.store.export_mg(scene.bench.directory() / "x.mg", purpose=given).grains


def _load(scene: Scene, given: Any) -> None:
    form: Any = scene.spec
    formats.load(spelled(given), format=form)


def _import(scene: Scene, given: Any, **options: Any) -> dict[str, Any]:
    """Import a document; return the report."""
    report = import_document(scene.store, spelled(given), **options)
    return {
        "fates": [one.fate for one in report.records if one.kind == "memory"],
        "renamed": [one.new_id for one in report.records if one.fate == "renamed"],
        "merge_strategy": report.merge_strategy,
    }


def _export(scene: Scene, _: None, **options: Any) -> Any:
    """Export the store in the rule's format, as JSON."""
    form: Any = scene.spec
    dump, _report = export_document(scene.store, USER, format=form, now=NOW, **options)
    return json.loads(dump.data)


def _import_bundle(scene: Scene, given: Any, **options: Any) -> dict[str, Any]:
    summary = import_bundle(scene.store, aimem.read(given), **options)
    return {**summary.to_dict(), "warnings": [one.rule for one in summary.warnings]}


def _export_bundle(scene: Scene, _: None, **options: Any) -> dict[str, Any]:
    return aimem.exported(scene.store, **options)


def _erase_tenant(scene: Scene, given: str) -> None:
    erase_tenant(scene.store, given, reason_code="gdpr17")


def _judge(_: Scene, given: Any, **options: Any) -> list[str]:
    return judged(spelled(given), **options)


def _problems(scene: Scene, given: Any) -> list[str]:
    found = validated(scene.spec, spelled(given))
    return [said for said in found if not said.startswith("~")]


def _bundle_problems(_: Scene, given: Any) -> list[str]:
    return aimem.rules(aimem.spelled(given))


def _tool(scene: Scene, given: str) -> dict[str, Any]:
    return scene.bench.tools[given]


def _tools(scene: Scene, _: None) -> list[str]:
    return list(scene.bench.tools)


def _value(_: Scene, given: Any, only: Any = None) -> Any:
    return given if only is None else [one for one in given if one in only]


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: partial(_verb, verb, path) for name, (verb, path) in VERBS.items()},
    "open": _open,
    "clock": _clock,
    "size": _size,
    "changes_since": _changes_since,
    "put": _put,
    "put_many": _put_many,
    "supersede": _supersede,
    "set_verification": _set_verification,
    "exists": _exists,
    "readable": _readable,
    "report": _report,
    "export_mg": _export_mg,
    "load": _load,
    "import": _import,
    "export": _export,
    "import_bundle": _import_bundle,
    "export_bundle": _export_bundle,
    "erase_tenant": _erase_tenant,
    "judge": _judge,
    "problems": _problems,
    "bundle_problems": _bundle_problems,
    "tool": _tool,
    "tools": _tools,
    "value": _value,
}
