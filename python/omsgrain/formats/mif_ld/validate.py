# SPDX-License-Identifier: Apache-2.0
"""Judge a document of MIF in JSON-LD: a memory of either shape, a citation, an ontology, a corpus.

Mode schema finds what the published schemas refuse, and no more. Mode extra adds warnings of what
they let pass. Mode lenient takes citations as the specification says that importers should.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from omsgrain.errors import SchemaError
from omsgrain.formats.mif_ld import extra, lenient
from omsgrain.formats.mif_ld.codes import phrase
from omsgrain.formats.mif_ld.defects import Defect, Defects
from omsgrain.formats.mif_ld.finding import (
    Finding,
    Verdict,
    Way,
    finding,
    place_of,
    pointer_to,
)
from omsgrain.formats.mif_ld.hints import hint_of, meant
from omsgrain.formats.mif_ld.outline import shape_at_sight
from omsgrain.formats.mif_ld.shape import (
    KINDS,
    SHAPES,
    Kind,
    Shape,
    kind_of,
    shape_of,
    telling,
)
from omsgrain.formats.mif_ld.walk import checker
from omsgrain.formats.problems import MOST, Problem
from omsgrain.formats.reading import RULES

__all__ = ["MODES", "Mode", "Verdict", "judge", "memories_in", "records_of"]

Mode = Literal["schema", "lenient", "extra"]
MODES: Final[tuple[Mode, ...]] = ("schema", "lenient", "extra")

_SCHEMAS: Final[dict[str, str]] = {
    "0.1": "memory-0.1.json",
    "1.x": "memory-1.x.json",
    "citation": "citation.json",
    "entity-reference": "entity-reference.json",
    "ontology": "ontology.json",
}
_ARRAYS: Final = ("records", "memories")
"""Where the records of a corpus stand."""
_GOOD: Final = Verdict()
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
) -> Verdict:
    """Say all that is wrong with a document, each defect once, by place.

    Args:
        document: JSON values; an array is one of documents.
        kind: what it is; by default told by its content.
        shape: of memories; by default told by their content. One that is clearly of the other
            shape is told to be so, and judged by its own.
        mode: ``schema``, ``lenient`` or ``extra``.
        strict_published: of shape 0.1, the schema that was published; else that of the
            repository, which knows reinforcements, and closes ``decay``.
        compare: whether mode extra compares the memories in the document with one another.

    Raises:
        SchemaError: no such kind, shape or mode.
    """
    if mode not in MODES or kind not in _KINDS or shape not in _SHAPES:
        _refuse(mode, kind, shape)
    asked = _Asked(shape, mode, strict_published)
    try:
        if isinstance(document, list) and document:
            found = _many((((at,), one) for at, one in enumerate(document)), asked, kind)
        else:
            found = _one(document, kind, asked)
    except RecursionError:
        return Verdict((Finding("too_deep", "", RULES["too_deep"]),), total=1)
    if mode != "extra" or not compare:
        return found
    dated = ((way, extra.dated(one)) for way, one in memories_in(document, kind))
    late = (replace(one, pointer=pointer_to(way) + one.pointer) for way, one in extra.order(dated))
    return replace(found, warnings=_sorted((*found.warnings, *late)))


def _refuse(mode: str, kind: str | None, shape: str | None) -> None:
    """Say which option is none that is known."""
    name, known = "shape", tuple[str, ...](SHAPES)
    if mode not in MODES:
        name, known = "mode", MODES
    elif kind not in _KINDS:
        name, known = "kind", KINDS
    raise SchemaError(f"no such {name}", field=f"/{name}", expected=", ".join(known))


def memories_in(document: Any, kind: Kind | None = None) -> Iterator[tuple[Way, Any]]:
    """The documents in an array or a corpus, and where they stand; itself, if it is none.

    Args:
        document: as `judge` takes it.
        kind: what it is; by default told by its content.
    """
    if isinstance(document, list):
        for at, one in enumerate(document):
            if isinstance(one, dict):
                yield from (((at, *way), inner) for way, inner in memories_in(one, kind))
    elif isinstance(document, dict) and (kind or kind_of(document)) == "corpus":
        yield from records_of(document)
    else:
        yield (), document


def records_of(corpus: dict[str, Any]) -> Iterator[tuple[Way, Any]]:
    """The memories of a corpus, and where they stand; its records of other kinds are left out."""
    for name in _ARRAYS:
        listed = corpus.get(name)
        for at, one in enumerate(listed) if isinstance(listed, list) else ():
            if not isinstance(one, dict) or one.keys().isdisjoint(("kind", "payload")):
                yield (name, at), one
            elif one.get("kind", "memory") == "memory":
                yield (name, at, "payload"), one.get("payload")


class _Asked(NamedTuple):
    shape: Shape | None
    mode: Mode
    published: bool


class _Shaped(NamedTuple):
    """By which shape a memory is judged.

    Attributes:
        shape: that.
        finding: that it has members of the other, if so.
        silent: where those stand: nothing more is said of them.
    """

    shape: Shape
    finding: Finding | None = None
    silent: frozenset[Way] = frozenset()


def _one(document: Any, kind: Kind | None, asked: _Asked) -> Verdict:
    if kind is None or kind == "memory":
        seen = shape_at_sight(document, asked.shape, asked.published)
        if seen is not None and asked.mode != "extra":
            return _GOOD
        if seen is not None:
            return Verdict(warnings=_sorted(extra.warnings(document, "memory", seen)))
    kind = kind or kind_of(document)
    if kind is None:
        told = finding("MIF-KIND", (), "is nothing that is known", document)
        return Verdict((told,), total=1)
    if kind == "corpus":
        return _corpus(document, asked)
    shaped, file = None, _SCHEMAS.get(kind, "")
    if kind == "memory":
        shaped = _shaped(document, asked.shape)
        file = _SCHEMAS[shaped.shape]
        if shaped.shape == "0.1" and asked.published:
            file = "memory-0.1-published.json"
    bad = checker(file)(document)
    if bad is None:
        if asked.mode != "extra" and (shaped is None or shaped.finding is None):
            return _GOOD
        bad = Defects()
    defects = [(tuple(reversed(one.way)), one) for one in bad.found]
    out = lenient.left_out(defects, kind)
    shape = shaped.shape if shaped else None
    errors: list[Finding] = [shaped.finding] if shaped and shaped.finding else []
    warnings: list[Finding] = []
    dropped: list[Finding] = []
    for way, defect in _once(defects, shaped.silent if shaped else frozenset()):
        says = phrase(defect.keyword, defect.argument)
        value = None if defect.keyword == "required" else defect.value
        told = finding(defect.code, way, says, value, hint_of(defect, shape))
        act = lenient.act_of(way, defect, kind, out) if asked.mode == "lenient" else None
        if act is None:
            errors.append(told)
        else:
            into = dropped if act == lenient.DROP else warnings
            into.append(lenient.told(told, act))
    if asked.mode == "extra":
        wrong = {one.pointer for one in errors}
        said = extra.warnings(document, kind, shape)
        warnings += (one for one in said if one.pointer not in wrong)
    total = len(errors) + bad.more
    return Verdict(_sorted(errors), _sorted(warnings), total, _sorted(dropped))


def _shaped(document: Any, asked: Shape | None) -> _Shaped:
    if not isinstance(document, dict):
        return _Shaped(asked or "0.1")
    told = list(telling(document))
    own = told[0][0] if told else shape_of(document)
    shape = asked or own
    ways = [way for one, way in told if one != shape]
    if not ways:
        return _Shaped(shape)
    if len(ways) == len(told) and shape != own:
        hint = f"It is judged as {own}; write all of it in shape {shape} if it is to be that."
        says = f"is of shape {own}, not {shape}"
        return _Shaped(own, finding("MIF-SHAPE", (), says, None, hint))
    says = f"is of shape {'1.x' if shape == '0.1' else '0.1'} in a memory of shape {shape}"
    return _Shaped(shape, finding("MIF-SHAPE", ways[0], says, None), frozenset(ways))


def _once(
    listed: list[tuple[Way, Defect]], silent: frozenset[Way]
) -> Iterator[tuple[Way, Defect]]:
    """The defects without those that are another one, told otherwise."""
    missing = {(way, one.argument) for way, one in listed if one.keyword == "required"}
    # A member under another name is a key that cannot be there, and one that is missing.
    named = {
        (way, meant(one.value, one.argument)) for way, one in listed if one.code == "MIF-KEY"
    } & missing
    for way, one in listed:
        if one.keyword == "required":
            if (way, one.argument) in named:
                continue
            if not way and (_TYPES.get(one.argument),) in silent:
                continue
        if way[:1] not in silent and way[:2] not in silent:
            yield way, one


def _corpus(document: Any, asked: _Asked) -> Verdict:
    if not isinstance(document, dict):
        told = finding("MIF-VALUE", (), "must be object", document)
        return Verdict((told,), total=1)
    if not any(name in document for name in _ARRAYS):
        told = finding("MIF-MISSING", (), "must have required property 'records'", None)
        return Verdict((told,), total=1)
    wrong = [
        finding("MIF-VALUE", (name,), "must be array", document[name])
        for name in _ARRAYS
        if not isinstance(document.get(name, []), list)
    ]
    found = _many(records_of(document), asked, "memory")
    findings, total = (*wrong, *found.findings)[:MOST], found.total + len(wrong)
    return replace(found, findings=findings, total=total)


def _many(documents: Iterable[tuple[Way, Any]], asked: _Asked, kind: Kind | None) -> Verdict:
    """Several documents in one, each with its place."""
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
    return Verdict(findings, warnings, total, dropped)


def _sorted(listed: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(listed, key=place_of)[:MOST])
