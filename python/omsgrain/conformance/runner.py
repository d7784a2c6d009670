# SPDX-License-Identifier: Apache-2.0
"""Loads and selects rules, and tests each one separately."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Final

from omsgrain.conformance import grains
from omsgrain.conformance.bench import Bench, MissingError
from omsgrain.conformance.rule import FILES, SPECS, Entry, Rule, Spec, Tried, table
from omsgrain.errors import NotFoundError, OmsError, SchemaError

_SHOWN = 80  # characters of a value in a verdict
KINDS: Final = {
    "vectors": "vectors.agree",
    "encode": "grains.encoded",
    "warnings": "grains.warned",
    "policy": "policies.tried",
    "file": "containers.files",
    "document": "documents.changed",
    "node": "documents.nodes",
    "text": "documents.texts",
    "round": "documents.returned",
    "kept": "documents.kept",
    "bundle": "aimem.bundle",
    "http": "http.cases.ruled",
    "steps": "steps.run",
}
"""Kind of rule -> module and function in this package."""


def _check(entry: Entry, bench: Bench) -> Iterable[Tried]:
    """Test a rule with the function of its kind, or the one that it names."""
    module, _, name = (entry.get("run") or KINDS[entry["kind"]]).rpartition(".")
    check = getattr(import_module(f"omsgrain.conformance.{module}"), name)
    tried: Iterable[Tried] = check(bench, entry)
    return tried


def _load(file: str, spec: Spec) -> Iterator[Rule]:
    for entry in table(file).get("rules") or grains.entries():
        yield Rule(
            entry["id"],
            entry["section"],
            entry["text"],
            partial(_check, entry),
            entry.get("required", True),
            spec,
            entry.get("level", 0),
        )


RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (rule for file, spec in FILES.items() for rule in _load(file, spec)),
        key=lambda rule: (list(SPECS).index(rule.spec), rule.level),
    )
)
"""All rules, by specification and level."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """A rule and its result.

    Attributes:
        rule: the rule.
        passed: whether it passed; None if it could not be tested here.
        tried: descriptions of the tests, in order.
        expected: the right result of the first failed test; None if none failed.
        found: its actual result; for a skipped rule, the reason.
    """

    rule: Rule
    passed: bool | None
    tried: tuple[str, ...]
    expected: str | None = None
    found: str | None = None


def choose(
    rules: Iterable[Rule],
    *,
    spec: Spec | None = None,
    level: int | None = None,
    ids: Iterable[str] = (),
) -> list[Rule]:
    """Choose rules by specification, level and id."""
    if spec is not None and spec not in SPECS:
        raise SchemaError(
            f"unknown specification {spec!r}", field="/spec", expected=", ".join(SPECS)
        )
    found, wanted = list(rules), tuple(ids)
    for name in wanted:
        if not any(_is_named(rule.id, name) for rule in found):
            raise NotFoundError("unknown rule", found=name)
    found = [
        rule
        for rule in found
        if (spec is None or rule.spec == spec)
        and (level is None or rule.level <= level)
        and (not wanted or any(_is_named(rule.id, name) for name in wanted))
    ]
    if not found:
        raise NotFoundError("no rule matches the selection")
    return found


def _is_named(id: str, name: str) -> bool:
    return id == name or id.startswith(name + ".")


def run(rules: Iterable[Rule]) -> Iterator[RuleVerdict]:
    """Test rules one after the other.

    If a check raises an error, its rule fails.
    """
    with TemporaryDirectory(prefix="omsgrain-") as root, closing(Bench(root)) as bench:
        for rule in rules:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield _tried(rule, bench)


def _tried(rule: Rule, bench: Bench) -> RuleVerdict:
    done: list[Tried] = []
    try:
        done.extend(rule.check(bench))
    except MissingError as error:
        return RuleVerdict(rule, None, tuple(one.what for one in done), found=str(error))
    except Exception as error:
        done.append(Tried("the next test", "a result", _broken(error)))
    wrong = next((one for one in done if not _same(one.expected, one.found)), None)
    tried = tuple(one.what for one in done)
    if not done:  # a rule without tests must not pass
        return RuleVerdict(rule, False, tried, "at least one test", "none")
    if wrong is None:
        return RuleVerdict(rule, True, tried)
    return RuleVerdict(
        rule, False, tried, f"{wrong.what}: {_short(wrong.expected)}", _short(wrong.found)
    )


def _same(expected: object, found: object) -> bool:
    """Whether values have the same type and are equal: 1 is neither 1.0 nor true."""
    return type(expected) is type(found) and expected == found


def _broken(error: Exception) -> str:
    return str(error) if isinstance(error, OmsError) else f"{type(error).__name__}: {error}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
