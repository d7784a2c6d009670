# SPDX-License-Identifier: Apache-2.0
"""The one table of tools. Spec: MIF 1.0 §8, MIF 2.0 §7.

The schemas of ``export_memory`` and ``import_memory`` are those that MIF 1.0 publishes, to the
letter. They do not say that there are no other arguments; others are refused all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp.types import CallToolResult, Tool, ToolAnnotations

from omsgrain.ops.recall import MOST, TYPES
from omsgrain.services.mcp import exchange, remembering
from omsgrain.services.mcp.arguments import Argument, schema
from omsgrain.services.mcp.service import Service

__all__ = ["TOOLS", "Handler", "Told", "listed"]

Handler = Callable[[Service, dict[str, Any]], CallToolResult]


@dataclass(frozen=True, slots=True)
class Told:
    """One tool.

    Attributes:
        name: how it is called.
        title: for people.
        says: what it does, for agents.
        arguments: what it takes.
        handler: does it, in a thread.
        writes: it changes the store.
        destroys: it takes something away.
        large: it may take much memory.
        closed: its schema says that there are no other arguments.
    """

    name: str
    title: str
    says: str
    arguments: tuple[Argument, ...]
    handler: Handler
    writes: bool = False
    destroys: bool = False
    large: bool = False
    closed: bool = True

    def tool(self) -> Tool:
        """As MCP lists it."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.says,
            input_schema=schema(self.arguments, closed=self.closed),
            annotations=ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=self.destroys,
                open_world_hint=False,
            ),
        )


_ID: Final = Argument.text("id", "The id or the content address of a memory.", longest=1_024)
_SINCE: Final = "Export memories created after this date"
_MERGE: Final = ("skip_duplicates", "overwrite", "rename")

_REMEMBER: Final = (
    Argument.text("content", "What to remember: one statement that can stand alone."),
    Argument("type", says=f"Its kind: {', '.join(TYPES)}, or another; the first by default."),
    Argument("tags", "strings", "Words to find it by.", high=64, longest=256),
    Argument("importance", "number", "From 0, hardly, to 1, critical.", low=0, high=1),
    Argument("metadata", "object", "Anything else about it, as JSON."),
    Argument("replaces", says="The id of the memory that this is a newer version of."),
)
_RECALL: Final = (
    Argument(
        "query",
        says="Words to look for; the newest memories without any. +word must be there, -word"
        ' must not, "two words" stand together, mem* begins a word.',
    ),
    Argument("limit", "integer", "How many.", default=10, low=1, high=MOST),
    Argument("type", says="Only of this kind."),
    Argument("tag", says="Only with this tag."),
    Argument("since", says="Only of this time or later.", format="date-time"),
    Argument("until", says="Only from before this time.", format="date-time"),
)
_FORGET: Final = (
    _ID,
    Argument("reason", says="Why, for the audit trail; nothing personal.", longest=256),
)
_EXPORT_1: Final = (
    Argument("format", choices=("json", "yaml", "jsonl"), default="json"),
    Argument("include_embeddings", "boolean", default=True),
    Argument("include_graph", "boolean", default=True),
    Argument("since", says=_SINCE, format="date-time"),
    Argument("redact_pii", "boolean", default=True),
)
_EXPORT_2: Final = (
    Argument("include_embeddings", "boolean", "With vectors.", default=False),
    Argument("include_graph", "boolean", "With the knowledge graph.", default=True),
    Argument("since", says=_SINCE, format="date-time"),
    Argument("redact_pii", "boolean", "Without personal data and secrets.", default=True),
    Argument("path", says="Write the document to this new file below the server's root."),
)
_IMPORT_1: Final = (
    Argument.text("data", "MIF JSON string or file path"),
    Argument("merge_strategy", choices=_MERGE, default=_MERGE[0]),
)
_IMPORT_2: Final = (
    Argument(
        "data",
        "document",
        "A MIF document: its JSON, or the path of a file below the server's root.",
        required=True,
    ),
    Argument(
        "merge_strategy",
        says="What becomes of a memory that is there already.",
        choices=_MERGE,
        default=_MERGE[0],
    ),
    Argument("dry_run", "boolean", "Only say what would be done.", default=False),
)

TOOLS: Final[dict[str, Told]] = {
    one.name: one
    for one in (
        Told(
            "remember",
            "Remember",
            "Keep a memory. What is known already is not kept twice. Give `replaces` where it"
            " corrects or renews an older memory, whose history stays.",
            _REMEMBER,
            remembering.remember,
            writes=True,
        ),
        Told(
            "recall",
            "Recall",
            "Find memories by words, the best first; or list the newest.",
            _RECALL,
            remembering.recall,
        ),
        Told(
            "forget",
            "Forget",
            "Delete a memory with all its versions, for good. No import brings it back unasked.",
            _FORGET,
            remembering.forget,
            writes=True,
            destroys=True,
        ),
        Told(
            "history",
            "History",
            "All versions of a memory, whole, the oldest first.",
            (_ID,),
            remembering.history,
        ),
        Told(
            "export_memories",
            "Export memories (MIF 2.0)",
            "Export user memories as MIF JSON",
            _EXPORT_2,
            exchange.export_memories,
            large=True,
        ),
        Told(
            "import_memories",
            "Import memories (MIF 2.0)",
            "Import MIF JSON into the memory system",
            _IMPORT_2,
            exchange.import_memories,
            writes=True,
            destroys=True,
            large=True,
        ),
        Told(
            "export_memory",
            "Export memories (MIF 1.0)",
            "Export memories to portable MIF format",
            _EXPORT_1,
            exchange.export_memory,
            large=True,
            closed=False,
        ),
        Told(
            "import_memory",
            "Import memories (MIF 1.0)",
            "Import memories from MIF format",
            _IMPORT_1,
            exchange.import_memory,
            writes=True,
            destroys=True,
            large=True,
            closed=False,
        ),
    )
}
"""Tool -> what is told of it, in the order in which they are listed."""


def listed(*, readonly: bool) -> list[Tool]:
    """The tools that can be called."""
    return [one.tool() for one in TOOLS.values() if not (readonly and one.writes)]
