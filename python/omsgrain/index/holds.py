# SPDX-License-Identifier: Apache-2.0
"""Whether one grain holds what a query asks: for what no list of the index answers.

A query walks lists, and tests what is left over; a search has candidates from elsewhere, and tests
everything (``holds``).
"""

from __future__ import annotations

from typing import Any, Protocol

from omsgrain import _core
from omsgrain.formats.raw import is_beside
from omsgrain.grain import Grain
from omsgrain.index.conditions import FOREVER, Conditions
from omsgrain.index.origin import origins
from omsgrain.store.state import PAST, unpack
from omsgrain.store.tables import SEQUENCE, STATES, Table
from omsgrain.text import words_of

__all__ = ["States", "created", "equal", "holds", "state_holds", "tests_hold"]


class States(Protocol):
    """What the tests need of a store's snapshot."""

    def row(self, table: Table, key: bytes) -> bytes | None:
        """A row of a plain table."""
        ...

    def is_past(self, seq: int) -> bool:
        """Whether a grain is superseded, retracted or restricted."""
        ...


def holds(states: States, seq: int, grain: Grain, asked: Conditions) -> bool:
    """Tell whether a grain with a sequence number is all that is asked; no list is read."""
    return (
        state_holds(states, seq, asked)
        and asked.low <= created(grain) < asked.high
        and all(equal(grain, name, value) for name, value in asked.equal.items())
        and tests_hold(grain, asked)
        and (asked.bookkeeping or not is_beside(grain))
    )


def state_holds(states: States, seq: int, asked: Conditions) -> bool:
    """Tell whether the state of a grain is what is asked; the grain itself is not read."""
    if not asked.stateful:
        return asked.current is None or states.is_past(seq) is not asked.current
    state = unpack(states.row(STATES, SEQUENCE.pack(seq)))
    if state.bits & asked.hidden or (asked.current is False and not state.bits & PAST):
        return False
    if asked.status is not None and state.verification_status != asked.status:
        return False
    end = state.system_valid_to
    return asked.known_at is None or end is None or end > asked.known_at


def tests_hold(grain: Grain, asked: Conditions) -> bool:
    """Tell whether a grain says what is asked where no index answers; its state is not read.

    Spec: OMS §5.6: a time span that lacks an end is open there
    """
    fields = grain.fields
    if asked.prefix is not None:
        namespace = fields.get("namespace")
        if not (isinstance(namespace, str) and namespace.startswith(asked.prefix)):
            return False
    if asked.words and not words_of(fields).issuperset(asked.words):
        return False
    if asked.min_confidence is not None:
        confidence = fields.get("confidence")
        if not isinstance(confidence, int | float) or isinstance(confidence, bool):
            return False
        if confidence < asked.min_confidence:
            return False
    if asked.valid_at is not None:
        begin, end = _time(fields.get("valid_from")), _time(fields.get("valid_to"))
        if begin is not None and begin > asked.valid_at:
            return False
        if end is not None and end < asked.valid_at:
            return False
    if asked.known_at is not None:
        begin = _time(fields.get("system_valid_from"))
        if (_time(fields.get("created_at")) or 0 if begin is None else begin) > asked.known_at:
            return False
    return True


def equal(grain: Grain, name: str, value: Any) -> bool:
    """Tell whether a grain has exactly the value that a filter by equality asks for."""
    if name == "type":
        return bool(grain.header.type_byte == value)
    if name == "tag":
        tags = grain.get("structural_tags")
        return isinstance(tags, list) and value in tags
    if name == "origin":
        return value in origins(grain)
    found = grain.get(name)
    if name == "object" and not isinstance(value, str) and found is not None:
        # 1, 1.0 and True are equal to Python and to nobody else; their keys differ.
        return found == value and _core.term(name, found) == _core.term(name, value)
    return bool(found == value)


def _time(value: Any) -> int | None:
    """A time in ms; None if it is none: an opaque grain may have anything there."""
    if isinstance(value, int) and not isinstance(value, bool) and value < 1 << 63:
        return value
    return None


def created(grain: Grain) -> int:
    """The time of a grain's place, in ms."""
    return min(max(0, _time(grain.get("created_at")) or 0), FOREVER - 1)
