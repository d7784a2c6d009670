# SPDX-License-Identifier: Apache-2.0
"""Row M1: bytes of a first sync beside its grains.

Ours are all messages of the sync as they cross HTTP, compressed, without their grains: greeting,
sample, comparison, keys of grains, batches. The peer's are the messages of negentropy version 1
alone, by the oracle of the tests, whose messages equal those of the crate `negentropy`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import omsgrain as og
from benches import data
from benches.measure import Case, Plan, Row, check
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings
from omsgrain.sync import Batch, LocalPeer, protocol, sync
from omsgrain.sync.peer import FRAME, SIZE

ROOT = Path(__file__).resolve().parents[1]
NEW = 100
_REQUESTS: dict[str, Any] = {
    "changes": lambda since, hello, size=SIZE: protocol.Changes(since, hello, size),
    "reconcile": lambda space, message, hello, initiator: protocol.Reconcile(
        space, message, hello, initiator, FRAME
    ),
    "get": lambda kind, keys, hello: protocol.Get(kind, tuple(keys), hello),
}
"""Name of a method -> its arguments as a message; other methods have one argument."""


class Wire:
    """A peer whose messages are counted as they would cross HTTP, without their grains."""

    def __init__(self, inner: LocalPeer) -> None:
        self._inner = inner
        self.remote = True
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        def counted(*given: Any) -> Any:
            request = _REQUESTS.get(name)
            answer = call(*given)
            self._count(request(*given) if request else given[0])
            self._count(answer)
            return answer

        return counted

    def _count(self, value: Any) -> None:
        bare = replace(value, grains=()) if isinstance(value, Batch) else value
        self.bytes += len(protocol.pack(bare))


def _sides(plan: Plan, scattered: bool) -> tuple[list[data.Fields], list[data.Fields]]:
    """The grains of two stores that share all but a hundred each, in two orders."""
    grains = data.standard(plan.count + 2 * NEW)
    common, new = grains[: plan.count], grains[plan.count :]
    if scattered:
        random = Random(7)
        times = [data.START + random.randrange(plan.count) for _ in new]
        new = [{**one, "created_at": at} for one, at in zip(new, times, strict=True)]
    return [*common, *new[:NEW]], [*new[NEW:], *common]


def first_sync(scattered: bool, plan: Plan) -> Case:
    sys.path.append(str(ROOT / "tests"))
    import oracle_negentropy

    def store(grains: list[data.Fields]) -> og.GrainStore:
        made = og.GrainStore(MemoryStorage(), Settings(count_access=False))
        made.put_many(grains)
        return made

    def items(grains: list[data.Fields]) -> list[tuple[int, bytes]]:
        blobs = og.encode_many(grains).blobs
        addresses = [bytes.fromhex(one) for one in og.address_many(blobs)]
        times = [one["created_at"] for one in grains]
        return list(zip(times, addresses, strict=True))

    left, right = _sides(plan, scattered)
    robot, hub = store(left), store(right)
    wire: Any = Wire(LocalPeer(hub))
    report = sync(LocalPeer(robot), wire)
    check(report.sent.compared and not report.refused, "the stores were compared")
    check((report.sent.grains, report.received.grains) == (NEW, NEW), "only new grains crossed")
    check(len(robot) == len(hub) == plan.count + 2 * NEW, "both have all")
    have, need, size, _ = oracle_negentropy.run(items(left), items(right))
    check(len(have) == len(need) == NEW, "negentropy finds the same")
    return Case(lambda: float(wire.bytes), lambda: float(size))


def _row(name: str, scattered: bool) -> Row:
    times = "at times among the others" if scattered else "the newest"
    return Row(
        name,
        f"first sync of two stores that share 20,000 grains, with {NEW} others each, {times}: "
        "bytes beside the grains",
        "negentropy version 1, its messages alone",
        1 / 1.2,
        partial(first_sync, scattered),
        count=20_000,
        unit="B",
    )


ROWS = (_row("M1", False), _row("M1-scattered", True))
