# SPDX-License-Identifier: Apache-2.0
"""Bringing grains into a transaction, sealed if they must be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from omsgrain.engine.base import Base, Settings
from omsgrain.engine.incoming import Incoming, KeysMovedError, incoming
from omsgrain.errors import KeyMissingError, StoreError
from omsgrain.intake import Intake
from omsgrain.store import tombstones
from omsgrain.store.base import Writer

__all__ = ["TRIES", "Bringing", "refuse_moved"]

T = TypeVar("T")

TRIES = 100
"""Times that keys may be destroyed between sealing and storing."""


class Bringing(Base):
    """The part of a GrainStore that stands between what is given and a transaction with it."""

    def _bring(
        self,
        intake: Intake,
        work: Callable[[Writer, Incoming], T],
        *,
        allow_erased: bool = False,
    ) -> T:
        """Seal what must be, and run a transaction with it; again if keys were destroyed."""
        if self._store.readonly:  # before a key is made for nothing
            raise StoreError("the store is open for reading only")
        for _ in range(TRIES):
            gone = set() if allow_erased else self._erased(intake)
            given = incoming(self._settings, intake, gone)
            try:
                return self._store.write(
                    partial(self._with_keys, given, work),
                    expecting=[digest for digest, _ in given.pairs],
                )
            except KeysMovedError:
                continue
        raise KeyMissingError("keys are destroyed as fast as they are made")

    def _erased(self, intake: Intake) -> set[int]:
        """Positions of what was erased before; asked here only to make no key for it."""
        if self._settings.keys is None:
            return set()
        places = [i for i, pair in enumerate(intake.pairs) if pair is not None]
        digests = [pair[0] for pair in intake.pairs if pair is not None]
        with self._below.read() as reader:
            return {places[n] for n in tombstones.refused(reader, digests)}

    def _with_keys(self, given: Incoming, work: Callable[[Writer, Incoming], T], w: Writer) -> T:
        refuse_moved(self._settings, given)
        return work(w, given)


def refuse_moved(settings: Settings, given: Incoming) -> None:
    """Refuse in a transaction what was sealed with keys that may be destroyed by now.

    Raises:
        KeysMovedError: keys were destroyed since.
    """
    if given.sealed and settings.keys is not None:
        if settings.keys.generation != given.generation:
            raise KeysMovedError
