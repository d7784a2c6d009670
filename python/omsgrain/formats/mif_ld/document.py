# SPDX-License-Identifier: Apache-2.0
"""Reads and writes files of memories, in five layouts.

    document    one memory, citation, ontology or entity reference
    array       a JSON array of documents
    lines       one document a line (NDJSON)
    corpus      a MemoryCorpus, whose records have a kind and a payload
    markdown    one memory: front matter and content

A manifest describes each file by an object: its ``layout``, its number of documents (``count``),
the data around them, and its ``path`` if there are several files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import groupby, repeat
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats import json_text
from omsgrain.formats.document import KIND, Loss, open_manifest
from omsgrain.formats.json_text import COMPACT, pointer_to, spell, steps_of
from omsgrain.formats.mif_ld import lint, markdown
from omsgrain.formats.mif_ld.markdown import KEBAB, PASCAL, URN, lost
from omsgrain.formats.mif_ld.records import (
    CONTEXT,
    FORMAT,
    LIMITS,
    LOCAL,
    VOLATILE,
    Kind,
    MifLdLimits,
    Shape,
    is_memory,
    kind_of,
    shape_of,
)
from omsgrain.formats.mif_ld.validate import (
    PAYLOAD,
    RECORDS,
    Mode,
    array_of,
    corpus_defects,
    is_of_another_kind,
    judge,
    mended,
    records_of,
)
from omsgrain.formats.problems import MOST, DocumentError, Problem
from omsgrain.formats.records import Record
from omsgrain.formats.source import Difference, Source, apply, getter, same
from omsgrain.grain import Grain

SUFFIXES: Final = (".mif.jsonld", ".memory.json", ".memory.md", ".jsonld", ".mif.ndjson", ".md")
Layout: TypeAlias = Literal["document", "array", "lines", "corpus", "markdown"]
CORPUS: Final = "MemoryCorpus"
_LINE = re.compile(rb"\n[ \t\r]*[{]")


class Sheet(NamedTuple):
    entry: dict[str, Any]  # its entry in the manifest
    values: list[Any]  # the documents
    # the pointer of each document, and its line for the layout lines
    places: Sequence[tuple[str, int | None]] = ()
    tree: Any = None  # the whole JSON value; None for other layouts
    problems: tuple[Problem, ...] = ()  # unreadable lines, and why documents were refused
    warnings: tuple[Problem, ...] = ()  # defects that are accepted with a warning
    dropped: tuple[Problem, ...] = ()  # parts that were left out of the documents


def layout_of(data: bytes) -> Layout:
    if markdown.is_markdown(data):
        return "markdown"
    data = data.removeprefix(json_text.MARK)
    if data.lstrip().startswith(b"["):
        return "array"
    return "lines" if _is_lines(data) else "document"


def read_file(
    data: bytes,
    layout: Layout | None = None,
    limits: MifLdLimits = LIMITS,
    shape: Shape | None = None,
) -> Sheet:
    layout = layout or layout_of(data)
    if layout == "markdown":
        return _markdown(data, limits, shape)
    return _lines(data, limits) if layout == "lines" else _json(data, limits)


def _counted(count: int, limits: MifLdLimits) -> None:
    """Refuse too many documents before processing them."""
    if count > limits.documents:
        raise json_text.too_large(f"{limits.documents} documents", f"{count} documents")


def _json(data: bytes, limits: MifLdLimits) -> Sheet:
    tree = limits.parse(data)
    if isinstance(tree, list):
        _counted(len(tree), limits)
        entry = {"layout": "array", "count": len(tree)}
        return Sheet(entry, tree, [(f"/{i}", None) for i in range(len(tree))], tree)
    if kind_of(tree) == "corpus" and isinstance(tree.get(array_of(tree)), list):
        _counted(len(tree[array_of(tree)]), limits)
        return _corpus(tree)
    return Sheet({"layout": "document", "count": 1}, [tree], [("", None)], tree)


def tree(entry: dict[str, Any], values: Sequence[Any]) -> Any:
    layout = entry.get("layout")
    if layout == "document" and len(values) == 1:
        return values[0]
    if layout == "array":
        return list(values)
    if layout == "corpus" and isinstance(entry.get("corpus"), dict):
        return entry["corpus"] | {array_of(entry["corpus"]): list(_wrapped(entry, values))}
    raise FormatError("the entry of a file does not match its documents", rule="manifest")


def write_file(
    entry: dict[str, Any], values: Sequence[Any]
) -> tuple[bytes, list[tuple[str, str, str]]]:
    layout = entry.get("layout")
    if layout == "lines":
        text = entry.get("text")
        if isinstance(text, str) and same([json.loads(x) for x in _said(text)], list(values)):
            return text.encode(), []
        return b"".join(spell(value) + b"\n" for value in values), []
    if layout != "markdown":
        return spell(tree(entry, values), COMPACT), []
    if len(values) != 1 or not isinstance(values[0], dict):
        raise SchemaError("a Markdown file holds one memory", found=f"{len(values)} documents")
    text, shape = entry.get("text"), shape_of(values[0])
    if isinstance(text, str) and same(markdown.read(text, entry.get("shape"))[0], values[0]):
        return text.encode(), []
    written, losses = markdown.write(values[0], shape)
    return written.encode(), losses


def corpus(values: Sequence[Any]) -> dict[str, Any]:
    whole = {"@context": CONTEXT, "@type": CORPUS, RECORDS: []}
    runs = [[len(list(run)), wrapper] for wrapper, run in groupby(map(_wrapper, values))]
    return {"layout": "corpus", "count": len(values), "corpus": whole, "runs": runs}


def entry(layout: Layout, values: Sequence[Any]) -> dict[str, Any]:
    return corpus(values) if layout == "corpus" else {"layout": layout, "count": len(values)}


def shrunk(entry: dict[str, Any], stay: Sequence[bool]) -> dict[str, Any]:
    smaller = {key: value for key, value in entry.items() if key != "text"}
    smaller["count"] = sum(stay)
    if "runs" in entry:
        at, runs = 0, []
        for count, wrapper in entry["runs"]:
            left = sum(stay[at : at + count])
            runs += [[left, wrapper]] if left else []
            at += count
        smaller["runs"] = runs
    return smaller


def _corpus(tree: dict[str, Any]) -> Sheet:
    values: list[Any] = []
    places: list[tuple[str, int | None]] = []
    runs: list[list[Any]] = []
    for way, value, wrapper, _ in records_of(tree):
        values.append(value)
        places.append((pointer_to(way), None))
        if runs and (runs[-1][1] is wrapper or same(runs[-1][1], wrapper)):
            runs[-1][0] += 1
        else:
            runs.append([1, wrapper])
    whole = tree | {array_of(tree): []}
    entry = {"layout": "corpus", "count": len(values), "corpus": whole, "runs": runs}
    return Sheet(entry, values, places, tree)


def _wrapped(entry: dict[str, Any], values: Sequence[Any]) -> Iterator[Any]:
    at = 0
    for count, wrapper in entry.get("runs", ()):
        for value in values[at : at + count]:
            yield value if wrapper is None else wrapper | {PAYLOAD: value}
        at += count
    for value in values[at:]:
        yield {"kind": "memory", PAYLOAD: value}


def _wrapper(value: Any) -> dict[str, Any] | None:
    """Return the corpus record around a document; None if the document is itself a record."""
    kind = "memory" if is_memory(value) else kind_of(value)
    return None if kind is None or is_of_another_kind(value) else {"kind": kind, PAYLOAD: None}


# -- by lines, and Markdown -----------------------------------------------------------------------


def _is_lines(data: bytes) -> bool:
    """Whether the first line is a whole object and more lines follow."""
    if _LINE.search(data) is None:
        return False
    first, _, _ = data.lstrip().partition(b"\n")
    return isinstance(json_text.looked_into(first), dict)


def _said(text: str) -> list[str]:
    lines = text.removeprefix("\ufeff").split("\n")
    return [line for line in lines if line.strip()]


def _lines(data: bytes, limits: MifLdLimits) -> Sheet:
    json_text.bounded(data, limits.document, limits.values)
    values: list[Any] = []
    places: list[tuple[str, int | None]] = []
    problems: list[Problem] = []
    for number, line in enumerate(BytesIO(data), 1):
        if not line.strip():
            continue
        _counted(len(values) + len(problems) + 1, limits)
        try:
            value = limits.parse(line)
        except DocumentError as error:
            problems.append(replace(error.problems[0], line=number))
            continue
        values.append(value)
        places.append(("", number))
    entry = {"layout": "lines", "count": len(values)}
    return Sheet(entry, values, places, problems=tuple(problems))


def _markdown(data: bytes, limits: MifLdLimits, shape: Shape | None) -> Sheet:
    document, shape, warnings = markdown.read_bytes(data, limits, shape)
    text = data.decode()
    entry: dict[str, Any] = {"layout": "markdown", "count": 1, "shape": shape}
    try:
        again = markdown.write(document, shape)[0]
    except (DocumentError, KeyError, TypeError, AttributeError, ValueError):
        again = ""  # the memory is invalid and will be refused
    return Sheet(
        entry if again == text else entry | {"text": text},
        [document],
        [("", None)],
        warnings=warnings,
    )


_OURS: Final = "omsgrain:"
"""Prefix for a relationship type that shape 0.1 does not define."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PREFIXED = re.compile(r"[a-zA-Z][a-zA-Z0-9]*:[a-zA-Z][a-zA-Z0-9-]*")


def reshaped(memory: Record, shape: Shape) -> tuple[Record, list[tuple[str, str, str]]]:
    own = shape_of(memory)
    if own == shape:
        return memory, []
    made = _TO[shape](memory)
    for one in judge(made, shape=shape).findings:  # members that only the other shape allows
        for key in steps_of(one.pointer)[:1]:
            made.pop(key, None)
    named = str(memory.get("@id"))
    losses = lost(memory, _TO[own](made), "", f"shape {shape}")
    # The shape decides the class in @type, so its change is no loss.
    return made, [(named, *one) for one in losses if one[0].split("/")[0] != "@type"]


def _to_1_x(memory: Record) -> Record:
    made: Record = {}
    for name, value in memory.items():
        if name == "memoryType":
            made["conceptType"] = value
        elif name == "relationships" and isinstance(value, list):
            made[name] = [_relationship_1_x(one) for one in value]
        else:
            made[name] = _class(value, "Memory", "Concept") if name == "@type" else value
    return made


def _to_0_1(memory: Record) -> Record:
    made: Record = {}
    for name, value in memory.items():
        if name == "conceptType":
            made["memoryType"] = value
        elif name == "relationships" and isinstance(value, list):
            found = (_relationship_0_1(one) for one in value)
            made[name] = [one for one in found if one is not None]
        elif name == "@type":
            made[name] = _class(value, "Concept", "Memory")
        elif name != "memoryType" or "conceptType" not in memory:
            made[name] = value
    return made


_TO: Final[dict[Shape, Callable[[Record], Record]]] = {"0.1": _to_0_1, "1.x": _to_1_x}


def _class(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return list(dict.fromkeys(new if one == old else one for one in value))
    return new if value == old else value


def _relationship_1_x(one: Record) -> Record:
    kind, target = str(one.get("relationshipType")), one.get("target")
    if kind not in KEBAB:
        prefix, _, name = kind.removeprefix(_OURS).rpartition(":")
        bare = _HUMP.sub("-", name).lower()
        kind = f"{prefix.lower()}:{bare}" if prefix else bare
    made = {"type": KEBAB.get(kind, kind),
            "target": target.get("@id") if isinstance(target, dict) else target}  # fmt: skip
    return made | {name: one[name] for name in ("strength", "metadata") if name in one}


def _relationship_0_1(one: Record) -> Record | None:
    """Convert a relationship; None if shape 0.1 does not allow its target or type."""
    kind, target = str(one.get("type")), one.get("target")
    name = PASCAL.get(kind, kind if ":" in kind else _OURS + kind)
    if not isinstance(target, str) or not target.startswith(URN):
        return None
    if kind not in PASCAL and _PREFIXED.fullmatch(name) is None:
        return None
    made = {"@type": "Relationship", "relationshipType": name, "target": {"@id": target}}
    return made | {name: one[name] for name in ("strength", "metadata") if name in one}


STAYS: Final = "memories in _local are not exported"
"""Why an export leaves out a memory."""
_LISTS: Final = "the file also names memories that are not exported"


def without_local(grains: Iterable[Grain]) -> tuple[list[Grain], list[Loss]]:
    """Return the grains to export, and the losses.

    A memory that stays also keeps back the grains of its parts, and the manifest, which names it
    and can hold its text. The file's other memories are then exported without the manifest.
    """
    given = list(grains)
    gone = {grain.address: Loss(source.id, "memory", STAYS) for grain, source in _local(given)}
    if not gone:
        return given, []
    by_address = {grain.address: grain for grain in given}
    parts: set[str] = set()
    for grain in given:
        source = Source.of(grain)
        if source is None or source.format != FORMAT:
            continue
        if source.kind == KIND and (whole := open_manifest(grain, getter(by_address))):
            if any(one in gone for listed in whole.arrays.values() for one in listed):
                gone[grain.address] = Loss("", "document", _LISTS)
                parts.update(whole.text)
        if grain.address in gone:
            parts.update(source.parts)
    kept = [grain for grain in given if grain.address not in gone and grain.address not in parts]
    return kept, list(gone.values())


def _local(grains: Iterable[Grain]) -> Iterator[tuple[Grain, Source]]:
    for grain in grains:
        namespace = grain.get("namespace", "")
        if isinstance(namespace, str) and f"{namespace}/".startswith(f"{LOCAL}/"):
            source = Source.of(grain)
            if source is not None and source.format == FORMAT:
                yield grain, source


_OF_ONE: Final = 100  # reported findings of a document
_DOCUMENT = re.compile(
    r"(?:/[^/]*\.(?:md|json|jsonld|ndjson|jsonl)(?=/|$))?(?:/(?:records|memories)/[0-9]+|/[0-9]+)?",
    re.IGNORECASE,
)


def taken(sheet: Sheet, *, mode: Mode, strict_published: bool = False) -> Sheet:
    values, good, places = [], [], []
    warnings, problems = list(sheet.warnings), list(sheet.problems)
    dropped: list[Problem] = []
    kind: Kind | None = None
    judged: Iterable[bool] = repeat(True, len(sheet.values))
    if sheet.entry["layout"] == "corpus":
        kind, judged = "memory", (one.is_memory for one in records_of(sheet.tree))
        problems += corpus_defects(sheet.tree)
    for value, (place, line), asked in zip(sheet.values, sheet.places, judged, strict=True):
        errors: list[Problem] = []
        if asked:
            verdict = judge(value, kind=kind, mode=mode, strict_published=strict_published)
            errors = _placed(verdict.findings[:_OF_ONE], place, line)
            warnings += _some(warnings, _placed(verdict.warnings, place, line))
            problems += _some(problems, errors)
            if not errors:
                dropped += _some(dropped, _placed(verdict.dropped, place, line))
                value = mended(value) if mode == "lenient" else value
        good.append(not errors)
        if not errors:
            values.append(value)
            places.append((place, line))
    problems.sort(key=lambda one: one.line or 0)  # unreadable and invalid lines are two lists
    entry = sheet.entry
    if not all(good):
        entry = shrunk(entry, good)
    return Sheet(
        entry, values, places, sheet.tree, tuple(problems), tuple(warnings), tuple(dropped)
    )


def _some(before: Sequence[Problem], found: list[Problem]) -> list[Problem]:
    """Return a document's problems to keep: only the first if there are many already."""
    return found if len(before) < MOST else found[:1]


def document_of(pointer: str) -> str:
    """Return the part of a pointer that leads to a document, in a file or a directory."""
    found = _DOCUMENT.match(pointer)
    return "" if found is None else found[0]


def in_order(files: Iterable[Sheet]) -> list[Problem]:
    """Return warnings for memories that are older than the memories they derive from."""
    placed = (
        (place, lint.dated(value, file.entry.get("path")))
        for file in files
        for place, value in zip(file.places, file.values, strict=True)
    )
    return [_placed([one], *place)[0] for place, one in lint.order(placed)]


def _placed(found: Iterable[Problem], place: str, line: int | None) -> list[Problem]:
    if not place and line is None:
        return list(found)
    return [replace(one, pointer=place + one.pointer, line=line or one.line) for one in found]


_ID: Final = "@id"
_TEMPORAL: Final = "temporal"
"""The member that holds all counters."""
Counters: TypeAlias = "dict[str, list[Difference | None]]"


def apart(records: Iterable[Any]) -> tuple[list[Any], Counters]:
    """Split memories into their constant part and their counters, which a recall changes."""
    bare: list[Any] = []
    counters: Counters = {}
    seen: dict[str, int] = {}
    for record in records:
        without, counted = _split(record) if isinstance(record, dict) else (record, None)
        bare.append(without)
        id = record.get(_ID) if isinstance(record, dict) else None
        if not isinstance(id, str):
            continue
        at = seen[id] = seen.get(id, -1) + 1
        if counted is not None:
            listed = counters.setdefault(id, [])
            listed += [None] * (at - len(listed))
            listed.append(counted)
    return bare, counters


def together(records: Iterable[Any], counters: Mapping[str, Any]) -> Iterator[Any]:
    """The memories as they came; the other way of `apart`."""
    seen: dict[str, int] = {}
    for record in records:
        id = record.get(_ID) if isinstance(record, dict) else None
        listed = counters.get(id) if isinstance(id, str) else None
        if not isinstance(id, str) or listed is None:
            yield record
            continue
        if not isinstance(listed, list):
            raise FormatError("the counters in the manifest are malformed", rule="manifest")
        at = seen[id] = seen.get(id, -1) + 1
        yield apply(record, listed[at]) if at < len(listed) else record


def _split(value: Record, way: tuple[str, ...] = ()) -> tuple[Record, Difference | None]:
    """An object without counters and objects of them alone, and how it differs from that."""
    volatile = VOLATILE.get(way, ())
    bare: Record = {}
    more: Record = {}
    other: dict[str, Difference] = {}
    for name, inner in value.items():
        if name in volatile:
            more[name] = inner
            continue
        within = (*way, name)
        is_split = within in VOLATILE and isinstance(inner, dict)
        left, added = _split(inner, within) if is_split else (inner, None)
        if added is None or left:
            bare[name] = left
        else:
            more[name] = inner
        if added is not None and left:
            other[name] = added
    found: Difference = {name: part for name, part in (("+", more), ("~", other)) if part}
    if not found:
        return value, None
    return bare, found if [*bare, *more] == [*value] else found | {"o": [*value]}


def with_counters(envelope: Mapping[str, Any], record: Record) -> Record:
    """Add the imported counters to a memory; if its id appears twice, the last ones."""
    counters = envelope.get("volatile")
    listed = counters.get(record.get(_ID)) if isinstance(counters, dict) else None
    last = next((one for one in reversed(listed or ()) if one is not None), None)
    # The counters belong to one version of the memory; this can be another version.
    for base in (record, {**record, _TEMPORAL: {"decay": {}}}):
        with suppress(FormatError):
            made: Record = apply(base, last)
            return made
    return record
