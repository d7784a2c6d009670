# SPDX-License-Identifier: Apache-2.0
"""Memories of MIF in JSON-LD in files and directories, for conversions."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

from omsgrain import formats
from omsgrain.durable import NewFiles
from omsgrain.formats.convert.returning import taken_back
from omsgrain.formats.document import Import, Loss
from omsgrain.formats.mif_ld import corpus, document, markdown
from omsgrain.formats.mif_ld.convert import load
from omsgrain.formats.mif_ld.finding import shape_of
from omsgrain.formats.mif_ld.forms import LIMITS
from omsgrain.formats.mif_ld.validate import Mode

SUFFIXES: Final = corpus.SUFFIXES
"""How the files are called."""
_AS_JSON: Final = {"markdown": "document", "lines": "corpus"}
"""How memories stand in a file that is called as one of JSON, where they came in none."""


def read(path: Path, mode: str) -> tuple[Import, list[Loss]]:
    """Read a file, or the files of a directory."""
    asked = cast("Mode", mode)
    if path.is_dir():
        found = taken_back(corpus.load_directory(path, mode=asked))
    else:
        with path.open("rb") as source:
            data = source.read(LIMITS.document + 1)  # one more, so that it is refused
        layout, shape = corpus.layout_of_file(path.name, data), corpus.shape_of_name(path.name)
        found = formats.load(data, format="mif-ld", layout=layout, shape=shape, mode=asked)
    lost = [Loss(one.pointer, of, f"it was left out: {one.rule}")
            for of, listed in (("record", found.problems), ("citation", found.dropped))
            for one in listed]  # fmt: skip
    return found, lost


def write(read: Import, path: Path, replace: bool, options: dict[str, Any]) -> list[Loss]:
    """Write a file, or the files of a directory, of any grains."""
    wanted = {name: value for name, value in options.items() if value is not None}
    wanted.pop("producer", None)
    layout = wanted.pop("layout", None) or _layout_of_name(path)
    as_markdown = layout == "markdown" and not path.name.endswith(".md")
    if layout == corpus.DIRECTORY or as_markdown:
        return _write_directory(read, path, replace, as_markdown, wanted)
    dumped = formats.dump(read, format="mif-ld", layout=layout, **wanted)
    if layout is None and path.name.lower().endswith((".json", ".jsonld")):
        stood = document.layout_of(dumped.data)
        if stood in _AS_JSON:
            dumped = formats.dump(read, format="mif-ld", layout=_AS_JSON[stood], **wanted)
    losses: list[Loss] = [*dumped.losses, *dumped.added]
    if layout == "markdown":
        whole = formats.dump(read, format="mif-ld", layout="document", **wanted)
        losses += _misnamed(path.name, dumped.data, json.loads(whole.data))
    with NewFiles(replace=replace) as files:
        files.add(path, [dumped.data])
    return losses


def _misnamed(name: str, data: bytes, memory: dict[str, Any]) -> list[Loss]:
    """That the name of a file says another shape than the memory has, and its text says none."""
    _, shape, _ = markdown.read_bytes(data, shape=corpus.shape_of_name(name))
    if shape == shape_of(memory):
        return []
    end = ".memory.md" if shape == "1.x" else ".md"
    reason = f"a text that is called so is read as one of {shape}; one that is called {end} is not"
    return [Loss(str(memory.get("@id")), "shape", reason)]


def _write_directory(
    read: Import, path: Path, replace: bool, as_markdown: bool, options: dict[str, Any]
) -> list[Loss]:
    """Files of memories below a directory, which appear together."""
    local, losses = bool(options.pop("local", False)), list[Loss]()
    from omsgrain.formats.convert.convert import is_foreign

    if is_foreign(read.grains, "mif-ld"):
        dumped = formats.dump(read, format="mif-ld", layout="array", local=local, **options)
        # As it stands: what goes along in memories stays in them.
        read, losses = load(dumped.data), [*dumped.losses, *dumped.added]
    shape = options.get("shape")
    with NewFiles(replace=replace) as files:

        def write(name: PurePosixPath, data: bytes) -> None:
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            files.add(file, [data])

        return losses + corpus.write_files(
            read.grains, write, markdown=as_markdown, shape=shape, local=local
        )


def _layout_of_name(path: Path) -> str | None:
    """How memories stand in a file that is called so; by default as they stood."""
    if path.is_dir() or not path.suffix:
        return corpus.DIRECTORY
    ends = {".memory.json": "document", ".md": "markdown", ".ndjson": "lines"}
    return next((layout for end, layout in ends.items() if path.name.endswith(end)), None)
