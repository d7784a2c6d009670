# SPDX-License-Identifier: Apache-2.0
"""Memories of both shapes in a store are found by when they are true, and since when known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.formats import times
from omsgrain.formats.mif_ld.temporal import is_known, is_valid
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.memory.record import id_of
from support.conversion_pairs import FEWER
from support.mif_imports import kept_documents, opened
from support.mif_ld_documents import MEMORIES, MINIMAL, MINIMAL_1X, TIMES, spelled
from support.shell import Shell

USER = "user-1"
SHAPES = [MINIMAL, MINIMAL_1X]


@pytest.fixture
def store() -> Iterator[og.GrainStore]:
    with opened() as store:
        yield store


def dated(shape: dict[str, Any], id: str, **temporal: Any) -> dict[str, Any]:
    return shape | {"@id": f"urn:mif:{id}", "content": id, "temporal": temporal}


def take(store: og.GrainStore, *memories: dict[str, Any]) -> None:
    report = import_document(store, spelled(list(memories)), user_id=USER)
    assert not report.problems


def found(store: og.GrainStore, **asked: Any) -> list[str]:
    hits = store.query(user_id=USER, **asked).results
    ids = (id_of(hit.grain) for hit in hits)
    return sorted(id.removeprefix("urn:mif:") for id in ids)


@pytest.mark.parametrize("shape", SHAPES)
def test_when_it_is_true(store: og.GrainStore, shape: dict[str, Any]) -> None:
    spring, summer = "2026-03-20T16:00:00+01:00", "2026-06-21T00:00:00.500Z"
    take(
        store,
        dated(shape, "spring", validFrom=spring, validUntil=summer),
        dated(shape, "until", validFrom=None, validUntil=spring),
        dated(shape, "from", validFrom=summer, validUntil=None),
        dated(shape, "always", ttl="P1D"),
        dated(shape, "once", validFrom="1843-12-10T00:00:00Z", validUntil="1852-11-27T00:00:00Z"),
    )
    assert found(store, valid_at="2026-03-20T14:59:59Z") == ["always", "until"]
    assert found(store, valid_at="2026-03-20T15:00:00.001Z") == ["always", "spring"]
    assert found(store, valid_at="2026-06-21T00:00:00.499Z") == ["always", "spring"]
    assert found(store, valid_at="2026-06-21T00:00:00.501Z") == ["always", "from"]
    assert found(store, valid_at="1850-01-01T00:00:00Z") == ["always", "once", "until"]


@pytest.mark.parametrize("shape", SHAPES)
def test_since_when_it_is_known(store: og.GrainStore, shape: dict[str, Any]) -> None:
    take(
        store,
        dated(shape, "created"),  # on the first of March, at 8
        dated(shape, "before", recordedAt="2026-02-01T00:00:00Z"),
        dated(shape, "after", recordedAt="2026-04-01T00:00:00Z"),
        dated(shape, "modified") | {"modified": "2026-05-01T00:00:00Z"},
        dated(shape, "both", recordedAt="2026-04-01T00:00:00Z")
        | {"modified": "2026-06-01T00:00:00Z"},
        dated(shape, "wrongly") | {"modified": "2020-01-01T00:00:00Z"},
    )
    assert found(store, known_at="2026-01-31T00:00:00Z") == []
    assert found(store, known_at="2026-02-01T00:00:00Z") == ["before"]
    assert found(store, known_at="2026-03-01T08:00:00Z") == ["before", "created", "wrongly"]
    late = ["after", "before", "both", "created", "wrongly"]
    assert found(store, known_at="2026-04-01T00:00:00Z") == late
    assert found(store, known_at="2026-05-01T00:00:00Z") == sorted([*late, "modified"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "newer", [{"modified": "2026-05-01T00:00:00Z"},
              {"temporal": {"recordedAt": "2026-05-01T00:00:00Z"}}]
)  # fmt: skip
def test_a_version_that_was_corrected(
    store: og.GrainStore, shape: dict[str, Any], newer: dict[str, Any]
) -> None:
    take(store, shape | {"temporal": {"validFrom": "2026-01-01T00:00:00Z"}})
    take(store, shape | newer | {"content": "Corrected."})

    def said(**asked: Any) -> list[str]:
        hits = store.query(origin=shape["@id"], **asked).results
        return [str(hit.grain.get("object") or hit.grain["steps"]) for hit in hits]

    (now,), (then,) = said(), said(known_at="2026-04-30T00:00:00Z")
    assert "Corrected." in now and "Corrected." not in then
    assert said(known_at="2026-05-01T00:00:00Z") == [now]
    assert said(known_at="2026-04-30T00:00:00Z", valid_at="2025-12-31T00:00:00Z") == []


@FEWER
@given(st.lists(MEMORIES, max_size=4), TIMES)
def test_a_store_says_what_the_documents_say(memories: list[dict[str, Any]], time: str) -> None:
    """But for ends, which a store counts in, and for a span that ends before it begins.

    A grain keeps whole milliseconds, so what begins within the one asked has begun for a store.
    """
    at = times.parse(time)
    assert at is not None
    several = {one["@id"]: one for one in memories}
    with opened() as store:
        data = spelled(list(several.values()))
        store.put_many(formats.load(data, format="mif-ld").grains)

        def ids(**asked: Any) -> set[str]:
            page = store.query(scan=True, current=None, **asked)
            return {id_of(hit.grain) for hit in page.results}

        valid, known = ids(valid_at=at.millis), ids(known_at=at.millis)
    for id, one in several.items():
        temporal = one.get("temporal", {})
        told = (times.parse(text) for text in (*one.values(), *temporal.values())
                if isinstance(text, str))  # fmt: skip
        if any(when is not None and when != at and when.millis == at.millis for when in told):
            continue
        ends = [times.parse(temporal.get(name) or "") for name in ("validFrom", "validUntil")]
        if at not in ends and not (None not in ends and ends[0] > ends[1]):  # type: ignore[operator]
            assert (id in valid) is is_valid(one, at)
        if "ttl" not in temporal and at.seconds > 0:
            assert (id in known) is is_known(one, at)


@pytest.mark.parametrize("until", ["1843-12-10T00:00:00Z", "1969-12-31T23:59:59.5Z"])
@pytest.mark.parametrize("since", [{}, {"validFrom": None}, {"validFrom": "1800-01-01T00:00:00Z"}])
def test_an_end_before_1970_is_in_the_past(
    store: og.GrainStore, since: dict[str, Any], until: str
) -> None:
    take(store, dated(SHAPES[0], "m1", validUntil=until, **since))
    assert found(store, valid_at="1843-06-01T00:00:00Z") == ["m1"]
    assert found(store, valid_at="2026-03-01T00:00:00Z") == []


def test_a_store_counts_whole_milliseconds(store: og.GrainStore) -> None:
    one = dated(SHAPES[0], "m1", validFrom="2026-03-01T00:00:00.0005Z")
    take(store, one)
    assert len(store.query(origin=one["@id"], valid_at="2026-03-01T00:00:00Z").results) == 1
    assert not store.query(origin=one["@id"], valid_at="2026-02-28T23:59:59.999Z").results


def test_a_document_comes_back_unchanged(store: og.GrainStore) -> None:
    whole = [
        dated(shape, f"m{number}", validFrom="2026-03-01T00:00:00+02:00", validUntil=None,
              recordedAt="2026-03-01T10:00:00.250Z", ttl="P90D")
        for number, shape in enumerate(SHAPES)
    ]  # fmt: skip
    take(store, *whole)
    (kept,) = kept_documents(store, USER)
    assert json.loads(export_document(store, USER, document=kept)[0].data) == whole
    dump, _ = export_document(store, USER, format="mif-ld", strict=True)
    assert [one["payload"] for one in json.loads(dump.data)["records"]] == whole


def test_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    store, file = tmp_path / "m.omsg", tmp_path / "notes.jsonld"
    span = {"validFrom": "2026-03-01T00:00:00Z", "validUntil": "2026-04-01T00:00:00Z"}
    recorded = {"recordedAt": "2026-05-01T00:00:00Z"}
    file.write_bytes(spelled([dated(shape, f"m{i}", **span, **recorded)
                              for i, shape in enumerate(SHAPES)]))  # fmt: skip
    assert shell("import", store, file, "--user", USER) == 0

    def addresses(*asked: str) -> int:
        told = shell.json("query", store, "--user", USER, *asked)
        return sum("x_src" in one["grain"] and one["grain"]["type"] != "state"
                   for one in told["results"])  # fmt: skip

    assert addresses("--valid-at", "2026-03-15T00:00:00Z") == 2
    assert addresses("--valid-at", "2026-04-15T00:00:00Z") == 0
    assert addresses("--known-at", "2026-04-15T00:00:00Z") == 0
    both = ("--known-at", "2026-05-15T00:00:00Z", "--valid-at", "2026-03-15T00:00:00Z")
    assert addresses(*both) == 2
