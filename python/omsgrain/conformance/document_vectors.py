# SPDX-License-Identifier: Apache-2.0
"""Run a test vector of a document: what is wrong with it, and what it becomes.

Of a MIF document that is its grains, of an AIMEM bundle its checksum.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

from omsgrain import formats
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem import checksum
from omsgrain.formats.aimem import document as bundles
from omsgrain.formats.aimem.check import RULES
from omsgrain.formats.document import Import, open_manifest
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.source import same

_KEYS: Final = (
    "document", "id", "description", "made_by", "checked_by", "format", "layout", "section",
    "fault", "problems", "warnings", "grains",
)  # fmt: skip
"""The members of a vector of MIF."""
_LINKED: Final = ("mode", "dropped")
"""What those of MIF in JSON-LD have besides."""
_BUNDLE_KEYS: Final = (
    "bundle", "id", "description", "made_by", "checked_by", "form", "section", "basis", "problems",
    "warnings", "status", "checksum",
)  # fmt: skip
"""The members of a vector of AIMEM."""
_IN_JSON: Final = ("json", "document", "array", "corpus")


def run(vector: Mapping[str, Any], name: str) -> tuple[str, str | None]:
    """Run one vector of a MIF document."""
    wrong = [one["rule"] for one in [vector.get("fault"), *vector.get("problems", ())] if one]
    expected = wrong[0] if wrong else ", ".join(vector.get("warnings", ())) or "good"
    of = formats.FORMATS.get(vector.get("format", ""))
    linked = of is not None and "mode" in of.load_options
    if unknown := set(vector) ^ {*_KEYS, *(_LINKED if linked else ())}:
        return expected, f"unknown or missing keys: {', '.join(sorted(unknown))}"
    if not name.endswith(str(vector["id"])):
        return expected, f"the id is {vector['id']!r}"
    data = vector["document"].encode("utf-8", "surrogatepass")
    try:
        if (told := formats.sniff(data)) != vector["format"]:
            return expected, f"it is taken for {told}"
        found = formats.load(data, **({"mode": vector["mode"]} if linked else {}))
    except UnsupportedError:
        return expected, "it is taken for nothing that is known"
    except DocumentError as error:
        fault = _told(error.problems[0])
        return expected, None if fault == vector["fault"] else f"refused for {fault}"
    except SchemaError as error:
        return expected, f"it cannot be run: {error}"
    return expected, _taken(vector, found)


def _taken(vector: Mapping[str, Any], found: Import) -> str | None:
    """What disagrees of a document that was taken."""
    if vector["fault"] is not None:
        return "accepted"
    problems = [_told(one) for one in found.problems]
    if problems != vector["problems"]:
        return f"problems differ: found {problems}"
    warnings = [one.rule for one in found.warnings]
    if warnings != vector["warnings"]:
        return f"warnings differ: found {warnings}"
    dropped = [_told(one) for one in found.dropped]
    if dropped != vector.get("dropped", []):
        return f"what was left out differs: found {dropped}"
    grains = addresses(found)
    if grains != vector["grains"]:
        return f"grains differ: found {grains}"
    if problems or vector.get("mode") == "lenient":
        return None  # what was left out does not come back
    return None if _comes_back(vector, found) else "it does not come back as it was"


def _comes_back(vector: Mapping[str, Any], found: Import) -> bool:
    layout, text = vector["layout"], vector["document"]
    if layout not in (*_IN_JSON, "lines", "markdown"):
        return True
    again = formats.dump(found, format=vector["format"], local=True).data.decode()
    if layout == "markdown":
        return bool(again == text)
    if layout == "lines":
        one, other = ([json.loads(line) for line in each.splitlines()] for each in (again, text))
        return bool(same(one, other))
    return bool(same(json.loads(again), json.loads(text)))


def addresses(found: Import) -> dict[str, list[str]]:
    """The addresses of the records' grains, by the pointer of their array."""
    by_address = {grain.address: grain for grain in found.grains}
    opened = open_manifest(found.grains[-1], by_address.__getitem__)
    return {} if opened is None else opened.arrays


def _told(problem: Problem, *, line: bool | None = None) -> dict[str, Any]:
    """A problem as vectors have it; the line by default where there is one."""
    told: dict[str, Any] = {"rule": problem.rule, "pointer": problem.pointer}
    with_line = problem.line is not None if line is None else line
    return told | ({"line": problem.line} if with_line else {})


def run_bundle(vector: Mapping[str, Any], name: str) -> tuple[str, str | None]:
    """Run one vector of an AIMEM bundle."""
    wrong = [problem["rule"] for problem in vector.get("problems", ())]
    expected = wrong[0] if wrong else str(vector.get("checksum", ""))
    if unknown := set(vector) ^ set(_BUNDLE_KEYS):
        return expected, f"unknown or missing keys: {', '.join(sorted(unknown))}"
    if not name.endswith(str(vector["id"])):
        return expected, f"the id is {vector['id']!r}"
    data = vector["bundle"].encode("utf-8", "surrogatepass")
    problems, warnings = _scanned(data) if vector["form"] == "lines" else _validated(data)
    found = [_told(problem, line=vector["form"] == "lines") for problem in problems]
    if found != vector["problems"]:
        return expected, f"problems differ: expected {vector['problems']}, found {found}"
    if not problems and [one.rule for one in warnings] != vector["warnings"]:
        return expected, f"warnings differ: found {[one.rule for one in warnings]}"
    status = RULES[problems[0].rule].status if problems else 200
    if status != vector["status"]:
        return expected, f"the status is {status}"
    if not problems and vector["form"] == "document":
        own = checksum.of_document(data)
        if {own, json.loads(data)["checksum"]} != {vector["checksum"]}:
            return expected, f"the checksum is {own}"
    return expected, None


def _validated(data: bytes) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    verdict = bundles.validate(data)
    return verdict.problems, verdict.warnings


def _scanned(data: bytes) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    try:
        return (), bundles.scan(io.BytesIO(data)).warnings
    except DocumentError as error:
        return error.problems, ()
