# SPDX-License-Identifier: Apache-2.0
"""Ontologies in files: check them, show them, and suggest entities by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from omsgrain.counts import counted
from omsgrain.errors import UnsupportedError
from omsgrain.formats import json_text
from omsgrain.formats.mif_ld import document
from omsgrain.formats.mif_ld.directory import layout_of_file, shape_of_name
from omsgrain.formats.mif_ld.records import LIMITS, kind_of
from omsgrain.formats.ontology.check import judge_entity
from omsgrain.formats.ontology.discover import Suggestion, suggest
from omsgrain.formats.ontology.integrity import Composed
from omsgrain.formats.ontology.load import Known, Library, LoadReport, load
from omsgrain.formats.problems import MOST, DocumentError, Problem
from omsgrain.interchange.validate import files_of

_LARGEST: Final = 64 << 20
_ONTOLOGIES: Final = (".ontology.yaml", ".ontology.yml", ".ontology.json", ".ontology.jsonld")
"""The names of ontology files in a directory end so."""


@dataclass(frozen=True, slots=True)
class OntologyFindings:
    reports: tuple[LoadReport, ...]  # of each ontology
    memories: tuple[LoadReport, ...] = ()  # of each file of memories

    __repr__ = counted

    def is_ok(self, *, strict: bool = False) -> bool:
        """Whether there are no errors; with `strict`, no warnings either."""
        both = (*self.reports, *self.memories)
        return all(one.ok and not (strict and one.warnings) for one in both)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.is_ok(),
            "ontologies": [_told(one) for one in self.reports],
            "memories": [_told(one) for one in self.memories],
        }


def _told(report: LoadReport) -> dict[str, Any]:
    return {
        "file": report.source,
        "ontology": report.ontology or None,
        "problems": [one.to_dict() for one in report.problems],
        "warnings": [one.to_dict() for one in report.warnings],
    }


def check(files: Sequence[Path], memories: Sequence[Path] = ()) -> OntologyFindings:
    """Check ontologies, alone and together, and memories against them."""
    files = [one for file in files for one in _ontologies_in(file)]
    good: list[Path] = []
    unread: dict[Path, LoadReport] = {}
    for file in files:
        try:
            load([file], strict=False)
            good.append(file)
        except DocumentError as error:
            unread[file] = LoadReport(str(file), "", error.problems)
    library = load(good, strict=False)
    read = dict(zip(good, library.reports, strict=True))
    reports = tuple(unread.get(file) or read[file] for file in files)
    sheets = []
    for file in files_of(memories):
        with file.open("rb") as source:
            data = source.read(LIMITS.document + 1)  # one more, so that it is refused
        layout, shape = layout_of_file(file.name, data), shape_of_name(file.name)
        sheets.append((file, document.read_file(data, layout, shape=shape)))
    others = {
        one["@id"]: one
        for _, sheet in sheets
        for one in sheet.values
        if kind_of(one) == "memory" and isinstance(one.get("@id"), str)
    }
    judged = (_judged(file, sheet, library, others) for file, sheet in sheets)
    return OntologyFindings(reports, tuple(judged))


def _ontologies_in(path: Path) -> list[Path]:
    """A file, or the ontologies in a directory; YAML wins over JSON-LD of the same name."""
    if not path.is_dir():
        return [path]
    found: dict[str, Path] = {}
    for end in _ONTOLOGIES:
        for file in sorted(path.rglob(f"*{end}")):
            if file.is_file() and not file.name.startswith("."):
                found.setdefault(str(file)[: -len(end)], file)
    if not found:
        raise UnsupportedError("no ontology is in it", found=str(path),
                               expected=", ".join(_ONTOLOGIES))  # fmt: skip
    return sorted(found.values())


def _judged(
    file: Path, sheet: document.Sheet, library: Library, others: Mapping[str, Any]
) -> LoadReport:
    placed = zip(sheet.places, sheet.values, strict=True)
    listed = [(place, one) for place, one in placed if kind_of(one) == "memory"]
    problems: list[Problem] = list(sheet.problems)
    warnings: list[Problem] = list(sheet.warnings)
    for (pointer, line), one in listed:
        judged = judge_entity(one, library, others=others)
        for into, some in ((problems, judged.problems), (warnings, judged.warnings)):
            into += [replace(it, pointer=pointer + it.pointer, line=line)
                     for it in some[: MOST - len(into)]]  # fmt: skip
    if not listed:
        # A check of nothing must not succeed.
        problems.append(Problem("MIF-KIND", "", "no memory is in it", "a memory, or several"))
    return LoadReport(str(file), "", tuple(problems), tuple(warnings))


def show(file: Path, extended: Sequence[Path] = ()) -> dict[str, Any]:
    """An ontology with its types, their fields, and all it inherits."""
    known = _first(file, extended)
    scope, own = known.scope, known.ontology
    return {
        "id": own.id or None,
        "version": own.version or None,
        "extends": [one.id for one in scope.order[:-1]],
        "missing": list(scope.missing),
        "namespaces": [
            {"path": one.path, "type_hint": one.type_hint, "replaces": one.replaces,
             "ontology": one.ontology}
            for one in scope.namespaces.values()
        ],
        "entity_types": [
            {"name": one.name, "base": one.base, "subtype_of": list(one.subtype_of),
             "ontology": one.ontology, "required": list(one.required),
             **_composed(known.traits.of_type(one))}
            for one in scope.types.values()
        ],
        "traits": [
            {"name": one.name, "extends": list(one.extends), "ontology": one.ontology,
             **_composed(known.traits.of_trait(one.name))}
            for one in scope.traits.values()
        ],
        "relationships": [
            {"name": one.name, "from": list(one.sources), "to": list(one.targets),
             "symmetric": one.symmetric, "ontology": one.ontology}
            for one in scope.relations.values()
        ],
        "discovery": {
            "enabled": own.enabled,
            "confidence_threshold": own.discovery.get("confidence_threshold"),
            "patterns": [
                {"pattern": one.source, "entity": one.entity, "namespaces": list(one.namespaces),
                 "ontology": one.ontology, "pointer": one.pointer}
                for one in known.patterns
            ],
        },
    }  # fmt: skip


def _composed(one: Composed) -> dict[str, Any]:
    return {
        "fields": {
            name: {"schema": field.schema, "trait": field.trait, "ontology": field.ontology}
            for name, field in one.fields.items()
        },
        "requires": dict(one.requires),
    }


def suggest_for(
    file: Path,
    ontologies: Sequence[Path],
    *,
    name: str | None = None,
    disabled: bool = False,
) -> tuple[list[Suggestion], bool]:
    """The suggestions of an ontology for a file."""
    known = _first(ontologies[0], ontologies[1:])
    with file.open("rb") as source:
        data = source.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise DocumentError(
            [Problem("too_large", "", json_text.RULES["too_large"], f"at most {_LARGEST} bytes")]
        )
    text = data.decode(errors="replace")
    found = suggest(text, name or file.as_posix(), known, enabled_only=not disabled)
    return found, any(one.enabled for one in known.scope.order)


def _first(file: Path, others: Sequence[Path]) -> Known:
    library = load([file, *others])
    wanted = library.reports[0].ontology
    if not library.known or library.known[0].ontology.id != wanted:
        raise UnsupportedError("no ontology is in it", found=str(file))
    return library.known[0]
