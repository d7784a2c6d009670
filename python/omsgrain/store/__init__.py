# SPDX-License-Identifier: Apache-2.0
"""``GrainStore``, and ``open``, which opens one."""

from __future__ import annotations

from omsgrain.store.open_store import open, restore
from omsgrain.store.read import Change
from omsgrain.store.store import GrainStore
from omsgrain.store.write import BATCH, PutReport

__all__ = [
    "BATCH",
    "Change",
    "GrainStore",
    "PutReport",
    "open",
    "restore",
]


def __dir__() -> list[str]:
    return __all__
