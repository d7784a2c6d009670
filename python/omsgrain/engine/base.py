# SPDX-License-Identifier: Apache-2.0
"""What every part of a GrainStore stands on: the store below, how it was opened, letting go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from omsgrain.engine.access import Access
from omsgrain.errors import StoreError
from omsgrain.store.base import Store, Writer
from omsgrain.store.budget import Budget

if TYPE_CHECKING:
    from omsgrain.crypto import Resolver
    from omsgrain.crypto.keyring import KeyRing
    from omsgrain.engine.required import Required
    from omsgrain.privacy import Preset

__all__ = ["Base", "Settings", "now"]

Self = TypeVar("Self", bound="Base")
T = TypeVar("T")


def now() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a handle on a store behaves.

    Attributes:
        actor: who acts, for the audit trail: a DID, a user, a service.
        preset: rules for what is put, deleted and exported.
        hold_authorities: DIDs whose signature makes a hold inside a grain binding; if there are
            none, every such hold binds. Where there are some, they alone end holds from outside.
        erasure_authorities: DIDs whose signature makes an order to erase that comes from outside
            count; if there are none, whoever syncs may bring one.
        delegation: whether what a delegating goal allows is checked.
        count_access: whether reads are counted.
        audit: whether writes are noted in the audit trail.
        clock: gives the time in ms since 1970.
        keys: what seals grains of users, and opens them.
        plain: store users' grains in the clear, though the store has sealed grains.
        require: which grains the store takes only signed.
        resolver: finds the keys of signers whose DIDs do not hold them.
        budget: how much memory the parts may take.
    """

    actor: str | None = None
    preset: Preset | None = None
    hold_authorities: frozenset[str] = frozenset()
    erasure_authorities: frozenset[str] = frozenset()
    delegation: bool = False
    count_access: bool = True
    audit: bool = True
    clock: Callable[[], int] = now
    keys: KeyRing | None = None
    plain: bool = False
    require: Required | None = None
    resolver: Resolver | None = None
    budget: Budget = field(default_factory=Budget)


class Base:
    """A handle on a store.

    Args:
        store: where the blobs are kept; ``omsgrain.open`` gives one on disk.
        settings: how it behaves.
    """

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._below = store
        self._store = store
        if self._settings.keys is not None:
            from omsgrain.store.sealed import SealedStore

            self._store = SealedStore(store, self._settings.keys)
        self._access = Access(self._settings.budget.counts)
        self._counts = self._settings.count_access and not store.readonly

    def _count_reads(self, digests: Sequence[bytes]) -> None:
        """Count reads by a user, where they are counted."""
        if self._counts and self._access.count(digests, self._settings.clock()):
            self._write_counts()

    def _write_counts(self) -> None:
        """Write the counts that have gathered; what cannot be written now is written later."""
        if not self._access.take():
            return
        done = False
        try:
            self._store.write(self._access.write)
            done = True
        except StoreError:
            pass  # reading must not fail because its count cannot be written
        finally:
            self._access.written(done)

    def _note(
        self,
        writer: Writer,
        operation: str,
        digests: Sequence[bytes],
        *,
        reason_code: str | None = None,
        note: str | None = None,
        details: Mapping[str, int | str] | None = None,
        actor: str | None = None,
    ) -> None:
        """Add an entry to the audit trail, in the transaction of what it tells of."""
        if not self._settings.audit:
            return
        from omsgrain.store import audit

        audit.append(
            writer,
            operation=operation,
            actor=self._settings.actor if actor is None else actor,
            digests=digests,
            reason_code=reason_code,
            note=note,
            time=self._settings.clock(),
            details=details,
        )

    def acting(self: Self, actor: str) -> Self:
        """Return a handle on the same store for somebody else, whom the audit trail then names.

        It shares the store below: closing either of the two closes that for both.

        Args:
            actor: who acts: a DID, a user, a service.
        """
        return type(self)(self._below, replace(self._settings, actor=actor))

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        try:
            self._write_counts()
        finally:
            self._store.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
