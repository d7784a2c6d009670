# SPDX-License-Identifier: Apache-2.0
"""The reference of Python has every public name, and an example for each verb.

The examples run with the blocks of all pages; `make check` compares the pages with the docstrings.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from support.paths import ROOT


@pytest.fixture(scope="module")
def made() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield importlib.import_module("make_reference")


def test_every_public_name_has_an_entry_and_every_verb_an_example(made: ModuleType) -> None:
    assert list(made.missing(made.load())) == []


def test_a_name_without_entry_is_seen(made: ModuleType) -> None:
    pages: dict[str, Any] = made.load().pages
    del pages["store"]["Write"]["store.put"]
    del pages["crypto"]["Signed grains"]["omsgrain.crypto.sign"]
    del pages["parts"]["store.holds"]["store.holds.of"]
    pages["registry"]["Verbs"]["omsgrain.registry.field"] = ""
    assert sorted(made.missing(made.Reference(pages))) == [
        "omsgrain.crypto.sign: no entry",
        "omsgrain.registry.field: no example",
        "store.holds.of: no entry",
        "store.put: no entry",
    ]


def test_every_adapter_has_its_classes_and_their_arguments(
    made: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "\n".join(made.adapters())
    known = importlib.import_module(made.adapters.__module__).ADAPTERS
    for name, (_, guide) in known.items():
        assert f"from omsgrain.integrations.{name} import " in page
        assert not guide or (ROOT / "docs/how-to" / f"{guide}.md").exists()
    for entry in page.split("\n### class ")[1:]:
        if "def __init__(" in entry:
            assert "**Arguments**" in entry and "**Raises**" in entry, entry.partition("\n")[0]
    monkeypatch.delitem(known, "crewai")
    assert list(made.missing_adapters()) == ["integrations.crewai: no entry"]


def test_the_pages_are_there(made: ModuleType) -> None:
    assert {path.name for path in made.FOLDER.iterdir()} == {
        path.name for path in made.written(made.load())
    }


def test_no_two_headings_of_a_page_have_one_anchor(made: ModuleType) -> None:
    for path, text in made.written(made.load()).items():
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", one.lower()) for one in headings]
        assert len(anchors) == len(set(anchors)), path


def test_signatures_are_typed(made: ModuleType) -> None:
    """No argument and no result of a verb is without a type; filters have theirs by name."""
    text = made.load().page("store")
    assert text.count("**filters: Unpack[Filters]") == 8
    for _, _, name, _ in made.load().entries():
        one = made.named(name)
        if made.is_verb(one.value):
            stub = made.signature("f", one.value, method=True)
            assert "->" in stub, name
