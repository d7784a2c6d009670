# SPDX-License-Identifier: Apache-2.0
"""Properties of every grain: the core agrees with the oracle, and reading undoes writing.

The CBOR form is compared with `cbor2.dumps(..., canonical=True)` too. No rule differs: for the
types that a grain can hold, cbor2 sorts text keys alike (shorter first), writes the shortest
heads, and shrinks floats to 16 or 32 bits where the value stays. (It would also write NaN,
infinities, tags and keys of other types, which a grain never holds.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import category, combining, normalize

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omsgrain as og
import oracle
from omsgrain.grain import Encoding
from oracle_tables import NESTED, OLD_NAMES, SAME, SHORT
from support.random_grains import grains, json_line, random_grain, shuffled
from support.random_values import values
from support.rewritten_blobs import rewrite
from support.scale import Scale

ENCODINGS: tuple[Encoding, ...] = ("msgpack", "cbor")


def seeded(count: int, name: str) -> Iterator[tuple[Random, dict[str, Any]]]:
    for number in range(count):
        rng = Random(f"{name} {number}")
        yield rng, random_grain(rng)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_core_and_oracle_give_the_same_bytes(encoding: Encoding, scale: Scale) -> None:
    for rng, fields in seeded(scale.grains, f"oracle {encoding}"):
        keep, level = rng.random() < 0.3, rng.choice((0, 0, 1, 2, 3))
        blob = og.encode(fields, encoding=encoding, keep_type_name=keep, sensitivity=level)
        expected = oracle.encode(fields, encoding, keep_type_name=keep, sensitivity=level)
        assert blob == expected, fields


@settings(max_examples=settings().max_examples // 2)
@given(grains())
def test_core_and_oracle_give_the_same_bytes_for_any_content(fields: dict[str, Any]) -> None:
    for encoding in ENCODINGS:
        assert og.encode(fields, encoding=encoding) == oracle.encode(fields, encoding)


@given(values())
def test_any_value_is_packed_alike(value: Any) -> None:
    fields = {"type": "reasoning", "created_at": 0, "x_value": value}
    for encoding in ENCODINGS:
        blob = og.encode(fields, encoding=encoding)
        assert blob == oracle.encode(fields, encoding)
        assert og.decode(blob).to_dict() == oracle.clean(fields)


@given(st.dictionaries(st.text("abcde_", min_size=9), values(), max_size=4), st.integers(14, 255))
def test_opaque_grains(fields: dict[str, Any], type_byte: int) -> None:
    for encoding in ENCODINGS:
        blob = og.encode(fields, encoding=encoding, type_byte=type_byte)
        assert blob == oracle.encode(fields, encoding, type_byte=type_byte)
        assert rewrite(og.decode(blob)) == blob


def test_cbor2_agrees(scale: Scale) -> None:
    for _, fields in seeded(scale.grains, "cbor2"):
        blob = og.encode(fields, encoding="cbor")
        assert blob[9:] == cbor2.dumps(oracle.compact(fields), canonical=True)


def test_order_of_the_input_never_matters(scale: Scale) -> None:
    for rng, fields in seeded(scale.grains // 2, "order"):
        other = shuffled(rng, {k: _reversed_maps(v) for k, v in fields.items()})
        assert og.encode(other) == og.encode(fields)


def _reversed_maps(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _reversed_maps(v) for k, v in reversed(value.items())}
    return [_reversed_maps(v) for v in value] if isinstance(value, (list, tuple)) else value


def _is_early(grain: og.Grain) -> bool:
    """Whether its time is warned of, as one in seconds."""
    return grain["created_at"] in range(1, 10**11)


def _doubts(grain: og.Grain) -> bool:
    """Whether its time has a warning; only an unsatisfiable policy has one too."""
    rest = [text for text in grain.warnings if not text.startswith("invalidation_policy: ")]
    assert len(rest) <= 1 and all(text.startswith("created_at: ") for text in rest)
    return bool(rest)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_reading_undoes_writing(encoding: Encoding, scale: Scale) -> None:
    for rng, fields in seeded(scale.grains, f"round trip {encoding}"):
        keep = rng.random() < 0.5
        level = rng.randrange(4)
        blob = og.encode(fields, encoding=encoding, keep_type_name=keep, sensitivity=level)
        grain = og.decode(blob)
        assert rewrite(grain) == blob
        assert grain.blob == blob
        assert grain.address == oracle.address(blob) == og.address(blob)
        assert grain.type == OLD_NAMES.get(fields["type"], fields["type"])
        assert grain.to_dict()["type"] == (fields["type"] if keep else grain.type)
        assert grain.to_dict() == _full_names(oracle.compact(fields, keep_type_name=keep), grain)
        assert grain.header == og.read_header(blob) == og.verify(blob, grain.address)
        assert _doubts(grain) == _is_early(grain)


def _full_names(small: dict[str, Any], grain: og.Grain) -> dict[str, Any]:
    """The compacted map under the full names that the grain shows."""
    names = (*SHORT, *SAME)
    by_short = {oracle.short_key(grain.type, name): name for name in names}
    full = {by_short.get(short, short): value for short, value in small.items()}
    for name, table in NESTED.items():
        back = {short: long for long, short in table.items()}
        if name in full:
            full[name] = [{back.get(k, k): v for k, v in entry.items()} for entry in full[name]]
    return full


def test_compressed_grains_read_as_the_plain_ones(scale: Scale) -> None:
    for _, fields in seeded(scale.grains // 2, "zstd"):
        plain, packed = og.decode(og.encode(fields)), og.decode(og.encode(fields, compress=True))
        assert packed.header.compressed
        assert packed.to_dict() == plain.to_dict()
        assert packed.blob[:9] == bytes([1, plain.blob[1] | 4]) + plain.blob[2:9]
        assert packed.address == oracle.address(packed.blob) != plain.address


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_batches_give_the_same_bytes(encoding: Encoding, scale: Scale, tmp_path: Path) -> None:
    dicts = [fields for _, fields in seeded(scale.grains, f"batch {encoding}")]
    single = [og.encode(fields, encoding=encoding) for fields in dicts]
    addresses = [og.address(blob) for blob in single]

    batch = og.encode_many(dicts, encoding=encoding)
    assert (batch.blobs, batch.addresses) == (single, addresses)
    assert batch.digests == [bytes.fromhex(address) for address in addresses]
    assert list(batch) == list(zip(addresses, single, strict=True))
    assert batch.indices == list(range(len(dicts))) and not batch.errors
    told = [(i, text) for i, blob in enumerate(single) for text in og.decode(blob).warnings]
    assert [(item.index, item.message) for item in batch.warnings] == told

    lines = "\n\n".join(json_line(fields) for fields in dicts).encode()
    (path := tmp_path / "grains.jsonl").write_bytes(lines + b"\n")
    for source in (lines, path, str(path)):
        assert og.encode_jsonl(source, encoding=encoding).blobs == single

    decoded = og.decode_many(single)
    assert [grain.blob for grain in decoded] == single
    read = [grain.to_dict() for grain in decoded]
    assert og.encode_many(read, encoding=encoding).blobs == single
    assert og.address_many(single) == addresses
    assert og.verify_many(list(zip(single, addresses, strict=True))).verified == len(single)


def test_json_of_a_grain_gives_the_grain_again(scale: Scale) -> None:
    for rng, fields in seeded(scale.grains // 2, "json"):
        grain = og.decode(og.encode(fields, keep_type_name=rng.random() < 0.5))
        line = grain.to_json().encode()
        assert og.encode_jsonl(line, keep_type_name=True).blobs == [grain.blob]


def test_upgrade_is_the_1_2_grain(scale: Scale) -> None:
    for _, fields in seeded(scale.grains // 4, "upgrade"):
        old = og.decode(og.encode(fields, keep_type_name=True))
        assert old.upgrade().blob == og.encode(fields)


def test_keys_that_a_sort_may_confuse() -> None:
    lengths = (0, 1, 2, 7, 8, 9, 16, 23, 24, 254, 255, 256, 257, 300)
    sizes = [*combinations(lengths, 2), (255, 65536), (65535, 65536)]
    for first, second in product(("a", "b", "\0", "é", "🤖"), repeat=2):
        for short, long in sizes:
            keys = [first * short + "x", second * long, first * long, second * short + "\0"]
            fields = {"type": "reasoning", "created_at": 0, "x_map": dict.fromkeys(keys, 0)}
            for encoding in ENCODINGS:
                assert og.encode(fields, encoding=encoding) == oracle.encode(fields, encoding)


def test_every_character_is_normalized_alike() -> None:
    """Alone, decomposed, and before marks that compose or change places with it."""
    assigned = [c for c in map(chr, range(sys.maxunicode + 1)) if category(c) not in ("Cs", "Cn")]
    changing = [c for c in assigned if normalize("NFD", c) != c or normalize("NFC", c) != c]
    marks = [c for c in assigned if combining(c)]
    texts = [*assigned, *(normalize("NFD", c) for c in changing)]
    texts += [c + "\u0301\u0323" for c in changing]
    texts += [f"a{mark}\u0301\u0323{mark}\u05b0" for mark in marks]
    texts = [text for text in texts if not text.startswith("\ufeff")]
    for start in range(0, len(texts), 50_000):
        fields = {"type": "reasoning", "created_at": 0, "premises": texts[start : start + 50_000]}
        assert og.encode(fields) == oracle.encode(fields)


def test_one_value_one_address() -> None:
    base = {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 1.0}
    moment = datetime.fromisoformat("2026-01-15T11:00:00.000999+01:00")
    same = [
        {**base, "created_at": 1768471200000},
        {**base, "created_at": 1768471200000, "confidence": 1},
        {**base, "created_at": moment, "user_id": None},
        {**base, "created_at": "2026-01-15T10:00:00Z", "subject": "a"},
    ]
    assert len({og.address(og.encode(fields)) for fields in same}) == 1
    accents = [{**same[0], "subject": text} for text in ("\u00e9", "e\u0301")]
    assert len({og.encode(fields) for fields in accents}) == 1
    empties: list[Any] = [None, "", [], {}]
    assert len({og.encode({**same[0], "x_empty": value}) for value in empties}) == len(empties)
