# SPDX-License-Identifier: Apache-2.0
"""One environment a store in each process, however many handles; and what a fork does to it.

LMDB must not be opened twice in one process (its file locks belong to the process, and the first
close drops them), so handles on the same directory share one ``Environment`` and count its users.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from omsgrain.store import door
from omsgrain.store.budget import Budget
from omsgrain.store.environment import Environment
from omsgrain.store.opening import identity, prepare
from omsgrain.store.tables import FORMAT
from omsgrain.store.upgrade import upgrade

__all__ = ["acquire", "release"]

_shared: dict[tuple[int, int] | None, Environment] = {}
_lock = threading.RLock()  # re-entered when the garbage collector closes a handle inside


def acquire(
    path: Path, *, readonly: bool, durable: bool, patience: float, budget: Budget | None = None
) -> Environment:
    """Open the environment at the path, or share the one this process has open already.

    Raises:
        StoreError: there is no store and none can be made, or it cannot be opened.
    """
    budget = budget or Budget()
    with _lock:
        prepare(path, readonly=readonly)
        env = _shared.get(identity(path))
        if env is None:
            env = Environment(
                path, readonly=readonly, durable=durable, patience=patience, budget=budget
            )
            try:
                if env.file.format < FORMAT:
                    upgrade(env)
            except BaseException:
                env.close()
                raise
            _shared[env.identity] = env
        else:
            env.strengthen(readonly=readonly, durable=durable)
            env.budget = env.budget.tightened(budget)
        env.users += 1
        return env


def release(env: Environment) -> None:
    """Say that a handle is closed; the last one closes the files."""
    with _lock:
        if _shared.get(env.identity) is not env:
            return  # inherited over a fork: the parent's to close
        env.users -= 1
        if not env.users:
            try:
                env.close()
            finally:
                if env.closed:
                    del _shared[env.identity]


_still: list[Environment] = []  # those that stand still for the fork under way


def _before_fork() -> None:
    _lock.acquire()
    _still.extend(env for env in _shared.values() if env.before_fork())
    door.guard.acquire()


def _after_fork_in_parent() -> None:
    door.guard.release()
    for env in _still:
        env.after_fork_in_parent()
    _still.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    door.guard.release()
    for env in _shared.values():
        env.after_fork_in_child()
    _still.clear()
    _shared.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
