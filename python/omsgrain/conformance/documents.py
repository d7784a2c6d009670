# SPDX-License-Identifier: Apache-2.0
"""Rules about documents of MIF: changes of a good one, texts that are none, and round trips."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from omsgrain import formats
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import edited, shown, value_of
from omsgrain.conformance.rule import Entry, Tried, documents, spec_of
from omsgrain.formats.base import Mif
from omsgrain.formats.mif_ld import validate


def spelled(document: Any) -> bytes:
    """The document as JSON."""
    return json.dumps(document).encode()


def validated(spec: str, data: bytes) -> list[str]:
    """The errors in a document and, after a ``~``, the warnings: a rule and a pointer each."""
    form = formats.FORMATS[spec]
    assert isinstance(form, Mif)
    found = form.validate(data, None)
    said = [_said(one) for one in (*found.faults, *found.problems)]
    return said + [f"~{_said(one)}" for one in found.warnings]


def judged(data: bytes, **options: Any) -> list[str]:
    """The same of a node of JSON-LD, whatever kind of node it is."""
    verdict = validate.judge(json.loads(data), **options)
    said = [_said(one) for one in verdict.findings]
    return said + [f"~{_said(one)}" for one in verdict.warnings]


def _said(one: Any) -> str:
    return f"{one.rule} {one.pointer}".strip()


def case_of(entry: Entry, case: Entry) -> Any:
    """The document of a case: the one that it or its rule names, with the case's change."""
    name = case.get("document", entry.get("document"))
    return edited(documents(spec_of(entry))[name], case)


def changed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``document``: a good document, and each change with the finding that it must get."""
    return _changed(entry, partial(validated, spec_of(entry)))


def nodes(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``node``: the same of a node of JSON-LD."""
    return _changed(entry, partial(judged, **entry.get("options", {})))


def _changed(entry: Entry, judge: Callable[[bytes], list[str]]) -> Iterator[Tried]:
    yield Tried("a good document", [], judge(spelled(case_of(entry, {}))))
    for case in entry["cases"]:
        found = judge(spelled(case_of(entry, case)))
        expected = case.get("finds", "")
        first = next((said for said in found if said == expected), None)
        yield Tried(shown(case), expected, first or (found[0] if found else ""))


def texts(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``text``: texts that are no document, and the rule that refuses each."""
    for case in entry["cases"]:
        text = "".join(value_of(part) for part in case["text"])
        found = validated(spec_of(entry), text.encode())
        yield Tried(case.get("try", text), [case["finds"]], [said.split()[0] for said in found])


def returned(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``round``: documents become grains and come back equal, with the order of keys."""
    for case in entry["cases"]:
        whole = case_of(entry, case)
        yield Tried(case["try"], json.dumps(whole), json.dumps(_again(entry, whole)))


def kept(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``kept``: one value in a document that must come back as it was written."""
    for case in entry["cases"]:
        ((pointer, written),) = case["set"].items()
        found: Any = _again(entry, case_of(entry, case))
        for name in pointer.split("/")[1:]:
            found = found[int(name)] if isinstance(found, list) else found[name]
        text = json.dumps(value_of(written))
        yield Tried(f"{pointer}: {text[:40]}", text, json.dumps(found))


def _again(entry: Entry, whole: Any) -> Any:
    """The document as its grains give it back."""
    form: Any = spec_of(entry)
    return json.loads(formats.dump(formats.load(spelled(whole)), format=form).data)
