# SPDX-License-Identifier: Apache-2.0
"""A user's memory as a MIF document: exported, new and removed values."""

from __future__ import annotations

import json
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto import Ed25519Signer
from omsgrain.errors import NotFoundError, SchemaError, UnsupportedError
from omsgrain.formats import times
from omsgrain.formats.mif1.document import STAYS
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.export import AimemExportReport as BundleReport
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from support.aimem_imports import holdings
from support.mif_imports import (
    MAKERS,
    NOW,
    TIME,
    USER,
    Maker,
    contents,
    current,
    fates,
    kept_documents,
    opened,
    uuid,
)

makers = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


def exported(store: og.GrainStore, maker: Maker, **options: Any) -> dict[str, Any]:
    dump, _ = export_document(store, USER, format=maker.format, **options)
    found: dict[str, Any] = json.loads(dump.data)
    return found


def meta(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["export_meta" if "export_meta" in document else "export"]
    return found


@makers
def test_a_document_that_was_imported_comes_back_as_it_came(
    store: og.GrainStore, maker: Maker
) -> None:
    document = maker.document(
        maker.memory(1, "tea", x_more={"a": [None, 1.50]}, tags=[]),
        maker.memory(2, "tea", tags=["twice"]),
        todos=[maker.todo(3, "buy tea")],
        x_around={"z": None, "a": 1},
    )
    import_document(store, maker.load(document))
    kept = "exp_a1b2"
    assert kept_documents(store) == {kept: maker.format}
    assert json.dumps(
        json.loads(export_document(store, USER, document=kept)[0].data)
    ) == json.dumps(document)
    maker.take(store, maker.memory(1, "coffee"), keep_document=False)
    assert json.loads(export_document(store, USER, document=kept)[0].data) == document
    with pytest.raises(NotFoundError):
        export_document(store, "grace", document=kept)[0]
    with pytest.raises(NotFoundError):
        export_document(store, USER, document="exp_other")[0]


def test_a_document_keeps_what_was_stored_in_another_form(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"), keep_document=False)
    document = maker.document(
        maker.memory(1, "tea", tags=["a"]), maker.memory(9, "milk"), maker.memory(2, "cream")
    )
    import_document(store, maker.load(document))
    assert json.loads(export_document(store, USER, document="exp_a1b2")[0].data) == document
    assert contents(store) == ["cream", "milk", "tea"]


@makers
def test_an_export_has_the_current_versions(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"), maker.memory(3, "water"))
    maker.take(store, maker.memory(1, "coffee"))
    store.retract(current(store, maker.id(2)).address)
    maker.take(store, maker.memory(7, "not mine"), user_id="grace")
    document = exported(store, maker, now=NOW)
    assert [one["content"] for one in document["memories"]] == ["water", "coffee"]
    assert [one["id"] for one in document["memories"]] == [maker.id(3), maker.id(1)]
    assert meta(document)["user_id"] == USER
    assert meta(document)["created_at"] == times.spell(NOW)
    assert "not mine" not in json.dumps(document)
    assert exported(store, maker, now=NOW) == document


@makers
def test_an_export_comes_back_as_it_is(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea"), todos=[maker.todo(2, "buy tea")])
    store.put({"type": "event", "content": "the door opened", "user_id": USER, "created_at": 5})
    for strict in (False, True):
        document = exported(store, maker, strict=strict)
        before = holdings(store)
        report = import_document(store, maker.load(document), keep_document=False)
        assert {*fates(report)} <= {"unchanged", "duplicate"}
        assert holdings(store) == before


@makers
def test_figures_are_recomputed(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"))
    document = exported(store, maker)
    if maker.format == "mif1":
        from omsgrain.formats.mif1.document import CHECKSUM

        assert document["metadata"]["total_memories"] == 2
        assert document["metadata"]["date_range"] == {"earliest": TIME, "latest": TIME}
    else:
        from omsgrain.formats.mif2.format import CHECKSUM
    assert CHECKSUM.verify(document) == "matched-jcs"


def test_reads_leave_as_the_store_counted_them(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    told = {"access_count": 7, "accessed_at": "2026-03-05T01:00:00+01:00"}
    maker.take(store, maker.memory(1, "tea", **told), maker.memory(2, "milk"))
    first, second = exported(store, maker)["memories"]
    assert (first["access_count"], first["accessed_at"]) == (7, told["accessed_at"])
    assert "access_count" not in second


def test_losses_are_reported_without_redacted_values(store: og.GrainStore) -> None:
    mail = "joe@example.com"
    graph = {"entities": [{"id": mail, "name": "Joe", "x_more": 1}], "relationships": []}
    said = {mail: {"a": 1}}
    MAKERS[0].take(
        store,
        MAKERS[0].memory(1, "tea", **{mail: 1}),
        knowledge_graph=graph,
        vendor_extensions=said,
    )
    dump, report = export_document(store, USER, format="mif1", redact_pii=True)
    assert report.lost >= 3
    assert mail.encode() not in dump.data
    assert mail not in json.dumps(report.to_dict())


def test_reads_leave_in_the_other_version(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    told = {maker.id(1): {"access_count": 7, "last_accessed": "2026-03-05T00:00:00Z"}}
    said = {"shodh-memory": {"memory_metadata": told}}
    maker.take(store, maker.memory(1, "tea"), vendor_extensions=said)
    (record,) = exported(store, MAKERS[1])["memories"]
    assert (record["access_count"], record["accessed_at"]) == (7, "2026-03-05T00:00:00Z")


def test_importance_leaves_in_the_other_version(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    said = {"shodh-memory": {"memory_metadata": {maker.id(1): {"importance": 0.7}}}}
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"), vendor_extensions=said)
    for options in ({}, {"strict": True}):
        records = exported(store, MAKERS[1], **options)["memories"]
        assert [record.get("importance") for record in records] == [0.7, None]


@makers
def test_since_and_embeddings(store: og.GrainStore, maker: Maker) -> None:
    name = "embeddings" if maker.format == "mif2" else "embedding"
    vector = {"model": "minilm-l6-v2", "dimensions": 2, "vector": [0.1, 0.25]}
    maker.take(store, maker.memory(1, "tea", created_at="2026-01-01T00:00:00Z"),
               maker.memory(2, "milk", **{name: vector}))  # fmt: skip
    assert len(exported(store, maker, since="2026-02-01T00:00:00+01:00")["memories"]) == 1
    assert len(exported(store, maker, since="1000w")["memories"]) == 2
    assert name not in exported(store, maker)["memories"][1]
    assert exported(store, maker, include_embeddings=True)["memories"][1][name] == vector
    with pytest.raises(SchemaError) as error:
        exported(store, maker, since="yesterday")
    assert error.value.field == "/since"
    with pytest.raises(SchemaError) as error:
        export_document(store, "")
    assert error.value.field == "/user_id"


def test_without_the_graph(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    graph = {"entities": [{"id": "tea", "name": "Tea"}], "relationships": []}
    maker.take(store, maker.memory(1, "tea"), knowledge_graph=graph)
    assert exported(store, maker)["knowledge_graph"]["entities"] == graph["entities"]
    assert not exported(store, maker, include_graph=False).get("knowledge_graph", {})


@pytest.mark.parametrize("layout", ["yaml", "jsonl"])
def test_layouts(store: og.GrainStore, layout: str) -> None:
    maker = MAKERS[1]
    maker.take(store, maker.memory(1, "no"), todos=[maker.todo(2, "2026-01-01")])
    dump, _ = export_document(store, USER, format="mif1", layout=layout)
    from omsgrain.formats.mif1.format import MIF1

    with opened() as other:
        report = import_document(other, MIF1.load(dump.data))
        assert fates(report) == ["imported", "imported"]
        assert contents(other) == ["no"]
    with pytest.raises(SchemaError):
        export_document(store, USER, format="mif2", layout=layout)


# -- rules ----------------------------------------------------------------------------------------


@makers
def test_signed_grains_are_exported_too(store: og.GrainStore, maker: Maker) -> None:
    """Imported or not, the document says what the grain says."""
    maker.take(store, maker.memory(1, "lamp on"))
    own = store.put({"type": "event", "content": "lamp off", "user_id": USER, "created_at": TIME})
    signer = Ed25519Signer.generate()
    for address in (own, current(store, maker.id(1)).address):
        store.sign(address, signer)
    said = [memory["content"] for memory in exported(store, maker)["memories"]]
    assert sorted(said) == ["lamp off", "lamp on"]


def test_a_consent_that_forbids_sharing(store: og.GrainStore, tmp_path: Any) -> None:
    maker = MAKERS[1]
    maker.take(store, maker.memory(1, "tea"), consent={"sharing_allowed": False})
    for export in (
        lambda: export_document(store, USER, format="mif1"),
        lambda: export_document(store, USER, format="mif2", purpose="sale"),
        lambda: export_document(store, USER, document="exp_a1b2")[0],
        lambda: export_bundle(store, USER, tenant_id="urn:x:ada"),
        lambda: store.export_mg(tmp_path / "m.mg"),
    ):
        with pytest.raises(UnsupportedError) as error:
            export()
        assert error.value.rule == "consent:sharing"
    for purpose in ("access", "move"):
        dump, _ = export_document(store, USER, format="mif1", purpose=purpose)
        assert len(json.loads(dump.data)["memories"]) == 1
    assert store.export_mg(tmp_path / "m.mg", purpose="access").grains == len(store)


def test_a_consent_that_allows_sharing(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    maker.take(store, maker.memory(1, "tea"), consent={"sharing_allowed": True})
    assert len(exported(store, maker)["memories"]) == 1


@makers
def test_memories_are_chunks_with_their_content(store: og.GrainStore, maker: Maker) -> None:
    types = ["observation", "decision", "pattern", "learning", "context", "task", "command"]
    key, spell = ("memory_type", str) if maker.format == "mif2" else ("type", str.capitalize)
    memories = [maker.memory(n, f"say {one}", **{key: spell(one)}) for n, one in enumerate(types)]
    long = [maker.memory(20 + n, "x" * n * 70_000) for n in (1, 17)]
    maker.take(store, *memories, maker.memory(9, "e\u0301"), *long)
    report = BundleReport()
    (found,) = export_bundle(store, USER, tenant_id="urn:x:ada", report=report)
    said = [chunk["content"] for chunk in found.records["chunk"]]
    assert sorted(said) == ["e\u0301", *sorted(f"say {one}" for one in types)]
    assert [one.field for one in report.losses] == ["content", "content"]
    with opened() as other:
        import_bundle(other, found, tenant=USER)
        assert set(contents(other)) == {"\u00e9", "say observation"}


@pytest.mark.parametrize("more", [{}, {"x": "\u00e9" * 400_000}], ids=["small", "in parts"])
def test_a_consent_stays_with_its_document(store: og.GrainStore, more: dict[str, Any]) -> None:
    maker = MAKERS[1]
    maker.take(store, maker.memory(1, "tea"), consent={"sharing_allowed": True, **more})
    report = BundleReport()
    (found,) = export_bundle(store, USER, tenant_id="urn:x:ada", report=report)
    assert len(found.records["chunk"]) == 1
    assert [(one.field, one.reason) for one in report.losses] == [("consent", STAYS)]
    for format in ("mif1", "mif2", "mif-ld"):
        written = export_document(store, USER, format=format)
        assert b"sharing_allowed" not in written[0].data
        assert [(one.field, one.reason) for one in written[1].losses] == [("consent", STAYS)]
    assert json.loads(export_document(store, USER, document="exp_a1b2")[0].data)["consent"][
        "sharing_allowed"
    ]


# -- redaction ------------------------------------------------------------------------------------


@makers
def test_redaction_leaves_no_residue_anywhere(store: og.GrainStore, maker: Maker) -> None:
    mail = "ada@example.com"
    name = "embeddings" if maker.format == "mif2" else "embedding"
    vector = {"model": "minilm-l6-v2", "dimensions": 2, "vector": [0.1, 0.25]}
    extra: dict[str, Any] = {}
    if maker.format == "mif2":
        extra["knowledge_graph"] = {
            "entities": [{"id": mail, "name": mail}, {"id": "tea", "name": "Tea"}],
            "relationships": [{"id": "r", "source_entity_id": mail, "target_entity_id": "tea",
                               "relation_type": "likes"}],
        }  # fmt: skip
    maker.take(
        store,
        maker.memory(1, f"mail {mail} now", tags=[mail], x_more={KEY: [mail]}, **{name: vector}),
        maker.memory(2, "plain", **{name: vector}),
        todos=[maker.todo(3, f"use {KEY}", notes=mail)],
        **extra,
    )
    store.put({"type": "event", "content": f"native {KEY}", "user_id": USER, "created_at": 5})
    dump, report = export_document(
        store, USER, format=maker.format, redact_pii=True, include_embeddings=True
    )
    text = dump.data.decode()
    assert mail not in text
    assert KEY not in text
    document = json.loads(text)
    by_id = {one["id"]: one for one in document["memories"]}
    first, second = by_id[maker.id(1)], by_id[maker.id(2)]
    assert first["content"] == "mail [REDACTED:email] now"
    assert name not in first
    assert second[name] == vector
    assert {"type": "email", "original_length": 15, "position": [5, 20]} in first["redactions"]
    assert any(one.get("field") == "/tags/0" for one in first["redactions"])
    privacy = meta(document).get("privacy") or document["metadata"]["privacy"]
    assert (privacy["pii_detected"], privacy["secrets_detected"]) == (True, True)
    assert "email" in privacy["redacted_fields"]
    assert report.privacy == privacy
    if extra:
        (relation,) = document["knowledge_graph"]["relationships"]
        ids = {one["id"] for one in document["knowledge_graph"]["entities"]}
        assert {relation["source_entity_id"], relation["target_entity_id"]} <= ids
    with opened() as other:
        again = import_document(other, maker.load(document), user_id=USER)
        assert not again.errors


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
def test_an_export_says_what_wrote_it(store: og.GrainStore, maker: Maker) -> None:
    """Also one of what came from elsewhere; a document that was kept says what it said."""
    maker.take(store, maker.memory(1, "tea"))
    for redact in (False, True):
        dump, _ = export_document(store, USER, format=maker.format, redact_pii=redact)
        document = json.loads(dump.data)
        assert document["generator"] == {"name": "omsgrain", "version": og.__version__}
        names = list(document)
        assert names.index("generator") == names.index("mif_version") + 1


def test_memories_that_edges_lead_to_are_nodes(store: og.GrainStore) -> None:
    maker = MAKERS[1]
    one, two = maker.id(1), maker.id(2)
    edges = [
        {"source": one, "target": two, "weight": 0.5, "type": "semantic_association"},
        {"source": "entity:tea", "target": one, "weight": 0.5, "type": "semantic_association"},
    ]
    graph = {"nodes": [{"id": "entity:tea", "type": "entity"}], "edges": edges}
    maker.take(store, maker.memory(1, "tea"), maker.memory(2, "milk"), graph=graph)
    dump, _ = export_document(store, USER, format="mif1")
    told = json.loads(dump.data)["graph"]
    assert (told["node_count"], told["edge_count"]) == (3, 2)


def privacy_of(document: dict[str, Any]) -> dict[str, Any] | None:
    around = document.get("metadata") if "export" in document else meta(document)
    found: dict[str, Any] | None = (around or {}).get("privacy")
    return found


@makers
def test_an_export_says_what_was_found_and_warns(store: og.GrainStore, maker: Maker) -> None:
    """Nothing is taken out; the warning has kinds and counts, and nothing of the text."""
    mail = "joe@example.com"
    maker.take(
        store,
        maker.memory(1, f"mail {mail} or jane@example.com", tags=[mail]),
        maker.memory(2, f"use {KEY}", x_more={"deep": [mail]}),
        keep_document=False,
    )
    dump, report = export_document(store, USER, format=maker.format)
    document = json.loads(dump.data)
    assert {one["content"] for one in document["memories"]} >= {f"use {KEY}"}
    said = {"pii_detected": True, "secrets_detected": True, "redacted_fields": []}
    assert privacy_of(document) == said == report.privacy
    (warning,) = report.to_dict()["warnings"]
    assert warning["rule"] == "personal_data"
    assert warning["found"] == "1 api_key, 4 email"
    assert mail not in json.dumps(warning)
    with opened() as other:
        assert not import_document(other, maker.load(document), user_id=USER).errors


@makers
def test_an_export_that_finds_nothing_says_so(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "tea", tags=["2026-03-05T00:00:00Z"]))
    dump, report = export_document(store, USER, format=maker.format)
    said = {"pii_detected": False, "secrets_detected": False, "redacted_fields": []}
    assert privacy_of(json.loads(dump.data)) == said
    assert report.warnings == []


@makers
def test_without_a_scan_nothing_is_searched(store: og.GrainStore, maker: Maker) -> None:
    maker.take(store, maker.memory(1, "mail joe@example.com"))
    dump, report = export_document(store, USER, format=maker.format, scan=False)
    assert privacy_of(json.loads(dump.data)) is None
    assert (report.privacy, report.warnings) == (None, [])
    dump, report = export_document(store, USER, format=maker.format, redact_pii=True, scan=False)
    assert privacy_of(json.loads(dump.data)) == report.privacy is not None
    assert report.warnings == []


@makers
def test_without_the_libraries_an_export_warns_of_no_search(
    store: og.GrainStore, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def library(module: str) -> Any:
        raise UnsupportedError(f"{module} is not installed")

    maker.take(store, maker.memory(1, "call +1 202-555-0143"), keep_document=False)
    for name in ("numbers", "personal"):
        monkeypatch.setattr(f"omsgrain.privacy.detectors.{name}.library", library)
    dump, report = export_document(store, USER, format=maker.format)
    assert privacy_of(json.loads(dump.data)) is None
    assert [one.rule for one in report.warnings] == ["not_scanned"]
    with pytest.raises(UnsupportedError):
        export_document(store, USER, format=maker.format, redact_pii=True)


@makers
def test_a_member_called_star_hides_nothing(store: og.GrainStore, maker: Maker) -> None:
    """A member of a record is a name, never a pattern for kept values."""
    more = {"*": {"id": uuid(9)}, "bob": {"id": "joe@example.com"}}
    maker.take(store, maker.memory(1, "tea", x_more=more), keep_document=False)
    dump, _ = export_document(store, USER, format=maker.format, redact_pii=True)
    assert b"joe@example.com" not in dump.data
    assert uuid(9).encode() in dump.data
