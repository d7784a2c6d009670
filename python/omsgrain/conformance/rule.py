# SPDX-License-Identifier: Apache-2.0
"""Conformance rules: loaded, chosen and tested; changes of documents, results of calls.

Rule files abbreviate values and changes of documents. A change has ``set``, JSON pointers with new
values, and ``remove``, a list of pointers. The pointer ``/-`` appends to an array; the empty
pointer replaces the whole document. In values, ``{"$repeat": [text, count]}`` is a long text;
``{"$bytes": base64}`` and ``{"$float": "nan"}`` are values that JSON cannot represent.
"""

from __future__ import annotations

import copy
import gzip
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple, TypeVar

from omsgrain.conformance.bench import Bench, MissingError
from omsgrain.errors import NotFoundError, OmsError, SchemaError
from omsgrain.formats.json_text import steps_of
from omsgrain.json_values import revive

Spec = Literal["oms", "aimem", "mif2", "mif1", "mif-ld"]
SPECS: Final[dict[Spec, str]] = {
    "oms": "OMS 1.2",
    "aimem": "AIMEM bundle, draft-vu-aimem-bundle-00",
    "mif2": "MIF 2.0",
    "mif1": "MIF 1.0",
    "mif-ld": "MIF in JSON-LD",
}
FILES: Final[dict[str, Spec]] = {
    "oms_grains": "oms",
    "oms_fields": "oms",
    "oms_stores": "oms",
    "aimem": "aimem",
    "mif2": "mif2",
    "mif1": "mif1",
    "mif_ld": "mif-ld",
}
"""The files in ``rules/`` without their suffixes, in the order of the report."""
TAKEN: Final = "taken"
"""The result of a call that was not refused."""

Entry = Mapping[str, Any]
"""A rule as its file has it; ``conformance/README.md`` of the repository explains the members."""


class Tried(NamedTuple):
    what: str
    expected: object  # the right result; the tested code never computes it
    found: object


Check = Callable[[Bench], Iterable[Tried]]


@dataclass(frozen=True, slots=True)
class Rule:
    id: str  # its id, such as ``oms.header.version``; it never changes
    section: str
    text: str  # the requirement, in our words
    check: Check  # tests good and bad input
    must: bool  # whether it is required; otherwise it is recommended
    spec: Spec
    level: int  # the conformance level; 0 if the specification has no levels


@cache
def table(file: str) -> dict[str, Any]:
    """One file of rules, as JSON."""
    path = Path(__file__).with_name("rules") / f"{file}.json.gz"
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


@cache
def documents(spec: str) -> dict[str, Any]:
    """Return the base documents of a specification's rules, by name."""
    files = [table(file) for file, own in FILES.items() if own == spec]
    return {name: value for whole in files for name, value in whole.get("documents", {}).items()}


def spec_of(entry: Entry) -> str:
    return str(entry["id"]).partition(".")[0]


def result(call: Callable[..., object], *given: Any, by: str = "", **options: Any) -> str:
    """Return the result of a call: ``taken``, or the code or rule that refuses it.

    If an error has both a code and a rule, the result is the expected one.
    """
    try:
        call(*given, **options)
    except OmsError as error:
        return by if by in (error.code, error.rule) else error.rule or error.code
    return TAKEN


def refuses(what: str, by: str, call: Callable[..., object], *given: Any, **options: Any) -> Tried:
    """Try a call that must be refused by a code, or by a rule of a format."""
    return Tried(what, by, result(call, *given, by=by, **options))


def takes(what: str, call: Callable[..., object], *given: Any, **options: Any) -> Tried:
    return Tried(what, TAKEN, result(call, *given, **options))


T = TypeVar("T")

_SHOWN = 40  # characters of a value in the description of a test


def value_of(written: Any) -> Any:
    """Expand a value of a rule file."""
    return revive(_repeated(written))


def _repeated(written: Any) -> Any:
    if isinstance(written, list):
        return [_repeated(inner) for inner in written]
    if not isinstance(written, dict):
        return written
    if set(written) == {"$repeat"}:
        text, count = written["$repeat"]
        return text * count
    return {key: _repeated(inner) for key, inner in written.items()}


def edited(document: T, change: Mapping[str, Any]) -> T:
    """Return a changed copy of a document."""
    document = copy.deepcopy(document)
    for pointer, written in change.get("set", {}).items():
        value = value_of(written)
        if not pointer:
            document = value
            continue
        inner, last = _place(document, pointer)
        if isinstance(inner, list) and last == "-":
            inner.append(value)
        else:
            inner[int(last) if isinstance(inner, list) else last] = value
    for pointer in change.get("remove", ()):
        inner, last = _place(document, pointer)
        del inner[int(last) if isinstance(inner, list) else last]
    return document


def _place(document: Any, pointer: str) -> tuple[Any, str]:
    """Return the object or array that holds a place, and the last step of its pointer."""
    *path, last = steps_of(pointer)
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document, last


def shown(change: Mapping[str, Any]) -> str:
    """Describe a change briefly, in written order."""
    return ", ".join(_shown(change))


def _shown(change: Mapping[str, Any]) -> Iterator[str]:
    for name, places in change.items():
        if name == "set":
            for pointer, written in places.items():
                text = json.dumps(value_of(written), ensure_ascii=False)
                text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
                yield f"{pointer or 'the whole'}: {text}"
        elif name == "remove":
            yield from (f"{pointer}: missing" for pointer in places)


def spelled(document: Any) -> bytes:
    """Write a document as JSON."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


# rules, chosen and tested

_VALUE = 80  # characters of a value in a verdict
KINDS: Final = {
    "vectors": "vectors.agree",
    "encode": "oms.encoded",
    "key": "oms.keyed",
    "warnings": "oms.warned",
    "policy": "oms.policy",
    "document": "documents.changed",
    "node": "documents.nodes",
    "text": "documents.texts",
    "round": "documents.returned",
    "kept": "documents.kept",
    "bundle": "aimem.bundle",
    "http": "http.ruled",
    "steps": "steps.run",
}
"""Kind of rule -> module and function in this package."""


def _check(entry: Entry, bench: Bench) -> Iterable[Tried]:
    """Test a rule with the function of its kind, or the one that it names."""
    module, _, name = (entry.get("run") or KINDS[entry["kind"]]).rpartition(".")
    check = getattr(import_module(f"omsgrain.conformance.{module}"), name)
    tried: Iterable[Tried] = check(bench, entry)
    return tried


def _load(file: str, spec: Spec) -> Iterator[Rule]:
    for entry in table(file)["rules"]:
        yield Rule(
            entry["id"],
            entry["section"],
            entry["text"],
            partial(_check, entry),
            entry.get("required", True),
            spec,
            entry.get("level", 0),
        )


RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (rule for file, spec in FILES.items() for rule in _load(file, spec)),
        key=lambda rule: (list(SPECS).index(rule.spec), rule.level),
    )
)
"""All rules, by specification and level."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """A rule and its result."""

    rule: Rule
    passed: bool | None  # whether it passed; None if it could not be tested here
    tried: tuple[str, ...]  # descriptions of the tests, in order
    expected: str | None = None  # the right result of the first failed test; None if none failed
    found: str | None = None  # its actual result; for a skipped rule, the reason


def choose(
    rules: Iterable[Rule],
    *,
    spec: Spec | None = None,
    level: int | None = None,
    ids: Iterable[str] = (),
) -> list[Rule]:
    """Choose rules by specification, level and id."""
    if spec is not None and spec not in SPECS:
        raise SchemaError(
            f"unknown specification {spec!r}", field="/spec", expected=", ".join(SPECS)
        )
    found, wanted = list(rules), tuple(ids)
    for name in wanted:
        if not any(_is_named(rule.id, name) for rule in found):
            raise NotFoundError("unknown rule", found=name)
    found = [
        rule
        for rule in found
        if (spec is None or rule.spec == spec)
        and (level is None or rule.level <= level)
        and (not wanted or any(_is_named(rule.id, name) for name in wanted))
    ]
    if not found:
        raise NotFoundError("no rule matches the selection")
    return found


def _is_named(id: str, name: str) -> bool:
    return id == name or id.startswith(name + ".")


def run(rules: Iterable[Rule]) -> Iterator[RuleVerdict]:
    """Test rules one after the other; one whose check raises an error fails."""
    with TemporaryDirectory(prefix="omsgrain-") as root, closing(Bench(root)) as bench:
        for rule in rules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield _tried(rule, bench)


def _tried(rule: Rule, bench: Bench) -> RuleVerdict:
    done: list[Tried] = []
    try:
        done.extend(rule.check(bench))
    except MissingError as error:
        return RuleVerdict(rule, None, tuple(one.what for one in done), found=str(error))
    except Exception as error:
        done.append(Tried("the next test", "a result", _broken(error)))
    wrong = next((one for one in done if not _same(one.expected, one.found)), None)
    tried = tuple(one.what for one in done)
    if not done:  # a rule without tests must not pass
        return RuleVerdict(rule, False, tried, "at least one test", "none")
    if wrong is None:
        return RuleVerdict(rule, True, tried)
    return RuleVerdict(
        rule, False, tried, f"{wrong.what}: {_short(wrong.expected)}", _short(wrong.found)
    )


def _same(expected: object, found: object) -> bool:
    """Whether values have the same type and are equal: 1 is neither 1.0 nor true."""
    return type(expected) is type(found) and expected == found


def _broken(error: Exception) -> str:
    return str(error) if isinstance(error, OmsError) else f"{type(error).__name__}: {error}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _VALUE else text[: _VALUE - 1] + "…"
