# SPDX-License-Identifier: Apache-2.0
"""What is refused: the rules of the server, and every error as MCP has it.

An error is an answer of the tool, marked as one, so that the agent reads it and can do better: a
line of text, and the same as JSON. What is unexpected here is told to nobody but the log.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from mcp.types import CallToolResult, TextContent

from omsgrain.errors import OmsError, SchemaError, UnsupportedError

__all__ = ["RULES", "Defect", "Json", "answer", "refuse", "refused"]

Json = dict[str, Any]
"""An object as ``json.dumps`` takes it."""

RULES: Final[dict[str, tuple[type[OmsError], str]]] = {
    "unknown_argument": (SchemaError, "not an argument of this tool"),
    "missing_argument": (SchemaError, "an argument is missing"),
    "invalid_argument": (SchemaError, "not a value of this argument"),
    "read_only": (UnsupportedError, "the server was started with --readonly"),
    "no_root": (UnsupportedError, "the server was started without --root, and takes no paths"),
    "outside_root": (UnsupportedError, "the path does not lead below the server's root"),
    "no_file": (UnsupportedError, "there is no file that can be read at the path"),
    "file_exists": (UnsupportedError, "there is something at the path, or it cannot be written"),
    "too_large": (UnsupportedError, "the document is larger than is taken"),
    "line_too_long": (UnsupportedError, "the message is longer than is taken"),
    "answer_too_large": (UnsupportedError, "the document is too large for an answer"),
}
"""The rules of the server: the error of each, and what its breach is called."""


class Defect(OmsError):
    """A defect of the server: what it was stands in its log."""

    code: ClassVar[str] = "ERR_OMS"


def refuse(
    rule: str, *, field: str | None = None, expected: str | None = None, found: str | None = None
) -> OmsError:
    """The error of a rule of the server.

    Args:
        rule: of ``RULES``.
        field: the argument, as a JSON pointer.
        expected: what would have been right.
        found: what was there instead, never content.
    """
    error, says = RULES[rule]
    return error(says, field=field, expected=expected, found=found, rule=rule)


def answer(value: Json, text: str | None = None) -> CallToolResult:
    """The answer of a tool: as JSON, and as text for those that read nothing else.

    Args:
        value: what it says.
        text: instead of the JSON; a document, say.
    """
    said = json.dumps(value, ensure_ascii=False) if text is None else text
    return CallToolResult(content=[TextContent(text=said)], structured_content=value)


def refused(error: OmsError) -> CallToolResult:
    """The answer of a tool that did not do what it was asked for."""
    return CallToolResult(
        content=[TextContent(text=str(error))],
        structured_content={"error": error.to_dict()},
        is_error=True,
    )
