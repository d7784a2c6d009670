# SPDX-License-Identifier: Apache-2.0
"""The tables of the page about formats are those of the code."""

from __future__ import annotations

import re
from dataclasses import asdict

from omsgrain.formats.aimem import document
from omsgrain.formats.aimem import fields as limits
from omsgrain.formats.aimem.check import RULES, WARNINGS
from omsgrain.formats.aimem.fields import ENVELOPE, LIMITS, MEMORY_TYPES, RECORDS
from omsgrain.formats.aimem.records import TABLE
from omsgrain.formats.schema import SchemaField
from omsgrain.interchange.outcome import NEWEST
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/formats.md"
TENANT = "6f1c3d7a-58b2-4c0e-9d41-0a7e52b8c936"


def test_fields() -> None:
    tables: list[tuple[str, tuple[SchemaField, ...]]] = [("envelope", ENVELOPE), *RECORDS.items()]
    expected = [
        [name, field.name, field.kind, "yes" if field.required else "",
         "yes" if field.nullable else "", field.says.replace("`", "")]
        for name, fields in tables
        for field in fields
    ]  # fmt: skip
    rows = table(PAGE, "in", "field", "kind", "required", "null is taken", "what")
    assert [[cell.replace("`", "") for cell in row] for row in rows] == expected


def test_rules() -> None:
    rows = table(PAGE, "rule", "§", "status", "what is wrong")
    assert [[n, *told] for n, _, *told in rows] == [
        [n, str(r.status), r.says] for n, r in RULES.items()
    ]
    warned = table(PAGE, "warning", "§", "what it is")
    assert {name: says for name, _, says in warned} == WARNINGS


def test_limits() -> None:
    rows = {name: int(most.replace(",", "")) for name, most, _ in table(PAGE, "limit", "at most",
                                                                       "of what")}  # fmt: skip
    own = {name: getattr(limits, name) for name in ("PRODUCER", "LOCAL", "TAG", "NAME")}
    assert rows == asdict(LIMITS) | {name.lower(): value for name, value in own.items()}


def test_kinds_of_memory() -> None:
    rows = table(PAGE, "memory_type", "grain", "field of the content")
    assert [row[0] for row in rows] == list(MEMORY_TYPES)
    for name, says, where in rows:
        chunk = {"id": "urn:aimem:a:1", "content": "tea", "memory_type": name}
        grain = TABLE.to_grain("chunk", chunk | {"created_at": "2026-04-01T09:30:00Z"},
                         owner=TENANT).grain  # fmt: skip
        assert re.split(r"\W", says)[0].lower() == grain.type
        told = re.findall(r"`([^`]+)", says)
        assert told == [grain[f] for f in ("relation", "trigger") if f in grain]
        assert grain[where] in ("tea", ["tea"])


def test_reasons_of_conflicts() -> None:
    rows = table(PAGE, "incoming record", "result")
    told = {name for _, says in rows for name in re.findall(r"conflict `(\w+)", says)}
    decided = {one.reason for one in NEWEST.values() if one.reason is not None}
    assert told == {*decided, "erased", "refused"}


def test_the_example_is_good() -> None:
    data = (ROOT / "examples/robot-7.aimem.json").read_bytes()
    verdict = document.validate(data)
    assert (verdict.problems, verdict.warnings) == ((), ())
    assert verdict.document is not None
    kinds = {chunk["memory_type"] for chunk in verdict.document["chunks"]}
    assert kinds == {*MEMORY_TYPES}
