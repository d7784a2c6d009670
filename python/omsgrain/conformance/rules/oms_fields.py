# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, levels 1 and 2: each field by the specification's own table of them.

The table is a copy of the specification's, kept apart from the one that the core is built from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgpack

import omsgrain as og
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Check, Rule, Table, Tried, refuses, takes

_level_1: Final = Table("oms", 1)
_level_2: Final = Table("oms", 2)
_TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("fields.json").read_text("utf-8"))
_AT = 1_768_471_200_000
_HEX = "5e" * 32
_DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"

_LEAST: dict[str, dict[str, Any]] = {
    "belief": {"subject": "a", "relation": "b", "object": "c", "confidence": 0.5},
    "action": {"tool_name": "lift", "input": {}, "content": "", "is_error": False},
    "observation": {"observer_id": "o", "observer_type": "lidar"},
    "consent": {"subject_did": _DID, "grantee_did": _DID, "scope": ["store"],
                "is_withdrawal": False},
    "goal": {"description": "d", "goal_state": "active"},
}  # fmt: skip
_HOMES = {"action": "action", "observation": "observation", "consent": "consent", "goal": "goal"}

# Kind -> a value, and what it must not be with the code of the refusal.
_VALUES: dict[str, tuple[Any, tuple[tuple[Any, str], ...]]] = {
    "string": ("x", ((7, "ERR_SCHEMA"), (["x"], "ERR_SCHEMA"))),
    "bool": (True, ((1, "ERR_SCHEMA"), ("true", "ERR_SCHEMA"))),
    "int": (3, ((3.0, "ERR_SCHEMA"), (True, "ERR_SCHEMA"), ("3", "ERR_SCHEMA"))),
    "int64": (3, ((3.0, "ERR_SCHEMA"), (2**63, "ERR_RANGE"))),
    "uint8": (255, ((256, "ERR_RANGE"), (-1, "ERR_RANGE"), ("3", "ERR_SCHEMA"))),
    "float64": (0.5, (("0.5", "ERR_SCHEMA"), (True, "ERR_SCHEMA"))),
    "number": (0.5, (("0.5", "ERR_SCHEMA"), (True, "ERR_SCHEMA"))),
    "datetime": (_AT, (("yesterday", "ERR_SCHEMA"), (1.5, "ERR_SCHEMA"))),
    "address": (_HEX, (("xy" * 32, "ERR_HASH_FORMAT"), (_HEX[1:], "ERR_HASH_LENGTH"),
                       (7, "ERR_SCHEMA"))),
    "did": (_DID, (("key:z6Mk", "ERR_DID"), (7, "ERR_SCHEMA"))),
    "map": ({"k": 1}, (("x", "ERR_SCHEMA"), ([], "ERR_SCHEMA"))),
    "bytes": (b"x", (("x", "ERR_SCHEMA"),)),
    "any": ({"k": 1}, ()),
    "object": ("x", ((7, "ERR_SCHEMA"), (["x"], "ERR_SCHEMA"))),
}  # fmt: skip
# What must stand beside a field for it to have all its values.
_BESIDE: dict[str, dict[str, Any]] = {
    "prior_consent": {"is_withdrawal": True}, "is_withdrawal": {"prior_consent": _HEX},
    "execution_mode": {"code": "1", "stdout": ""},
}  # fmt: skip
# What one kind alone cannot say: fields whose values have a form of their own.
_OWN: dict[str, Any] = {
    "_elided": {"subject": f"sha256:{_HEX}"}, "content_refs": [{"uri": "file:a",
                                                                "modality": "image"}],
    "embedding_refs": [{"vector_id": "v", "model": "m", "dimensions": 3}],
    "related_to": [{"hash": _HEX, "relation_type": "similar"}],
    "content_blocks": [{"type": "text", "text": "x"}], "invalidation_policy": {"mode": "open"},
    "provenance_chain": [{"source_hash": _HEX, "method": "copied"}], "supersession_auth": [b"x"],
    "trusted_timestamp": {"tsp_response": b"x", "tsa_uri": "https://example.org"},
    "retention_policy": {"minimum_retention_years": 6},
}  # fmt: skip


def _base(row: dict[str, Any]) -> dict[str, Any]:
    name, home = row["name"], _HOMES.get(row["scope"], "belief")
    base = {"type": home, "created_at": _AT, **_LEAST[home]}
    if name == "action_phase":  # its other values are tried where phases are
        base = {k: v for k, v in base.items() if k not in ("content", "is_error")}
    if name in ("_elided", "_disclosure_of"):
        base = {k: v for k, v in base.items() if k != "subject"}
        base |= {"_elided": _OWN["_elided"], "_disclosure_of": _HEX}
    base |= _BESIDE.get(name, {})
    if row["scope"] in _TABLE["profiles"]:
        base["structural_tags"] = [f"profile:{row['scope']}"]
    return base


def _value(row: dict[str, Any]) -> Any:
    if row["name"] == "type":
        return "belief"
    if row["name"] == "action_phase":
        return "call"
    if row.get("enum"):
        return row["enum"][0]
    if row["name"] in _OWN:
        return _OWN[row["name"]]
    kind = row["type"]
    if kind.startswith("array["):
        return [_VALUES[kind[6:-1]][0]]
    return _VALUES[kind][0]


def _words(row: dict[str, Any]) -> list[Any]:
    return ["call"] if row["name"] == "action_phase" else row.get("enum", [])


def _wrong(row: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    kind = row["type"]
    if kind.startswith("array["):
        yield "x", "ERR_SCHEMA"
        yield from (([value], code) for value, code in _VALUES[kind[6:-1]][1])
    elif row["name"] != "type":
        yield from _VALUES[kind][1]
    for beyond in row.get("beyond", ()):
        yield beyond, "ERR_RANGE"
    if row.get("enum"):
        yield (99 if isinstance(row["enum"][0], int) else "no such word"), "ERR_SCHEMA"


def _short(row: dict[str, Any]) -> Check:
    def check(_: Bench) -> Iterator[Tried]:
        fields = _base(row) | {row["name"]: _value(row)}
        payload = msgpack.unpackb(og.encode(fields)[9:], strict_map_key=False)
        named = [key for key in (row["short"], row["name"]) if key in payload]
        yield Tried(f"{row['name']} in the payload", [row["short"]], list(dict.fromkeys(named)))
        back = og.decode(og.encode(fields)).to_dict()
        yield Tried("read again by its full name", _value(row), back.get(row["name"]))

    return check


def _kinds(row: dict[str, Any]) -> Check:
    def check(_: Bench) -> Iterator[Tried]:
        base = _base(row)
        listed = row["type"].startswith("array[")
        for one in (*_words(row), *row.get("open_enum", ()), *row.get("within", ())):
            value = [one] if listed else one
            given = base | {row["name"]: value}
            yield takes(repr(value), og.encode, given)
        if not row.get("enum"):
            yield takes(repr(_value(row)), lambda: og.encode(base | {row["name"]: _value(row)}))
        if row.get("open_enum"):
            other = ["x:another"] if listed else "x:another"
            yield takes("another word", lambda: og.encode(base | {row["name"]: other}))
        for value, code in _wrong(row):
            given = base | {row["name"]: value}
            yield refuses(f"not {value!r}", code, og.encode, given)

    return check


def _kept(row: dict[str, Any]) -> Check:
    def check(_: Bench) -> Iterator[Tried]:
        given = _base(row) | {row["name"]: _value(row)}
        yield refuses("written", "ERR_SCHEMA", lambda: og.encode(given))

    return check


def _said(row: dict[str, Any]) -> str:
    text = f"{row['name']} is {row['type']}"
    if row.get("enum"):
        text += f": one of {', '.join(map(str, row['enum']))}"
    if row.get("range"):
        text += f", {row['range']}"
    return text


for _row in _TABLE["fields"]:
    _id = f"field.{_row['scope']}.{_row['name']}"
    if _row.get("index_layer"):
        _level_2.add(_id, "5.6", f"{_row['name']} is the store's, and in no blob", _kept(_row))
        continue
    _level_1.add(
        f"key.{_row['scope']}.{_row['name']}",
        "6",
        f"{_row['name']} has the key {_row['short']} in a payload",
        _short(_row),
    )
    _level_2.add(_id, "6", _said(_row), _kinds(_row))
for _name, _rows in _TABLE["profiles"].items():
    for _row in _rows:
        _level_2.add(
            f"domain.{_name}.{_row['name'].split(':')[1]}",
            "13",
            f"profile {_name}: {_said(_row)}",
            _kinds(_row),
        )


def _entry(list_name: str, row: dict[str, Any]) -> Check:
    def check(_: Bench) -> Iterator[Tried]:
        entry = _OWN[list_name][0] | {row["name"]: row["value"]}
        belief = {"type": "belief", "created_at": _AT, **_LEAST["belief"]}
        blob = og.encode(belief | {list_name: [entry]})
        packed = msgpack.unpackb(blob[9:])[row["list"]][0]
        yield Tried(f"{row['name']} in an entry", row["value"], packed.get(row["short"]))
        if row["presence"] == "required":
            del entry[row["name"]]
            given = belief | {list_name: [entry]}
            yield refuses(f"without {row['name']}", "ERR_SCHEMA", lambda: og.encode(given))

    return check


for _list, _rows in _TABLE["nested"].items():
    for _row in _rows:
        _needs = ", and is required" if _row["presence"] == "required" else ""
        _level_2.add(
            f"entry.{_list}.{_row['name']}",
            "6",
            f"{_row['name']} has the key {_row['short']} in {_list}{_needs}",
            _entry(_list, _row),
        )

RULES: Final[list[Rule]] = [*_level_1.rules, *_level_2.rules]
