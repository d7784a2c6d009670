# SPDX-License-Identifier: Apache-2.0
"""Erasing Ann, and looking at what a store still says."""

from __future__ import annotations

from typing import Any

from omsgrain import errors as err
from omsgrain.storage.base import Storage
from omsgrain.storage.tables import TABLES, Life
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from omsgrain.store.privacy.erasure import ErasureReport
from support.invented_people import NAMES

USER: dict[str, Any] = {"user_id": "ann-17"}
BEN: dict[str, Any] = {"user_id": "ben"}


def below(store: GrainStore) -> Storage:
    return context_of(store).inner


def is_sealed(store: GrainStore) -> bool:
    return context_of(store).settings.keys is not None


def erase(store: GrainStore, **options: Any) -> ErasureReport:
    return store.privacy.erase(NAMES, **{"reason_code": "gdpr17", **options})


def is_gone(store: GrainStore, address: str) -> bool:
    """Whether a grain cannot be read any more."""
    try:
        store.get(address)
    except (err.NotFoundError, err.ErasedError):
        return True
    return False


def rows(store: GrainStore) -> bytes:
    """All that the store says, but its index, which is made of the blobs."""
    with below(store).read() as reader:
        tables = [t for t in TABLES if not t.places and t.life is not Life.BLOBS]
        found = [key + row for table in tables for key, row in reader.rows(table)]
        found += [blob for _, blob in reader.page(0, 10_000, 1 << 30)]
    return b"".join(found)
