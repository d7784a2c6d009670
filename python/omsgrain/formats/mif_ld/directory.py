# SPDX-License-Identifier: Apache-2.0
"""Converts a directory of memories to grains and back, and keeps each file's path and layout.

It reads files in path order, so that a directory gives the same grains on every system.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final, NoReturn

from omsgrain import formats
from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.convert.convert import DocumentWriter, build_options, leaving
from omsgrain.formats.document import Import, Loss, Manifest
from omsgrain.formats.json_text import pointer_to
from omsgrain.formats.mif_ld import document
from omsgrain.formats.mif_ld import markdown as markdown_text
from omsgrain.formats.mif_ld.document import SUFFIXES, Layout, Sheet, in_order, taken
from omsgrain.formats.mif_ld.format import MIF_LD, files_of, imported, in_shape
from omsgrain.formats.mif_ld.records import FORMAT, LIMITS, MifLdLimits, Shape, shape_of
from omsgrain.formats.mif_ld.validate import Mode, is_of_another_kind
from omsgrain.formats.problems import DocumentError, Problem

DIRECTORY: Final = "directory"
_PERHAPS: Final = (".json", ".ndjson", ".jsonl")
"""Files with these suffixes are read if their content is recognized as memories."""
_RESERVED: Final = frozenset(("index.md", "log.md", "readme.md"))
"""Files beside memories that are not memories."""
_AS_JSON: Final = {"markdown": "document", "lines": "corpus"}
"""The JSON layout for memories that came in another layout."""
_DEVICES: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)))
)
"""File names that some systems reserve, with any suffix."""


def is_file(name: str) -> bool:
    """Whether a file has a name of memory files; hidden files do not count."""
    lower = name.lower()
    if lower.startswith(".") or lower in _RESERVED:
        return False
    return lower.endswith((*SUFFIXES, *_PERHAPS))


def shape_of_name(name: str) -> Shape:
    """Return the shape of a Markdown memory by its file name, for a text without a sign of it."""
    lower = name.lower()
    return "1.x" if lower.endswith(".md") and not lower.endswith(".memory.md") else "0.1"


def layout_of_file(name: str, data: bytes) -> Layout | None:
    """Return the layout of a file if its name decides; None if its content does.

    The name decides for Markdown without front matter and for NDJSON with a broken first line.
    """
    lower = name.lower()
    if lower.endswith(".md"):
        return "markdown"
    if not lower.endswith((".ndjson", ".jsonl")) or document.layout_of(data) != "document":
        return None
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return "lines"
    return None


def load_directory(
    root: Path,
    *,
    mode: Mode = "schema",
    user_id: str | None = None,
    strict_published: bool = False,
    limits: MifLdLimits = LIMITS,
) -> Import:
    """Make grains of all memories in a directory and its subdirectories.

    It skips a bad file and lists it in ``problems`` with its path.
    """
    files, mark, left = [], sha256(), limits.directory
    for path in files_in(root, limits):
        name = path.relative_to(root).as_posix()
        with path.open("rb") as source:
            data = source.read(limits.document + 1)  # one byte more, so that the limit applies
        if not name.lower().endswith(SUFFIXES) and not _says_so(data):
            continue
        left -= len(data)
        if left < 0:
            most = f"at most {limits.directory} bytes"
            raise SchemaError("the directory's files exceed the size limit", expected=most)
        mark.update(f"{len(name)} {name} {len(data)} ".encode("utf-8", "surrogateescape") + data)
        files.append(_file(data, name, mode, strict_published, limits))
    if not files:
        raise SchemaError("the directory has no memory files", expected=", ".join(SUFFIXES))
    if mode == "extra":
        last = files[-1]
        files[-1] = last._replace(warnings=(*last.warnings, *in_order(files)))
    whole = Manifest(FORMAT, f"sha256:{mark.hexdigest()}", {}, {}, layout=DIRECTORY)
    return imported(files, whole, user_id=user_id)


def write_files(
    read: Import,
    write: Callable[[PurePosixPath, bytes], None],
    *,
    markdown: bool = False,
    shape: Shape | None = None,
    local: bool = False,
    **options: Any,
) -> list[Loss]:
    """Write the files of a loaded directory, or one file for each memory."""
    found, losses = leaving(read.grains, MIF_LD, local=local)
    given = build_options(MIF_LD, shape=shape, beside=False, **options)
    made, lost = DocumentWriter(MIF_LD, read.vectors, given).tree(found)
    losses += lost
    files = [_in_shape(file, shape, losses) for file in files_of(made, local, losses)]
    named_so = (file.entry.get("path") for file in files)
    used = {name.lower() for name in named_so if isinstance(name, str)}
    for file in files:
        if file.entry.get("bad"):
            continue  # the import skipped it
        if not file.values and file.entry["layout"] in ("document", "markdown"):
            continue  # its only memory is not exported
        named = file.entry.get("path")
        parts = [file] if isinstance(named, str) and not markdown else _single(file, markdown)
        for part in parts:
            name = part.entry.get("path") or _name_of(part.values[0], part.entry["layout"], used)
            data, less = document.write_file(part.entry, part.values)
            losses += [Loss(*one) for one in less]
            write(_inside(name), data)
    return losses


def write_path(read: Import, path: Path, wanted: dict[str, Any], *, replace: bool) -> list[Loss]:
    layout = wanted.pop("layout", None) or _layout_of_path(path)
    as_markdown = layout == "markdown" and not path.name.endswith(".md")
    if layout == DIRECTORY or as_markdown:
        return _write_directory(read, path, replace, as_markdown, wanted)
    dumped = formats.dump(read, format=FORMAT, layout=layout, **wanted)
    if layout is None and path.name.lower().endswith((".json", ".jsonld")):
        stood = document.layout_of(dumped.data)
        if stood in _AS_JSON:
            dumped = formats.dump(read, format=FORMAT, layout=_AS_JSON[stood], **wanted)
    losses: list[Loss] = [*dumped.losses, *dumped.added]
    if layout == "markdown":
        whole = formats.dump(read, format=FORMAT, layout="document", **wanted)
        losses += _misnamed(path.name, dumped.data, json.loads(whole.data))
    with NewFiles(replace=replace) as files:
        files.add(path, [dumped.data])
    return losses


def _misnamed(name: str, data: bytes, memory: dict[str, Any]) -> list[Loss]:
    """Report a file name that gives another shape than the memory has."""
    _, shape, _ = markdown_text.read_bytes(data, shape=shape_of_name(name))
    if shape == shape_of(memory):
        return []
    end = ".memory.md" if shape == "1.x" else ".md"
    reason = f"a file with this name is read as shape {shape}; use a name that ends in {end}"
    return [Loss(str(memory.get("@id")), "shape", reason)]


def _write_directory(
    read: Import, path: Path, replace: bool, as_markdown: bool, options: dict[str, Any]
) -> list[Loss]:
    """Write memory files below a directory; all of them appear at once."""
    with NewFiles(replace=replace) as files:

        def write(name: PurePosixPath, data: bytes) -> None:
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            files.add(file, [data])

        return write_files(read, write, markdown=as_markdown, **options)


def _layout_of_path(path: Path) -> str | None:
    """Return the layout for a path; None keeps the original layout."""
    if path.is_dir() or not path.suffix:
        return DIRECTORY
    ends = {".memory.json": "document", ".md": "markdown", ".ndjson": "lines"}
    return next((layout for end, layout in ends.items() if path.name.endswith(end)), None)


def _in_shape(file: Sheet, shape: Shape | None, losses: list[Loss]) -> Sheet:
    """Convert a file's memories to a shape; a Markdown file gets the suffix of the shape."""
    if shape is None:
        return file
    entry, path = file.entry, file.entry.get("path")
    if entry["layout"] == "markdown" and isinstance(path, str):
        bare = path[: -len(".memory.md" if path.lower().endswith(".memory.md") else ".md")]
        entry = entry | {"path": bare + (".md" if shape == "1.x" else ".memory.md")}
    return file._replace(entry=entry, values=in_shape(file.values, shape, losses))


def files_in(root: Path, limits: MifLdLimits = LIMITS) -> Iterator[Path]:
    """Yield the memory files in a directory and its subdirectories, by name."""
    found = []
    for inside, directories, names in os.walk(root, onerror=_refuse):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in filter(is_file, names):
            path = Path(inside, name)
            if path.is_symlink() or not path.is_file():
                continue
            found.append(path)
            if len(found) > limits.files:
                raise SchemaError("too many files", expected=f"at most {limits.files}")
    yield from sorted(found, key=lambda path: path.relative_to(root).as_posix())


def _refuse(error: OSError) -> NoReturn:
    raise error  # os.walk would skip an unreadable directory


def _says_so(data: bytes) -> bool:
    from omsgrain.formats.table import sniff

    try:
        return sniff(data) == FORMAT
    except UnsupportedError:
        return False


def _file(data: bytes, name: str, mode: Mode, published: bool, limits: MifLdLimits) -> Sheet:
    try:
        sheet = document.read_file(data, layout_of_file(name, data), limits, shape_of_name(name))
        found = taken(sheet, mode=mode, strict_published=published)
    except DocumentError as error:
        entry = {"path": name, "layout": "array", "count": 0}
        problems = tuple(_named(error.problems, name))
        return Sheet(entry | {"bad": True}, [], problems=problems)
    entry = {"path": name, **found.entry}
    if found.problems and not found.values:
        entry = {"path": name, "layout": "array", "count": 0, "bad": True}
    return found._replace(
        entry=entry,
        warnings=tuple(_named(found.warnings, name)),
        problems=tuple(_named(found.problems, name)),
        dropped=tuple(_named(found.dropped, name)),
        places=tuple((pointer_to((name,)) + place, line) for place, line in found.places),
    )


def _named(problems: Iterable[Problem], name: str) -> Iterator[Problem]:
    """Add the file's path as the first key of each problem's pointer."""
    return (replace(one, pointer=pointer_to((name,)) + one.pointer) for one in problems)


def _single(file: Sheet, markdown: bool) -> list[Sheet]:
    if file.entry["layout"] == "markdown":
        return [file]
    made = []
    for value in file.values:
        is_memory = isinstance(value, dict) and isinstance(value.get("@id"), str)
        layout: Layout = "markdown" if markdown and is_memory else "document"
        if is_of_another_kind(value):  # a corpus record has no meaning outside a corpus
            layout = "corpus"
        made.append(Sheet(document.entry(layout, [value]), [value]))
    return made


def _name_of(value: object, layout: Layout, used: set[str]) -> str:
    id = value.get("@id") if isinstance(value, dict) else None
    bare = str(id or "document").removeprefix("urn:mif:")
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in bare)[:120]
    base = plain.strip("-") or "memory"
    if base.lower() in _DEVICES:
        base = f"memory-{base}"
    end = ".memory.json"
    if layout == "markdown":
        # The suffix gives the shape if the text does not.
        later = isinstance(value, dict) and shape_of(value) == "1.x"
        end = ".md" if later else ".memory.md"
    name, count = base + end, 1
    while name.lower() in used or name.lower() in _RESERVED:
        count += 1
        name = f"{base}-{count}{end}"
    used.add(name.lower())
    return name


def _inside(name: str) -> PurePosixPath:
    for path in (
        PurePosixPath(name),
        PurePath(name),
    ):  # on this system it can have a drive or backslashes
        if path.anchor or ".." in path.parts or not path.parts or "\0" in name:
            raise SchemaError("a file's path leads out of the directory", field="/path")
    return PurePosixPath(name)
