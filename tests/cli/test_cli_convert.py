# SPDX-License-Identifier: Apache-2.0
"""MIF documents in files on the command line: verified, converted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omsgrain.interchange.convert import convert
from support.conversion_pairs import BUNDLE
from support.mif1_documents import PUBLISHED
from support.shell import Shell

GARDEN = BUNDLE.with_name("garden.mif.json")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(path: str | Path) -> Any:
    return json.loads(Path(path).read_bytes())


def test_a_document_goes_through_every_layout_and_comes_back(shell: Shell) -> None:
    for target in ("a.mif.yaml", "b.mif.jsonl", "c.aimem.json", "d.aimem.ndjson", "e.mg"):
        said = shell.json("convert", GARDEN, target, "--embeddings")
        assert (said["from"], said["losses"]) == ("mif2", [])
        again = shell.json("convert", target, f"{target}.mif.json", "--format", "mif2")
        assert again["losses"] == []
        assert read(f"{target}.mif.json") == read(GARDEN)


def test_a_document_of_1_0_stays_one(shell: Shell) -> None:
    Path("x.mif.json").write_text(json.dumps(PUBLISHED))
    assert shell.json("convert", "x.mif.json", "y.mif.yaml")["to"] == "mif1"
    assert shell.json("convert", "y.mif.yaml", "z.mif.json")["to"] == "mif1"
    assert read("z.mif.json") == PUBLISHED
    assert shell.json("convert", "y.mif.yaml", "v.mif.json", "--format", "mif2")["to"] == "mif2"


def test_a_bundle_and_back_with_its_embeddings(shell: Shell) -> None:
    assert shell.json("convert", BUNDLE, "x.mif.json")["losses"] == []
    assert "embeddings" in read("x.mif.json")["memories"][0]
    assert shell.json("convert", "x.mif.json", "y.aimem.json", "--embeddings")["losses"] == []
    assert read("y.aimem.json") == read(BUNDLE)
    lost = shell.json("convert", BUNDLE, "z.mif.json", "--no-embeddings")["losses"]
    assert {loss["field"] for loss in lost} == {"embedding"}


def test_strict_says_what_is_lost(shell: Shell) -> None:
    said = shell.json("convert", BUNDLE, "x.mif.json", "--strict")
    lost = {loss["field"] for loss in said["losses"]}
    assert lost == {"zone", "id", "is_pinned", "x_review", "producer"}
    assert "x_omsgrain" not in Path("x.mif.json").read_text()


def test_an_encrypted_document(shell: Shell) -> None:
    Path("secret").write_text("a long passphrase\n")
    Path("other").write_text("another\n")
    sealed = ("convert", GARDEN, "x.mif.yaml", "--format", "mif1", "--encrypt")
    assert shell(*sealed) == 2
    assert shell(*sealed, "--passphrase-file", "secret") == 0
    assert b"roses" not in Path("x.mif.yaml").read_bytes()
    assert shell.error("convert", "x.mif.yaml", "y.mif.json")[1]["rule"] == "encrypted"
    wrong = ("convert", "x.mif.yaml", "y.mif.json", "--passphrase-file", "other")
    assert shell.error(*wrong)[1]["code"] == "ERR_KEY"
    opened = ("convert", "x.mif.yaml", "y.mif.json", "--passphrase-file", "secret")
    assert shell.json(*opened, "--format", "mif2")["losses"] == []
    assert read("y.mif.json") == read(GARDEN)
    assert shell("verify", "x.mif.yaml", "--passphrase-file", "secret") == 0
    assert shell("verify", "x.mif.yaml") != 0
    to_2 = ("convert", GARDEN, "z.mif.json", "--encrypt", "--passphrase-file", "secret")
    assert shell.error(*to_2)[1]["code"] == "ERR_SCHEMA"


def test_omissions_are_reported(shell: Shell) -> None:
    document = read(GARDEN)
    document["memories"][0] |= {"id": 7, "tags": 7}
    Path("x.mif.json").write_text(json.dumps(document))
    lost = shell.json("convert", "x.mif.json", "y.mif.yaml")["losses"]
    assert [(loss["record"], loss["field"]) for loss in lost] == [("/memories/0/id", "record")]
    assert shell("verify", "x.mif.json") != 0


def test_verify_reports_everything(shell: Shell) -> None:
    document = read(GARDEN)
    del document["memories"][0]["content"]
    document["memories"][1]["version"] = 0
    document["memories"][1]["related_memory_ids"] = ["x"]
    Path("x.mif.json").write_text(json.dumps(document))
    assert shell("verify", "x.mif.json", "--json") != 0
    said = json.loads(shell.out)
    rules = [(one["error"]["rule"], one["error"]["field"]) for one in said["failed"]]
    assert rules == [("missing_field", "/memories/0/content"),
                     ("out_of_range", "/memories/1/version")]  # fmt: skip
    document = said["documents"][0]
    assert (document["format"], document["problems"]) == ("mif2", 2)
    assert document["records"] == {"memories": 2, "entities": 2, "relationships": 1, "todos": 1}


def test_a_document_without_a_user_needs_one(shell: Shell) -> None:
    document = read(GARDEN)
    del document["export_meta"]
    Path("x.mif.json").write_text(json.dumps(document))
    assert shell.error("convert", "x.mif.json", "x.aimem.json")[1]["code"] == "ERR_SCHEMA"
    assert shell("convert", "x.mif.json", "x.aimem.json", "--user", "ada lovelace",
                 "--embeddings") == 0  # fmt: skip
    assert read("x.aimem.json")["tenant_id"] == "urn:omsgrain:user:ada%20lovelace"
    assert shell("convert", "x.aimem.json", "y.mif.json") == 0
    assert read("y.mif.json") == document


def test_a_native_document_names_its_user(tmp_path: Path) -> None:
    from omsgrain.errors import SchemaError

    with pytest.raises(SchemaError):
        convert(GARDEN, tmp_path / "x.mif.json", user_id="bob")
