# SPDX-License-Identifier: Apache-2.0
"""Reads ontology files and checks each alone, then all together.

It fetches nothing: an extended ontology must be among the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from omsgrain.counts import counted
from omsgrain.errors import SchemaError
from omsgrain.formats import json_text, yaml
from omsgrain.formats.mif_ld.validate import judge
from omsgrain.formats.ontology.discover import Pattern, patterns_of
from omsgrain.formats.ontology.integrity import Judgement, Traits, integrity
from omsgrain.formats.ontology.model import Ontology, OntologyScope, made, scope_of
from omsgrain.formats.problems import MOST, DocumentError, Problem

LARGEST: Final = 1 << 20
"""Bytes of a file."""
DEPTH: Final = 64
"""Levels of nesting."""

NAME: Final = 256
"""Characters of a name. It repeats in the pointers of everything below it."""

_LINKED: Final = frozenset(("mif:Ontology", "Ontology"))
_LINK = re.compile(r"mif:[A-Za-z]+/")
_LINKS: Final = frozenset(
    ("extends", "from", "replaces", "subtype_of", "suggest_entity", "suggest_namespace", "to",
     "traits")
)  # fmt: skip
"""Members that refer to parts. In JSON-LD they hold links such as ``mif:trait/located``."""
_NO_LINKS: Final = frozenset(("@context", "fields", "schema"))
_HEAD: Final = {"id": "identifier", "version": "version", "description": "description",
                "schema_url": "schema_url", "extends": "extends"}  # fmt: skip
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(.*)", re.DOTALL)
Source = bytes | str | PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoadReport:
    source: str  # its path; ``#`` and its index if it is not a path
    ontology: str  # the id of the ontology; empty if it has none
    problems: tuple[Problem, ...] = ()  # at most a thousand errors
    warnings: tuple[Problem, ...] = ()  # at most a thousand warnings

    __repr__ = counted

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Known:
    """A loaded ontology: its scope, inherited fields and patterns."""

    scope: OntologyScope
    traits: Traits
    patterns: tuple[Pattern, ...] = field(repr=False)

    @property
    def ontology(self) -> Ontology:
        return self.scope.ontology


@dataclass(frozen=True, slots=True)
class Library:
    known: tuple[Known, ...]  # the ontologies, in file order
    reports: tuple[LoadReport, ...]  # one report for each file

    def get(self, id: str, version: str | None = None) -> Known | None:
        """An ontology by its id.

        Args:
            id: its id.
            version: the exact version; by default the highest.
        """
        named = [one for one in self.known if one.ontology.id == id]
        if version is not None:
            return next((one for one in named if one.ontology.version == version), None)
        return max(named, key=lambda one: _height(one.ontology), default=None)


def load(sources: Iterable[Source], *, strict: bool = True) -> Library:
    """Read and check ontologies.

    Args:
        sources: paths or bytes of JSON or YAML files, or parsed documents.
        strict: raise the first error; otherwise errors are only in the reports.

    Raises:
        DocumentError: a file cannot be read, or has an error and `strict` is set.
        UnsupportedError: a package of an extra is not installed.
        OSError: a file cannot be opened.
    """
    documents = [(_name(source, at), read(source)) for at, source in enumerate(sources)]
    library = _library(documents)
    if strict:
        for report in library.reports:
            if report.problems:
                raise DocumentError(list(report.problems))
    return library


def read(source: Source) -> Any:
    """Read one file or text: JSON if it begins like JSON, else YAML.

    A JSON-LD ontology is converted to the form of the YAML ones.
    """
    return _unlinked(dict(source) if isinstance(source, Mapping) else _tree(source))


def _tree(source: bytes | str | PathLike[str]) -> Any:
    if isinstance(source, bytes):
        data = source
    else:
        with Path(source).open("rb") as file:
            data = file.read(LARGEST + 1)
    # A .yaml file can begin with { or [ too.
    is_yaml = not isinstance(source, bytes) and Path(source).suffix.lower() in (".yaml", ".yml")
    if data.removeprefix(json_text.MARK).lstrip()[:1] in (b"{", b"[") and not is_yaml:
        return json_text.parse(data, most=LARGEST, depth=DEPTH)
    return yaml.read(data, most=LARGEST, depth=DEPTH)


def _unlinked(document: Any) -> Any:
    """Convert a JSON-LD ontology: move its head apart, and replace links by names."""
    if not isinstance(document, dict):
        return document
    kind = document.get("@type")
    if _LINKED.isdisjoint(one for one in (kind if isinstance(kind, list) else [kind])
                          if isinstance(one, str)):  # fmt: skip
        return document
    made = dict(document)
    if "ontology" not in made:
        identifier = made.get("@id")
        made.setdefault(
            "identifier", _name_of(identifier) if isinstance(identifier, str) else None
        )
        made["ontology"] = {
            name: made.pop(member)
            for name, member in _HEAD.items()
            if made.get(member) is not None
        }
    waiting: list[dict[str, Any]] = [made]
    for one in waiting:
        for name, value in one.items():
            if name in _NO_LINKS:
                continue
            if name in _LINKS and isinstance(value, str):
                one[name] = _name_of(value)
            elif isinstance(value, list):
                one[name] = [
                    _name_of(item) if name in _LINKS and isinstance(item, str)
                    else dict(item) if isinstance(item, dict) else item
                    for item in value
                ]  # fmt: skip
                waiting += [item for item in one[name] if isinstance(item, dict)]
            elif isinstance(value, dict):
                one[name] = dict(value)
                waiting.append(one[name])
    return made


def _name_of(link: str) -> str:
    return _LINK.sub("", link, count=1) if _LINK.match(link) else link


def _library(documents: list[tuple[str, Any]]) -> Library:
    checked = [_checked(document) for _, document in documents]
    known: dict[str, Ontology] = {}
    exact: dict[tuple[str, str], Ontology] = {}
    for at, (report, one) in enumerate(checked):
        if one is None or not one.id:
            continue
        before = exact.setdefault((one.id, one.version), one)
        if before is not one:
            if before.document != one.document:
                report.add("ONT-TWICE", "/ontology/id", one.id)
            checked[at] = report, None
        elif one.id not in known or _height(known[one.id]) < _height(one):
            known[one.id] = one
    listed, reports = [], []
    for (name, document), (report, one) in zip(documents, checked, strict=True):
        if one is not None and document:
            scope = scope_of(one, known.get)
            traits = Traits(scope)
            patterns = patterns_of(one, report)
            integrity(scope, traits, report)
            listed.append((scope, traits, patterns))
        own = "" if one is None else one.id
        reports.append(
            LoadReport(name, own, tuple(report.problems[:MOST]), tuple(report.warnings[:MOST]))
        )
    # An ontology inherits patterns: its own come first, then the nearest.
    own_patterns = {id(scope.ontology): patterns for scope, _, patterns in listed}
    whole = []
    for scope, traits, _ in listed:
        inherited = [own_patterns.get(id(one), ()) for one in reversed(scope.order)]
        whole.append(Known(scope, traits, tuple(chain.from_iterable(inherited))))
    return Library(tuple(whole), tuple(reports))


def _checked(document: Any) -> tuple[Judgement, Ontology | None]:
    """Check one ontology alone; None if it cannot be used."""
    report = Judgement()
    verdict = judge(document, kind="ontology", mode="extra")
    report.problems += verdict.findings
    if isinstance(document, dict) and any(len(key) > NAME for key in _names(document)):
        report.add("ONT-LARGE", "", expected=f"names of at most {NAME} characters")
        return report, None
    if document == {}:
        report.add("ONT-EMPTY", "")
    else:
        report.warnings += verdict.warnings
    return report, made(document) if isinstance(document, dict) else None


def _names(document: dict[str, Any]) -> Iterator[str]:
    """Yield the names of traits, types, namespaces and the ontology itself."""
    waiting: list[Any] = [document]
    for one in waiting:
        if isinstance(one, dict):
            yield from one
            if isinstance(one.get("name"), str):
                yield one["name"]
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    head = document.get("ontology")
    if isinstance(head, dict) and isinstance(head.get("id"), str):
        yield head["id"]


def _height(ontology: Ontology) -> tuple[int, int, int, bool, str]:
    """Return a sort key for a version; a pre-release sorts before its release."""
    found = _VERSION.fullmatch(ontology.version)
    if found is None:
        return 0, 0, 0, False, ontology.version
    first, second, third = (int(found[part][:18]) for part in (1, 2, 3))
    return first, second, third, not found[4].startswith("-"), found[4]


def _name(source: Source, at: int) -> str:
    if isinstance(source, str | PathLike):
        return fspath(source)
    if not isinstance(source, bytes | Mapping):
        raise SchemaError(
            "the ontology's source has the wrong type", expected="a path, bytes or a mapping"
        )
    return f"#{at}"
