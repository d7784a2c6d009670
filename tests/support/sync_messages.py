# SPDX-License-Identifier: Apache-2.0
"""One good message of each kind of a sync, and its answer."""

from __future__ import annotations

from typing import Any

from omsgrain.sync.peer import (
    START,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    HoldToggle,
    Position,
    Range,
    Refusal,
    SyncItem,
    Tombstone,
)
from omsgrain.sync.protocol import (
    Changes,
    Get,
    Missing,
    Ranges,
)

KEY, STORE = b"k" * 32, b"s" * 16


STATE = GrainState(KEY, (KEY,), 5, "contested", 1, (HoldToggle("court", 1, "case", 7),))


BATCH = Batch(
    STORE, ("hall",), (), (STATE,), (Tombstone(KEY, 1, "asked"),), Position(1, b"m"), START,
    (Refusal("grain", KEY, "ERR_ERASED"),), (KEY,), True,
)  # fmt: skip


GREETING = Greeting(STORE, 1, START, 5, None, ("give",), b"", b"", b"")


GOOD: dict[str, tuple[Any, Any]] = {
    "greet": (Hello(STORE, ("hall",)), GREETING),
    "share": ((KEY,), (KEY, KEY)),
    "changes": (Changes(Position(3, b"m"), Hello(), 7), BATCH),
    "ranges": (Ranges("grains", ("", "0f"), Hello()), (Range(1, b"d" * 16), Range(0, b""))),
    "listing": (Ranges("states", ("a",), Hello()), (SyncItem(KEY, b"v" * 8, 3),)),
    "lacking": (Missing("grains", (SyncItem(KEY),)), b"\x00\x01"),
    "give": (Get("holds", (KEY,), Hello()), BATCH),
    "take": (BATCH, BatchResult(1, 2, 3, 4, 5, (Refusal("state", KEY, "ERR_KEY"),), (KEY,), 6)),
}
