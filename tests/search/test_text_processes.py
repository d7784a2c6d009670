# SPDX-License-Identifier: Apache-2.0
"""The text index under threads, other processes, forks and kills."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from omsgrain.storage.base import TEXT_FILE
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from support.child_process import run
from support.text_stores import Opened, answers, grown, remove, say, seqs, truth


def test_many_threads(disk: LmdbStorage, opened: Opened) -> None:
    index = opened(disk.path / TEXT_FILE)
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for n in range(25):
                (seq,) = say(disk, f"owl of {name} {n}")
                assert seqs(index.search(disk.read, f'"{name} {n}"')) == [seq]
                if n % 5 == 0:
                    remove(disk, seq)
                    assert seqs(index.search(disk.read, f'"{name} {n}"')) == []
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert index.check(disk.read) == ()


KILLED = """
    import os, sys
    from pathlib import Path
    from omsgrain.search import feed
    from omsgrain.search.text_file import SqliteTextIndex
    from omsgrain.storage.base import TEXT_FILE
    from omsgrain.storage.lmdb.storage import LmdbStorage
    feed.PAGE = 50
    store = LmdbStorage(sys.argv[1])
    index = SqliteTextIndex(store.path / TEXT_FILE)
    inner, calls = getattr(feed, sys.argv[2]), 0
    def die(*args, **options):
        global calls
        calls += 1
        if calls == int(sys.argv[3]) and sys.argv[4] == "before":
            os.kill(os.getpid(), 9)
        result = inner(*args, **options)
        if calls == int(sys.argv[3]):
            os.kill(os.getpid(), 9)
        return result
    setattr(feed, sys.argv[2], die)
    index.scrub(store.read) if index.exists else index.catch_up(store.read)
    print("not killed")
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("moment", "call"), [("write", 1), ("write", 4), ("_forget", 3), ("_rows", 5), ("_wipe", 1)]
)
def test_a_kill_at_any_time_is_caught_up(
    disk: LmdbStorage, opened: Opened, moment: str, call: int, when: str
) -> None:
    path = disk.path / TEXT_FILE
    if moment == "_wipe":
        grown(disk, 120)
    say(disk, *(f"owl number {n} sees shelf {n % 7}" for n in range(200, 450)))
    remove(disk, 3, 77)
    with pytest.raises(AssertionError):
        run(KILLED, disk.path, moment, call, when)
    index = opened(path)
    assert answers(index, disk) == truth(disk)
    assert index.check(disk.read) == ()


FEEDING = """
    import sys
    from omsgrain.search import feed
    from omsgrain.search.text_file import SqliteTextIndex
    from omsgrain.storage.base import TEXT_FILE
    from omsgrain.storage.lmdb.storage import LmdbStorage
    feed.PAGE = 20
    store = LmdbStorage(sys.argv[1])
    for n in range(15):
        index = SqliteTextIndex(store.path / TEXT_FILE)
        found = index.search(store.read, "owl", limit=2_000)
        print(len(found.matches))
        index.close()
"""


def test_processes_feed_together(disk: LmdbStorage, opened: Opened) -> None:
    say(disk, *(f"owl number {n} sees shelf {n % 7}" for n in range(600)))
    said: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: said.append(run(FEEDING, disk.path))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    index = opened(disk.path / TEXT_FILE)
    for n in range(600, 640):
        say(disk, f"owl number {n} sees shelf {n % 7}")
        assert len(seqs(index.search(disk.read, "owl", limit=2_000))) == n + 1
    for thread in threads:
        thread.join()
    counts = [list(map(int, lines)) for lines in said]
    assert [len(c) for c in counts] == [15, 15]
    assert all(c == sorted(c) and 600 <= c[0] for c in counts)
    assert answers(index, disk) == truth(disk)
    assert index.check(disk.read) == ()


FORKING = """
    import os, sys
    from omsgrain.errors import StoreError
    from omsgrain.search.text_file import SqliteTextIndex
    from omsgrain.storage.base import TEXT_FILE
    from omsgrain.storage.lmdb.storage import LmdbStorage
    path = sys.argv[1]
    store = LmdbStorage(path)
    index = SqliteTextIndex(store.path / TEXT_FILE)
    index.catch_up(store.read)
    said, say = os.pipe()
    if os.fork() == 0:
        try:
            index.search(store.read, "owl")
        except StoreError:
            index.close()
            store = LmdbStorage(path)
            index = SqliteTextIndex(store.path / TEXT_FILE)
            print("child", len(index.search(store.read, "owl").matches), flush=True)
            os.write(say, b"x")
        os._exit(0)
    os.read(said, 1)
    print("parent", len(index.search(store.read, "owl").matches), flush=True)
    index.close()
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own(disk: LmdbStorage, opened: Opened) -> None:
    say(disk, "owl")
    assert run(FORKING, disk.path) == ["child 1", "parent 1"]
    assert opened(disk.path / TEXT_FILE).check(disk.read) == ()


def open_files() -> set[str]:
    """The names of the files that this process has open."""
    names = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            names.add(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
    return names


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files here")
def test_a_fork_closes_the_file(disk: LmdbStorage, opened: Opened) -> None:
    """SQLite would take the parent's locks for the child's."""
    say(disk, "owl")
    store = MemoryStorage()
    say(store, "owl")
    index, memory = opened(disk.path / TEXT_FILE), opened(None)
    assert seqs(index.search(disk.read, "owl")) == seqs(memory.search(store.read, "owl")) == [1]
    assert TEXT_FILE in open_files()
    if (child := os.fork()) == 0:
        os._exit(TEXT_FILE in open_files())
    assert os.waitpid(child, 0)[1] == 0
    assert seqs(index.search(disk.read, "owl")) == seqs(memory.search(store.read, "owl")) == [1]
