# SPDX-License-Identifier: Apache-2.0
"""The documents of a file that was read: those that are good, and what is to be said of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from omsgrain.formats.mif_ld import extra, layouts
from omsgrain.formats.mif_ld.layouts import Sheet
from omsgrain.formats.mif_ld.lenient import mended
from omsgrain.formats.mif_ld.validate import Mode, judge
from omsgrain.formats.problems import MOST, Problem

__all__ = ["Taken", "document_of", "in_order", "taken"]

_OF_ONE: Final = 100  # findings of a document that are told
_DOCUMENT = re.compile(
    r"(?:/[^/]*\.(?:md|json|jsonld|ndjson|jsonl)(?=/|$))?(?:/(?:records|memories)/[0-9]+|/[0-9]+)?",
    re.IGNORECASE,
)


class Taken(NamedTuple):
    """The documents of a file that are good.

    Attributes:
        entry: what the manifest says of the file.
        values: the documents.
        warnings: what was taken although it looks wrong.
        problems: the documents that were not taken, and why.
        dropped: what was left out of the documents.
        places: of each document its pointer in the file, and its line if they come by lines.
    """

    entry: dict[str, Any]
    values: list[Any]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    dropped: tuple[Problem, ...] = ()
    places: tuple[tuple[str, int | None], ...] = ()


def taken(sheet: Sheet, *, mode: Mode, strict_published: bool = False) -> Taken:
    """Judge the documents of a file.

    Args:
        sheet: as it was read.
        mode: as for `load`.
        strict_published: as for `load`.
    """
    values, good, places = [], [], []
    warnings, problems = list(sheet.warnings), list(sheet.problems)
    dropped: list[Problem] = []
    for value, (place, line) in zip(sheet.values, sheet.places, strict=True):
        told: list[Problem] = []
        if not (sheet.entry["layout"] == "corpus" and layouts.is_of_another_kind(value)):
            verdict = judge(value, mode=mode, strict_published=strict_published)
            told = _placed(verdict.findings[:_OF_ONE], place, line)
            warnings += _some(warnings, _placed(verdict.warnings, place, line))
            problems += _some(problems, told)
            if not told:
                dropped += _some(dropped, _placed(verdict.dropped, place, line))
                value = mended(value) if mode == "lenient" else value
        good.append(not told)
        if not told:
            values.append(value)
            places.append((place, line))
    problems.sort(key=lambda one: one.line or 0)  # those of lines come in two parts
    entry = sheet.entry
    if not all(good):
        entry = layouts.shrunk(entry, good)
    return Taken(entry, values, tuple(warnings), tuple(problems), tuple(dropped), tuple(places))


def _some(before: Sequence[Problem], found: list[Problem]) -> list[Problem]:
    """What is kept of one document's: where there are many already, only the first."""
    return found if len(before) < MOST else found[:1]


def document_of(pointer: str) -> str:
    """The pointer of the document that a pointer leads into, in a file or a directory."""
    found = _DOCUMENT.match(pointer)
    return "" if found is None else found[0]


def in_order(files: Iterable[Taken]) -> list[Problem]:
    """The memories of files that were made of others before those were there, as warnings.

    Args:
        files: as they were judged; each is looked at beside all others.
    """
    placed = (
        (place, extra.dated(value, file.entry.get("path")))
        for file in files
        for place, value in zip(file.places, file.values, strict=True)
    )
    return [_placed([one], *place)[0] for place, one in extra.order(placed)]


def _placed(found: Iterable[Problem], place: str, line: int | None) -> list[Problem]:
    if not place and line is None:
        return list(found)
    return [replace(one, pointer=place + one.pointer, line=line or one.line) for one in found]
