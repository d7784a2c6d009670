# SPDX-License-Identifier: Apache-2.0
"""A graph of LangGraph that keeps its threads and its memory in one store of grains."""

from __future__ import annotations

import asyncio
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

import omsgrain as og
from omsgrain.integrations.langgraph import LangGraphSaver, LangGraphStore
from support.frameworks import run_page
from support.sealed_kinds import PLAIN_AND_SEALED, opened


class State(TypedDict):
    said: Annotated[list[str], add]


def note(state: State, *, store: BaseStore) -> dict[str, Any]:
    store.put(("said",), str(len(state["said"])), {"text": state["said"][-1]})
    return {"said": [f"noted {len(store.search(('said',)))}"]}


def ask(state: State) -> dict[str, Any]:
    return {"said": [interrupt("go on?")]}


def graph(grains: og.GrainStore) -> Any:
    made = StateGraph(State)
    made.add_node("note", note)
    made.add_node("ask", ask)
    made.add_edge(START, "note")
    made.add_edge("note", "ask")
    made.add_edge("ask", END)
    saver, store = LangGraphSaver(grains, user="ada"), LangGraphStore(grains, user="ada")
    return made.compile(checkpointer=saver, store=store)


@pytest.mark.parametrize("kind", PLAIN_AND_SEALED)
def test_a_thread_goes_on_where_it_stopped(kind: str, tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    with opened(kind, tmp_path) as grains:
        first = graph(grains).invoke({"said": ["tea"]}, config)
        assert [one.value for one in first["__interrupt__"]] == ["go on?"]
        again = graph(grains).invoke(Command(resume="yes"), config)
        assert again["said"] == ["tea", "noted 1", "yes"]
        last = asyncio.run(graph(grains).ainvoke({"said": ["coffee"]}, config))
        assert last["said"] == ["tea", "noted 1", "yes", "coffee", "noted 2"]
        history = list(graph(grains).get_state_history(config))
        assert history[-2].values == {"said": ["tea"]}
        forked = graph(grains).invoke(None, history[-2].config)
        assert forked["said"][:1] == ["tea"]


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("langgraph", tmp_path)
