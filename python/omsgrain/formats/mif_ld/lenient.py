# SPDX-License-Identifier: Apache-2.0
"""Citations as importers should take them: what can be mended is, the rest is left out.

Spec: MIF 0.1 §5.5.7
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Literal

from omsgrain.formats.mif_ld.defects import Defect, Defects
from omsgrain.formats.mif_ld.finding import Finding, Way
from omsgrain.formats.mif_ld.shape import Kind, kind_of
from omsgrain.formats.mif_ld.walk import checker

__all__ = ["DROP", "Act", "act_of", "left_out", "mended", "told"]

Act = Literal["drop", "other", "background", "clamp", "keep"]
DROP: Final[Act] = "drop"
_SAYS: Final[dict[Act, str]] = {
    "drop": "The citation is left out.",
    "other": "It is taken as other.",
    "background": "It is taken as background.",
    "clamp": "It is taken as the nearest of 0 and 1.",
    "keep": "It is kept as a text.",
}
_REQUIRED: Final = frozenset(("@type", "title", "url"))


def left_out(defects: Iterable[tuple[Way, Defect]], kind: Kind) -> frozenset[Way]:
    """Where the citations stand that cannot be mended."""
    if kind != "memory":
        return frozenset()
    return frozenset(
        way[:2] for way, one in defects if _is_cited(way) and _act(way[2:], one) == DROP
    )


def act_of(way: Way, defect: Defect, kind: Kind, out: frozenset[Way]) -> Act | None:
    """What is done about a defect of a citation; None if it stays one of the document.

    Args:
        way: where it is.
        defect: what it is.
        kind: of the document. A citation alone cannot be left out of anything.
        out: the citations that are left out.
    """
    if kind == "memory" and _is_cited(way):
        return DROP if way[:2] in out else _act(way[2:], defect)
    if kind == "citation":
        act = _act(way, defect)
        return None if act == DROP else act
    return None


def _is_cited(way: Way) -> bool:
    return len(way) > 1 and way[0] == "citations"


def _act(way: Way, defect: Defect) -> Act | None:
    if not way:
        return DROP if defect.keyword in ("required", "type") else None
    name = way[0]
    if len(way) > 1:
        return None
    if name in _REQUIRED:
        return DROP
    if name == "citationType":
        return "other"
    if name == "citationRole":
        return "background"
    if name == "relevance" and defect.code == "MIF-RANGE":
        return "clamp"
    if name in ("date", "accessed") and defect.code == "MIF-DATE":
        return "keep"
    return None


def told(finding: Finding, act: Act) -> Finding:
    """A finding with what is done about it."""
    severity = "error" if act == DROP else "warning"
    return replace(finding, hint=_SAYS[act], severity=severity)


def mended(memory: Any) -> Any:
    """The memory, or the citation, as mode lenient takes it; itself, if nothing is mended.

    Args:
        memory: a document that `judge` takes in mode lenient.
    """
    if kind_of(memory) == "citation":
        return _mended(memory)
    listed = memory.get("citations") if isinstance(memory, dict) else None
    if not isinstance(listed, list):
        return memory
    citations = [one for one in map(_mended, listed) if one is not None]
    unchanged = len(citations) == len(listed) and all(map(_is, citations, listed))
    return memory if unchanged else {**memory, "citations": citations}


def _is(one: Any, other: Any) -> bool:
    return one is other


def _mended(citation: Any) -> Any:
    bad = checker("common.json", "citation")(citation) or Defects()
    for defect in bad.found:
        way = tuple(reversed(defect.way))
        act = _act(way, defect)
        if act == DROP:
            return None
        if act == "clamp":
            citation = {**citation, "relevance": min(max(citation["relevance"], 0), 1)}
        elif act in ("other", "background"):
            citation = {**citation, str(way[0]): act}
    return citation
