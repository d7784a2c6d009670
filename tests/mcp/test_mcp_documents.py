# SPDX-License-Identifier: Apache-2.0
"""MIF documents in and out of the memory of one user, as text and as files below a root."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import crypto
from omsgrain.formats import sniff
from omsgrain.mcp.arguments import ToolArgument
from omsgrain.mcp.documents import export_any
from omsgrain.mcp.service import Cancelled, McpOptions, McpService
from omsgrain.mcp.tools import EXPORTED, TOOLS
from omsgrain.memory import verbs
from support.mcp_agents import ADA, BOB, Agent, agent, belief, text_of
from support.paths import ROOT
from support.signers import ALICE

_ids = count(1)


def memory(content: str, **more: Any) -> dict[str, Any]:
    id = f"00000000-0000-4000-8000-{next(_ids):012x}"
    made = {"id": id, "content": content, "created_at": "2026-01-15T10:00:00Z"}
    return {**made, "memory_type": "decision", **more}


def document(*memories: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"mif_version": "2.0", "memories": list(memories), **more}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "m.omsg"
    with og.open(path) as store:
        store.put(belief("bob's secret lamp", user=BOB))
    return path


@pytest.fixture(scope="module")
def ada(path: Path, root: Path) -> Iterator[Agent]:
    with agent(path, "--root", root, "--document-limit", "100000") as one:
        yield one


def test_a_false_signature_beside_a_file_is_refused(ada: Agent, root: Path) -> None:
    data = json.dumps(document(memory("The signed marten"))).encode()
    (root / "signed.mif.json").write_bytes(data)
    beside = root / "signed.mif.json.sig"
    for signature in (b"", b"garbage", crypto.sign_detached(b"other bytes", ALICE)):
        beside.write_bytes(signature)
        said = ada.error("import_memories", data="signed.mif.json")
        assert said["rule"] == "signature_invalid", signature
    beside.write_bytes(crypto.sign_detached(data, ALICE))
    assert ada.do("import_memories", data="signed.mif.json")["memories_imported"] == 1


@pytest.mark.parametrize("form", ["object", "text", "path"])
def test_a_document_comes_in_and_goes_out(ada: Agent, root: Path, form: str) -> None:
    one = memory(f"The {form} of the marten", tags=["zoo"], metadata={"n": [1, 2.5]})
    data: Any = document(one, vendor_extensions={})
    if form != "object":
        data = json.dumps(data)
    if form == "path":
        (root / "in.mif.json").write_text(data)
        data = "in.mif.json"
    told = ada.do("import_memories", data=data)
    assert (told["memories_imported"], told["duplicates_skipped"]) == (1, 0)
    assert told["errors"] == []
    (found,) = ada.do("recall", query=f"marten +{form}")["memories"]
    assert (found["id"], found["type"], found["tags"]) == (one["id"], "decision", ["zoo"])
    given = json.loads(ada.text("export_memories", redact_pii=False))
    assert given["mif_version"].startswith("2.")
    assert one in given["memories"]
    again = ada.do("import_memories", data=json.dumps(given))
    assert again["memories_imported"] == 0
    assert again["errors"] == []


def test_remembered_memories_are_exported_under_their_id(ada: Agent) -> None:
    made = ada.do("remember", content="The civet sleeps", importance=0.9)
    given = json.loads(ada.text("export_memories", redact_pii=False))
    (found,) = [one for one in given["memories"] if one["id"] == made["id"]]
    assert found["content"] == "The civet sleeps"
    assert "bob" not in json.dumps(given)
    first = json.loads(ada.text("export_memory", redact_pii=False))
    assert first["mif_version"] == "1.0"
    assert "The civet sleeps" in [one["content"] for one in first["memories"]]


@pytest.mark.parametrize("layout", ["json", "yaml", "jsonl"])
def test_the_layouts_of_the_first_version(ada: Agent, layout: str) -> None:
    ada.do("remember", content="The tapir eats leaves")
    text = ada.text("export_memory", format=layout)
    assert "The tapir eats leaves" in text
    told = ada.do("import_memory", data=text)
    assert told["memories_imported"] == 0
    assert told["errors"] == []


def test_exports_redact_by_default(ada: Agent) -> None:
    ada.do("remember", content="Write to ada@example.com about the vole")
    for tool in ("export_memories", "export_memory"):
        answer = ada.call(tool)
        assert "ada@example.com" not in str(answer)
        assert "[REDACTED:email]" in text_of(answer)
        assert (answer.structured_content or {})["warnings"] == []
        whole = ada.call(tool, redact_pii=False)
        assert "ada@example.com" in text_of(whole)
        (warning,) = (whole.structured_content or {})["warnings"]
        assert (warning["rule"], warning["found"]) == ("personal_data", "1 email")


def test_an_export_can_be_a_file(ada: Agent, root: Path) -> None:
    ada.do("remember", content="The shrew is small")
    told = ada.do("export_memories", path="out.mif.json", redact_pii=False)
    assert told["path"] == "out.mif.json"
    data = (root / "out.mif.json").read_bytes()
    assert told["bytes"] == len(data)
    assert "The shrew is small" in [one["content"] for one in json.loads(data)["memories"]]
    error = ada.error("export_memories", path="out.mif.json")
    assert (error["code"], error["rule"]) == ("ERR_UNSUPPORTED", "file_exists")
    assert ada.error("export_memories", path="../out.json")["rule"] == "outside_root"
    assert (root / "out.mif.json").read_bytes() == data


def test_forgotten_memories_do_not_come_back(ada: Agent) -> None:
    one = memory("The aardvark digs")
    ada.do("import_memories", data=document(one))
    ada.do("forget", id=one["id"])
    told = ada.do("import_memories", data=document(one, memory("The gecko climbs")))
    assert told["memories_imported"] == 1
    assert [error["fate"] for error in told["errors"]] == ["erased"]
    assert not ada.do("recall", query="aardvark")["memories"]


def test_duplicates_are_forgotten_with_what_they_repeat(ada: Agent, path: Path) -> None:
    one, same = memory("The dingo howls"), memory("The dingo howls")
    assert ada.do("import_memories", data=document(one, same))["duplicates_skipped"] == 1
    assert len(ada.do("recall", query="dingo")["memories"]) == 1
    ada.do("forget", id=one["id"])
    with og.open(path, readonly=True) as store:
        left = store.query(user_id=ADA, current=None, limit=10_000).results
        assert not any(b"dingo" in hit.grain.blob for hit in left)


def test_strategies_and_dry_runs(ada: Agent) -> None:
    one = memory("The emu runs")
    other = {**one, "content": "The emu walks"}
    ada.do("import_memories", data=document(one))
    told = ada.do("import_memories", data=document(other), merge_strategy="rename", dry_run=True)
    assert (told["stored"], told["renamed"]) == (False, 1)
    assert [m["id"] for m in ada.do("recall", query="emu")["memories"]] == [one["id"]]
    told = ada.do("import_memory", data=json.dumps(document(other)), merge_strategy="rename")
    assert told["renamed"] == 1
    assert len({m["id"] for m in ada.do("recall", query="emu")["memories"]}) == 2


def test_one_bad_record_holds_up_no_other(ada: Agent) -> None:
    bad = memory("The mole hides")
    del bad["created_at"]
    told = ada.do("import_memories", data=document(bad, memory("The mole digs")))
    assert told["memories_imported"] == 1
    assert [error["pointer"].split("/")[:3] for error in told["errors"]] == [["", "memories", "0"]]
    assert "mole" not in json.dumps(told)


def test_long_reports_are_cut(ada: Agent) -> None:
    told = ada.do("import_memories", data=document(*[{"id": "x"} for _ in range(150)]))
    assert (len(told["errors"]), told["errors_total"]) == (100, 150)


BROKEN = {
    "truncated": '{"mif_version": "2.0", "memories": [{"content": "The ocelot',
    "twice": '{"mif_version": "2.0", "memories": [], "memories": []}',
    "nan": '{"mif_version": "2.0", "memories": [], "ocelot": NaN}',
    "deep": '{"mif_version": "2.0", "memories": [], "a": ' + "[" * 10_000 + "]" * 10_000 + "}",
    "version": '{"mif_version": "9.0", "memories": [], "ocelot": 1}',
    "array": "[]",
    "lines": "ocelot\nocelot\n",
}


@pytest.mark.parametrize("tool", ["import_memories", "import_memory"])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_documents_are_refused(ada: Agent, tool: str, name: str) -> None:
    error = ada.error(tool, data=BROKEN[name])
    assert error["code"] in ("ERR_FORMAT", "ERR_UNSUPPORTED", "ERR_SCHEMA")
    assert "ocelot" not in json.dumps(error)


def test_paths_elsewhere_are_refused(ada: Agent, root: Path, path: Path) -> None:
    secret = root.parent / "secret.json"
    secret.write_text(json.dumps(document(memory("The secret"))))
    (root / "link.json").symlink_to(secret)
    (root / "large.json").write_bytes(b"{" + b" " * 100_001)
    rules = {
        str(secret): "outside_root",
        "../secret.json": "outside_root",
        "../nothing.json": "outside_root",
        "link.json": "outside_root",
        "/dev/zero": "outside_root",
        "none.json": "no_file",
        "large.json": "too_large",
    }
    for tool in ("import_memories", "import_memory"):
        for name, rule in rules.items():
            error = ada.error(tool, data=name)
            assert (error["code"], error["rule"]) == ("ERR_UNSUPPORTED", rule), name
        assert ada.error(tool, data='{"a": "' + "x" * 100_001 + '"}')["rule"] == "too_large"
    with agent(path) as without:
        assert without.error("import_memory", data=str(secret))["rule"] == "no_root"
        assert without.error("export_memories", path="x.json")["rule"] == "no_root"


def test_an_answer_has_a_limit(path: Path) -> None:
    with agent(path, "--answer-limit", "100", user="cleo") as cleo:
        cleo.do("remember", content="x" * 200)
        error = cleo.error("export_memories")
        assert (error["code"], error["rule"]) == ("ERR_UNSUPPORTED", "answer_too_large")


@pytest.mark.parametrize("format", EXPORTED)
def test_export_and_import_know_every_format(path: Path, tmp_path: Path, format: str) -> None:
    with agent(path, "--root", tmp_path, user=f"urn:omsgrain:{format}") as one:
        made = one.do("remember", content="The ibis wades", tags=["zoo"])
        given = {"format": format, "redact_pii": False}
        report = one.do("export", **given, path="out.json")
        assert (report["format"], report["path"]) == (format, "out.json")
        assert report["bytes"] == (tmp_path / "out.json").stat().st_size
        text = one.text("export", **given)
        assert sniff(text.encode()) == format
        one.do("forget", id=made["id"])
        assert not one.do("recall", query="ibis")["memories"]
        one.do("import", data="out.json", dry_run=True)
        assert not one.do("recall", query="ibis")["memories"]
    with agent(path, "--root", tmp_path, user=f"urn:omsgrain:{format}2") as other:
        other.do("import", data=text)
        (found,) = other.do("recall", query="ibis")["memories"]
        assert found["content"] == "The ibis wades"
        before = other.do("history", id=found["id"])
        other.do("import", data="out.json")
        assert other.do("history", id=found["id"]) == before


def test_a_bundle_asks_for_what_it_needs(ada: Agent, root: Path) -> None:
    error = ada.error("export", format="aimem")
    assert (error["code"], error["field"]) == ("ERR_SCHEMA", "/redact_pii")
    assert "tenant_id" in error["expected"]  # ada is no URI: both are asked for at once
    bare = {"format": "aimem", "redact_pii": False}
    assert ada.error("export", **bare)["field"] == "/tenant_id"
    assert ada.error("export", **bare, tenant_id="ada")["field"] == "/tenant_id"
    assert json.loads(ada.text("export", **bare, tenant_id=TENANT))["tenant_id"] == TENANT
    error = ada.error("export", **bare, tenant_id=TENANT, include_graph=False)
    assert (error["code"], error["field"]) == ("ERR_SCHEMA", "/include_graph")
    error = ada.error("export", tenant_id=TENANT)
    assert (error["code"], error["field"]) == ("ERR_SCHEMA", "/tenant_id")


def test_what_a_bundle_cannot_do_is_refused(ada: Agent) -> None:
    bundle = (ROOT / "examples/robot-7.aimem.json").read_text("utf-8")
    error = ada.error("import", data=bundle, merge_strategy="overwrite")
    assert (error["code"], error["field"]) == ("ERR_SCHEMA", "/merge_strategy")
    assert ada.error("import", data="{}")["code"] == "ERR_UNSUPPORTED"
    error = ada.error("export", since="yesterday")
    assert (error["code"], error["field"]) == ("ERR_SCHEMA", "/since")


def test_import_knows_documents_of_other_systems(ada: Agent) -> None:
    entity = {"type": "entity", "name": "Otto", "entityType": "otter"}
    lines = [entity | {"observations": ["Otto cracks mussels"]}]
    report = ada.do("import", data="\n".join(map(json.dumps, lines)) + "\n")
    assert (report["format"], report["errors"]) == ("mcp-memory", [])
    assert ada.do("recall", query="otto mussels")["memories"]
    again = ada.do("import", data=json.dumps(lines[0]) + "\n")
    assert again["memories_imported"] == 0


TENANT = "urn:example:ada"


class Gone:
    """The work of a call whose client leaves after some steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    async def run(self, function: Callable[[], Any], *, large: bool) -> Any:
        return function()

    def alive(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Cancelled


@pytest.mark.parametrize("format", EXPORTED)
def test_an_export_ends_when_its_client_is_gone(format: str) -> None:
    given = {name: one.default for name, one in _arguments("export").items()}
    given |= {"format": format, "redact_pii": False}
    with og.open(":memory:") as store:
        for n in range(50):
            verbs.remember(store, TENANT, f"memory {n}")
        with pytest.raises(Cancelled):
            export_any(McpService(store, McpOptions(user=TENANT), Gone(0)), dict(given))
        assert not [entry for entry in store.audit.entries() if entry.operation == "export"]
        export_any(McpService(store, McpOptions(user=TENANT), Gone(1_000)), dict(given))
        assert [entry for entry in store.audit.entries() if entry.operation == "export"]


def _arguments(tool: str) -> dict[str, ToolArgument]:
    return {one.name: one for one in TOOLS[tool].arguments}
