# SPDX-License-Identifier: Apache-2.0
"""Random steps on a store, beside a plain model of states."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from random import Random

import pytest

from omsgrain._core import term
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.tables import HELD
from support.small_grains import WHICH, change, facts, split

GRAINS = facts(8)


@dataclass
class Model:
    """The store as plain dicts."""

    last: int = 0
    numbers: dict[int, int] = field(default_factory=dict)  # of the grains that are there
    past: set[int] = field(default_factory=set)  # numbers

    def copy(self) -> Model:
        return Model(self.last, dict(self.numbers), set(self.past))

    def put(self, grain: int) -> None:
        if grain not in self.numbers:
            self.last += 1
            self.numbers[grain] = self.last

    def expect(self, reader: Reader) -> None:
        assert reader.last_seq() == self.last
        assert reader.count() == len(self.numbers)
        found = reader.find([digest for digest, _ in GRAINS])
        assert found == [self.numbers.get(grain) for grain in range(len(GRAINS))]
        seqs = [self.numbers[grain] for grain in sorted(self.numbers)]  # by time
        assert split(reader) == (
            [seq for seq in seqs if seq not in self.past],
            [seq for seq in seqs if seq in self.past],
        )
        for which, wanted in zip(WHICH, (False, True, None), strict=True):
            here = {
                term("subject", f"room {grain % 3}")
                for grain, seq in self.numbers.items()
                if wanted is None or (seq in self.past) == wanted
            }
            assert list(reader.keys(term("subject", "room"), which)) == sorted(here)


#: How often each step is taken.
STEPS = {
    "put": 8,
    "past": 4,
    "back": 2,
    "remove": 3,
    "event": 1,
    "lost": 2,
    "flush": 2,
    "reopen": 1,
    "rebuild": 1,
    "look": 3,
}


def step(writer: Writer, model: Model, name: str, grain: int) -> None:
    """Do it to both."""
    seq = model.numbers.get(grain)
    if name == "put":
        writer.put([GRAINS[grain]])
        model.put(grain)
    elif name == "event":
        model.last += 1
        assert writer.event(HELD, seq or 0, GRAINS[grain][0]) == model.last
    elif seq is not None and name == "remove":
        writer.remove(seq)
        del model.numbers[grain]
        model.last += 1  # it is always the first step of its commit
    elif seq is not None:
        change(writer, seq, GrainStatus(restricted=name == "past"))
        (model.past.add if name == "past" else model.past.discard)(seq)


def walk(opened: Callable[[], Storage], kept: bool, random: Random) -> None:
    """Take random steps on a store and on its model; one that is kept is opened again, too."""
    store, model = opened(), Model()
    with ExitStack() as held:
        old: list[tuple[Reader, Model]] = []

        def let_go() -> None:
            for reader, was in old:
                was.expect(reader)
            old.clear()
            held.close()

        for name in random.choices(list(STEPS), list(STEPS.values()), k=60):
            grain = random.randrange(len(GRAINS))
            if name == "look":
                old.append((held.enter_context(store.read()), model.copy()))
                assert old[-1][0].last_seq() == model.last
                if len(old) % 2:
                    model.expect(old[-1][0])
            elif name == "reopen" and kept:
                let_go()
                store.close()
                store = opened()
            elif name in ("flush", "reopen"):
                store.flush()
            elif name == "rebuild":
                store.rebuild()
            else:

                def work(writer: Writer, name: str = name, grain: int = grain) -> None:
                    if name != "lost":
                        step(writer, model, name, grain)
                        return
                    twin = model.copy()
                    for some in ("remove", "put", "past"):
                        step(writer, twin, some, grain)
                    twin.expect(writer)
                    raise ZeroDivisionError

                with pytest.raises(ZeroDivisionError) if name == "lost" else nullcontext():
                    store.write(work)
        let_go()
        with store.read() as reader:
            model.expect(reader)
    store.close()
