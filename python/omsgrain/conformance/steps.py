# SPDX-License-Identifier: Apache-2.0
"""Rules of kind ``steps``: a sequence of operations on a store, with expected results.

A step is an object with one operation, its options and the expected result;
``conformance/README.md`` explains them. Operations are the store's verbs and other public
functions. Steps compare their results, or parts of them, as JSON.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import cbor2

import omsgrain as og
from omsgrain import container, formats
from omsgrain.conformance import aimem
from omsgrain.conformance.bench import ADA, BEN, CAT, MSGPACK, NOW, SIGNERS, Bench, ada, by_hand
from omsgrain.conformance.documents import judged, validated
from omsgrain.conformance.rule import (
    TAKEN,
    Entry,
    Tried,
    documents,
    edited,
    refuses,
    result,
    spec_of,
    spelled,
    takes,
    value_of,
)
from omsgrain.conformance.vectors import blob, vector
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.memory.removal import erase_tenant
from omsgrain.policy.presets import load as load_preset
from omsgrain.query.envelope import envelope

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

    @cached_property
    def directory(self) -> Path:
        """The directory of the files of the steps."""
        return self.bench.directory()

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
            if name[1] in self.names:
                return self.names[name[1]]
            return self._named(documents(self.spec)[name[1]])
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
        for form, make in _FORMS.items():
            if form in written:
                return make(self, self._named(written[form]))
        return {self._key(key): self._named(inner) for key, inner in written.items()}

    def _key(self, key: str) -> str:
        return str(self.names.get(key[1:], key)) if key.startswith("$") else key


_FORMS: Final[dict[str, Callable[[Scene, Any], Any]]] = {
    "$hex": lambda _, text: bytes.fromhex(text),
    "$utf8": lambda _, text: value_of(text).encode(),
    "$concat": lambda _, parts: b"".join(parts),
    "$slice": lambda _, given: given[0][given[1] : given[2]],
    "$vector": lambda _, name: blob(name),
    "$data": lambda _, path: vector(path.rpartition("/")[0])[path.rpartition("/")[2]],
    "$signer": lambda _, name: SIGNERS[name](),
    "$public": lambda _, name: attrgetter(name)(og),
    "$json": lambda _, value: spelled(value_of(value)),
    "$parsed": lambda _, text: json.loads(text),
    "$path": lambda scene, name: scene.directory / name,
}
"""Values that JSON does not have: the only member of an object, and what makes the value."""


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
    elif isinstance(value, Mapping) and not isinstance(value, og.Grain):
        value = value.get(name)
    elif name.isdigit():
        value = value[int(name)]
    elif value is not None:
        value = getattr(value, name)
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
    scene = Scene(bench, spec_of(entry))
    for step in entry["steps"]:
        (name,) = OPERATIONS.keys() & step.keys()
        options = {key: scene.value(step[key]) for key in step.keys() - _OURS - {name}}
        call = partial(OPERATIONS[name], scene, scene.value(step[name]), **options)
        yield from _step(scene, step, call)


def _step(scene: Scene, step: Entry, call: Callable[[], Any]) -> Iterator[Tried]:
    if step.get("refused") == "any":
        yield Tried(step["try"], True, result(call) != TAKEN)
    elif "refused" in step:
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
    "verify_audit": ("audit.verify", "ok"),
    "grain": ("get", ""),
    "sign": ("sign", ""),
    "signatures": ("trust.signatures", "*/signer"),
    "envelope": ("trust.envelope", ""),
    "backup": ("maintenance.backup", ""),
    "export_mg": ("export_mg", "grains"),
    "import_mg": ("import_mg", ""),
    "close": ("close", ""),
}
"""Operation -> a verb of the store, and the part of its result that counts."""


def _verb(verb: str, path: str, scene: Scene, given: Any, **options: Any) -> Any:
    """Call a verb of the store; an object has its keyword arguments."""
    call = attrgetter(verb)(scene.store)
    if isinstance(given, dict):
        return at(call(**given), path)
    return at(call(*([] if given is None else [given]), **options), path)


def _open(scene: Scene, given: dict[str, Any]) -> None:
    """Open a new store in memory, or the one on disk with this name."""
    if given.get("keys") is True:
        given["keys"] = scene.bench.keys()
    if "preset" in given:
        given["preset"] = load_preset(given["preset"])
    if "hold_authorities" in given:
        given["hold_authorities"] = frozenset(given["hold_authorities"])
    if "path" not in given:
        scene.store = scene.bench.store(**given)
        return
    if "store" in vars(scene):
        scene.store.close()
    scene.store = scene.bench.opened(scene.directory / given.pop("path"), **given)


def _clock(scene: Scene, given: int) -> None:
    scene.bench.clock = given


def _report(scene: Scene, given: list[str]) -> dict[str, Any]:
    report = scene.store.privacy.report(given)
    grains = [one.grain.address for one in report.grains()]
    return {"grains": grains, "own": report.own, "named": report.named}


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


def _call(_: Scene, given: str, **options: Any) -> Any:
    """Call a public function of the package."""
    arguments, named = options.pop("with", ()), options.pop("named", {})
    return attrgetter(given)(og)(*arguments, **options, **named)


def _flipped(
    scene: Scene, given: bytes, *, call_of: str, start: int = 0, **options: Any
) -> list[int]:
    """Call a function with each byte changed in turn; return where it accepts the bytes."""
    rest, found = options.pop("with", []), []
    for at in range(start, len(given)):
        changed = given[:at] + bytes([given[at] ^ 1]) + given[at + 1 :]
        if result(attrgetter(call_of)(og), changed, *rest) == TAKEN:
            found.append(at)
    return found


def _public_key(_: Scene, given: str) -> bytes:
    key: Any = og.crypto.did.resolve(given)
    return bytes(key.public_bytes_raw())


def _cose(_: Scene, given: bytes) -> dict[str, Any]:
    found = cbor2.loads(given)
    protected = {str(label): value for label, value in cbor2.loads(found.value[0]).items()}
    return {
        "tag": found.tag,
        "parts": len(found.value),
        "protected": protected,
        "unprotected": dict(found.value[1]),
        "payload": found.value[2],
    }


def _handmade(_: Scene, given: dict[str, Any], *, payload: bytes) -> bytes:
    """Sign as Ada without our encoder, with other headers."""
    labels = {"alg": 1, "content": 3, "kid": 4}
    headers: dict[int, Any] = {1: -8, 3: MSGPACK, 4: ADA.encode()}
    headers |= {labels[name]: value for name, value in given.items()}
    present = {label: value for label, value in headers.items() if value is not None}
    return by_hand(present, payload, ada())


def _agreed(
    scene: Scene,
    given: dict[str, Any],
    *,
    old: str,
    signers: list[str],
    signed: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Make a superseding grain with entries of signers, each over the payload without entries."""
    fields = {**scene.grain({"created_at": NOW + 1}), **given}
    payload = og.encode(fields | (signed or {}))[9:]
    entries = [
        by_hand(
            {1: one.alg, 4: one.did.encode()},
            None,
            one,
            detached=payload,
            aad=bytes.fromhex(old),
        )
        for one in (SIGNERS[name]() for name in signers)
    ]
    return fields | {"supersession_auth": entries}


def _files(scene: Scene, given: list[bytes]) -> list[bool]:
    """Say which bytes are in the files of the steps."""
    raw = [path.read_bytes() for path in scene.directory.rglob("*") if path.is_file()]
    return [any(text in file for file in raw) for text in given]


def _audit_has(scene: Scene, given: list[bytes]) -> list[bool]:
    raw = scene.bench.audit_rows(scene.store)
    return [text in raw for text in given]


def _stream_written(_: Scene, given: list[bytes]) -> bytes:
    file = io.BytesIO()
    container.write_stream(file, given)
    return file.getvalue()


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: partial(_verb, verb, path) for name, (verb, path) in VERBS.items()},
    "open": _open,
    "clock": _clock,
    "size": lambda scene, _: len(scene.store),
    "page": lambda scene, given: envelope(scene.store.query(**given)),
    "changes_since": lambda scene, seq: scene.store.stats().last_seq - seq,
    "put": lambda scene, given, **options: scene.store.put(scene.grain(given), **options),
    "put_many": lambda scene, given: list(
        scene.store.put_many([scene.grain(one) for one in given]).addresses
    ),
    "supersede": lambda scene, old, by, reason=None: scene.store.supersede(
        old, scene.grain(by), reason
    ),
    "set_verification": lambda scene, address, to: scene.store.trust.set_verification(address, to),
    "exists": lambda scene, given: [scene.store.exists(address) for address in given],
    "readable": lambda scene, given: [
        result(scene.store.get, address) == TAKEN for address in given
    ],
    "report": _report,
    "load": _load,
    "import": _import,
    "export": _export,
    "import_bundle": _import_bundle,
    "export_bundle": lambda scene, _, **options: aimem.exported(scene.store, **options),
    "erase_tenant": lambda scene, given: erase_tenant(scene.store, given, reason_code="gdpr17"),
    "judge": lambda _, given, **options: judged(spelled(given), **options),
    "judged": lambda scene, given: validated(scene.spec, spelled(given)),
    "problems": lambda scene, given: [
        said for said in validated(scene.spec, spelled(given)) if not said.startswith("~")
    ],
    "bundle_problems": lambda _, given: aimem.rules(spelled(given)),
    "call": _call,
    "flipped": _flipped,
    "keys": lambda scene, _: scene.bench.keys(),
    "public_key": _public_key,
    "cose": _cose,
    "handmade": _handmade,
    "agreed": _agreed,
    "files": _files,
    "audit_has": _audit_has,
    "stream": lambda _, given: list(container.read_stream(io.BytesIO(given))),
    "stream_written": _stream_written,
    "tool": lambda scene, name: scene.bench.tools[name],
    "tools": lambda scene, _: list(scene.bench.tools),
    "value": lambda _, given, only=None: (
        given if only is None else [one for one in given if one in only]
    ),
}
