# SPDX-License-Identifier: Apache-2.0
"""Damaged rows beside grains: a call that needs them fails, others work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from omsgrain import errors as err
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import COUNTERS, EVENTS, HOLDS, REVIEWS, SEQUENCE, Table
from omsgrain.store import GrainStore
from omsgrain.store.context import MANY
from omsgrain.sync import LocalPeer, sync
from support.invented_people import ANN, belief

ROWS = (b"", b"\xc1", b"\x01", b"\x93\x01\x02\x03")
ASKED: dict[Table, list[Callable[[GrainStore, str], Any]]] = {
    COUNTERS: [lambda store, address: store.status(address)],
    HOLDS: [
        lambda store, address: store.holds.of(address),
        lambda store, address: store.holds.add(address, authority="court", reason_code="law"),
    ],
    REVIEWS: [lambda store, address: list(store.reviews.pending())],
    EVENTS: [
        lambda store, address: list(store.changes()),
        lambda store, address: store.search("lamp"),
    ],
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("table", ASKED, ids=lambda table: table.name.decode())
def test_unreadable_rows_are_reported(table: Table, row: bytes) -> None:
    below = MemoryStorage()
    store = GrainStore(below)
    address = store.put(belief("lit"))
    store.search("lamp")
    store.put(belief("dim", author_did=ANN))
    number = 2 if table is EVENTS else 1
    below.write(lambda writer: writer.set_row(table, SEQUENCE.pack(number), row))
    for ask in ASKED[table]:
        with pytest.raises(err.IntegrityError):
            ask(store, address)
    for _ in range(MANY):  # a count that cannot be written is no reason not to read
        assert store.get(address)["object"] == "lit"
    if table is not EVENTS:
        assert store.privacy.erase([ANN], reason_code="gdpr17").erased == 1
    store.close()
    with pytest.raises(err.StoreError), below.read():
        pass


@pytest.mark.parametrize("row", ROWS)
def test_a_sync_reports_an_unreadable_event(row: bytes) -> None:
    below = MemoryStorage()
    store, other = GrainStore(below), GrainStore(MemoryStorage())
    store.privacy.restrict(store.put(belief("lit")), reason_code="disputed")
    below.write(lambda writer: writer.set_row(EVENTS, SEQUENCE.pack(2), row))
    for one, two in ((store, other), (other, store)):
        with pytest.raises(err.IntegrityError):
            sync(LocalPeer(one), LocalPeer(two))


def test_a_review_that_cannot_be_read_and_names_the_grain_goes_with_it() -> None:
    below = MemoryStorage()
    store = GrainStore(below)
    doomed, other = store.put(belief("dim", author_did=ANN)), store.put(belief("lit"))
    rows = [(SEQUENCE.pack(1), b"\xc1" + doomed.encode()), (SEQUENCE.pack(2), other.encode())]
    below.write(lambda writer: writer.set_rows(REVIEWS, rows))
    store.privacy.erase([ANN], reason_code="gdpr17")
    with below.read() as reader:
        assert [SEQUENCE.unpack(key) for key, _ in reader.rows(REVIEWS)] == [(2,)]
