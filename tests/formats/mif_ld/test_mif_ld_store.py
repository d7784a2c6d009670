# SPDX-License-Identifier: Apache-2.0
"""Memories of MIF in JSON-LD into a store and out of it, by the library and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.formats.mif_ld import markdown
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from support.mif_imports import kept_documents, opened
from support.mif_ld_documents import FULL, FULL_1X, MINIMAL, spelled
from support.shell import Shell, exit_code

USER = "user-1"


@pytest.fixture
def store() -> Iterator[og.GrainStore]:
    with opened() as store:
        yield store


def fates(store: og.GrainStore, whole: Any, **options: Any) -> list[str]:
    report = import_document(store, spelled(whole), user_id=USER, **options)
    return [one.fate for one in report.records]


def exported(store: og.GrainStore, **options: Any) -> list[dict[str, Any]]:
    dump, _ = export_document(store, USER, format="mif-ld", **options)
    return [one["payload"] for one in json.loads(dump.data)["records"]]


def test_a_second_import_changes_nothing(store: og.GrainStore) -> None:
    assert fates(store, [MINIMAL, FULL_1X]) == ["imported", "imported"]
    assert fates(store, [MINIMAL, FULL_1X]) == ["unchanged", "unchanged"]


def test_another_content_supersedes(store: og.GrainStore) -> None:
    fates(store, MINIMAL)
    newer = MINIMAL | {"content": "The garden is watered in the morning."}
    assert fates(store, newer) == ["updated"]
    assert [one["content"] for one in exported(store, strict=True)] == [newer["content"]]
    counted = newer | {"temporal": {"accessCount": 9}}
    assert fates(store, counted) == ["unchanged"]


@pytest.mark.parametrize("more", [{}, {"modified": "2026-04-01T00:00:00Z"}])
def test_an_older_version_that_comes_again_is_an_older_one(
    store: og.GrainStore, more: dict[str, Any]
) -> None:
    newer = MINIMAL | {"content": "The garden is watered in the morning."} | more
    again = [MINIMAL, newer, MINIMAL, newer, MINIMAL]
    assert fates(store, again) == ["imported", "updated"] + ["unchanged"] * 3
    assert fates(store, again) == ["unchanged"] * 5
    assert [one["content"] for one in exported(store, strict=True)] == [newer["content"]]


def test_the_same_text_under_two_names_is_two_memories(store: og.GrainStore) -> None:
    assert fates(store, [MINIMAL, MINIMAL | {"@id": "urn:mif:other"}]) == ["imported"] * 2


def test_a_document_is_given_back(store: og.GrainStore) -> None:
    known: dict[str, str] = {}
    for whole in (FULL, [MINIMAL, FULL_1X]):
        fates(store, whole)
        ((id, format),) = kept_documents(store, USER).items() - known.items()
        known[id] = format
        assert format == "mif-ld"
        assert json.loads(export_document(store, USER, document=id)[0].data) == whole


def test_counters_continue(store: og.GrainStore) -> None:
    fates(store, FULL)
    (memory,) = exported(store, strict=True)
    assert memory["temporal"]["accessCount"] == FULL["temporal"]["accessCount"]
    assert memory["temporal"]["lastAccessed"] == FULL["temporal"]["lastAccessed"]


def test_a_memory_is_found_by_its_name(store: og.GrainStore) -> None:
    fates(store, [MINIMAL, FULL_1X])
    found = store.query(origin=FULL_1X["@id"]).results
    assert [store.get(hit.address).type for hit in found] == ["workflow"]


def test_local_memories_stay(store: og.GrainStore) -> None:
    private = MINIMAL | {"@id": "urn:mif:private", "namespace": "_local/x"}
    fates(store, [MINIMAL, private])
    assert [one["@id"] for one in exported(store)] == [MINIMAL["@id"]]
    assert len(exported(store, local=True)) == 2
    other, report = export_document(store, USER, format="mif2")
    assert b"urn:mif:private" not in other.data
    assert report.lost >= 1


def test_no_memory_is_renamed(store: og.GrainStore) -> None:
    fates(store, MINIMAL)
    newer = MINIMAL | {"content": "Another text."}
    assert fates(store, newer, merge_strategy="rename") == ["updated"]
    assert [one["@id"] for one in exported(store, strict=True)] == [MINIMAL["@id"]]
    assert fates(store, MINIMAL | {"title": "x"}, merge_strategy="overwrite") == ["updated"]


def test_erased_grains_do_not_come_back(store: og.GrainStore) -> None:
    fates(store, [MINIMAL, FULL_1X])
    store.privacy.erase([USER], reason_code="asked", scrub="queued", ciphertext=True)
    other = MINIMAL | {"@id": "urn:mif:new", "content": "New."}
    assert fates(store, [MINIMAL, FULL_1X, other]) == ["erased", "erased", "imported"]


def test_redacted(store: og.GrainStore) -> None:
    fates(store, MINIMAL | {"content": "Write to ada@example.org.", "summary": "ada@example.org"})
    (memory,) = exported(store, redact_pii=True)
    assert "ada@example.org" not in json.dumps(memory)
    assert memory["created"] == MINIMAL["created"]


def test_an_export_warns_of_remaining_personal_data(store: og.GrainStore) -> None:
    fates(store, MINIMAL | {"content": "Write to ada@example.org.", "summary": "ada@example.org"})
    dump, report = export_document(store, USER, format="mif-ld")
    assert b"ada@example.org" in dump.data
    assert [(one.rule, one.found) for one in report.warnings] == [("personal_data", "2 email")]
    assert report.privacy is not None and report.privacy["pii_detected"]
    quiet = export_document(store, USER, format="mif-ld", scan=False)[1]
    assert (quiet.privacy, quiet.warnings) == (None, [])


def test_a_member_called_star_hides_nothing(store: og.GrainStore) -> None:
    """A member of a record is a name, never a pattern for kept values."""
    more = {"*": {"date": "2026-04-01T00:00:00Z"}, "bob": {"date": "bob@example.org"}}
    fates(store, MINIMAL | {"extensions": {"x": more}})
    (memory,) = exported(store, redact_pii=True)
    assert "bob@example.org" not in json.dumps(memory)
    assert memory["extensions"]["x"]["*"] == more["*"]


def test_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    store, files = tmp_path / "m.omsg", tmp_path / "files"
    files.mkdir()
    (files / "a.memory.json").write_bytes(spelled(MINIMAL))
    (files / "b.memory.md").write_text(
        markdown.write(MINIMAL | {"@id": "urn:mif:b"})[0], encoding="utf-8"
    )
    told = shell.json("import", store, files, "--user", USER)
    assert (told["format"], told["memories_imported"]) == ("mif-ld", 2)
    one = tmp_path / "one.jsonld"
    one.write_bytes(spelled(FULL))
    assert shell("import", store, one, "--user", USER) == 0
    assert b"1 updated" in shell.out
    out = tmp_path / "out.jsonld"
    told = shell.json("export", store, out, "--user", USER)
    assert (told["format"], told["memories_exported"]) == ("mif-ld", 2)
    assert len(json.loads(out.read_bytes())["records"]) == 2
    assert shell("verify", out, one, files) == 0
    told = shell.json("convert", files, tmp_path / "all.mg")
    assert (told["from"], told["to"]) == ("mif-ld", "mg")
    back = tmp_path / "back"
    assert shell("convert", tmp_path / "all.mg", back, "--layout", "directory") == 0
    assert json.loads((back / "a.memory.json").read_bytes()) == MINIMAL


def test_bad_memories_are_reported(shell: Shell, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonld"
    bad.write_bytes(spelled([MINIMAL, MINIMAL | {"created": "yesterday"}]))
    assert shell("verify", bad) == exit_code("ERR_FORMAT")
    assert b"/1/created" in shell.err
    _, told = shell.refused("import", tmp_path / "m.omsg", bad, "--user", USER)
    assert (told["memories_imported"], len(told["errors"])) == (1, 1)


def test_a_bad_memory_is_reported_once(shell: Shell, tmp_path: Path) -> None:
    bad = MINIMAL | {"created": "yesterday", "memoryType": "fact", "tags": 5}
    notes, store = tmp_path / "notes", tmp_path / "m.omsg"
    (notes / "sub").mkdir(parents=True)
    files = {"a.jsonld": spelled(bad), "sub/b.jsonld": spelled([MINIMAL, bad]),
             "c.ndjson": spelled(MINIMAL | {"@id": "urn:mif:c"}) + b"\n" + spelled(bad),
             "d.jsonld": spelled({"@type": "MemoryCorpus", "records": [
                 {"kind": "memory", "payload": bad}, bad]})}  # fmt: skip
    for name, data in files.items():
        (notes / name).write_bytes(data)
    _, told = shell.refused("import", store, notes, "--user", USER, "--dry-run")
    assert told["memories_imported"] == 2
    assert [(one["pointer"].split("/")[1], one["kind"]) for one in told["errors"]] == [
        ("a.jsonld", "memory"), ("c.ndjson", "memory"), ("d.jsonld", "memory"),
        ("d.jsonld", "memory"), ("sub~1b.jsonld", "memory"),
    ]  # fmt: skip


def test_refusals_of_a_store_are_reported_by_file(shell: Shell, tmp_path: Path) -> None:
    """In the order of the files, with what is not good in them."""
    notes, path = tmp_path / "notes", tmp_path / "m.omsg"
    notes.mkdir()
    several = [MINIMAL | {"@id": f"urn:mif:{n}", "content": f"Text {n}."} for n in range(12)]
    corpus = {
        "@type": "MemoryCorpus",
        "records": [
            {"kind": "memory", "payload": MINIMAL | {"@id": f"urn:mif:c{n}"}} for n in range(2)
        ],
    }
    lines = [MINIMAL | {"@id": f"urn:mif:l{n}"} for n in range(2)]
    files = {"a.jsonld": spelled([*several[:2], MINIMAL | {"created": "x"}, *several[2:]]),
             "b.jsonld": spelled(corpus), "c.ndjson": b"\n".join(map(spelled, lines)),
             "d.jsonld": spelled(MINIMAL)}  # fmt: skip
    for name, data in files.items():
        (notes / name).write_bytes(data)
    shell("import", path, notes, "--user", USER)
    with og.open(path) as store:
        gone = [f"urn:mif:{n}" for n in ("1", "2", "11", "c1", "l1")] + [MINIMAL["@id"]]
        for name in gone:
            (hit,) = store.query(origin=name).results
            store.trust.set_verification(hit.address, "retracted")
    _, told = shell.refused("import", path, notes, "--user", USER)
    assert [one["pointer"] for one in told["errors"]] == [
        "/a.jsonld/1", "/a.jsonld/2/created", "/a.jsonld/3", "/a.jsonld/12",
        "/b.jsonld/records/1", "/c.ndjson/1", "/d.jsonld",
    ]  # fmt: skip


@pytest.mark.parametrize("order", [[MINIMAL, FULL], [FULL, MINIMAL]])
def test_two_versions_of_a_memory_in_one_document(
    store: og.GrainStore, order: list[dict[str, Any]]
) -> None:
    first, second = order
    assert fates(store, [first, second | {"content": "Another."}]) == ["imported", "updated"]
    (memory,) = exported(store, strict=True)
    assert memory["content"] == "Another."
    assert memory["temporal"]["accessCount"] == FULL["temporal"]["accessCount"]
