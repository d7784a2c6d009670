# SPDX-License-Identifier: Apache-2.0
"""A memory as a text, and what the text does not hold: it is read again, and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from omsgrain.formats.mif1 import yaml_writer
from omsgrain.formats.mif_ld.markdown.front import joined
from omsgrain.formats.mif_ld.markdown.names import FRONT_1_X, KEBAB, id_of, mirrors, snake
from omsgrain.formats.mif_ld.markdown.reading import SPACE, read
from omsgrain.formats.mif_ld.shape import Shape, shape_of
from omsgrain.formats.records import Record
from omsgrain.formats.source import same

__all__ = ["lost", "write"]

_ABSENT: Final = object()
_BEHIND: Final = ("relationships", "entities")
_NOT_WRITTEN: Final = frozenset(
    ("@context", "@type", "@id", "conceptType", "content", "timestamp", "description", "blocks")
)
"""Members that are said otherwise, or that Markdown has no place for."""
_KEY = re.compile(
    r'^([ ]*(?:- )*)"(?!(?:true|false|null|yes|no|on|off|y|n)")([A-Za-z][A-Za-z0-9_]*)":',
    re.MULTILINE | re.IGNORECASE,
)
_FORBIDDEN: Final = frozenset("[]|\r\n")
_BREAKS: Final = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def write(document: Record, shape: Shape | None = None) -> tuple[str, list[tuple[str, str, str]]]:
    """Write a memory.

    Args:
        document: a memory that was judged.
        shape: of its form in Markdown; by default its own.

    Returns:
        The text, and what it does not hold: the memory's ``@id``, the member, and why.
    """
    shape = shape or shape_of(document)
    front = _front(document, shape)
    body = [document["content"]]
    if shape == "0.1":
        body += _behind(document)
    # Keys that no reader of YAML takes for anything else need no quotes.
    yaml = _KEY.sub(r"\1\2:", yaml_writer.write(front).decode())
    text = joined(yaml, "\n\n".join(body))
    again, _ = read(text, shape)
    named = str(document.get("@id"))
    told = mirrors(document)  # said by others, and read again from these
    document, again = told | document, told | again
    return text, [(named, *one) for one in lost(document, again, "", f"Markdown of shape {shape}")]


def _front(document: Record, shape: Shape) -> Record:
    front: Record = {"id": id_of(document["@id"])}
    if shape == "1.x":
        front["type"] = document.get("conceptType", document.get("memoryType"))
        if "memoryType" in document and "conceptType" in document:
            front["memoryType"] = document["memoryType"]
        members = {name: document[name] for name in FRONT_1_X if name in document}
    else:
        front["type"] = document.get("memoryType", document.get("conceptType"))
        members = {
            name: document[name] for name in FRONT_1_X if name in document and name not in _BEHIND
        }
    known = {*FRONT_1_X, *_NOT_WRITTEN, "memoryType", "id", "type"}
    members |= {name: value for name, value in document.items() if name not in known}
    if shape == "0.1":
        members = snake(members)
        if isinstance(members.get("citations"), list):
            members["citations"] = [
                {name: value for name, value in one.items() if name != "@type"}
                if isinstance(one, dict) else one
                for one in members["citations"]
            ]  # fmt: skip
    return front | {name: value for name, value in members.items() if name not in front}


def _behind(document: Record) -> Iterator[str]:
    """What shape 0.1 says behind the content."""
    lines = [line for one in _items(document, "relationships") if (line := _relationship(one))]
    if lines:
        yield "## Relationships\n\n" + "\n".join(lines)
    lines = [line for one in _items(document, "entities") if (line := _entity(one))]
    if lines:
        yield "## Entities\n\n" + "\n".join(lines)


def _items(document: Record, name: str) -> list[Record]:
    value = document.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _relationship(one: Record) -> str | None:
    target = one.get("target")
    named = target.get("@id") if isinstance(target, dict) else target
    kind = one.get("relationshipType", one.get("type"))
    if not isinstance(kind, str) or not isinstance(named, str) or not _is_plain(id_of(named)):
        return None
    return f"- {KEBAB.get(kind, kind)} [[{id_of(named)}]]"


def _entity(one: Record) -> str | None:
    name, kind = one.get("name"), one.get("entityType")
    if not isinstance(name, str) or not _is_plain(name):
        return None
    return f"- @[[{name}|{kind}]]" if isinstance(kind, str) else f"- @[[{name}]]"


def _is_plain(text: str) -> bool:
    """Whether a text can stand in brackets."""
    if not text or text != text.strip(SPACE) or not _FORBIDDEN.isdisjoint(text):
        return False
    return not any(one in text for one in _BREAKS)


def lost(value: Any, again: Any, way: str, form: str) -> Iterator[tuple[str, str]]:
    """The members that are not read again as they were, each with why.

    Args:
        value: what there was.
        again: what was read.
        way: the members that lead to it.
        form: what it was written in.
    """
    if isinstance(value, dict) and isinstance(again, dict):
        for name, one in value.items():
            place = f"{way}/{name}" if way else name
            if name not in again:
                yield place, f"{form} has no place for it"
            else:
                yield from lost(one, again[name], place, form)
        for name in again:
            if name not in value:
                yield f"{way}/{name}" if way else name, f"{form} always says it"
    elif isinstance(value, list) and isinstance(again, list) and len(value) == len(again):
        for i, (one, other) in enumerate(zip(value, again, strict=True)):
            yield from lost(one, other, f"{way}/{i}", form)
    elif not same(value, again):
        yield way, f"{form} says it in another way, which is not as exact"
