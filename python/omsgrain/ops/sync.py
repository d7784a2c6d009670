# SPDX-License-Identifier: Apache-2.0
"""Bring two stores together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from omsgrain.engine import GrainStore
from omsgrain.errors import UnsupportedError
from omsgrain.ops.opening import open_store
from omsgrain.store.memory import MemoryStore
from omsgrain.store.opening import prepare

if TYPE_CHECKING:
    from omsgrain.privacy import Purpose
    from omsgrain.sync.peer import Peer
    from omsgrain.sync.report import Direction, OnProgress, SyncReport

__all__ = ["open_peer", "sync"]


class _Given(TypedDict):
    purpose: Purpose
    policy: str | None
    actor: str | None


def open_peer(
    text: str,
    *,
    takes: bool = True,
    create: bool = False,
    purpose: Purpose = "move",
    policy: str | None = None,
    actor: str | None = None,
) -> Peer:
    """Open one side of a sync.

    Args:
        text: the path of a store.
        takes: it is to take something; else a store that cannot be written will do.
        create: make the store if there is none.
        purpose: why grains leave it.
        policy: a preset, or a file with rules.
        actor: who syncs, for the audit trail.

    Raises:
        UnsupportedError: nothing that can be synced.
        StoreError: no store, and ``create`` was not given.
    """
    from omsgrain.sync import LocalPeer

    scheme, mark, _ = text.partition("://")
    if mark:
        raise UnsupportedError(
            "no such kind of store", expected="the path of a store", found=f"{scheme}://"
        )
    path = Path(text)
    if not create:
        prepare(path, readonly=True)
    readonly = not takes and not os.access(path, os.W_OK)
    store = open_store(path, readonly=readonly, actor=actor, policy=policy)
    return LocalPeer(store, purpose=purpose, owned=True)


def sync(
    source: str,
    target: str,
    *,
    namespaces: Iterable[str] | None = None,
    direction: Direction = "both",
    full: bool = False,
    dry_run: bool = False,
    purpose: Purpose = "move",
    policy: str | None = None,
    actor: str | None = None,
    progress: OnProgress | None = None,
) -> SyncReport:
    """Bring two stores together; the target is made if it is not there.

    Args:
        source: one side, as ``open_peer`` takes it.
        target: the other.
        namespaces: only grains of these.
        direction: ``both``, ``push`` to the target, or ``pull`` from it.
        full: compare the stores, whatever is remembered.
        dry_run: only tell what would be done.
        purpose: why grains leave.
        policy: rules of both sides: a preset, or a file.
        actor: who syncs, for the audit trails.
        progress: called after each batch.

    Raises:
        OmsError: as ``omsgrain.sync.sync``.
    """
    from omsgrain import sync as syncing

    given: _Given = {"purpose": purpose, "policy": policy, "actor": actor}
    with ExitStack() as opened:
        left = opened.enter_context(closing(open_peer(source, takes=direction != "push", **given)))
        right: Peer
        if dry_run and direction != "pull" and not ("://" in target or os.path.lexists(target)):
            right = syncing.LocalPeer(GrainStore(MemoryStore()))  # all would be new to it
        else:
            takes = direction != "pull"
            right = opened.enter_context(
                closing(open_peer(target, takes=takes, create=takes and not dry_run, **given))
            )
        return syncing.sync(
            left,
            right,
            namespaces=namespaces,
            direction=direction,
            full=full,
            dry_run=dry_run,
            progress=progress,
        )
