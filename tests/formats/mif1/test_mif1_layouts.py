# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 in YAML and by lines: what is read in them, and what is refused."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given

from omsgrain import formats
from omsgrain.errors import UnsupportedError
from omsgrain.formats import DocumentError, sniff
from omsgrain.formats import yaml as yaml_reader
from omsgrain.formats import yaml as yaml_writer
from omsgrain.formats.document import lift
from omsgrain.formats.mif import Parsed
from omsgrain.formats.mif1 import document as layouts
from omsgrain.formats.mif1 import json_lines
from omsgrain.formats.mif1.check import ARRAYS, Mif1Limits
from omsgrain.formats.mif1.format import MIF1
from support.edited_documents import rules
from support.mif1_documents import DOCUMENTS, EXAMPLES, MINIMAL, PUBLISHED, SEP
from support.mif2_documents import ANY

HEAD = b"mif_version: '1.0'\n"


def read_yaml(data: bytes, document: int = 1 << 20, depth: int = 64, aliases: int = 10_000) -> Any:
    return yaml_reader.read(data, most=document, depth=depth, aliases=aliases)


def refused(data: bytes, **limits: int) -> tuple[str, str]:
    with pytest.raises(DocumentError) as caught:
        read_yaml(data, **limits)
    return caught.value.problems[0].rule, caught.value.problems[0].pointer


# -- YAML -----------------------------------------------------------------------------------------

PERSON = b"""\
# as a person would write it
mif_version: 1.0
export: {id: exp_1, created_at: 2026-01-03T10:45:00.000Z, user_id: no}
memories:
  - id: mem_1
    content: on
    type: Learning
    created_at: 2026-01-02
    tags: [no, yes, off, 12:30:45, 2026-01-02, 1_000, 0777, '7', "7", !!str 7, 0o7]
    importance: .5
    x: [7, +7, 0x1F, 0o17, 1e3, 1.5e-07, -.5, ~, null, true, FALSE, "", '', 007]
  - id: mem_2
    content: >
      folded
      text
    type: Task
    created_at: !!str 2026-01-02T10:00:00Z
"""


def test_a_person_s_yaml() -> None:
    read = read_yaml(PERSON)
    first, second = read["memories"]
    assert (read["mif_version"], read["export"]["user_id"]) == (1.0, "no")
    assert read["export"]["created_at"] == "2026-01-03T10:45:00.000Z"
    assert (first["content"], first["created_at"]) == ("on", "2026-01-02")
    words = ["no", "yes", "off", "12:30:45", "2026-01-02", "1_000"]
    assert first["tags"] == [*words, 777, "7", "7", "7", 7]
    values = [7, 7, 31, 15, 1000.0, 1.5e-07, -0.5, None, None, True, False, "", "", 7]
    assert json.dumps(first["x"]) == json.dumps(values)
    assert second["content"] == "folded text\n"
    loaded = MIF1.load(PERSON.replace(b" 0777,", b"").replace(b", 0o7]", b"]"))
    assert (loaded.problems, sniff(PERSON)) == ((), "mif1")
    assert {grain["user_id"] for grain in loaded.grains} == {"no"}


@pytest.mark.parametrize("whole", EXAMPLES)
def test_every_reader_reads_the_written_document_alike(whole: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_writer.write(whole)) == whole


@given(ANY)
def test_any_value_comes_back_from_yaml(value: Any) -> None:
    whole = {"x": value, "y" * 2_000: [value, [value]], "": {"": value}}
    written = yaml_writer.write(whole)
    assert json.dumps(read_yaml(written)) == json.dumps(whole)
    # YAML 1.1 has no exponent without a sign; all else is the same there.
    assert yaml.safe_load(written) == whole


@pytest.mark.parametrize(("text", "pointer"), [
    (b"a: 1\na: 2\n", "/a"),
    (b"m:\n- x: 1\n  x: 2\n", "/m/0/x"),
    (b"a: .nan\n", "/a"),
    (b"a: [1, -.Inf]\n", "/a/1"),
    (b"a: 1e999\n", "/a"),
    (b"a: 1" + b"0" * 400, "/a"),
    (b"a: !!binary aGk=\n", "/a"),
    (b"a: !!python/object:os.system x\n", "/a"),
    (b"a: !!timestamp 2026-01-02\n", "/a"),
    (b"a: !!int x\n", "/a"),
    (b"a: !mine [1]\n", "/a"),
    (b"base: &b {x: 1}\na:\n  <<: *b\n", "/a"),
    (b"? [1]\n: 2\n", ""),
    (b"? {a: 1}\n: 2\n", ""),
    (b"a: &x [1]\n? *x\n: 1\n", ""),
    (b"a: &a [*a]\n", "/a/0"),
    (b"a: *b\n", "/a"),
    (b"a: 1\n---\nb: 2\n", ""),
    (b"a: [1\n", ""),
    (b"a: '\n", ""),
    (b"a: \"\\ud800\"\n", ""),
    (b"\ta: 1\n", ""),
    (b"a: \x00\n", ""),
    (b"a: \xff\n", ""),
    (b"", ""),
    (b"# nothing\n", ""),
])  # fmt: skip
def test_yaml_that_is_not_certain(text: bytes, pointer: str) -> None:
    assert refused(text) == ("not_yaml", pointer)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_yaml_reads_the_same_without_its_library(
    monkeypatch: pytest.MonkeyPatch, loader: str
) -> None:
    if loader == "SafeLoader":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read_yaml(yaml_writer.write(SEP)) == SEP
    assert refused(b'a: "\\ud800"\n') == ("not_yaml", "/a" if loader == "SafeLoader" else "")


def test_yaml_that_costs_too_much() -> None:
    laughs = b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 10)
    )
    assert refused(laughs)[0] == "not_yaml"
    deep = b"".join(b"a%d: &a%d [*a%d]\n" % (i, i, i - 1) for i in range(1, 200))
    assert refused(b"a0: &a0 [x]\n" + deep)[0] == "too_deep"
    assert refused(b"a: " + b"[" * 100_000)[0] == "too_deep"
    assert refused(b"a: " + b"{a: " * 100_000)[0] == "too_deep"
    block = b"".join(b"%s-\n" % (b" " * i) for i in range(500))
    assert refused(b"a:\n" + block)[0] == "too_deep"
    assert refused(b"a: 1\n" * 100, document=50) == ("too_large", "")
    repeated = b"a: &a [1, 2, 3]\nb: [*a, *a]\n"
    assert read_yaml(repeated)["b"] == [[1, 2, 3]] * 2
    assert refused(repeated, aliases=7) == ("not_yaml", "/b/1")
    # Few values can be long ones: written out they are no larger than a document may be.
    for long in (b"a: &a " + b"x" * 500, b"a: &a {" + b"x" * 500 + b": 1}"):
        assert refused(long + b"\nb: [*a, *a]\n", document=1_500) == ("too_large", "")
        assert len(read_yaml(long + b"\nb: [*a, *a]\n", document=1_600)["b"]) == 2


def test_where_a_yaml_text_is_wrong() -> None:
    with pytest.raises(DocumentError) as caught:
        read_yaml(HEAD + b"memories:\n- id: x\n  id: y\n")
    problem = caught.value.problems[0]
    assert (problem.pointer, problem.line) == ("/memories/0/id", 4)


def test_yaml_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(UnsupportedError) as caught:
        MIF1.load(HEAD)
    assert "'formats'" in (caught.value.expected or "")
    assert yaml_writer.write(MINIMAL)  # asks for nothing


# -- by lines -------------------------------------------------------------------------------------

DRAFT = [
    b'{"type": "header", "mif_version": "1.0", "export": {"id": "exp_1", "user_id": "u"}}\n',
    b'{"type": "memory", "data": {"id": "m", "content": "c", "type": "Task", '
    b'"created_at": "2026-01-02T00:00:00Z"}}\n',
    b'{"type": "todo", "data": {"id": "t", "content": "c", "status": "todo", '
    b'"created_at": "2026-01-02T00:00:00Z"}}\n',
    b'{"type": "graph_edge", "data": {"source": "m", "target": "t", "weight": 1, '
    b'"type": "causal"}}\n',
    b'{"type": "footer", "checksum": "sha256:00", "counts": {"memories": 1, "todos": 1, '
    b'"edges": 1}}\n',
]


def by_lines(lines: list[bytes], **limits: int) -> Parsed:
    return layouts.parse(b"".join(lines), "jsonl", Mif1Limits(**limits))


def fault(lines: list[bytes], **limits: int) -> tuple[str, int | None]:
    with pytest.raises(DocumentError) as caught:
        by_lines(lines, **limits)
    return caught.value.problems[0].rule, caught.value.problems[0].line


def test_the_lines_of_the_draft() -> None:
    read = by_lines(DRAFT)
    assert list(read.document) == ["mif_version", "export", "memories", "todos", "graph"]
    assert len(read.document["graph"]["edges"]) == 1
    assert rules(read.warnings) == [("unknown_checksum", "/checksum")]
    assert MIF1.load(b"".join(DRAFT)).problems == ()
    assert sniff(b"".join(DRAFT)) == "mif1"


def test_a_small_document_has_a_small_header() -> None:
    first, *others = layouts.spell(PUBLISHED, "jsonl").splitlines()
    header = json.loads(first)
    assert list(header) == ["type", "mif_version", "export", "graph", "metadata"]
    assert list(header["graph"]) == ["hebbian_config"]
    kinds = [json.loads(line)["type"] for line in others]
    assert kinds == ["memory"] * 2 + ["todo"] + ["graph_node"] * 2 + ["graph_edge"] * 2 + [
        "footer"
    ]
    footer = json.loads(others[-1])
    digest = hashlib.sha256(b"\n".join([first, *others[:-1], b""])).hexdigest()
    assert (footer["checksum"], footer["checksum_of"]) == (f"sha256:{digest}", "lines")
    assert footer["counts"] == {"memories": 2, "todos": 1, "graph_nodes": 2, "graph_edges": 2}


OURS = layouts.spell(PUBLISHED, "jsonl").splitlines(keepends=True)


@pytest.mark.parametrize(("lines", "rule", "line"), [
    ([], "no_header", 1),
    ([b"\n"], "no_header", 1),
    (OURS[1:], "no_header", 1),
    ([b"{\n", *OURS[1:]], "not_json", 1),
    (OURS[:-1], "no_footer", 8),
    (OURS[:1], "no_footer", 1),
    ([*OURS[:-1], OURS[-1][:-9]], "no_footer", 9),
    ([*OURS[:2], *OURS[3:]], "count_mismatch", 8),
    ([*OURS[:2], OURS[1], *OURS[2:]], "count_mismatch", 10),
    ([OURS[0], OURS[2], OURS[1], *OURS[3:]], "checksum_mismatch", 9),
    ([OURS[0] + b"\n", *OURS[1:]], "checksum_mismatch", 10),
    ([*DRAFT[:2], b'{"type":"footer","counts":{"memory":"1"}}'], "count_mismatch", 3),
    ([DRAFT[0][:-2] + b',"graph":7}\n', *DRAFT[1:]], "invalid_type", 1),
])  # fmt: skip
def test_lines_that_were_cut_or_changed(lines: list[bytes], rule: str, line: int) -> None:
    assert fault(lines) == (rule, line)


@pytest.mark.parametrize("line", [
    b"{\n",
    b'{"type":"vision","data":{}}\n',
    b'{"type":"memory"}\n',
    b'{"type":7,"data":{}}\n',
    b"[]\n",
    b'{"type":"memory","data":NaN}\n',
    b'"' + b"x" * 5_000_000 + b'"\n',
])  # fmt: skip
def test_a_bad_line_is_skipped_and_reported(line: bytes) -> None:
    lines = [*DRAFT[:2], line, *DRAFT[2:]]
    read = by_lines(lines, line=1_000_000)
    assert [(one.line, read.left_out) for one in read.problems] == [(3, 1)]
    loaded = MIF1.load(b"".join(lines), limits=Mif1Limits(line=1_000_000))
    assert [one.line for one in loaded.problems] == [3]
    assert len(json.loads(formats.dump(loaded, format="mif1", layout="json").data)["todos"]) == 1


def test_a_bad_record_is_reported_with_its_line() -> None:
    lines = [DRAFT[0], b'{"type":"memory","data":7}\n', *DRAFT[2:]]
    verdict = MIF1.validate(b"".join(lines))
    assert [(p.rule, p.pointer, p.line) for p in verdict.problems] == [
        ("not_object", "/memories/0", 2)
    ]


def test_data_after_the_footer_is_reported() -> None:
    read = by_lines([*DRAFT, DRAFT[1]])
    assert [(one.rule, one.line) for one in read.problems] == [("unknown_line", 6)]
    more = by_lines([*DRAFT[:1], DRAFT[1][:-2] + b',"seq":1}\n', b'{"type":"footer"}'])
    assert rules(more.warnings) == [("line_member", "")]


def test_lines_are_written_in_little_memory() -> None:
    memory = MINIMAL["memories"][0] | {"content": "x" * 10_000}
    header = {name: value for name, value in MINIMAL.items() if name != "memories"}
    many: Iterator[tuple[Any, Any]] = (("memory", memory) for _ in range(2_000))
    tracemalloc.start()
    count = sum(1 for _ in json_lines.write(header, many))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2_002
    assert peak < 1_000_000  # of 20 MB


@given(DOCUMENTS)
def test_the_header_and_the_records_are_the_document(whole: dict[str, Any]) -> None:
    header = json_lines.header_of(whole)
    arrays = {pointer: array for pointer, array in lift(whole, ARRAYS)[1].items() if array}
    assert json.dumps(json_lines.assembled(header, arrays)) == json.dumps(whole)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_keep_their_checksum_with_other_line_ends(mark: bytes, end: bytes) -> None:
    data = mark + layouts.spell(SEP, "jsonl").replace(b"\n", end)
    assert end in data
    found = formats.load(data)
    assert (found.format, found.problems) == ("mif1", ())
    assert formats.dump(formats.load(data, exact=True), format="mif1", exact=True).data == data
    changed = data.replace(b'"type":"memory"', b'"type" :"memory"', 1)
    assert changed != data
    with pytest.raises(DocumentError) as error:
        formats.load(changed)
    assert [one.rule for one in error.value.problems] == ["checksum_mismatch"]


def test_a_line_that_is_too_long_keeps_the_checksum_too() -> None:
    long = MINIMAL | {"memories": [MINIMAL["memories"][0] | {"content": "x" * 2_000}]}
    lines = layouts.spell(long, "jsonl").replace(b"\n", b"\r\n")
    sizes = [len(line) + 1 for line in lines.split(b"\n")]
    for most in (*range(max(sizes[0], sizes[2]), sizes[1], 97), sizes[1] - 2, sizes[1] - 1):
        read = json_lines.read(lines, Mif1Limits(line=most))  # or the checksum would be wrong
        assert [one.rule for one in read.problems] == ["too_large"]
        assert "memories" not in read.document
