# SPDX-License-Identifier: Apache-2.0
"""Files and directories of memories and ontologies as people have them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.errors import SchemaError
from omsgrain.formats.document import Loss
from omsgrain.formats.mif_ld import markdown
from omsgrain.formats.mif_ld.directory import is_file, load_directory, write_files
from omsgrain.formats.mif_ld.records import LIMITS
from omsgrain.formats.mif_ld.validate import judge
from support.mif_ld_documents import (
    CITATION,
    CONTEXT,
    MINIMAL,
    MINIMAL_1X,
    ONTOLOGY,
    PERSON,
    spelled,
)
from support.shell import Shell, exit_code

NOTE = "---\nid: garden\ntype: semantic\ncreated: 2026-03-01T08:00:00Z\n---\n\nWater.\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    root.mkdir()
    return root


def memory(name: str, **more: Any) -> bytes:
    return spelled(MINIMAL | {"@id": f"urn:mif:{name}", "content": name or "-"} | more)


def contents(found: formats.Import) -> list[str]:
    return [str(grain["object"]) for grain in found.grains if grain.type == "belief"]


def files(read: formats.Import, **options: Any) -> tuple[dict[str, bytes], list[Loss]]:
    made: dict[str, bytes] = {}

    def write(path: Any, data: bytes) -> None:
        assert str(path) not in made
        made[str(path)] = data

    return made, write_files(read, write, **options)


# -- directories ----------------------------------------------------------------------------------


def test_hidden_files_are_ignored(notes: Path) -> None:
    for name in (".trash", ".git/objects", "sub/.obsidian"):
        (notes / name).mkdir(parents=True)
        (notes / name / "old.memory.json").write_bytes(memory("old"))
    (notes / "._a.memory.json").write_bytes(b"\0\5\26\7\0")
    (notes / ".a.jsonld").write_bytes(memory("hidden"))
    (notes / "a.memory.json").write_bytes(memory("a"))
    found = load_directory(notes)
    assert (contents(found), found.problems) == (["a"], ())


def test_suffixes_are_in_any_case(notes: Path) -> None:
    (notes / "A.JSONLD").write_bytes(memory("a"))
    (notes / "B.Memory.MD").write_text(NOTE)
    (notes / "C.MD").write_text(NOTE)
    (notes / "README.MD").write_text("# Notes")
    found = load_directory(notes)
    assert (len(contents(found)), found.problems) == (3, ())
    contexts = [grain.get("context", {}).get("mif:shape") for grain in found.grains[:3]]
    assert contexts == [None, None, "1.x"]
    assert is_file("X.Mif.NdJson") and not is_file(".X.jsonld")


def test_names_that_differ_in_case_only_are_two(notes: Path) -> None:
    for name in ("a.memory.json", "A.memory.json"):
        (notes / name).write_bytes(memory(name[0]))
    found = load_directory(notes)
    assert contents(found) == ["A", "a"]
    assert files(found)[0].keys() == {"A.memory.json", "a.memory.json"}
    made = formats.load(spelled([json.loads(memory("Rose")), json.loads(memory("rose"))]))
    assert files(made)[0].keys() == {"Rose.memory.json", "rose-2.memory.json"}


def test_a_name_that_is_made_is_no_file_s_own(notes: Path) -> None:
    (notes / "garden.memory.md").write_text(NOTE)
    (notes / "z.jsonld").write_bytes(memory("garden"))
    made, _ = files(load_directory(notes), markdown=True)
    assert made.keys() == {"garden.memory.md", "garden-2.memory.md"}
    assert made["garden.memory.md"] == NOTE.encode()


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("con", "memory-con.memory.md"),
        ("LPT1", "memory-LPT1.memory.md"),
        ("console", "console.memory.md"),
        ("", "memory.memory.md"),
        ("..", "memory.memory.md"),
        ("a/b\\c:d", "a-b-c-d.memory.md"),
    ],
)
def test_names_that_every_system_takes(id: str, name: str) -> None:
    found = formats.load(spelled([json.loads(memory(id))]))
    assert list(files(found, markdown=True)[0]) == [name]


@pytest.mark.parametrize("id", ["index", "log", "README"])
def test_a_memory_has_no_reserved_file_name(id: str, notes: Path) -> None:
    whole = MINIMAL_1X | {"@id": f"urn:mif:{id}"}
    made, _ = files(formats.load(spelled([whole])), markdown=True)
    for name, data in made.items():
        (notes / name).write_bytes(data)
    again = formats.dump(load_directory(notes), format="mif-ld", layout="document")
    assert json.loads(again.data) == whole | {"timestamp": whole["created"]}


def test_a_directory_that_cannot_be_read_is_not_passed_over(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes / "a.jsonld").write_bytes(memory("a"))
    (notes / "closed").mkdir()
    scan = os.scandir

    def refusing(path: Any) -> Any:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError):
        load_directory(notes)


def test_links_and_what_is_no_file_are_left_alone(notes: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonld").write_bytes(memory("secret"))
    (notes / "a.jsonld").write_bytes(memory("a"))
    (notes / "linked.jsonld").symlink_to(outside / "secret.jsonld")
    (notes / "linked").symlink_to(outside)
    (notes / "round").symlink_to(notes)
    (notes / "nowhere.jsonld").symlink_to(notes / "gone")
    (notes / "directory.jsonld").mkdir()
    os.mkfifo(notes / "pipe.jsonld")
    assert contents(load_directory(notes)) == ["a"]


def test_all_of_a_directory_is_bounded(notes: Path) -> None:
    for name in "abc":
        (notes / f"{name}.jsonld").write_bytes(memory(name))
    with pytest.raises(SchemaError):
        load_directory(notes, limits=replace(LIMITS, directory=2 * len(memory("a"))))
    assert len(contents(load_directory(notes, limits=replace(LIMITS, directory=4_000)))) == 3


def test_a_note_without_front_matter_is_reported(notes: Path) -> None:
    (notes / "a.jsonld").write_bytes(memory("a"))
    (notes / "list.md").write_text("# To buy\n\n- a rake\n")
    (notes / "other.md").write_text("---\ntitle: x\n---\n\ntext\n")
    found = load_directory(notes)
    told = {(one.pointer, one.rule) for one in found.problems}
    assert ("/list.md", "not_markdown") in told
    assert {pointer.split("/")[1] for pointer, _ in told} == {"list.md", "other.md"}


def test_long_names_are_written_again(shell: Shell, notes: Path, tmp_path: Path) -> None:
    name = "\u5ead" * 75 + ".memory.json"  # 237 bytes
    (notes / name).write_bytes(memory("a"))
    assert shell("convert", notes, tmp_path / "x.mg") == 0
    assert shell("convert", tmp_path / "x.mg", tmp_path / "again", "--layout", "directory") == 0
    assert json.loads((tmp_path / "again" / name).read_bytes())["content"] == "a"


def test_other_entries_of_a_corpus_stay_unchanged(shell: Shell, notes: Path) -> None:
    record = {"kind": "document", "@id": "urn:x", "payload": {"x": 1}}
    whole = {"@context": CONTEXT, "@type": "MemoryCorpus", "records": [record]}
    others = {"b.jsonld": whole, "c.jsonld": CITATION, "d.jsonld": PERSON, "e.jsonld": ONTOLOGY}
    for name, one in others.items():
        (notes / name).write_bytes(spelled(one))
    (notes / "a.jsonld").write_bytes(memory("a"))
    assert shell("convert", notes, notes / "x.jsonld") == 0, shell.err
    made = json.loads((notes / "x.jsonld").read_bytes())["records"]
    assert [one["kind"] for one in made] == [
        "memory", "document", "citation", "entity-reference", "ontology"
    ]  # fmt: skip
    assert made[1:3] == [record, {"kind": "citation", "payload": CITATION}]
    assert shell("validate", notes / "x.jsonld") == 0
    assert shell("convert", notes / "x.jsonld", notes / "again", "--layout", "markdown") == 0
    assert shell("validate", notes / "again") == 0
    assert len(load_directory(notes / "again").problems) == 0


# -- one file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.jsonld", "x.mif.jsonld", "x.json"])
def test_a_file_that_is_called_json_is_json(shell: Shell, tmp_path: Path, name: str) -> None:
    one, other = json.loads(memory("a")), json.loads(memory("b"))
    sources = {"a.memory.md": NOTE.encode(), "a.mif.ndjson": memory("a") + b"\n" + memory("b"),
               "c.jsonld": spelled([one, other])}  # fmt: skip
    made = []
    for source, data in sources.items():
        (tmp_path / source).write_bytes(data)
        command = ("--format", "mif-ld", "--replace")
        assert shell("convert", tmp_path / source, tmp_path / name, *command) == 0, shell.err
        made.append(json.loads((tmp_path / name).read_bytes()))
    alone, corpus, array = made
    assert (alone["@id"], array) == ("urn:mif:garden", [one, other])
    assert [record["payload"] for record in corpus["records"]] == [one, other]
    assert shell("convert", tmp_path / "c.jsonld", tmp_path / "x.memory.json") > 2
    assert b"ERR_SCHEMA" in shell.err


def test_lines_with_a_broken_first_line_are_lines(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "x.ndjson"
    file.write_bytes(b'{"@id": \n' + memory("a") + b"\n" + memory("b", created="x") + b"\n")
    assert shell("validate", file, "--json") != 0
    (said,) = json.loads(shell.out)["files"]
    assert [(one["code"], one["line"]) for one in said["errors"]] == [
        ("not_json", 1), ("MIF-DATE", 3)
    ]  # fmt: skip
    pretty = tmp_path / "pretty.jsonl"
    pretty.write_text(json.dumps(MINIMAL, indent=1))
    assert shell("validate", pretty) == 0


def test_a_shape_that_is_said_is_that_of_the_text(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "garden.md"
    file.write_text(NOTE)
    for options in ((), ("--shape", "0.1"), ("--shape", "1.x")):
        assert shell("validate", file, *options) == 0, shell.err
    assert shell("validate", file, "--kind", "memory") == 0


COMMENT = "# licence\n" * 600
YAML = "ontology: {id: garden, version: 1.0.0}\nentity_types: []\n"


@pytest.mark.parametrize(
    ("name", "options"),
    [("x.yaml", ()), ("X.YML", ()), ("ontology", ("--kind", "ontology"))],
)
def test_an_ontology_behind_a_long_comment(
    shell: Shell, tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    file = tmp_path / name
    flow = "{ontology: {id: garden, version: 1.0.0}}"
    texts = [COMMENT + YAML, "---\n" + YAML, YAML.replace("\n", "\r\n")]
    for text in [*texts, flow] if "." in name else texts:
        file.write_bytes(text.encode())
        assert shell("validate", file, *options) == 0, shell.err
        assert shell("ontology", "check", file) == 0, shell.err


def test_an_ontology_that_is_too_large_is_not_parsed(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(YAML + "# filling\n" * 120_000)
    assert shell("validate", file, "--json") == exit_code("ERR_FORMAT")
    (said,) = json.loads(shell.out)["files"]
    assert [one["code"] for one in said["errors"]] == ["too_large"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonld", b""), ("a.md", b""), ("a.yaml", b""), ("a.json", b"\xff\xfe{\0}\0"),
        ("a.yaml", YAML.encode("utf-16")), ("a.md", NOTE.encode().replace(b"Water", b"W\xe4sser")),
        ("a.yaml", b"ontology:\n\tid: garden\n"),
        ("a.yaml", b"ontology: {id: a, id: b, version: 1.0.0}\n"), ("a.yaml", b"a: &a [*a]\n"),
        ("a.yaml", b"ontology: &x {id: a, version: 1.0.0}\ntraits: {t: {<<: *x}}\n"),
        ("a.yaml", b"namespaces: " + b"{a: " * 5_000), ("a.jsonld", b"[" * 100_000),
        ("a.yaml", b"ontology: {id: a, version: 1.0.0}\n---\nontology: {id: b}\n"),
        ("a.yaml", b"ontology: !!python/object:os.system {}\n"), ("a.yaml", b"a: 'x"),
    ],
)  # fmt: skip
def test_an_unreadable_file_is_an_error_of_its_own(
    shell: Shell, tmp_path: Path, name: str, data: bytes
) -> None:
    bad, good = tmp_path / name, tmp_path / "good.jsonld"
    bad.write_bytes(data)
    good.write_bytes(memory("a"))
    assert shell("validate", bad, good, "--json") > 2
    one, other = json.loads(shell.out)["files"]
    assert (one["total"], other["total"]) == (1, 0)
    if name.endswith(".yaml"):
        assert shell("ontology", "check", bad) > 2
        assert b"Traceback" not in shell.err
    assert shell("import", tmp_path / "m.omsg", bad, "--user", "ada") > 2
    assert not (tmp_path / "m.omsg" / "data.mdb").exists()
    assert shell("convert", bad, tmp_path / "x.mg") > 2
    assert not (tmp_path / "x.mg").exists()


def test_an_export_is_not_called_as_what_it_is_not(shell: Shell, tmp_path: Path) -> None:
    store, file = tmp_path / "m.omsg", tmp_path / "garden.md"
    file.write_text(NOTE)
    assert shell("import", store, file, "--user", "ada") == 0
    for name in ("out.md", "out.memory.md", "out.mif.ndjson"):
        code, error = shell.error("export", store, tmp_path / name, "--user", "ada")
        assert (code > 2, error["field"]) == (True, "/file")
        assert not (tmp_path / name).exists()
    assert shell("export", store, tmp_path / "out.jsonld", "--user", "ada") == 0


@pytest.mark.parametrize("name", ["memories.ndjson", "garden.memory.md"])
def test_memories_by_lines_and_in_markdown_are_judged_by_ontologies(
    shell: Shell, tmp_path: Path, name: str
) -> None:
    ontology, file = tmp_path / "o.json", tmp_path / name
    alone = ONTOLOGY | {"ontology": {"id": "garden-notes", "version": "1.0.0"}}
    ontology.write_text(json.dumps(alone))
    bad = MINIMAL | {"ontology": {"id": "garden-notes"}, "namespace": "semantic/plants",
                     "entity": {"name": "A stone", "entity_type": "stone"}}  # fmt: skip
    if name.endswith(".md"):
        file.write_text(markdown.write(bad)[0])
    else:
        file.write_bytes(spelled(MINIMAL) + b"\n" + spelled(bad) + b"\n")
    assert shell("ontology", "check", ontology, "--memories", file, "--json") > 2
    (report,) = json.loads(shell.out)["memories"]
    (problem,) = report["problems"]
    assert (problem["rule"], problem["pointer"]) == ("ENT-TYPE", "/entity/entity_type")
    assert problem.get("line") == (None if name.endswith(".md") else 2)


@pytest.mark.parametrize("option", [{"mode": "strict"}, {"kind": "memo"}, {"shape": "2"}])
def test_an_option_that_is_not_known_is_an_error(option: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        judge(MINIMAL, **option)


def test_a_directory_is_validated_file_by_file(shell: Shell, notes: Path) -> None:
    (notes / "sub").mkdir()
    (notes / "a.jsonld").write_bytes(memory("a"))
    (notes / "sub" / "b.json").write_bytes(memory("b", created="x"))
    (notes / "package.json").write_text('{"name": "x"}')
    (notes / "list.md").write_text("# To buy\n")
    assert shell("validate", notes, "--json") > 2
    said = json.loads(shell.out)["files"]
    assert [(Path(one["name"]).name, one["total"]) for one in said] == [
        ("a.jsonld", 0), ("list.md", 1), ("b.json", 1)
    ]  # fmt: skip
    empty = notes / "empty"
    empty.mkdir()
    assert shell("validate", empty) > 2
    assert b"no file of memories" in shell.err


def made(name: str, day: int, *sources: str) -> dict[str, Any]:
    relations = [
        {"@type": "Relationship", "relationshipType": "DerivedFrom",
         "target": {"@id": f"urn:mif:{source}"}}
        for source in sources
    ]  # fmt: skip
    return MINIMAL | {"@id": f"urn:mif:{name}", "created": f"2026-03-{day:02}T00:00:00Z",
                      "relationships": relations}  # fmt: skip


def told(shell: Shell, *command: Any) -> list[tuple[str, str, int | None]]:
    found = shell.json("validate", "--mode", "extra", *command)["files"]
    listed = ((Path(file["name"]).name, one) for file in found for one in file["warnings"])
    return [(name, one["pointer"], one.get("line"))
            for name, one in listed if one["code"] == "MIF-ORDER"]  # fmt: skip


def test_times_are_compared_in_all_files(shell: Shell, notes: Path) -> None:
    (notes / "a.jsonld").write_bytes(spelled(made("a", 2, "b", "elsewhere", "c")))
    lines = [made("b", 1), made("x", 1, "a"), made("c", 9, "a")]
    (notes / "b.mif.ndjson").write_bytes(b"".join(spelled(one) + b"\n" for one in lines))
    (notes / "c.jsonld").write_bytes(spelled([made("y", 3), made("z", 2, "y", "c")]))
    found = [
        ("a.jsonld", "/relationships/2", None), ("b.mif.ndjson", "/relationships/0", 2),
        ("c.jsonld", "/1/relationships/0", None), ("c.jsonld", "/1/relationships/1", None),
    ]  # fmt: skip
    assert told(shell, notes) == found
    assert told(shell, *sorted(notes.iterdir())) == found
    loaded = load_directory(notes, mode="extra").warnings
    assert [(one.pointer.split("/")[1], "/" + one.pointer.split("/", 2)[2], one.line)
            for one in loaded] == found  # fmt: skip
    assert told(shell, notes / "c.jsonld") == [found[2]]
    assert shell.json("validate", notes)["files"][0]["warnings"] == []


def test_a_memory_in_several_versions_was_there_with_the_first(shell: Shell, notes: Path) -> None:
    versions = [made("a", 9), made("a", 2), made("a", 12)]
    for number, one in enumerate([*versions, made("b", 5, "a"), made("c", 1, "a")]):
        (notes / f"{number}.jsonld").write_bytes(spelled(one))
    assert told(shell, notes) == [("4.jsonld", "/relationships/0", None)]


def page(name: str, day: int, *targets: str) -> bytes:
    related = "".join(f"  - {{type: derived-from, target: {one}}}\n" for one in targets)
    listed = f"relationships:\n{related}" if related else ""
    return (
        f"---\nid: {name}\ntype: semantic\ncreated: 2026-03-{day:02}T00:00:00Z\n"
        f"namespace: _semantic/notes\nproperties: {{}}\n{listed}---\n\nWritten.\n"
    ).encode()


def test_times_are_compared_along_paths_of_a_bundle(shell: Shell, notes: Path) -> None:
    (notes / "talks").mkdir()
    (notes / "session.md").write_bytes(page("s-1", 9))
    (notes / "talks" / "early.md").write_bytes(page("e-1", 1))
    targets = ("/session.md", "session.md", "./talks/early.md", "talks/../session.md#top",
               "urn:mif:s-1", "/elsewhere.md", "../session.md", "/late.md")  # fmt: skip
    (notes / "late.md").write_bytes(page("l-1", 5, *targets))
    (notes / "talks" / "below.md").write_bytes(page("b-1", 5, "/session.md", "../session.md",
                                                    "/talks/early.md", "session.md"))  # fmt: skip
    found = [("late.md", f"/relationships/{at}", None) for at in (0, 1, 3, 4)]
    found += [("below.md", f"/relationships/{at}", None) for at in (0, 1)]
    assert told(shell, notes) == found
    assert sorted(told(shell, *notes.glob("*.md"), *notes.glob("talks/*.md"))) == sorted(found)
    loaded = load_directory(notes, mode="extra").warnings
    orders = [one.pointer for one in loaded if one.rule == "MIF-ORDER"]
    assert orders == [f"/late.md/relationships/{at}" for at in (0, 1, 3, 4)] + [
        f"/talks~1below.md/relationships/{at}" for at in (0, 1)
    ]


def test_the_paths_of_a_bundle_lead_to_its_json_too(shell: Shell, notes: Path) -> None:
    def one(name: str, day: int, **more: Any) -> dict[str, Any]:
        created = f"2026-03-{day:02}T00:00:00Z"
        return MINIMAL_1X | {"@id": f"urn:mif:{name}", "created": created, **more}

    derived = [{"type": "derived-from", "target": "/session.md"}]
    late = one("late", 5, relationships=derived)
    (notes / "session.jsonld").write_bytes(spelled(one("f81d4fae", 9)))
    (notes / "late.jsonld").write_bytes(spelled(late))
    assert told(shell, notes) == [("late.jsonld", "/relationships/0", None)]
    (notes / "session.jsonld").unlink()
    (notes / "late.jsonld").write_bytes(spelled([late, one("session", 9)]))
    assert told(shell, notes) == [("late.jsonld", "/0/relationships/0", None)]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonld", spelled(MINIMAL)), ("a.json", spelled([MINIMAL])), ("a.md", NOTE.encode()),
        ("a.mif.ndjson", spelled(MINIMAL) + b"\n" + spelled(MINIMAL_1X) + b"\n"),
        ("a.jsonld", spelled({"@type": "MemoryCorpus", "records": []})),
    ],
)  # fmt: skip
def test_a_byte_order_mark_is_skipped(
    shell: Shell, tmp_path: Path, name: str, data: bytes
) -> None:
    file, out = tmp_path / name, tmp_path / "out.jsonld"
    file.write_bytes(data)
    plain = formats.load(file)
    file.write_bytes(b"\xef\xbb\xbf" + data)
    marked = formats.load(file)
    assert marked.problems == ()
    records = [one for one in marked.grains if one.type != "state"]
    assert records == [one for one in plain.grains if one.type != "state"]
    exact = formats.load(file, exact=True)
    again = formats.dump(exact, format="mif-ld", exact=True).data
    assert again == file.read_bytes()
    for command in (("validate", file), ("verify", file), ("convert", file, out)):
        assert shell(*command) == 0, shell.err


def test_a_path_says_what_the_command_line_says(shell: Shell, notes: Path) -> None:
    for name, shape in (("a.md", "conceptType"), ("a.memory.md", "memoryType")):
        file = notes / name
        file.write_text(NOTE)
        made = json.loads(
            formats.dump(formats.load(file), format="mif-ld", layout="document").data
        )
        assert shape in made
        assert shell("convert", file, notes / "out.jsonld", "--replace") == 0
        assert json.loads((notes / "out.jsonld").read_bytes()) == made
        (notes / "out.jsonld").unlink()
    asked = formats.load(notes / "a.md", shape="0.1")
    assert b"memoryType" in formats.dump(asked, format="mif-ld", layout="document").data
    (notes / "broken.mif.ndjson").write_bytes(spelled(MINIMAL)[:-1] + b"\n" + spelled(MINIMAL))
    assert len(formats.load(notes / "broken.mif.ndjson", format="mif-ld").problems) == 1


def test_a_directory_is_loaded_as_it_is_by_the_command_line(notes: Path) -> None:
    (notes / "a.jsonld").write_bytes(memory("a"))
    (notes / "b.md").write_text(NOTE)
    found = formats.load(notes, user_id="ada")
    assert found.grains == load_directory(notes, user_id="ada").grains
    assert formats.load(str(notes), format="mif-ld", user_id="ada") == found
    with pytest.raises(SchemaError):
        formats.load(notes, format="mif2")
