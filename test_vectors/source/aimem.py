# SPDX-License-Identifier: Apache-2.0
"""AIMEM bundles: good ones, and each rule broken once.

The changes are those of omsgrain.conformance, which are data. What is wrong stands there as well,
said by who wrote the change and not by what the validator found; checksums are made by jcs.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jcs
from omsgrain.conformance.aimem import FAULTS, GOODS, TEXTS, replaced, sample
from omsgrain.conformance.rule import edited

LARGEST = 8_000  # characters; larger ones are tests, not vectors
ARRAYS = {
    "chunks": "chunk",
    "edges": "edge",
    "entities": "entity",
    "chunk_entities": "chunk_entity",
}


def vectors() -> Iterator[dict[str, Any]]:
    """All of them."""
    for good in GOODS:
        document = changed(good)
        warned = [] if good["warns"] is None else [good["warns"]]
        about = _about(good)
        yield from _small("good", about, spelled(document), "document", [], warned, 200)
        if set(ARRAYS) <= set(document):
            text = lines(document)
            yield from _small("good-lines", about, text, "lines", [], warned, 200)
    for fault in FAULTS:
        text = spelled(changed(fault))
        problem = [{"rule": fault["rule"], "pointer": fault["at"]}]
        status = fault["status"]
        yield from _small("bad", _about(fault), text, "document", problem, [], status)
    for broken in TEXTS:
        text = replaced(changed({}), broken).decode()
        where = {"a key twice": "/scope", "a number beyond the doubles": "/edges/0/weight"}
        problem = [{"rule": broken["rule"], "pointer": where.get(broken["name"], "")}]
        yield from _small("bad-text", _about(broken), text, "document", problem, [], 422)
    whole = lines(changed({}))
    cut = [{"rule": "checksum_mismatch", "pointer": "/checksum", "line": 1}]
    for name, text in (
        ("cut behind a line", whole[: whole.rindex("\n", 0, -1) + 1]),
        ("cut within a line", whole[:-9]),
        ("two lines in another order", swapped(whole)),
    ):
        yield from _small(
            "bad-lines", (name, "2.8", "recommendation"), text, "lines", cut, [], 409
        )


def _about(case: Mapping[str, Any]) -> tuple[str, str, str]:
    return case["name"], case["section"], case["basis"]


def _small(
    area: str,
    about: tuple[str, str, str],
    text: str,
    form: str,
    problems: list[dict[str, Any]],
    warnings: list[str],
    status: int,
) -> Iterator[dict[str, Any]]:
    if len(text) > LARGEST:
        return
    name, section, basis = about
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
    good = json.loads(text.splitlines()[0])["checksum"] if not problems else None
    yield {
        "id": f"aimem/{area}/{slug}",
        "description": name,
        "made_by": "test_vectors/source/aimem.py, tests/jcs.py",
        "checked_by": "omsgrain vectors",
        "section": section,
        "basis": basis,
        "form": form,
        "bundle": text,
        "problems": problems,
        "warnings": warnings,
        "status": status,
        "checksum": good,
    }


def changed(change: Mapping[str, Any]) -> dict[str, Any]:
    """The sample with a change; only what is wrong with the checksum has a wrong one."""
    values, removed = change.get("set", {}), change.get("remove", [])
    own = {name: value for name, value in values.items() if name == "/checksum"}
    rest = {name: value for name, value in values.items() if name != "/checksum"}
    gone = ["/checksum", *(name for name in removed if name != "/checksum")]
    bare = edited(sample(), {"set": rest, "remove": gone})
    return edited(sealed(bare), {"set": own, "remove": [n for n in removed if n == "/checksum"]})


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """With its checksum."""
    return document | {"checksum": jcs.checksum(document)}


def spelled(document: Any) -> str:
    """As JSON."""
    return json.dumps(document, separators=(",", ":"))


def lines(document: dict[str, Any]) -> str:
    """By lines."""
    envelope = {name: value for name, value in document.items() if name not in ARRAYS}
    records = [{"_kind": kind} | one for name, kind in ARRAYS.items() for one in document[name]]
    return "".join(spelled(one) + "\n" for one in [envelope, *records])


def swapped(text: str) -> str:
    """The first two records in another order."""
    first, one, other, *rest = text.splitlines(keepends=True)
    return "".join([first, other, one, *rest])
