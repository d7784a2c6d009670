# SPDX-License-Identifier: Apache-2.0
"""A directory of memories as grains, and back: each file as it was laid out, at its place.

Files are read in the order of their paths, so that a directory gives the same grains everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final

from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.document import Import, Loss, Manifest
from omsgrain.formats.mif_ld import layouts
from omsgrain.formats.mif_ld.convert import Taken, files_of, imported, own, taken
from omsgrain.formats.mif_ld.fields import FORMAT
from omsgrain.formats.mif_ld.limits import LIMITS, Limits
from omsgrain.formats.mif_ld.shape import Shape
from omsgrain.formats.mif_ld.validate import Mode
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.sniff import sniff
from omsgrain.grain import Grain

__all__ = ["DIRECTORY", "SUFFIXES", "is_file", "load_directory", "shape_of_name", "write_files"]

DIRECTORY: Final = "directory"
"""The layout of a manifest of files."""
SUFFIXES: Final = (".mif.jsonld", ".memory.json", ".memory.md", ".jsonld", ".mif.ndjson", ".md")
"""How files of memories are called."""
_PERHAPS: Final = (".json", ".ndjson", ".jsonl")
"""Files of these are taken if they say that they are memories."""
_RESERVED: Final = frozenset(("index.md", "log.md", "readme.md"))
"""What stands beside memories, and is none."""


def is_file(name: str) -> bool:
    """Whether a file is called as files of memories are."""
    return name.endswith((*SUFFIXES, *_PERHAPS)) and name.lower() not in _RESERVED


def shape_of_name(name: str) -> Shape:
    """The shape of a memory in Markdown that does not tell it, by the name of its file."""
    return "1.x" if name.endswith(".md") and not name.endswith(".memory.md") else "0.1"


def load_directory(
    root: Path,
    *,
    mode: Mode = "schema",
    user_id: str | None = None,
    strict_published: bool = False,
    limits: Limits = LIMITS,
) -> Import:
    """Make grains of all memories in a directory, and below it.

    A file that is not good is left out, and told in ``problems`` with its path.

    Args:
        root: the directory. Nothing outside of it is read: links are not followed.
        mode: how strict memories are judged.
        user_id: whose they are.
        strict_published: of shape 0.1, the schema as it was published.
        limits: what is taken.

    Raises:
        SchemaError: there is no file of memories, or there are too many.
        UnsupportedError: there is Markdown, and no PyYAML.
        OSError: a file cannot be read.
    """
    files, mark = [], sha256()
    for path in _paths(root, limits):
        name = path.relative_to(root).as_posix()
        with path.open("rb") as source:
            data = source.read(limits.document + 1)  # one more, so that it is refused
        if not name.endswith(SUFFIXES) and not _says_so(data):
            continue
        mark.update(f"{len(name)} {name} {len(data)} ".encode("utf-8", "surrogateescape") + data)
        files.append(_file(data, name, mode, strict_published, limits))
    if not files:
        raise SchemaError("no file of memories is in it", expected=", ".join(SUFFIXES))
    whole = Manifest(FORMAT, f"sha256:{mark.hexdigest()}", {}, {}, layout=DIRECTORY)
    return imported(files, whole, user_id=user_id)


def write_files(
    grains: Iterable[Grain],
    write: Callable[[PurePosixPath, bytes], None],
    *,
    markdown: bool = False,
    local: bool = False,
) -> list[Loss]:
    """Write the files of a directory that was loaded, or one file a memory.

    Args:
        grains: what `load_directory`, or ``load``, gave.
        write: takes the path of a file, below the directory, and its bytes.
        markdown: write memories as Markdown; what that does not hold is told.
        local: whether memories of the namespace ``_local`` leave.

    Raises:
        SchemaError: no manifest is among the grains, or a path leads out of the directory.
        FormatError: a grain is not what it must be.
    """
    found, _ = own(grains)
    losses: list[Loss] = []
    taken_names: set[str] = set()
    for file in files_of(found, local, losses):
        if file.entry.get("bad"):
            continue  # it was never taken
        if not file.values and file.entry["layout"] in ("document", "markdown"):
            continue  # nothing in it leaves
        named = file.entry.get("path")
        parts = [file] if isinstance(named, str) and not markdown else _single(file, markdown)
        for part in parts:
            name = part.entry.get("path") or _name_of(part.values[0], markdown, taken_names)
            data, lost = layouts.write(part.entry, part.values)
            losses += [Loss(*one) for one in lost]
            write(_inside(name), data)
    return losses


def _paths(root: Path, limits: Limits) -> Iterator[Path]:
    found = []
    for path in root.rglob("*"):
        if is_file(path.name) and path.is_file() and not _through_link(path, root):
            found.append(path)
            if len(found) > limits.files:
                raise SchemaError("too many files", expected=f"at most {limits.files}")
    yield from sorted(found, key=lambda path: path.relative_to(root).as_posix())


def _says_so(data: bytes) -> bool:
    try:
        return sniff(data) == FORMAT
    except UnsupportedError:
        return False


def _through_link(path: Path, root: Path) -> bool:
    while path != root:
        if path.is_symlink():
            return True
        path = path.parent
    return False


def _file(data: bytes, name: str, mode: Mode, published: bool, limits: Limits) -> Taken:
    try:
        sheet = layouts.read(data, None, limits, shape_of_name(name))
        found = taken(sheet, mode=mode, strict_published=published)
    except DocumentError as error:
        entry = {"path": name, "layout": "array", "count": 0}
        return Taken(entry | {"bad": True}, [], (), tuple(_named(error.problems, name)))
    entry = {"path": name, **found.entry}
    if found.problems and not found.values:
        entry = {"path": name, "layout": "array", "count": 0, "bad": True}
    warnings, problems = (tuple(_named(each, name)) for each in (found.warnings, found.problems))
    return Taken(entry, found.values, warnings, problems)


def _named(problems: Iterable[Problem], name: str) -> Iterator[Problem]:
    """Problems with the path of their file, as the first key of their pointers."""
    first = name.replace("~", "~0").replace("/", "~1")
    return (replace(one, pointer=f"/{first}{one.pointer}") for one in problems)


def _single(file: Taken, markdown: bool) -> list[Taken]:
    """The memories of a file, each as a file of its own."""
    if file.entry["layout"] == "markdown":
        return [file]
    made = []
    for value in file.values:
        is_memory = isinstance(value, dict) and isinstance(value.get("@id"), str)
        layout: layouts.Layout = "markdown" if markdown and is_memory else "document"
        made.append(Taken(layouts.entry(layout, 1), [value]))
    return made


def _name_of(value: object, markdown: bool, used: set[str]) -> str:
    id = value.get("@id") if isinstance(value, dict) else None
    bare = str(id or "document").removeprefix("urn:mif:")
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in bare)[:120]
    base = plain.strip("-") or "memory"
    name, count = base, 1
    while name.lower() in used:
        count += 1
        name = f"{base}-{count}"
    used.add(name.lower())
    return f"{name}.memory.md" if markdown else f"{name}.memory.json"


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise SchemaError("a path leads out of the directory", field="/path")
    return path
