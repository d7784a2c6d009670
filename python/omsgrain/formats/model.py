# SPDX-License-Identifier: Apache-2.0
"""What the formats of agent memory have in common, each thing once, as the formats' hub has it.

A format reads its records into these and writes its records of them; so each knows only itself. An
item says what its record says: nothing is made up, and what is missing is None or empty. Ids are
those of the format that it came from, texts and times as they were spelled. What no other format
has a word for stands in `rest`, by the name of its member.

Names of types are those of MIF 2.0 where it has one, since its set is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["memory", "todo", "project", "reminder", "entity", "relation"]
"""What an id can be the id of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What stands inside a record.

    Attributes:
        rest: members that only its format knows.
    """

    rest: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Part):
    """A record.

    Attributes:
        id: by what its format knows it; of a record without an id, what it joins.
    """

    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention(Part):
    """A thing that a memory names.

    Attributes:
        of: the id of the entity, if the document has it and it is certain which.
    """

    name: str = ""
    type: str | None = None
    confidence: float | None = None
    of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Part):
    """A vector, and the model that made it."""

    model: str | None = None
    vector: tuple[float, ...] = ()
    dimensions: int | None = None
    normalized: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Part):
    """Where a memory came from."""

    type: str | None = None
    session: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(Part):
    """What was said about a todo."""

    id: str | None = None
    content: str | None = None
    created_at: str | None = None
    type: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Item):
    """Something that is remembered.

    Attributes:
        importance: 0 to 1.
        priority: ``critical``, ``important`` or ``standard``.
        parent: the memory it belongs to.
        external: its id in another system.
        version: how often it was written.
        redactions: what was taken out of the content.
    """

    content: str = ""
    type: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    accessed_at: str | None = None
    access_count: int | None = None
    importance: float | None = None
    decay_rate: float | None = None
    priority: str | None = None
    pinned: bool | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[Mention, ...] = ()
    embedding: Embedding | None = None
    origin: Provenance | None = None
    parent: str | None = None
    related: tuple[str, ...] = ()
    related_todos: tuple[str, ...] = ()
    agent: str | None = None
    external: str | None = None
    version: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    redactions: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo(Item):
    """Something that is to be done."""

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
    """What todos belong to."""

    name: str | None = None
    prefix: str | None = None
    description: str | None = None
    status: str | None = None
    color: str | None = None
    icon: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder(Item):
    """Of what to remind, and when.

    Attributes:
        trigger: what sets it off, as its format says it.
    """

    content: str = ""
    trigger: Mapping[str, Any] = field(default_factory=dict)
    status: str | None = None
    priority: int | None = None
    created_at: str | None = None
    tags: tuple[str, ...] = ()
    triggered_at: str | None = None
    dismissed_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Item):
    """A thing that memories are about."""

    name: str = ""
    types: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    summary: str | None = None
    created_at: str | None = None
    last_seen_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Item):
    """Two things that belong together.

    Attributes:
        source: the id that it starts from.
        target: the id that it leads to.
        source_kind: of what that is the id.
        target_kind: of what that is the id.
        weight: how strong, or how certain, 0 to 1.
        strengthened: how often it was used.
    """

    source: str = ""
    target: str = ""
    source_kind: Kind = "entity"
    target_kind: Kind = "entity"
    type: str | None = None
    weight: float | None = None
    context: str | None = None
    created_at: str | None = None
    valid_at: str | None = None
    invalidated_at: str | None = None
    strengthened: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Only(Item):
    """A record of a kind that one format alone has: all of it is `rest`."""

    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Item):
    """What stands around the records; what is counted or computed from them is no part of it.

    Attributes:
        user: whose memories they are.
        generator: name and version of the system that wrote it.
        pii: whether there was personal data.
        secrets: whether there were secrets.
        redacted: the kinds that were redacted.
    """

    user: str | None = None
    exported_at: str | None = None
    generator: Mapping[str, Any] = field(default_factory=dict)
    pii: bool | None = None
    secrets: bool | None = None
    redacted: tuple[str, ...] = ()
