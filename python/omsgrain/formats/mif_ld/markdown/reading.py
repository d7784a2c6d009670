# SPDX-License-Identifier: Apache-2.0
"""A text as a memory. Spec: MIF 0.1 and 1.x, the forms in Markdown."""

from __future__ import annotations

import re
from typing import Any, Final

from omsgrain.formats import yaml_reader
from omsgrain.formats.mif_ld.fields import CONTEXT
from omsgrain.formats.mif_ld.limits import LIMITS, Limits
from omsgrain.formats.mif_ld.markdown.front import split
from omsgrain.formats.mif_ld.markdown.names import (
    FRONT_1_X,
    PASCAL,
    camel,
    mirrors,
    slug,
    urn_of,
)
from omsgrain.formats.mif_ld.shape import Shape
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.reading import bounded
from omsgrain.formats.records import Record

__all__ = ["SPACE", "read", "read_bytes", "sections"]

SPACE: Final = " \t\r\n"
"""What is taken off the ends of a content."""
# What stands behind a stroke is how an editor shows the link.
_RELATED = re.compile(r"- ([A-Za-z0-9][A-Za-z0-9:-]*) \[\[([^\]|\r\n]+)(?:\|[^\]\r\n]*)?\]\]")
_NAMED = re.compile(r"- @\[\[([^\]|\r\n]+)(?:\|([^\]|\r\n]+))?\]\]")
_HEADING = re.compile(r"^## (Relationships|Entities)[ \t]*\r?$", re.MULTILINE)
_SAID_BY_1_X: Final = frozenset(
    ("memoryType", "relationships", "documents", "properties", "compressedAt", "entities")
)
_SNAKE = re.compile(r"[a-z]+_[a-z_]+")
_KNOWN: Final = frozenset(("id", "@id", "type", "memoryType", *FRONT_1_X))


def read_bytes(
    data: bytes, limits: Limits = LIMITS, shape: Shape | None = None
) -> tuple[Record, Shape, tuple[Problem, ...]]:
    """Read a file; as `read`, and the shape that it is of.

    Raises:
        DocumentError: it is too large, is not UTF-8, or has no front matter that can be read.
        UnsupportedError: there is no PyYAML.
    """
    bounded(data, limits.document)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        says = "the text is not UTF-8"
        raise DocumentError([Problem("not_markdown", "", says, "UTF-8", line=line)]) from None
    front, body = _parted(text, limits)
    told = _shape_of(front, body) or shape or "0.1"
    document, warnings = _document(front, body, told)
    return document, told, tuple(warnings)


def read(text: str, shape: Shape | None = None) -> tuple[Record, tuple[Problem, ...]]:
    """Make a memory of a text.

    Args:
        text: front matter, and the content.
        shape: of the memory, if nothing in the text tells; by default 0.1.

    Returns:
        The memory, which nobody has judged yet, and what was read although it looks wrong.

    Raises:
        DocumentError: it has no front matter that can be read.
        UnsupportedError: there is no PyYAML.
    """
    document, _, warnings = read_bytes(text.encode("utf-8", "surrogatepass"), LIMITS, shape)
    return document, warnings


def _parted(text: str, limits: Limits) -> tuple[Record, str]:
    parts = split(text)
    if parts is None:
        expected = "two lines of three dashes, and YAML between them"
        raise DocumentError(
            [Problem("not_markdown", "", "the text has no front matter", expected)]
        )
    most, depth = limits.document, limits.depth
    front = yaml_reader.read(parts[0].encode(), most=most, depth=depth, before=1)
    if not isinstance(front, dict):
        says = "the front matter is no object"
        raise DocumentError([Problem("not_markdown", "", says, "an object")])
    return front, parts[1]


def _shape_of(front: Record, body: str) -> Shape | None:
    """The shape that a text is of; None if nothing in it tells."""
    if "conceptType" in front or not _SAID_BY_1_X.isdisjoint(front):
        return "1.x"
    inner = (value for value in front.values() if isinstance(value, dict))
    names = {*front, *(name for value in inner for name in value)}
    if any(_SNAKE.fullmatch(name) for name in names) or sections(body)[1]:
        return "0.1"
    told = ("validFrom", "validUntil", "recordedAt", "sourceType", "trustLevel", "accessCount")
    return "1.x" if not names.isdisjoint(told) else None


def _document(front: Record, body: str, shape: Shape) -> tuple[Record, list[Problem]]:
    warnings: list[Problem] = []
    concept = shape == "1.x"
    document: Record = {"@context": CONTEXT, "@type": "Concept" if concept else "Memory"}
    rest = dict(front)
    id = rest.pop("id", None)
    if isinstance(id, str):
        document["@id"] = urn_of(id)
    elif id is not None:
        document["@id"] = id
    kind = rest.pop("type", None)
    if kind is None and not concept:
        kind = rest.pop("memory_type", None)
    if kind is not None:
        document["conceptType" if concept else "memoryType"] = kind
    if concept and "memoryType" in rest:
        document["memoryType"] = rest.pop("memoryType")
    content, related = (body, {}) if concept else sections(body)
    if not concept and _HEADING.search(content) is not None:
        says = "a section of relationships or entities with other lines in it is content"
        warnings.append(Problem("section", "/content", says))
    document["content"] = content.strip(SPACE)
    for name, value in (rest if concept else camel(rest)).items():
        if name in document:
            says = "front matter cannot say what the text says"
            warnings.append(Problem("front_matter", f"/{name}", says))
            continue
        if name not in _KNOWN:
            says = "a member that front matter does not name: kept as it is"
            warnings.append(Problem("front_matter", f"/{name}", says))
        document[name] = _typed(value) if name == "citations" and not concept else value
    for name, value in (mirrors(document) if concept else related).items():
        document.setdefault(name, value)
    return document, warnings


def _typed(value: Any) -> Any:
    """Citations with the ``@type`` that front matter of shape 0.1 leaves out."""
    if not isinstance(value, list):
        return value
    return [{"@type": "Citation", **one} if isinstance(one, dict) else one for one in value]


def sections(body: str) -> tuple[str, dict[str, list[Record]]]:
    """The content of a text of shape 0.1, and the relationships and entities behind it.

    A heading counts only if nothing but such lines comes after it, up to the end or the next.
    """
    found: dict[str, list[Record]] = {}
    headings = list(_HEADING.finditer(body))
    end = len(body)
    for heading in reversed(headings):
        name = heading[1].lower()
        items = _items(name, body[heading.end() : end])
        if items is None or name in found:
            break
        found[name] = items
        end = heading.start()
    order = ("relationships", "entities")
    return body[:end], {name: found[name] for name in order if name in found}


def _items(name: str, text: str) -> list[Record] | None:
    """The items of a section; None if anything else stands in it."""
    lines = [line for line in text.splitlines() if line.strip()]
    make, pattern = (_relationship, _RELATED) if name == "relationships" else (_entity, _NAMED)
    items = [make(match) for line in lines if (match := pattern.fullmatch(line.strip()))]
    return items if items and len(items) == len(lines) else None


def _relationship(match: re.Match[str]) -> Record:
    kind, target = match[1], match[2]
    return {
        "@type": "Relationship",
        "relationshipType": PASCAL.get(kind, kind),
        "target": {"@id": urn_of(target)},
    }


def _entity(match: re.Match[str]) -> Record:
    name, kind = match[1], match[2]
    entity: Record = {
        "@type": "EntityReference",
        "entity": {"@id": f"urn:mif:entity:{slug(kind or 'concept')}:{slug(name)}"},
    }
    if kind is not None:
        entity["entityType"] = kind
    return entity | {"name": name}
