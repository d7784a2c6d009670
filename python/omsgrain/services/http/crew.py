# SPDX-License-Identifier: Apache-2.0
"""Several processes that serve one address: workers, and one that looks after them.

The one that was started listens and serves nothing. Workers are forked from it before it has
opened a store or started a thread, so each has a store, threads and an event loop of its own, and
the system gives every connection to one of them. A worker that dies is replaced; one that cannot
even begin ends them all, and tells why. A signal goes on to the workers, each of which ends as a
server alone would. So they do when the one that looks after them is gone: each has the end of a
pipe whose other end only that one has.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.services.log import Log

__all__ = ["of"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def of(count: int, ready: Callable[[], None], log: Log) -> Callable[[], None] | None:
    """Make workers, and look after them.

    Args:
        count: how many.
        ready: called once, when the first worker listens.
        log: where it is told that a worker began, or died.

    Returns:
        In a worker, what it calls when it listens. None where all is over.

    Raises:
        StoreError: a worker ended before it listened.
        UnsupportedError: the system cannot fork.
    """
    if not hasattr(os, "fork"):
        raise UnsupportedError("several workers need a system with fork", expected="--workers 1")
    return _Crew(ready, log).keep(count)


class _Crew:
    """The workers of this process."""

    def __init__(self, ready: Callable[[], None], log: Log) -> None:
        self._ready = ready
        self._log = log
        self._workers: set[int] = set()
        self._ending = False
        self._alive = os.pipe()  # nothing is ever written to it

    def keep(self, count: int) -> Callable[[], None] | None:
        before = {handled: signal.signal(handled, self._stop) for handled in _SIGNALS}
        try:
            while not self._ending:
                if len(self._workers) == count:
                    self._wait()
                elif (told := self._hire()) is not None:
                    return told
            while self._workers:
                self._wait()
            return None
        finally:
            for handled, handler in before.items():
                signal.signal(handled, handler)
            os.close(self._alive[1])

    def _hire(self) -> Callable[[], None] | None:
        """Fork a worker and wait until it listens; in the worker return what says so."""
        reading, writing = os.pipe()
        # A signal between the fork and the note of it would not reach the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        worker = os.fork()
        if not worker:
            self._workers = set()
            os.close(reading)
            for handled in _SIGNALS:  # until it serves, a signal ends it
                signal.signal(handled, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return _Told(writing, self._alive[0])
        self._workers.add(worker)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(writing)
        with open(reading, "rb") as pipe:
            listens = bool(pipe.read(1))
        if listens:
            self._log.write("worker", began=worker)
            self._ready()
            self._ready = _nothing
        elif not self._ending:
            self._stop()
            while self._workers:
                self._wait()
            raise StoreError("a worker ended before it served")
        return None

    def _wait(self) -> None:
        worker, status = os.wait()
        self._workers.discard(worker)
        if not self._ending:
            self._log.write("worker", ended=worker, code=os.waitstatus_to_exitcode(status))

    def _stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """Let all workers end: those at work go on for the grace."""
        self._ending = True
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)


class _Told:
    """Says once that the worker listens, and from then on ends it when nobody looks after it."""

    def __init__(self, pipe: int, alive: int) -> None:
        self._pipe = pipe
        self._alive = alive

    def __call__(self) -> None:
        os.write(self._pipe, b"1")
        os.close(self._pipe)
        asyncio.get_running_loop().add_reader(self._alive, self._left)

    def _left(self) -> None:
        asyncio.get_running_loop().remove_reader(self._alive)
        os.kill(os.getpid(), signal.SIGTERM)


def _nothing() -> None:
    """Nobody has to be told a second time."""
