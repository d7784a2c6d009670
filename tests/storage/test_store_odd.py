# SPDX-License-Identifier: Apache-2.0
"""Stores of others, stores in forked children, and what opening one takes."""

from __future__ import annotations

from pathlib import Path

from support.child_process import run


def test_opening_a_store_imports_no_format(tmp_path: Path) -> None:
    """Every command that starts would wait for them."""
    code = """
        import sys
        import omsgrain
        omsgrain.open(sys.argv[1]).close()
        inner = [name for name in sys.modules if name.startswith("omsgrain.formats.")]
        print([name for name in inner if name.count(".") > 2])
    """
    assert run(code, tmp_path / "memory.omsg") == ["[]"]


def test_a_store_in_memory_is_refused_after_a_fork() -> None:
    """Rows written to it there would be lost, and its locks may be held for ever."""
    code = """
        import os, threading
        from omsgrain.errors import StoreError
        from omsgrain.storage.memory import MemoryStorage
        store = MemoryStorage()
        begun, go_on = threading.Event(), threading.Event()
        def work(writer):
            begun.set()
            go_on.wait()
        writing = threading.Thread(target=store.write, args=[work])
        writing.start()
        begun.wait()
        child = os.fork()
        if not child:
            calls = [
                lambda: store.read().__enter__(), lambda: store.write(lambda w: None),
                store.sync, store.flush, store.rebuild, store.check, store.compact, store.stats,
            ]
            for call in calls:
                try:
                    call()
                    os._exit(1)
                except StoreError:
                    pass
            store.close()
            MemoryStorage().write(lambda w: None)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        go_on.set()
        writing.join()
        store.write(lambda w: None)
    """
    assert run(code) == ["0"]


def test_no_permission() -> None:
    # Root may write anywhere, so there the child becomes nobody.
    code = """
        import os, tempfile
        from pathlib import Path
        from omsgrain.errors import StoreError
        from omsgrain.storage.lmdb.storage import LmdbStorage
        with tempfile.TemporaryDirectory() as top:
            os.chmod(top, 0o755)
            store, closed = Path(top, "memory.omsg"), Path(top, "closed")
            LmdbStorage(store).close()
            closed.mkdir()
            for place in (store / "data.mdb", store / "lock.mdb", store, closed):
                place.chmod(0o555)
            if os.geteuid() == 0:
                os.seteuid(65534)
            for path in (store, closed / "new.omsg"):
                try:
                    LmdbStorage(path)
                except StoreError as error:
                    print(error.code)
            os.seteuid(os.getuid())
            store.chmod(0o755)
    """
    assert run(code) == ["ERR_ACCESS", "ERR_ACCESS"]


def test_a_reader_without_write_permission_needs_no_lock_file() -> None:
    """LMDB notes there who reads. A reader without a note keeps writers out (test_read_only)."""
    code = """
        import os, tempfile
        from pathlib import Path
        from omsgrain.storage.lmdb.storage import LmdbStorage
        def look():
            if os.getuid() == 0:
                os.seteuid(65534)
            store = LmdbStorage(path, readonly=True)
            print(store.stats().grains, store._env._shared is None)
            store.close()
            os.seteuid(os.getuid())
        with tempfile.TemporaryDirectory() as top:
            os.chmod(top, 0o755)
            path = Path(top, "memory.omsg")
            LmdbStorage(path).close()
            lock = path / "lock.mdb"
            lock.chmod(0o444)
            path.chmod(0o555)
            look()
            lock.chmod(0o666)
            look()
            path.chmod(0o755)
            store = LmdbStorage(path)
            store.compact()
            store.close()
            path.chmod(0o555)
            look()
            path.chmod(0o755)
            lock.unlink()
            path.chmod(0o555)
            look()
            path.chmod(0o755)
    """
    assert run(code) == ["0 False", "0 True", "0 True", "0 False"]
