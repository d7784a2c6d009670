# SPDX-License-Identifier: Apache-2.0
"""Presets: rules for what is put, kept, deleted and exported, from files that a person can read.

    preset = load(["gdpr", "our-rules.toml"])
    preset.check_put(grain)          # raises what refuses it; the error names the rule

Rules only ever refuse, so of several presets together the strictest has its way.
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
"""The rules that are in force with any preset, and with none."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules that are in force together.

    Attributes:
        names: the presets they come from; empty if only those are in force that always are.
        titles: what these are, for a person.
        rules: all rules.
    """

    names: tuple[str, ...]
    titles: tuple[str, ...]
    rules: tuple[PolicyRule, ...] = field(repr=False)
    _put: tuple[Encrypt | Require | Forbid, ...] = field(init=False, repr=False, compare=False)
    _reviews: dict[str, tuple[ReviewRule, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Sorted once, since every put asks for them.
        put = tuple(r for r in self.rules if isinstance(r, Encrypt | Require | Forbid))
        reviews = [rule for rule in self.rules if isinstance(rule, ReviewRule)]
        by_operation = {name: tuple(r for r in reviews if name in r.on) for name in REVIEWED}
        object.__setattr__(self, "_put", put)
        object.__setattr__(self, "_reviews", by_operation)

    def check_put(self, grain: Grain, *, encrypted: bool = False) -> tuple[str, ...]:
        """Check a grain that is to be stored.

        Args:
            grain: the grain, in the clear.
            encrypted: whether it will be stored encrypted.

        Returns:
            Ids of the rules by which somebody should review it.

        Raises:
            KeyMissingError: it must be stored encrypted.
            SchemaError: a field is missing, or not allowed, or says what it may not.
        """
        _raise_first(self.put_refusals(grain, encrypted=encrypted))
        return self.reviews("put", grain)

    def put_refusals(self, grain: Grain, *, encrypted: bool = False) -> Iterator[OmsError]:
        """All that ``check_put`` has against a grain; nothing is raised."""
        for rule in self._put:
            if rule.applies(grain):
                error = rule.broken(grain, encrypted)
                if error is not None:
                    yield error

    def check_delete(
        self, grain: Grain, now: int, *, approvals: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Check a grain that is to be deleted or erased.

        Args:
            grain: the grain, in the clear.
            now: ms since 1970.
            approvals: approvals that were given, by the names that grains ask for.

        Returns:
            Ids of the rules by which somebody should review it.

        Raises:
            InvalidationDeniedError: it must be kept, or deleting it needs an approval.
        """
        _raise_first(self.delete_refusals(grain, now, approvals=approvals))
        return self.reviews("delete", grain)

    def delete_refusals(
        self, grain: Grain, now: int, *, approvals: Collection[str] = ()
    ) -> Iterator[OmsError]:
        """All that ``check_delete`` has against deleting a grain; nothing is raised."""
        for rule in self.rules:
            if isinstance(rule, Keep) and rule.applies(grain):
                error = rule.broken(grain, now, approvals)
                if error is not None:
                    yield error

    def check_export(
        self, grain: Grain, *, purpose: Purpose = "transfer", encrypted: bool = False
    ) -> tuple[str, ...]:
        """Check a grain that is to leave the store.

        Args:
            grain: the grain, in the clear.
            purpose: why: ``move`` to another store of the same house, ``access`` by the person it
                is about, ``transfer`` to somebody else, ``sale``.
            encrypted: whether it leaves encrypted.

        Returns:
            Ids of the rules by which somebody should review it.

        Raises:
            KeyMissingError: it may leave encrypted only.
            SchemaError: a field is missing, or says what it may not; or no such purpose.
            UnsupportedError: it may not leave at all.
        """
        _raise_first(self.export_refusals(grain, purpose=purpose, encrypted=encrypted))
        return self.reviews("export", grain, purpose=purpose)

    def export_refusals(
        self, grain: Grain, *, purpose: Purpose = "transfer", encrypted: bool = False
    ) -> Iterator[OmsError]:
        """All that ``check_export`` has against letting a grain go; nothing is raised.

        Raises:
            SchemaError: no such purpose.
        """
        if purpose not in PURPOSES:
            raise SchemaError("no such purpose", field="/purpose", expected=", ".join(PURPOSES))
        for rule in self.rules:
            if isinstance(rule, ExportRule) and purpose in rule.purposes and rule.applies(grain):
                error = rule.broken(grain, encrypted)
                if error is not None:
                    yield error

    def reviews(
        self, operation: str, grain: Grain, *, purpose: Purpose = "transfer"
    ) -> tuple[str, ...]:
        """Ids of the rules by which somebody should review an operation.

        Args:
            operation: ``put``, ``supersede`` (of this grain), ``delete`` or ``export``.
            grain: the grain, in the clear.
            purpose: of an export.

        Raises:
            SchemaError: no such operation.
        """
        if operation not in REVIEWED:
            expected = ", ".join(REVIEWED)
            raise SchemaError("no such operation", field="/operation", expected=expected)
        return tuple(
            rule.id
            for rule in self._reviews[operation]
            if (operation != "export" or purpose in rule.purposes) and rule.applies(grain)
        )

    def kept_until(self, grain: Grain) -> int | None:
        """Until when a grain must be kept, ms since 1970; None if it need not be."""
        times = [r.until(grain) for r in self.rules if isinstance(r, Keep) and r.applies(grain)]
        return max((time for time in times if time is not None), default=None)

    def due(self, grain: Grain, now: int) -> tuple[str, ...]:
        """Ids of the rules by which a grain should be gone by now.

        Consents are never due, and nothing that must still be kept.
        """
        if grain.type == "consent" or any(self.delete_refusals(grain, now)):
            return ()
        return tuple(
            rule.id
            for rule in self.rules
            if isinstance(rule, Expire) and rule.applies(grain) and rule.due(grain, now)
        )


def load(which: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Preset:
    """Load one or several presets.

    Args:
        which: ``ccpa``, ``gdpr``, ``hipaa``, ``sox``, the path of a file with rules, or several of
            them. None of them (an empty list) gives the rules that are always in force.

    Raises:
        SchemaError: no such preset, or two of one name.
        FormatError: a file says what no rule says.
        NotFoundError: there is no such file.
        StoreError: a file cannot be read.
    """
    wanted: list[Any] = [which]
    if isinstance(which, Iterable) and not isinstance(which, str | bytes | os.PathLike):
        wanted = list(which)
    if not all(isinstance(one, str | os.PathLike) for one in wanted):  # a number is a descriptor
        raise SchemaError("not a preset", expected="a name, the path of a file, or a list of them")
    read = [_one(one) for one in wanted]
    names = tuple(file.name for file in read)
    for i, name in enumerate(names):
        if name in (*names[:i], _ALWAYS):
            raise SchemaError("two presets of one name", found=name)
    rules = (rule for file in (_built_in(_ALWAYS), *read) for rule in file.rules)
    return Preset(names, tuple(file.title for file in read), tuple(rules))


def _one(which: str | os.PathLike[str]) -> RuleFile:
    if isinstance(which, str):
        if which in BUILT_IN:
            return _built_in(which)
        if not which.endswith(".toml") and "/" not in which and os.sep not in which:
            expected = f"{', '.join(BUILT_IN)}, or the path of a file"
            raise SchemaError("no such preset", expected=expected)
    try:
        with open(which, "rb") as file:
            return read_rules(file.read(MOST_BYTES + 1), os.fspath(which))
    except FileNotFoundError:
        raise NotFoundError("there is no such file of rules", found=os.fspath(which)) from None
    except OSError as error:
        raise StoreError(f"cannot read the rules: {error.strerror}") from error
    except ValueError as error:  # with a zero in it
        raise SchemaError("not the path of a file") from error


@cache
def _built_in(name: str) -> RuleFile:
    file = files("omsgrain.privacy") / "presets" / f"{name}.toml"
    return read_rules(file.read_bytes(), f"the preset {name}")


def _raise_first(errors: Iterator[OmsError]) -> None:
    for error in errors:
        raise error


@dataclass(frozen=True, slots=True)
class Explained:
    """One rule, for a person.

    Attributes:
        id: its name, as errors give it in ``rule``.
        kind: ``encrypt``, ``require``, ``forbid``, ``keep``, ``expire``, ``export``, ``review``.
        about: which grains it is about.
        asks: what it asks of them.
        reason: why.
        source: the text that asks for it.
    """

    id: str
    kind: str
    about: str
    asks: str
    reason: str
    source: str


def explain(preset: Preset) -> tuple[Explained, ...]:
    """Tell every rule in words, in the order of the files."""
    return tuple(
        Explained(rule.id, rule.kind, _about(rule), rule.asks(), rule.reason, rule.source)
        for rule in preset.rules
    )


def _about(rule: PolicyRule) -> str:
    about = "; or ".join(map(str, rule.when)) or "every grain"
    return f"{about}; not {'; nor '.join(map(str, rule.unless))}" if rule.unless else about
