# SPDX-License-Identifier: Apache-2.0
"""Bringing a store of an older format to the one of today, in one transaction.

1 -> 2    the table terms-0 is dropped; terms-1 and past-1 are made from the blobs. The tables
          of states, events and all else that came with format 2 begin empty.
2 -> 3    the tables of signatures, of sealed grains and of erasures begin empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lmdb

from omsgrain.store.environment import Environment
from omsgrain.store.recent import Recent
from omsgrain.store.tables import FORMAT, FORMAT_RECORD, FORMAT_VALUE, META
from omsgrain.store.turns import Session
from omsgrain.store.upkeep import rebuild
from omsgrain.store.writing import LmdbWriter

if TYPE_CHECKING:
    from lmdb import Transaction

__all__ = ["upgrade"]

_DROPPED = b"terms-0"


def upgrade(env: Environment) -> None:
    """Bring a store that is open for writing to the format of today.

    Raises:
        StoreError: no room on the disk, say; the store is as it was.
    """

    def run(txn: Transaction[bytes], session: Session) -> None:
        meta = env.tables[META]
        before = txn.get(FORMAT_RECORD, db=meta)
        if before == FORMAT_VALUE.pack(FORMAT):
            return  # another process was here before
        txn.put(FORMAT_RECORD, FORMAT_VALUE.pack(FORMAT), db=meta)
        if before != FORMAT_VALUE.pack(1):
            return
        writer = LmdbWriter(env, txn, session)
        rebuild(writer)
        try:
            old = env.file.env.open_db(
                _DROPPED, txn=txn, create=False, dupsort=True, dupfixed=True
            )
        except lmdb.NotFoundError:
            pass
        else:
            txn.drop(old)

        def done() -> None:
            env.recent = Recent(writer.head.watermark)

        session.after = done

    env.write(run, alone=True)
    env.file.format = FORMAT
