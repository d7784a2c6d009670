# SPDX-License-Identifier: Apache-2.0
"""Values of rule files: documents with some places changed, and long or odd values in short.

A change has ``set``, JSON pointers and their new values, and ``remove``, a list of pointers. The
pointer ``/-`` adds to an array, the empty pointer replaces the whole. In values,
``{"$repeat": [text, count]}`` is a long text, ``{"$bytes": base64}`` and ``{"$float": "nan"}`` are
what JSON cannot hold.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from omsgrain.json_values import revive

T = TypeVar("T")

_SHOWN = 40  # characters of a value


def value_of(written: Any) -> Any:
    """The value that a rule file means."""
    return revive(_repeated(written))


def _repeated(written: Any) -> Any:
    if isinstance(written, list):
        return [_repeated(inner) for inner in written]
    if not isinstance(written, dict):
        return written
    if set(written) == {"$repeat"}:
        text, count = written["$repeat"]
        return text * count
    return {key: _repeated(inner) for key, inner in written.items()}


def edited(document: T, change: Mapping[str, Any]) -> T:
    """A copy of the document with a change made."""
    document = copy.deepcopy(document)
    for pointer, written in change.get("set", {}).items():
        value = value_of(written)
        if not pointer:
            document = value
            continue
        inner, last = _place(document, pointer)
        if isinstance(inner, list) and last == "-":
            inner.append(value)
        else:
            inner[int(last) if isinstance(inner, list) else last] = value
    for pointer in change.get("remove", ()):
        inner, last = _place(document, pointer)
        del inner[int(last) if isinstance(inner, list) else last]
    return document


def _place(document: Any, pointer: str) -> tuple[Any, str]:
    """The object or array that holds the place, and the last part of its pointer."""
    *path, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document, last


def shown(change: Mapping[str, Any]) -> str:
    """A change in a few words, in the order in which it is written."""
    return ", ".join(_shown(change))


def _shown(change: Mapping[str, Any]) -> Iterator[str]:
    for name, places in change.items():
        if name == "set":
            for pointer, written in places.items():
                text = json.dumps(value_of(written), ensure_ascii=False)
                text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
                yield f"{pointer or 'the whole'}: {text}"
        elif name == "remove":
            yield from (f"{pointer}: missing" for pointer in places)
