# SPDX-License-Identifier: Apache-2.0
"""Rules broken on purpose: the code that enforces them is replaced.

A mutant names what is replaced, by what, and which rules are then tried; they stand in
``mutants_oms.py`` and ``mutants_formats.py``. The core is wrapped where it refuses; what it makes
wrong itself is broken in its source, by ``mutate_core.py``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.mif_ld.schema import target

__all__ = ["Mutant", "always", "deaf", "drop", "forget_schemas", "instead", "nothing", "reader",
           "rewritten", "schema", "strip", "writer"]  # fmt: skip

_HEADER = (1, 0, 1, 0, 0)


class Mutant(NamedTuple):
    """One thing that is broken.

    Attributes:
        name: in short.
        targets: what is replaced, by its full name.
        make: gives the broken one for the real one.
        tried: the rules that are tried, or what their ids begin with, with blanks between.
        fails: those of them that must fail, all and no others.
        clear: caches that must be emptied before and after.
    """

    name: str
    targets: tuple[str, ...]
    make: Callable[[Any], Any]
    tried: str
    fails: str
    clear: Callable[[], object] = lambda: None


def nothing(real: Any) -> Any:
    """A function that does nothing."""
    return lambda *_, **__: None


def always(value: Any) -> Callable[[Any], Any]:
    """A function that always gives the same."""
    return lambda real: lambda *_, **__: value


def instead(value: Any) -> Callable[[Any], Any]:
    """Another constant."""
    return lambda real: value


def reader(words: str) -> Callable[[Any], Any]:
    """A reader of blobs that takes what the core refuses in these words."""

    def make(real: Any) -> Any:
        def lax(blob: bytes, *rest: Any) -> Any:
            try:
                return real(blob, *rest)
            except OmsError as error:
                if re.search(words, error.message) is None:
                    raise
                return _HEADER if real.__name__ == "verify" else (_HEADER, "belief", [])

        return lax

    return make


def writer(code: str) -> Callable[[Any], Any]:
    """A writer that takes what the core refuses by a code."""

    def make(real: Any) -> Any:
        def lax(fields: Any, options: Any = None) -> Any:
            try:
                return real(fields) if options is None else real(fields, options)
            except OmsError as error:
                if error.code != code or options is None:
                    raise
                return _BELIEF, []

        return lax

    return make


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Any], Any]:
    """A writer whose blobs are changed."""

    def make(real: Any) -> Any:
        def wrong(fields: Any, options: Any = None) -> Any:
            if options is None:
                blob = real(fields)
                return None if blob is None else change(blob)
            blob, notes = real(fields, options)
            return change(blob), notes

        return wrong

    return make


def deaf(rule: str, place: str = "") -> Callable[[Any], Any]:
    """A checker that does not hear one rule, in places that match."""

    def make(real: Any) -> Any:
        def wrong(self: Any, name: str, pointer: str, *rest: Any, **more: Any) -> None:
            if name != rule or re.search(place, pointer) is None:
                real(self, name, pointer, *rest, **more)

        return wrong

    return make


def schema(file: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Any], Any]:
    """Another schema of MIF in JSON-LD."""

    def make(real: Any) -> Any:
        def load(name: str) -> Any:
            whole = copy.deepcopy(real(name))
            if name == file:
                change(whole)
            return whole

        return load

    return make


def forget_schemas() -> None:
    """References are followed once."""
    target.cache_clear()


_BELIEF = _core.encode(
    {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 0.5,
     "created_at": 0},
    ("msgpack", False, 0, False, None, "extended"),
)[0]  # fmt: skip


def strip(whole: Any, name: str, keyword: str) -> None:
    """Take a keyword away wherever a member of that name has it."""
    if isinstance(whole, dict):
        held = whole.get(name)
        if isinstance(held, dict):
            held.pop(keyword, None)
        for inner in whole.values():
            strip(inner, name, keyword)
    elif isinstance(whole, list):
        for inner in whole:
            strip(inner, name, keyword)


def drop(*way: str) -> Callable[[dict[str, Any]], object]:
    """A change of a schema: the value at a place is removed."""

    def change(whole: dict[str, Any]) -> object:
        for step in way[:-1]:
            whole = whole[step]
        return whole.pop(way[-1])

    return change
