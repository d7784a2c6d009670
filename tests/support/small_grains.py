# SPDX-License-Identifier: Apache-2.0
"""Small grains, and what tests of a store do to them and ask of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import sha256

import omsgrain as og
from omsgrain._core import term
from omsgrain.storage.base import Reader, Storage, Which, Writer
from omsgrain.storage.records import GrainStatus, pack
from omsgrain.storage.tables import SEQUENCE, STATES, Table

Pair = tuple[bytes, bytes]
ALL = term("all", None)
WHICH: tuple[Which, ...] = ("current", "past", "all")


def facts(count: int, start: int = 0) -> list[Pair]:
    """Grains with few terms, each created later than the one before."""
    blobs = [
        og.encode(
            {
                "type": "belief",
                "subject": f"room {n % 3}",
                "relation": "has",
                "object": f"lamp {n}",
                "confidence": 0.5,
                "namespace": ("home:up", "home:down", "work")[n % 3],
                "created_at": 1_700_000_000_000 + n,
            }
        )
        for n in range(start, start + count)
    ]
    return [(sha256(blob).digest(), blob) for blob in blobs]


def key(*numbers: int) -> bytes:
    return b"".join(map(SEQUENCE.pack, numbers))


def put(store: Storage, *grains: Pair) -> list[int | None]:
    def work(writer: Writer) -> list[int | None]:
        writer.put(grains)
        return writer.find([digest for digest, _ in grains])

    return store.write(work)


def change(writer: Writer, seq: int, state: GrainStatus) -> None:
    writer.set_row(STATES, key(seq), pack(state))
    writer.set_past(seq, writer.is_past(seq))


def retract(store: Storage, *seqs: int, back: bool = False) -> None:
    def work(writer: Writer) -> None:
        for seq in seqs:
            change(
                writer,
                seq,
                GrainStatus() if back else GrainStatus(verification_status="retracted"),
            )

    store.write(work)


def remove(store: Storage, *seqs: int) -> None:
    def work(writer: Writer) -> None:
        for seq in seqs:
            writer.remove(seq)

    store.write(work)


def set_rows(store: Storage, table: Table, value: bytes | None, *names: bytes) -> None:
    def work(writer: Writer) -> None:
        for name in names:
            writer.set_row(table, name, value)

    store.write(work)


def elsewhere(work: Callable[[], object]) -> None:
    """Do it in another thread, since this one holds a snapshot."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def seqs(reader: Reader, which: Which = "all", term_key: bytes = ALL) -> list[int]:
    """The numbers of the grains with a term, oldest first; every way of asking must agree."""
    places = list(reader.places(term_key, None, False, which))
    assert list(reader.places(term_key, None, True, which)) == places[::-1]
    for i, place in enumerate(places):
        assert reader.has_term(term_key, place, which)
        assert next(reader.places(term_key, place, False, which), None) == (
            places[i + 1] if i + 1 < len(places) else None
        )
        assert next(reader.places(term_key, place, True, which), None) == (
            places[i - 1] if i else None
        )
    assert reader.term_count(term_key, which) >= len(places)
    return [int.from_bytes(place[12:], "big") for place in places]


def split(reader: Reader, term_key: bytes = ALL) -> tuple[list[int], list[int]]:
    """The current ones and the past ones, which together are all."""
    current, past = (seqs(reader, which, term_key) for which in ("current", "past"))
    assert sorted(current + past) == sorted(seqs(reader, "all", term_key))
    assert all(reader.is_past(seq) == (seq in past) for seq in current + past)
    return current, past
