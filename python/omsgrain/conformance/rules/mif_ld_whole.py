# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD, level 3: the words of errors, and memories in files and stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from omsgrain import formats
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.edits import GONE, edited
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.documents import spelled
from omsgrain.conformance.rules.memories import LATER, LEAST, LEAST_LATER, MEMORY
from omsgrain.conformance.rules.mif_ld import judge
from omsgrain.formats.mif_ld import validate
from omsgrain.interchange import mif

_1: Final = Table("mif-ld", 1)
_3: Final = Table("mif-ld", 3)

# the words of errors


@_3("errors", "Errors", "The four errors of the reference are said in its words")
def _errors(_: Bench) -> Iterator[Tried]:
    for pointer, value, phrase in (
        ("/@id", "demo", "must match pattern"), ("/memoryType", "fact", "must be equal to one of"),
        ("/created", "yesterday", "must match format"), ("/namespace", "a.b",
                                                         "must match pattern"),
    ):  # fmt: skip
        (found,) = validate.judge(edited(LEAST, {pointer: value})).findings
        yield Tried(f"{pointer}: {value}", True, phrase in found.message)
        yield Tried("how it is mended", True, bool(getattr(found, "hint", "")))


# files


@_1(
    "round",
    "Required fields",
    "A memory becomes a grain and comes back equal, with the order of its keys",
)
def _round(_: Bench) -> Iterator[Tried]:
    for what, whole in (
        ("the least", LEAST), ("every part that is printed", MEMORY), ("1.x, the least",
                                                                       LEAST_LATER),
        ("1.x with documents", LATER),
        ("null beside absent", edited(MEMORY, {"/temporal/validUntil": None,
                                               "/temporal/validFrom": GONE})),
        ("times as spelled", edited(LEAST, {"/created": "2026-03-01t08:00:00.123456+00:00"})),
        ("1 and 1.0", edited(MEMORY, {"/relationships/0/strength": 1})),
        ("text that is not composed", edited(LEAST, {"/content": "Cafe\u0301", "/e\u0301": "x"})),
        ("before 1970", edited(LEAST, {"/created": "1843-12-10T00:00:00Z"})),
        ("nulls in extensions", edited(LEAST, {"/extensions": {"a": None, "b": [None, {}]}})),
    ):  # fmt: skip
        again = formats.dump(formats.load(spelled(whole), format="mif-ld"), format="mif-ld").data
        yield Tried(what, json.dumps(whole), json.dumps(json.loads(again)))


_MARKDOWN: Final = """\
---
id: use-sqlite
type: semantic
created: 2026-01-26T10:00:00Z
namespace: _semantic/decisions
tags: [storage, no]
temporal:
  valid_from: 2026-01-26T00:00:00Z
provenance:
  source_type: user_explicit
---
# Storage

We use SQLite.

## Relationships

- supersedes [[use-files]]

## Entities

- @[[SQLite|Technology]]
"""


@_1("markdown", "Files", "Markdown with its frontmatter is read as the memory that it is")
def _markdown(_: Bench) -> Iterator[Tried]:
    found = formats.load(_MARKDOWN.encode(), format="mif-ld")
    again = formats.dump(found, format="mif-ld").data.decode()
    yield Tried("written again", _MARKDOWN, again)
    grain = next(g for g in found.grains if g.type == "belief")
    yield Tried(
        "its namespace and tags",
        ("_semantic/decisions", ["storage", "no"]),
        (grain.get("namespace"), list(grain.get("structural_tags", []))),
    )


@_1(
    "grain.types",
    "Base types",
    "semantic becomes a belief, episodic an event, procedural a workflow",
)
def _grains(_: Bench) -> Iterator[Tried]:
    for word, expected in (
        ("semantic", "belief"),
        ("episodic", "event"),
        ("procedural", "workflow"),
    ):
        found = formats.load(spelled(LEAST | {"memoryType": word}), format="mif-ld")
        yield Tried(word, expected, found.grains[0].type)


@_1(
    "same-address",
    "Required fields",
    "The same document gives the same grains, whenever it is read",
)
def _same(_: Bench) -> Iterator[Tried]:
    one, other = (
        formats.load(spelled(MEMORY), format="mif-ld").grains[0].address for _ in range(2)
    )
    yield Tried("read twice", one, other)
    more = edited(MEMORY, {"/temporal/accessCount": 6})
    grain = formats.load(spelled(more), format="mif-ld").grains[0]
    yield Tried("read once more often: the same grain", one, grain.address)


@_3(
    "store",
    "Files",
    "Memories imported into a store are exported equal",
)
def _store(bench: Bench) -> Iterator[Tried]:
    store = bench.store()
    mif.import_document(store, spelled([MEMORY, LATER]), user_id="ada", format="mif-ld")
    dump, _ = mif.export_document(store, "ada", format="mif-ld", now=NOW, include_embeddings=True)
    text = dump.data
    yield Tried("of shape 0.1", True, MEMORY in _documents(text))
    yield Tried("of shape 1.x", True, LATER in _documents(text))


def _documents(text: bytes) -> list[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(whole, list):
        return whole
    records = whole.get("records", whole.get("memories")) if isinstance(whole, dict) else None
    if records is None:
        return [whole]
    return [one.get("payload", one) for one in records]


@_3(
    "local",
    "Basic metadata",
    "What stands in the namespace _local does not leave, unless it is asked for",
)
def _local(_: Bench) -> Iterator[Tried]:
    found = formats.load(spelled(LEAST | {"namespace": "_local/x"}), format="mif-ld")
    yield refuses("by default", "ERR_SCHEMA", lambda: formats.dump(found, format="mif-ld"))
    asked = formats.dump(found, format="mif-ld", local=True)
    yield Tried("asked for", True, b"The garden is watered" in asked.data)


@_3("offline", "Files", "Schemas are in the package: validating asks no network")
def _offline(_: Bench) -> Iterator[Tried]:
    schemas = Path(validate.__file__).with_name("schemas")
    yield Tried("schemas at hand", True, len(list(schemas.glob("*.json"))) >= 5)
    yield Tried(
        "an entity reference by its own schema",
        [],
        judge(spelled(MEMORY["entities"][0]), kind="entity-reference"),
    )


@_3("refused", "Errors", "A document that is no good memory is refused whole")
def _refused(_: Bench) -> Iterator[Tried]:
    yield refuses(
        "an @id of another form",
        "MIF-ID",
        lambda: formats.load(spelled(LEAST | {"@id": "x"}), format="mif-ld"),
    )
    yield takes("a good one", lambda: formats.load(spelled(LEAST), format="mif-ld"))


RULES: Final = [*_1.rules, *_3.rules]
