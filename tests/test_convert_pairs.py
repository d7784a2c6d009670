# SPDX-License-Identifier: Apache-2.0
"""Every pair of formats: there and back is the same, and what is lost is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversions import DOCUMENTS, EXAMPLES, FEWER, PAIRS, converted, load, same_document
from omsgrain import formats


def there_and_back(document: dict[str, Any], one: str, other: str) -> None:
    loaded = load(document, one)
    data, losses = converted(loaded, other)
    assert losses == []
    back = formats.load(data)
    assert (back.format, back.problems) == (other, ())
    again = formats.dump(back, format=one, embeddings=True, local=True)
    assert again.losses == []
    assert same_document(json.loads(again.data), document, one)
    assert {grain.address for grain in loaded.grains} <= {grain.address for grain in back.grains}
    # And the document that it was meanwhile comes back too.
    other_again = formats.dump(back, format=other, embeddings=True, local=True)
    assert same_document(json.loads(other_again.data), json.loads(data), other)


@pytest.mark.parametrize(("one", "other"), PAIRS)
@FEWER
@given(data=st.data())
def test_there_and_back(one: str, other: str, data: st.DataObject) -> None:
    there_and_back(data.draw(DOCUMENTS[one]), one, other)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_examples_there_and_back(one: str, other: str) -> None:
    for document in EXAMPLES[one]:
        there_and_back(document, one, other)
