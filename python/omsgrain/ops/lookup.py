# SPDX-License-Identifier: Apache-2.0
"""Read from a store that exists: one grain, or how much it holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import omsgrain as og


def get(store: Path, address: str) -> og.Grain:
    """Return the grain at the address.

    Raises:
        NotFoundError: it is not there.
        StoreError: there is no store at the path.
    """
    with og.open(store, readonly=True) as grains:
        return grains.get(address)


def stats(store: Path) -> dict[str, Any]:
    """Return what the store counts, by name."""
    with og.open(store, readonly=True) as grains:
        return asdict(grains.stats())
