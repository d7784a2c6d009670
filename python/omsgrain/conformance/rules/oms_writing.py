# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: the bytes that a writer gives, and the fields that it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.vectors import grains, vector, write
from omsgrain.json_values import revive

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add

_AT = 1_768_471_200_000
_LEAST: dict[str, Any] = {
    "type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 0.5,
    "created_at": _AT,
}  # fmt: skip


def _with(**fields: Any) -> dict[str, Any]:
    return {**_LEAST, **fields}


# fmt: off
# the vectors of the specification
for _number, _name in enumerate(
    ("fact", "event", "bi-temporal belief", "belief with relations", "observation",
     "locked belief"),
    1,
):
    _add(f"vector.{_number}", "vectors",
         f"Vector {_number}, a {_name}, has its bytes and its address",
         grains("oms", _number))
_add("vector.belief", "vectors", "Vector 1 by its 1.2 type name has its bytes and its address",
     grains("oms", 7))

# canonical bytes
_add("write.integers", "4", "Integers are written in the shortest form, -2^63 to 2^64-1",
     grains("values", 1, 2), write(148, 149))
_add("write.floats", "4.3",
     "Floats: MessagePack in 64 bits, CBOR in the fewest that keep the value",
     grains("values", 3, 4))
_add("write.float-fields", "4.3",
     "A number given for a float field becomes a float, so that 1 and 1.0 give one address",
     grains("values", 5, 6))
_add("write.strings", "4.4", "Strings of every length are written with the shortest head",
     grains("values", 7, 8))
_add("write.bytes", "4", "Bytes of every length are written with the shortest head",
     grains("values", 9, 10))
_add("write.arrays", "4", "Arrays of every length are written with the shortest head",
     grains("values", 11, 12))
_add("write.maps", "4", "Maps of every length are written with the shortest head",
     grains("values", 13, 14))
_add("write.key-order", "4",
     "Keys are sorted at every level: MessagePack by their bytes, CBOR by their encoded bytes",
     grains("values", 15, 16))
_add("write.nfc", "4.4", "Strings and keys are brought into NFC", grains("values", 17, 18))
_add("write.nfc.keys", "4.4", "Two keys that are one in NFC are refused", write(152))
_add("write.bom", "4.4", "A string or key with a byte order mark in front is refused",
     write(150, 151))
_add("write.nulls", "4.5", "Nulls are dropped from maps at every level, and kept in arrays",
     grains("values", 19, 20))
_add("write.empty", "4.5", "Empty strings, arrays and maps are kept: empty is not absent",
     grains("values", 21, 22))
_add("write.scripts", "4.4", "Text of all scripts is kept", grains("values", 23, 24))
_add("write.times", "4.7", "Times are whole ms since 1970, from ms or RFC 3339 text, floored",
     grains("values", 25, 26))
_add("write.times.refused", "4.7",
     "Times without an offset, dates, days that are not, and floats are refused",
     write(156, 157, 158, 159, 160))
_add("write.floats.finite", "4.3", "NaN and the infinities are refused", write(146, 147))
_add("write.depth", "4", "More than 32 levels are refused", write(153))
_add("write.created.range", "3", "created_at outside 1970 to 2106 is refused", write(154, 155),
     grains("values", 33, 34))
_add("write.namespace.empty", "3.3", "An empty namespace is kept and has the hash 0000",
     grains("values", 29, 30))
_add("write.short-keys", "6", "A short key beside or instead of its full name is refused",
     write(143, 144, 145))
_add("write.type-name", "8", "Writers emit 1.2 type names, whatever they are given",
     grains("oms", 7), grains("types", 27, 28, 29))
# fmt: on


@_rule("write.datetime", "4.7", "An aware datetime is taken in any zone; a naive one is refused")
def _datetime(_: Bench) -> Iterator[Tried]:
    zone = timezone(timedelta(hours=2))
    at = datetime(2026, 1, 15, 12, 0, 0, 999, tzinfo=zone)
    yield Tried(
        "12:00:00.000999+02:00", _AT, og.decode(og.encode(_with(valid_from=at)))["valid_from"]
    )
    yield refuses(
        "the same without a zone",
        "ERR_SCHEMA",
        lambda: og.encode(_with(valid_from=at.replace(tzinfo=None))),
    )


@_rule("write.order", "4.9", "The order in which fields are given changes nothing")
def _order(_: Bench) -> Iterator[Tried]:
    turned = dict(reversed(_LEAST.items()))
    expected = "01000100006968baa0"
    yield Tried("the header of a least belief", expected, og.encode(_LEAST)[:9].hex())
    yield Tried("the fields the other way round", og.encode(_LEAST), og.encode(turned))


@_rule("write.batch", "4.9", "Batches and lines of JSON give the same bytes as one grain")
def _batch(_: Bench) -> Iterator[Tried]:
    listed = [vector("types", number) for number in range(1, 20, 2)]
    expected = [one["address"] for one in listed]
    made = og.encode_many([revive(one["input"]) for one in listed])
    yield Tried("a grain of each type in a batch", expected, list(made.addresses))
    lines = b"".join(json.dumps(one["input"]).encode() + b"\n" for one in listed)
    yield Tried("the same by lines of JSON", expected, list(og.encode_jsonl(lines).addresses))


# profiles of size
_add(
    "profile.lightweight",
    "16",
    "lightweight: at most 512 bytes, and seven fields alone",
    write(201, 202),
    grains("types", 34),
)
_add("profile.standard", "16", "standard: at most 32 KiB and 16 levels", write(203, 204))


@_rule("profile.extended", "16", "extended: at most 1 MiB and 32 levels")
def _extended(_: Bench) -> Iterator[Tried]:
    room = (1 << 20) - len(og.encode(_with(x="y" * 70_000))) + 70_000
    yield takes("a blob of 1,048,576 bytes", lambda: og.encode(_with(x="y" * room)))
    yield Tried("its size", 1 << 20, len(og.encode(_with(x="y" * room))))
    yield refuses("one byte more", "ERR_TOO_LARGE", lambda: og.encode(_with(x="y" * (room + 1))))


@_rule("profile.reading", "16", "A reader refuses a blob of more than 1 MiB")
def _reading(_: Bench) -> Iterator[Tried]:
    yield refuses(
        "a belief's header and 1 MiB",
        "ERR_TOO_LARGE",
        lambda: og.decode(og.encode(_LEAST)[:9] + bytes(1 << 20)),
    )


# fmt: off
# fields
_add("field.kinds", "6", "A bool is no number, a number no text, a float no integer",
     write(114, 115, 116, 117, 119))
_add("field.ranges", "6", "Numbers outside their range are refused", write(110, 111, 112, 113,
                                                                           130))
_add("field.enums", "6", "Words and numbers that a closed list lacks are refused", write(121, 129))
_add("field.addresses", "5", "Addresses inside are 64 lower-case hex digits", write(133, 134))
_add("field.dids", "9", "A DID is did:method:id", write(135))
_add("field.references", "6", "References have their required members", write(131, 132))
_add("field.index", "5.6", "Fields that the store keeps are refused", write(138, 139, 140, 141,
                                                                            142))
_add("field.old-names", "6", "1.1 field names do not count under a 1.2 type name", write(161, 162))
_add("disclosure.not-elidable", "10.2", "What must be shown cannot be hidden", write(137))
_add("disclosure.form", "10.2", "A hidden value is sha256: and 64 hex digits", write(136))
_add("domain.healthcare.basis", "13", "healthcare: a phi: tag needs a processing_basis",
     write(163))
_add("domain.healthcare.licence", "13", "healthcare: no open licence", write(164))
_add("opaque.type-byte", "3", "A type byte is not 0 and agrees with the type", write(205, 206))
_add("lines", "4.9", "A line of JSON is one object, without NaN, a key twice, or more behind it",
     write(301, 302, 303, 304, 305, 306, 307, 308), must=False)
_add("lines.values", "4.9", "Bytes in JSON are base64, and numbers within 64 bits",
     write(309, 310), must=False)
# fmt: on


@_rule("warn.typo", "6", "A field name one edit away from a known one is warned of", must=False)
def _typo(_: Bench) -> Iterator[Tried]:
    yield Tried("confidense", 1, len(og.Grain(og.encode(_with(confidense=1))).warnings))
    yield Tried("x_note", 0, len(og.Grain(og.encode(_with(x_note=1))).warnings))


@_rule("warn.observer-model", "8.6", "A missing observer_model of an llm is warned of", must=False)
def _model(_: Bench) -> Iterator[Tried]:
    for kind in ("llm", "reflector", "classifier", "detector"):
        given = {
            "type": "observation",
            "observer_id": "o",
            "observer_type": kind,
            "created_at": _AT,
        }
        yield Tried(kind, 1, len(og.Grain(og.encode(given)).warnings))
