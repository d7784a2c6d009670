# SPDX-License-Identifier: Apache-2.0
"""The rules of conformance can fail: each of many is broken on purpose, and notices."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from omsgrain.conformance.rule import RULES, choose, run
from support import mutants_formats, mutants_oms, mutants_store
from support.mutants import Mutant

MUTANTS = (*mutants_oms.MUTANTS, *mutants_store.MUTANTS, *mutants_formats.MUTANTS)


def place(name: str) -> tuple[Any, str]:
    """Return the module or class of a full name, and its last part."""
    parts = name.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            held: Any = import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:-1]:
            held = getattr(held, part)
        return held, parts[-1]
    raise LookupError(name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_is_noticed_by_its_rules_alone(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    mutant.clear()
    try:
        for home, name in map(place, mutant.targets):
            monkeypatch.setattr(home, name, mutant.make(vars(home)[name]))
        verdicts = list(run(choose(RULES, ids=() if long else mutant.tried.split())))
    finally:
        monkeypatch.undo()
        mutant.clear()
    failed = {verdict.rule.id for verdict in verdicts if verdict.passed is False}
    if long:  # all rules: what is broken may show elsewhere, too
        assert failed >= set(mutant.fails.split())
    else:
        assert failed == set(mutant.fails.split())


def test_there_are_enough() -> None:
    noticed = {rule for mutant in MUTANTS for rule in mutant.fails.split()}
    assert len(MUTANTS) >= 60 and len(noticed) >= 100
    assert noticed <= {rule.id for rule in RULES}
    assert {rule.partition(".")[0] for rule in noticed} == {
        "oms",
        "aimem",
        "mif2",
        "mif1",
        "mif-ld",
    }
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
