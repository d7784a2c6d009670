# SPDX-License-Identifier: Apache-2.0
"""Reads and writes memories as Markdown with YAML front matter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from omsgrain.formats import times, yaml
from omsgrain.formats import yaml as yaml_writer
from omsgrain.formats.json_text import bounded
from omsgrain.formats.mif_ld.records import CONTEXT, LIMITS, MifLdLimits, Shape, shape_of
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.records import Record, objects_of
from omsgrain.formats.source import same

_HEAD: Final = 64 << 10
_BOM: Final = "\ufeff"
_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n")
_END = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_KEYS = re.compile(
    rb"^(?:\"?)(?:id|@id|type|memoryType|memory_type|conceptType|created)(?:\"?):", re.MULTILINE
)
_OTHERS = re.compile(rb"^[\"']?mif_version[\"']?[ \t]*:", re.MULTILINE)


def is_markdown(data: bytes) -> bool:
    head = data[:_HEAD]
    return (
        _BEGIN.match(head) is not None
        and _KEYS.search(head) is not None
        and _OTHERS.search(head) is None
    )


def split(text: str) -> tuple[str, str] | None:
    text = text.removeprefix(_BOM)
    begin = _END.match(text)
    if begin is None:
        return None
    end = _END.search(text, begin.end() + 1)
    if end is None:
        return None
    return text[begin.end() + 1 : end.start()], text[end.end() + 1 :]


URN: Final = "urn:mif:"
FRONT_1_X: Final[tuple[str, ...]] = (
    "created", "modified", "namespace", "title", "summary", "properties", "compressedAt", "tags",
    "aliases", "temporal", "provenance", "embedding", "relationships", "citations", "documents",
    "entities", "ontology", "entity", "extensions",
)  # fmt: skip
"""The members of front matter in shape 1.x, besides id, type and memoryType."""
KEBAB: Final = {
    "RelatesTo": "relates-to",
    "DerivedFrom": "derived-from",
    "Supersedes": "supersedes",
    "ConflictsWith": "conflicts-with",
    "PartOf": "part-of",
    "Implements": "implements",
    "Uses": "uses",
    "Created": "created-by",
    "MentionedIn": "mentioned-in",
}
"""Relationship type in JSON -> in text; that of Created is irregular."""
PASCAL: Final = {kebab: name for name, kebab in KEBAB.items()} | {"created": "Created"}

_SNAKE: Final[dict[str, dict[str, str]]] = {
    "": {"compressedAt": "compressed_at"},
    "temporal": {
        "validFrom": "valid_from", "validUntil": "valid_until", "recordedAt": "recorded_at",
        "accessCount": "access_count", "lastAccessed": "last_accessed",
        "reinforcementHistory": "reinforcement_history",
    },
    "decay": {"currentStrength": "current_strength", "lastReinforced": "last_reinforced"},
    "provenance": {
        "sourceType": "source_type", "trustLevel": "trust_level", "sourceRef": "source_ref",
        "agentVersion": "agent_version",
    },
    "embedding": {
        "modelVersion": "model_version", "sourceText": "source_text", "vectorUri": "vector_uri",
    },
    "citations": {"citationType": "type", "citationRole": "role"},
}  # fmt: skip
"""Object -> member in JSON -> name in shape 0.1; halfLife keeps its name."""
_CAMEL: Final = {
    place: {snake: name for name, snake in names.items()} for place, names in _SNAKE.items()
}
_SNAKE_NAMES: Final = frozenset(
    ("memory_type", *(snake for names in _CAMEL.values() for snake in names if "_" in snake))
)
"""Names that only the front matter of shape 0.1 has."""
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def _respelled(value: Any, place: str, names: Mapping[str, Mapping[str, str]]) -> Any:
    """Convert the member names of an object to those of JSON, or of the front matter of 0.1."""
    if isinstance(value, list) and place == "citations":
        return [_respelled(one, place, names) for one in value]
    known = names.get(place)
    if not isinstance(value, dict) or known is None:
        return value
    spelled: Record = {}
    for name, one in value.items():
        new = known.get(name, name)
        # If both spellings are present, keep them apart.
        if new != name and new in value:
            new = name
        inner = new if new in names and place in ("", "temporal") else name
        spelled[new] = _respelled(one, inner, names) if inner in names else one
    return spelled


def id_of(urn: str) -> str:
    bare = urn.removeprefix(URN)
    return urn if not bare or bare.startswith(URN) else bare


def urn_of(id: str) -> str:
    return id if id.startswith(URN) else URN + id


def mirrors(document: Mapping[str, Any]) -> Record:
    """Return the members of shape 1.x that repeat others; front matter omits them."""
    at, says = document.get("modified", document.get("created")), document.get("summary")
    made = {"timestamp": at} if isinstance(at, str) and times.parse(at) is not None else {}
    return made | {"description": says} if isinstance(says, str) else made


def slug(name: str) -> str:
    return _NOT_PLAIN.sub("-", name.lower()).strip("-") or "unnamed"


SPACE: Final = " \t\r\n"
"""Characters stripped from the ends of a content."""
# The text after | is the label that an editor shows.
_RELATED = re.compile(r"- ([A-Za-z0-9][A-Za-z0-9:-]*) \[\[([^\]|\r\n]+)(?:\|[^\]\r\n]*)?\]\]")
_NAMED = re.compile(r"- @\[\[([^\]|\r\n]+)(?:\|([^\]|\r\n]+))?\]\]")
_HEADING = re.compile(r"^## (Relationships|Entities)[ \t]*\r?$", re.MULTILINE)
_SAID_BY_1_X: Final = frozenset(
    ("memoryType", "relationships", "documents", "properties", "compressedAt", "entities")
)
_KNOWN: Final = frozenset(("id", "@id", "type", "memoryType", *FRONT_1_X))


def read_bytes(
    data: bytes, limits: MifLdLimits = LIMITS, shape: Shape | None = None
) -> tuple[Record, Shape, tuple[Problem, ...]]:
    bounded(data, limits.document)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        says = "the text is not UTF-8"
        raise DocumentError([Problem("not_markdown", "", says, "UTF-8", line=line)]) from None
    front, body = _parted(text, limits)
    own = _shape_of(front, body) or shape or "0.1"
    document, warnings = _document(front, body, own)
    return document, own, tuple(warnings)


def read(text: str, shape: Shape | None = None) -> tuple[Record, tuple[Problem, ...]]:
    document, _, warnings = read_bytes(text.encode("utf-8", "surrogatepass"), LIMITS, shape)
    return document, warnings


def _parted(text: str, limits: MifLdLimits) -> tuple[Record, str]:
    parts = split(text)
    if parts is None:
        expected = "YAML between two lines of three dashes"
        raise DocumentError(
            [Problem("not_markdown", "", "the text has no front matter", expected)]
        )
    most, depth = limits.document, limits.depth
    front = yaml.read(parts[0].encode(), most=most, depth=depth, before=1)
    if not isinstance(front, dict):
        says = "the front matter is not an object"
        raise DocumentError([Problem("not_markdown", "", says, "an object")])
    return front, parts[1]


def _shape_of(front: Record, body: str) -> Shape | None:
    """Return the shape that a text shows; None if it shows none."""
    if "conceptType" in front or not _SAID_BY_1_X.isdisjoint(front):
        return "1.x"
    # Other objects, such as `entity`, use names with _ in both shapes.
    inner = (value for place in _SNAKE if isinstance(value := front.get(place), dict))
    names = {*front, *(name for value in inner for name in value)}
    if not names.isdisjoint(_SNAKE_NAMES) or sections(body)[1]:
        return "0.1"
    later = ("validFrom", "validUntil", "recordedAt", "sourceType", "trustLevel", "accessCount")
    return "1.x" if not names.isdisjoint(later) else None


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
        says = "the section has other lines, so it is read as content"
        warnings.append(Problem("section", "/content", says))
    document["content"] = content.strip(SPACE)
    for name, value in (rest if concept else _respelled(rest, "", _CAMEL)).items():
        if name in document:
            says = "the body already has this member, so the front matter's value is ignored"
            warnings.append(Problem("front_matter", f"/{name}", says))
            continue
        if name not in _KNOWN:
            says = "the front matter member is unknown: it is kept unchanged"
            warnings.append(Problem("front_matter", f"/{name}", says))
        document[name] = _typed(value) if name == "citations" and not concept else value
    for name, value in (mirrors(document) if concept else related).items():
        document.setdefault(name, value)
    return document, warnings


def _typed(value: Any) -> Any:
    """Add the ``@type`` that shape 0.1's front matter omits to citations."""
    if not isinstance(value, list):
        return value
    return [{"@type": "Citation", **one} if isinstance(one, dict) else one for one in value]


def sections(body: str) -> tuple[str, dict[str, list[Record]]]:
    """Split a body of shape 0.1 into content, relationships and entities.

    A heading counts only if all lines up to the next heading are items.
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
    """Return the items of a section; None if it has other lines."""
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


_BEHIND: Final = ("relationships", "entities")
_NOT_WRITTEN: Final = frozenset(
    ("@context", "@type", "@id", "conceptType", "content", "timestamp", "description", "blocks")
)
"""Members that the front matter writes differently or cannot hold."""
_KEY = re.compile(
    r'^([ ]*(?:- )*)"(?!(?:true|false|null|yes|no|on|off|y|n)")([A-Za-z][A-Za-z0-9_]*)":',
    re.MULTILINE | re.IGNORECASE,
)
_FORBIDDEN: Final = frozenset("[]|\r\n")
_BREAKS: Final = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def write(document: Record, shape: Shape | None = None) -> tuple[str, list[tuple[str, str, str]]]:
    shape = shape or shape_of(document)
    front = _front(document, shape)
    body = [document["content"]]
    if shape == "0.1":
        body += _behind(document)
    # Remove the quotes of keys that YAML readers cannot misread.
    yaml = _KEY.sub(r"\1\2:", yaml_writer.write(front).decode())
    text = f"---\n{yaml}---\n\n" + "\n\n".join(body) + "\n"
    again, _ = read(text, shape)
    named = str(document.get("@id"))
    # Members that repeat others are not lost: the reader of shape 1.x adds them.
    repeated = mirrors(document)
    document, again = repeated | document, repeated | again
    return text, [(named, *one) for one in lost(document, again, "", f"Markdown of shape {shape}")]


def _front(document: Record, shape: Shape) -> Record:
    front: Record = {"id": id_of(document["@id"])}
    concept, memory = document.get("conceptType"), document.get("memoryType")
    if shape == "1.x":
        front["type"] = document.get("conceptType", memory)
        if "memoryType" in document and "conceptType" in document:
            front["memoryType"] = memory
    else:
        front["type"] = document.get("memoryType", concept)
    behind = _BEHIND if shape == "0.1" else ()
    members = {
        name: document[name] for name in FRONT_1_X if name in document and name not in behind
    }
    known = {*FRONT_1_X, *_NOT_WRITTEN, "memoryType", "id", "type"}
    members |= {name: value for name, value in document.items() if name not in known}
    if shape == "0.1":
        members = _respelled(members, "", _SNAKE)
        if isinstance(members.get("citations"), list):
            members["citations"] = [
                {name: value for name, value in one.items() if name != "@type"}
                if isinstance(one, dict) else one
                for one in members["citations"]
            ]  # fmt: skip
    return front | {name: value for name, value in members.items() if name not in front}


def _behind(document: Record) -> Iterator[str]:
    """Yield the sections that shape 0.1 has after the content."""
    for name, write_item in (("relationships", _write_relationship), ("entities", _write_entity)):
        lines = [line for one in objects_of(document, name) if (line := write_item(one))]
        if lines:
            yield f"## {name.capitalize()}\n\n" + "\n".join(lines)


def _write_relationship(one: Record) -> str | None:
    target = one.get("target")
    named = target.get("@id") if isinstance(target, dict) else target
    kind = one.get("relationshipType", one.get("type"))
    if not isinstance(kind, str) or not isinstance(named, str) or not _is_plain(id_of(named)):
        return None
    return f"- {KEBAB.get(kind, kind)} [[{id_of(named)}]]"


def _write_entity(one: Record) -> str | None:
    name, kind = one.get("name"), one.get("entityType")
    if not isinstance(name, str) or not _is_plain(name):
        return None
    return f"- @[[{name}|{kind}]]" if isinstance(kind, str) else f"- @[[{name}]]"


def _is_plain(text: str) -> bool:
    """Whether a link in double brackets can hold a text."""
    if not text or text != text.strip(SPACE) or not _FORBIDDEN.isdisjoint(text):
        return False
    return not any(one in text for one in _BREAKS)


def lost(value: Any, again: Any, way: str, form: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and isinstance(again, dict):
        for name, one in value.items():
            place = f"{way}/{name}" if way else name
            if name not in again:
                yield place, f"{form} has no place for it"
            else:
                yield from lost(one, again[name], place, form)
        for name in again:
            if name not in value:
                yield f"{way}/{name}" if way else name, f"{form} always has it"
    elif isinstance(value, list) and isinstance(again, list) and len(value) == len(again):
        for i, (one, other) in enumerate(zip(value, again, strict=True)):
            yield from lost(one, other, f"{way}/{i}", form)
    elif not same(value, again):
        yield way, f"{form} can only express it less exactly"
