# SPDX-License-Identifier: Apache-2.0
"""Validates a MIF JSON-LD document: a memory of either shape, a citation, an ontology, a corpus.

Mode schema finds exactly what the published schemas refuse. Mode extra adds warnings about defects
that the schemas accept. Mode lenient treats citations as the specification asks of importers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from operator import is_
from typing import Any, Final, Literal, NamedTuple, get_args

from omsgrain import _core
from omsgrain.errors import SchemaError
from omsgrain.formats.json_text import RULES, pointer_to
from omsgrain.formats.mif_ld import lint
from omsgrain.formats.mif_ld.defects import (
    LintFinding,
    MifLdVerdict,
    SchemaDefect,
    Way,
    finding,
    hint_of,
    meant,
    phrase,
    place_of,
)
from omsgrain.formats.mif_ld.records import (
    KINDS,
    SHAPES,
    Kind,
    Shape,
    is_memory,
    kind_of,
    shape_of,
    telling,
)
from omsgrain.formats.mif_ld.schema import check, text
from omsgrain.formats.problems import MOST, Problem

Act = Literal["drop", "other", "background", "clamp", "keep"]
DROP: Final[Act] = "drop"
_SAYS: Final[dict[Act, str]] = {
    "drop": "The citation is left out.",
    "other": "It is read as other.",
    "background": "It is read as background.",
    "clamp": "It is limited to 0 to 1.",
    "keep": "It is kept as a string.",
}
_ACTS: Final[dict[str, tuple[str | None, Act]]] = {
    "@type": (None, DROP),
    "title": (None, DROP),
    "url": (None, DROP),
    "citationType": (None, "other"),
    "citationRole": (None, "background"),
    "relevance": ("MIF-RANGE", "clamp"),
    "date": ("MIF-DATE", "keep"),
    "accessed": ("MIF-DATE", "keep"),
}
"""Member of a citation -> the defect that is repaired, if only one is, and how."""


def _act_of(defect: SchemaDefect, kind: Kind) -> Act | None:
    """Return the repair for a defect of a citation; None if the defect is an error."""
    way = defect.way
    if kind == "memory" and len(way) > 1 and way[0] == "citations":
        return _act(way[2:], defect)
    act = _act(way, defect) if kind == "citation" else None
    return None if act == DROP else act


def _act(way: Way, defect: SchemaDefect) -> Act | None:
    if not way:
        return DROP if defect.keyword in ("required", "type") else None
    code, act = _ACTS.get(str(way[0]), (None, None))
    return act if len(way) == 1 and code in (None, defect.code) else None


def mended(memory: Any) -> Any:
    """Repair a memory or citation for mode lenient; return it unchanged if it is good."""
    if kind_of(memory) == "citation":
        return _mended(memory)
    listed = memory.get("citations") if isinstance(memory, dict) else None
    if not isinstance(listed, list):
        return memory
    citations = [one for one in map(_mended, listed) if one is not None]
    unchanged = len(citations) == len(listed) and all(map(is_, citations, listed))
    return memory if unchanged else {**memory, "citations": citations}


def _mended(citation: Any) -> Any:
    for defect in check(citation, "common.json", "citation").found:
        act = _act(defect.way, defect)
        if act == DROP:
            return None
        if act == "clamp":
            citation = {**citation, "relevance": min(max(citation["relevance"], 0), 1)}
        elif act in ("other", "background"):
            citation = {**citation, str(defect.way[0]): act}
    return citation


FILES: Final[dict[str, str]] = {
    "0.1": "memory-0.1.json",
    "published": "memory-0.1-published.json",
    "1.x": "memory-1.x.json",
    "citation": "citation.json",
    "entity-reference": "entity-reference.json",
    "ontology": "ontology.json",
}
"""Shape or kind -> its schema."""


def shape_at_sight(document: Any, asked: Shape | None, published: bool) -> Shape | None:
    """Return the shape of a certainly valid memory; None if the fast check cannot decide."""
    if type(document) is not dict:
        return None
    shape: Shape = "1.x" if "conceptType" in document else "0.1"
    if asked is not None and asked != shape:
        return None
    name = "published" if published and shape == "0.1" else shape
    return shape if _outline().fits(name, document) else None


@cache
def _outline() -> _core.Outline:
    """Return the tables that ``docs/make_schemas.py`` makes of the schemas."""
    parts = json.loads(text("outline.json"))
    return _core.Outline(
        *([(name, [*map(_row, rows)]) for name, rows in part.items()] for part in parts)
    )


def _row(row: list[Any]) -> Any:
    look = row[3]
    return (*row[:3], tuple(look) if isinstance(look, list) else look, *row[4:])


Mode = Literal["schema", "lenient", "extra"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

RECORDS: Final = "records"
PAYLOAD: Final = "payload"
USUAL: Final = {"kind": "memory", PAYLOAD: None}
"""The usual record of a memory in a corpus."""
_ARRAYS: Final = (RECORDS, "memories")
"""Members that hold the records of a corpus; the first of them that is an array does."""
_GOOD: Final = MifLdVerdict()
_KINDS: Final = frozenset((None, *KINDS))
_SHAPES: Final = frozenset((None, *SHAPES))
_TYPES: Final = {"memoryType": "conceptType", "conceptType": "memoryType"}


def judge(
    document: Any,
    *,
    kind: Kind | None = None,
    shape: Shape | None = None,
    mode: Mode = "schema",
    strict_published: bool = False,
    compare: bool = True,
) -> MifLdVerdict:
    """Report all defects of a document, each once, sorted by place."""
    if mode not in MODES or kind not in _KINDS or shape not in _SHAPES:
        _refuse(mode, kind, shape)
    asked = _ValidationOptions(shape, mode, strict_published)
    try:
        if isinstance(document, list) and document:
            found = _many((((at,), one) for at, one in enumerate(document)), asked, kind)
        else:
            found = _one(document, kind, asked)
    except RecursionError:
        return MifLdVerdict((LintFinding("too_deep", "", RULES["too_deep"]),), total=1)
    if mode != "extra" or not compare:
        return found
    dated = ((way, lint.dated(one)) for way, one in memories_in(document, kind))
    late = (replace(one, pointer=pointer_to(way) + one.pointer) for way, one in lint.order(dated))
    return replace(found, warnings=_sorted((*found.warnings, *late)))


def _refuse(mode: str, kind: str | None, shape: str | None) -> None:
    name, known = "shape", tuple[str, ...](SHAPES)
    if mode not in MODES:
        name, known = "mode", MODES
    elif kind not in _KINDS:
        name, known = "kind", KINDS
    raise SchemaError(f"unknown {name}", field=f"/{name}", expected=", ".join(known))


def memories_in(document: Any, kind: Kind | None = None) -> Iterator[tuple[Way, Any]]:
    """Yield the documents of an array or corpus with their paths; else the document itself."""
    if isinstance(document, list):
        for at, one in enumerate(document):
            if isinstance(one, dict):
                yield from (((at, *way), inner) for way, inner in memories_in(one, kind))
    elif isinstance(document, dict) and (kind or kind_of(document)) == "corpus":
        yield from ((one.way, one.value) for one in records_of(document) if one.is_memory)
    else:
        yield (), document


def array_of(corpus: dict[str, Any]) -> str:
    return next((name for name in _ARRAYS if isinstance(corpus.get(name), list)), RECORDS)


class CorpusRecord(NamedTuple):
    way: Way  # the path of the value
    value: Any  # the memory; of another kind, the whole record
    wrapper: dict[str, Any] | None = None  # the record around a memory, without it
    is_memory: bool = True


def records_of(corpus: dict[str, Any]) -> Iterator[CorpusRecord]:
    """Yield the records of a corpus; those without a kind are memories."""
    name = array_of(corpus)
    listed = corpus.get(name)
    for at, one in enumerate(listed) if isinstance(listed, list) else ():
        usual = isinstance(one, dict) and one.get("kind") == "memory" and PAYLOAD in one
        if is_of_another_kind(one):
            yield CorpusRecord((name, at), one, is_memory=False)
        elif usual or _wraps(one):
            wrapper = USUAL if usual and [*one] == [*USUAL] else one | {PAYLOAD: None}
            yield CorpusRecord((name, at, PAYLOAD), one.get(PAYLOAD), wrapper)
        else:
            yield CorpusRecord((name, at), one)


def is_of_another_kind(value: Any) -> bool:
    """Whether a corpus record has a kind that is not checked, such as a source document."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind not in (None, "memory") and not is_memory(value)


def _wraps(record: Any) -> bool:
    """Whether a record has a kind or a payload that are not members of a memory's own."""
    if not isinstance(record, dict) or record.keys().isdisjoint(USUAL):
        return False
    return not is_memory(record)


def corpus_defects(corpus: dict[str, Any]) -> list[LintFinding]:
    """Return the defects of a corpus itself, without those of its records."""
    if not any(name in corpus for name in _ARRAYS):
        return [finding("MIF-MISSING", (), "must have required property 'records'", None)]
    found = []
    for name in _ARRAYS:
        if not isinstance(corpus.get(name, []), list):
            found.append(finding("MIF-VALUE", (name,), "must be array", corpus[name]))
        elif name in corpus and name != array_of(corpus):
            says = f"must not be beside {array_of(corpus)!r}"
            found.append(finding("MIF-VALUE", (name,), says, corpus[name]))
    return found


class _ValidationOptions(NamedTuple):
    shape: Shape | None
    mode: Mode
    published: bool


class _Shaped(NamedTuple):
    shape: Shape  # the shape
    finding: LintFinding | None = None  # reports members of the other shape
    silent: frozenset[Way] = frozenset()  # paths of those members, which are not reported again


def _one(document: Any, kind: Kind | None, asked: _ValidationOptions) -> MifLdVerdict:
    if kind is None or kind == "memory":
        seen = shape_at_sight(document, asked.shape, asked.published)
        if seen is not None and asked.mode != "extra":
            return _GOOD
        if seen is not None:
            return MifLdVerdict(warnings=_sorted(lint.warnings(document, "memory", seen)))
    kind = kind or kind_of(document)
    if kind is None:
        unknown = finding("MIF-KIND", (), "is of no known kind", document)
        return MifLdVerdict((unknown,), total=1)
    if kind == "corpus":
        return _corpus(document, asked)
    shaped = _shaped(document, asked.shape) if kind == "memory" else None
    name = kind if shaped is None else shaped.shape
    bad = check(document, FILES["published" if name == "0.1" and asked.published else name])
    if not bad.found and asked.mode != "extra" and (shaped is None or shaped.finding is None):
        return _GOOD
    gone = {one.way[:2] for one in bad.found if _act_of(one, kind) == DROP}
    shape = shaped.shape if shaped else None
    errors: list[LintFinding] = [shaped.finding] if shaped and shaped.finding else []
    warnings: list[LintFinding] = []
    dropped: list[LintFinding] = []
    for defect in _once(bad.found, shaped.silent if shaped else frozenset()):
        says = phrase(defect.keyword, defect.argument)
        value = None if defect.keyword == "required" else defect.value
        one = finding(defect.code, defect.way, says, value, hint_of(defect, shape))
        act = None
        if asked.mode == "lenient":
            act = DROP if defect.way[:2] in gone else _act_of(defect, kind)
        if act is None:
            errors.append(one)
        elif act == DROP:
            dropped.append(replace(one, hint=_SAYS[act]))
        else:
            warnings.append(replace(one, hint=_SAYS[act], severity="warning"))
    if asked.mode == "extra":
        wrong = {one.pointer for one in errors}
        said = lint.warnings(document, kind, shape)
        warnings += (one for one in said if one.pointer not in wrong)
    total = len(errors) + bad.more
    return MifLdVerdict(_sorted(errors), _sorted(warnings), total, _sorted(dropped))


def _shaped(document: Any, asked: Shape | None) -> _Shaped:
    if not isinstance(document, dict):
        return _Shaped(asked or "0.1")
    signs = list(telling(document))
    own = signs[0][0] if signs else shape_of(document)
    shape = asked or own
    ways = [way for one, way in signs if one != shape]
    if not ways:
        return _Shaped(shape)
    if len(ways) == len(signs) and shape != own:
        hint = f"It is checked as {own}. To use shape {shape}, write the whole memory in it."
        says = f"is of shape {own}, not {shape}"
        return _Shaped(own, finding("MIF-SHAPE", (), says, None, hint))
    says = f"is of shape {'1.x' if shape == '0.1' else '0.1'} in a memory of shape {shape}"
    return _Shaped(shape, finding("MIF-SHAPE", ways[0], says, None), frozenset(ways))


def _once(listed: list[SchemaDefect], silent: frozenset[Way]) -> Iterator[SchemaDefect]:
    """Yield the defects, without those that repeat another one."""
    missing = {(one.way, one.argument) for one in listed if one.keyword == "required"}
    # A misnamed member is both an unknown key and a missing member.
    named = {
        (one.way, meant(one.value, one.argument)) for one in listed if one.code == "MIF-KEY"
    } & missing
    for one in listed:
        if one.keyword == "required":
            if (one.way, one.argument) in named:
                continue
            if not one.way and (_TYPES.get(one.argument),) in silent:
                continue
        if one.way[:1] not in silent and one.way[:2] not in silent:
            yield one


def _corpus(document: Any, asked: _ValidationOptions) -> MifLdVerdict:
    if not isinstance(document, dict):
        one = finding("MIF-VALUE", (), "must be object", document)
        return MifLdVerdict((one,), total=1)
    wrong = corpus_defects(document)
    found = _many(memories_in(document, "corpus"), asked, "memory")
    findings, total = (*wrong, *found.findings)[:MOST], found.total + len(wrong)
    return replace(found, findings=findings, total=total)


def _many(
    documents: Iterable[tuple[Way, Any]], asked: _ValidationOptions, kind: Kind | None
) -> MifLdVerdict:
    """Check several documents, and add each one's path to its findings."""
    lists: tuple[list[Problem], ...] = ([], [], [])
    total = 0
    for way, document in documents:
        one = _one(document, kind, asked)
        total += one.total
        before = pointer_to(way)
        for into, some in zip(lists, (one.findings, one.warnings, one.dropped), strict=True):
            room = MOST - len(into)
            into += [replace(it, pointer=before + it.pointer) for it in some[:room]]
    findings, warnings, dropped = map(tuple, lists)
    return MifLdVerdict(findings, warnings, total, dropped)


def _sorted(listed: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(listed, key=place_of)[:MOST])
