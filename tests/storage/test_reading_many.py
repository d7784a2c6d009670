# SPDX-License-Identifier: Apache-2.0
"""Grains read side by side: shared data is invisible."""

from __future__ import annotations

import unicodedata
import warnings
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.grain import Encoding
from oracle_tables import TYPES
from support.random_grains import random_grain

BELIEF = {
    "type": "belief",
    "subject": "a",
    "relation": "knows",
    "object": "b",
    "confidence": 0.5,
    "created_at": 1_768_471_200_000,
    "structural_tags": ["x", "y"],
    "content_refs": [{"uri": "u", "modality": "image", "metadata": {"k": ["v"]}}],
    "context": {"list": [1, [2]], "map": {"k": "v"}},
    "x_own": [["deep"], {"k": [True]}],
    "x_texts": ["p", "q"],
}


def exact(value: Any) -> Any:
    """A value with its types and the order of its keys."""
    if isinstance(value, dict):
        return [(name, exact(item)) for name, item in value.items()]
    if isinstance(value, list):
        return [list, *map(exact, value)]
    return (type(value), value)


def variants(rng: Random) -> list[dict[str, Any]]:
    """Grains of the same fields, of which some values differ."""
    name = rng.choice(TYPES)
    first, values = random_grain(rng, name), random_grain(rng, name)
    second = {name: values.get(name, value) for name, value in first.items()}
    second |= {name: first[name] for name in ("type", "created_at")}
    third = {**first, "user_id": "another", "structural_tags": ["y", "x", "x"]}
    return [first, second, first, third, {**third, "structural_tags": ["y"]}]


@given(st.integers(0, 1 << 32), st.sampled_from(("msgpack", "cbor")))
def test_in_a_batch_as_packed(seed: int, encoding: Encoding) -> None:
    """A packed grain is read in the general way, alone."""
    rng = Random(seed)
    given_grains = [grain for _ in range(3) for grain in variants(rng)]
    batch = og.encode_many(given_grains, errors="collect", encoding=encoding)
    packed = og.encode_many(
        [given_grains[i] for i in batch.indices], encoding=encoding, compress=True
    )
    read = og.decode_many(batch.blobs * 2).grains
    for grain, blob in zip(read, packed.blobs * 2, strict=True):
        alone = og.decode(blob)
        assert exact(dict(grain.fields)) == exact(dict(alone.fields))
        assert exact(dict(og.decode(grain.blob).fields)) == exact(dict(alone.fields))
        assert (grain.type, grain.warnings) == (alone.type, alone.warnings)
        assert grain.header == og.read_header(grain.blob)


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_to_change_one_grain_changes_no_other(encoding: Encoding) -> None:
    blobs = [og.encode({**BELIEF, "subject": f"{i // 3}"}, encoding=encoding) for i in range(30)]
    expected = [exact(dict(og.decode(blob).fields)) for blob in blobs]
    grains = og.decode_many(blobs).grains
    for i, grain in enumerate(grains):
        assert exact(dict(grain.fields)) == expected[i]
        grain["structural_tags"].append("z")
        grain["content_refs"][0]["metadata"]["k"].append("w")
        grain["context"]["list"][1].clear()
        grain["x_own"][1]["k"][0] = None
        grain["x_texts"].clear()
    assert [exact(dict(grain.fields)) for grain in og.decode_many(blobs)] == expected


def test_a_grain_cannot_be_changed() -> None:
    grain = og.decode_many([og.encode(BELIEF)]).grains[0]
    for name in ("blob", "fields", "warnings", "address", "header", "type", "other"):
        with pytest.raises(AttributeError):
            setattr(grain, name, b"")
        with pytest.raises(AttributeError):
            delattr(grain, name)
    with pytest.raises(TypeError):
        grain.fields["subject"] = "x"  # type: ignore[index]


def long_texts() -> list[str]:
    """Every letter that a text can have, and words of all lengths of letters across any border."""
    # What this Python does not know, it cannot compose.
    letters = (chr(i) for i in range(0x110000) if unicodedata.category(chr(i)) not in ("Cs", "Cn"))
    every = "".join(letters)
    every = unicodedata.normalize("NFC", every)
    texts = [every[i : i + 200_000] for i in range(0, len(every), 200_000)]
    # What looks like a byte order mark, and letters beside it.
    texts += [first + "я" * 100 for first in "\ufffe\uffff\ufffd\ufffc\ufeef"]
    rng = Random(7)
    for length in range(20, 220):
        words = [rng.choice("aéкあ🙂") * rng.randint(1, 9) for _ in range(length)]
        texts.append("".join(words)[:length])
    return texts


def test_long_texts_of_all_scripts() -> None:
    texts = long_texts()
    batch = og.encode_many([{**BELIEF, "object": text} for text in texts], compress=True)
    plain = [og.decode(blob).upgrade() for blob in batch.blobs]
    for made in (batch.blobs, [_unpacked(grain) for grain in plain]):
        read = og.decode_many(made).grains
        assert [grain["object"] for grain in read] == texts
        assert [og.decode(blob)["object"] for blob in made[-20:]] == texts[-20:]


def _unpacked(grain: og.Grain) -> bytes:
    return og.encode(grain.to_dict())


def test_a_large_batch_of_all_kinds_is_read_as_one_by_one() -> None:
    blobs = []
    for i in range(5000):
        fields = {**BELIEF, "subject": f"s{i}"}
        if i % 7 == 3:
            fields["x_subjct"] = 1
        if i % 101 == 5:
            fields["subjct"] = "a name one edit off"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            blob = og.encode(fields, compress=i % 11 == 2)
        blobs.append(blob[: -i % 40 or None] if i % 13 == 4 else blob)
    batch = og.decode_many(blobs, errors="collect")
    read, refused = iter(batch.grains), {bad.index: bad.error for bad in batch.errors}
    for i, blob in enumerate(blobs):
        try:
            alone = og.decode(blob)
        except og.errors.OmsError as error:
            assert (refused[i].code, str(refused[i])) == (error.code, str(error))
            continue
        grain = next(read)
        assert (grain, grain.type, grain.warnings) == (alone, alone.type, alone.warnings)
        assert exact(dict(grain.fields)) == exact(dict(alone.fields))
    assert next(read, None) is None
    assert len(refused) > 300 and any(grain.warnings for grain in batch.grains)
