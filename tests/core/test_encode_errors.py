# SPDX-License-Identifier: Apache-2.0
"""Refusals on writing, by code and pointer: kinds, ranges, structure, options."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from inspect import signature
from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain.errors import OmsError
from omsgrain.grain import EncodeOptions, Sensitivity, options
from oracle_tables import BY_TYPE, NESTED, SHORT
from support.known_grains import DID
from support.minimal_grains import A, minimal
from support.refusals import CORRUPT, EMPTY, FLOAT, RANGE, SCHEMA, rejected

FORMAT, LENGTH = "ERR_HASH_FORMAT", "ERR_HASH_LENGTH"
NAN, INF = float("nan"), float("inf")
UTC = timezone.utc

# Field, code, and the values that get it.
KINDS: list[tuple[str, str, list[Any]]] = [
    ("subject", SCHEMA, [5, b"x", [], {}, True, 0.5]),
    ("object", SCHEMA, [5, [], True, b"", 0.5]),
    ("user_id", SCHEMA, [5, b"x", ["x"]]),
    ("confidence", RANGE, [-0.1, 1.1, 2, -1, 2**63]),
    ("confidence", SCHEMA, ["0.5", True, b"", [0.5]]),
    ("confidence", FLOAT, [NAN, INF, -INF]),
    ("importance", RANGE, [-5e-324, 1.0000000000000002]),
    ("importance", SCHEMA, [False]),
    ("compression_ratio", SCHEMA, ["1", True]),
    ("compression_ratio", RANGE, [2**64, -(2**63) - 1]),
    ("progress", SCHEMA, ["1", True]),
    ("progress", FLOAT, [NAN]),
    ("created_at", RANGE, [-1, 2**32 * 1000, 2**63, 2**64 - 1, 2**64, -(2**63) - 1]),
    ("created_at", SCHEMA, [1.0, 1.5, True, [], b"", "", "yesterday"]),
    ("valid_from", RANGE, [2**63, -(2**63) - 1]),
    ("valid_from", SCHEMA, [1.0, True, datetime(2026, 1, 1), date(2026, 1, 1)]),
    ("category", RANGE, [256, -1]),
    ("category", SCHEMA, [1.0, True, "1"]),
    ("random_seed", RANGE, [2**63, -(2**63) - 1]),
    ("success_count", RANGE, [-1]),
    ("success_count", SCHEMA, [1.0, True, "1"]),
    ("duration_ms", RANGE, [-1]),
    ("consolidation_level", SCHEMA, ["1", 1.0, True]),
    ("requires_human_review", SCHEMA, [1, 0, "true", 1.0]),
    ("context", SCHEMA, [[], "x", 5]),
    ("structural_tags", SCHEMA, ["a", {"a": 1}, 5]),
    ("derived_from", SCHEMA, [A, {"a": A}]),
    ("author_did", SCHEMA, [5, b"did:a:b", [DID]]),
    (
        "author_did",
        "ERR_DID",
        [
            "nobody",
            "did:key",
            "did::x",
            "did:key:",
            "DID:key:x",
            "did:Key:x",
            "did:k-y:x",
            " did:key:x",
        ],
    ),
    ("_disclosure_of", LENGTH, ["a" * 63, "a" * 65]),
    ("_disclosure_of", FORMAT, ["A" * 64, "g" * 64]),
    ("parent_task_id", LENGTH, ["a" * 63, ""]),
    ("parent_task_id", FORMAT, ["A" * 64, "a" * 63 + " ", "é" * 64]),
    ("_elided", SCHEMA, [[], "x"]),
    ("invalidation_policy", SCHEMA, ["locked", []]),
    ("trusted_timestamp", SCHEMA, ["x", []]),
    ("retention_policy", SCHEMA, [5]),
    ("owner", SCHEMA, ["x"]),
    ("content_refs", SCHEMA, ["x", {}]),
]

INDEX_LAYER = (
    "superseded_by",
    "system_valid_to",
    "verification_status",
    "access_count",
    "last_accessed_at",
)

# Fields with something wrong inside, and the pointer to it.
INSIDE: list[tuple[dict[str, Any], str, str]] = [
    ({"structural_tags": ["a", 5]}, SCHEMA, "/structural_tags/1"),
    ({"structural_tags": [None]}, SCHEMA, "/structural_tags/0"),
    ({"derived_from": [A, "a" * 63]}, LENGTH, "/derived_from/1"),
    ({"derived_from": [A.upper()]}, FORMAT, "/derived_from/0"),
    ({"derived_from": [5]}, SCHEMA, "/derived_from/0"),
    ({"authorized_types": [0, 256]}, RANGE, "/authorized_types/1"),
    ({"authorized_types": [True]}, SCHEMA, "/authorized_types/0"),
    ({"provenance_chain": [{}, "x"]}, SCHEMA, "/provenance_chain/1"),
    ({"related_to": ["x"]}, SCHEMA, "/related_to/0"),
    ({"related_to": [{"relation_type": "similar"}]}, SCHEMA, "/related_to/0/hash"),
    ({"related_to": [{"hash": A}]}, SCHEMA, "/related_to/0/relation_type"),
    (
        {"related_to": [{"hash": A, "relation_type": "likes"}]},
        SCHEMA,
        "/related_to/0/relation_type",
    ),
    ({"related_to": [{"hash": "a", "relation_type": "similar"}]}, LENGTH, "/related_to/0/hash"),
    ({"related_to": [{"h": A, "relation_type": "similar"}]}, SCHEMA, "/related_to/0/h"),
    ({"content_refs": [{"modality": "text"}]}, SCHEMA, "/content_refs/0/uri"),
    ({"content_refs": [{"uri": "u"}]}, SCHEMA, "/content_refs/0/modality"),
    (
        {"embedding_refs": [{"vector_id": "v", "model": "m"}]},
        SCHEMA,
        "/embedding_refs/0/dimensions",
    ),
    ({"x_map": {"a": [0, {"b": NAN}]}}, FLOAT, "/x_map/a/1/b"),
    ({"_elided": {"user_id": 5}}, SCHEMA, "/_elided/user_id"),
    ({"x_list": [0, 2**64]}, RANGE, "/x_list/1"),
    ({"x_list": [-(2**63) - 1]}, RANGE, "/x_list/0"),
    ({"x_text": "\ufeffa"}, CORRUPT, "/x_text"),
    ({"x_list": ["a", "\ufeff"]}, CORRUPT, "/x_list/1"),
    ({"_elided": {"user_id": "sha256:" + "a" * 63}}, LENGTH, "/_elided/user_id"),
    ({"_elided": {"user_id": "sha256:" + "A" * 64}}, FORMAT, "/_elided/user_id"),
]


@pytest.mark.parametrize(("name", "code", "values"), KINDS, ids=lambda v: str(v)[:20])
def test_kinds_and_ranges(name: str, code: str, values: list[Any]) -> None:
    for value in values:
        rejected(minimal("belief", **{name: value}), code, field=f"/{name}")
        rejected(minimal("belief", **{name: value}), code, field=f"/{name}", encoding="cbor")


@pytest.mark.parametrize(("extra", "code", "pointer"), INSIDE, ids=str)
def test_inside_a_field(extra: dict[str, Any], code: str, pointer: str) -> None:
    rejected(minimal("belief", **extra), code, field=pointer)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00Z", "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-01-01T23:59:60+01:00",
        "2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z",
        "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+01:60", "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00+01", "2026-01-01T00:00:00Z ", " 2026-01-01T00:00:00Z",
        "2026-01-01_00:00:00Z", "26-01-01T00:00:00Z", "2026-1-1T00:00:00Z",
        "+2026-01-01T00:00:00Z", "\uff12026-01-01T00:00:00Z", "1768471200000", "",
    ],
)  # fmt: skip
def test_texts_that_are_no_rfc_3339_time(text: str) -> None:
    rejected(minimal("belief", valid_from=text), SCHEMA, field="/valid_from")


@pytest.mark.parametrize(
    "moment",
    [
        "2026-01-15T10:00:00Z", "2026-01-15t10:00:00.1z", "2026-01-15 10:00:00.123456789-00:00",
        "2024-02-29T23:59:59.9999+23:59", "2016-12-31T23:59:60Z", "2017-01-01T05:29:60.5+05:30",
        "1969-12-31T23:59:59.9999Z", "0001-01-02T00:00:00Z", "9999-12-31T23:59:59Z",
        datetime(2026, 1, 15, 10, 0, 0, 999_999, UTC), datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
        datetime(2026, 1, 15, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
        datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(seconds=3601))),
        datetime(1, 1, 2, tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
    ],
    ids=str,
)  # fmt: skip
def test_times_are_floored_to_ms(moment: Any) -> None:
    fields = minimal("belief", valid_from=moment)
    assert og.encode(fields) == oracle.encode(fields)


@pytest.mark.parametrize("name", INDEX_LAYER)
def test_index_layer_fields_are_never_written(name: str) -> None:
    value = {"superseded_by": A, "verification_status": "verified"}.get(name, 5)
    rejected(minimal("belief", **{name: value}), SCHEMA, field=f"/{name}")
    rejected({"x_mine": 1, name: value}, SCHEMA, field=f"/{name}", type_byte=0xF0)


def test_short_keys_are_refused() -> None:
    for name, short in SHORT.items():
        rejected(minimal("reasoning", **{short: "x"}), SCHEMA, field=f"/{short}")
        rejected({"x_mine": 1, short: "x"}, SCHEMA, field=f"/{short}", type_byte=0xF0)
        assert name in str(rejected(minimal("reasoning", **{short: "x"}), SCHEMA))
    for (_, name), short in BY_TYPE.items():
        rejected(minimal("action", **{short: "x"}), SCHEMA, field=f"/{short}")
        assert name != short
    for field, table in NESTED.items():
        for short in table.values():
            entry = [dict.fromkeys(table, 1) | {short: 1}]
            rejected(minimal("reasoning", **{field: entry}), SCHEMA)


def test_keys_equal_after_nfc() -> None:
    both = {"x_é": 1, "x_e\u0301": 2}
    rejected(minimal("belief") | both, CORRUPT)
    rejected(minimal("belief", x_map=both), CORRUPT)
    rejected(minimal("belief", x_list=[both]), CORRUPT)
    rejected(minimal("belief", **{"\ufeffx": 1}), CORRUPT)
    rejected(minimal("belief", x_map={"\ufeff": 1}), CORRUPT)


def test_depth() -> None:
    def nested(depth: int, wrap: Any) -> Any:
        value: Any = wrap(None)
        for _ in range(depth - 1):
            value = wrap(value)
        return value

    for wrap in (lambda v: [v], lambda v: {"x": v or []}, lambda v: (v,)):
        inner = 1 if wrap("") == {"x": []} else 0
        og.encode(minimal("belief", x_deep=nested(31 - inner, wrap)))
        for depth in (32, 33, 1000):
            rejected(minimal("belief", x_deep=nested(depth, wrap)), CORRUPT)
    ring: list[Any] = []
    ring.append(ring)
    rejected(minimal("belief", x_ring=ring), CORRUPT)
    loop: dict[str, Any] = {}
    loop["x"] = loop
    rejected(minimal("belief", x_loop=loop), CORRUPT)
    rejected(loop, CORRUPT, SCHEMA, "ERR_NO_TYPE")


def test_opaque_grains() -> None:
    rejected({"x_value": NAN}, FLOAT, type_byte=0xF0)
    rejected({"x_value": "\ufeff"}, CORRUPT, type_byte=0xF0)
    for fields in ({}, {"type": "x:mine"}, {"confidence": 5, "subject": 5, "created_at": "x"}):
        assert og.encode(fields, type_byte=0xF0) == oracle.encode(fields, type_byte=0xF0)


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "json"}, {"encoding": None}, {"sensitivity": 4}, {"sensitivity": -1},
        {"sensitivity": "secret"}, {"type_byte": 256}, {"type_byte": -1}, {"profile": "tiny"},
        {"compression": True},
    ],
    ids=str,
)  # fmt: skip
def test_options(options: dict[str, Any]) -> None:
    for call in (og.encode, lambda fields, **o: og.encode_many([fields], **o)):
        with pytest.raises((OmsError, ValueError, TypeError, OverflowError)):
            call(minimal("belief"), **options)


def test_options_have_types() -> None:
    """The types of `EncodeOptions` are those that `encode` reads; mypy refuses any other name."""
    assert list(EncodeOptions.__annotations__) == list(signature(options).parameters)
    with pytest.raises(TypeError):
        og.encode(minimal("belief"), encodng="cbor")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        og.encode_many([minimal("belief")], encodng="cbor")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        og.encode_jsonl(b"{}", encodng="cbor")  # type: ignore[call-arg]


def test_sensitivity_by_name() -> None:
    names: tuple[Sensitivity, ...] = ("public", "internal", "pii", "phi")
    for level, name in enumerate(names):
        named = og.encode(minimal("belief"), sensitivity=name)
        assert named == og.encode(minimal("belief"), sensitivity=level)
        assert og.read_header(named).sensitivity == level
    tagged = minimal("belief", structural_tags=["pii:x"])
    assert og.read_header(og.encode(tagged, sensitivity="internal")).sensitivity == 2


def test_a_batch_collects_what_one_raises() -> None:
    good, empty = minimal("belief"), minimal("belief", subject="")
    dicts: list[Any] = [empty, good, {"type": "banana"}, 5, good | {"x": NAN}, good]
    batch = og.encode_many(dicts, errors="collect")
    assert batch.blobs == [og.encode(good)] * 2
    assert (len(batch), batch.indices) == (2, [1, 5])
    assert [(item.index, item.line, item.error.code) for item in batch.errors] == [
        (0, None, EMPTY),
        (2, None, "ERR_UNKNOWN_TYPE"),
        (3, None, "ERR_NOT_MAP"),
        (4, None, FLOAT),
    ]
    assert batch.errors[0].error.field == "/subject"
    with pytest.raises(OmsError) as caught:
        og.encode_many(dicts)
    assert caught.value.code == EMPTY


def test_no_error_holds_content() -> None:
    for name, value in (
        ("author_did", "secret-content"), ("confidence", "secret-content"),
        ("temporal_type", "secret-content"), ("created_at", "secret-content"),
        ("derived_from", ["secret-content" * 4]), ("x_value", "\ufeffsecret-content"),
        ("structural_tags", "secret-content"), ("context", "secret-content"),
    ):  # fmt: skip
        with pytest.raises(OmsError) as caught:
            og.encode(minimal("belief", **{name: value}))
        assert (
            "secret-content" not in f"{caught.value!s} {caught.value!r} {caught.value.to_dict()}"
        )
