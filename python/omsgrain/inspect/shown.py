# SPDX-License-Identifier: Apache-2.0
"""One grain explained for a reader, with long values cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import omsgrain as og
from omsgrain.errors import OmsError
from omsgrain.inspect.explain import explain
from omsgrain.json_values import time_text
from omsgrain.query.envelope import gist, standing

if TYPE_CHECKING:
    from omsgrain.storage.records import GrainStatus

FAILURES: Final = 200
"""The most problems that a page lists."""

_LINE: Final = 160  # characters of a grain's content, in a list
_TEXT: Final = 2_000  # characters of a text, in a value
_ITEMS: Final = 50  # of a list or a map
_DEEP: Final = 6
_DUMP: Final = 1_024  # bytes of a blob
_CUT: Final = "…"


def said(grain: og.Grain) -> str:
    try:
        text = gist(grain)
    except OmsError:
        return "(not readable)"
    return text if len(text) <= _LINE else text[: _LINE - 1] + _CUT


def shown(
    source: og.Grain | bytes,
    state: GrainStatus | None = None,
    signers: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return a grain, its header and its fields with their offsets, as JSON-ready values."""
    it = explain(source, lenient=True)
    values = it.to_dict()
    for part in values["fields"]:
        part["value"] = _clipped(part["value"], _DEEP)
    grain = source if isinstance(source, og.Grain) else None
    header = og.read_header(it.blob)
    return {
        **values,
        "says": "(not readable)" if grain is None else said(grain),
        "sealed": grain is not None and grain.sealed,
        "made": time_text(header.created_at * 1000),
        "sensitivity": header.sensitivity,
        "standing": None if state is None else standing(state),
        "state": None if state is None else _state(state),
        "signers": list(signers),
        "dump": it.blob[:_DUMP].hex(),
    }


def _state(state: GrainStatus) -> dict[str, Any]:
    values = asdict(state)
    values["successors"] = list(state.successors)
    for name in ("system_valid_to", "last_accessed_at"):
        if values[name] is not None:
            values[name] = time_text(values[name])
    return values


def _clipped(value: Any, deep: int) -> Any:
    """Return the value with long texts, long lists and deep values cut, each marked."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else value[:_TEXT] + _CUT
    if not isinstance(value, (list, dict)):
        return value
    if deep == 0:
        return _CUT
    if isinstance(value, list):
        kept = [_clipped(inner, deep - 1) for inner in value[:_ITEMS]]
        return kept if len(value) <= _ITEMS else [*kept, _CUT]
    pairs = list(value.items())
    cut = {_clipped(key, 1): _clipped(inner, deep - 1) for key, inner in pairs[:_ITEMS]}
    return cut if len(pairs) <= _ITEMS else {**cut, _CUT: _CUT}


def failure(name: str, error: OmsError) -> dict[str, Any]:
    return {"name": name, **error.to_dict()}


def moment(seconds: int | None) -> str | None:
    return None if seconds is None else time_text(seconds * 1000)
