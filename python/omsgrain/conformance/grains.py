# SPDX-License-Identifier: Apache-2.0
"""Rules about single OMS grains: writing fields, reading bytes, addresses.

The rules about each field come from the table in ``rules/oms_fields.json``, a copy of the
specification's table. It is separate from the one that the core is built from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import msgpack

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Entry, Tried, refuses, table, takes, value_of
from omsgrain.conformance.vectors import blob, vector
from omsgrain.json_values import revive

_FACT_AT: Final = "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520"
_BELIEF_AT: Final = "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5"
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


# reading


def header(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The parts of a header."""
    found = og.read_header(blob("oms", 1))
    parts = (found.version, found.flags, found.type_byte, found.ns_hash, found.created_at)
    yield Tried("header 010001a4d26968baa0", (1, 0, 1, 0xA4D2, 0x6968BAA0), parts)


def addresses(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The addresses of known bytes, alone and in a batch."""
    fact = blob("oms", 1)
    yield Tried("OMS vector 1, pinned", _FACT_AT, og.address(fact))
    for case in entry["cases"]:
        found = og.address(value_of(case["text"]).encode())
        yield Tried(case["try"], case["address"], found)
    yield Tried("many at once", [_FACT_AT] * 3, og.address_many([fact] * 3))


def every_byte(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A blob with a changed byte has another address."""
    fact = blob("oms", 1)
    passed = []
    for at in range(len(fact)):
        changed = fact[:at] + bytes([fact[at] ^ 1]) + fact[at + 1 :]
        try:
            og.verify(changed, _FACT_AT)
        except og.errors.OmsError:
            continue
        passed.append(at)
    yield Tried(f"each of {len(fact)} bytes flipped", [], passed)


def exact(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A grain that is read and written again has the same bytes."""
    for what, area in (("vector 1, a fact", "oms"), ("a belief", "types")):
        grain = og.decode(blob(area, 1))
        yield Tried(what, blob(area, 1), og.encode(grain.to_dict(), keep_type_name=True))


def upgrade(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A grain of 1.1, and its 1.2 form."""
    grain = og.decode(blob("oms", 1))
    yield Tried("the fact as read", (_FACT_AT, "belief"), (grain.address, grain.type))
    yield Tried("the belief made of it", _BELIEF_AT, grain.upgrade().address)


def lenient(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A blob that is not canonical can be read leniently, but not stored."""
    bad = bytes.fromhex(vector("refusals/read", 139)["blob_hex"])
    yield takes("read with strict=False", og.decode, bad, strict=False)
    yield refuses("put into a store", "ERR_CORRUPT", bench.store().put, bad)


def json_bytes(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Bytes in JSON."""
    given = {"type": "state", "context": {"x": b"\x00\xff"}, "created_at": 1000}
    context = json.loads(og.decode(og.encode(given)).to_json())["context"]
    yield Tried("bytes 00 ff", {"x": {"$bytes": "AP8="}}, context)


# writing


def aware_times(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A datetime of Python with a zone, and without."""
    at = datetime(2026, 1, 15, 12, 0, 0, 999, tzinfo=timezone(timedelta(hours=2)))
    found = og.decode(og.encode({**_LEAST, "valid_from": at}))["valid_from"]
    yield Tried("12:00:00.000999+02:00", NOW, found)
    naive = {**_LEAST, "valid_from": at.replace(tzinfo=None)}
    yield refuses("the same without a zone", "ERR_SCHEMA", og.encode, naive)


def order(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Fields in another order."""
    turned = dict(reversed(_LEAST.items()))
    header = og.encode(_LEAST)[:9].hex()
    yield Tried("the header of a least belief", "01000100006968baa0", header)
    yield Tried("the fields in reverse order", og.encode(_LEAST), og.encode(turned))


def batch(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A batch, and lines of JSON."""
    listed = [vector("types", number) for number in range(1, 20, 2)]
    expected = [one["address"] for one in listed]
    made = og.encode_many([revive(one["input"]) for one in listed])
    yield Tried("a grain of each type in a batch", expected, list(made.addresses))
    lines = b"".join(json.dumps(one["input"]).encode() + b"\n" for one in listed)
    yield Tried("the same by lines of JSON", expected, list(og.encode_jsonl(lines).addresses))


def extended(_: Bench, entry: Entry) -> Iterator[Tried]:
    """The largest blob is accepted; one byte more is refused."""
    room = (1 << 20) - len(og.encode({**_LEAST, "x": "y" * 70_000})) + 70_000
    largest = {**_LEAST, "x": "y" * room}
    yield takes("a blob of 1,048,576 bytes", og.encode, largest)
    yield Tried("its size", 1 << 20, len(og.encode(largest)))
    yield refuses("one byte more", "ERR_TOO_LARGE", og.encode, {**_LEAST, "x": "y" * (room + 1)})


def reading(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A reader refuses a blob over the size limit."""
    large = og.encode(_LEAST)[:9] + bytes(1 << 20)
    yield refuses("a belief's header and 1 MiB", "ERR_TOO_LARGE", og.decode, large)


# each field


_TABLE: Final = value_of(table("oms_fields"))
_ADDRESS: Final = _TABLE["kinds"]["address"]["good"]
_SCOPES: Final = ("action", "observation", "consent", "goal")  # types with fields of their own
_HIDDEN: Final = ("_elided", "_disclosure_of")  # fields of a view, which hides its subject


def entries() -> Iterator[Entry]:
    """The rules of all fields."""
    for row in _TABLE["fields"]:
        name, id = row["name"], f"field.{row['scope']}.{row['name']}"
        if row.get("index_layer"):
            text = f"{name} belongs to the index, not to a blob"
            yield _entry(2, id, "5.6", text, "grains.refused", row)
            continue
        text = f"{name} has the key {row['short']} in a payload"
        yield _entry(1, f"key.{row['scope']}.{name}", "6", text, "grains.key", row)
        yield _entry(2, id, "6", _said(row), "grains.values", row)
    for profile, rows in _TABLE["profiles"].items():
        for row in rows:
            id = f"domain.{profile}.{row['name'].split(':')[1]}"
            text = f"profile {profile}: {_said(row)}"
            yield _entry(2, id, "13", text, "grains.values", row)
    for name, rows in _TABLE["nested"].items():
        for row in rows:
            needs = ", and is required" if row["presence"] == "required" else ""
            text = f"{row['name']} has the key {row['short']} in {name}{needs}"
            row = {**row, "of": name}
            yield _entry(2, f"entry.{name}.{row['name']}", "6", text, "grains.member", row)


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
    """Return a grain that can have the field."""
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
    """Return a valid value of the field."""
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
    """Return the kind of the value, or of an array's elements."""
    return str(row["type"]).removeprefix("array[").removesuffix("]")


def _words(row: Entry) -> list[Any]:
    return ["call"] if row["name"] == "action_phase" else row.get("enum", [])


def _wrong(row: Entry) -> Iterator[tuple[Any, str]]:
    """Yield invalid values of the field, each with its error code."""
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
    """A payload has the field's short key; a reader returns its full name."""
    row = entry["field"]
    name, value = row["name"], _value(row)
    fields = _base(row) | {name: value}
    payload = msgpack.unpackb(og.encode(fields)[9:], strict_map_key=False)
    named = [one for one in (row["short"], name) if one in payload]
    yield Tried(f"{name} in the payload", [row["short"]], list(dict.fromkeys(named)))
    back = og.decode(og.encode(fields)).to_dict()
    yield Tried("read again by its full name", value, back.get(name))


def values(_: Bench, entry: Entry) -> Iterator[Tried]:
    """All words of a list, both ends of a range, and invalid values."""
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
    """A field of the index is refused in a blob."""
    row = entry["field"]
    yield refuses("written", "ERR_SCHEMA", og.encode, _base(row) | {row["name"]: _value(row)})


def member(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A member of a list's entries has its short key."""
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
