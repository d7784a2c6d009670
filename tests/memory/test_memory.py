# SPDX-License-Identifier: Apache-2.0
"""What ``Memory`` promises to an agent: on a plain store, on an encrypted one, and in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.errors import NotFoundError, RangeError, SchemaError, StoreError
from omsgrain.memory.threads import in_thread_of

COLOURS = ("red", "green", "blue", "teal")


def embed(texts: list[str]) -> list[list[float]]:
    """Counts colours, so that texts about the same colour are near; teal is green and blue."""
    found = []
    for text in texts:
        red, green, blue, teal = (text.lower().count(colour) for colour in COLOURS)
        found.append([red, green + teal, blue + teal, 0.01])
    return found


def texts(found: Sequence[object]) -> list[str]:
    return [one.text for one in found]  # type: ignore[attr-defined]


def test_remember_and_recall(memory: og.Memory) -> None:
    tea = memory.remember("Ada likes green tea.", tags=["drinks"], importance=0.7)
    memory.remember("The red kettle is broken.", type="error")
    (found,) = memory.recall("tea")
    assert (found.text, found.address, found.type) == ("Ada likes green tea.", tea, "observation")
    assert found.score == 1
    assert "[tea]" in found.why
    assert datetime.now(timezone.utc) - found.created_at < timedelta(minutes=5)
    assert {*texts(memory.recall())} == {"The red kettle is broken.", "Ada likes green tea."}
    assert texts(memory.recall("kettle tea", types=["error"])) == ["The red kettle is broken."]
    assert memory.recall("kettle", types=["decision"]) == []
    assert memory.store.get(tea)["importance"] == 0.7


def test_a_known_text_is_not_stored_twice(memory: og.Memory) -> None:
    assert memory.remember("Ada likes green tea.") == memory.remember("Ada likes green tea.")
    assert len(memory.recall()) == 1


def test_update_keeps_the_history(memory: og.Memory) -> None:
    first = memory.remember("Ada lives in Rome.", type="decision", tags=["home"])
    second = memory.update(first, "Ada lives in Oslo.")
    assert texts(memory.recall("lives")) == ["Ada lives in Oslo."]
    old, new = memory.history(second)
    assert (old.text, old.current, old.superseded_by) == ("Ada lives in Rome.", False, second)
    assert (new.text, new.current, new.type) == ("Ada lives in Oslo.", True, "decision")
    assert memory.history(first) == [old, new]
    third = memory.update(first, "Ada lives in Bern.")  # by the address of an old version
    assert texts(memory.recall("lives")) == ["Ada lives in Bern."]
    assert [one.address for one in memory.history(third)] == [first, second, third]


def test_forget_deletes_all_versions(memory: og.Memory) -> None:
    first = memory.remember("Ada lives in Rome.")
    second = memory.update(first, "Ada lives in Oslo.")
    other = memory.remember("Ada has a cat.")
    memory.forget(second)
    assert texts(memory.recall()) == ["Ada has a cat."]
    assert not memory.store.exists(first)
    for gone in (first, second):
        with pytest.raises(NotFoundError):
            memory.history(gone)
        with pytest.raises(NotFoundError):
            memory.update(gone, "Ada lives in Bern.")
    with pytest.raises(NotFoundError):
        memory.forget_many([other, second])
    assert texts(memory.recall()) == ["Ada has a cat."]
    memory.forget_many([other, memory.remember("Ada has a dog.")])
    assert memory.recall() == []


def test_messages_keep_their_session_and_order(memory: og.Memory) -> None:
    addresses = memory.remember_messages(
        [
            {"role": "user", "content": "Where did I park the car?"},
            {"role": "assistant", "content": "In the garage.", "model": "scripted-1"},
            {"role": "user", "content": [{"type": "text", "text": "Thank you!"}], "name": "ada"},
        ],
        session="s1",
    )
    thread = memory.store.graph.thread("s1")
    assert [grain.address for grain in thread] == addresses
    assert [grain["role"] for grain in thread] == ["user", "assistant", "user"]
    assert thread[1]["model_id"] == "scripted-1"
    assert thread[2]["content"] == "Thank you!"
    assert thread[2]["context"] == {"name": "ada"}
    (found,) = memory.recall("garage")
    assert (found.text, found.type) == ("In the garage.", "event")
    assert len(memory.recall("garage", types=["event"])) == 1


@pytest.mark.parametrize(
    "message",
    [{"content": "no role"}, {"role": "user", "content": 7}, "hello", {"role": "", "content": ""}],
)
def test_a_bad_message_stores_none(memory: og.Memory, message: object) -> None:
    with pytest.raises(SchemaError) as refused:
        memory.remember_messages([{"role": "user", "content": "hi"}, message])  # type: ignore[list-item]
    assert refused.value.field is not None
    assert refused.value.field.startswith("/messages/1")
    assert memory.recall() == []


def test_as_of_shows_what_was_known(memory: og.Memory) -> None:
    first = memory.remember("Ada lives in Rome.")
    then = memory.recall()[0].created_at + timedelta(milliseconds=1)
    while datetime.now(timezone.utc) <= then + timedelta(milliseconds=1):
        pass
    memory.update(first, "Ada lives in Oslo.")
    memory.remember("Ada has a cat.")
    past = memory.as_of(then)
    assert texts(past.recall("Ada")) == ["Ada lives in Rome."]
    assert texts(past.recall()) == ["Ada lives in Rome."]
    assert "Rome" in past.context("Ada")
    assert "Oslo" not in past.context("Ada")
    assert [hit.address for hit in past.search("lives")] == [first]
    assert texts(memory.recall("lives", at=then)) == ["Ada lives in Rome."]
    assert memory.as_of(then - timedelta(days=1)).recall() == []
    assert memory.as_of("1d").recall() == memory.as_of(timedelta(days=1)).recall() == []
    assert len(memory.recall(since="1h")) == len(memory.recall(since=timedelta(hours=1))) > 0
    assert not hasattr(past, "remember")


def test_since(memory: og.Memory) -> None:
    memory.remember_messages(
        [{"role": "user", "content": "old tea", "created_at": 1_768_471_200_000}]
    )
    memory.remember("new tea")
    assert texts(memory.recall("tea", since=1_800_000_000_000)) == []
    assert texts(memory.recall("tea", since="2026-02-01T00:00:00Z")) == ["new tea"]


def test_context_fits_its_budget(memory: og.Memory) -> None:
    for number in range(30):
        memory.remember(f"Shelf {number} has {number} boxes of tea.\nIt is full.")
    block = memory.context("shelf boxes", budget=300)
    assert 200 < len(block) <= 300
    for line in block.splitlines():
        name, text = line[1:].split("] ", 1)
        assert any(one.address.startswith(name) for one in memory.recall("shelf", limit=30))
        assert "boxes of tea. It is full." in text
    words = memory.context("shelf boxes", budget=40, count=lambda text: len(text.split()))
    assert 30 < len(words.split()) <= 40
    assert memory.context("nothing similar") == ""
    with pytest.raises(RangeError):
        memory.context("shelf", budget=0)


def test_other_users_are_invisible(memory: og.Memory) -> None:
    hers = memory.remember("Ada likes green tea.")
    bob = og.Memory(memory.store, user="bob")
    bob.remember("Bob likes black tea.")
    assert texts(memory.recall("tea")) == ["Ada likes green tea."]
    assert texts(bob.recall("tea")) == ["Bob likes black tea."]
    for verb in (bob.forget, bob.history):
        with pytest.raises(NotFoundError):
            verb(hers)
    with pytest.raises(NotFoundError):
        bob.update(hers, "mine now")
    bob.close()  # the store was open before, and stays open
    assert texts(memory.recall()) == ["Ada likes green tea."]


def test_embed_finds_by_meaning(memory: og.Memory) -> None:
    asked: list[str] = []

    def counted(given: list[str]) -> list[list[float]]:
        asked.extend(given)
        return embed(given)

    with_vectors = og.Memory(memory.store, user="ada", embed=counted)
    assert with_vectors.recall("anything") == []
    with_vectors.remember("A teal door.")
    with_vectors.remember("A red door.")
    with_vectors.remember("A red door.")
    found = with_vectors.recall("something blue", limit=1)
    assert texts(found) == ["A teal door."]
    assert found[0].why == "near in meaning"
    with_vectors.recall("something blue", limit=1)
    assert asked.count("A red door.") == 1
    assert asked.count("something blue") == 1
    with_vectors.remember_messages([{"role": "user", "content": "It is blue."}])
    assert texts(with_vectors.recall("azure blue", limit=2, types=["event"])) == ["It is blue."]


def test_reembed_after_a_change_of_model(memory: og.Memory) -> None:
    class Better:
        model = "better"
        dimension = 4

        def __call__(self, given: list[str]) -> list[list[float]]:
            return [[*vector[:3], 1.0] for vector in embed(given)]

    memory.remember("A teal door.")
    memory.remember("A red door.")
    plain = og.Memory(memory.store, user="ada", embed=embed)
    assert plain.reembed() == 2
    assert plain.reembed() == 0
    better = og.Memory(memory.store, user="ada", embed=Better())
    assert better.reembed() == 2
    assert texts(better.recall("deep blue", limit=1)) == ["A teal door."]
    assert {model.name for model in memory.store.vectors.models()} == {"default", "better"}
    with pytest.raises(SchemaError):
        memory.reembed()


def test_an_embed_that_fails_stores_nothing(memory: og.Memory) -> None:
    short = og.Memory(memory.store, user="ada", embed=lambda texts: [])
    with pytest.raises(SchemaError):
        short.remember("Ada likes tea.")
    with pytest.raises(SchemaError):
        short.remember_messages([{"role": "user", "content": "hi"}])
    uneven = og.Memory(
        memory.store, user="ada", embed=lambda texts: [[1.0] * (n + 1) for n in range(len(texts))]
    )
    with pytest.raises(RangeError):
        uneven.remember_messages([{"role": "user", "content": "hi"}] * 2)
    assert memory.recall() == []


def test_odd_arguments(memory: og.Memory) -> None:
    with pytest.raises(SchemaError):
        og.Memory(memory.store, user=" ")
    with pytest.raises(SchemaError):
        og.Memory(memory.store, user="ada", embed="no function")  # type: ignore[arg-type]
    with pytest.raises(RangeError):
        memory.remember(" ")
    with pytest.raises(RangeError):
        memory.recall("tea", limit=101)
    with pytest.raises(SchemaError):
        memory.recall("?!")
    with pytest.raises(SchemaError):
        memory.recall("tea", types="event")
    with pytest.raises(SchemaError):
        memory.forget_many("0" * 64)


def test_what_is_remembered_survives_the_process(tmp_path: Path) -> None:
    with og.Memory(tmp_path / "a.omsg", user="ada") as memory:
        memory.remember("Ada likes green tea.")
    with og.Memory(tmp_path / "a.omsg", user="ada") as memory:
        assert texts(memory.recall("tea")) == ["Ada likes green tea."]


def test_async_memory(tmp_path: Path) -> None:
    async def story() -> None:
        closed = og.AsyncMemory(tmp_path / "a.omsg", user="ada")
        with pytest.raises(StoreError):
            await closed.recall("tea")
        async with closed as memory:
            first, *_ = await asyncio.gather(
                *(memory.remember(f"Shelf {number} has tea.") for number in range(8))
            )
            assert len(await memory.recall("tea", limit=20)) == 8
            second = await memory.update(first, "Shelf 0 is empty.")
            assert len(await memory.history(second)) == 2
            assert "empty" in await memory.context("shelf 0")
            (one,) = await memory.remember_messages([{"role": "user", "content": "hello"}])
            assert [hit.address for hit in await memory.search("hello")] == [one]
            await memory.forget(second)
            await memory.forget_many([one])
            assert len(await memory.recall(limit=20)) == 7
            now = datetime.now(timezone.utc) + timedelta(seconds=1)
            assert len(memory.as_of(now).recall(limit=20)) == 7

    asyncio.run(story())


def test_processes_share_a_memory(tmp_path: Path, long: bool) -> None:
    """Each remembers at the same time as the others, and nothing is lost."""
    each = 25 if long else 5
    story = (
        "import sys, omsgrain as og\n"
        "with og.Memory(sys.argv[1], user='ada') as memory:\n"
        "    for number in range(int(sys.argv[3])):\n"
        "        memory.remember(f'Worker {sys.argv[2]} saw shelf {number}.')\n"
    )
    where = str(tmp_path / "a.omsg")
    workers = [
        subprocess.Popen([sys.executable, "-c", story, where, str(worker), str(each)])
        for worker in range(4)
    ]
    assert [worker.wait() for worker in workers] == [0] * 4
    with og.Memory(where, user="ada") as memory:
        found = {one.text for one in memory.recall(limit=100)}
        assert found == {
            f"Worker {worker} saw shelf {n}." for worker in range(4) for n in range(each)
        }


def test_recall_finds_other_forms_of_words(memory: og.Memory) -> None:
    memory.remember("Caroline painted a sunrise")
    memory.remember("The cat sleeps")
    assert texts(memory.recall("When did she paint sunrises?")) == ["Caroline painted a sunrise"]
    assert texts(memory.recall("cats")) == ["The cat sleeps"]


def test_age_and_importance_count_if_asked_for(memory: og.Memory) -> None:
    day = 86_400_000
    for days, importance in ((40, 0.9), (10, 0.5), (0, 0.1)):
        memory.store.put(
            {
                "type": "event",
                "content": f"The kettle broke {days}",
                "user_id": "ada",
                "created_at": 1_700_000_000_000 - days * day,
                "importance": importance,
            }
        )

    def found_by(**factors: float) -> list[str]:
        found = memory.recall("kettle broken", **factors)  # type: ignore[arg-type]
        assert found[0].score == 1
        return [one.text.rpartition(" ")[2] for one in found]

    assert found_by() == ["0", "10", "40"]  # equal matches: the newest first
    assert found_by(importance_weight=1.0) == ["40", "10", "0"]
    assert found_by(half_life_days=10.0) == ["0", "10", "40"]
    assert found_by(importance_weight=1.0, half_life_days=10.0) == ["10", "0", "40"]
    assert found_by(importance_weight=1.0, half_life_days=1.0) == ["0", "10", "40"]
    for wrong in ({"half_life_days": 0.0}, {"importance_weight": 1.5}):
        with pytest.raises(RangeError) as caught:
            found_by(**wrong)
        assert caught.value.field == f"/{next(iter(wrong))}"


def test_the_weight_of_vectors(tmp_path: Path) -> None:
    with og.Memory(tmp_path / "a.omsg", user="ada", embed=embed) as memory:
        memory.remember("red green wall")
        memory.remember("a blue sofa, blue curtains and a lamp")
        words = og.Memory(memory.store, user="ada").recall("lamp red")
        assert texts(memory.recall("lamp red", vector_weight=0.0))[0] == texts(words)[0]
        assert texts(memory.recall("lamp red", vector_weight=1.0))[0] == "red green wall"
        with pytest.raises(RangeError):
            memory.recall("lamp", vector_weight=1.1)


def test_a_model_of_another_dimension_embeds_again(tmp_path: Path) -> None:
    with og.Memory(tmp_path / "a.omsg", user="ada", embed=embed) as memory:
        memory.remember("red wall")
        assert memory.reembed() == 0

    def longer(texts: list[str]) -> list[list[float]]:
        return [[*vector, 1.0] for vector in embed(texts)]

    with og.Memory(tmp_path / "a.omsg", user="ada", embed=longer) as memory:  # the same name
        assert memory.reembed() == 1
        assert memory.reembed() == 0


def test_an_asynchronous_verb_is_that_of_the_inner_object() -> None:
    """Not that of the class which the verb was made of: a subclass may have its own."""

    class Inner:
        def says(self) -> str:
            return "base"

    class Other(Inner):
        def says(self) -> str:
            return "own"

    class Outer:
        says = in_thread_of(lambda self: Other(), Inner.says)

    assert asyncio.run(Outer().says()) == "own"
