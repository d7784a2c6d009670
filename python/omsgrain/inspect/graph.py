# SPDX-License-Identifier: Apache-2.0
"""Triples as nodes and links, and versions of grains as chains."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import omsgrain as og
from omsgrain.errors import OmsError
from omsgrain.grain import plain

_NODES: Final = 120
_LINKS: Final = 400
_NAME: Final = 60  # characters
_CHAINS: Final = 100
_VERSIONS: Final = 50  # of one chain


def triples(grains: Iterable[og.Grain]) -> dict[str, Any]:
    """Return the most linked subjects and objects, and their links."""
    found: list[tuple[str, str, str, str]] = []
    for grain in grains:
        triple = _triple(grain)
        if triple is not None:
            found.append((*triple, grain.address))
    degree = Counter(name for subject, _, object, _ in found for name in (subject, object))
    names = [name for name, _ in degree.most_common(_NODES)]
    places = {name: place for place, name in enumerate(names)}
    links = [
        (places[subject], relation, places[object], address)
        for subject, relation, object, address in found
        if subject in places and object in places
    ]
    return {
        "nodes": [{"name": name, "links": degree[name]} for name in names],
        "links": links[:_LINKS],
        "left_out": len(found) - len(links[:_LINKS]),
    }


def _triple(grain: og.Grain) -> tuple[str, str, str] | None:
    if grain.sealed:
        return None
    try:
        fields = grain.fields
    except OmsError:
        return None
    parts = [fields.get(name) for name in ("subject", "relation", "object")]
    if any(part is None for part in parts):
        return None
    subject, relation, object = (_name(part) for part in parts)
    return subject, relation, object


def _name(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= _NAME else text[: _NAME - 1] + "…"


def chains(
    links: Sequence[tuple[str, str]], show: Callable[[str], Mapping[str, Any]] = lambda address: {}
) -> dict[str, Any]:
    """Return chains of versions, each from the first to the last."""
    after: dict[str, list[str]] = {}
    followed = set()
    for old, new in links:
        after.setdefault(old, []).append(new)
        followed.add(new)
    roots = [old for old in after if old not in followed]
    made = [_chain(root, after, show) for root in roots[:_CHAINS]]
    return {"chains": made, "left_out": len(roots) - len(made)}


def _chain(
    root: str, after: Mapping[str, Sequence[str]], show: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any]:
    versions: list[dict[str, Any]] = []
    waiting: list[tuple[str, int, str | None]] = [(root, 0, None)]
    seen = set()
    while waiting and len(versions) < _VERSIONS:
        address, depth, follows = waiting.pop(0)
        if address in seen:  # a merge of two histories
            continue
        seen.add(address)
        later = sorted(after.get(address, ()))
        versions.append(
            {**show(address), "address": address, "depth": depth, "follows": follows,
             "head": not later}
        )  # fmt: skip
        waiting += [(one, depth + 1, address) for one in later]
    forked = sum(one["head"] for one in versions) > 1
    return {"versions": versions, "forked": forked, "cut": bool(waiting)}
