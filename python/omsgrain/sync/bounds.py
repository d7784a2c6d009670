# SPDX-License-Identifier: Apache-2.0
"""What a value of a sync can be, beyond its types: lengths, ranges, and how many at once.

Whatever comes from another machine or out of a file is seen here before a store sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from omsgrain.engine.holding import LONGEST
from omsgrain.errors import RangeError, SchemaError
from omsgrain.sync.peer import (
    ITEMS,
    Batch,
    GrainState,
    Greeting,
    Hello,
    HoldTurn,
    Item,
    Position,
    Range,
    Refusal,
    Taken,
    Tombstone,
)

__all__ = ["GRAINS", "ID", "PLACE", "check", "check_count", "check_keys", "check_prefixes"]

ID: Final = 16
"""Bytes of the id of a store."""
_KEY, _MARK, _DIGEST, _VERSION, _HINT = 32, 32, 32, 32, 2  # bytes, of some at the most
_WORD, _NAME, _NAMESPACES = 256, 1_024, 1_000
PLACE: Final = 4
"""Bytes of the place where a piece of an item begins."""
_LAST: Final = 2**63 - 1
GRAINS: Final = 8 * ITEMS
"""Grains of a batch at the most, and states: of a grain there is one for each signer."""
_LISTED: Final = 100 * ITEMS
_DIGITS: Final = frozenset("0123456789abcdef")


def check(value: Any) -> None:
    """See that a value is one that can be.

    Raises:
        SchemaError: something has not its length or its form.
        RangeError: a number is out of range, or there is too much of something.
    """
    if isinstance(value, tuple):
        check_count(value, _LISTED)
        for one in value:
            check(one)
    elif (known := _CHECKS.get(type(value))) is not None:
        known(value)


def check_count(items: Sequence[Any], most: int = ITEMS) -> None:
    """Refuse more than so many at once.

    Raises:
        RangeError: there are.
    """
    if len(items) > most:
        raise RangeError("too many at once", expected=f"at most {most}", found=str(len(items)))


def check_keys(keys: Sequence[bytes]) -> None:
    """See that these are keys of items, or of pieces of them, and not too many.

    Raises:
        SchemaError, RangeError: as ``check``.
    """
    check_count(keys)
    _places(keys)


def check_prefixes(prefixes: Sequence[str]) -> None:
    """See that these are beginnings of keys, and not too many; errors as of ``check``."""
    check_count(prefixes)
    if any(len(one) > 2 * _KEY or not _DIGITS.issuperset(one) for one in prefixes):
        raise SchemaError("not the beginning of an address", expected="hexadecimal digits")


def _all(keys: Iterable[bytes], size: int) -> None:
    for key in keys:
        if len(key) != size:
            raise SchemaError("not so many bytes", expected=str(size), found=str(len(key)))


def _places(keys: Iterable[bytes]) -> None:
    """See that each is a key, or a key with the place where a piece of the item begins."""
    for key in keys:
        if len(key) not in (_KEY, _KEY + PLACE):
            raise SchemaError("not the key of an item", expected=f"{_KEY} bytes")


def _store(id_: bytes) -> None:
    if id_:
        _all([id_], ID)


def _text(text: str | None, most: int = _WORD) -> None:
    if text is not None and len(text) > most:
        raise RangeError("a text is too long", expected=f"at most {most} letters")


def _number(number: int | None, least: int = 0) -> None:
    if number is not None and not least <= number <= _LAST:
        raise RangeError("a number is out of range", expected=f"{least} to {_LAST}")


def _turn(number: int) -> None:
    """One that is too high is refused alone, and not all that came with it."""
    if not 0 <= number < 1 << 64:
        raise RangeError("a number is out of range", expected="0 to 2^64 - 1")


def _at_most(data: bytes, size: int) -> None:
    if len(data) > size:
        raise SchemaError("too many bytes", expected=f"at most {size}", found=str(len(data)))


def _namespaces(names: tuple[str, ...] | None) -> None:
    if names is not None:
        check_count(names, _NAMESPACES)
        for name in names:
            _text(name, _NAME)


def _position(value: Position | None) -> None:
    if value is not None:
        _number(value.seq)
        _at_most(value.mark, _MARK)


def _hello(value: Hello) -> None:
    _store(value.store)
    _namespaces(value.namespaces)


def _greeting(value: Greeting) -> None:
    _store(value.store)
    _number(value.version)
    _number(value.grains)
    _position(value.position)
    _position(value.seen)
    for digest in (value.keys, value.tombstones, value.holds, value.followed):
        _at_most(digest, _DIGEST)


def _range(value: Range) -> None:
    _number(value.count)
    _at_most(value.digest, _DIGEST)


def _item(value: Item) -> None:
    _all([value.key], _KEY)
    _at_most(value.version, _VERSION)
    _number(value.seq)


def _hold(value: HoldTurn) -> None:
    _text(value.authority, LONGEST)
    _text(value.reason_code)
    _turn(value.turn)
    _number(value.since)


def _state(value: GrainState) -> None:
    _all([value.address, *value.successors], _KEY)
    check_count(value.successors, _LISTED)
    check_count(value.holds, _LISTED)
    _number(value.valid_to, -_LAST)
    _turn(value.restricted)
    for hold in value.holds:
        _hold(hold)


def _tombstone(value: Tombstone) -> None:
    _all([value.mark], _KEY)
    _text(value.reason_code)
    _number(value.at)
    _number(value.times, 1)
    _at_most(value.hint, _HINT)


def _refusal(value: Refusal) -> None:
    _all([value.address], _KEY)
    _text(value.code)
    _text(value.rule)


def _batch(value: Batch) -> None:
    _store(value.store)
    _namespaces(value.namespaces)
    _position(value.until)
    _position(value.taken)
    for many in (value.grains, value.states, value.tombstones, value.withheld):
        check_count(many, GRAINS)
    check_count(value.rest, _LISTED)
    _places(value.rest)
    _at_most(value.followed, _DIGEST)
    for one in (*value.states, *value.tombstones, *value.withheld):
        check(one)


def _taken(value: Taken) -> None:
    for number in (
        value.stored,
        value.duplicates,
        value.states,
        value.tombstones,
        value.erased,
        value.unproven,
    ):
        _number(number)
    check_count(value.waiting, GRAINS)
    check_count(value.refused, 4 * GRAINS)
    _all(value.waiting, _KEY)
    check(value.refused)


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    Hello: _hello,
    Greeting: _greeting,
    Position: _position,
    Range: _range,
    Item: _item,
    HoldTurn: _hold,
    GrainState: _state,
    Tombstone: _tombstone,
    Refusal: _refusal,
    Batch: _batch,
    Taken: _taken,
}
