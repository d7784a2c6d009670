# SPDX-License-Identifier: Apache-2.0
"""The contract of ``omsgrain.storage.base.Storage``, as tests that any implementation can run.

Subclass ``StoreContract`` under a name that pytest collects and give it a fixture ``store`` that
yields a new, empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            store = MyStore(tmp_path / "memory")
            yield store
            store.close()
"""

from __future__ import annotations

import threading
from hashlib import sha256
from random import Random

import pytest

from omsgrain.errors import StoreError
from omsgrain.storage.base import Reader, ScannedBlob, Storage, Writer, pages
from support.state_contract import StateContract

Pair = tuple[bytes, bytes]


def pair(blob: bytes) -> Pair:
    return sha256(blob).digest(), blob


def make_pairs(count: int, seed: int = 1, longest: int = 600) -> list[Pair]:
    random = Random(seed)
    return [pair(random.randbytes(random.randint(10, longest))) for _ in range(count)]


def put(store: Storage, *pairs: Pair) -> list[bool]:
    return store.write(lambda writer: writer.put(pairs))


def contents(store: Storage) -> list[tuple[int, bytes]]:
    return [(entry.seq, entry.blob) for page in pages(store) for entry in page]


class StoreContract(StateContract):
    @pytest.fixture
    def store(self) -> Storage:
        raise NotImplementedError("give a fixture `store` that yields a new, empty store")

    def test_new_store_is_empty(self, store: Storage) -> None:
        digest, _ = pair(b"nothing here")
        with store.read() as reader:
            assert reader.count() == 0
            assert reader.last_seq() == 0
            assert reader.get(digest) is None
            assert reader.find([digest]) == [None]
            assert reader.page(0) == []
        assert contents(store) == []
        assert store.stats().grains == 0

    def test_what_is_put_is_there(self, store: Storage) -> None:
        pairs = make_pairs(100)
        assert put(store, *pairs) == [True] * 100
        with store.read() as reader:
            assert reader.count() == 100
            assert [reader.get(digest) for digest, _ in pairs] == [blob for _, blob in pairs]

    @pytest.mark.parametrize("size", [10, 2_000, 4_096, 1 << 20])
    def test_blobs_of_every_size(self, store: Storage, size: int) -> None:
        digest, blob = pair(Random(size).randbytes(size))
        put(store, (digest, blob))
        with store.read() as reader:
            assert reader.get(digest) == blob

    def test_arrival_gives_rising_numbers_from_one(self, store: Storage) -> None:
        pairs = make_pairs(30)
        for start in range(0, 30, 10):
            put(store, *pairs[start : start + 10])
        rows = contents(store)
        assert [blob for _, blob in rows] == [blob for _, blob in pairs]
        assert [seq for seq, _ in rows] == sorted({seq for seq, _ in rows})
        assert rows[0][0] == 1
        with store.read() as reader:
            assert reader.find([digest for digest, _ in pairs]) == [seq for seq, _ in rows]
            assert reader.last_seq() == rows[-1][0]

    def test_put_is_idempotent(self, store: Storage) -> None:
        first, second, third = make_pairs(3)
        assert put(store, first, second, first) == [True, True, False]
        before = contents(store)
        assert put(store, second) == [False]
        assert put(store, first, third, third) == [False, True, False]
        assert contents(store)[:2] == before
        with store.read() as reader:
            assert reader.count() == 3

    def test_put_of_nothing(self, store: Storage) -> None:
        assert put(store) == []

    def test_find_answers_in_the_order_asked(self, store: Storage) -> None:
        first, second, absent = make_pairs(3)
        put(store, first, second)
        with store.read() as reader:
            asked = [second[0], absent[0], first[0], second[0]]
            assert reader.find(asked) == [2, None, 1, 2]
            assert reader.find([]) == []

    def test_write_returns_what_the_work_returned(self, store: Storage) -> None:
        assert store.write(lambda writer: writer.count()) == 0
        token = object()
        assert store.write(lambda writer: token) is token

    def test_a_writer_sees_what_it_wrote(self, store: Storage) -> None:
        pairs = make_pairs(20)

        def work(writer: Writer) -> None:
            writer.put(pairs[:10])
            writer.put(pairs[10:])
            assert writer.count() == 20
            assert writer.get(pairs[3][0]) == pairs[3][1]
            assert writer.find([pairs[15][0]]) == [16]
            assert len(writer.page(0)) == 20

        store.write(work)
        assert len(contents(store)) == 20

    def test_an_exception_takes_back_all_of_it(self, store: Storage) -> None:
        pairs = make_pairs(12)
        put(store, *pairs[:2])

        def work(writer: Writer) -> None:
            writer.put(pairs)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.write(work)
        with store.read() as reader:
            assert reader.count() == 2
            assert reader.last_seq() == 2
            assert reader.get(pairs[5][0]) is None
        assert put(store, *pairs[2:]) == [True] * 10
        assert [blob for _, blob in contents(store)] == [blob for _, blob in pairs]

    def test_a_reader_sees_only_what_was_there(self, store: Storage) -> None:
        first, second = make_pairs(2)
        put(store, first)
        with store.read() as reader:
            assert reader.last_seq() == 1  # a snapshot may begin with its first question
            writer = threading.Thread(target=put, args=(store, second))
            writer.start()
            writer.join()
            assert reader.count() == 1
            assert reader.get(second[0]) is None
            assert len(reader.page(0)) == 1
        with store.read() as reader:
            assert reader.get(second[0]) == second[1]

    def test_page_limits(self, store: Storage) -> None:
        pairs = [pair(Random(n).randbytes(100)) for n in range(10)]
        put(store, *pairs)
        with store.read() as reader:
            assert [seq for seq, _ in reader.page(0, grains=3)] == [1, 2, 3]
            assert [seq for seq, _ in reader.page(3, grains=3)] == [4, 5, 6]
            assert [seq for seq, _ in reader.page(8)] == [9, 10]
            assert [seq for seq, _ in reader.page(0, size=250)] == [1, 2, 3]
            assert [seq for seq, _ in reader.page(4, size=1)] == [5]
            assert reader.page(10) == []

    @pytest.mark.parametrize("seq", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1])
    def test_a_number_that_no_grain_has(self, store: Storage, seq: int) -> None:
        """A damaged row, or somebody who asks from a number on, may name any of eight bytes."""
        put(store, *make_pairs(2))

        def ask(reader: Reader) -> list[object]:
            return [reader.blob_at(seq), reader.page(seq - 1), reader.last_seq()]

        with store.read() as reader:
            assert ask(reader) == [None, [], 2]
        assert store.write(ask) == [None, [], 2]

    def test_a_walk_ends_and_lets_others_write(self, store: Storage) -> None:
        pairs = make_pairs(2_500, longest=40)
        put(store, *pairs)
        met: list[ScannedBlob] = []
        for page in pages(store):
            put(store, *make_pairs(5, seed=100 + len(met)))
            met += page
        assert [entry.blob for entry in met] == [blob for _, blob in pairs]
        assert all(entry.sound for entry in met)
        assert [entry.seq for page in pages(store, after=2_495) for entry in page][:5] == [
            2_496,
            2_497,
            2_498,
            2_499,
            2_500,
        ]

    def test_a_walk_tells_a_damaged_blob(self, store: Storage) -> None:
        good, other = make_pairs(2)
        put(store, good, (b"\0" * 32, other[1]))
        assert [entry.sound for page in pages(store) for entry in page] == [True, False]

    def test_stats(self, store: Storage) -> None:
        pairs = make_pairs(50)
        put(store, *pairs)
        put(store, *pairs[:7])
        stats = store.stats()
        assert stats.grains == 50
        assert stats.last_seq == 50
        assert stats.blob_bytes == sum(len(blob) for _, blob in pairs)

    def test_writers_in_many_threads(self, store: Storage) -> None:
        shares = [make_pairs(25, seed=seed) for seed in range(4)]

        def write(share: list[Pair]) -> None:
            for one in share:
                put(store, one)

        threads = [threading.Thread(target=write, args=(share,)) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = contents(store)
        assert [seq for seq, _ in rows] == list(range(1, 101))
        assert {blob for _, blob in rows} == {blob for share in shares for _, blob in share}

    def test_a_write_inside_a_write_is_refused(self, store: Storage) -> None:
        one = make_pairs(1)[0]
        with pytest.raises(StoreError):
            store.write(lambda writer: put(store, one))
        assert put(store, one) == [True]

    def test_a_closed_store_refuses(self, store: Storage) -> None:
        one = make_pairs(1)[0]
        put(store, one)
        walk = pages(store)
        store.close()
        store.close()
        with pytest.raises(StoreError), store.read():
            pass
        for call in (lambda: put(store, one), store.stats, store.sync, lambda: next(walk)):
            with pytest.raises(StoreError):
                call()
