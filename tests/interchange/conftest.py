# SPDX-License-Identifier: Apache-2.0
"""A store for documents, with keys and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from support.mif_imports import opened


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, ring: KeyRing) -> Iterator[og.GrainStore]:
    with opened(ring if request.param == "sealed" else None) as store:
        yield store
