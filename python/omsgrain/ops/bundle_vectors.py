# SPDX-License-Identifier: Apache-2.0
"""Run a test vector of an AIMEM bundle: what is wrong with it, and what its checksum is."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats.aimem import checksum, document
from omsgrain.formats.aimem.check import RULES
from omsgrain.formats.problems import DocumentError, Problem

KEYS: Final = (
    "bundle", "id", "description", "made_by", "checked_by", "form", "section", "basis", "problems",
    "warnings", "status", "checksum",
)  # fmt: skip
"""What a vector has; the first tells that it is one of these."""


def run(vector: Mapping[str, Any], name: str) -> tuple[str, str | None]:
    """Run one vector."""
    wrong = [problem["rule"] for problem in vector.get("problems", ())]
    expected = wrong[0] if wrong else str(vector.get("checksum", ""))
    if unknown := set(vector) ^ set(KEYS):
        return expected, f"unknown or missing keys: {', '.join(sorted(unknown))}"
    if not name.endswith(str(vector["id"])):
        return expected, f"the id is {vector['id']!r}"
    data = vector["bundle"].encode("utf-8", "surrogatepass")
    problems, warnings = _lines(data) if vector["form"] == "lines" else _document(data)
    found = [_told(problem, vector["form"]) for problem in problems]
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


def _document(data: bytes) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    verdict = document.validate(data)
    return verdict.problems, verdict.warnings


def _lines(data: bytes) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    try:
        return (), document.scan(io.BytesIO(data)).warnings
    except DocumentError as error:
        return error.problems, ()


def _told(problem: Problem, form: str) -> dict[str, Any]:
    told: dict[str, Any] = {"rule": problem.rule, "pointer": problem.pointer}
    return told | ({"line": problem.line} if form == "lines" else {})
