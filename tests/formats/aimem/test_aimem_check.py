# SPDX-License-Identifier: Apache-2.0
"""The validator: each rule broken once, all defects at once, and what hostile bundles cost."""

from __future__ import annotations

import base64
import json
import tracemalloc
from io import BytesIO
from typing import Any

import pytest

import jcs
from omsgrain import _core
from omsgrain.conformance.aimem import FAULTS, GOODS, TEXTS, sample, sealed
from omsgrain.conformance.aimem import changed as changed_sample
from omsgrain.conformance.rule import spelled
from omsgrain.errors import FormatError
from omsgrain.formats import DocumentError, times
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem import fields, signature
from omsgrain.formats.aimem.check import RULES, WARNINGS
from omsgrain.formats.aimem.fields import AimemLimits
from omsgrain.formats.json_text import MARK
from omsgrain.formats.problems import MOST
from support.edited_documents import placed
from support.http_server import by_lines


def rules(data: bytes, limits: AimemLimits | None = None) -> list[tuple[str, str]]:
    verdict = bundle.validate(data) if limits is None else bundle.validate(data, limits)
    return [(problem.rule, problem.pointer) for problem in verdict.problems]


def changed(**edits: Any) -> bytes:
    return spelled(sealed(sample() | edits))


def test_every_rule_is_broken_somewhere() -> None:
    told = {fault["rule"] for fault in (*FAULTS, *TEXTS)}
    elsewhere = {"not_object", "too_large", "unknown_kind", "too_long"}
    signed = {rule for rule in RULES if rule.startswith("signature_")}
    assert told | elsewhere | signed == set(RULES)
    of_the_store = {"unsupported_model", "document_not_kept", "zero_embedding"}
    assert {good["warns"] for good in GOODS} - {None} | of_the_store == set(WARNINGS)


def test_all_defects_and_the_order_of_the_first() -> None:
    edits = {"/scope": "ALL", "/edges/0/weight": 2, "/chunks/0/zone": "x", "/chunks/1/id": "x"}
    whole = placed(sealed(sample()), edits)
    found = rules(spelled(whole))
    assert found[:2] == [("invalid_scope", "/scope"), ("checksum_mismatch", "/checksum")]
    # The chunk without a name takes with it the edge and the link that name it.
    assert sorted(found[2:]) == [
        ("ce_chunk_unknown", "/chunk_entities/0/chunk_id"),
        ("edge_target_unknown", "/edges/0/target_id"),
        ("edge_weight_out_of_range", "/edges/0/weight"),
        ("invalid_urn", "/chunks/1/id"),
        ("invalid_zone", "/chunks/0/zone"),
    ]
    del edits["/scope"]
    with pytest.raises(DocumentError) as caught:
        bundle.read_bundle(spelled(placed(sealed(sample()), edits)))
    assert (caught.value.code, caught.value.rule) == ("ERR_FORMAT", "checksum_mismatch")
    assert len(caught.value.problems) == caught.value.total == 6


def test_the_check_ends_at_a_thousand_problems() -> None:
    """A bad record of three bytes costs microseconds, and there can be millions."""
    looked_at = 0

    def alive() -> None:
        nonlocal looked_at
        looked_at += 1

    data = changed(chunks=[{}] * 5_000, edges=[{}] * 5_000, chunk_entities=[])
    verdict = bundle.validate(data, alive=alive)
    assert len(verdict.problems) == MOST <= verdict.total < MOST + 10
    assert looked_at < 2 * MOST


def test_a_check_ends_when_its_caller_leaves() -> None:
    class Left(Exception):
        pass

    calls = 0

    def alive() -> None:
        nonlocal calls
        calls += 1
        if calls == 100:
            raise Left

    chunks = [sample()["chunks"][0] | {"id": f"urn:aimem:lab:n{n}"} for n in range(500)]
    data = changed(chunks=chunks, edges=[], chunk_entities=[])
    with pytest.raises(Left):
        bundle.read_bundle(data, alive=alive)
    assert calls == 100
    large = spelled(changed_values(200_000))
    calls = 98  # the third look is inside of the reader, before a record is looked at
    with pytest.raises(Left):
        bundle.read_bundle(large, alive=alive)


def changed_values(count: int) -> dict[str, Any]:
    return sealed(placed(sample(), {"/x": [0] * count}))


def test_values_are_bounded_before_they_are_made() -> None:
    data = spelled(changed_values(1_000))
    whole = bundle.validate(data)
    assert not whole.problems
    told = bundle.validate(data, AimemLimits(values=1_000))
    assert [one.rule for one in told.problems] == ["too_large"]
    assert told.document is None
    assert not bundle.validate(data, AimemLimits(values=2_000)).problems


def test_problems_show_no_content() -> None:
    secret = "Ada-has-a-secret"
    for fault in FAULTS:
        values = {
            key: secret if type(value) is str else value
            for key, value in fault.get("set", {}).items()
        }
        document = changed_sample({**fault, "set": values})
        verdict = bundle.validate(spelled(document))
        assert secret not in json.dumps([problem.to_dict() for problem in verdict.problems])


def test_a_check_does_not_depend_on_spelling() -> None:
    """Canonical text says the same, so it has the same problems."""
    for fault in FAULTS:
        data = spelled(changed_sample(fault))
        assert rules(_core.canonical_json(data)) == rules(data)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"7", b'"x"', b"\xff"])
def test_values_that_are_no_object(text: bytes) -> None:
    (rule, _), *rest = rules(text)
    assert rule in ("not_json", "not_object") and not rest


def test_a_byte_order_mark_is_skipped_once() -> None:
    data = spelled(sealed(sample()))
    assert rules(MARK + data) == rules(data) == []
    assert rules(MARK + MARK + data) == [("not_json", "")]
    assert signature.canonical(MARK + data) == signature.canonical(data)
    lines = by_lines(data)
    assert stream.scan(BytesIO(MARK + lines)) == stream.scan(BytesIO(lines))
    sums = [signature.canonical_of_lines(BytesIO(mark + lines)) for mark in (MARK, b"")]
    assert sums[0] == sums[1] == signature.canonical(data)
    first, rest = lines.split(b"\n", 1)
    for bad in (MARK + MARK + lines, first + b"\n" + MARK + rest):
        with pytest.raises(DocumentError) as told:
            stream.scan(BytesIO(bad))
        assert told.value.rule == "not_json"


def test_utf_16_is_refused() -> None:
    assert rules(spelled(sealed(sample())).decode().encode("utf-16")) == [("not_json", "")]


def test_the_place_of_a_repeated_key() -> None:
    text = spelled(sealed(sample())).replace(b'"zone":null', b'"zone":null,"zone":null')
    assert rules(text) == [("not_json", "/chunks/2/zone")]


def test_limits() -> None:
    data = spelled(sealed(sample()))
    assert rules(data, AimemLimits(document=len(data) - 1)) == [("too_large", "")]
    assert rules(data, AimemLimits(document=len(data))) == []
    assert rules(data, AimemLimits(depth=3))[0][0] == "too_deep"
    assert rules(data, AimemLimits(depth=4)) == []
    assert rules(data, AimemLimits(content=12)) == [
        ("content_too_long", "/chunks/0/content"),
        ("content_too_long", "/chunks/1/content"),
        ("content_too_long", "/chunks/2/content"),
    ]
    assert rules(data, AimemLimits(dimension=1)) == [("invalid_embedding_dim", "/embedding_dim")]


@pytest.mark.parametrize("pointer", [
    "/tenant_id", "/embedding_model", "/edges/0/edge_type", "/entities/0/kind", "/entities/0/name",
])  # fmt: skip
def test_what_names_something_is_not_endless(pointer: str) -> None:
    document = placed(sample(), {pointer: "x-" + "a" * 70_000})
    assert rules(spelled(sealed(document))) == [("too_long", pointer)]


def test_hostile_sizes_are_cheap() -> None:
    """Findings are bounded, and memory is a few times the document."""
    large = AimemLimits(document=1 << 30)
    text = "A" * 10_000_000
    long = sealed(placed(sample(), {"/chunks/1/embedding": text}))
    tags = sealed(placed(sample(), {"/chunks/0/tags": [""] * 100_000}))
    for document, rule, total in ((long, "embedding_invalid", 1), (tags, "invalid_tag", MOST)):
        data = spelled(document)
        tracemalloc.start()
        try:
            verdict = bundle.validate(data, large)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (verdict.problems[0].rule, verdict.total) == (rule, total)
        assert len(verdict.problems) == total
        assert held < 8 * len(data)
    assert rules(b"[" * 10_000_000)[0][0] == "too_deep"
    assert rules(b'{"a":' * 1_000_000)[0][0] == "too_deep"
    assert rules(b"9" * 10_000_000)[0][0] == "not_json"


def test_the_older_name_is_not_written() -> None:
    read = bundle.read_bundle(spelled(sealed(sample() | {"format": "memoryai-bundle"})))
    again = json.loads(bundle.write_bundle(read))
    assert (again["format"], again["checksum"]) == ("aimem-bundle", jcs.checksum(again))


def test_writing_refuses_what_is_no_json() -> None:
    read = bundle.read_bundle(spelled(sealed(sample())))
    read.records["edge"][0]["weight"] = float("nan")
    with pytest.raises(FormatError):
        bundle.write_bundle(read)


TIMES = {
    "2026-01-15T10:00:00Z": 1_768_471_200_000,
    "2026-01-15t10:00:00z": 1_768_471_200_000,
    "2026-01-15T10:00:00.1239999Z": 1_768_471_200_123,
    "2026-01-15T10:00:00,5Z": 1_768_471_200_500,
    "2026-01-15T10:00:00+00:00": 1_768_471_200_000,
    "2026-01-15T10:00:00-0000": 1_768_471_200_000,
    "2026-01-15T10:00:00+00": 1_768_471_200_000,
    "2026-01-15T10:00Z": 1_768_471_200_000,
    "20260115T100000Z": 1_768_471_200_000,
    "1969-12-31T23:59:59.5Z": -500,
    "2016-12-31T23:59:60Z": 1_483_228_800_000,
    "0001-01-01T00:00:00Z": -62_135_596_800_000,
}
NO_TIMES = [
    "", "2026", "2026-01-15", "2026-01-15T10Z", "2026-01-15 10:00:00Z", "2026-01-15T10:00:00",
    "2026-01-15T10:00:00+01:00", "2026-01-15T24:00:00Z", "2026-01-15T10:00:61Z",
    "2026-13-15T10:00:00Z", "2026-02-29T10:00:00Z", "0000-01-01T00:00:00Z",
    " 2026-01-15T10:00:00Z",
    "2026-01-15T10:00:00Z\n",
    "2026-01-15T10:00:00.Z", "\u0662026-01-15T10:00:00Z",
    "2026-01-15T10:0\u0660:00Z", "2026-01-15T10:00:00\u221200:00",
    "2026-01-15T10:00:00." + "1" * 33 + "Z",
    "+12026-01-15T10:00:00Z", "2026-W03-4T10:00:00Z", "2026-0115T10:00:00Z", "2026-01-15T10:0000Z",
]  # fmt: skip


@pytest.mark.parametrize(("text", "millis"), TIMES.items())
def test_times(text: str, millis: int) -> None:
    instant = fields.parse_time(text)
    assert instant is not None and instant.millis == millis
    again = fields.parse_time(times.spell(millis))
    assert again is not None and again.millis == millis


@pytest.mark.parametrize("text", NO_TIMES)
def test_no_times(text: str) -> None:
    assert fields.parse_time(text) is None


def test_instants_compare() -> None:
    order = ["2026-01-15T10:00:00Z", "2026-01-15T10:00:00.0001Z", "2026-01-15T10:00:00.1Z",
             "2026-01-15T10:00:00.12Z", "2026-01-15T10:00:01Z"]  # fmt: skip
    found = [fields.parse_time(text) for text in order]
    assert sorted(found, key=lambda one: one or (0, "")) == found
    assert fields.parse_time("2026-01-15T10:00:00.100Z") == found[2]


@pytest.mark.parametrize("text", [
    "11111111-1111-1111-1111-111111111111", "did:key:z6Mk", "urn:uuid:1", "mailto:ada@example.org",
    "https://example.org/%C3%A9?a=b#c",
])  # fmt: skip
def test_tenants(text: str) -> None:
    assert fields.is_tenant(text)


@pytest.mark.parametrize("text", [
    "", "ada", "1:2", "a:", "a: b", "a:\n", "a:b\n", "a:%zz", "a:\u00e9", "a:<b>", "{1}",
    "11111111-1111-1111-1111-11111111111", "11111111111111111111111111111111",
])  # fmt: skip
def test_no_tenants(text: str) -> None:
    assert not fields.is_tenant(text)


def test_embeddings_have_one_spelling() -> None:
    data = b"\x00\x00\x80\x3f\x00\x00\x00\x80"
    text = fields.encode(data)
    assert (text, fields.decode(text)) == (base64.b64encode(data).decode(), data)
    # The last letter has bits that stand for nothing.
    assert fields.decode("AACAPx==") is None
    assert fields.decode("") == b""
    for bits in (0x7F800000, 0xFF800000, 0x7FC00000):
        assert fields.decode(base64.b64encode(bits.to_bytes(4, "little")).decode()) is None
    assert fields.decode("=" * 8) is None and fields.decode("\u00e9AAA") is None
