# SPDX-License-Identifier: Apache-2.0
"""Your own detectors, from patterns with linear time."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any, NamedTuple

from omsgrain.errors import SchemaError
from omsgrain.privacy.detectors.base import Spans

_sre: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

MOST_WAYS = 10_000
"""Maximum number of ways to match a pattern at one place."""

_TYPE = re.compile(r"[a-z][a-z_]{0,31}")


class PatternDetector(NamedTuple):
    """A detector made by ``pattern_detector``."""

    type: str
    pattern: re.Pattern[str]
    secret: bool

    def find(self, text: str) -> Spans:
        group = "value" if "value" in self.pattern.groupindex else 0
        for found in self.pattern.finditer(text):
            if found.start(group) >= 0:
                yield found.span(group)


def pattern_detector(
    type: str, pattern: str | re.Pattern[str], *, secret: bool = False
) -> PatternDetector:
    r"""Make a detector from a regular expression.

    Args:
        type: the name in the marker, of a-z and _.
        pattern: only with bounded repeats, such as ``\d{4,12}``, so that matching stays linear.
            Its last part may be unbounded, as in ``EMP-\d+``. With a group ``value``, only that
            group is redacted.
        secret: True if it grants access, False if it is about a person.

    Raises:
        SchemaError: the type or the pattern is invalid.
    """
    if not isinstance(type, str) or _TYPE.fullmatch(type) is None:
        raise SchemaError(
            "invalid type of a detector", field="/type", expected="at most 32 of a-z and _"
        )
    given = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(given, str):  # a bytes pattern would compile, but fail on a text
        raise SchemaError("invalid pattern", field="/pattern", expected="a text pattern")
    try:
        compiled = re.compile(pattern)
        tree = _sre.parse(compiled.pattern, compiled.flags)
    except (re.error, OverflowError, RecursionError):
        raise SchemaError("invalid pattern", field="/pattern") from None
    least, _ = tree.getwidth()
    if least == 0:
        raise SchemaError("the pattern matches the empty text", field="/pattern")
    if _ways(tree, last=True) > MOST_WAYS:
        expected = r"few bounded repeats, such as \w{1,40}"
        raise SchemaError("the pattern may be slow", field="/pattern", expected=expected)
    return PatternDetector(type, compiled, secret)


_TOO_MANY = MOST_WAYS + 1


def _ways(tree: Any, *, last: bool) -> int:
    """Return the maximum number of ways to match a pattern at one place.

    A repeat at the very end never backtracks.
    """
    ways = 1
    items = list(tree)
    for at, (kind, value) in enumerate(items):
        ways *= _one(str(kind), value, last=last and at == len(items) - 1)
        if ways > MOST_WAYS:
            return _TOO_MANY
    return ways


def _one(kind: str, value: Any, *, last: bool) -> int:
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = value
        inner = _ways(body, last=False)
        if last and inner == 1:
            return 1
        if most == _sre.MAXREPEAT:
            return _TOO_MANY
        ways = int(most) - int(least) + 1
        return int(min(_TOO_MANY, ways * int(inner) ** min(int(most), 20)))
    if kind == "SUBPATTERN":
        return _ways(value[-1], last=last)
    if kind == "ATOMIC_GROUP":
        return _ways(value, last=last)
    if kind == "BRANCH":
        return min(_TOO_MANY, sum(_ways(branch, last=last) for branch in value[1]))
    if kind in ("ASSERT", "ASSERT_NOT"):
        return _ways(value[1], last=False)
    # Backreferences and group conditions cannot be counted.
    return _TOO_MANY if kind.startswith("GROUPREF") else 1
