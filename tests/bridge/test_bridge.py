# SPDX-License-Identifier: Apache-2.0
"""From a broker into a store: stored before it is acknowledged, whatever ends the bridge."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.bridge import bridge as flow
from omsgrain.bridge.bridge import BridgeLimits
from omsgrain.bridge.broker import Aside, BrokerError, DeadLetterDirectory, DeadLetters, Message
from omsgrain.errors import StoreError
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from support.bridge_memory import LIMITS, Broker, Killed, Run
from support.shell import belief

BAD = b'{"type": "belief", "subject": "the secret of s1"}'


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_FIRST", 0.0)


@pytest.fixture
def store() -> GrainStore:
    return GrainStore(MemoryStorage())


def messages(many: int, rng: random.Random) -> list[bytes]:
    """Grains as bytes and as JSON, some of them twice, some no grains."""
    made = []
    for n in range(many):
        fields = belief(n % (many * 3 // 4 + 1))
        made.append(rng.choice([og.encode(fields), json.dumps(fields).encode(), BAD]))
    return made


def grains(given: Sequence[bytes]) -> set[str]:
    """The addresses of those that are good."""
    good = [one for one in given if one != BAD]
    return {og.address(m if m[:1] == b"\x01" else og.encode(json.loads(m))) for m in good}


def test_all_is_stored_or_set_aside_before_it_is_acknowledged(store: GrainStore) -> None:
    given = messages(60, random.Random(1))
    run = Run(store, broker := Broker(given))

    def before(settled: Sequence[Message]) -> None:
        aside = {letter.data for letter in broker.published.get("refused", ())}
        for message in settled:
            held = message.data in aside if message.data == BAD else True
            assert held and grains([message.data]) <= {grain.address for grain in store}

    run.session.before_settle = before
    counts = run().counts
    assert broker.settled == list(range(60))
    assert {grain.address for grain in store} == grains(given)
    assert run.session.refused == [n for n, m in enumerate(given) if m == BAD]
    assert (counts.messages, counts.acknowledged) == (60, 60)
    assert counts.refused == given.count(BAD) == len(broker.published["refused"])
    assert counts.stored == len(store)
    assert counts.stored + counts.duplicates + counts.refused == 60
    assert counts.bytes == sum(map(len, given))


class Fatal:
    """Kills at a step that was drawn, of all the steps a bridge takes."""

    def __init__(self, at: int) -> None:
        self._left = at

    def step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


class Fragile(Run):
    """A bridge that is killed before or after any of its steps."""

    def __init__(self, store: GrainStore, broker: Broker, at: int, **more: Any) -> None:
        super().__init__(store, broker, **more)
        fatal = Fatal(at)
        session: Any = self.session
        put_many, settle, publish = store.put_many, session.settle, session.publish

        def around(work: Any) -> Any:
            def call(*arguments: Any, **named: Any) -> Any:
                fatal.step()
                done = work(*arguments, **named)
                fatal.step()
                return done

            return call

        def one_by_one(found: Sequence[Message], refused: Any) -> None:
            for i, message in enumerate(found):
                fatal.step()
                settle([message], {0} if i in refused else set())

        patched: Any = store
        patched.put_many = around(put_many)
        self._patched = patched
        session.settle = one_by_one
        session.publish = around(publish)

    def __call__(self) -> Any:
        try:
            return super().__call__()
        finally:
            del self._patched.put_many


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 30), max_size=8),
    st.integers(1, 7),
    st.integers(1, 9),
)
@settings(max_examples=40)
def test_whenever_it_is_killed_nothing_is_lost_and_nothing_is_there_twice(
    seed: int, kills: list[int], batch: int, in_flight: int
) -> None:
    given_to_it = messages(24, random.Random(seed))
    broker, store = Broker(given_to_it), GrainStore(MemoryStorage())
    limits = BridgeLimits(count=batch, age=60.0, lull=0.0, idle=0.0)
    stored: set[str] = set()
    for at in kills:
        try:
            Fragile(store, broker, at, limits=limits, in_flight=in_flight)()
        except Killed:
            pass
        now = {grain.address for grain in store}
        assert stored <= now
        stored = now
        assert grains([given_to_it[n] for n in broker.settled]) <= now
    Run(store, broker, limits=limits, in_flight=in_flight)()
    assert sorted(broker.settled) == list(range(24))
    assert {grain.address for grain in store} == grains(given_to_it)
    assert len(store) == len(grains(given_to_it))
    aside = [letter.data for letter in broker.published.get("refused", ())]
    assert set(aside) <= {BAD} and len(aside) >= given_to_it.count(BAD)


def test_a_batch_ends_by_count_by_bytes_and_by_a_lull(store: GrainStore) -> None:
    given = [json.dumps(belief(n)).encode() for n in range(12)]
    by_count = Run(
        store, Broker(given), limits=BridgeLimits(5, age=60, lull=0, idle=0), in_flight=99
    )
    assert by_count().counts.commits == 3
    size = 3 * max(map(len, given))
    limits = BridgeLimits(1_000, size, age=60, lull=0, idle=0)
    assert Run(store, Broker(given), limits=limits, in_flight=99)().counts.commits == 4
    limits = BridgeLimits(1_000, 1, age=60, lull=0, idle=0)  # one that is too large goes alone
    assert Run(store, Broker(given), limits=limits, in_flight=99)().counts.commits == 12
    limits = BridgeLimits(1_000, age=60, lull=0, idle=0)
    run = Run(store, Broker(given), limits=limits, in_flight=3)
    assert run().counts.commits == 4  # nothing more comes until these are acknowledged
    assert run.session.most == 3


def test_while_the_store_cannot_be_written_the_broker_keeps_the_rest(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(store, broker := Broker([json.dumps(belief(n)).encode() for n in range(30)]))
    put_many, tries = store.put_many, count()

    def full(*arguments: Any, **named: Any) -> Any:
        if next(tries) < 5:
            assert not broker.settled
            raise StoreError("the store cannot be written", found="No space left on device")
        return put_many(*arguments, **named)

    monkeypatch.setattr(store, "put_many", full)
    counts = run().counts
    assert (counts.retries, run.session.held, counts.stored) == (5, 5, 30)
    assert run.session.most <= 8
    failed = [json.loads(line) for line in run.said.getvalue().splitlines()]
    assert [one["event"] for one in failed] == ["commit_failed"] * 5
    assert {one["code"] for one in failed} == {"ERR_STORE"}


@pytest.mark.parametrize("what", ["store", "letters"])
def test_stop_during_a_retry_acknowledges_nothing(
    store: GrainStore, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(store, broker := Broker([BAD, json.dumps(belief(1)).encode()]))

    def fail(*_: Any, **__: Any) -> Any:
        run.stop.set()
        raise StoreError("no") if what == "store" else OSError(28, "No space left on device")

    if what == "store":
        monkeypatch.setattr(store, "put_many", fail)
    else:
        monkeypatch.setattr(run.session, "publish", fail)
    run()
    assert broker.settled == []
    assert run.session.given_back == [0, 1]
    assert len(broker.waiting) == 2


def test_stop_stores_and_acknowledges_pending_messages(store: GrainStore) -> None:
    run = Run(store, broker := Broker([json.dumps(belief(n)).encode() for n in range(8)]))
    run.session.before_settle = lambda _: run.stop.set()
    run()
    assert len(store) == len(broker.settled) == 8  # a batch of four, and what else had come


def test_letters_that_cannot_be_sent_are_sent_again(store: GrainStore) -> None:
    run = Run(store, broker := Broker([BAD, json.dumps(belief(1)).encode()]), in_flight=1)
    run.session.failures = 3
    assert run().counts.retries == 3
    (found,) = broker.published["refused"]
    assert found.data == BAD
    told = dict(found.properties)
    assert (told["code"], told["origin"]) == ("ERR_SCHEMA", broker.origin)
    assert "secret" not in told["reason"]
    assert broker.settled == [0, 1]


def test_a_final_refusal_of_the_broker_ends_the_bridge(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(store, broker := Broker([BAD]))

    def refuse(*_: Any) -> None:
        raise BrokerError("the message is too large for the broker")

    monkeypatch.setattr(run.session, "publish", refuse)
    with pytest.raises(BrokerError):
        run()
    assert broker.settled == []
    assert run.session.given_back == [0]  # others need not wait until the broker misses it


def test_refused_messages_as_files(store: GrainStore, tmp_path: Path) -> None:
    where = tmp_path / "refused"
    for _ in range(2):  # set aside twice, it is one file
        run = Run(store, Broker([BAD, b"", BAD]), letters=DeadLetterDirectory(where))
        assert run().counts.refused == 3
    files = sorted(where.iterdir())
    assert len(files) == 4
    found = {}
    for file in files:
        assert "s1" not in file.name
        if file.suffix == ".json":
            found[file.with_suffix(".message").read_bytes()] = json.loads(file.read_bytes())
    assert {data: told["code"] for data, told in found.items()} == {
        BAD: "ERR_SCHEMA",
        b"": "ERR_EMPTY",
    }


class Slow(DeadLetters):
    """Letters that see what the store has when they are written."""

    def __init__(self, store: GrainStore) -> None:
        self.had: list[int] = []
        self._store = store

    def write(self, refused: Sequence[Aside]) -> None:
        self.had.append(len(self._store))


def test_good_ones_are_stored_before_bad_ones_are_set_aside(store: GrainStore) -> None:
    letters = Slow(store)
    Run(store, Broker([BAD, json.dumps(belief(1)).encode()]), letters=letters)()
    assert letters.had == [1]


def test_the_log_has_no_content_and_no_topic(store: GrainStore) -> None:
    run = Run(store, Broker([BAD, b"secret"]), in_flight=1)
    run.session.failures = 2
    run()
    said = run.said.getvalue()
    assert "dead_letter_failed" in said
    for secret in ("secret", "robots", "s1"):
        assert secret not in said


def test_a_store_on_disk_killed_between_commit_and_acknowledgement(tmp_path: Path) -> None:
    given = [og.encode(belief(n)) for n in range(20)]
    broker = Broker(given)
    with og.open(tmp_path / "m.omsg") as store:
        run = Run(store, broker, limits=LIMITS)

        def kill(_: Sequence[Message]) -> None:
            raise Killed

        run.session.before_settle = kill
        with pytest.raises(Killed):
            run()
        assert (len(store), broker.settled) == (4, [])
    with og.open(tmp_path / "m.omsg") as store:
        counts = Run(store, broker)().counts
        assert (counts.again, counts.duplicates, counts.stored) == (4, 4, 16)
        assert len(store) == len(broker.settled) == 20


def test_erased_grains_do_not_stay_in_a_dead_letter(tmp_path: Path) -> None:
    grain = json.dumps(belief(1, user_id="u1")).encode()
    with og.open(tmp_path / "m.omsg") as store:
        store.put(json.loads(grain))
        store.privacy.erase(["u1"], reason_code="asked")
        broker = Broker([grain, BAD + b"\n" + grain])
        assert Run(store, broker)().counts.refused == 2
        Run(store, Broker([grain]), letters=DeadLetterDirectory(tmp_path / "refused"))()
    assert [letter.data for letter in broker.published["refused"]] == [b"", b""]
    told = [dict(letter.properties) for letter in broker.published["refused"]]
    assert [one["withheld"] for one in told] == ["erased"] * 2
    assert not any(b"u1" in file.read_bytes() for file in (tmp_path / "refused").iterdir())
