# SPDX-License-Identifier: Apache-2.0
"""Presets: readable rules for puts, deletions, retention and exports.

    preset = load(["gdpr", "our-rules.toml"])
    preset.check_put(grain)          # raises a violation; the error names the rule

Rules only forbid, so among several presets the strictest wins.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from omsgrain.errors import NotFoundError, OmsError, SchemaError, StoreError
from omsgrain.grain import Grain
from omsgrain.policy.rule_files import MOST_BYTES, RuleFile, read_rules
from omsgrain.policy.rules import (
    DAY,
    PURPOSES,
    REVIEWED,
    Encrypt,
    Expire,
    ExportRule,
    Forbid,
    Keep,
    PolicyRule,
    Purpose,
    Require,
    ReviewRule,
)

BUILT_IN = ("ccpa", "gdpr", "hipaa", "sox")
_ALWAYS = "oms"
"""The rules that always apply, even without a preset."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules that apply together."""

    names: tuple[str, ...]  # the names of the presets; empty if only the permanent rules apply
    titles: tuple[str, ...]  # their titles
    rules: tuple[PolicyRule, ...] = field(repr=False)
    _put: tuple[Encrypt | Require | Forbid, ...] = field(init=False, repr=False, compare=False)
    _reviews: dict[str, tuple[ReviewRule, ...]] = field(init=False, repr=False, compare=False)
    _keep: tuple[Keep, ...] = field(init=False, repr=False, compare=False)
    _keep_fields: frozenset[str] = field(init=False, repr=False, compare=False)
    _keeps_all: bool = field(init=False, repr=False, compare=False)
    _expire: tuple[Expire, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Sorted once, because every put and every removal needs them.
        put = tuple(r for r in self.rules if isinstance(r, Encrypt | Require | Forbid))
        reviews = [rule for rule in self.rules if isinstance(rule, ReviewRule)]
        by_operation = {name: tuple(r for r in reviews if name in r.on) for name in REVIEWED}
        keep = tuple(rule for rule in self.rules if isinstance(rule, Keep))
        expire = tuple(rule for rule in self.rules if isinstance(rule, Expire))
        # Without a time of its own, a rule keeps only grains with one of its fields.
        read = [
            path[0] for rule in keep for path in (rule.years_field, rule.approval_field) if path
        ]
        object.__setattr__(self, "_keep", keep)
        object.__setattr__(self, "_keep_fields", frozenset(read))
        object.__setattr__(self, "_keeps_all", any(rule.years > 0 for rule in keep))
        object.__setattr__(self, "_expire", expire)
        object.__setattr__(self, "_put", put)
        object.__setattr__(self, "_reviews", by_operation)

    def check_put(self, grain: Grain, *, encrypted: bool = False) -> tuple[str, ...]:
        """Check a grain before it is stored; returns the rules that require a review."""
        _raise_first(self.put_refusals(grain, encrypted=encrypted))
        return self.reviews("put", grain)

    def put_refusals(self, grain: Grain, *, encrypted: bool = False) -> Iterator[OmsError]:
        """Return every violation that ``check_put`` finds, without raising it."""
        for rule in self._put:
            if rule.applies(grain) and (error := rule.broken(grain, encrypted)):
                yield error

    def check_delete(
        self, grain: Grain, now: int, *, approvals: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Check a grain before it is deleted; returns the rules that require a review."""
        _raise_first(self.delete_refusals(grain, now, approvals=approvals))
        return self.reviews("delete", grain)

    def delete_refusals(
        self, grain: Grain, now: int, *, approvals: Collection[str] = ()
    ) -> Iterator[OmsError]:
        """Return every violation that ``check_delete`` finds, without raising it."""
        if not self._keeps_all and self._keep_fields.isdisjoint(grain.fields):
            return
        for rule in self._keep:
            if rule.applies(grain):
                if error := rule.broken(grain, now, approvals):
                    yield error

    def check_export(
        self, grain: Grain, *, purpose: Purpose = "transfer", encrypted: bool = False
    ) -> tuple[str, ...]:
        """Check a grain before it is exported; returns the rules that require a review."""
        _raise_first(self.export_refusals(grain, purpose=purpose, encrypted=encrypted))
        return self.reviews("export", grain, purpose=purpose)

    def export_refusals(
        self, grain: Grain, *, purpose: Purpose = "transfer", encrypted: bool = False
    ) -> Iterator[OmsError]:
        """Return every violation that ``check_export`` finds, without raising it."""
        if purpose not in PURPOSES:
            raise SchemaError("unknown purpose", field="/purpose", expected=", ".join(PURPOSES))
        for rule in self.rules:
            if isinstance(rule, ExportRule) and purpose in rule.purposes and rule.applies(grain):
                if error := rule.broken(grain, encrypted):
                    yield error

    def reviews(
        self, operation: str, grain: Grain, *, purpose: Purpose = "transfer"
    ) -> tuple[str, ...]:
        """Return the ids of the rules that require a review of an operation."""
        if operation not in REVIEWED:
            expected = ", ".join(REVIEWED)
            raise SchemaError("unknown operation", field="/operation", expected=expected)
        return tuple(
            rule.id
            for rule in self._reviews[operation]
            if (operation != "export" or purpose in rule.purposes) and rule.applies(grain)
        )

    @property
    def shortest(self) -> int | None:
        """The shortest maximum retention, ms; None without any."""
        return min((rule.days * DAY for rule in self._expire), default=None)

    def due(self, grain: Grain, now: int) -> tuple[str, ...]:
        """Return the ids of the rules whose maximum retention of a grain has passed.

        Consents and grains that must still be kept are never due.
        """
        if grain.type == "consent" or next(self.delete_refusals(grain, now), None) is not None:
            return ()
        return tuple(
            rule.id for rule in self._expire if rule.due(grain, now) and rule.applies(grain)
        )


def load(which: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Preset:
    """Load one or several presets.

    Args:
        which: "ccpa", "gdpr", "hipaa", "sox", the path of a rule file, or a list of them. An
            empty list loads the rules that always apply.
    """
    wanted: list[Any] = [which]
    if isinstance(which, Iterable) and not isinstance(which, str | bytes | os.PathLike):
        wanted = list(which)
    # Open would read a number as a file descriptor
    if not all(isinstance(one, str | os.PathLike) for one in wanted):
        raise SchemaError(
            "invalid preset", expected="a name, the path of a file, or a list of them"
        )
    read = [_one(one) for one in wanted]
    names = tuple(file.name for file in read)
    for i, name in enumerate(names):
        if name in (*names[:i], _ALWAYS):
            raise SchemaError("two presets have the same name", found=name)
    rules = (rule for file in (_built_in(_ALWAYS), *read) for rule in file.rules)
    return Preset(names, tuple(file.title for file in read), tuple(rules))


def _one(which: str | os.PathLike[str]) -> RuleFile:
    if isinstance(which, str):
        if which in BUILT_IN:
            return _built_in(which)
        if not which.endswith(".toml") and "/" not in which and os.sep not in which:
            expected = f"{', '.join(BUILT_IN)}, or a file: rules.toml, ./rules"
            raise SchemaError("unknown preset", expected=expected)
    try:
        with open(which, "rb") as file:
            return read_rules(file.read(MOST_BYTES + 1), os.fspath(which))
    except FileNotFoundError:
        raise NotFoundError("rule file not found", found=os.fspath(which)) from None
    except OSError as error:
        raise StoreError(f"cannot read the rule file: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path
        raise SchemaError("invalid path of a rule file") from error


@cache
def _built_in(name: str) -> RuleFile:
    file = files("omsgrain.privacy") / "presets" / f"{name}.toml"
    return read_rules(file.read_bytes(), f"the preset {name}")


def _raise_first(errors: Iterator[OmsError]) -> None:
    for error in errors:
        raise error


@dataclass(frozen=True, slots=True)
class Explained:
    """A rule in words: its id, as in ``rule`` of errors, its kind, and what it is about."""

    id: str
    kind: str
    about: str
    asks: str
    reason: str
    source: str


def explain(preset: Preset) -> tuple[Explained, ...]:
    """Describe every rule in words, in the order of the files."""
    return tuple(
        Explained(rule.id, rule.kind, _about(rule), rule.asks(), rule.reason, rule.source)
        for rule in preset.rules
    )


def _about(rule: PolicyRule) -> str:
    about = "; or ".join(map(str, rule.when)) or "every grain"
    return f"{about}; not {'; nor '.join(map(str, rule.unless))}" if rule.unless else about
