# SPDX-License-Identifier: Apache-2.0
"""Every pair of formats: there and back is the same, and what is lost is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimem_bundles import TENANT, embedding, hash_of
from conversions import DOCUMENTS, EXAMPLES, FEWER, PAIRS, converted, load, same_document, sealed
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


TIME = "2026-03-01T08:00:00Z"
NAME = "urn:aimem:a:0"
TODO = {"id": "A1B2C3D4-E5F6-1890-1BCD-EF1234567890", "content": "0", "status": "todo",
        "priority": "none", "created_at": TIME, "updated_at": TIME, "=": None}  # fmt: skip
CHUNK = {"id": NAME, "content": "0", "content_hash": hash_of("0"), "memory_type": "fact",
         "created_at": TIME, "embedding": embedding([0.0])}  # fmt: skip
#: A chunk and an entity of one name, of which one has an embedding; a todo that stands twice.
ODD = [
    ("aimem", sealed({
        "format": "aimem-bundle", "version": "1", "producer": "a", "scope": "FULL",
        "tenant_id": TENANT, "exported_at": TIME, "embedding_dim": 1, "embedding_model": "small",
        "chunks": [CHUNK],
        "entities": [{"id": NAME, "name": "0", "kind": "person", "created_at": TIME}],
        "chunk_entities": [{"chunk_id": NAME, "entity_id": NAME}],
    })),
    ("mif2", {"mif_version": "2.0", "memories": [], "todos": [TODO, TODO]}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "document"), ODD)
def test_odd_ones_there_and_back(one: str, document: dict[str, Any]) -> None:
    for other in (other for here, other in PAIRS if here == one):
        there_and_back(document, one, other)
