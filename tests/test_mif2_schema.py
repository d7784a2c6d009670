# SPDX-License-Identifier: Apache-2.0
"""The shipped JSON Schema says what the checks say, of good documents and of bad ones."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mif2_documents import ANY, DIALECT, DOCUMENTS, FULL, MINIMAL, PLACEHOLDERS, spelled
from omsgrain.formats.mif2 import document
from omsgrain.formats.mif2.schema import schema, text

SCHEMA = json.loads(text())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_that_of_the_table() -> None:
    assert schema() == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("whole", [MINIMAL, PLACEHOLDERS, FULL, DIALECT])
def test_documents_of_others_are_valid(whole: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(whole)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [way, *(place for key, one in items for place in places(one, (*way, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A document with another value in one place, or with one thing less."""
    whole = draw(st.one_of(DOCUMENTS, st.sampled_from([FULL, DIALECT])))
    whole = copy.deepcopy(whole)
    way = draw(st.sampled_from(places(whole)))
    if not way:
        return draw(ANY)
    place = whole
    for key in way[:-1]:
        place = place[key]
    if draw(st.booleans()):
        del place[way[-1]]
    else:
        place[way[-1]] = draw(ANY)
    return whole


@given(st.one_of(DOCUMENTS, damaged(), damaged()))
def test_the_schema_and_the_checks_agree(whole: Any) -> None:
    assert VALIDATOR.is_valid(whole) == (document.validate(spelled(whole)).total == 0)
