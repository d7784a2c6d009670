# SPDX-License-Identifier: Apache-2.0
"""A store against a plain-Python model: put, supersede, contest, delete, reopen, rebuild."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage.check import check
from support import store_kinds

TIME = 1_700_000_000_000
STATUSES = ("unverified", "verified", "contested", "retracted")


@dataclass(slots=True)
class Known:
    """The model of a grain."""

    grain: og.Grain
    successors: set[str] = field(default_factory=set)
    until: int | None = None
    status: str = "unverified"

    @property
    def past(self) -> bool:
        return bool(self.successors) or self.status == "retracted"


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "belief",
        "subject": draw(st.sampled_from(["arm", "base", "lamp"])),
        "relation": draw(st.sampled_from(["is", "has"])),
        "object": draw(st.sampled_from(["on", "off", "broken"])),
        "confidence": draw(st.sampled_from([0.25, 0.5, 1.0])),
        "created_at": TIME + draw(st.integers(0, 5)),
        "namespace": draw(st.sampled_from(["lab:a", "lab:b", "home"])),
    }
    if draw(st.booleans()):
        made["valid_from"] = TIME + draw(st.integers(0, 5))
    if draw(st.booleans()):
        made["valid_to"] = TIME + draw(st.integers(2, 8))
    if draw(st.booleans()):
        made["system_valid_from"] = TIME + draw(st.integers(0, 5))
    return made


numbers = st.integers(0, 1_000)
times = st.integers(TIME - 1, TIME + 9)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    choices: dict[str, st.SearchStrategy[Any]] = {
        "subject": st.sampled_from(["arm", "base", "lamp"]),
        "relation": st.sampled_from(["is", "has"]),
        "object": st.sampled_from(["on", "off"]),
        "namespace": st.sampled_from(["lab:a", "lab:*", "home", "h:*"]),
        "valid_at": times,
        "known_at": times,
        "current": st.sampled_from([True, False, None]),
        "verification_status": st.sampled_from(STATUSES),
        "min_confidence": st.sampled_from([0.0, 0.5, 1.0]),
        "created_after": times,
    }
    names = draw(st.sets(st.sampled_from(sorted(choices)), max_size=4))
    asked = {name: draw(choices[name]) for name in sorted(names)}
    if "known_at" in asked and asked.get("current") is False:
        del asked["current"]  # what was known at a time was current then
    return asked


class Life(RuleBasedStateMachine):
    """Both do the same; what they answer must agree."""

    def __init__(self, path: Path | None, kind: str) -> None:
        super().__init__()
        self.path = path
        self.kind = kind
        self.known: dict[str, Known] = {}
        self.gone: set[str] = set()
        self.links: set[tuple[str, str]] = set()
        self.open()

    def open(self) -> None:
        self.store = og.GrainStore(store_kinds.made(self.kind, self.path or Path("memory.omsg")))

    def some(self, number: int) -> Known | None:
        names = sorted(self.known)
        return self.known[names[number % len(names)]] if names else None

    @rule(given=st.lists(fields(), min_size=1, max_size=4))
    def put(self, given: list[dict[str, Any]]) -> None:
        report = self.store.put_many(given)
        for address, made in zip(report.addresses, given, strict=True):
            assert address is not None
            if address not in self.known:
                self.known[address] = Known(og.Grain(og.encode(made)))

    @rule(number=numbers, given=fields())
    def supersede(self, number: int, given: dict[str, Any]) -> None:
        old = self.some(number)
        if old is None:
            return
        new = og.Grain(og.encode(given))
        if self.circle(old.grain.address, new.address):
            with pytest.raises(err.SchemaError):
                self.store.supersede(old.grain.address, new)
            return
        assert self.store.supersede(old.grain.address, given) == new.address
        self.known.setdefault(new.address, Known(new))
        self.links.add((old.grain.address, new.address))
        if new.address not in old.successors:
            since = given.get("system_valid_from", given["created_at"])
            old.until = since if old.until is None else min(old.until, since)
            old.successors.add(new.address)

    def circle(self, old: str, new: str) -> bool:
        seen, waiting = set(), [new]
        while waiting:
            address = waiting.pop()
            if address == old:
                return True
            if address in self.known and address not in seen:
                seen.add(address)
                waiting += self.known[address].successors
        return False

    @rule(number=numbers, status=st.sampled_from(STATUSES))
    def mark(self, number: int, status: Any) -> None:
        if (one := self.some(number)) is not None:
            self.store.trust.set_verification(one.grain.address, status)
            one.status = status

    @rule(number=numbers)
    def delete(self, number: int) -> None:
        if (one := self.some(number)) is not None:
            self.store.delete(one.grain.address)
            del self.known[one.grain.address]
            self.gone.add(one.grain.address)
            self.links = {pair for pair in self.links if one.grain.address not in pair}

    @rule()
    def rebuild(self) -> None:
        assert self.store.maintenance.rebuild().grains == len(self.known)

    @precondition(lambda self: self.path is not None)
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule(asked=questions(), limit=st.integers(1, 7))
    def query(self, asked: dict[str, Any], limit: int) -> None:
        wanted = sorted(
            (one.grain for one in self.known.values() if self.matches(one, asked)),
            key=lambda grain: (-grain["created_at"], grain.address),
        )
        found, cursor = [], None
        while True:
            page = self.store.query(
                **asked, limit=limit, cursor=cursor, count=True, scan=True, order="newest"
            )
            found += [hit.address for hit in page.results]
            assert page.total == len(wanted)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [grain.address for grain in wanted]

    def matches(self, one: Known, asked: dict[str, Any]) -> bool:
        grain, current = one.grain, asked.get("current", True)
        status = asked.get("verification_status")
        if status is not None and one.status != status:
            return False
        if "known_at" in asked:
            at = asked["known_at"]
            if grain.get("system_valid_from", grain["created_at"]) > at:
                return False
            if one.until is not None and one.until <= at:
                return False
            if one.status == "retracted" and current is not None and status is None:
                return False
        elif current is True:
            if one.successors or (one.status == "retracted" and status is None):
                return False
        elif current is False and not one.past:
            return False
        at = asked.get("valid_at")
        if at is not None and not grain.get("valid_from", at) <= at <= grain.get("valid_to", at):
            return False
        if grain["created_at"] < asked.get("created_after", 0):
            return False
        if grain["confidence"] < asked.get("min_confidence", 0):
            return False
        space = asked.get("namespace", grain["namespace"])
        if space.endswith(":*"):
            if not grain["namespace"].startswith(space[:-1]):
                return False
        elif grain["namespace"] != space:
            return False
        return all(grain[n] == asked[n] for n in ("subject", "relation", "object") if n in asked)

    @rule(number=numbers)
    def state(self, number: int) -> None:
        if (one := self.some(number)) is not None:
            state = self.store.status(one.grain.address)
            assert state.successors == tuple(sorted(one.successors))
            assert state.superseded_by == min(one.successors, default=None)
            assert state.system_valid_to == one.until
            assert state.verification_status == one.status

    @rule(number=numbers)
    def heads(self, number: int) -> None:
        one = self.some(number)
        if one is None:
            return
        joined, before = {one.grain.address}, 0
        while before != len(joined):
            before = len(joined)
            joined |= {a for pair in self.links if joined & set(pair) for a in pair}
        heads = {address for address in joined if not self.known[address].past}
        assert {grain.address for grain in self.store.graph.heads(one.grain.address)} == heads

    @invariant()
    def counts(self) -> None:
        assert len(self.store) == len(self.known)
        for address in self.gone - self.known.keys():
            assert not self.store.exists(address)

    def teardown(self) -> None:
        if self.kind == "postgres":
            found = self.store.maintenance.check()
            assert found.ok, found.problems
        self.store.close()
        if self.kind == "lmdb":
            assert self.path is not None
            report = check(self.path)
            assert report.ok, report.problems
            with og.open(self.path, readonly=True) as store:
                assert store.audit.verify().ok


@pytest.mark.parametrize("kind", ["memory", "lmdb", store_kinds.POSTGRES])
def test_a_store_and_its_model_agree(kind: str, pytestconfig: pytest.Config) -> None:
    long = bool(pytestconfig.getoption("--long"))
    scale = settings(max_examples=400 if long else 15, stateful_step_count=30 if long else 15)
    paths: list[Path] = []

    def machine() -> Life:
        if kind == "memory":
            return Life(None, kind)
        paths.append(Path(tempfile.mkdtemp()))
        return Life(paths[-1] / "memory.omsg", kind)

    try:
        run_state_machine_as_test(machine, settings=scale)  # type: ignore[arg-type]  # makes one
    finally:
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)
