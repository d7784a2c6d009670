# SPDX-License-Identifier: Apache-2.0
"""The data of other systems that stands beside the records of a document. Spec: MIF 2.0 §5.

Under the name of each system stands what it likes. Many have an object there whose keys are ids of
records. What is kept so of a record goes where the record goes: what one of them says would else
outlive what it is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["MEMBER", "OURS", "keys", "merged", "without"]

MEMBER: Final = "vendor_extensions"
OURS: Final = "omsgrain"
"""The system that is this one: what it says of itself is made anew."""


def keys(envelope: Mapping[str, Any]) -> set[str]:
    """All keys below the names of the systems, at any depth."""
    return set(_keys(_systems(envelope).values()))


def without(envelope: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """An envelope without what stands under some keys; the names of the systems are no such keys.

    Args:
        envelope: what stands around the records; it is not changed.
        gone: ids of records.
    """
    systems = _systems(envelope)
    if not systems or not gone:
        return dict(envelope)
    left = frozenset(gone)
    return {**envelope, MEMBER: {name: _without(one, left) for name, one in systems.items()}}


def merged(several: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of other systems from several envelopes; of two values of one key the later one."""
    whole: dict[str, Any] = {}
    for envelope in several:
        systems = {name: one for name, one in _systems(envelope).items() if name != OURS}
        whole = _together(whole, systems)
    return whole


def _systems(envelope: Mapping[str, Any]) -> dict[str, Any]:
    found = envelope.get(MEMBER)
    return found if isinstance(found, dict) else {}


def _keys(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield from value
            yield from _keys(value.values())
        elif isinstance(value, list):
            yield from _keys(value)


def _without(value: Any, gone: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, gone) for name, one in value.items() if name not in gone}
    if isinstance(value, list):
        return [_without(one, gone) for one in value]
    return value


def _together(one: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(one)
    for name, value in other.items():
        before = whole.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        whole[name] = _together(before, value) if both else value  # type: ignore[arg-type]
    return whole
