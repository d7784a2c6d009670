# SPDX-License-Identifier: Apache-2.0
"""One normative rule of a format, the files that rules are written in, and results of calls.

Values and changes of documents stand in rule files in short. A change has ``set``, JSON pointers
and their new values, and ``remove``, a list of pointers. The pointer ``/-`` adds to an array, the
empty pointer replaces the whole. In values, ``{"$repeat": [text, count]}`` is a long text;
``{"$bytes": base64}`` and ``{"$float": "nan"}`` are values that JSON does not have.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from omsgrain.errors import OmsError
from omsgrain.json_values import revive

if TYPE_CHECKING:
    from omsgrain.conformance.bench import Bench


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
"""The files in ``rules/`` without their suffix, in the order of the report."""
TAKEN: Final = "taken"
"""The result of a call that was not refused."""

Entry = Mapping[str, Any]
"""A rule as its file has it; ``rules/README.md`` explains the members."""


class Tried(NamedTuple):
    """One thing that was tried.

    Attributes:
        what: in a few words.
        expected: the right result; it is never made by the code that is tried.
        found: the result.
    """

    what: str
    expected: object
    found: object


Check = Callable[["Bench"], Iterable[Tried]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: such as ``oms.header.version``; it never changes.
        section: of the specification.
        text: what it asks for, in our words.
        check: tries what is good and what is bad.
        must: whether it is required; or recommended.
        spec: which specification.
        level: of conformance; 0 where the specification has none.
    """

    id: str
    section: str
    text: str
    check: Check
    must: bool
    spec: Spec
    level: int


@cache
def table(file: str) -> dict[str, Any]:
    """One file of rules, as JSON."""
    path = Path(__file__).with_name("rules") / f"{file}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def documents(spec: str) -> dict[str, Any]:
    """The documents of a specification that its rules start from, by name."""
    files = [table(file) for file, own in FILES.items() if own == spec]
    return {name: value for whole in files for name, value in whole.get("documents", {}).items()}


def spec_of(entry: Entry) -> str:
    """The specification that a rule belongs to."""
    return str(entry["id"]).partition(".")[0]


def result(call: Callable[..., object], *given: Any, by: str = "", **options: Any) -> str:
    """The result of a call: ``taken``, or the code or the rule of a format that refuses it.

    An error may have both; where one of them is expected, it is that.
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
    """Try a call that must succeed."""
    return Tried(what, TAKEN, result(call, *given, **options))


T = TypeVar("T")

_SHOWN = 40  # characters of a value


def value_of(written: Any) -> Any:
    """The value that a rule file means."""
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
    """A copy of the document with a change made."""
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
    """The object or array that holds the place, and the last part of its pointer."""
    *path, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document, last


def shown(change: Mapping[str, Any]) -> str:
    """A change in a few words, in the order in which it is written."""
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
