# SPDX-License-Identifier: Apache-2.0
"""Transactions on the tables beside those of a store.

They have connections of their own: a search asks here while it keeps a snapshot of the store, and
if all of those were kept by others that wait for the same, nobody would go on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import psycopg

from omsgrain.store.postgres.database import Database, Pause
from omsgrain.store.postgres.failures import failure, is_broken, is_clash
from omsgrain.store.postgres.upkeep import compact

if TYPE_CHECKING:
    from omsgrain.store.postgres.pool import Connection

__all__ = ["Sessions"]

T = TypeVar("T")

_CONNECTIONS = 4

# The pool's plans are made without values, and look up keys; a search is worth one of its own, and
# the index of words gives bitmaps. The newest rows come by their own index, and are not sorted: a
# store may have more of them than the planner thinks.
_PLANS = (
    "SET LOCAL plan_cache_mode = force_custom_plan",
    "SET LOCAL enable_bitmapscan = on",
    "SET LOCAL enable_sort = off",
)


class Sessions:
    """Connections to the database of a store.

    Args:
        database: the database.
        store_id: the number of the store.

    Attributes:
        store_id: the number of the store.
        place: the database, for errors.
        parts: it keeps what was deleted, and samples, unless it is told not to.
        policies: it keeps tenants apart by row-level security.
    """

    def __init__(self, database: Database, store_id: int) -> None:
        self._database = database.twin(_CONNECTIONS)
        self._let_go = weakref.finalize(self, self._database.close)
        self.store_id = store_id
        self.place = database.place
        self.parts = database.engine.parts
        self.policies = database.engine.policies

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a snapshot.

        Raises:
            StoreError: the database refuses something, or is away for too long.
        """
        return self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction, again after each clash and while the server is away.

        What it does must be the same when it is done twice: the answer to a commit can be lost.

        Raises:
            StoreError: the database refuses something, or is away for too long.
        """
        return self._run("BEGIN ISOLATION LEVEL READ COMMITTED", work)

    def _run(self, begin: str, work: Callable[[Connection], T]) -> T:
        database = self._database
        pause = Pause(database.patience)
        opening = (begin, *(_PLANS if database.engine.tuned else ()))
        while True:
            wire, _ = database.begin(*[(text, ()) for text in opening])
            try:
                connection = wire.plain()
                result = work(connection)
                connection.execute("COMMIT")
            except psycopg.Error as error:
                closed = wire.closed
                database.end(wire)
                if is_broken(error, closed):
                    database.pool.drop()
                elif not is_clash(error):
                    raise failure(self.place, "use the text index", error) from None
                if not pause.take():
                    raise failure(self.place, "use the text index", error) from None
            except BaseException:
                database.end(wire)
                raise
            else:
                database.end(wire, None)
                return result

    def rewrite(self, table: str) -> None:
        """Have a table written anew, without what was deleted, where the engine does not itself.

        Raises:
            StoreError: the role does not own it, or an older transaction keeps what was deleted.
        """
        self._database.check_open()
        if self.parts:
            compact(self._database, [table])

    def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        self._let_go()
