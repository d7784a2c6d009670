# SPDX-License-Identifier: Apache-2.0
"""A store of each kind, plain and with keys, for what must work on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store.context import Settings, now
from support.store_kinds import POSTGRES, SEALED_POSTGRES, made

#: For `params`; LMDB waits for no disk here.
PLAIN_AND_SEALED = [
    "memory",
    "lmdb",
    "sealed memory",
    "sealed lmdb",
    POSTGRES,
    SEALED_POSTGRES,
]


@contextmanager
def opened(kind: str, path: Path, clock: Callable[[], int] = now) -> Iterator[og.GrainStore]:
    with ExitStack() as stack:
        keys = None
        if "sealed" in kind:
            keys = stack.enter_context(KeyRing.create(path / "x.keys", master=bytes(32)))
        file = path / "m.omsg"
        storage = LmdbStorage(file, durable=False) if "lmdb" in kind else made(kind, file)
        settings = Settings(keys=keys, clock=clock)
        yield stack.enter_context(og.GrainStore(storage, settings))
