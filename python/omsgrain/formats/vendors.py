# SPDX-License-Identifier: Apache-2.0
"""The data of other systems that stands beside the records of a document. Spec: MIF 2.0 §5.

Under the name of each system stands what it likes. Many have an object there whose keys are ids of
records. What is kept so of a record goes where the record goes: what one of them says would else
outlive what it is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["MEMBER", "OURS", "keys", "merged", "together", "without"]

MEMBER: Final = "vendor_extensions"
OURS: Final = "omsgrain"
"""The system that is this one."""
_GRAINS: Final = "grains"


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
    """What stands there in several envelopes; of two values of one key the later one.

    Grains that went along are left out: they are what they are, and not what somebody says.
    """
    whole: dict[str, Any] = {}
    for envelope in several:
        systems = dict(_systems(envelope))
        own = systems.pop(OURS, None)
        if isinstance(own, dict) and (rest := {k: v for k, v in own.items() if k != _GRAINS}):
            systems[OURS] = rest
        whole = together(whole, systems)
    return whole


def together(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two objects as one, at all depths; of two values of one key the other's."""
    whole = dict(one)
    for name, value in other.items():
        before = whole.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = together(before, value)
        whole[name] = value
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
