# SPDX-License-Identifier: Apache-2.0
"""Asynchronous functions that call ordinary ones in a thread, so that no event loop waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


def in_thread(work: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make an asynchronous function of an ordinary one."""

    @wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(work, *args, **kwargs)

    return call


def in_thread_of(
    of: Callable[[S], T], verb: Callable[Concatenate[T, P], R]
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Make an asynchronous method of a method of another object, which ``of`` returns."""

    @wraps(verb)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        method: Callable[P, R] = getattr(of(self), verb.__name__)  # it may be overridden
        return await asyncio.to_thread(method, *args, **kwargs)

    return call
