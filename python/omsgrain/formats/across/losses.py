# SPDX-License-Identifier: Apache-2.0
"""What a format did not hold of an item: what it said before, and does not say when read again.

So a loss is never forgotten, and none is told that is not one: nobody writes down what a format
cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from omsgrain.formats import model
from omsgrain.formats.across.shaping import Shape, said
from omsgrain.formats.across.spelling import in_utc

__all__ = ["Told", "added", "equal", "lost"]

_MISSING: Final = object()
_OF_THE_FORMAT = frozenset(("source_kind", "target_kind", "kind"))
_NOT_MADE_UP = _OF_THE_FORMAT | {"id", "rest", "external", "entities", "of"}
_FOLLOWS: Final = {
    "importance": ("priority",),
    "priority": ("importance",),
    "dimensions": ("vector",),
}
"""What only says in another word what these attributes say."""


class Told(NamedTuple):
    """How a format names what is lost of it.

    Attributes:
        elsewhere: attributes that are no member of the record, by where they stand.
        implied: attributes that only follow from others.
    """

    elsewhere: Mapping[str, str]
    implied: frozenset[str] = frozenset()


def lost(
    item: model.Part, back: Any, shape: Shape | None, told: Told, to: str
) -> Iterator[tuple[str, str]]:
    """The fields of an item that are lost, by the names of their own format, each with why.

    Args:
        item: what there was; its ids as they are in the other format.
        back: what is read of what was written; None if nothing was.
        shape: what its own format calls the attributes; None if they are its members.
        told: how its own format names the rest of them.
        to: what the other format is called.
    """
    within_it = Told({}, told.implied)
    for one in fields(item):
        value = getattr(item, one.name)
        if one.name in _OF_THE_FORMAT or one.name in told.implied or not said(value):
            continue
        if one.name == "rest":
            for name in value:
                yield name, f"{to} has no place for it"
            continue
        if one.name == "id" and isinstance(item, model.Item):
            # What became of it is told where it is given; some have none that stands anywhere.
            if back is not None or shape is None or shape.member("id") is None:
                continue
        again: Any = getattr(back, one.name, _MISSING)
        if equal(value, again):
            continue
        member = shape.member(one.name) if shape is not None else None
        name = member or told.elsewhere.get(one.name) or one.name
        inner = None if shape is None else shape.inner(one.name)
        if back is None:
            yield name, f"{to} has no such record"
        elif isinstance(value, model.Part) and isinstance(again, model.Part):
            for within, why in lost(value, again, inner, within_it, to):
                yield f"{name}/{within}", why
        elif _are_parts(value) and _are_parts(again) and len(value) == len(again):
            for i, (was, is_) in enumerate(zip(value, again, strict=True)):
                for within, why in lost(was, is_, inner, within_it, to):
                    yield f"{name}/{i}/{within}", why
        elif said(again) and again is not _MISSING:
            yield name, f"{to} says it in another way, which is not as exact"
        else:
            yield name, f"{to} has no place for it"


def added(item: model.Part, back: Any, shape: Shape | None, told: Told) -> Iterator[str]:
    """The fields that a format says of an item and nothing said before, by its own names.

    Args:
        item: what there was.
        back: what is read of what was written; None if nothing was.
        shape: what the format calls the attributes of what was written.
        told: how it names the rest of them.
    """
    if not isinstance(back, model.Part):
        return
    for one in fields(back):
        value, before = getattr(back, one.name), getattr(item, one.name, _MISSING)
        if one.name in _NOT_MADE_UP or one.name in told.implied or before is _MISSING:
            continue
        name = (shape.member(one.name) if shape else None) or told.elsewhere.get(one.name)
        name = name or one.name
        if not said(before) or (value != before and _is_no_time(one.name, before)):
            follows = any(said(getattr(item, of, None)) for of in _FOLLOWS.get(one.name, ()))
            if said(value) and not follows:
                yield name
            continue
        inner = None if shape is None else shape.inner(one.name)
        parts = (before,), (value,)
        if isinstance(value, tuple) and isinstance(before, tuple) and len(value) == len(before):
            parts = before, value
        for was, is_ in zip(*parts, strict=True):
            if isinstance(was, model.Part) and type(was) is type(is_):
                yield from (f"{name}/{within}" for within in added(was, is_, inner, told))


def _is_no_time(name: str, value: Any) -> bool:
    """Whether a time is none, such as "yesterday", so that another one stands there instead."""
    return name == "created_at" and isinstance(value, str) and in_utc(value) is None


def equal(one: Any, other: Any) -> bool:
    """Whether two values say the same; numbers do if they are equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, model.Part):
        return type(one) is type(other) and all(
            equal(getattr(one, f.name), getattr(other, f.name))
            for f in fields(one)
            if said(getattr(one, f.name)) or f.name == "rest"
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _are_parts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, model.Part) for one in value)
