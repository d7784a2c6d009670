# SPDX-License-Identifier: Apache-2.0
"""The common model of the formats of agent memory, used to convert between them.

A format reads its records into these and writes its records of them; so each knows only itself. An
item says what its record says: nothing is made up, and what is missing is None or empty. Ids are
those of its original format, texts and times keep their spelling. `rest` holds the members for
which no other format has a word.

Names of types are those of MIF 2.0 where it has one, since its set is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["memory", "todo", "project", "reminder", "entity", "relation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    rest: Mapping[str, Any] = field(default_factory=dict)  # members that only its format has


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Part):
    id: str = ""  # its id; for a record without an id, its ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention(Part):
    name: str = ""
    type: str | None = None
    confidence: float | None = None
    of: str | None = None  # the id of the entity, if the document has exactly one that matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Part):
    model: str | None = None
    vector: tuple[float, ...] = ()
    dimensions: int | None = None
    normalized: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Part):
    """The origin of a memory."""

    type: str | None = None
    session: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(Part):
    id: str | None = None
    content: str | None = None
    created_at: str | None = None
    type: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem(Item):
    content: str = ""
    type: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    accessed_at: str | None = None
    access_count: int | None = None
    importance: float | None = None  # 0 to 1
    decay_rate: float | None = None
    priority: str | None = None  # ``critical``, ``important`` or ``standard``
    pinned: bool | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[Mention, ...] = ()
    embedding: Embedding | None = None
    origin: Provenance | None = None
    parent: str | None = None  # the memory it belongs to
    related: tuple[str, ...] = ()
    related_todos: tuple[str, ...] = ()
    agent: str | None = None
    external: str | None = None  # its id in another system
    version: int | None = None  # its version, counted from 1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    redactions: tuple[Any, ...] = ()  # parts removed from the content


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo(Item):
    content: str = ""
    status: str | None = None
    priority: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    due: str | None = None
    completed_at: str | None = None
    short_id: str | None = None
    project: str | None = None
    parent: str | None = None
    subtasks: tuple[str, ...] = ()
    blocked_on: str | None = None
    blocked_by: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    notes: str | None = None
    recurrence: str | None = None
    comments: tuple[Comment, ...] = ()
    related: tuple[str, ...] = ()
    external: str | None = None
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Item):
    name: str | None = None
    prefix: str | None = None
    description: str | None = None
    status: str | None = None
    color: str | None = None
    icon: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder(Item):
    content: str = ""
    trigger: Mapping[str, Any] = field(default_factory=dict)  # its trigger, in its format
    status: str | None = None
    priority: int | None = None
    created_at: str | None = None
    tags: tuple[str, ...] = ()
    triggered_at: str | None = None
    dismissed_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Item):
    name: str = ""
    types: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    summary: str | None = None
    created_at: str | None = None
    last_seen_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Item):
    source: str = ""  # the id that it starts from
    target: str = ""  # the id that it leads to
    source_kind: Kind = "entity"  # the kind of the source
    target_kind: Kind = "entity"  # the kind of the target
    type: str | None = None
    weight: float | None = None  # strength or certainty, 0 to 1
    context: str | None = None
    created_at: str | None = None
    valid_at: str | None = None
    invalidated_at: str | None = None
    strengthened: int | None = None  # how often it was used


@dataclass(frozen=True, slots=True, kw_only=True)
class Only(Item):
    """A record of a kind that only one format has; all its members are in `rest`."""

    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Item):
    """The data around the records, without counts and other derived values."""

    user: str | None = None  # the user the memories belong to
    exported_at: str | None = None
    # name and version of the system that wrote it
    generator: Mapping[str, Any] = field(default_factory=dict)
    pii: bool | None = None  # whether there was personal data
    secrets: bool | None = None  # whether there were secrets
    redacted: tuple[str, ...] = ()  # the kinds that were redacted
