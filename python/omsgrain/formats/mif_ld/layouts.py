# SPDX-License-Identifier: Apache-2.0
"""How memories stand in a file, and a file again.

    document    one memory, or one of what goes with memories
    array       a JSON array of them
    lines       a line each (NDJSON)
    corpus      a MemoryCorpus, whose records have a kind and a payload
    markdown    one memory: front matter, and its content

A file in a manifest is an object: its ``layout``, how many documents it has (``count``), what
stands around them, and its ``path`` if there are several files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats import reading
from omsgrain.formats.exact import COMPACT, spell
from omsgrain.formats.mif_ld import markdown
from omsgrain.formats.mif_ld.fields import CONTEXT
from omsgrain.formats.mif_ld.limits import LIMITS, Limits
from omsgrain.formats.mif_ld.records import is_memory
from omsgrain.formats.mif_ld.shape import Shape, kind_of, shape_of
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.source import same

__all__ = [
    "CORPUS",
    "LAYOUTS",
    "Layout",
    "Sheet",
    "corpus",
    "entry",
    "is_of_another_kind",
    "layout_of",
    "read",
    "shrunk",
    "tree",
    "write",
]

Layout: TypeAlias = Literal["document", "array", "lines", "corpus", "markdown"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
CORPUS: Final = "MemoryCorpus"
_RECORDS: Final = "records"
_ARRAYS: Final = (_RECORDS, "memories")
_PAYLOAD: Final = "payload"
_USUAL: Final = {"kind": "memory", _PAYLOAD: None}
"""In what nearly every memory of a corpus stands."""
_LINE = re.compile(rb"\n[ \t\r]*[{]")


class Sheet(NamedTuple):
    """A file that was read.

    Attributes:
        entry: what the manifest says of it.
        values: the documents.
        places: of each its pointer in the file, and its line if they come by lines.
        tree: all of the file as JSON; None if it is none.
        problems: what could not be read of a file by lines.
        warnings: what was read although it looks wrong.
    """

    entry: dict[str, Any]
    values: list[Any]
    places: list[tuple[str, int | None]]
    tree: Any = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def layout_of(data: bytes) -> Layout:
    """Tell the layout of a file by its content, as far as its beginning tells it."""
    if markdown.is_markdown(data):
        return "markdown"
    data = data.removeprefix(reading.MARK)
    if data.lstrip().startswith(b"["):
        return "array"
    return "lines" if _is_lines(data) else "document"


def read(
    data: bytes,
    layout: Layout | None = None,
    limits: Limits = LIMITS,
    shape: Shape | None = None,
) -> Sheet:
    """Read a file.

    Args:
        data: its bytes.
        layout: how memories stand in it; by default that is told from the content.
        limits: how large it may be.
        shape: of a memory in Markdown that does not tell it.

    Raises:
        DocumentError: it is too large, or cannot be read.
        UnsupportedError: it is Markdown, and there is no PyYAML.
    """
    layout = layout or layout_of(data)
    if layout == "markdown":
        return _markdown(data, limits, shape)
    return _lines(data, limits) if layout == "lines" else _json(data, limits)


def _parsed(data: bytes, limits: Limits) -> Any:
    return reading.parse(data, most=limits.document, depth=limits.depth, values=limits.values)


def _counted(count: int, limits: Limits) -> None:
    """Refuse too many documents, before anything is made of them."""
    if count > limits.documents:
        raise reading.too_large(f"{limits.documents} documents", f"{count} documents")


def _json(data: bytes, limits: Limits) -> Sheet:
    tree = _parsed(data, limits)
    if isinstance(tree, list):
        _counted(len(tree), limits)
        entry = {"layout": "array", "count": len(tree)}
        return Sheet(entry, tree, [(f"/{i}", None) for i in range(len(tree))], tree)
    if isinstance(tree, dict) and _is_corpus(tree):
        _counted(len(tree[_array(tree)]), limits)
        return _corpus(tree)
    return Sheet({"layout": "document", "count": 1}, [tree], [("", None)], tree)


def tree(entry: dict[str, Any], values: Sequence[Any]) -> Any:
    """What a file of one JSON value says.

    Raises:
        FormatError: the entry is not one of these documents.
    """
    layout = entry.get("layout")
    if layout == "document" and len(values) == 1:
        return values[0]
    if layout == "array":
        return list(values)
    if layout == "corpus" and isinstance(entry.get("corpus"), dict):
        return entry["corpus"] | {_array(entry["corpus"]): list(_wrapped(entry, values))}
    raise FormatError("a file is not of these documents", rule="manifest")


def write(
    entry: dict[str, Any], values: Sequence[Any]
) -> tuple[bytes, list[tuple[str, str, str]]]:
    """Write a file.

    Args:
        entry: what the manifest says of it.
        values: its documents.

    Returns:
        Its bytes, and what it does not hold, each by the id of the memory, its field, and why.

    Raises:
        SchemaError: Markdown has one memory in a file.
        FormatError: the entry is not one of these documents.
    """
    layout = entry.get("layout")
    if layout == "lines":
        text = entry.get("text")
        if isinstance(text, str) and same([json.loads(x) for x in _said(text)], list(values)):
            return text.encode(), []
        return b"".join(spell(value) + b"\n" for value in values), []
    if layout != "markdown":
        return spell(tree(entry, values), COMPACT), []
    if len(values) != 1 or not isinstance(values[0], dict):
        raise SchemaError("a file of Markdown is one memory", found=f"{len(values)} documents")
    text, shape = entry.get("text"), shape_of(values[0])
    if isinstance(text, str) and same(markdown.read(text, entry.get("shape"))[0], values[0]):
        return text.encode(), []
    written, losses = markdown.write(values[0], shape)
    return written.encode(), losses


def corpus(values: Sequence[Any]) -> dict[str, Any]:
    """The entry of a corpus of our own, with these documents."""
    whole = {"@context": CONTEXT, "@type": CORPUS, _RECORDS: []}
    runs = [[len(list(run)), wrapper] for wrapper, run in groupby(map(_wrapper, values))]
    return {"layout": "corpus", "count": len(values), "corpus": whole, "runs": runs}


def entry(layout: Layout, values: Sequence[Any]) -> dict[str, Any]:
    """The entry of a file of our own, with these documents."""
    return corpus(values) if layout == "corpus" else {"layout": layout, "count": len(values)}


def shrunk(entry: dict[str, Any], stay: Sequence[bool]) -> dict[str, Any]:
    """The entry of a file without some of its documents."""
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


def is_of_another_kind(value: Any) -> bool:
    """Whether a record of a corpus is of a kind that is not judged: a source document, say."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind not in (None, "memory") and not is_memory(value)


def _is_corpus(tree: dict[str, Any]) -> bool:
    kinds = tree.get("@type")
    named = CORPUS in kinds if isinstance(kinds, list) else kinds == CORPUS
    return named and isinstance(tree.get(_array(tree)), list)


def _array(tree: dict[str, Any]) -> str:
    """Where the records of a corpus stand."""
    return next((name for name in _ARRAYS if isinstance(tree.get(name), list)), _RECORDS)


def _corpus(tree: dict[str, Any]) -> Sheet:
    values: list[Any] = []
    places: list[tuple[str, int | None]] = []
    runs: list[list[Any]] = []
    array = _array(tree)
    for i, record in enumerate(tree[array]):
        wrapper = None
        value, place = record, f"/{array}/{i}"
        if isinstance(record, dict) and record.get("kind") == "memory" and _PAYLOAD in record:
            wrapper = _USUAL if [*record] == [*_USUAL] else record | {_PAYLOAD: None}
            value, place = record[_PAYLOAD], f"{place}/{_PAYLOAD}"
        values.append(value)
        places.append((place, None))
        if runs and (runs[-1][1] is wrapper or same(runs[-1][1], wrapper)):
            runs[-1][0] += 1
        else:
            runs.append([1, wrapper])
    whole = tree | {array: []}
    entry = {"layout": "corpus", "count": len(values), "corpus": whole, "runs": runs}
    return Sheet(entry, values, places, tree)


def _wrapped(entry: dict[str, Any], values: Sequence[Any]) -> Iterator[Any]:
    at = 0
    for count, wrapper in entry.get("runs", ()):
        for value in values[at : at + count]:
            yield value if wrapper is None else wrapper | {_PAYLOAD: value}
        at += count
    for value in values[at:]:
        yield {"kind": "memory", _PAYLOAD: value}


def _wrapper(value: Any) -> dict[str, Any] | None:
    """What a document stands in as a record of a corpus; None if it is one, of another kind."""
    kind = "memory" if is_memory(value) else kind_of(value)
    return None if kind is None or is_of_another_kind(value) else {"kind": kind, _PAYLOAD: None}


# -- by lines, and Markdown -----------------------------------------------------------------------


def _is_lines(data: bytes) -> bool:
    """Whether an object stands in the first line alone, and others behind it."""
    if _LINE.search(data) is None:
        return False
    first, _, _ = data.lstrip().partition(b"\n")
    return isinstance(reading.looked_into(first), dict)


def _said(text: str) -> list[str]:
    lines = text.removeprefix("\ufeff").split("\n")
    return [line for line in lines if line.strip()]


def _lines(data: bytes, limits: Limits) -> Sheet:
    reading.bounded(data, limits.document, limits.values)
    values: list[Any] = []
    places: list[tuple[str, int | None]] = []
    problems: list[Problem] = []
    for number, line in enumerate(BytesIO(data), 1):
        if not line.strip():
            continue
        _counted(len(values) + len(problems) + 1, limits)
        try:
            value = _parsed(line, limits)
        except DocumentError as error:
            problems.append(replace(error.problems[0], line=number))
            continue
        values.append(value)
        places.append(("", number))
    entry = {"layout": "lines", "count": len(values)}
    return Sheet(entry, values, places, problems=tuple(problems))


def _markdown(data: bytes, limits: Limits, shape: Shape | None) -> Sheet:
    document, shape, warnings = markdown.read_bytes(data, limits, shape)
    text = data.decode()
    entry: dict[str, Any] = {"layout": "markdown", "count": 1, "shape": shape}
    try:
        again = markdown.write(document, shape)[0]
    except (DocumentError, KeyError, TypeError, AttributeError, ValueError):
        again = ""  # of a memory that will be refused
    return Sheet(
        entry if again == text else entry | {"text": text},
        [document],
        [("", None)],
        warnings=warnings,
    )
