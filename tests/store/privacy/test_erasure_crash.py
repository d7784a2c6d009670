# SPDX-License-Identifier: Apache-2.0
"""An erasure that is interrupted anywhere resumes with the next run of due erasures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import TABLES, Life
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy import erasure
from support.child_process import ended
from support.invented_people import ANN, NAMES, Clock, belief, opened
from support.paths import TESTS

USER: dict[str, Any] = {"user_id": "ann-17"}
BEN: dict[str, Any] = {"user_id": "ben"}
MASTER = bytes(range(32))


class Cut(BaseException):
    """The end of the process."""


@contextmanager
def opening(folder: Path) -> Iterator[GrainStore]:
    with KeyRing.open(folder / "people.keys", master=MASTER) as ring:
        settings = Settings(actor="tester", clock=Clock(), keys=ring)
        with GrainStore(LmdbStorage(folder / "memory.omsg"), settings) as store:
            yield store


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, list[str], list[str]]:
    """A folder with a store: Ann's grains, and those of others."""
    folder = tmp_path / "made"
    folder.mkdir()
    with opened("sealed lmdb", folder, Settings(clock=Clock())) as store:
        own = [store.put(belief(f"lit {n}", **USER)) for n in range(3)]
        others = [store.put(belief("kind", subject="ann-17")), store.put(belief("red", **BEN))]
        own += [store.put(belief(f"dim {n}", author_did=ANN)) for n in range(3)]
        own.append(store.put(belief("red", **BEN, subject_did=ANN)))
    return folder, own, others


def cut_at(step: int, patch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Cut the process off before its commit number ``step``, or behind a key's destruction."""
    write, erase, count = LmdbStorage.write, KeyRing.erase, [0]

    def writing(self: LmdbStorage, work: Any, **given: Any) -> Any:
        def cut(writer: Any) -> Any:
            result = work(writer)
            count[0] += 1
            if count[0] == step:
                raise Cut
            return result

        return write(self, cut, **given)

    patch.setattr(LmdbStorage, "write", writing)
    if step == 0:

        def erasing_keys(self: KeyRing, users: Any) -> int:
            erase(self, users)
            raise Cut

        patch.setattr(KeyRing, "erase", erasing_keys)
    return lambda: count[0]


def check(store: GrainStore, own: list[str], others: list[str]) -> None:
    for address in own:
        with pytest.raises((err.NotFoundError, err.ErasedError)):
            store.get(address)
    for address in others:
        store.get(address)
    assert store.privacy.due() == []
    assert store.audit.verify().ok
    with context_of(store).storage.read() as reader:
        tables = [t for t in TABLES if not t.places and t.life is not Life.BLOBS]
        kept = b"".join(key + row for table in tables for key, row in reader.rows(table))
    assert not any(name.encode() in kept for name in NAMES)


def test_cut_off_at_every_commit(
    made: tuple[Path, list[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, own, others = made
    monkeypatch.setattr(erasure, "_PAGE", 2)
    monkeypatch.setattr(erasure, "_ROWS", 20)
    for step in range(100):
        here = tmp_path / f"cut {step}"
        shutil.copytree(folder, here)
        with opening(here) as store, monkeypatch.context() as patch:
            cut_at(step, patch)
            try:
                assert store.privacy.erase(NAMES, reason_code="gdpr17").complete
            except Cut:
                done = False
            else:
                done = True
        with opening(here) as store:
            if step == 1:  # the order was not placed
                assert [store.get(address)["type"] for address in own] == ["belief"] * len(own)
                store.privacy.erase(NAMES, reason_code="gdpr17")
            else:
                assert step > 3 or store.privacy.due()
                store.privacy.run_due(everything=True)
                store.privacy.run_due(everything=True)  # the scrubbing that the first has queued
            check(store, own, others)
        shutil.rmtree(here)
        if done:
            break
    assert step > 12


CHILD = """
    import os, sys
    sys.path[:0] = {tests!r}
    import test_erasure_crash as t
    from omsgrain.store.privacy import erasure as carrying
    from omsgrain.storage.lmdb.storage import LmdbStorage
    from pathlib import Path

    carrying._PAGE = 2
    write, count = LmdbStorage.write, [0]

    def writing(self, work, **given):
        result = write(self, work, **given)
        count[0] += 1
        if count[0] == {step}:
            os.kill(os.getpid(), 9)
        return result

    LmdbStorage.write = writing
    with t.opening(Path({folder!r})) as store:
        store.privacy.erase(t.NAMES, reason_code="gdpr17")
"""


@pytest.mark.parametrize("step", [2, 9])
def test_killed(made: tuple[Path, list[str], list[str]], step: int) -> None:
    folder, own, others = made
    tests = [str(TESTS), str(TESTS / "store" / "privacy")]
    code = CHILD.format(tests=tests, step=step, folder=str(folder))
    assert ended(code).returncode == -9
    with opening(folder) as store:
        store.privacy.run_due(everything=True)
        store.privacy.run_due(everything=True)
        check(store, own, others)


def test_without_keys_the_erasure_waits_for_a_holder_of_keys(
    made: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, own, others = made
    with opening(folder) as store, monkeypatch.context() as patch:
        cut_at(2, patch)
        with pytest.raises(Cut):
            store.privacy.erase(NAMES, reason_code="gdpr17")
    with GrainStore(LmdbStorage(folder / "memory.omsg"), Settings(clock=Clock())) as store:
        report = store.privacy.run_due(everything=True)
        assert (report.waiting, report.finished) == (1, 0)
    with opening(folder) as store:
        store.privacy.run_due(everything=True)
        store.privacy.run_due(everything=True)
        check(store, own, others)


def test_marks_are_known_by_every_spelling() -> None:
    from omsgrain.storage import tombstones

    key = bytes(32)
    marked = erasure.MarkedIdentities((key,), (tombstones.mark(key, "identity", "am\u00e9lie"),))
    assert "am\u00e9lie" in marked
    assert "ame\u0301lie" in marked
    assert "amelie" not in marked
    assert 7 not in marked
