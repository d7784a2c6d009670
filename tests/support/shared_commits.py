# SPDX-License-Identifier: Apache-2.0
"""Works of several threads that PostgreSQL gets in one commit."""

from __future__ import annotations

import threading
from collections.abc import Callable

from omsgrain.storage.base import Writer
from omsgrain.storage.postgres import PostgresStorage
from omsgrain.storage.postgres.writer import PostgresWriter

__all__ = ["shared"]


def shared(store: PostgresStorage, *works: Callable[[PostgresWriter], object]) -> list[object]:
    """Have works share a commit; return what each returned or raised."""
    inside, go_on = threading.Event(), threading.Event()
    outcomes: list[object] = [None] * len(works)

    def hold(writer: Writer) -> None:
        inside.set()
        assert go_on.wait(20)

    def write(n: int) -> None:
        try:
            outcomes[n] = store.write(works[n])
        except Exception as error:
            outcomes[n] = error

    threads = [threading.Thread(target=store.write, args=(hold,))]
    threads[0].start()
    assert inside.wait(20)
    for n in range(len(works)):
        threads.append(threading.Thread(target=write, args=(n,)))
        threads[-1].start()
    while len(store._queue.queue._waiting) < len(works):
        pass
    go_on.set()
    for thread in threads:
        thread.join()
    return outcomes
