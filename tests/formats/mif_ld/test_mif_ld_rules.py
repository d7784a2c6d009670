# SPDX-License-Identifier: Apache-2.0
"""Every rule of MIF in JSON-LD, broken once, is found once, in every mode."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from omsgrain.formats.mif_ld.defects import CODES
from omsgrain.formats.mif_ld.validate import judge
from omsgrain.formats.problems import Problem
from support.mif_ld_cases import BASES, OPTIONS, Case, edited
from support.mif_ld_rules import CASES


def listed(found: Iterable[Problem]) -> str:
    return ", ".join(f"{one.rule} {one.pointer}" for one in found)


def broken(case: Case) -> tuple[Any, dict[str, Any]]:
    return edited(BASES[case.base], case.place, case.value), OPTIONS.get(case.base, {})


@pytest.mark.parametrize("base", BASES)
def test_the_bases_are_good_and_nothing_is_to_be_said_of_them(base: str) -> None:
    for mode in ("schema", "lenient", "extra"):
        found = judge(BASES[base], mode=mode, **OPTIONS.get(base, {}))
        assert (found.total, listed((*found.findings, *found.warnings, *found.dropped))) == (0, "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.base} {case.place}")
def test_each_rule_in_every_mode(case: Case) -> None:
    document, options = broken(case)
    before = copy.deepcopy(document)
    found = judge(document, **options)
    assert (listed(found.findings), found.warnings) == (case.errors, ())
    assert found.total == len(found.findings)
    assert found.ok is (case.errors == "")
    found = judge(document, mode="extra", **options)
    assert (listed(found.findings), listed(found.warnings)) == (case.errors, case.warnings)
    found = judge(document, mode="lenient", **options)
    errors = case.errors if case.lenient is None else case.lenient
    assert listed(found.findings) == errors
    assert (listed(found.warnings), listed(found.dropped)) == (case.told, case.dropped)
    assert document == before


def test_there_are_enough_and_every_code_is_among_them() -> None:
    assert len(CASES) >= 150
    told = " ".join(f"{case.errors} {case.warnings}" for case in CASES)
    assert {code for code in CODES if f"{code} " not in f"{told} "} == set()
