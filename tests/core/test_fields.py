# SPDX-License-Identifier: Apache-2.0
"""The fields of a grain are the same whatever this thread read before."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import omsgrain as og
from omsgrain import _core

TIME = 1_768_471_200_000


def varied(rng: random.Random) -> dict[str, Any]:
    """A grain of one of a few shapes, most of whose values other grains have too."""
    fields: dict[str, Any] = {
        "type": "belief",
        "subject": rng.choice(("robot-1", "robot-12", "r")),
        "relation": "mg:perceives",
        "object": rng.choice(("shelf", "shelf 3", {"shelf": rng.randrange(3)})),
        "confidence": rng.choice((0.5, 1.0)),
        "created_at": TIME + rng.randrange(3),
    }
    if rng.random() < 0.5:
        fields["structural_tags"] = rng.choice((["a"], ["a", "b"], ["ab"]))
    if rng.random() < 0.5:
        fields["x_note"] = rng.choice(
            (b"ab", b"abc", "long " * 200, True, 7, 70_000, ["a", "b"], [1])
        )
    if rng.random() < 0.2:
        fields["x_more"] = {"list": ["a", {"b": [1]}]}
    return fields


def read_apart(blob: bytes) -> dict[str, Any]:
    """The fields as a thread reads them that has read nothing else."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: dict(_core.fields(blob))).result()


def test_what_was_read_before_changes_nothing() -> None:
    rng = random.Random(7)
    grains = [varied(rng) for _ in range(60)]
    blobs = [og.encode(one, encoding=rng.choice(("msgpack", "cbor"))) for one in grains]
    apart = [read_apart(blob) for blob in blobs]
    for _ in range(2_000):
        at = rng.randrange(len(blobs))
        found = _core.fields(blobs[at])
        assert dict(found) == apart[at]
        assert list(found) == list(apart[at])
        assert [type(value) for value in found.values()] == [type(v) for v in apart[at].values()]


def test_a_reader_who_changes_a_value_changes_no_other_grain() -> None:
    blob = og.encode(
        {
            "type": "event",
            "content": "hello",
            "created_at": TIME,
            "structural_tags": ["a", "b"],
            "x_list": [1, 2],
            "x_map": {"a": ["b"]},
        }
    )
    expected = dict(_core.fields(blob))
    for _ in range(3):
        found = og.Grain(blob).fields
        for name in ("structural_tags", "x_list"):
            found[name].append("more")
        found["x_map"]["a"].append("more")
        found["x_map"]["c"] = 1
        assert _core.fields(blob) == {**expected}
    assert expected["structural_tags"] == ["a", "b"]


def test_a_refused_blob_leaves_nothing_behind() -> None:
    blob = og.encode({"type": "event", "content": "hello", "created_at": TIME})
    expected = dict(_core.fields(blob))
    for cut in range(10, len(blob)):
        with pytest.raises(og.errors.OmsError):
            _core.fields(blob[:cut])
        assert dict(_core.fields(blob)) == expected


def test_to_dict_is_a_copy_all_the_way_down() -> None:
    fields = {
        "type": "observation",
        "observer_id": "robot-7",
        "observer_type": "lidar",
        "created_at": 1_768_471_200_000,
        "structural_tags": ["shelf"],
        "context": {"tags": ["a", {"deep": [1]}]},
    }
    grain = og.decode(og.encode(fields))
    copy = grain.to_dict()
    assert copy == grain.fields == fields
    copy["structural_tags"].append("dock")
    copy["context"]["tags"][1]["deep"].append(2)
    copy["subject"] = "other"
    assert grain.fields == fields
