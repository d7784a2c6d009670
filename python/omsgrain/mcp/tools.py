# SPDX-License-Identifier: Apache-2.0
"""The table of tools. Spec: MIF 1.0 §8, MIF 2.0 §7.

The schemas of ``export_memory`` and ``import_memory`` are exactly those of MIF 1.0. They allow
other arguments; the server refuses these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from omsgrain.errors import NotFoundError, OmsError
from omsgrain.mcp.arguments import ToolArgument, schema
from omsgrain.mcp.service import READ, Json, McpService, answer
from omsgrain.memory.limits import MOST, TYPES

Handler = Callable[[McpService, dict[str, Any]], Json]
_READS: Final = frozenset((READ,))
_WRITES: Final = frozenset((READ, "import"))  # the answer shows a memory
_IMPORTS: Final = frozenset(("import",))
_DELETES: Final = frozenset(("admin",))
_SPELLED: Final = {
    "/created_after": ("since",),
    "/created_before": ("until",),
    "/known_at": ("at",),
    "/text": ("query", "question"),
    "/query": ("query", "question"),
    None: ("replaces", "id"),
}
"""The fields that errors of the verbs name, and the arguments that gave them; of a memory that is
not found None."""


def _of_memory(name: str) -> Handler:
    """Make the handler of a verb of ``omsgrain.memory``, which is loaded at its first call."""

    def handle(service: McpService, given: dict[str, Any]) -> Json:
        from omsgrain.memory import verbs

        verb: Callable[..., Json] = getattr(verbs, name)
        return answer(verb(service.store, service.user, **given))

    return handle


def _of_documents(name: str) -> Handler:
    """Make the handler of a tool of ``documents``, which is loaded at its first call."""

    def handle(service: McpService, given: dict[str, Any]) -> Json:
        from omsgrain.mcp import documents

        handler: Handler = getattr(documents, name)
        return handler(service, given)

    return handle


def update(service: McpService, given: dict[str, Any]) -> Json:
    """Store a newer version of a memory."""
    return _of_memory("remember")(service, {"content": given["content"], "replaces": given["id"]})


def context(service: McpService, given: dict[str, Any]) -> Json:
    """Return the memories about a question as a block of text that fits a budget."""
    from omsgrain.memory.memory import MemoryView

    view = MemoryView(service.store, service.user, at=given["at"])
    block = view.context(given["question"], budget=given["budget"])
    return answer({"context": block}, block)


@dataclass(frozen=True, slots=True)
class ToolText:
    name: str
    title: str  # for people
    says: str  # for agents
    arguments: tuple[ToolArgument, ...]
    handler: Handler  # its function, run in a thread
    output: Json  # the JSON Schema of its answer
    needs: frozenset[str] = _READS  # the scopes that a client needs, all of them
    destroys: bool = False  # whether it deletes something
    repeats: bool = False  # whether a second call with the same arguments changes nothing
    files: bool = False  # whether it can write a file
    large: bool = False  # whether it may take much memory
    closed: bool = True  # whether its schema excludes other arguments

    @property
    def writes(self) -> bool:
        """Whether it changes the store."""
        return self.needs != _READS

    def tool(self, *, files: bool = True) -> Json:
        """Describe the tool to a client. ``files``: whether the server writes files."""
        reads = not (self.writes or (self.files and files))
        return {
            "name": self.name,
            "title": self.title,
            "description": self.says,
            "inputSchema": schema(self.arguments, closed=self.closed),
            "outputSchema": self.output,
            "annotations": {
                "readOnlyHint": reads,
                "destructiveHint": self.destroys,
                "idempotentHint": reads or self.repeats,
                "openWorldHint": False,
            },
        }

    def named(self, error: OmsError, given: Mapping[str, Any]) -> OmsError:
        """Name the argument behind an error as the client did."""
        if error.field is not None or isinstance(error, NotFoundError):
            names = _SPELLED.get(error.field, ())
            for name in names:
                if given.get(name) is not None:
                    error.field = f"/{name}"
                    break
        return error


_ID: Final = ToolArgument.text("id", "The id or the content address of a memory.", longest=1_024)
EXPORTED: Final = ("mif2", "mif1", "mif-ld", "aimem")
"""The formats of the tool ``export``."""
_FORMS: Final = "RFC 3339, or how long ago, such as 1h or 7d."
_SINCE: Final = "Export memories created after this date"
_MERGE: Final = ("skip_duplicates", "overwrite", "rename")

_REMEMBER: Final = (
    ToolArgument.text("content", "The memory: one statement that makes sense by itself."),
    ToolArgument("type", says=f"The kind: {', '.join(TYPES)}, or another; the first by default."),
    ToolArgument("tags", "strings", "Tags to find it by.", high=64, longest=256),
    ToolArgument("importance", "number", "From 0 (minor) to 1 (critical).", low=0, high=1),
    ToolArgument("metadata", "object", "Further values, as JSON."),
    ToolArgument("replaces", says="The id of the memory that this one replaces."),
)
_RECALL: Final = (
    ToolArgument(
        "query",
        says="Words to look for; without words, the newest memories. +word is required, -word "
        'is excluded, "two words" must be adjacent, mem* matches any word that begins '
        "with mem.",
    ),
    ToolArgument("limit", "integer", "The most results.", default=10, low=1, high=MOST),
    ToolArgument("type", says="Only this kind."),
    ToolArgument("tag", says="Only with this tag."),
    ToolArgument(
        "where",
        "object",
        'Only where these fields or values pass: {"context.room": "lab"}, or with an operator: '
        '{"object.celsius": {"gt": 2.5}}.',
    ),
    ToolArgument("since", says=f"Only at this time or later: {_FORMS}"),
    ToolArgument("until", says=f"Only before this time: {_FORMS}"),
    ToolArgument("at", says=f"Only what was known at this time: {_FORMS}"),
)
_UPDATE: Final = (_ID, ToolArgument.text("content", "The new text of the memory."))
_CONTEXT: Final = (
    ToolArgument("question", says="What the memories should be about; without it, the newest."),
    ToolArgument("budget", "integer", "The most characters.", default=2_000, low=1, high=100_000),
    ToolArgument("at", says=f"Only what was known at this time: {_FORMS}"),
)
_FORGET: Final = (
    _ID,
    ToolArgument("reason", says="The reason, for the audit trail; no personal data.", longest=256),
)
_EXPORT_1: Final = (
    ToolArgument("format", choices=("json", "yaml", "jsonl"), default="json"),
    ToolArgument("include_embeddings", "boolean", default=True),
    ToolArgument("include_graph", "boolean", default=True),
    ToolArgument("since", says=_SINCE, format="date-time"),
    ToolArgument("redact_pii", "boolean", default=True),
)
_EXPORT_2: Final = (
    ToolArgument("include_embeddings", "boolean", "Include vectors.", default=False),
    ToolArgument("include_graph", "boolean", "Include the knowledge graph.", default=True),
    ToolArgument("since", says=_SINCE, format="date-time"),
    ToolArgument("redact_pii", "boolean", "Remove personal data and secrets.", default=True),
    ToolArgument("path", says="Write the document to this new file below the server's root."),
)
_EXPORT: Final = (
    ToolArgument(
        "format",
        says="The format of the document; aimem needs redact_pii false.",
        choices=EXPORTED,
        default=EXPORTED[0],
    ),
    *_EXPORT_2,
    ToolArgument(
        "tenant_id",
        says="aimem: the tenant in the document, a UUID or a URI; by default the user.",
    ),
)
_IMPORT_1: Final = (
    ToolArgument.text("data", "MIF JSON string or file path"),
    ToolArgument("merge_strategy", choices=_MERGE, default=_MERGE[0]),
)
_IMPORT_2: Final = (
    ToolArgument(
        "data",
        "document",
        "A MIF document: its JSON, or the path of a file below the server's root.",
        required=True,
    ),
    ToolArgument(
        "merge_strategy",
        says="The rule for memories that exist already.",
        choices=_MERGE,
        default=_MERGE[0],
    ),
    ToolArgument(
        "dry_run", "boolean", "Change nothing; report what would be done.", default=False
    ),
)

_IMPORT: Final = (
    ToolArgument(
        "data",
        "document",
        "A document: its text or JSON, or the path of a file below the server's root.",
        required=True,
    ),
    *_IMPORT_2[1:],
)

_TEXT: Final[Json] = {"type": "string"}
_VALUES: Final[Json] = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "kind": _TEXT,
        "type": _TEXT,
        "content": _TEXT,
        "cut": {"type": "boolean", "description": "The content is only its beginning."},
        "tags": {"type": "array", "items": _TEXT},
        "importance": {"type": "number"},
        "metadata": {"type": "object"},
        "created_at": _TEXT,
        "content_address": _TEXT,
        "current": {"type": "boolean"},
        "superseded_by": _TEXT,
        "verification_status": _TEXT,
        "new": {"type": "boolean", "description": "False: the memory was there already."},
    },
    "required": ["id", "kind", "type", "content", "created_at", "content_address"],
}
"""A memory in an answer."""


def _output(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": [*properties]}


_SEVERAL: Final[Json] = {"type": "array", "items": _VALUES}
_COUNT: Final[Json] = {"type": "integer"}
_LIST: Final[Json] = {"type": "array", "items": {"type": "object"}}
_EXPORTED: Final = _output(format=_TEXT, bytes=_COUNT, lost=_COUNT, losses=_LIST, added=_LIST)
_EXPORTED["properties"] |= {
    "withheld": {"type": "object", "additionalProperties": _COUNT},
    "warnings": _LIST,
    "path": {"type": "string", "description": "The file; else the text is the document."},
}
_IMPORTED: Final = _output(
    format=_TEXT,
    memories_imported=_COUNT,
    duplicates_skipped=_COUNT,
    errors=_LIST,
    warnings=_LIST,
)
"""The answers of the tools of MIF."""
_ANY_IMPORTED: Final[Json] = {
    "type": "object",
    "properties": {"warnings": _LIST},
    "required": ["warnings"],
    "additionalProperties": True,
}

TOOLS: Final[dict[str, ToolText]] = {
    one.name: one
    for one in (
        ToolText(
            "remember",
            "Remember",
            "Keep a memory. A memory that exists is not stored twice. Give `replaces` to "
            "correct or renew an older memory; its history stays.",
            _REMEMBER,
            _of_memory("remember"),
            needs=_WRITES,
            repeats=True,
            output=_VALUES,
        ),
        ToolText(
            "recall",
            "Recall",
            "Find memories by words, the best first; or list the newest.",
            _RECALL,
            _of_memory("recall"),
            output=_output(memories=_SEVERAL),
        ),
        ToolText(
            "context",
            "Context",
            "Return memories about a question as one text that fits a budget, the best first.",
            _CONTEXT,
            context,
            output=_output(context=_TEXT),
        ),
        ToolText(
            "update",
            "Update",
            "Replace the text of a memory. Its id, kind, tags and history stay.",
            _UPDATE,
            update,
            needs=_WRITES,
            repeats=True,
            output=_VALUES,
        ),
        ToolText(
            "forget",
            "Forget",
            "Delete a memory with all its versions, for good. Imports skip it unless they "
            "allow erased memories.",
            _FORGET,
            _of_memory("forget"),
            needs=_DELETES,
            destroys=True,
            repeats=True,
            output=_output(
                id=_TEXT, versions={"type": "integer"}, forgotten={"type": "array", "items": _TEXT}
            ),
        ),
        ToolText(
            "history",
            "History",
            "Return all versions of a memory, whole, the oldest first.",
            (_ID,),
            _of_memory("history"),
            output=_output(id=_TEXT, versions=_SEVERAL),
        ),
        ToolText(
            "export",
            "Export",
            "Export the memory as a document, as text or as a new file.",
            _EXPORT,
            _of_documents("export_any"),
            files=True,
            large=True,
            output=_EXPORTED,
        ),
        ToolText(
            "import",
            "Import",
            "Import a document of MIF, AIMEM or another system; its content says which.",
            _IMPORT,
            _of_documents("import_any"),
            needs=_IMPORTS,
            destroys=True,
            large=True,
            output=_ANY_IMPORTED,
        ),
        ToolText(
            "export_memories",
            "Export memories (MIF 2.0)",
            "Export user memories as MIF JSON",
            _EXPORT_2,
            _of_documents("export_memories"),
            files=True,
            large=True,
            output=_EXPORTED,
        ),
        ToolText(
            "import_memories",
            "Import memories (MIF 2.0)",
            "Import MIF JSON into the memory system",
            _IMPORT_2,
            _of_documents("import_memories"),
            needs=_IMPORTS,
            destroys=True,
            large=True,
            output=_IMPORTED,
        ),
        ToolText(
            "export_memory",
            "Export memories (MIF 1.0)",
            "Export memories to portable MIF format",
            _EXPORT_1,
            _of_documents("export_memory"),
            large=True,
            output=_EXPORTED,
            closed=False,
        ),
        ToolText(
            "import_memory",
            "Import memories (MIF 1.0)",
            "Import memories from MIF format",
            _IMPORT_1,
            _of_documents("import_memories"),
            needs=_IMPORTS,
            destroys=True,
            large=True,
            output=_IMPORTED,
            closed=False,
        ),
    )
}
"""Tool -> its description, in the order of the list."""


def listed(service: McpService) -> list[Json]:
    """Describe the tools that a client may call."""
    files = service.root.is_open and not service.options.readonly
    return [one.tool(files=files) for one in TOOLS.values() if one.needs <= service.scopes]
