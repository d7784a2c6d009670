# SPDX-License-Identifier: Apache-2.0
"""Rules about each field of OMS, made from the table of fields in ``rules/oms_fields.json``.

The table is a copy of the specification's, kept apart from the one that the core is built from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgpack

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.edits import value_of
from omsgrain.conformance.rule import Entry, Tried, refuses, table, takes

_TABLE: Final = value_of(table("oms_fields"))
_ADDRESS: Final = _TABLE["kinds"]["address"]["good"]
_SCOPES: Final = ("action", "observation", "consent", "goal")  # types with fields of their own
_HIDDEN: Final = ("_elided", "_disclosure_of")  # fields of a view, which hides its subject


def entries() -> Iterator[Entry]:
    """The rules of all fields."""
    for row in _TABLE["fields"]:
        name, id = row["name"], f"field.{row['scope']}.{row['name']}"
        if row.get("index_layer"):
            text = f"{name} is the store's, and in no blob"
            yield _entry(2, id, "5.6", text, "fields.refused", row)
            continue
        text = f"{name} has the key {row['short']} in a payload"
        yield _entry(1, f"key.{row['scope']}.{name}", "6", text, "fields.key", row)
        yield _entry(2, id, "6", _said(row), "fields.values", row)
    for profile, rows in _TABLE["profiles"].items():
        for row in rows:
            id = f"domain.{profile}.{row['name'].split(':')[1]}"
            text = f"profile {profile}: {_said(row)}"
            yield _entry(2, id, "13", text, "fields.values", row)
    for name, rows in _TABLE["nested"].items():
        for row in rows:
            needs = ", and is required" if row["presence"] == "required" else ""
            text = f"{row['name']} has the key {row['short']} in {name}{needs}"
            row = {**row, "of": name}
            yield _entry(2, f"entry.{name}.{row['name']}", "6", text, "fields.member", row)


def _entry(level: int, id: str, section: str, text: str, run: str, row: Entry) -> Entry:
    return {
        "id": f"oms.{id}",
        "level": level,
        "section": section,
        "text": text,
        "run": run,
        "field": row,
    }


def _said(row: Entry) -> str:
    text = f"{row['name']} is {row['type']}"
    if row.get("enum"):
        text += f": one of {', '.join(map(str, row['enum']))}"
    if row.get("range"):
        text += f", {row['range']}"
    return text


def _base(row: Entry) -> dict[str, Any]:
    """A grain that may have the field."""
    name, home = row["name"], row["scope"] if row["scope"] in _SCOPES else "belief"
    base = {"type": home, "created_at": NOW, **_TABLE["least"][home]}
    if name == "action_phase":  # its other values are tried where phases are
        base = {k: v for k, v in base.items() if k not in ("content", "is_error")}
    if name in _HIDDEN:
        base = {k: v for k, v in base.items() if k != "subject"}
        base |= {"_elided": _TABLE["own"]["_elided"], "_disclosure_of": _ADDRESS}
    base |= _TABLE["beside"].get(name, {})
    if row["scope"] in _TABLE["profiles"]:
        base["structural_tags"] = [f"profile:{row['scope']}"]
    return base


def _value(row: Entry) -> Any:
    """A good value of the field."""
    if row["name"] in ("type", "action_phase"):
        return {"type": "belief", "action_phase": "call"}[row["name"]]
    if row.get("enum"):
        return row["enum"][0]
    if row["name"] in _TABLE["own"]:
        return _TABLE["own"][row["name"]]
    good = _TABLE["kinds"][_kind(row)]["good"]
    return [good] if _is_array(row) else good


def _is_array(row: Entry) -> bool:
    return str(row["type"]).startswith("array[")


def _kind(row: Entry) -> str:
    """The kind of the value, or of an array's elements."""
    return str(row["type"]).removeprefix("array[").removesuffix("]")


def _words(row: Entry) -> list[Any]:
    return ["call"] if row["name"] == "action_phase" else row.get("enum", [])


def _wrong(row: Entry) -> Iterator[tuple[Any, str]]:
    """Bad values of the field, each with the code that refuses it."""
    bad = _TABLE["kinds"][_kind(row)]["bad"]
    if _is_array(row):
        yield "x", "ERR_SCHEMA"
        yield from (([value], code) for value, code in bad)
    elif row["name"] != "type":
        yield from bad
    for beyond in row.get("beyond", ()):
        yield beyond, "ERR_RANGE"
    if row.get("enum"):
        yield (99 if isinstance(row["enum"][0], int) else "no such word"), "ERR_SCHEMA"


def key(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A field stands under its short key, and is read by its full name."""
    row = entry["field"]
    name, value = row["name"], _value(row)
    fields = _base(row) | {name: value}
    payload = msgpack.unpackb(og.encode(fields)[9:], strict_map_key=False)
    named = [one for one in (row["short"], name) if one in payload]
    yield Tried(f"{name} in the payload", [row["short"]], list(dict.fromkeys(named)))
    back = og.decode(og.encode(fields)).to_dict()
    yield Tried("read again by its full name", value, back.get(name))


def values(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The values of a field: every word of a list, ends of a range, and bad ones."""
    row = entry["field"]
    name, base = row["name"], _base(row)
    for one in (*_words(row), *row.get("open_enum", ()), *row.get("within", ())):
        value = [one] if _is_array(row) else one
        yield takes(repr(value), og.encode, base | {name: value})
    if not row.get("enum"):
        yield takes(repr(_value(row)), og.encode, base | {name: _value(row)})
    if row.get("open_enum"):
        other = ["x:another"] if _is_array(row) else "x:another"
        yield takes("another word", og.encode, base | {name: other})
    for value, code in _wrong(row):
        yield refuses(f"not {value!r}", code, og.encode, base | {name: value})


def refused(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A field of the index is in no blob."""
    row = entry["field"]
    yield refuses("written", "ERR_SCHEMA", og.encode, _base(row) | {row["name"]: _value(row)})


def member(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A member of the entries of a list, under its short key."""
    row = entry["field"]
    entries = {**_TABLE["own"][row["of"]][0], row["name"]: row["value"]}
    belief = {"type": "belief", "created_at": NOW, **_TABLE["least"]["belief"]}
    blob = og.encode(belief | {row["of"]: [entries]})
    packed = msgpack.unpackb(blob[9:])[row["list"]][0]
    yield Tried(f"{row['name']} in an entry", row["value"], packed.get(row["short"]))
    if row["presence"] == "required":
        del entries[row["name"]]
        given = belief | {row["of"]: [entries]}
        yield refuses(f"without {row['name']}", "ERR_SCHEMA", og.encode, given)
