# SPDX-License-Identifier: Apache-2.0
"""The ``repr`` of reports: counts instead of long collections."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from reprlib import Repr
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = 70


def counted(report: DataclassInstance) -> str:
    """Return the ``repr`` of a report: collections as counts, other values shortened."""
    shown = []
    for field in fields(report):
        value = getattr(report, field.name)
        if isinstance(value, Collection) and not isinstance(value, str | bytes):
            shown.append(f"{field.name}: {len(value)}")
        elif hasattr(value, "__dataclass_fields__"):
            shown.append(f"{field.name}={counted(value)}")
        else:
            shown.append(f"{field.name}={_SHORT.repr(value)}")
    return f"<{type(report).__name__} {', '.join(shown)}>"
