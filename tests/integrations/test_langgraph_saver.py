# SPDX-License-Identifier: Apache-2.0
"""The checkpointer: LangGraph's own conformance suite, and that equal values are stored once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.conformance.test_utils import (
    generate_checkpoint,
    generate_config,
    generate_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver

import omsgrain as og
from omsgrain import errors as err
from omsgrain.integrations.langgraph import LangGraphSaver
from omsgrain.integrations.langgraph.saver import VALUES
from support.sealed_kinds import PLAIN_AND_SEALED, opened


@pytest.fixture(params=PLAIN_AND_SEALED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path) as store:
        yield store


def test_the_conformance_suite_gives_full_marks(store: og.GrainStore) -> None:
    async def savers() -> AsyncIterator[LangGraphSaver]:
        for address in [grain.address for grain in store]:
            store.delete(address)
        yield LangGraphSaver(store, user="ada")

    registered = checkpointer_test(name="LangGraphSaver")(savers)
    report = asyncio.run(validate(registered))
    failures = [failure for one in report.results.values() for failure in one.failures or ()]
    assert failures == []
    assert {name for name, one in report.results.items() if one.passed} == {
        one.value for one in ALL_CAPABILITIES
    }


def random_threads(saver: Any, seed: int) -> None:
    """The same checkpoints and writes for every saver: their ids are drawn, not made."""
    random = Random(seed)
    threads: dict[tuple[str, str], list[Any]] = {}
    versions: dict[tuple[str, str], dict[str, int]] = {}
    values: dict[tuple[str, str], dict[str, Any]] = {}
    for n in range(60):
        where = (random.choice(["t1", "t2", "Cafe\u0301"]), random.choice(["", "child:1"]))
        known = threads.setdefault(where, [])
        if known and random.random() < 0.4:
            task, path = random.choice(["x", "y"]), random.choice(["", "~a", "~b"])
            writes = [
                (random.choice(["a", "b", "__error__", "__interrupt__"]), random.randrange(9))
                for _ in range(random.choice([1, 2, 3]))
            ]
            saver.put_writes(random.choice(known), writes, task, path)
            continue
        config = generate_config(where[0], checkpoint_ns=where[1])
        if known:
            parent = known[-1]["configurable"]["checkpoint_id"]
            config["configurable"]["checkpoint_id"] = parent
        at, now = versions.setdefault(where, {}), values.setdefault(where, {})
        new = {}
        for channel in random.sample(["a", "b", "c\u0301"], random.choice([0, 1, 2])):
            at[channel] = new[channel] = at.get(channel, 0) + 1
            now[channel] = random.choice([1, "x", None, {"deep": [b"bytes"]}])
            if random.random() < 0.2:
                del now[channel]  # an empty channel
        checkpoint = generate_checkpoint(
            checkpoint_id=f"{n:04}", channel_values=dict(now), channel_versions=dict(at)
        )
        metadata = generate_metadata(step=n, run_id=random.choice(["r1", "r2"]))
        known.append(saver.put(config, checkpoint, metadata, new))


def shown(saver: Any) -> list[Any]:
    found = []
    for one in saver.list(None):
        checkpoint = {name: value for name, value in one.checkpoint.items() if name != "ts"}
        found.append((one.config, checkpoint, one.metadata, one.parent_config, one.pending_writes))
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_threads_as_in_memory(store: og.GrainStore, seed: int) -> None:
    ours, theirs = LangGraphSaver(store, user="ada"), InMemorySaver()
    for saver in (ours, theirs):
        random_threads(saver, seed)
    assert shown(ours) == shown(theirs)
    for thread in ("t1", "Cafe\u0301"):
        for name in ("", "child:1"):
            config = generate_config(thread, checkpoint_ns=name)
            asked = {"config": config, "channels": ["a", "b"]}
            assert ours.get_delta_channel_history(**asked) == theirs.get_delta_channel_history(
                **asked
            )
            [found, expected] = [one.get_tuple(config) for one in (ours, theirs)]
            assert (found and found.config) == (expected and expected.config)
    for saver in (ours, theirs):
        saver.delete_thread("Cafe\u0301")
    assert shown(ours) == shown(theirs)


def put(saver: LangGraphSaver, parent: Any, **given: Any) -> Any:
    values = given.pop("values", {})
    at = given.pop("at", dict.fromkeys(values, 1))
    config = parent or generate_config("t")
    checkpoint = generate_checkpoint(channel_values=values, channel_versions=at)
    return saver.put(config, checkpoint, generate_metadata(**given), at)


def stored(store: og.GrainStore) -> int:
    """How many parts of values there are of more than a few bytes."""
    found = store.iter_query(namespace=VALUES, user_id="ada")
    return sum(len(grain["x_value"]) > 1_000 for grain in found)


def test_equal_values_are_stored_once(store: og.GrainStore) -> None:
    saver, long = LangGraphSaver(store, user="ada"), "x" * 2_000
    config: Any = None
    for n in range(5):
        config = put(saver, config, values={"a": long, "b": long, "n": n}, at={"a": n, "b": n})
        saver.put_writes(config, [("a", long)], f"task {n}")
    assert stored(store) == 1
    saver.copy_thread("t", "other")
    assert stored(store) == 2  # a thread is deleted as a whole, so threads share nothing
    for thread in ("t", "other"):
        saver.delete_thread(thread)
    assert len(store) == 0


def test_a_long_value_is_stored_in_parts(store: og.GrainStore) -> None:
    saver = LangGraphSaver(store, user="ada")
    long = "".join(chr(97 + n % 26) * 50_000 for n in range(40))
    config = put(saver, None, values={"a": long})
    found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": long}
    assert stored(store) == 4
    saver.prune(["t"])
    assert stored(store) == 4


def test_values_that_nothing_needs_are_freed(store: og.GrainStore) -> None:
    saver = LangGraphSaver(store, user="ada")
    config: Any = None
    for n in range(4):
        config = put(saver, config, values={"a": f"{n % 3}" * 2_000}, run_id=f"r{n}")
    assert stored(store) == 3
    saver.delete_for_runs(["r1"])
    assert stored(store) == 2
    saver.prune(["t"])
    assert stored(store) == 1
    assert [one.metadata["step"] for one in saver.list(None)] == [0]


def test_prune_keeps_what_differences_begin_with(store: og.GrainStore) -> None:
    saver = LangGraphSaver(store, user="ada")
    config: Any = None
    for n in range(5):
        values = {"log": ["whole", n]} if n in (0, 2) else {}
        at = {"log": n + 1}
        counters = {"log": (n, n)}
        config = put(
            saver, config, values=values, at=at, step=n, counters_since_delta_snapshot=counters
        )
        saver.put_writes(config, [("log", n)], "task")
    before = saver.get_delta_channel_history(config=config, channels=["log"])
    saver.prune(["t"])
    assert [one.metadata["step"] for one in saver.list(None)] == [4, 3, 2]
    assert saver.get_delta_channel_history(config=config, channels=["log"]) == before


def test_a_damaged_value_is_told(store: og.GrainStore) -> None:
    saver = LangGraphSaver(store, user="ada")
    config = put(saver, None, values={"a": "x" * 2_000})
    for grain in store.iter_query(namespace=VALUES, user_id="ada"):
        store.delete(grain.address)
    with pytest.raises(err.IntegrityError):
        saver.get_tuple(config)
    with pytest.raises(err.SchemaError):
        saver.prune(["t"], strategy="some")


def test_another_user_sees_nothing(store: og.GrainStore) -> None:
    config = put(LangGraphSaver(store, user="ada"), None, values={"a": 1})
    other = LangGraphSaver(store, user="eva")
    assert (other.get_tuple(config), list(other.list(None))) == (None, [])
    other.delete_thread("t")
    assert LangGraphSaver(store, user="ada").get_tuple(config) is not None
