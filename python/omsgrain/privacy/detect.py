# SPDX-License-Identifier: Apache-2.0
"""The findings of all detectors in a text, as spans that do not overlap.

The spans of all detectors are collected first, and joined where they overlap, before anything is
replaced. So no finding hides a part of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omsgrain.privacy.detectors import DEFAULT
from omsgrain.privacy.detectors.base import HOLE, MARKER, Detector, folded_key, views

_UNSEEN = "\u200b"  # replaces a NUL in the text, because NUL marks a hole
_ROUNDS = 8
"""Maximum number of passes over a text. A finding can contain the word that kept another one from
being found, so passes repeat until nothing is found."""


class Span(NamedTuple):
    """Overlapping findings as one span of code points.

    ``types`` are in the order of the detectors. ``secret``: one of them grants access;
    ``personal``: one of them is about a person.
    """

    start: int
    end: int
    types: tuple[str, ...]
    secret: bool
    personal: bool


def spans(
    text: str, detectors: Sequence[Detector] = DEFAULT, key: str | None = None
) -> list[Span]:
    """Return secrets and personal data in a text; ``key`` is the key whose value the text is."""
    if key is not None:
        key = folded_key(key)
    left = text.replace(HOLE, _UNSEEN)
    found: list[tuple[int, int, int]] = []
    for _ in range(_ROUNDS):
        new = _found(left, detectors, key)
        if not new:
            break
        found += new
        left = _with_holes(left, new)
    if found and "[REDACTED:" in text:
        found = list(_without(found, [marker.span() for marker in MARKER.finditer(text)]))
    return _joined(found, detectors)


def _found(
    text: str, detectors: Sequence[Detector], key: str | None
) -> list[tuple[int, int, int]]:
    found: set[tuple[int, int, int]] = set()
    for view in views(text):
        seen = view.text
        for rank, detector in enumerate(detectors):
            places = [*detector.find(seen)]
            # No isinstance: with a protocol, it takes longer than most detectors.
            if key and (under := getattr(detector, "find_under", None)) is not None:
                places += under(key, seen)
            found.update((*view.places(*at), rank) for at in places if at[0] < at[1])
    return sorted(found)


def _with_holes(text: str, found: list[tuple[int, int, int]]) -> str:
    parts, at = [], 0
    for start, end, _ in found:
        if end > at:
            parts += [text[at:start], HOLE * (end - max(at, start))]
            at = end
    return "".join([*parts, text[at:]])


def in_bytes(text: str, found: Iterable[Span]) -> list[tuple[int, int]]:
    """Return the places of spans as byte ranges in UTF-8, from left to right."""
    if text.isascii():
        return [(span.start, span.end) for span in found]
    places = []
    at = bytes_before = 0
    for span in found:
        bytes_before += _size(text[at : span.start])
        at, start = span.end, bytes_before
        bytes_before += _size(text[span.start : span.end])
        places.append((start, bytes_before))
    return places


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _joined(found: list[tuple[int, int, int]], detectors: Sequence[Detector]) -> list[Span]:
    found.sort()
    joined: list[tuple[int, int, set[int]]] = []
    for start, end, rank in found:
        if start >= end:  # the span was only markers
            continue
        if joined and start < joined[-1][1]:
            first, last, ranks = joined[-1]
            ranks.add(rank)
            joined[-1] = (first, max(last, end), ranks)
        else:
            joined.append((start, end, {rank}))
    return [_span(start, end, sorted(ranks), detectors) for start, end, ranks in joined]


def _span(start: int, end: int, ranks: list[int], detectors: Sequence[Detector]) -> Span:
    types = tuple(dict.fromkeys(detectors[rank].type for rank in ranks))
    secret = any(detectors[rank].secret for rank in ranks)
    personal = any(not detectors[rank].secret for rank in ranks)
    return Span(start, end, types, secret, personal)


def _without(
    found: list[tuple[int, int, int]], markers: list[tuple[int, int]]
) -> Iterable[tuple[int, int, int]]:
    """Return the spans without existing markers, which may split a span."""
    found.sort()
    first = 0
    for start, end, rank in found:
        while first < len(markers) and markers[first][1] <= start:
            first += 1
        at = first
        while at < len(markers) and markers[at][0] < end:
            yield start, markers[at][0], rank
            start = markers[at][1]
            at += 1
        yield start, end, rank
