# SPDX-License-Identifier: Apache-2.0
"""Scenarios of people: an erasure that is cut off anywhere is gone on from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.scenario import Said, Scenario, Steps
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import ErasedError, NotFoundError
from omsgrain.storage.check import check
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from omsgrain.store.privacy import erasure
from support.invented_people import ANN, NAMES, Clock, belief
from support.key_rings import MASTER


@contextmanager
def _opened(folder: Path) -> Iterator[GrainStore]:
    with KeyRing.open(folder / "people.keys", master=MASTER) as ring:
        settings = Settings(actor="tester", clock=Clock(), keys=ring)
        with GrainStore(LmdbStorage(folder / "memory.omsg"), settings) as store:
            yield store


def _prepare(folder: Path) -> None:
    KeyRing.create(folder / "people.keys", master=MASTER).close()
    with _opened(folder) as store:
        own = [store.put(belief(f"lit {n}", user_id="ann-17")) for n in range(3)]
        own += [store.put(belief(f"dim {n}", author_did=ANN)) for n in range(3)]
        others = [store.put(belief(f"red {n}", user_id="ben")) for n in range(3)]
    (folder / "own").write_text("\n".join(own))
    (folder / "others").write_text("\n".join(others))


def _work(folder: Path, step: Steps) -> None:
    erasure._PAGE, erasure._ROWS = 2, 20
    with _opened(folder) as store:
        step("erase", lambda: store.privacy.erase(NAMES, reason_code="gdpr17").complete)
        step("put", lambda: store.put(belief("green", user_id="ben")), str)


def _look(folder: Path, said: Said) -> None:
    own, others = ((folder / name).read_text().split() for name in ("own", "others"))
    with _opened(folder) as store:
        if "erase" not in said.results and not store.privacy.due():
            readable = [address for address in own if _readable(store, address)]
            if readable:  # the order was never placed, or all of it was done
                store.privacy.erase(NAMES, reason_code="gdpr17")
        store.privacy.run_due(everything=True)
        store.privacy.run_due(everything=True)  # the scrubbing that the first has queued
        assert not [address for address in own if _readable(store, address)]
        assert all(_readable(store, address) for address in others)
        assert "put" not in said.results or store.exists(said.results["put"])
        assert store.audit.verify().ok
    report = check(folder / "memory.omsg")
    assert report.ok, report.problems
    for path in (folder / "memory.omsg").iterdir():
        data = path.read_bytes()
        assert not any(name.encode() in data for name in NAMES), path.name


def _readable(store: GrainStore, address: str) -> bool:
    try:
        return bool(store.get(address)["object"])
    except (NotFoundError, ErasedError):
        return False


SCENARIOS = {"an erasure": Scenario(_prepare, _work, _look)}
