# SPDX-License-Identifier: Apache-2.0
"""The times of a memory: its strength now, its end, and times in the wrong order.

Decay is a function of ``t``, the time since the last reinforcement:

    none         1
    linear       1 - t / ttl, and 0 from then on
    exponential  2 ^ (-t / halfLife)
    step         1 until ttl, and 0 from then on

The specification's own formula, e ^ (-t / halfLife), leaves 0.37 after ``halfLife`` and not half.
A writer of P7D expects half after a week, so that is the default here. `strength` accepts
``curve="e-fold"`` for the specification's formula.

Months and years are calendar months and years from the start of ``t``.
Spec: MIF 0.1 §8
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

from omsgrain.formats import times
from omsgrain.formats.mif_ld.defects import LintFinding, warning
from omsgrain.formats.records import object_of
from omsgrain.formats.times import Instant

Curve = Literal["half-life", "e-fold"]
Json = Mapping[str, Any]
_NEEDS: Final = {"linear": "ttl", "exponential": "halfLife", "step": "ttl"}


def strength(memory: Json, now: Instant, *, curve: Curve = "half-life") -> float | None:
    """Return the strength of a memory at a time, from 0 to 1; None if it cannot be computed.

    Without a decay model, the result is ``currentStrength``, also named ``strength``, or 1. With a
    model, these members are ignored, because their time is unknown.
    """
    temporal, decay = object_of(memory, "temporal"), _decay(memory)
    model = decay.get("model")
    needs = _NEEDS.get(str(model))
    if needs is None:
        return _stated(decay) if model is None else 1.0
    since = reinforced(memory)
    length = _duration(since, (decay if needs == "halfLife" else temporal).get(needs))
    if since is None or length is None:
        return None
    passed = max(between(since, now), 0)
    if model == "exponential":
        if length == 0:
            return 1.0 if passed == 0 else 0.0
        power = float(min(passed / length, 10_000))
        return math.exp(-power) if curve == "e-fold" else 2.0**-power
    if passed >= length:
        return 0.0
    return 1.0 if model == "step" else float(1 - passed / length)


def _stated(decay: Json) -> float:
    stated = decay.get("currentStrength", decay.get("strength"))
    if isinstance(stated, bool) or not isinstance(stated, int | float) or math.isnan(stated):
        return 1.0
    return float(min(max(stated, 0), 1))


def reinforced(memory: Json) -> Instant | None:
    """Return when a memory was last reinforced, where its decay begins.

    This is ``lastReinforced``, else the last of ``reinforcementHistory``, else ``recordedAt``,
    else ``created``. Access alone does not reinforce.
    """
    temporal = object_of(memory, "temporal")
    said = _time(_decay(memory).get("lastReinforced"))
    if said is not None:
        return said
    listed = [one for _, one in _history(temporal)]
    return max(listed) if listed else _recorded(memory)


def ttl_end(memory: Json) -> Instant | None:
    """Return when a memory's ``ttl`` ends, counted from ``recordedAt``, else ``created``.

    None if it has no ``ttl``, or the end cannot be computed.
    """
    start, text = _recorded(memory), object_of(memory, "temporal").get("ttl")
    duration = parse(text) if isinstance(text, str) else None
    return None if start is None or duration is None else after(start, duration)


def is_valid(memory: Json, at: Instant) -> bool:
    """Whether a memory is valid at a time: from ``validFrom`` until ``validUntil``."""
    temporal = object_of(memory, "temporal")
    start, end = _time(temporal.get("validFrom")), _time(temporal.get("validUntil"))
    return (start is None or start <= at) and (end is None or at < end)


def is_known(memory: Json, at: Instant) -> bool:
    """Whether this version of a memory was known at a time: recorded, and its ``ttl`` not over.

    A modified memory without ``recordedAt`` is known since its modification: before, it had other
    content.
    """
    start, end = _time(object_of(memory, "temporal").get("recordedAt")), ttl_end(memory)
    if start is None:
        known = (_time(memory.get(name)) for name in ("created", "modified"))
        start = max((one for one in known if one is not None), default=None)
    return (start is None or start <= at) and (end is None or at < end)


def order(memory: Json) -> Iterator[LintFinding]:
    """Warn of times in the wrong order, and of a decay without its duration.

    `lint` checks the order of ``validFrom`` and ``validUntil``, and of ``created`` and
    ``modified``.
    """
    temporal, decay = object_of(memory, "temporal"), _decay(memory)
    recorded = "is before the memory was recorded"
    for way, time, first, says in (
        (("compressedAt",), memory.get("compressedAt"), _time(memory.get("created")),
         "is before created"),
        (("temporal", "lastAccessed"), temporal.get("lastAccessed"), _recorded(memory), recorded),
        (("temporal", "decay", "lastReinforced"), decay.get("lastReinforced"), _recorded(memory),
         recorded),
    ):  # fmt: skip
        at = _time(time)
        if at is not None and first is not None and at < first:
            yield warning("MIF-ORDER", way, says)
    before = None
    for i, one in _history(temporal):
        if before is not None and one < before:
            yield warning(
                "MIF-ORDER", ("temporal", "reinforcementHistory", i), "is before the previous one"
            )
        before = one
    model = decay.get("model")
    needs = _NEEDS.get(str(model))
    if needs is not None and needs not in (decay if needs == "halfLife" else temporal):
        hint = f"Add {needs}; the strength cannot be computed without it."
        says = f"has model {model} but no {needs}"
        yield warning("MIF-DECAY", ("temporal", "decay"), says, None, hint)


def _recorded(memory: Json) -> Instant | None:
    said = _time(object_of(memory, "temporal").get("recordedAt"))
    return _time(memory.get("created")) if said is None else said


def _history(temporal: Json) -> Iterator[tuple[int, Instant]]:
    listed = temporal.get("reinforcementHistory")
    for at, one in enumerate(listed if isinstance(listed, list) else ()):
        time = _time(one.get("timestamp")) if isinstance(one, dict) else None
        if time is not None:
            yield at, time


def _duration(since: Instant | None, text: Any) -> Any:
    """Return the seconds of a duration that begins at a time."""
    duration = parse(text) if isinstance(text, str) else None
    if since is None or duration is None:
        return None
    end = after(since, duration)
    return None if end is None else between(since, end)


def _decay(memory: Json) -> Json:
    return object_of(object_of(memory, "temporal"), "decay")


def _time(value: Any) -> Instant | None:
    return times.parse(value, floating=True) if isinstance(value, str) else None


_DURATION_COUNT: Final = r"([0-9]{1,18}(?:[.,][0-9]{1,18})?)"
_DURATION_FORM: Final = re.compile(
    rf"P(?=.)(?:{_DURATION_COUNT}Y)?(?:{_DURATION_COUNT}M)?(?:{_DURATION_COUNT}W)?(?:{_DURATION_COUNT}D)?"
    rf"(?:T(?=.)(?:{_DURATION_COUNT}H)?(?:{_DURATION_COUNT}M)?(?:{_DURATION_COUNT}S)?)?"
)
_SECONDS: Final = (604_800, 86_400, 3_600, 60, 1)
_EPOCH: Final = datetime(1970, 1, 1)


class Duration(NamedTuple):
    months: int  # of the calendar; a year has twelve
    seconds: Fraction  # the rest; a day has 86,400


def parse(text: str) -> Duration | None:
    """Read a duration such as ``P90D``; None if it is invalid. Weeks can be mixed in."""
    found = _DURATION_FORM.fullmatch(text)
    if found is None:
        return None
    counts = [Fraction((part or "0").replace(",", ".")) for part in found.groups()]
    given = [part for part in found.groups() if part is not None]
    if any("." in part or "," in part for part in given[:-1]):
        return None  # only the last number can have a fraction
    months = counts[0] * 12 + counts[1]
    if months.denominator != 1:
        return None  # a part of a month has no fixed length
    pairs = zip(counts[2:], _SECONDS, strict=True)
    return Duration(int(months), sum((count * each for count, each in pairs), Fraction(0)))


def after(start: Instant, duration: Duration) -> Instant | None:
    """Add a duration to a time; None if the result is after the year 9999.

    A day that the month does not have becomes its last day.
    """
    try:
        time = _EPOCH + timedelta(seconds=start.seconds)
        months = time.year * 12 + time.month - 1 + duration.months
        year, month = divmod(months, 12)
        day = min(time.day, calendar.monthrange(year, month + 1)[1])
        moved = time.replace(year=year, month=month + 1, day=day)
        whole = (moved - _EPOCH) // timedelta(seconds=1)
        exact = whole + duration.seconds + _fraction(start)
        seconds = exact.numerator // exact.denominator
        _EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError, IndexError):
        return None
    return Instant(seconds, _digits(exact - seconds))


def between(start: Instant, end: Instant) -> Fraction:
    """Return the seconds from one time to another; negative if the second is earlier."""
    return end.seconds - start.seconds + _fraction(end) - _fraction(start)


def _fraction(time: Instant) -> Fraction:
    return Fraction(int(time.fraction or "0"), 10 ** len(time.fraction))


def _digits(part: Fraction) -> str:
    """Return the digits after the point that an instant can hold."""
    return str(part.numerator * 10**32 // part.denominator).rjust(32, "0").rstrip("0")
