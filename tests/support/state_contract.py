# SPDX-License-Identifier: Apache-2.0
"""The part of the store's contract that is about what becomes of grains.

Rows of STATE, events, what is current and what is past, and removal. ``StoreContract`` takes these
tests along.
"""

from __future__ import annotations

import struct

import pytest

from omsgrain._core import term
from omsgrain.errors import StoreError
from omsgrain.storage.base import Storage, Writer, pages
from omsgrain.storage.records import (
    CONTESTED,
    RESTRICTED,
    RETRACTED,
    VERIFIED,
    GrainStatus,
    pack,
    unpack,
)
from omsgrain.storage.tables import (
    COUNTERS,
    EVENT,
    EVENTS,
    HELD,
    HOLDS,
    NOTES,
    STATES,
    SUPERSEDED,
    SUPERSEDES,
    VECTORS,
)
from support.small_grains import (
    ALL,
    WHICH,
    change,
    elsewhere,
    facts,
    key,
    put,
    remove,
    retract,
    seqs,
    set_rows,
    split,
)

#: Whether the index is written before the states change, after that, or not at all.
FLUSHES = ("never", "before", "after")


class StateContract:
    """Tests of any store; see ``store_contract``."""

    # --- rows ----------------------------------------------------------------------------------

    def test_rows_are_set_and_deleted(self, store: Storage) -> None:
        def work(writer: Writer) -> None:
            assert (writer.row(NOTES, b"a"), writer.last_row(NOTES)) == (None, None)
            for name in (b"b", b"a", b"c"):
                writer.set_row(NOTES, name, name * 2)
            writer.set_row(NOTES, b"c", b"")
            writer.set_row(NOTES, b"b", None)
            writer.set_row(NOTES, b"never", None)
            assert writer.row(NOTES, b"c") == b""
            assert list(writer.rows(NOTES)) == [(b"a", b"aa"), (b"c", b"")]

        store.write(work)
        with store.read() as reader:
            assert [reader.row(NOTES, name) for name in (b"a", b"b", b"c")] == [b"aa", None, b""]
            assert reader.last_row(NOTES) == (b"c", b"")
            assert list(reader.rows(EVENTS)) == []

    def test_rows_in_order(self, store: Storage) -> None:
        names = [bytes([a, b]) for a in range(1, 30) for b in range(30)]

        def work(writer: Writer) -> None:
            for name in names[::-1]:
                writer.set_row(NOTES, name, name)

        store.write(work)
        with store.read() as reader:

            def walk(after: bytes | None = None, prefix: bytes = b"") -> list[bytes]:
                return [name for name, _ in reader.rows(NOTES, after, prefix)]

            assert walk() == names
            assert walk(after=names[700]) == names[701:]
            assert walk(after=names[700] + b"x") == names[701:]
            assert walk(prefix=b"\5") == names[120:150]
            assert walk(prefix=b"\5\7") == [b"\5\7"]
            assert walk(after=b"\5\7", prefix=b"\5") == names[128:150]
            assert walk(after=b"\1", prefix=b"\5") == names[120:150]
            assert walk(after=b"\7", prefix=b"\5") == walk(prefix=b"\xff") == []
            assert reader.last_row(NOTES) == (names[-1], names[-1])

    def test_rows_may_be_deleted_on_the_way(self, store: Storage) -> None:
        def work(writer: Writer) -> int:
            for number in range(600):
                writer.set_row(NOTES, key(number), b"")
            met = 0
            for name, _ in writer.rows(NOTES):
                writer.set_row(NOTES, name, None)
                met += 1
            return met

        assert store.write(work) == 600
        with store.read() as reader:
            assert reader.last_row(NOTES) is None

    def test_keys_that_cannot_be(self, store: Storage) -> None:
        for name in (b"", b"x" * 512):
            with pytest.raises(StoreError):
                set_rows(store, NOTES, b"", name)
        set_rows(store, NOTES, b"", b"x" * 511)

    def test_a_snapshot_of_rows(self, store: Storage) -> None:
        set_rows(store, NOTES, b"old", b"a", b"b")
        with store.read() as reader:
            walk = reader.rows(NOTES)
            first = next(walk)
            elsewhere(lambda: set_rows(store, NOTES, None, b"b"))
            elsewhere(lambda: set_rows(store, NOTES, b"new", b"a", b"c"))
            assert [first, *walk] == list(reader.rows(NOTES)) == [(b"a", b"old"), (b"b", b"old")]
            assert reader.last_row(NOTES) == (b"b", b"old")
            assert reader.row(NOTES, b"c") is None
        with store.read() as reader:
            assert list(reader.rows(NOTES)) == [(b"a", b"new"), (b"c", b"new")]

    # --- events --------------------------------------------------------------------------------

    def test_events_take_numbers(self, store: Storage) -> None:
        grains = facts(4)

        def work(writer: Writer) -> None:
            writer.put(grains[:2])
            assert writer.event(SUPERSEDED, 1, grains[0][0]) == 3
            writer.put(grains[1:3])
            assert writer.event(HELD, 4, grains[2][0]) == 5

        store.write(work)
        assert put(store, grains[3]) == [6]
        with store.read() as reader:
            assert reader.last_seq() == 6
            assert reader.count() == 4
            assert [seq for seq, _ in reader.page(0)] == [1, 2, 4, 6]
            assert [seq for seq, _ in reader.page(2, grains=1)] == [4]
            assert reader.blob_at(3) is None
            assert reader.find([digest for digest, _ in grains]) == [1, 2, 4, 6]
            events = [(k, EVENT.unpack(row)) for k, row in reader.rows(EVENTS)]
            assert events == [
                (key(3), (b"S", 1, grains[0][0])),
                (key(5), (b"H", 4, grains[2][0])),
            ]
            assert seqs(reader) == [1, 2, 4, 6]
        assert [e.seq for page in pages(store) for e in page if e.sound] == [1, 2, 4, 6]
        stats = store.stats()
        assert (stats.grains, stats.last_seq) == (4, 6)

    def test_events_come_last(self, store: Storage) -> None:
        """A consumer must not wait for a grain under the last number."""
        grains = facts(3)
        put(store, *grains[:2])
        store.write(lambda writer: [writer.event(HELD, 1, grains[0][0]) for _ in range(5)])
        for flush in (False, True):
            if flush:
                store.flush()
            with store.read() as reader:
                assert (reader.last_seq(), seqs(reader)) == (7, [1, 2])
            assert [e.seq for page in pages(store) for e in page] == [1, 2]
        assert put(store, grains[2]) == [8]

    # --- current and past ----------------------------------------------------------------------

    @pytest.mark.parametrize("flush", FLUSHES)
    def test_current_and_past(self, store: Storage, flush: str) -> None:
        put(store, *facts(9))
        if flush == "before":
            store.flush()
        retract(store, 2, 3, 9)
        if flush == "after":
            store.flush()
        for _ in range(2):
            with store.read() as reader:
                assert split(reader) == ([1, 4, 5, 6, 7, 8], [2, 3, 9])
                assert split(reader, term("subject", "room 1")) == ([5, 8], [2])
                assert split(reader, term("object", "lamp 2")) == ([], [3])
                assert split(reader, term("subject", "nobody")) == ([], [])
                (place,) = reader.places(term("object", "lamp 2"), None, True)
                for which in WHICH:
                    relation = term("relation", "has")
                    assert reader.has_term(relation, place, which) == (which != "current")
                    assert not reader.has_term(term("relation", "is"), place, which)
            store.flush()
        retract(store, 2, 9, back=True)
        with store.read() as reader:
            assert split(reader) == ([1, 2, 4, 5, 6, 7, 8, 9], [3])
        store.flush()
        with store.read() as reader:
            assert split(reader) == ([1, 2, 4, 5, 6, 7, 8, 9], [3])

    @pytest.mark.parametrize(
        ("bits", "past"), [(RETRACTED, True), (RESTRICTED, True), (CONTESTED | VERIFIED, False)]
    )
    def test_which_bits_are_past(self, store: Storage, bits: int, past: bool) -> None:
        put(store, *facts(2))

        def work(writer: Writer) -> None:
            writer.set_row(STATES, key(1), bytes([bits]) + b"\x80")
            writer.set_past(1, writer.is_past(1))

        store.write(work)
        for _ in range(2):
            with store.read() as reader:
                assert split(reader) == (([2], [1]) if past else ([1, 2], []))
            store.flush()

    def test_a_writer_sees_what_it_changed(self, store: Storage) -> None:
        grains = facts(6)
        put(store, *grains[:2])
        store.flush()
        put(store, *grains[2:4])

        def work(writer: Writer) -> None:
            writer.put(grains[4:5])
            assert split(writer) == ([1, 2, 3, 4, 5], [])
            for seq in (1, 3, 5):
                change(writer, seq, GrainStatus(restricted=True))
            writer.put(grains[5:])
            writer.remove(6)
            writer.remove(4)
            assert split(writer) == ([2], [1, 3, 5])
            assert list(writer.keys(term("object", "lamp"))) == [
                term("object", f"lamp {n}") for n in (0, 1, 2, 4)
            ]

        store.write(work)
        with store.read() as reader:
            assert split(reader) == ([2], [1, 3, 5])

    def test_places_may_move_on_the_way(self, store: Storage) -> None:
        put(store, *facts(600))
        for newest in (False, True):
            store.flush()

            def work(writer: Writer, newest: bool = newest) -> list[int]:
                met = []
                for place in writer.places(ALL, None, newest, "current"):
                    met.append(int.from_bytes(place[12:], "big"))
                    change(writer, met[-1], GrainStatus(restricted=True))
                return met

            met = store.write(work)
            assert met == sorted(range(1, 601), reverse=newest)
            retract(store, *range(1, 601), back=True)

    @pytest.mark.parametrize("flush", [False, True])
    def test_terms_by_prefix(self, store: Storage, flush: bool) -> None:
        put(store, *facts(7))
        retract(store, 2, 5)  # all of home:down
        if flush:
            store.flush()
        put(store, *facts(2, start=9))
        remove(store, 3, 6)  # all of work
        space = [term("namespace", name) for name in ("home:down", "home:up")]
        with store.read() as reader:
            assert list(reader.keys(term("namespace", "home:"))) == space
            assert list(reader.keys(term("namespace", ""))) == space
            assert list(reader.keys(space[0])) == space[:1]
            assert list(reader.keys(term("namespace", ""), "past")) == space[:1]
            assert list(reader.keys(term("namespace", "x"))) == []
            retracted = reader.is_past(2)
        assert retracted
        remove(store, 8, 9)
        with store.read() as reader:
            assert list(reader.keys(term("namespace", ""), "current")) == space[1:]

    # --- removal -------------------------------------------------------------------------------

    @pytest.mark.parametrize("flush", FLUSHES)
    @pytest.mark.parametrize("past", [False, True])
    def test_removal(self, store: Storage, flush: str, past: bool) -> None:
        grains = facts(5)
        put(store, *grains)
        if past:
            retract(store, 2, 4)
        if flush == "before":
            store.flush()
        remove(store, 2, 5, 77)
        remove(store, 2)
        if flush == "after":
            store.flush()
        with store.read() as reader:
            assert reader.count() == 3
            assert reader.last_seq() == 6  # one for the commit that removed two
            assert reader.find([digest for digest, _ in grains]) == [1, None, 3, 4, None]
            assert [reader.get(digest) for digest, _ in grains[1:3]] == [None, grains[2][1]]
            assert (reader.blob_at(2), reader.blob_at(3)) == (None, grains[2][1])
            assert [seq for seq, _ in reader.page(0)] == [1, 3, 4]
            assert split(reader) == (([1, 3], [4]) if past else ([1, 3, 4], []))
            assert seqs(reader, "all", term("object", "lamp 1")) == []
            assert not reader.is_past(2)
        assert store.stats().blob_bytes == sum(len(grains[n][1]) for n in (0, 2, 3))

    def test_removal_takes_what_is_known_about_the_grain(self, store: Storage) -> None:
        grains = facts(3)
        put(store, *grains)
        other = key(2)
        states = GrainStatus(superseded_by=grains[2][0].hex(), successors=(grains[2][0].hex(),))
        rows = {
            STATES: [key(1), other],
            COUNTERS: [key(1), other],
            HOLDS: [key(1), other],
            SUPERSEDES: [key(1, 2), key(2, 3), key(3, 1), key(3, 2)],
            VECTORS: [struct.pack(">IQ", model, seq) for model in (0, 9) for seq in (1, 2)],
        }

        def work(writer: Writer) -> None:
            for table, keys in rows.items():
                for name in keys:
                    writer.set_row(table, name, pack(states) if table is STATES else b"x")
            writer.event(HELD, 1, grains[0][0])
            writer.remove(1)

        store.write(work)
        with store.read() as reader:
            left = {table: [name for name, _ in reader.rows(table)] for table in rows}
            assert left == {
                STATES: [other],
                COUNTERS: [other],
                HOLDS: [other],
                SUPERSEDES: [key(2, 3), key(3, 2)],
                VECTORS: [struct.pack(">IQ", model, 2) for model in (0, 9)],
            }
            assert reader.row(EVENTS, key(4)) is not None

    def test_a_damaged_grain_is_removed_too(self, store: Storage) -> None:
        _, blob = facts(1)[0]
        for flush in (False, True):
            (seq,) = put(store, (b"\7" * 32, blob))
            assert seq is not None
            if flush:
                store.flush()
            set_rows(store, STATES, b"\1junk", key(seq))
            remove(store, seq)
            with store.read() as reader:
                assert (reader.count(), reader.find([b"\7" * 32])) == (0, [None])
                assert (seqs(reader), reader.last_row(STATES)) == ([], None)

    @pytest.mark.parametrize("flush", FLUSHES)
    def test_a_removed_grain_may_come_again(self, store: Storage, flush: str) -> None:
        grains = facts(3)
        digests = [digest for digest, _ in grains]
        put(store, *grains)
        if flush == "before":
            store.flush()
        retract(store, 2)
        remove(store, 2)
        if flush == "after":
            store.flush()
        assert put(store, *grains) == [1, 5, 3]
        assert put(store, *grains) == [1, 5, 3]
        for _ in range(2):
            with store.read() as reader:
                assert reader.find(digests) == [1, 5, 3]
                assert split(reader) == ([1, 5, 3], [])  # by time, not by number
                assert reader.count() == 3
            store.flush()
        assert [e.seq for page in pages(store) for e in page if e.sound] == [1, 3, 5]
        remove(store, 5)
        assert put(store, grains[1]) == [7]

    def test_put_and_removed_in_one_work(self, store: Storage) -> None:
        grains = facts(3)

        def work(writer: Writer) -> None:
            assert writer.put([grains[0], grains[1]]) == [True, True]
            assert seqs(writer) == [1, 2]
            writer.remove(1)
            assert writer.put([grains[0], grains[0], grains[2]]) == [True, False, True]
            assert writer.find([grains[0][0]]) == [3]
            assert seqs(writer) == [3, 2, 4]

        store.write(work)
        for _ in range(2):
            with store.read() as reader:
                assert reader.find([digest for digest, _ in grains]) == [3, 2, 4]
                assert seqs(reader) == [3, 2, 4]
            store.flush()

    @pytest.mark.parametrize("flush", [False, True])
    @pytest.mark.parametrize("asked", [False, True])
    def test_older_snapshots_keep_what_was_removed(
        self, store: Storage, flush: bool, asked: bool
    ) -> None:
        grains = facts(4)
        put(store, *grains)
        if flush:
            store.flush()
        with store.read() as old:
            assert old.last_seq() == 4
            if asked:
                assert split(old) == ([1, 2, 3, 4], [])

            def meanwhile() -> None:
                retract(store, 1)
                remove(store, 2, 3)
                put(store, grains[2])
                with store.read() as reader:
                    assert split(reader) == ([6, 4], [1])

            elsewhere(meanwhile)
            assert old.find([digest for digest, _ in grains]) == [1, 2, 3, 4]
            assert old.get(grains[1][0]) == grains[1][1]
            assert old.count() == 4
            assert [seq for seq, _ in old.page(0)] == [1, 2, 3, 4]
            assert split(old) == ([1, 2, 3, 4], [])
            assert list(old.keys(term("object", "lamp 1"))) == [term("object", "lamp 1")]
        with store.read() as reader:
            assert split(reader) == ([6, 4], [1])

    @pytest.mark.parametrize("flush", [False, True])
    def test_a_work_that_fails_changes_nothing(self, store: Storage, flush: bool) -> None:
        grains = facts(5)
        put(store, *grains[:4])
        retract(store, 4)
        if flush:
            store.flush()

        def work(writer: Writer) -> None:
            writer.remove(1)
            change(writer, 2, GrainStatus(restricted=True))
            change(writer, 4, GrainStatus())
            writer.set_row(NOTES, b"a", b"b")
            writer.event(HELD, 2, grains[1][0])
            writer.put([grains[4], grains[0]])
            assert split(writer) == ([8, 3, 4, 7], [2])
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.write(work)
        with store.read() as reader:
            assert split(reader) == ([1, 2, 3], [4])
            assert (reader.last_seq(), reader.count()) == (4, 4)
            assert (reader.row(NOTES, b"a"), reader.last_row(EVENTS)) == (None, None)
            assert unpack(reader.row(STATES, key(2))) == GrainStatus()
        other = facts(1, start=50)[0]
        assert put(store, other, grains[4]) == [5, 6]
        with store.read() as reader:
            assert split(reader) == ([1, 2, 3, 6, 5], [4])
            assert seqs(reader, "all", term("object", "lamp 4")) == [6]
