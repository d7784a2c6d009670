# SPDX-License-Identifier: Apache-2.0
"""Change what is thought of a grain: supersede, mark, hold, delete; and see its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from omsgrain.errors import FormatError
from omsgrain.json_values import parsed
from omsgrain.ops.opening import open_store, writable
from omsgrain.storage.location import Where

JSON_LIMIT = 16 << 20
"""Bytes of JSON read for one grain: far more than the largest grain can need."""


def fields_of(text: bytes) -> dict[str, Any]:
    """Read the fields of one grain from JSON."""
    if len(text) > JSON_LIMIT:
        raise FormatError("too large for one grain", expected=f"at most {JSON_LIMIT} bytes")
    try:
        value = parsed(text)
    except (ValueError, RecursionError) as error:
        raise FormatError("not JSON", line=getattr(error, "lineno", None)) from None
    if not isinstance(value, dict):
        raise FormatError("not the fields of a grain", expected="one JSON object")
    return value


def supersede(
    store: Where,
    old: str,
    fields: Mapping[str, Any],
    *,
    justification: str | None = None,
    actor: str | None = None,
) -> str:
    """Put a grain in the place of another; errors are those of ``GrainStore.supersede``."""
    with writable(store, actor) as grains:
        return grains.supersede(old, dict(fields), justification=justification)


def mark(
    store: Where, address: str, status: Any, *, reason: str | None = None, actor: str | None = None
) -> None:
    """Set the verification status; errors are those of ``GrainStore.set_verification``."""
    with writable(store, actor) as grains:
        grains.set_verification(address, status, reason=reason)


def delete(
    store: Where, address: str, *, reason: str | None = None, actor: str | None = None
) -> None:
    """Take a grain out, with what documents keep of it; errors as ``GrainStore.delete``."""
    from omsgrain.ops import removing

    with writable(store, actor) as grains:
        removing.delete(grains, address, reason=reason)


def hold(
    store: Where, address: str, *, authority: str, reason_code: str, actor: str | None = None
) -> None:
    """Hold a grain; errors are those of ``GrainStore.hold``."""
    with writable(store, actor) as grains:
        grains.hold(address, authority=authority, reason_code=reason_code)


def release(
    store: Where, address: str, *, authority: str, reason_code: str, actor: str | None = None
) -> None:
    """End a hold; errors are those of ``GrainStore.release``."""
    with writable(store, actor) as grains:
        grains.release(address, authority=authority, reason_code=reason_code)


def state(store: Where, address: str) -> dict[str, Any]:
    """What became of a grain, and who holds it, as JSON-ready values."""
    with open_store(store, readonly=True) as grains:
        found = asdict(grains.state(address))
        held = [asdict(hold) for hold in grains.holds(address)]
        return {**found, "successors": list(found["successors"]), "holds": held}


def reviews(store: Where) -> list[dict[str, Any]]:
    """What waits for a review, oldest first, as JSON-ready values."""
    with open_store(store, readonly=True) as grains:
        return [asdict(review) for review in grains.reviews()]


def reviewed(store: Where, number: int, *, actor: str | None = None) -> None:
    """Take a review off the list."""
    with writable(store, actor) as grains:
        grains.reviewed(number)
