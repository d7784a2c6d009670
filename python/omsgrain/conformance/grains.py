# SPDX-License-Identifier: Apache-2.0
"""Rules about single OMS grains: writing fields, reading bytes, addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import msgpack

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Entry, Tried, refuses, takes, value_of
from omsgrain.conformance.vectors import vector
from omsgrain.json_values import revive

_LEAST: Final[dict[str, Any]] = {
    "type": "belief",
    "subject": "a",
    "relation": "b",
    "object": "c",
    "confidence": 0.5,
    "created_at": NOW,
}


def encoded(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``encode``: a grain with more fields is written, or refused by a code."""
    for case in entry["cases"]:
        given = value_of({**entry["grain"], **case.get("fields", {})})
        if "refused" in case:
            yield refuses(case["try"], case["refused"], og.encode, given)
        else:
            yield takes(case["try"], og.encode, given)


def warned(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``warnings``: how many warnings a grain gets."""
    for case in entry["cases"]:
        grain = og.Grain(og.encode(entry["grain"] | case["fields"]))
        yield Tried(case["try"], case["warnings"], len(grain.warnings))


def aware_times(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A datetime of Python with a zone, and without."""
    at = datetime(2026, 1, 15, 12, 0, 0, 999, tzinfo=timezone(timedelta(hours=2)))
    found = og.decode(og.encode({**_LEAST, "valid_from": at}))["valid_from"]
    yield Tried("12:00:00.000999+02:00", NOW, found)
    naive = {**_LEAST, "valid_from": at.replace(tzinfo=None)}
    yield refuses("the same without a zone", "ERR_SCHEMA", og.encode, naive)


def batch(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A batch, and lines of JSON."""
    listed = [vector(f"types/{number}") for number in range(1, 20, 2)]
    expected = [one["address"] for one in listed]
    made = og.encode_many([revive(one["input"]) for one in listed])
    yield Tried("a grain of each type in a batch", expected, list(made.addresses))
    lines = b"".join(json.dumps(one["input"]).encode() + b"\n" for one in listed)
    yield Tried("the same by lines of JSON", expected, list(og.encode_jsonl(lines).addresses))


def keyed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``key``: a payload has a field's short key, and a reader returns its full name."""
    grain, name, short = value_of(entry["grain"]), entry["name"], entry["short"]
    payload = msgpack.unpackb(og.encode(grain)[9:], strict_map_key=False)
    back = og.decode(og.encode(grain)).to_dict()
    given = grain
    if "list" in entry:
        long_name, key = entry["list"]
        given, back, payload = grain[long_name][0], back[long_name][0], payload[key][0]
    named = [one for one in dict.fromkeys((short, name)) if one in payload]
    yield Tried(f"{name} in the payload", [short], named)
    yield Tried("read again by its full name", given[name], back.get(name))
    if entry.get("needed"):
        del given[name]
        yield refuses(f"without {name}", "ERR_SCHEMA", og.encode, grain)
