# SPDX-License-Identifier: Apache-2.0
"""One normative rule of a format, and what comes of trying whether it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from omsgrain.errors import OmsError

if TYPE_CHECKING:
    from omsgrain.conformance.bench import Bench

Spec = Literal["oms", "aimem", "mif2", "mif1", "mif-ld"]
SPECS: Final[dict[Spec, str]] = {
    "oms": "OMS 1.2",
    "aimem": "AIMEM bundle, draft-vu-aimem-bundle-00",
    "mif2": "MIF 2.0",
    "mif1": "MIF 1.0",
    "mif-ld": "MIF in JSON-LD",
}
TAKEN: Final = "taken"
"""What came of something that was not refused."""


class Tried(NamedTuple):
    """One thing that was tried.

    Attributes:
        what: in a few words.
        expected: what was to come; it is never made by the code that is tried.
        found: what came.
    """

    what: str
    expected: object
    found: object


Check = Callable[["Bench"], Iterable[Tried]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: such as ``oms.header.version``; it stays.
        section: of the specification.
        text: what it asks for, in our words.
        check: tries what is good and what is bad.
        must: whether it is required; or recommended.
        spec: which specification.
        level: of conformance; 0 where the specification has none.
    """

    id: str
    section: str
    text: str
    check: Check
    must: bool
    spec: Spec
    level: int


class Table:
    """Gathers the rules of a specification and a level in the order in which they are written."""

    def __init__(self, spec: Spec, level: int = 0) -> None:
        self._spec: Spec = spec
        self._level = level
        self.rules: list[Rule] = []

    def add(self, id: str, section: str, text: str, *checks: Check, must: bool = True) -> None:
        """Add a rule whose checks are at hand."""

        def check(bench: Bench) -> Iterable[Tried]:
            for one in checks:
                yield from one(bench)

        name = f"{self._spec}.{id}"
        self.rules.append(Rule(name, section, text, check, must, self._spec, self._level))

    def __call__(
        self, id: str, section: str, text: str, *, must: bool = True
    ) -> Callable[[Check], Check]:
        """Add a rule whose check is the function below."""

        def take(check: Check) -> Check:
            self.add(id, section, text, check, must=must)
            return check

        return take


def result(call: Callable[..., object], *given: Any, by: str = "", **options: Any) -> str:
    """What comes of a call: ``taken``, or what it is refused by: a code, or a rule of a format.

    An error may have both; where one of them is expected, it is that.
    """
    try:
        call(*given, **options)
    except OmsError as error:
        return by if by in (error.code, error.rule) else error.rule or error.code
    return TAKEN


def refuses(what: str, by: str, call: Callable[..., object], *given: Any, **options: Any) -> Tried:
    """Try a call that is to be refused by a code, or by a rule of a format."""
    return Tried(what, by, result(call, *given, by=by, **options))


def takes(what: str, call: Callable[..., object], *given: Any, **options: Any) -> Tried:
    """Try a call that is to be taken."""
    return Tried(what, TAKEN, result(call, *given, **options))


def equal(cases: Mapping[str, tuple[object, Callable[[], Any]]]) -> Check:
    """A check of calls that must give just these values, each under what it tries."""

    def check(bench: Bench) -> Iterable[Tried]:
        for what, (expected, call) in cases.items():
            yield Tried(what, expected, call())

    return check
