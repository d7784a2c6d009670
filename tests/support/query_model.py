# SPDX-License-Identifier: Apache-2.0
"""Queries beside a plain model, over whatever happens to a store in between."""

from __future__ import annotations

import json
import unicodedata
from typing import Any, cast

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import omsgrain as og
from omsgrain.query.filters import Filters, conditions
from omsgrain.query.query import iterate
from omsgrain.query.walk import Walk, holds
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.records import GrainStatus
from omsgrain.store.context import context_of
from support.query_stores import ask, numbers, remove, set_state

TIME = 1_700_000_000_000


TIMES = [TIME, TIME + 1, TIME + 2, TIME + 1_000, 0, (1 << 32) * 1000 - 1]


TEXTS = [
    "room",
    "room 1",
    "",
    "Cafe\u0301",  # NFC makes it shorter
    "Caf\u00e9",
    "\u00dcbergr\u00f6\u00dfe",
    "x" * 20,
    "x" * 21,
    "x" * 40,
    "x" * 41,
    "e\u0301" * 15,  # 45 bytes, 30 once it is NFC
    "\u00e9" * 21,
    "n" * 490,
]


OBJECTS: list[Any] = [
    *TEXTS,
    {"reading": 7, "unit": "Cafe\u0301"},
    {"reading": 7, "unit": "Caf\u00e9"},
    {"reading": 7.0, "list": [1, "e\u0301"]},
    {"e\u0301": {}},
    {},
]


READINGS: list[Any] = [*OBJECTS, 7, 7.0, 1, True, -1, 0.25, [1, "e\u0301"], b"\0", [{}]]


FIELDS = ("namespace", "subject", "relation", "user_id", "session_id", "run_id")


SPACES = [*TEXTS, "a:", "a:b", "a:b:c", "a:" + "n" * 490, "Cafe\u0301:x", "b:x"]


PREFIXES = ["a:*", "a:b:*", "b:*", ":*", "Cafe\u0301:*", "Caf\u00e9:*", "n" * 490 + ":*"]


SPANS = ("valid_from", "valid_to", "system_valid_from")


STATUSES = ("unverified", "verified", "contested", "retracted")


ADDRESSES = ["ab" * 32, "cd" * 32]


BYTES = {"belief": 1, "fact": 1, "event": 2, "observation": 6, "goal": 7, 0xFE: 0xFE, 0x0E: 0x0E}


OBSERVER = {"observer_id": "robot", "observer_type": "human"}


REQUIRED: dict[str | int, dict[str, Any]] = {
    "belief": {"subject": "room", "relation": "has", "object": "light", "confidence": 0.75},
    "event": {"content": "something happened"},
    "observation": OBSERVER,
    "goal": {"subject": "room", "description": "light", "goal_state": "active"},
    0xFE: {},
    0x0E: {},
}


def nfc(value: Any) -> Any:
    """A value as a grain holds it."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, dict):
        return {nfc(key): nfc(item) for key, item in value.items()}
    return [nfc(item) for item in value] if isinstance(value, list | tuple) else value


def exact(value: Any) -> str:
    """Text that distinguishes 7 from 7.0 and 1 from True, as ``==`` does not."""
    if isinstance(value, dict):
        return str(sorted((key, exact(item)) for key, item in value.items()))
    return str([exact(item) for item in value]) if isinstance(value, list) else repr(value)


def created(grain: og.Grain) -> int:
    return int(grain.get("created_at", 0))


def place(grain: og.Grain) -> tuple[int, str]:
    return -created(grain), grain.address


def matches(grain: og.Grain, state: GrainStatus, asked: dict[str, Any]) -> bool:
    if not state_matches(grain, state, asked):
        return False
    fields = grain.to_dict()
    for name, value in asked.items():
        if name in ("current", "known_at", "verification_status"):
            continue
        if name == "type":
            good = grain.header.type_byte == BYTES[value]
        elif name == "origin":
            good = grain.get("x_src") in (source(value), source(value, HASH)) or (
                value == NAME and b'"h"' in grain.get("x_src", b"")
            )
        elif name == "tag":
            good = nfc(value) in fields.get("structural_tags", [])
        elif name == "created_after":
            good = created(grain) >= value
        elif name == "created_before":
            good = created(grain) < value
        elif name == "min_confidence":
            good = "confidence" in fields and fields["confidence"] >= value
        elif name == "valid_at":
            good = fields.get("valid_from", value) <= value <= fields.get("valid_to", value)
        elif name == "namespace" and value.endswith(":*"):
            good = fields.get("namespace", "").startswith(nfc(value[:-1]))
        else:
            good = name in grain and exact(fields[name]) == exact(nfc(value))
        if not good:
            return False
    return True


def state_matches(grain: og.Grain, state: GrainStatus, asked: dict[str, Any]) -> bool:
    current = asked.get("current", True)
    status = asked.get("verification_status", state.verification_status)
    if status != state.verification_status:
        return False
    superseded = state.superseded_by is not None
    if "known_at" in asked:
        time, end = asked["known_at"], state.system_valid_to
        if grain.to_dict().get("system_valid_from", created(grain)) > time:
            return False
        if end is not None and end <= time:
            return False
        superseded = False
    retracted = state.verification_status == "retracted"
    if current is False:
        return superseded or retracted or state.restricted
    hidden = superseded or state.restricted or (retracted and "verification_status" not in asked)
    return current is None or not hidden


HASH = "0123456789abcdef" * 4


NAME = f"sha256:{HASH}"


def source(name: str, hash_: str | None = None) -> bytes:
    """The side channel of a record with this name, and a text with this hash."""
    told = {"f": "other", "k": "note", "id": nfc(name)} | ({"h": hash_} if hash_ else {})
    return json.dumps(told).encode("ascii")


texts = st.sampled_from(TEXTS)


sources = st.one_of(
    st.builds(source, texts, st.sampled_from([None, HASH])),
    st.sampled_from([b"", b"[]", b'{"id":1}', b"\xff"]),
)


spaces = st.sampled_from(SPACES)


times = st.sampled_from(TIMES)


confidences = st.sampled_from([0.0, 0.25, 0.75, 1.0])


@st.composite
def grains(draw: st.DrawFn) -> og.Grain:
    kind = draw(st.sampled_from(list(REQUIRED)))
    fields: dict[str, Any] = {"created_at": draw(times), **REQUIRED[kind]}
    for name in draw(st.sets(st.sampled_from(FIELDS), max_size=4)):
        text = draw(spaces if name == "namespace" else texts)
        if text or name not in REQUIRED[kind]:
            fields[name] = text
    if draw(st.booleans()):
        free = kind == "observation" or isinstance(kind, int)
        fields["object"] = draw(st.sampled_from(READINGS if free else OBJECTS))
    if draw(st.booleans()):
        fields["x_src"] = draw(sources)
    if draw(st.booleans()):
        fields["structural_tags"] = draw(st.lists(texts, max_size=3))
    for name in draw(st.sets(st.sampled_from(SPANS))):
        fields[name] = draw(times)
    if "valid_from" in fields and "valid_to" in fields:
        fields["valid_from"], fields["valid_to"] = sorted(fields[n] for n in SPANS[:2])
    if draw(st.booleans()):
        fields["confidence"] = draw(confidences)
    if draw(st.booleans()):
        fields["x_number"] = draw(st.integers(0, 50))
    options: dict[str, Any] = {
        "encoding": draw(st.sampled_from(["msgpack", "cbor"])),
        "compress": draw(st.booleans()),
    }
    if isinstance(kind, int):
        return og.Grain(og.encode(fields, type_byte=kind, **options))
    return og.Grain(og.encode({"type": kind, **fields}, **options))


@st.composite
def states(draw: st.DrawFn) -> GrainStatus:
    """Often one of which nothing is known, so that grains come back, too."""
    successors = tuple(sorted(draw(st.sets(st.sampled_from(ADDRESSES)))))
    return GrainStatus(
        superseded_by=successors[0] if successors else None,
        successors=successors,
        system_valid_to=draw(times) if successors else None,
        verification_status=draw(st.sampled_from((*STATUSES[:1] * 3, *STATUSES[1:]))),
        restricted=draw(st.sampled_from([False, False, True])),
    )


filters_given = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(list(BYTES)),
        **dict.fromkeys((*FIELDS, "tag"), texts),
        "namespace": st.sampled_from([*SPACES, *PREFIXES]),
        "object": st.sampled_from(READINGS),
        "origin": st.one_of(texts, st.just(NAME)),
        "created_after": times,
        "created_before": times,
    },
).map(lambda filters: dict(list(filters.items())[:4]))


tests_given = st.fixed_dictionaries(
    {},
    optional={
        "current": st.sampled_from([True, False, None]),
        "valid_at": times,
        "known_at": times,
        "verification_status": st.sampled_from(STATUSES),
        "min_confidence": confidences,
    },
).filter(lambda tests: not ("known_at" in tests and tests.get("current") is False))


NO_FILTERS = ("created_after", "created_before", "current")


orders = st.sampled_from(["newest", "oldest"])


limits = st.sampled_from([1, 2, 7, 50])


class QueryModel(RuleBasedStateMachine):
    """The store beside a dict of all its grains and their states."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, og.Grain] = {}
        self.states: dict[str, GrainStatus] = {}
        self.store = self.open()

    def open(self) -> og.GrainStore:
        return og.GrainStore(MemoryStorage())

    def teardown(self) -> None:
        self.store.close()

    def answer(self, asked: dict[str, Any], order: str = "newest") -> list[og.Grain]:
        found = [g for a, g in self.model.items() if matches(g, self.state(a), asked)]
        return sorted(found, key=place, reverse=order == "oldest")

    def state(self, address: str) -> GrainStatus:
        return self.states.get(address, GrainStatus())

    def some_grain(self, data: st.DataObject) -> og.Grain:
        return data.draw(st.sampled_from(sorted(self.model.values(), key=place)))

    def some_filters(self, data: st.DataObject) -> dict[str, Any]:
        """Filters at random, or some that a grain in the store has, which find something."""
        given: dict[str, Any] = data.draw(filters_given)
        if self.model and given.keys() <= {"type", "tag", "created_after"}:
            grain = self.some_grain(data)
            names = [name for name in (*FIELDS, "object") if name in grain]
            kept = data.draw(st.sets(st.sampled_from(names), max_size=3)) if names else set()
            given = {name: grain.to_dict()[name] for name in sorted(kept)}
        return given | data.draw(tests_given)

    @rule(grain=grains())
    def put(self, grain: og.Grain) -> None:
        assert self.store.put(grain) == grain.address
        self.model[grain.address] = grain

    @rule(some=st.lists(grains(), max_size=15), again=st.booleans())
    def put_many(self, some: list[og.Grain], again: bool) -> None:
        some += list(self.model.values())[:3] if again else some[:2]
        new = {grain.address for grain in some} - self.model.keys()
        report = self.store.put_many(some)
        assert report.addresses == [grain.address for grain in some]
        assert (report.stored, report.duplicates) == (len(new), len(some) - len(new))
        self.model.update((grain.address, grain) for grain in some)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), given=st.lists(states(), min_size=1, max_size=5))
    def mark(self, data: st.DataObject, given: list[GrainStatus]) -> None:
        for state in given:
            address = self.some_grain(data).address
            set_state(self.store, address, state)
            self.states[address] = state

    @precondition(lambda self: self.model)
    @rule(data=st.data(), again=st.booleans())
    def remove(self, data: st.DataObject, again: bool) -> None:
        grain = self.some_grain(data)
        remove(self.store, *numbers(self.store, grain.address))
        self.states.pop(grain.address, None)
        del self.model[grain.address]
        if again:
            self.put(grain)

    @rule()
    def flush(self) -> None:
        context_of(self.store).inner.flush()

    @rule()
    def rebuild(self) -> None:
        report = self.store.maintenance.rebuild()
        assert (report.grains, report.damaged) == (len(self.model), ())

    @rule(data=st.data(), order=orders, limit=limits)
    def query(self, data: st.DataObject, order: Any, limit: int) -> None:
        asked = self.some_filters(data)
        expected = self.answer(asked, order)
        page = ask(self.store, limit, **asked, order=order, count=True, explain=True, scan=True)
        assert [hit.grain.blob for hit in page.results] == [g.blob for g in expected[:limit]]
        assert page.total == len(expected)
        assert (page.next_cursor is None) == (len(expected) <= limit)
        names = [name for name in asked if name not in NO_FILTERS]
        assert all(sorted(hit.matched_fields) == sorted(names) for hit in page.results)
        assert page.plan is not None
        assert page.plan.index != "all" or not set(names) - set(page.plan.tested)
        if not page.plan.tested:
            assert page.plan.blobs <= len(page.results) + 1

    @rule(data=st.data())
    def test_each(self, data: st.DataObject) -> None:
        """As a search does with its candidates."""
        asked = self.some_filters(data)
        wanted = conditions(asked)
        with context_of(self.store).storage.read() as reader:
            found = set(Walk(reader, wanted, True).seqs())
            for address, grain in self.model.items():
                [seq] = reader.find([bytes.fromhex(address)])
                assert seq is not None
                expected = matches(grain, self.state(address), asked)
                assert holds(reader, seq, grain, wanted) == expected == (seq in found)

    @rule(data=st.data())
    def iterate(self, data: st.DataObject) -> None:
        asked = self.some_filters(data)
        found = iterate(context_of(self.store).storage.read, cast("Filters", asked), scan=True)
        assert list(found) == self.answer(asked)

    @rule(data=st.data(), order=orders, limit=limits, between=st.lists(grains(), max_size=5))
    def walk(self, data: st.DataObject, order: Any, limit: int, between: list[og.Grain]) -> None:
        """Page after page, with grains that arrive between: what follows the last one follows."""
        asked = self.some_filters(data)
        cursor, last = None, None
        while True:
            left = self.answer(asked, order)
            if last is not None:
                left = left[left.index(last) + 1 :]
            page = ask(self.store, limit, **asked, order=order, cursor=cursor, scan=True)
            assert [hit.grain for hit in page.results] == left[:limit]
            if (cursor := page.next_cursor) is None:
                assert len(left) <= limit
                return
            last = page.results[-1].grain
            if between:
                self.put(between.pop())

    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        if self.model:
            address = data.draw(st.sampled_from(sorted(self.model)))
            assert self.store.get(address) == self.model[address]

    @invariant()
    def size(self) -> None:
        assert len(self.store) == len(self.model)
