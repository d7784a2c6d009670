# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD as a format: converts files of memories to grains and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from omsgrain.errors import SchemaError
from omsgrain.formats.base import Records, Said, Spelling
from omsgrain.formats.convert.base import AS_MEMORIES, NOT_ASKED
from omsgrain.formats.convert.mif_ld import ARRAY, CARRIED, HUB, SAID_BY_TYPE, SHAPE, tree
from omsgrain.formats.document import (
    CHANGED,
    Import,
    Loss,
    Manifest,
    RecordItem,
    check_exact,
    gathered,
    manifest,
    spelled,
)
from omsgrain.formats.json_text import of_bytes, style_of
from omsgrain.formats.mif import Mif, Reads
from omsgrain.formats.mif_ld import document, markdown
from omsgrain.formats.mif_ld.records import (
    FORMAT,
    LIMITS,
    LOCAL,
    TABLE,
    MifLdLimits,
    Shape,
    is_memory,
)
from omsgrain.formats.mif_ld.validate import Mode, judge
from omsgrain.formats.problems import MOST, DocumentError, DocumentFindings, Problem, Verdict
from omsgrain.formats.records import Record, newest, object_of

_ARRAYS: Final = {ARRAY: "memory"}
_EXPORTED: Final = {"/records": "memory"}
_FILES: Final = "files"
_COUNTERS: Final = "volatile"
# Members that identify a memory anywhere in an array or in lines.
_SAYS = re.compile(
    rb'"(?:memoryType|conceptType|citationType)"[ \t\r\n]*:|"@id"[ \t\r\n]*:[ \t\r\n]*"urn:mif:'
    rb'|"@type"[ \t\r\n]*:[ \t\r\n]*(?:\[[^\]]{0,200})?'
    rb'"(?:MemoryCorpus|Memory|Concept|Citation|EntityReference)"'
)
_MEMBERS: Final = ("@type", "@id", "memoryType", "conceptType")


class MifLd(Mif):
    """MIF in JSON-LD: memories, corpora and Markdown files."""

    name = FORMAT
    title = "MIF in JSON-LD"
    suffixes = document.SUFFIXES
    options = frozenset(("layout", "shape"))
    load_options = frozenset(("mode",))
    arrays = _ARRAYS
    hub = HUB
    external = "id"
    spaces = AS_MEMORIES
    leaves_local = True
    reads_directories = True
    carries_vectors = True
    said_by_type = SAID_BY_TYPE
    table = TABLE
    limits = LIMITS
    exported = _EXPORTED
    no_exports = (".md", ".ndjson")
    says_content = False
    in_pieces = False
    counters = True

    def sniff(self, said: Said) -> bool:
        if not said.is_object:
            if markdown.is_markdown(said.data):
                return True
            return said.is_array and _SAYS.search(said.data) is not None
        alike = not said.members.keys().isdisjoint(_MEMBERS)
        return alike and _SAYS.search(said.text) is not None

    def load(
        self,
        data: bytes,
        *,
        mode: Mode = "schema",
        user_id: str | None = None,
        layout: document.Layout | None = None,
        shape: Shape | None = None,
        exact: bool = False,
        strict_published: bool = False,
        limits: MifLdLimits = LIMITS,
    ) -> Import:
        """Make grains of a file of memories of either shape.

        In an array, lines or a corpus, a bad document is skipped and listed in ``problems``.
        """
        sheet = document.read_file(data, layout, limits, shape)
        found = document.taken(sheet, mode=mode, strict_published=strict_published)
        if found.problems and sheet.entry["layout"] in ("document", "markdown"):
            total = judge(sheet.values[0], mode=mode, strict_published=strict_published).total
            raise DocumentError(list(found.problems), total)
        if mode == "extra":
            found = found._replace(warnings=(*found.warnings, *document.in_order([found])))
        text = style = None
        if exact and found.entry["layout"] == "lines":
            if not found.problems:  # with skipped lines, the exact text is useless
                found.entry["text"] = data.decode()
        elif exact and sheet.tree is not None:
            style = style_of(data, sheet.tree)
            text = data if style is None else None
        known = of_bytes(data)
        whole = Manifest(FORMAT, known, {}, {}, style, layout=found.entry["layout"])
        return imported([found], whole, user_id=user_id, text=text)

    def files_in(self, root: Path) -> Iterator[Path]:
        from omsgrain.formats.mif_ld.directory import files_in

        return files_in(root)

    def load_directory(self, root: Path, **options: Any) -> Import:
        from omsgrain.formats.mif_ld.directory import load_directory

        return load_directory(root, **options)

    def options_of_file(self, name: str, data: bytes) -> dict[str, Any]:
        from omsgrain.formats.mif_ld.directory import layout_of_file, shape_of_name

        return {"layout": layout_of_file(name, data), "shape": shape_of_name(name)}

    def left_out(self, found: Import) -> list[Loss]:
        return [Loss(one.pointer, of, f"it was skipped: {one.rule}")
                for of, listed in (("record", found.problems), ("citation", found.dropped))
                for one in listed]  # fmt: skip

    def write_file(
        self, read: Import, path: Path, options: dict[str, Any], *, replace: bool
    ) -> list[Loss]:
        from omsgrain.formats.mif_ld.directory import write_path

        wanted = {name: value for name, value in options.items() if value is not None}
        wanted.pop("producer", None)
        return write_path(read, path, wanted, replace=replace)

    def check_file(self, file: Path, passphrase: str | None = None) -> DocumentFindings:
        data = self.read_bytes(file)
        sheet = document.read_file(data, **self.options_of_file(file.name, data))
        found = document.taken(sheet, mode="extra")
        records = {"memories": len(found.values)}
        total, warnings = len(found.problems), (*found.warnings, *document.in_order([found]))
        return DocumentFindings(
            str(file), self.name, records, found.problems[:MOST], total, warnings[:MOST]
        )

    def validate(self, data: bytes, passphrase: str | None) -> Verdict:
        found = document.taken(document.read_file(data), mode="extra")
        return Verdict((), found.problems, found.warnings, len(found.problems))

    def kept_options(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        return {"shape": envelope[SHAPE]} if SHAPE in envelope else {}

    def carry(self, record: Record, member: dict[str, Any]) -> None:
        record["extensions"] = {CARRIED: member}

    def carry_beside(self, envelope: dict[str, Any], grains: dict[str, str]) -> None:
        whole = envelope[_FILES][0]["corpus"]
        whole["extensions"] = {CARRIED: {"grains": grains}}

    def without_embedding(self, record: Record) -> tuple[Record, list[Loss]]:
        if not is_memory(record) or "embedding" not in record:
            return record, []
        left = {name: value for name, value in record.items() if name != "embedding"}
        return left, [Loss(record["@id"], "embedding", NOT_ASKED)]

    def together(self, envelope: dict[str, Any], arrays: Records) -> dict[str, Any]:
        return tree(envelope, arrays)

    def record_at(self, pointer: str) -> tuple[str, str]:
        return document.document_of(pointer), "memory"

    def order(self, pointer: str) -> list[tuple[int, str]]:
        steps = pointer.split("/")
        return [(len(step), step) if step.isdecimal() else (0, step) for step in steps]

    def reads_of(
        self, envelope: Mapping[str, Any], id: str | None, record: Callable[[], Record]
    ) -> Reads | None:
        said = object_of(document.with_counters(envelope, record()), "temporal")
        return Reads.of(said.get("accessCount"), said.get("lastAccessed"))

    def with_reads(self, record: Record, kind: str, reads: Mapping[str, Reads]) -> Record:
        found = reads.get(record.get("@id", ""))
        if found is None:
            return record
        said = object_of(record, "temporal")
        temporal = found.said_in(said, "accessCount", "lastAccessed")
        return {**record, "temporal": temporal} if temporal else record

    def spelled(
        self, made: dict[str, Any], own: Manifest | None, how: Spelling
    ) -> tuple[bytes, list[Loss]]:
        layout, shape, exact, local, get = how
        losses: list[Loss] = []
        files = files_of(made, local, losses)
        values = in_shape((one for file in files for one in file.values), shape, losses)
        alone = len(files) == 1 and files[0].entry["layout"] in ("document", "markdown")
        if alone and not values:
            raise SchemaError(document.STAYS, field="/local", expected="local=True")
        entry = _entry([file.entry for file in files], values, layout)
        changed = layout not in (None, entry["layout"])
        if changed and layout is not None:
            entry = document.entry(layout, values)
        by_itself = "text" in entry or entry["layout"] == "markdown"
        check_exact(own, exact=exact and not (by_itself and own is not None and not changed))
        if own is not None and not changed and entry["layout"] not in ("lines", "markdown"):
            return spelled(own, document.tree(entry, values), get, exact=exact), losses
        data, lost = document.write_file(entry, values)
        if exact and data != str(entry.get("text", data.decode())).encode():
            raise SchemaError(CHANGED, field="/exact")
        return data, losses + [Loss(*one) for one in lost]


MIF_LD: Final = MifLd()


def _entry(
    files: Sequence[dict[str, Any]], values: list[Any], layout: document.Layout | None
) -> dict[str, Any]:
    if layout in ("document", "markdown") and len(values) != 1:
        raise SchemaError(
            "the layout allows only one memory", field="/layout", found=f"{len(values)} of them"
        )
    return files[0] if len(files) == 1 else document.corpus(values)


# -- grains ---------------------------------------------------------------------------------------


def imported(
    files: Sequence[document.Sheet],
    whole: Manifest,
    *,
    user_id: str | None,
    text: bytes | None = None,
) -> Import:
    bare, counters = document.apart(value for file in files for value in file.values)
    items = [
        RecordItem("memory", one) if is_memory(one) else RecordItem("other", {"value": one})
        for one in bare
    ]
    made = gathered(TABLE, {ARRAY: items}, user_id, lambda item: None)
    envelope: dict[str, Any] = {_FILES: [file.entry for file in files]}
    if counters:
        envelope[_COUNTERS] = counters
    whole = replace(whole, envelope=envelope, arrays=made.arrays)
    last = newest(made.grains.values())
    more = manifest(whole, created_at=last, user_id=user_id, text=text)
    warnings = _bounded(one for file in files for one in file.warnings)
    problems = _bounded(one for file in files for one in file.problems)
    dropped = _bounded(one for file in files for one in file.dropped)
    places = tuple(_place(*one) for file in files for one in file.places)
    grains = [*made.grains.values(), *more]
    return Import(FORMAT, grains, {}, warnings, problems, dropped, places)


def _place(pointer: str, line: int | None) -> str:
    """Return the pointer of a document; for lines, with an index that starts at 0."""
    return pointer if line is None or not pointer else f"{pointer}/{line - 1}"


def _bounded(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first thousand problems, and one that counts the rest."""
    found = list(problems)
    if len(found) <= MOST:
        return tuple(found)
    rest = Problem("more", "", "there are more", found=f"{len(found) - MOST} more")
    return (*found[:MOST], rest)


def files_of(made: Mapping[str, Any], local: bool, losses: list[Loss]) -> list[document.Sheet]:
    """The files of a document, without memories that are not exported."""
    at, given, files = 0, made["memories"], []
    for entry in made[_FILES]:
        values = given[at : at + entry["count"]]
        at += entry["count"]
        stays = [not local and is_local(value) for value in values]
        if any(stays):
            losses += [Loss(str(value.get("@id")), "memory", document.STAYS)
                       for value, one in zip(values, stays, strict=True) if one]  # fmt: skip
            entry = document.shrunk(entry, [not one for one in stays])
            values = [value for value, one in zip(values, stays, strict=True) if not one]
        files.append(document.Sheet(entry, values))
    if at != len(given):
        raise SchemaError("the manifest does not match its documents", found=f"{at} of them")
    return files


def in_shape(values: Iterable[Any], shape: Shape | None, losses: list[Loss]) -> list[Any]:
    if shape is None:
        return list(values)
    made = []
    for value in values:
        if is_memory(value):
            value, lost = document.reshaped(value, shape)
            losses += [Loss(*one) for one in lost]
        made.append(value)
    return made


def is_local(value: Any) -> bool:
    """Whether a memory's namespace is `_local`, which is not exported."""
    namespace = value.get("namespace") if isinstance(value, dict) else None
    return isinstance(namespace, str) and (namespace == LOCAL or namespace.startswith(f"{LOCAL}/"))
