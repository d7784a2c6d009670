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
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats import reading
from omsgrain.formats.exact import COMPACT, spell
from omsgrain.formats.mif_ld import markdown
from omsgrain.formats.mif_ld.fields import CONTEXT
from omsgrain.formats.mif_ld.limits import LIMITS, Limits
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.source import same

__all__ = ["CORPUS", "LAYOUTS", "Layout", "Sheet", "corpus", "layout_of", "read", "tree", "write"]

Layout: TypeAlias = Literal["document", "array", "lines", "corpus", "markdown"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
CORPUS: Final = "MemoryCorpus"
_RECORDS: Final = "records"
_PAYLOAD: Final = "payload"
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
    if data.lstrip().startswith(b"["):
        return "array"
    return "lines" if _is_lines(data) else "document"


def read(data: bytes, layout: Layout | None = None, limits: Limits = LIMITS) -> Sheet:
    """Read a file.

    Args:
        data: its bytes.
        layout: how memories stand in it; by default that is told from the content.
        limits: how large it may be.

    Raises:
        DocumentError: it is too large, or cannot be read.
        UnsupportedError: it is Markdown, and there is no PyYAML.
    """
    layout = layout or layout_of(data)
    if layout == "markdown":
        return _markdown(data, limits)
    if layout == "lines":
        return _lines(data, limits)
    tree = reading.parse(data, most=limits.document, depth=limits.depth)
    if isinstance(tree, list):
        entry = {"layout": "array", "count": len(tree)}
        return Sheet(entry, tree, [(f"/{i}", None) for i in range(len(tree))], tree)
    if isinstance(tree, dict) and _is_corpus(tree):
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
        return entry["corpus"] | {_RECORDS: list(_wrapped(entry, values))}
    raise FormatError("a file is not of these documents", rule="manifest")


def write(entry: dict[str, Any], values: Sequence[Any]) -> tuple[bytes, list[tuple[str, str]]]:
    """Write a file.

    Args:
        entry: what the manifest says of it.
        values: its documents.

    Returns:
        Its bytes, and what it does not hold, each by the id of the memory and by its field.

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
    text, shape = entry.get("text"), markdown.shape_of(values[0])
    if isinstance(text, str) and same(markdown.read(text, entry.get("shape"))[0], values[0]):
        return text.encode(), []
    written, losses = markdown.write(values[0], shape)
    return written.encode(), losses


def corpus(count: int) -> dict[str, Any]:
    """The entry of a corpus of our own."""
    whole = {"@context": CONTEXT, "@type": CORPUS, _RECORDS: []}
    wrapper = {"kind": "memory", _PAYLOAD: None}
    return {"layout": "corpus", "count": count, "corpus": whole, "runs": [[count, wrapper]]}


def _is_corpus(tree: dict[str, Any]) -> bool:
    kinds = tree.get("@type")
    named = CORPUS in kinds if isinstance(kinds, list) else kinds == CORPUS
    return named and isinstance(tree.get(_RECORDS), list)


def _corpus(tree: dict[str, Any]) -> Sheet:
    values, places = [], []
    runs: list[list[Any]] = []
    for i, record in enumerate(tree[_RECORDS]):
        wrapper = None
        value, place = record, f"/{_RECORDS}/{i}"
        if isinstance(record, dict) and isinstance(record.get(_PAYLOAD), dict):
            wrapper = record | {_PAYLOAD: None}
            value, place = record[_PAYLOAD], f"{place}/{_PAYLOAD}"
        values.append(value)
        places.append((place, None))
        if runs and same(runs[-1][1], wrapper):
            runs[-1][0] += 1
        else:
            runs.append([1, wrapper])
    whole = tree | {_RECORDS: []}
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


# -- by lines, and Markdown -----------------------------------------------------------------------


def _is_lines(data: bytes) -> bool:
    """Whether an object stands in the first line alone, and others behind it."""
    if _LINE.search(data) is None:
        return False
    first, _, _ = data.lstrip().partition(b"\n")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _said(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _lines(data: bytes, limits: Limits) -> Sheet:
    if len(data) > limits.document:
        most, size = f"at most {limits.document} bytes", f"{len(data)} bytes"
        raise DocumentError([Problem("too_large", "", reading.RULES["too_large"], most, size)])
    values, places, problems = [], [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = reading.parse(line, most=limits.document, depth=limits.depth)
        except DocumentError as error:
            one = error.problems[0]
            problems.append(
                Problem(one.rule, one.pointer, one.message, one.expected, one.found, number)
            )
            continue
        values.append(value)
        places.append(("", number))
    entry = {"layout": "lines", "count": len(values)}
    return Sheet(entry, values, cast("Any", places), problems=tuple(problems))


def _markdown(data: bytes, limits: Limits) -> Sheet:
    document, shape, warnings = markdown.read_bytes(data, limits)
    text = data.decode()
    entry: dict[str, Any] = {"layout": "markdown", "count": 1, "shape": shape}
    if markdown.write(document, shape)[0] != text:
        entry["text"] = text
    return Sheet(entry, [document], [("", None)], warnings=warnings)
