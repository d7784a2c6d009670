# SPDX-License-Identifier: Apache-2.0
"""A supersession that is killed between any two of its steps has happened whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from test_crash import write_and_kill

import omsgrain as og
from omsgrain.store.context import context_of
from support.child_process import ended, run

TIME = 1_700_000_000_000
STEPS = ("put", "set_row", "set_past", "event")


def belief(what: str, at: int = 0) -> og.Grain:
    return og.Belief(subject="lamp", relation="is", object=what, created_at=TIME + at)


# Supersedes OLD by "off", and kills itself before step number N of the transaction, or after the
# commit and before the call has returned (N = 0). Says how many steps there were if it lives.
SUPERSEDE = f"""
    import os, sys
    import omsgrain as og
    from omsgrain.storage.lmdb.environment import Environment
    from omsgrain.storage.lmdb.writer import LmdbWriter
    path, old, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
    steps = 0
    def counted(inner):
        def step(*args, **options):
            global steps
            steps += 1
            if steps == at:
                os.kill(os.getpid(), 9)
            return inner(*args, **options)
        return step
    for name in {STEPS!r}:
        setattr(LmdbWriter, name, counted(getattr(LmdbWriter, name)))
    if at == 0:
        Environment._committed = lambda *args: os.kill(os.getpid(), 9)
    with og.open(path) as store:
        store.supersede(old, og.Belief(
            subject="lamp", relation="is", object="off", created_at={TIME + 1}
        ))
        print(steps)
"""


def make(path: Path, *, flushed: bool) -> str:
    with og.open(path) as store:
        old = store.put(belief("on"))
        assert store.search("lamp").results
        if flushed:
            context_of(store).inner.flush()
        return old


def outcome(path: Path, old: str) -> bool:
    """Whether it has happened; whatever it is, all of the store agrees."""
    new = belief("off", 1).address
    with og.open(path) as store:
        state = store.status(old)
        happened = store.exists(new)
        assert state.successors == ((new,) if happened else ())
        assert state.system_valid_to == (TIME + 1 if happened else None)
        current = [hit.address for hit in store.query(subject="lamp").results]
        assert current == [new if happened else old]
        assert [hit.address for hit in store.search("lamp").results] == current
        assert [grain.address for grain in store.history(old)] == [old, new][: 1 + happened]
        kinds = [change.kind for change in store.changes()]
        assert kinds == (["put", "put", "supersede"] if happened else ["put"])
        assert [entry.operation for entry in store.audit.entries()] == (
            ["put", "supersede"] if happened else ["put"]
        )
        assert store.audit.verify().ok
        report = store.maintenance.check()
        assert report.ok, report.problems
    return happened


def test_killed_between_any_two_steps(tmp_path: Path, long: bool) -> None:
    old = make(tmp_path / "whole.omsg", flushed=True)
    (steps,) = run(SUPERSEDE, tmp_path / "whole.omsg", old, 10_000)
    assert outcome(tmp_path / "whole.omsg", old)
    assert int(steps) >= len(STEPS)
    for at in range(0, int(steps) + 1, 1 if long else 4):
        path = tmp_path / f"{at}.omsg"
        assert make(path, flushed=bool(at % 8)) == old
        assert ended(SUPERSEDE, path, old, at).returncode == -9
        assert outcome(path, old) is (at == 0)


# Supersedes in one long chain, and says each address once the call has returned.
CHAIN = f"""
import sys
import omsgrain as og
path, seed = sys.argv[1], int(sys.argv[2])
with og.open(path) as store:
    number = len(store)
    head = store.query(subject="lamp").results[0].address
    print("ready", flush=True)
    while True:
        number += 1
        head = store.supersede(head, og.Belief(
            subject="lamp", relation="is", object=str(number), created_at={TIME} + number
        ))
        print(head, flush=True)
"""


def test_a_killed_chain_is_whole(tmp_path: Path, long: bool) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        first = store.put(belief("0"))
    returned = [first]
    for seed in range(50 if long else 2):
        returned += write_and_kill(path, seed, 40 + 13 * seed % 100, CHAIN)
        with og.open(path) as store:
            chain = [grain.address for grain in store.history(first)]
            assert set(returned) <= set(chain)
            assert len(chain) == len(store)
            assert [hit.address for hit in store.query(subject="lamp").results] == chain[-1:]
            assert [grain.address for grain in store.graph.heads(first)] == chain[-1:]
            assert [hit.address for hit in store.search("lamp").results] == chain[-1:]
            assert store.audit.verify().ok
            returned = chain
    with og.open(path, readonly=True) as store:
        report = store.maintenance.check()
        assert report.ok, report.problems
