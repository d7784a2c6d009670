# SPDX-License-Identifier: Apache-2.0
"""Reports the results of rules as Markdown and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from omsgrain.conformance.rule import SPECS, RuleVerdict, Spec

WORDS: Final = {True: "passed", False: "FAILED", None: "left out"}
_SHOWN: Final = 3  # tests that a row lists
_WIDTH: Final = 60  # characters of a test's description
_MARKS: Final = re.compile(r"([|<>\\`*_\[\]~])")

_INTRO: Final = """\
<!-- Made by `make docs`, from what this build does: edit conformance. -->

# Conformance

The rules of the formats, and whether this build follows them. Each rule is tested with good and
bad input. The rule states the expected result, or an encoder that shares no code with this one
computes it. `omsgrain conformance` tests all rules; options select some:

```sh
omsgrain conformance --spec mif1
omsgrain conformance --rule oms.header --format json --output report.json
```

The exit code is 1 if a rule fails. For a *recommended* rule, the specification gives only advice,
or leaves the choice to implementations. Rules of MIF 2.0 and MIF 1.0 have no levels. The column
*tests* shows up to three tests, and the number of further ones.

You can test other programs too: `omsgrain conformance --vectors DIR` runs test vectors, and
`omsgrain conformance --aimem-url URL --token T` tests an AIMEM server over HTTP
([serving.md](serving.md)).
"""


def tried(verdict: RuleVerdict) -> str:
    """Describe the tests of a rule briefly."""
    first = [_cut(one) for one in verdict.tried[:_SHOWN]]
    more = len(verdict.tried) - len(first)
    return "; ".join(first) + (f"; {more} more" if more else "")


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def counted(verdicts: Iterable[RuleVerdict]) -> dict[str, int]:
    found = [verdict.passed for verdict in verdicts]
    return {
        "rules": len(found),
        "passed": found.count(True),
        "failed": found.count(False),
        "left_out": found.count(None),
    }


def as_json(verdicts: Sequence[RuleVerdict]) -> dict[str, Any]:
    return {**counted(verdicts), "results": [_values(verdict) for verdict in verdicts]}


def _values(verdict: RuleVerdict) -> dict[str, Any]:
    rule = verdict.rule
    values = {
        "id": rule.id,
        "spec": rule.spec,
        "level": rule.level or None,
        "section": rule.section,
        "required": rule.must,
        "text": rule.text,
        "tried": list(verdict.tried),
        "result": WORDS[verdict.passed].lower(),
        "expected": verdict.expected,
        "found": verdict.found,
    }
    return {name: value for name, value in values.items() if value is not None}


def markdown(verdicts: Sequence[RuleVerdict]) -> str:
    parts = [_INTRO, *_summary(verdicts)]
    for (spec, level), group in groupby(verdicts, key=lambda v: (v.rule.spec, v.rule.level)):
        parts.append("\n".join(_table(spec, level, list(group))) + "\n")
    return "\n".join(parts)


def _summary(verdicts: Sequence[RuleVerdict]) -> Iterator[str]:
    lines = ["| specification | level | rules | required | passed | failed | left out |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for (spec, level), group in groupby(verdicts, key=lambda v: (v.rule.spec, v.rule.level)):
        lines.append(_line(SPECS[spec], str(level or ""), list(group)))
    yield "\n".join([*lines, _line("all", "", verdicts)]) + "\n"


def _line(name: str, level: str, verdicts: Sequence[RuleVerdict]) -> str:
    counts = counted(verdicts)
    required = sum(verdict.rule.must for verdict in verdicts)
    numbers = (counts["rules"], required, counts["passed"], counts["failed"], counts["left_out"])
    return f"| {name} | {level} | {' | '.join(map(str, numbers))} |"


def _table(spec: Spec, level: int, verdicts: Sequence[RuleVerdict]) -> Iterator[str]:
    yield f"## {SPECS[spec]}" + (f", level {level}" if level else "")
    yield ""
    yield "| rule | section | requirement | tests | result |"
    yield "|---|---|---|---|---|"
    for verdict in verdicts:
        rule = verdict.rule
        text = _safe(rule.text) + ("" if rule.must else " *(recommended)*")
        result = WORDS[verdict.passed]
        if verdict.passed is not True:
            said = [f"expected {verdict.expected}"] if verdict.expected else []
            result += ": " + _safe(", ".join([*said, f"found {verdict.found}"]))
        yield f"| `{rule.id}` | {rule.section} | {text} | {_safe(tried(verdict))} | {result} |"


def _safe(text: str) -> str:
    return _MARKS.sub(r"\\\1", text)
