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

__all__ = ["RULES"]

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


# the vectors of the specification
for _number, _name in enumerate(
    ("fact", "event", "bi-temporal belief", "belief with relations", "observation", "locked belief"),
    1,
):
    _add(f"vector.{_number}", "21", f"Vector {_number}, a {_name}, has its bytes and its address",
         grains("oms", _number))
_add("vector.belief", "21", "Vector 1 by its 1.2 type name has its bytes and its address",
     grains("oms", 7))

# canonical bytes
_add("write.integers", "4.1", "Integers are written in the shortest form, -2^63 to 2^64-1",
     grains("values", 1, 2), write(148, 149))
_add("write.floats", "4.3", "Floats: MessagePack in 64 bits, CBOR in the fewest that keep the value",
     grains("values", 3, 4))
_add("write.float-fields", "4.3",
     "A number given for a float field becomes a float, so that 1 and 1.0 give one address",
     grains("values", 5, 6))
_add("write.strings", "4.4", "Strings of every length are written with the shortest head",
     grains("values", 7, 8))
_add("write.bytes", "4.1", "Bytes of every length are written with the shortest head",
     grains("values", 9, 10))
_add("write.arrays", "4.1", "Arrays of every length are written with the shortest head",
     grains("values", 11, 12))
_add("write.maps", "4.1", "Maps of every length are written with the shortest head",
     grains("values", 13, 14))
_add("write.key-order", "4.2",
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
_add("write.times", "4.6", "Times are whole ms since 1970, from ms or RFC 3339 text, floored",
     grains("values", 25, 26))
_add("write.times.refused", "4.6",
     "Times without an offset, dates, days that are not, and floats are refused",
     write(156, 157, 158, 159, 160))
_add("write.floats.finite", "4.3", "NaN and the infinities are refused", write(146, 147))
_add("write.depth", "4.8", "More than 32 levels are refused", write(153))
_add("write.created.range", "3.4", "created_at outside 1970 to 2106 is refused", write(154, 155),
     grains("values", 33, 34))
_add("write.namespace.empty", "3.3", "An empty namespace is kept and has the hash 0000",
     grains("values", 29, 30))
_add("write.short-keys", "6", "A short key beside or instead of its full name is refused",
     write(143, 144, 145))
_add("write.type-name", "12", "Writers emit 1.2 type names, whatever they are given",
     grains("oms", 7), grains("types", 27, 28, 29))


@_rule("write.datetime", "4.6", "An aware datetime is taken in any zone; a naive one is refused")
def _datetime(_: Bench) -> Iterator[Tried]:
    zone = timezone(timedelta(hours=2))
    at = datetime(2026, 1, 15, 12, 0, 0, 999, tzinfo=zone)
    yield Tried("12:00:00.000999+02:00", _AT, og.decode(og.encode(_with(valid_from=at)))["valid_from"])
    yield refuses("the same without a zone", "ERR_SCHEMA",
                  lambda: og.encode(_with(valid_from=at.replace(tzinfo=None))))


@_rule("write.order", "4.9", "The order in which fields are given changes nothing")
def _order(_: Bench) -> Iterator[Tried]:
    turned = dict(reversed(_LEAST.items()))
    expected = "0100010000" "6968baa0"
    yield Tried("the header of a least belief", expected, og.encode(_LEAST)[:9].hex())
    yield Tried("the fields the other way round", og.encode(_LEAST), og.encode(turned))


@_rule("write.batch", "4.9", "Batches and lines of JSON give the same bytes as one grain")
def _batch(_: Bench) -> Iterator[Tried]:
    from omsgrain import ops

    listed = [vector("types", number) for number in range(1, 20, 2)]
    expected = [one["address"] for one in listed]
    made = og.encode_many([ops.revive(one["input"]) for one in listed])
    yield Tried("a grain of each type in a batch", expected, list(made.addresses))
    lines = b"".join(json.dumps(one["input"]).encode() + b"\n" for one in listed)
    yield Tried("the same by lines of JSON", expected, list(og.encode_jsonl(lines).addresses))


# profiles of size
_add("profile.lightweight", "16.4", "lightweight: at most 512 bytes, and seven fields alone",
     write(201, 202), grains("types", 34))
_add("profile.standard", "16.4", "standard: at most 32 KiB and 16 levels", write(203, 204))


@_rule("profile.extended", "16.4", "extended: at most 1 MiB and 32 levels")
def _extended(_: Bench) -> Iterator[Tried]:
    room = (1 << 20) - len(og.encode(_with(x="y" * 70_000))) + 70_000
    yield takes("a blob of 1,048,576 bytes", lambda: og.encode(_with(x="y" * room)))
    yield Tried("its size", 1 << 20, len(og.encode(_with(x="y" * room))))
    yield refuses("one byte more", "ERR_TOO_LARGE", lambda: og.encode(_with(x="y" * (room + 1))))


@_rule("profile.reading", "16.4", "A reader refuses a blob of more than 1 MiB")
def _reading(_: Bench) -> Iterator[Tried]:
    yield refuses("a belief's header and 1 MiB", "ERR_TOO_LARGE",
                  lambda: og.decode(og.encode(_LEAST)[:9] + bytes(1 << 20)))


# types: what each requires
_MISSING: tuple[tuple[str, str, str, int, int], ...] = (
    ("belief", "8.1", "subject, relation, object and confidence", 1, 4),
    ("state", "8.3", "a context", 6, 6),
    ("workflow", "8.4", "steps and a trigger", 7, 8),
    ("action", "8.5", "tool_name, input, content and is_error, if it is whole", 9, 12),
    ("observation", "8.6", "observer_id and observer_type", 13, 14),
    ("goal", "8.7", "a description and a goal_state", 15, 16),
    ("consensus", "8.9", "participating_observers, threshold, agreement_count, dissent_count",
     17, 20),
    ("consent", "8.10", "subject_did, grantee_did, scope and is_withdrawal", 21, 24),
    ("action.definition", "8.5", "in phase definition tool_name, tool_description, input_schema",
     25, 27),
    ("action.call", "8.5", "in phase call tool_name and input", 28, 29),
    ("action.result", "8.5", "in phase result tool_call_id, content, is_error, derived_from",
     30, 33),
)  # fmt: skip
for _name, _section, _needs, _first, _last in _MISSING:
    _add(f"type.{_name}.required", _section, f"{_name.split('.')[0].capitalize()} requires {_needs}",
         write(*range(_first, _last + 1)))
for _number, _name in enumerate(
    "belief event state workflow action observation goal reasoning consensus consent".split(), 1
):
    _add(f"type.{_name}", f"8.{_number}",
         f"{_name.capitalize()}, byte 0x{_number:02X}, in MessagePack and CBOR",
         grains("types", 2 * _number - 1, 2 * _number))
_add("type.none", "8", "A grain without a type, or of a type that is none, is refused",
     write(101, 102, 103))
_add("type.created", "8", "Every grain requires created_at", write(5))
_add("type.belief.empty", "8.1", "subject and relation are not empty", write(104, 105))
_add("type.belief.object", "8.1", "object is text or a map", write(118))
_add("type.event.says", "8.2", "Event requires content, content_blocks or a whole triple",
     write(106, 107), grains("types", 25))
_add("type.event.blocks", "8.2", "Each content block has a type", write(108))
_add("type.workflow.empty", "8.4", "steps has at least one", write(109))
_add("type.action.phases", "8.5", "action_phase is definition, call, result, or absent",
     write(122), grains("types", 21, 22, 23))
_add("type.action.code", "8.5", "Code that was run has code, is_error, and stdout or content",
     write(125), grains("types", 24))
_add("type.observation.modes", "8.6", "observation_mode and observation_scope are closed lists",
     write(126))
_add("type.observation.human", "8.6", "A human observer has no observer_model", write(127))
_add("type.goal.states", "8.7", "goal_state is active, satisfied, failed or suspended", write(120))
_add("type.consent.withdrawal", "8.10", "A withdrawal names the consent before it", write(128),
     grains("types", 26))


def _forbidden(phase: str, base: dict[str, Any], names: str) -> None:
    def check(_: Bench) -> Iterator[Tried]:
        yield takes("the grain without them", lambda: og.encode(base))
        for name in names.split():
            value: Any = {"input": {}, "is_error": False, "exit_code": 0, "duration_ms": 0}.get(
                name, "x"
            )
            given = base | {name: value}
            yield refuses(f"with {name}", "ERR_SCHEMA", lambda given=given: og.encode(given))  # type: ignore[misc]

    _add(f"type.action.{phase}.forbidden", "8.5",
         f"An action in phase {phase} carries none of {', '.join(names.split())}", check)


_ACTION: dict[str, Any] = {"type": "action", "tool_name": "lift", "created_at": _AT}
_forbidden("definition", _ACTION | {"action_phase": "definition", "tool_description": "lifts",
                                    "input_schema": {}},
           "input content is_error stdout stderr exit_code duration_ms")
_forbidden("call", _ACTION | {"action_phase": "call", "input": {}},
           "content is_error stdout stderr exit_code duration_ms")


@_rule("type.observation.trigger", "8.6", "An observer of type trigger:... has modes of its own")
def _trigger(_: Bench) -> Iterator[Tried]:
    given = {"type": "observation", "observer_id": "t", "observer_type": "trigger:door",
             "observation_mode": "on_open", "created_at": _AT}
    yield takes("trigger:door in mode on_open", lambda: og.encode(given))


# fields
_add("field.kinds", "6", "A bool is no number, a number no text, a float no integer",
     write(114, 115, 116, 117, 119))
_add("field.ranges", "6", "Numbers outside their range are refused", write(110, 111, 112, 113, 130))
_add("field.enums", "6", "Words and numbers that a closed list lacks are refused", write(121, 129))
_add("field.addresses", "5", "Addresses inside are 64 lower-case hex digits", write(133, 134))
_add("field.dids", "9.1", "A DID is did:method:id", write(135))
_add("field.references", "6", "References have their required members", write(131, 132))
_add("field.index", "13", "Fields that the store keeps are refused", write(138, 139, 140, 141, 142))
_add("field.old-names", "12", "1.1 field names do not count under a 1.2 type name", write(161, 162))
_add("disclosure.not-elidable", "10", "What must be shown cannot be hidden", write(137))
_add("disclosure.form", "10", "A hidden value is sha256: and 64 hex digits", write(136))
_add("domain.healthcare.basis", "17", "healthcare: a phi: tag needs a processing_basis", write(163))
_add("domain.healthcare.licence", "17", "healthcare: no open licence", write(164))
_add("opaque.type-byte", "3.2", "A type byte is not 0 and agrees with the type", write(205, 206))
_add("lines", "4.9", "A line of JSON is one object, without NaN, a key twice, or more behind it",
     write(301, 302, 303, 304, 305, 306, 307, 308), must=False)
_add("lines.values", "4.9", "Bytes in JSON are base64, and numbers within 64 bits",
     write(309, 310), must=False)


@_rule("warn.typo", "6.11", "A field name one edit away from a known one is warned of", must=False)
def _typo(_: Bench) -> Iterator[Tried]:
    yield Tried("confidense", 1, len(og.Grain(og.encode(_with(confidense=1))).warnings))
    yield Tried("x_note", 0, len(og.Grain(og.encode(_with(x_note=1))).warnings))


@_rule("warn.observer-model", "8.6", "A missing observer_model of an llm is warned of", must=False)
def _model(_: Bench) -> Iterator[Tried]:
    for kind in ("llm", "reflector", "classifier", "detector"):
        given = {"type": "observation", "observer_id": "o", "observer_type": kind,
                 "created_at": _AT}
        yield Tried(kind, 1, len(og.Grain(og.encode(given)).warnings))


