# SPDX-License-Identifier: Apache-2.0
"""Decay, ends and orders of the times of a memory."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.formats import times
from omsgrain.formats.mif_ld import schema, temporal
from omsgrain.formats.mif_ld.temporal import (
    is_known,
    is_valid,
    order,
    reinforced,
    strength,
    ttl_end,
)
from omsgrain.formats.times import Instant

DAY = 86_400


def at(text: str) -> Instant:
    found = times.parse(text, floating=True)
    assert found is not None
    return found


START = "2026-01-01T00:00:00Z"


def later(seconds: float) -> Instant:
    return Instant(at(START).seconds + int(seconds), "")


def memory(decay: Any = None, **temporal: Any) -> dict[str, Any]:
    if decay is not None:
        temporal["decay"] = decay
    return {"created": START, "temporal": temporal}


def exponential(half_life: str) -> dict[str, Any]:
    return memory({"model": "exponential", "halfLife": half_life})


def test_a_half_life_leaves_a_half() -> None:
    week = exponential("P7D")
    assert strength(week, at(START)) == 1
    assert strength(week, later(7 * DAY)) == 0.5
    assert strength(week, later(14 * DAY)) == 0.25
    assert strength(week, later(3.5 * DAY)) == pytest.approx(math.sqrt(0.5))


def test_the_formula_as_it_is_written_leaves_one_of_e() -> None:
    week = exponential("P7D")
    assert strength(week, later(7 * DAY), curve="e-fold") == pytest.approx(math.exp(-1))
    assert strength(week, later(14 * DAY), curve="e-fold") == pytest.approx(math.exp(-2))


def test_linear_and_step_end_with_ttl() -> None:
    line, step = (memory({"model": model}, ttl="P10D") for model in ("linear", "step"))
    assert [strength(line, later(day * DAY)) for day in (0, 5, 10, 20)] == [1, 0.5, 0, 0]
    assert [strength(step, later(day * DAY)) for day in (0, 5, 10, 20)] == [1, 1, 0, 0]
    assert strength(step, later(10 * DAY - 1)) == 1


def test_without_a_model_a_memory_is_as_strong_as_it_says() -> None:
    now = later(100 * DAY)
    assert strength({"created": START}, now) == 1
    assert strength(memory({"currentStrength": 0.85}), now) == 0.85
    assert strength(memory({"strength": 0.4}), now) == 0.4
    assert strength(memory({"currentStrength": 0.85, "strength": 0.4}), now) == 0.85
    assert strength(memory({"model": "none", "currentStrength": 0.4}), now) == 1


def test_with_a_model_what_was_stated_once_is_not_looked_at() -> None:
    decay = {"model": "exponential", "halfLife": "P1D", "currentStrength": 0.9}
    assert strength(memory(decay), later(DAY)) == 0.5


@pytest.mark.parametrize(
    "broken",
    [
        memory({"model": "linear"}),
        memory({"model": "step"}),
        memory({"model": "exponential"}),
        memory({"model": "exponential", "halfLife": "Pfoo"}),
        memory({"model": "exponential", "halfLife": 7}),
        memory({"model": "linear"}, ttl="P99999Y"),
        {"temporal": {"decay": {"model": "exponential", "halfLife": "P7D"}}},
    ],
)
def test_a_model_that_lacks_something_gives_no_strength(broken: Any) -> None:
    assert strength(broken, later(DAY)) is None


def test_decay_begins_where_the_memory_was_last_reinforced() -> None:
    history = [{"timestamp": "2026-01-05T00:00:00Z", "event": "recall"},
               {"timestamp": "2026-01-03T00:00:00Z", "event": "recall"}]  # fmt: skip
    decay = {"model": "exponential", "halfLife": "P1D"}
    assert reinforced(memory(decay)) == at(START)
    assert reinforced(memory(decay, recordedAt="2026-01-02T00:00:00Z")) == at("2026-01-02")
    assert reinforced(memory(decay, reinforcementHistory=history)) == at("2026-01-05")
    said = memory(
        {**decay, "lastReinforced": "2026-01-04T00:00:00Z"}, reinforcementHistory=history
    )
    assert reinforced(said) == at("2026-01-04")
    assert strength(said, at("2026-01-05")) == 0.5
    assert strength(said, at("2026-01-01")) == 1  # before it, not stronger than strong
    # Access alone does not reinforce.
    assert reinforced(memory(decay, lastAccessed="2026-01-09T00:00:00Z")) == at(START)


def test_an_end_is_counted_by_the_calendar() -> None:
    made = {"created": "2026-01-31T10:00:00+02:00", "temporal": {"ttl": "P1M"}}
    assert ttl_end(made) == at("2026-02-28T08:00:00Z")
    made["temporal"] = {"ttl": "P1Y", "recordedAt": "2024-02-29T00:00:00Z"}
    assert ttl_end(made) == at("2025-02-28T00:00:00Z")
    assert ttl_end({"created": START}) is None
    assert ttl_end({"created": "yesterday", "temporal": {"ttl": "P1D"}}) is None
    assert ttl_end({"created": START, "temporal": {"ttl": "P9000Y"}}) is None


def test_both_times_are_asked_each_for_itself() -> None:
    one = memory(validFrom="1843-01-01T00:00:00Z", validUntil="1844-01-01T00:00:00Z",
                 recordedAt="2026-01-02T00:00:00Z", ttl="P10D")  # fmt: skip
    assert is_valid(one, at("1843-01-01")) and is_valid(one, at("1843-12-31"))
    assert not is_valid(one, at("1844-01-01")) and not is_valid(one, at("2026-01-05"))
    assert is_known(one, at("2026-01-02")) and not is_known(one, at("2026-01-01"))
    assert not is_known(one, at("2026-01-12"))
    assert is_valid(memory(validFrom=None, validUntil=None), at("0001-01-01"))


def test_a_modified_memory_is_known_since_its_modification() -> None:
    later, recorded = {"modified": "2026-02-01T00:00:00Z"}, "2026-01-15T00:00:00Z"
    assert not is_known(memory() | later, at("2026-01-31")) and is_known(memory(), at(START))
    assert is_known(memory() | later, at("2026-02-01"))
    assert is_known(memory(recordedAt=recorded) | later, at("2026-01-16"))
    assert is_known(memory() | {"modified": "2020-01-01T00:00:00Z"}, at(START))
    assert not is_known(memory() | {"modified": "2020-01-01T00:00:00Z"}, at("2025-01-01"))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({}, []),
        ({"temporal": {"lastAccessed": "2025-12-31T23:59:59Z"}}, ["/temporal/lastAccessed"]),
        ({"temporal": {"lastAccessed": START}}, []),
        ({"temporal": {"decay": {"lastReinforced": "2025-01-01T00:00:00Z"}}},
         ["/temporal/decay/lastReinforced"]),
        ({"temporal": {"reinforcementHistory": [
            {"timestamp": "2026-01-03T00:00:00Z"}, {"timestamp": "2026-01-02T00:00:00Z"}]}},
         ["/temporal/reinforcementHistory/1"]),
        ({"compressedAt": "2025-12-31T00:00:00Z"}, ["/compressedAt"]),
        ({"temporal": {"decay": {"model": "linear", "halfLife": "P7D"}}}, ["/temporal/decay"]),
        ({"temporal": {"ttl": "P1D", "decay": {"model": "step"}}}, []),
        ({"temporal": {"decay": {"model": "exponential"}}}, ["/temporal/decay"]),
        ({"temporal": {"decay": {"model": "none"}}}, []),
    ],
)  # fmt: skip
def test_a_wrong_order_is_a_warning(edit: dict[str, Any], expected: list[str]) -> None:
    found = list(order({"created": START, **edit}))
    assert [one.pointer for one in found] == expected
    assert all(one.severity == "warning" for one in found)


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["P7D", START, "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["decay", "model", "halfLife", "ttl", "timestamp", "currentStrength"]),
            inner,
        )
    ),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional={"created": JSON, "temporal": JSON}))
def test_no_document_makes_it_crash(document: dict[str, Any]) -> None:
    found = strength(document, later(DAY))
    assert found is None or 0 <= found <= 1
    ttl_end(document)
    assert is_valid(document, later(0)) in (True, False)
    list(order(document))


# -- durations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", (0, 7 * DAY)),
        ("P2W", (0, 14 * DAY)),
        ("P1Y2M", (14, 0)),
        ("PT1H30M", (0, 5_400)),
        ("PT0.5S", (0, Fraction(1, 2))),
        ("PT0,5H", (0, 1_800)),
        ("P1DT12H", (0, 129_600)),
        ("P0D", (0, 0)),
    ],
)
def test_durations(text: str, expected: tuple[int, Any]) -> None:
    assert temporal.parse(text) == expected and schema.duration(text)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1", "1D", "P-1D", "P1H", "PT1D", "P1D1Y", "P0.5DT1H", "Pfoo", "p1d",
             "P1D\n", "P\u0661D"],
)  # fmt: skip
def test_invalid_durations(text: str) -> None:
    assert temporal.parse(text) is None and not schema.duration(text)


@given(st.integers(0, 40_000), st.integers(-(10**9), 10**9), st.integers(0, 999))
def test_days_are_days_wherever_they_begin(days: int, start: int, millis: int) -> None:
    begun = Instant(start, f"{millis:03}".rstrip("0"))
    duration = temporal.parse(f"P{days}D")
    assert duration is not None
    end = temporal.after(begun, duration)
    assert end == Instant(start + days * DAY, begun.fraction)
    assert temporal.between(begun, end) == days * DAY
