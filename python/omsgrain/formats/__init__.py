# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats, to grains and back, without a store."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omsgrain.formats.document import Dump, Import, Loss, Vector
    from omsgrain.formats.problems import DocumentError, Problem
    from omsgrain.formats.table import FORMATS, dump, load, sniff

__all__ = [
    "FORMATS",
    "DocumentError",
    "Dump",
    "Import",
    "Loss",
    "Problem",
    "Vector",
    "dump",
    "load",
    "sniff",
]

_MODULES = {
    "FORMATS": "table",
    "dump": "table",
    "load": "table",
    "sniff": "table",
    "DocumentError": "problems",
    "Problem": "problems",
    "Dump": "document",
    "Import": "document",
    "Loss": "document",
    "Vector": "document",
}
"""The module of each name; every store imports this package, and needs none of them."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = globals()[name] = getattr(
            import_module(f"omsgrain.formats.{_MODULES[name]}"), name
        )
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
