# SPDX-License-Identifier: Apache-2.0
"""Memories of MIF in JSON-LD to grains and back: every one that the format allows comes back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.errors import FormatError, NotFoundError, SchemaError
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.formats.mif_ld.records import TABLE, MifLdLimits
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.source import Source
from support.conversion_pairs import FEWER
from support.mif_ld_documents import (
    CITATION,
    CORPUS,
    FULL,
    FULL_1X,
    MEMORIES,
    MEMORIES_0_1,
    MEMORIES_1_X,
    MINIMAL,
    MINIMAL_1X,
    ONTOLOGY,
    PERSON,
    REINFORCED,
    spelled,
)

EXAMPLES = [MINIMAL, FULL, REINFORCED, MINIMAL_1X, FULL_1X, CITATION, PERSON, ONTOLOGY, CORPUS,
            [MINIMAL, FULL_1X, MINIMAL], []]  # fmt: skip


def returned(data: bytes, **options: Any) -> bytes:
    """Return the file made from the blobs of its grains alone."""
    loaded = MIF_LD.load(data, **options)
    assert loaded.problems == ()
    again = formats.dump(
        [og.Grain(grain.blob) for grain in loaded.grains], format="mif-ld", local=True
    )
    assert again.losses == []
    return again.data


def text_of(data: bytes) -> str:
    """The text is stricter than ==: 1, 1.0 and true differ, as do key order and a zero's sign."""
    return json.dumps(json.loads(data))


def grain_of(changes: dict[str, Any], base: dict[str, Any] = MINIMAL) -> og.Grain:
    return MIF_LD.load(spelled(base | changes)).grains[0]


@pytest.mark.parametrize("shape", ["0.1", "1.x"])
@given(data=st.data())
def test_a_memory_comes_back(shape: str, data: st.DataObject) -> None:
    whole = data.draw(MEMORIES_0_1 if shape == "0.1" else MEMORIES_1_X)
    assert text_of(returned(spelled(whole))) == json.dumps(whole)


@FEWER
@given(st.lists(MEMORIES, min_size=2, max_size=3))
def test_several_come_back(several: list[Any]) -> None:
    assert text_of(returned(spelled(several))) == json.dumps(several)
    lines = b"".join(spelled(one) + b"\n" for one in several)
    back = returned(lines).splitlines()
    assert [text_of(one) for one in back] == [json.dumps(one) for one in several]


@pytest.mark.parametrize("whole", EXAMPLES)
def test_files_of_all_kinds_come_back(whole: Any) -> None:
    data = spelled(whole)
    assert text_of(returned(data)) == json.dumps(whole)


@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"separators": (",", ":")}])
def test_a_file_comes_back_to_the_byte(style: dict[str, Any]) -> None:
    for whole in EXAMPLES:
        data = json.dumps(whole, **style).encode() + b"\n"
        assert (
            formats.dump(MIF_LD.load(data, exact=True), format="mif-ld", exact=True).data == data
        )
    odd = b'{"@context" :"a:b","@type":"Memory",\n"@id":"urn:mif:\\u0061","memoryType":"semantic",'
    odd += b'"content":"x","created":"2026-01-01T00:00:00Z","n":1E2}'
    assert formats.dump(MIF_LD.load(odd, exact=True), format="mif-ld", exact=True).data == odd
    with pytest.raises(SchemaError):
        formats.dump(MIF_LD.load(odd), format="mif-ld", exact=True)


def test_lines_come_back_to_the_byte() -> None:
    data = spelled(MINIMAL) + b"\r\n\n" + spelled(FULL_1X)
    assert formats.dump(MIF_LD.load(data, exact=True), format="mif-ld", exact=True).data == data


# -- what each memory is among grains -------------------------------------------------------------


def test_types_of_grains() -> None:
    belief = grain_of({}, FULL)
    assert (belief.type, belief["subject"], belief["relation"], belief["object"]) == (
        "belief", "urn:mif:entity:person:ada", "mg:knows", FULL["content"],
    )  # fmt: skip
    assert belief["confidence"] == 0.95
    assert belief["namespace"] == FULL["namespace"]
    assert belief["structural_tags"] == FULL["tags"]
    assert belief["valid_from"] == 1772323200000
    assert "valid_to" not in belief
    assert belief["system_valid_from"] == 1772359200000
    assert belief["source_type"] == "user_explicit"
    assert belief["embedding_refs"][0]["vector_id"] == "urn:mif:vector:garden"
    cited = belief["content_refs"][0]
    assert (cited["uri"], cited["citation_role"]) == (FULL["citations"][0]["url"], "supports")
    event = grain_of({"memoryType": "episodic"})
    assert (event.type, event["content"]) == ("event", MINIMAL["content"])
    plan = grain_of({}, FULL_1X)
    assert (plan.type, plan["steps"], plan["trigger"]) == (
        "workflow", [FULL_1X["content"]], "Watering",
    )  # fmt: skip
    assert plan["content_refs"][1]["size_bytes"] == 1024
    source = Source.of(plan)
    assert source is not None
    assert (source.format, source.kind, source.id) == ("mif-ld", "memory", FULL_1X["@id"])


def test_defaults_do_not_come_back() -> None:
    for said, confidence in (({}, 0.5), ({"sourceType": "user_implicit"}, 0.8)):
        whole = MINIMAL | {"provenance": said}
        grain = grain_of({"provenance": said})
        assert (grain["confidence"], grain["subject"]) == (confidence, MINIMAL["@id"])
        assert json.loads(returned(spelled(whole))) == whole
    preference = grain_of({"namespace": "_semantic/preferences"})
    assert preference["relation"] == "mg:prefers"
    named = [PERSON, PERSON | {"entity": {"@id": "urn:mif:entity:b"}, "role": "subject"}]
    assert grain_of({"entities": named})["subject"] == "urn:mif:entity:b"


# -- traps ----------------------------------------------------------------------------------------

TRAPS: dict[str, dict[str, Any]] = {
    "null is not absent": {"temporal": {"validFrom": None, "validUntil": None}},
    "offset": {"created": "2026-03-01T08:00:00+00:00"},
    "small letters": {"created": "2026-03-01t08:00:00z"},
    "six digits": {"created": "2026-03-01T08:00:00.123456Z"},
    "zone": {"created": "2026-03-01T08:00:00-09:30", "modified": "2026-03-01T08:00:00Z"},
    "strength of one": {"relationships": [FULL["relationships"][1] | {"strength": 1}]},
    "strength of one point": {"relationships": [FULL["relationships"][1] | {"strength": 1.0}]},
    "empty": {"tags": [], "aliases": [], "entities": [], "extensions": {}, "temporal": {},
              "provenance": {}, "relationships": [], "citations": [], "embedding": {}},
    "nulls": {"extensions": {"a": None, "b": [None, {"c": None}]}},
    "combining": {"content": "cafe\u0301", "extensions": {"e\u0301": 1, "\u00e9": 2}},
    "type": {"@type": ["prov:Entity", "Memory"]},
    "context": {"@context": ["https://example.org/c", {"term": "a:b", "x": None}]},
    "prov": {"provenance": {"prov:wasGeneratedBy": {"@id": "a:b", "z": 1}}},
    "author": {"citations": [CITATION, CITATION | {"author": "A"}, CITATION | {"author": []},
                             CITATION | {"author": [PERSON, PERSON]}]},
    "blocks": {"blocks": {"b1": "text", "": ""}},
    "long": {"content": "word " * 10_000},
    "very long": {"content": "word " * 400_000},
    "old": {"created": "1843-12-10T00:00:00Z",
            "temporal": {"validFrom": "1843-12-10T00:00:00Z",
                         "recordedAt": "1843-12-10T00:00:00Z"}},
    "late": {"created": "9999-12-31T23:59:60Z"},
    "tags": {"tags": ["a", "a", "phi:x", "reg:gdpr", "", "e\u0301"]},
    "backwards": {"temporal": {"validFrom": "2026-03-02T00:00:00Z",
                               "validUntil": "2026-03-01T00:00:00Z"}},
    "nobody's target": {"relationships": [FULL["relationships"][0] | {"target": {"@id":
                                                                                "urn:mif:"}}]},
    "a mark": {"content": "\ufeffx", "title": "\ufeff"},
    "shared": {"namespace": "shared"},
    "no id": {"@id": "urn:mif:"},
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str) -> None:
    whole = MINIMAL | TRAPS[name]
    assert text_of(returned(spelled(whole))) == json.dumps(whole)
    found = [one.type for one in MIF_LD.load(spelled(whole)).grains]
    assert "belief" in found


def test_both_types() -> None:
    whole = MINIMAL_1X | {"memoryType": "episodic", "conceptType": "semantic"}
    assert grain_of({}, whole).type == "belief"
    assert text_of(returned(spelled(whole))) == json.dumps(whole)


def test_two_that_name_each_other() -> None:
    one = MINIMAL | {"@id": "urn:mif:a", "relationships": [_derived("urn:mif:b")]}
    other = MINIMAL | {"@id": "urn:mif:b", "relationships": [_derived("urn:mif:a")]}
    together = MIF_LD.load(spelled([one, other]))
    assert json.loads(returned(spelled([one, other]))) == [one, other]
    # What a memory is among grains does not depend on what came with it.
    alone = MIF_LD.load(spelled(one)).grains[0].address
    assert together.grains[0].address == alone


def _derived(target: str) -> dict[str, Any]:
    return {**FULL["relationships"][0], "target": {"@id": target}}


# -- counters -------------------------------------------------------------------------------------


VOLATILE: dict[str, Any] = {
    "accessCount": 7,
    "lastAccessed": "2026-05-01T00:00:00Z",
    "reinforcementHistory": [],
}


def test_a_recall_does_not_change_the_address() -> None:
    plain = MIF_LD.load(spelled(MINIMAL)).grains[0].address
    for temporal in (
        VOLATILE,
        {"accessCount": 8},
        {"decay": {"currentStrength": 0.5, "strength": 0.5}},
        VOLATILE | {"decay": {"lastReinforced": "2026-05-01T00:00:00Z"}},
    ):
        whole = MINIMAL | {"temporal": temporal}
        loaded = MIF_LD.load(spelled(whole))
        assert loaded.grains[0].address == plain
        assert text_of(returned(spelled(whole))) == json.dumps(whole)
    other = copy.deepcopy(FULL)
    other["temporal"] |= VOLATILE
    other["temporal"]["decay"]["currentStrength"] = 0.25
    one, another = (MIF_LD.load(spelled(each)) for each in (FULL, other))
    assert one.grains[0].address == another.grains[0].address
    assert one.grains[-1].address != another.grains[-1].address
    changed = MINIMAL | {"temporal": {"decay": {"model": "none"}}}
    assert MIF_LD.load(spelled(changed)).grains[0].address != plain


def test_counters_of_memories_of_one_id() -> None:
    several = [MINIMAL | {"temporal": {"accessCount": n}} for n in (1, 2)]
    several.insert(1, MINIMAL)
    loaded = MIF_LD.load(spelled(several))
    assert len({grain.address for grain in loaded.grains if grain.type == "belief"}) == 1
    assert json.loads(formats.dump(loaded, format="mif-ld").data) == several


# -- what is not taken, and what does not leave ---------------------------------------------------


def test_bad_memories_are_left_out() -> None:
    bad = {key: value for key, value in MINIMAL.items() if key != "content"}
    loaded = MIF_LD.load(spelled([MINIMAL, bad, FULL]))
    assert [one.pointer for one in loaded.problems] == ["/1"]
    assert json.loads(formats.dump(loaded, format="mif-ld").data) == [MINIMAL, FULL]
    records = [{"kind": "memory", "payload": one} for one in (bad, FULL, bad, MINIMAL)]
    corpus = CORPUS | {"records": [*records, CORPUS["records"][2]]}
    loaded = MIF_LD.load(spelled(corpus))
    assert [one.pointer for one in loaded.problems] == ["/records/0/payload", "/records/2/payload"]
    back = json.loads(formats.dump(loaded, format="mif-ld").data)
    assert back == corpus | {"records": [records[1], *records[3:], CORPUS["records"][2]]}
    loaded = MIF_LD.load(spelled(MINIMAL) + b"\n" + spelled(bad) + b"\n{\n" + spelled(FULL))
    assert [one.line for one in loaded.problems] == [2, 3]
    with pytest.raises(DocumentError):
        MIF_LD.load(spelled(bad))


def test_sizes_are_bounded() -> None:
    loaded = MIF_LD.load(b"[" + b"{}," * 1500 + spelled(MINIMAL) + b"]")
    assert len(loaded.problems) == 1001
    # Of each only the first defect is kept, once there are a thousand.
    many = MIF_LD.load(b"[" + b'{"@type":"Memory"},' * 1500 + spelled(MINIMAL) + b"]")
    assert (many.problems[-1].rule, many.problems[-1].found) == ("more", "1300 more")
    assert json.loads(formats.dump(loaded, format="mif-ld").data) == [MINIMAL]
    few = MifLdLimits(documents=2)
    corpus = {"@type": "MemoryCorpus", "records": [MINIMAL] * 3}
    lines = b"\n".join([spelled(MINIMAL)] * 3)
    # What is behind the limit is not looked at: neither is it kept.
    broken = b"\n".join([spelled(MINIMAL), b"{", b"{", b"{"])
    for data in (spelled([MINIMAL] * 3), spelled(corpus), lines, broken):
        with pytest.raises(DocumentError) as caught:
            MIF_LD.load(data, limits=few)
        assert caught.value.problems[0].rule == "too_large"


def test_lenient_mends_citations() -> None:
    whole = MINIMAL | {"citations": [CITATION | {"relevance": 2}, {"title": "x"}]}
    with pytest.raises(DocumentError):
        MIF_LD.load(spelled(whole))
    loaded = MIF_LD.load(spelled(whole), mode="lenient")
    assert (len(loaded.warnings), len(loaded.dropped) > 1) == (1, True)
    mended = MINIMAL | {"citations": [CITATION | {"relevance": 1}]}
    assert json.loads(formats.dump(loaded, format="mif-ld").data) == mended


@pytest.mark.parametrize("namespace", ["_local", "_local/notes"])
def test_local_memories_stay(namespace: str) -> None:
    private = MINIMAL | {"@id": "urn:mif:private", "namespace": namespace}
    loaded = MIF_LD.load(spelled([private, MINIMAL]))
    dumped = formats.dump(loaded, format="mif-ld")
    assert json.loads(dumped.data) == [MINIMAL]
    assert [(one.record, one.field) for one in dumped.losses] == [("urn:mif:private", "memory")]
    assert json.loads(formats.dump(loaded, format="mif-ld", local=True).data) == [private, MINIMAL]
    with pytest.raises(SchemaError):
        formats.dump(formats.load(spelled(private)), format="mif-ld")
    near = private | {"namespace": "_localities"}
    assert formats.dump(formats.load(spelled(near)), format="mif-ld").losses == []


def test_embeddings_are_left_out_if_not_asked_for() -> None:
    loaded = MIF_LD.load(spelled(FULL))
    dumped = formats.dump(loaded, format="mif-ld", embeddings=False)
    assert [one.field for one in dumped.losses] == ["embedding"]
    without = {key: value for key, value in FULL.items() if key != "embedding"}
    assert json.loads(dumped.data) == without


def test_layouts() -> None:
    loaded = MIF_LD.load(spelled([MINIMAL, FULL_1X]))
    corpus = json.loads(formats.dump(loaded, format="mif-ld", layout="corpus").data)
    assert corpus["@type"] == "MemoryCorpus"
    assert [one["payload"] for one in corpus["records"]] == [MINIMAL, FULL_1X]
    lines = formats.dump(loaded, format="mif-ld", layout="lines").data.splitlines()
    assert [json.loads(one) for one in lines] == [MINIMAL, FULL_1X]
    for layout in ("document", "markdown"):
        with pytest.raises((SchemaError, FormatError)):
            formats.dump(loaded, format="mif-ld", layout=layout)


def test_the_user_of_a_memory() -> None:
    assert {grain["user_id"] for grain in MIF_LD.load(spelled(FULL), user_id="u").grains} == {"u"}
    assert "user_id" not in MIF_LD.load(spelled(FULL)).grains[0]


def test_a_missing_grain_is_an_error() -> None:
    grains = MIF_LD.load(spelled(FULL)).grains
    with pytest.raises(NotFoundError):
        formats.dump(grains[1:], format="mif-ld")
    found = TABLE.from_grain(grains[0], lambda address: grains[0])
    assert found is not None
    assert found[0] == "memory"


def test_sniffed() -> None:
    for whole in (*EXAMPLES[:6], EXAMPLES[8], EXAMPLES[9]):
        assert formats.sniff(spelled(whole)) == "mif-ld"
    assert formats.sniff(spelled(MINIMAL) + b"\n" + spelled(FULL)) == "mif-ld"
    assert formats.sniff(b"---\nid: a\ntype: semantic\n---\ntext\n") == "mif-ld"
