# SPDX-License-Identifier: Apache-2.0
"""``GrainStore``, the one object that users hold, and ``open``, which gives it."""

from __future__ import annotations

import os
from typing import Literal

from omsgrain.engine.care import Care
from omsgrain.engine.moving import Moving
from omsgrain.engine.putting import BATCH, PutReport
from omsgrain.engine.reading import Change, Reading
from omsgrain.errors import SchemaError, UnsupportedError

__all__ = ["BATCH", "Change", "GrainStore", "PutReport", "open"]


class GrainStore(Reading, Moving, Care):
    """Grains by content address, in order of arrival.

    A context manager; any thread may use it. In a forked child it refuses: open the store there.

    Args:
        store: where the blobs are kept; ``omsgrain.open`` gives one on disk.
    """


def open(
    path: str | os.PathLike[str],
    *,
    keys: None = None,
    readonly: bool = False,
    durability: Literal["commit", "relaxed"] = "commit",
) -> GrainStore:
    """Open the store at a path, a directory such as ``memory.omsg``; make it if it is not there.

    Opening a store again in the same process shares it; any number of processes may read, and
    writers take turns.

    Args:
        path: the directory; its parent must exist.
        keys: for encrypted grains, which this version does not know: must be None.
        readonly: refuse to write, and do not make a store.
        durability: ``commit``: what is put is on the disk when the call returns. ``relaxed``: the
            operating system has it then, much sooner; a killed process loses nothing, but a power
            cut can cost what was put since the last ``sync`` or ``close``, and in the worst case
            the whole store.

    Raises:
        StoreError: not a store, of a newer format, missing, or no permission.
        UnsupportedError: ``keys`` were given.
    """
    from omsgrain.store.lmdb import LmdbStore

    if keys is not None:
        raise UnsupportedError("this version stores no encrypted grains", expected="keys=None")
    if durability not in ("commit", "relaxed"):
        raise SchemaError("unknown durability", expected='"commit" or "relaxed"')
    return GrainStore(LmdbStore(path, readonly=readonly, durability=durability))
