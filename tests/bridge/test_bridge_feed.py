# SPDX-License-Identifier: Apache-2.0
"""The change feed of a store on a broker: all of it, in order, at least once."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.bridge import bridge as flow
from omsgrain.bridge.bridge import BridgeCounts, BridgePlan, Feed, follower, run
from omsgrain.bridge.broker import BrokerError
from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.server.log import Log
from omsgrain.storage.tables import META
from omsgrain.store.context import context_of
from omsgrain.store.read import Consumers
from support.bridge_memory import LIMITS, Broker, Killed, Session
from support.shell import belief

NAME = "hub/changes"


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_FIRST", 0.0)
    monkeypatch.setattr(flow, "BATCH", 3)


def publish(store: og.GrainStore, session: Session) -> BridgeCounts:
    """Publish all there is."""
    stop, counts = threading.Event(), BridgeCounts()
    stop.set()
    name = follower("mqtt://h:1883", NAME)
    feed = Feed(
        store, session, NAME, name, log=Log(stream=io.StringIO()), stop=stop, counts=counts
    )
    feed.run()
    return counts


def told(broker: Broker) -> list[dict[str, Any]]:
    return [json.loads(letter.data) for letter in broker.published.get(NAME, ())]


def changes(store: og.GrainStore) -> list[dict[str, Any]]:
    return [{"seq": c.seq, "kind": c.kind, "address": c.address} for c in store.changes()]


def test_all_changes_in_order_and_then_the_new_ones(tmp_path: Path) -> None:
    broker = Broker([])
    with og.open(tmp_path / "m.omsg") as store:
        first = store.put_many([belief(n) for n in range(7)]).addresses[0]
        assert publish(store, Session(broker)).published == 7
        assert told(broker) == changes(store)
    with og.open(tmp_path / "m.omsg") as store:  # the position is in the store
        assert publish(store, Session(broker)).published == 0
        store.supersede(first or "", belief(100))
        store.retract(store.put(belief(101)))
        assert publish(store, Session(broker)).published == 4
        assert told(broker) == changes(store)
        assert {one["kind"] for one in told(broker)} == {"put", "supersede", "verify"}


def test_unconfirmed_changes_are_published_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, session = Broker([]), Session(Broker([]))
    session.broker = broker
    with og.open(tmp_path / "m.omsg") as store:
        store.put_many([belief(n) for n in range(4)])

        def killed(*_: Any) -> None:
            raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(Consumers, "set_position", killed)
            publish(store, session)
        publish(store, session)
    seqs = [one["seq"] for one in told(broker)]
    assert seqs == [1, 2, 3, 1, 2, 3, 4]


def test_a_broker_that_is_away_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(Broker([]))
    session.failures = 1
    with og.open(tmp_path / "m.omsg") as store:
        store.put(belief(1))
        stop = threading.Event()
        counts = BridgeCounts()

        class Waking(Log):
            def write(self, event: str, **values: Any) -> None:
                assert event == "publish_failed"

        feed = Feed(store, session, NAME, "f", log=Waking(), stop=stop, counts=counts, every=0)
        publish_once = session.publish

        def then_stop(*arguments: Any) -> None:
            publish_once(*arguments)
            stop.set()

        monkeypatch.setattr(session, "publish", then_stop)
        feed.run()
        assert (counts.published, counts.retries) == (1, 1)


def test_positions(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        assert store.consumers.position("a") == 0
        store.put(belief(1))
        store.consumers.set_position("a", 1)
        assert (store.consumers.position("a"), store.consumers.position("b")) == (1, 0)
        for name, seq in (("a", 2), ("a", -1), ("", 1), ("x" * 600, 1), ("a", True)):
            with pytest.raises(SchemaError):
                store.consumers.set_position(name, seq)
        context_of(store).inner.write(lambda writer: writer.set_row(META, b"position.a", b"x"))
        with pytest.raises(IntegrityError):
            store.consumers.position("a")
        assert store.maintenance.check().ok


def plan(tmp_path: Path, **more: Any) -> BridgePlan:
    return BridgePlan(**{
        "letters": tmp_path / "refused", "publish": NAME, "follower": "f", "reads": True,
        "limits": LIMITS, "every": 60.0, **more,
    })  # fmt: skip


def once(number: int) -> Callable[[], None]:
    """Send this process a signal, the first time it is called."""
    left = [number]
    return lambda: os.kill(os.getpid(), left.pop()) if left else None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_gets_a_stop_signal(tmp_path: Path, number: int) -> None:
    """It stores, publishes and reports what it holds, and ends."""
    broker = Broker([og.encode(belief(n)) for n in range(10)] + [b"bad"])
    session = Session(broker, empty=once(number))
    before = signal.getsignal(number)
    reports: list[dict[str, Any]] = []
    said = io.StringIO()
    store = og.open(tmp_path / "m.omsg")
    run(store, lambda: session, plan(tmp_path), Log("json", said), reports.append)
    assert signal.getsignal(number) is before
    assert session.closed
    assert sorted(broker.settled) == list(range(11))
    (report,) = reports
    # The last batch was stored after the signal, and is published all the same.
    assert (report["stored"], report["refused"], report["published"]) == (10, 1, 10)
    with og.open(tmp_path / "m.omsg") as again:
        assert told(broker) == changes(again)
    assert json.loads(said.getvalue().splitlines()[-1])["event"] == "stopped"


def test_an_end_of_the_feed_ends_the_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(Broker([og.encode(belief(1))]))

    def refuse(*_: Any) -> None:
        raise BrokerError("the broker refuses published messages")

    monkeypatch.setattr(session, "publish", refuse)
    with pytest.raises(BrokerError):
        run(
            og.open(tmp_path / "m.omsg"),
            lambda: session,
            plan(tmp_path),
            Log(stream=io.StringIO()),
            lambda counts: None,
        )
    assert session.closed


def test_publishing_alone(tmp_path: Path) -> None:
    store = og.open(tmp_path / "m.omsg")
    store.put(belief(1))
    broker = Broker([])
    session = Session(broker, empty=once(signal.SIGTERM))
    run(store, lambda: session, plan(tmp_path, reads=False), Log(stream=io.StringIO()),
        lambda counts: None)  # fmt: skip
    assert len(told(broker)) == 1
