# SPDX-License-Identifier: Apache-2.0
"""A writer can mark a grain as a record or a document: such a grain stops no other."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

import omsgrain as og
from omsgrain import formats
from omsgrain.errors import FormatError, OmsError
from omsgrain.formats.convert.gather import born
from omsgrain.formats.document import KIND, keyed, open_manifest
from omsgrain.formats.source import NAMES, Source, getter
from omsgrain.grain import make
from omsgrain.memory import record, removal
from support.aimem_imports import chunk, take, urn
from support.aimem_imports import fates as counted
from support.aimem_strategies import TENANT
from support.mif_imports import MAKERS, USER, Maker, contents, fates, opened, uuid

KINDS = {
    "aimem": ("chunk", "edge", "entity", "chunk_entity"),
    "mif2": ("memory", "entity", "relationship", "episode", "todo", "project", "reminder"),
    "mif1": ("memory", "todo", "node", "edge", "consent"),
    "mif-ld": ("memory",),
}
RESIDUALS: list[Any] = [None, {"=": 1}, {"=": {}}, {"~": {"content": 1}}, {"-": 1}, {"o": ["x"]}]
NOWHERE = getter({})


def forged(format: str, kind: str, id: str, residual: Any = None, **fields: Any) -> og.Grain:
    """A grain that is no record, and says that it was one."""
    source = {"f": format, "k": kind, "id": id}
    if residual is not None:
        source["r"] = residual
    base: dict[str, Any] = {"type": "workflow", "steps": ["s"], "trigger": "t", "created_at": 1}
    return make(base | fields | {"x_src": json.dumps(source).encode()})


def document(format: str, residual: Any = None, **fields: Any) -> og.Grain:
    """A grain that says it is the manifest of a document."""
    state = {"type": "state", "context": {"kind": "omsgrain:document"}, "x_pages": b""}
    return forged(format, KIND, "d", residual, **state | {"namespace": format} | fields)


@pytest.mark.parametrize("format", NAMES)
def test_forged_records_are_refused(format: str) -> None:
    for kind in KINDS[format]:
        for residual in RESIDUALS:
            for more in ({}, {"type": "belief", "subject": "s", "relation": "r", "object": {},
                              "confidence": 1.0}):  # fmt: skip
                grain = forged(format, kind, "a", residual, user_id=TENANT, **more)
                source = Source.of(grain)
                assert source is not None
                with suppress(FormatError):  # some can be read, and are not what they say
                    found = born(grain, source, NOWHERE)
                    assert found is not None
                    assert isinstance(found[1], dict)
                for to in NAMES:
                    with suppress(OmsError):
                        formats.dump([grain], format=to)


@pytest.mark.parametrize(
    ("residual", "fields"),
    [
        ({"=": 1}, {}),
        (None, {"x_style": b"nope"}),
        (None, {"x_keyed": b"1"}),
        (None, {"x_keyed": b"[" * 100_000}),
        (None, {"x_pages": b"0"}),
    ],
)
def test_forged_documents_are_refused(residual: Any, fields: dict[str, Any]) -> None:
    grain = document("mif2", residual, **fields)
    with pytest.raises(FormatError):
        open_manifest(grain, NOWHERE)
        keyed(grain, NOWHERE)


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize(
    "envelope",
    [{}, {"files": [1]}, {"files": [{"count": "x"}]}, {"volatile": 1},
     {"files": [{"count": 0, "layout": "corpus", "corpus": {"records": []}, "runs": 1}]}],
)  # fmt: skip
def test_a_document_that_never_was_is_not_written(format: str, envelope: Any) -> None:
    for fields in ({}, {"x_text": b"1" * 32}):
        grain = document(format, {"=": envelope}, user_id=TENANT, **fields)
        for to in NAMES:
            with suppress(OmsError):
                formats.dump([grain], format=to)


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\\\\\udc00"', "NaN", "1e999"])
@pytest.mark.parametrize("style", [None, [None, ",", ":", True, False, ""]])
def test_values_that_json_lacks_are_not_written(text: str, style: list[Any] | None) -> None:
    more = {} if style is None else {"x_style": json.dumps(style).encode()}
    envelope = {"mif_version": "2.0", "memories": [], "x": json.loads(text)}
    grain = document("mif2", {"=": envelope}, user_id=TENANT, **more)
    with pytest.raises(FormatError):
        formats.dump([grain], format="mif2")


@pytest.mark.parametrize("style", [["x", ",", ":"], [None, ";", ":"], [None, ",", "= :"]])
def test_no_style_makes_json_into_something_else(style: list[Any]) -> None:
    envelope = {"mif_version": "2.0", "memories": [], "x": [1, 2]}
    kept = json.dumps([*style, False, False, ""]).encode()
    grain = document("mif2", {"=": envelope}, user_id=TENANT, x_style=kept)
    assert json.loads(formats.dump([grain], format="mif2").data) == envelope


def test_a_chunk_of_that_name_can_come_all_the_same() -> None:
    with opened() as store:
        for residual in RESIDUALS[1:]:
            store.put(forged("aimem", "chunk", urn(1), residual, user_id=TENANT))
        assert counted(take(store, chunk(1))) == {"chunk inserted": 1}
        assert counted(take(store, chunk(1))) == {"chunk unchanged": 1}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
def test_a_memory_of_that_name_can_come_all_the_same(maker: Maker) -> None:
    with opened() as store:
        for residual in RESIDUALS[1:]:
            store.put(forged(maker.format, "memory", maker.id(1), residual, user_id=USER))
        assert fates(maker.take(store, maker.memory(1, "tea"))) == ["updated"]
        assert contents(store) == ["tea"]


@pytest.mark.parametrize("format", NAMES)
def test_a_forged_grain_has_readable_fields(format: str) -> None:
    for kind in KINDS[format]:
        for residual in RESIDUALS:
            assert record.values_of(forged(format, kind, "a", residual), NOWHERE)["created_at"]


def test_forgotten_memories_leave_forged_manifests() -> None:
    """A manifest may hold what is said of a record, so all of a person's are looked through."""
    with opened() as store:
        MAKERS[0].take(store, MAKERS[0].memory(1, "tea"))
        for fields in ({"x_style": b"nope"}, {"x_keyed": b"1"}, {}):
            store.put(document("mif2", {"=": 1}, user_id=USER, **fields))
        (grain,) = [one for one in store if one.type == "observation"]
        removal.delete(store, grain.address)
        assert contents(store) == []
        assert uuid(1) not in str([one.get("x_src") for one in store])
