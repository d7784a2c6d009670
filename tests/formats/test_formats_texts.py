# SPDX-License-Identifier: Apache-2.0
"""Documents by pieces: the same bytes, and the same digest, as in one piece."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats import json_text
from omsgrain.formats.json_text import JsonTexts, digest, drained, pieces, spell, whole
from support.mif2_documents import ANY, OBJECT

ARRAYS = st.lists(st.one_of(OBJECT, ANY), max_size=5)
DOCUMENTS = st.dictionaries(
    st.text(max_size=3), st.one_of(ANY, ARRAYS, st.dictionaries(st.text(max_size=2), ARRAYS)),
    max_size=4,
)  # fmt: skip


def as_texts(value: Any, level: int = 0) -> Any:
    if isinstance(value, list) and level < 3:
        return JsonTexts(value)
    if isinstance(value, dict):
        return {name: as_texts(one, level + 1) for name, one in value.items()}
    return value


@given(DOCUMENTS)
def test_pieces_are_the_whole(document: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_PAGE", 2)
        by_texts = as_texts(document)
        assert whole(by_texts) == document
        for one in (document, by_texts):
            assert b"".join(pieces(one)) == spell(document)
            try:
                expected = _core.canonical_json(json.dumps(document).encode())
            except OmsError:
                with pytest.raises(OmsError):
                    digest(one)
            else:
                assert digest(one) == sha256(expected).hexdigest()


def test_half_a_character_is_not_written_and_has_no_digest() -> None:
    for document in ({"a": ["\ud800"]}, {"a": "\ud800"}, {"\ud800": 1}):
        for ask in (digest, lambda document: b"".join(pieces(document))):
            with pytest.raises(OmsError) as caught:
                ask(document)
            assert caught.value.code == "ERR_FORMAT"
    with pytest.raises(OmsError):
        JsonTexts(["\ud800"])


@given(st.lists(st.integers()), st.integers(1, 4))
def test_drained_records_keep_their_order(values: list[int], size: int) -> None:
    left = list(values)
    found = list(drained(left, size))
    assert [one for page in found for one in page] == values
    assert not left
    assert all(len(page) == size for page in found[:-1])
