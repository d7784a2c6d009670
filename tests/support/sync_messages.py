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
    Reconciled,
    Refusal,
    Tombstone,
)
from omsgrain.sync.protocol import Changes, Get, Reconcile

KEY, STORE = b"k" * 32, b"s" * 16


STATE = GrainState(KEY, (KEY,), 5, "contested", 1, (HoldToggle("court", 1, "case", 7),))


BATCH = Batch(
    STORE, ("hall",), (), (STATE,), (Tombstone(KEY, 1, "asked"),), Position(1, b"m"), START,
    (Refusal("grain", KEY, "ERR_ERASED"),), (KEY,), True,
)  # fmt: skip


GREETING = Greeting(STORE, 2, START, 5, None, ("give",), b"", b"", b"")


GOOD: dict[str, tuple[Any, Any]] = {
    "greet": (Hello(STORE, ("hall",)), GREETING),
    "share": ((KEY,), (KEY, KEY)),
    "changes": (Changes(Position(3, b"m"), Hello(), 7), BATCH),
    "reconcile": (
        Reconcile("grains", b"a", Hello(), True, 1 << 16),
        Reconciled(b"a", KEY, KEY, (KEY,)),
    ),
    "lacking": ((KEY, KEY), b"\x00\x01"),
    "give": (Get("holds", (KEY,), Hello()), BATCH),
    "take": (BATCH, BatchResult(1, 2, 3, 4, 5, (Refusal("state", KEY, "ERR_KEY"),), (KEY,), 6)),
}
