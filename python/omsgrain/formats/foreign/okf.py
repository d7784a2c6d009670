# SPDX-License-Identifier: Apache-2.0
"""Directories of the Open Knowledge Format (OKF 0.2): concepts in Markdown with front matter.

A concept is known by its path without ``.md``. Its text is its title, its description and its
body. The whole front matter is kept, so a directory that was read is written again with it. A
memory that never was a concept becomes one, with its further fields under the key ``mif``.
Spec: OKF 0.2 §3, §4, §8, §11
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from omsgrain import formats
from omsgrain._core import __version__
from omsgrain.durable import NewFiles
from omsgrain.formats import yaml
from omsgrain.formats.convert.base import uuid_of
from omsgrain.formats.document import Import, Loss
from omsgrain.formats.foreign.base import Translation, strings
from omsgrain.formats.foreign.directory import DirectoryFormat, TextFile
from omsgrain.formats.json_text import value_at
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.mif_ld.markdown import split
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.records import Record, object_of

VERSION: Final = "0.2"
_RESERVED: Final = frozenset(("index.md", "log.md"))
_VERSION: Final = "okf_version"
_LOOKED: Final = 50  # files that are looked at to recognize a directory
_HEAD: Final = 16 << 10
_FRONT: Final = 1 << 20  # bytes of front matter
_TYPE = re.compile(r"^[\"']?type[\"']?[ \t]*:[ \t]*\S", re.MULTILINE)
_OF_MIF = re.compile(
    r"^[\"']?(?:id|@id|memoryType|memory_type|conceptType|mif_version)[\"']?[ \t]*:", re.MULTILINE
)
_LINK = re.compile(r"\]\(<?([^)\s>#?]+\.md)(?:#[^)\s]*)?>?\)")
_PLAIN = re.compile(r"(?:[\w][\w. -]*/)*[\w][\w. -]*")
_KEPT: Final = frozenset(
    ("content", "tags", "created_at", "updated_at", "external_id", "metadata")
)
"""Members of a memory that have a place of their own in a concept."""


class Okf(DirectoryFormat):
    name = "okf"
    title = "the Open Knowledge Format"
    writes_directories = True

    def sniff_directory(self, root: Path) -> bool:
        if _VERSION in (_front_text(root / "index.md") or ""):
            return True
        heads = [_front_text(path) for path in _some(root)]
        typed = [head for head in heads if head is not None and _TYPE.search(head)]
        return bool(typed) and not any(_OF_MIF.search(head) for head in typed)

    def is_file(self, root: Path, name: str) -> bool:
        return name.endswith(".md") and not any(part.startswith(".") for part in name.split("/"))

    def file(self, file: TextFile, into: Translation) -> None:
        name = file.name.removesuffix(".md")
        if posixpath.basename(file.name) in _RESERVED:
            return into.left_out("a listing or a log", 1, file.pointer, "it is no concept")
        parts = split(file.text)
        if parts is None:
            return into.skip("missing_field", file.pointer)
        try:
            limits = into.limits
            front = yaml.read(parts[0].encode(), most=_FRONT, depth=limits.depth, before=1)
        except DocumentError as error:
            return into.skip("not_front_matter", file.pointer, error.line)
        if not isinstance(front, dict) or not strings([front.get("type")]) or not front["type"]:
            return into.skip("missing_field", f"{file.pointer}/type")
        changed = object_of(front, "generated").get("at", front.get("timestamp", file.changed))
        related = [into.id_of("memory", one) for one in _links(parts[1], name)]
        return into.memory(
            (name,),
            _heading(front) + parts[1].strip("\r\n"),
            file.pointer,
            rest={"path": file.name, "front": front},
            id=object_of(front, "mif").get("id"),
            created_at=changed,
            updated_at=changed,
            external_id=name,
            tags=strings(front.get("tags")) or None,
            related_memory_ids=related or None,
        )

    def write_file(
        self, read: Import, path: Path, options: dict[str, Any], *, replace: bool
    ) -> list[Loss]:
        given = {key: options[key] for key in ("user_id",) if options.get(key) is not None}
        dumped = formats.dump(read, format=MIF2.name, local=bool(options.get("local")), **given)
        document = json.loads(dumped.data)
        losses = [*dumped.losses, *dumped.added, *_records_lost(document)]
        used, listed = set[str](), list[str]()
        with NewFiles(replace=replace) as files:
            for memory in document["memories"]:
                name, front, body = _concept(memory, used)
                text = b"---\n" + yaml.write(front) + f"---\n\n{body}\n".encode()
                file = path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                files.add(file, [text])
                said = front.get("description")
                about = f" - {said}" if isinstance(said, str) else ""
                title = front.get("title")
                shown = title if isinstance(title, str) else name.removesuffix(".md")
                listed.append(f"* [{shown}](</{name}>){about}".replace("\n", " "))
            head = yaml.write({_VERSION: VERSION}).decode()
            index = "\n".join((f"---\n{head}---\n", "# Concepts", "", *listed, ""))
            path.mkdir(parents=True, exist_ok=True)
            files.add(path / "index.md", [index.encode()])
        return losses


def _some(root: Path) -> Iterator[Path]:
    found = (path for path in sorted(root.rglob("*.md")) if path.name not in _RESERVED)
    for _, path in zip(range(_LOOKED), found, strict=False):
        yield path


def _front_text(path: Path) -> str | None:
    """The front matter of a file; None if it has none."""
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as source:
        parts = split(source.read(_HEAD).decode("utf-8", "replace"))
    return None if parts is None else parts[0]


def _heading(front: dict[str, Any]) -> str:
    """The title and the description, before the body in the text of a memory."""
    said = strings([front.get("title"), front.get("description")])
    return "".join(f"{one}\n\n" for one in said if one)


def _links(body: str, name: str) -> list[str]:
    """The concepts that a body links to; a link out of the directory leads to none."""
    found: dict[str, None] = {}
    for link in _LINK.findall(body):
        target = unquote(link)
        if "://" in target:
            continue
        place = target[1:] if target.startswith("/") else f"{posixpath.dirname(name)}/{target}"
        way = posixpath.normpath(place.lstrip("/")).removesuffix(".md")
        if not way.startswith("..") and posixpath.basename(way) not in ("index", "log"):
            found[way] = None
    return [one for one in found if one != name]


def _concept(memory: Record, used: set[str]) -> tuple[str, dict[str, Any], str]:
    """The path, the front matter and the body of the concept that a memory becomes."""
    metadata = dict(object_of(memory, "metadata"))
    kept = metadata.get(Okf.name)
    front = kept.get("front") if isinstance(kept, dict) else None
    named = kept.get("path") if isinstance(kept, dict) else None
    content = str(memory["content"])
    if isinstance(front, dict) and strings([front.get("type")]):
        body = content.removeprefix(_heading(front))
    else:
        rest = {key: value for key, value in memory.items() if key not in _KEPT}
        if metadata:
            rest["metadata"] = metadata
        if "updated_at" in memory:
            rest["created_at"] = memory["created_at"]
        agent = memory.get("agent_id") or f"omsgrain/{__version__}"
        when = memory.get("updated_at", memory["created_at"])
        front = {"type": "Memory", "generated": {"by": agent, "at": when}, "mif": rest}
        if memory.get("tags"):
            front["tags"] = memory["tags"]
        body, named = content, None
    id = uuid_of("memory", str(memory["id"]))  # another id could lead out of the directory
    name = f"memories/{id}.md"
    if isinstance(named, str) and named.endswith(".md") and _is_inside(named):
        name = named
    if name.lower() in used:
        name = f"memories/{id}-{len(used)}.md"
    used.add(name.lower())
    return name, front, body


def _is_inside(name: str) -> bool:
    """Whether a path stays in the directory, and is that of a concept."""
    return _PLAIN.fullmatch(name) is not None and posixpath.basename(name) not in _RESERVED


def _records_lost(document: dict[str, Any]) -> Iterator[Loss]:
    for pointer, kind in MIF2.arrays.items():
        value = value_at(document, pointer)
        for record in value if isinstance(value, list) and kind != "memory" else ():
            id = record.get("id") if isinstance(record, dict) else None
            yield Loss(str(id or pointer), kind, f"{Okf.title} has no such record")


OKF: Final = Okf()
