# SPDX-License-Identifier: Apache-2.0
"""The SDK of MCP, of 1.20 to 1.x or of 2.x. Whatever differs between the two is in this file.

The rest of the package makes JSON as the protocol has it; the SDK's types check it here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp.types
from mcp.server.lowlevel import Server
from mcp.shared import exceptions
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from omsgrain.mcp.service import Json, ProtocolError

Answer = Callable[[Any, Any], Awaitable[Json]]
"""Makes the result of a method, from its parameters and the HTTP request; over stdio None."""

_TYPES: Final[Any] = mcp.types
_TWO: Final = hasattr(Server, "add_request_handler")
_ERROR: Final[Any] = exceptions.MCPError if _TWO else getattr(exceptions, "McpError", None)
_LIST: Final = "PaginatedRequestParams"
_METHODS: Final = {
    "tools/list": ("ListTools", _LIST),
    "tools/call": ("CallTool", "CallToolRequestParams"),
    "resources/list": ("ListResources", _LIST),
    "resources/templates/list": ("ListResourceTemplates", _LIST),
    "resources/read": ("ReadResource", "ReadResourceRequestParams"),
    "prompts/list": ("ListPrompts", _LIST),
    "prompts/get": ("GetPrompt", "GetPromptRequestParams"),
}
"""Method -> the name of its types, and the type of its parameters in 2.x."""


def mute_logs() -> None:
    """Keep the SDK's log off stderr: its lines can have content of grains."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False
    logging.getLogger().addHandler(logging.NullHandler())  # where 1.x logs invalid requests


def make_server(
    name: str, version: str, instructions: str, answers: Mapping[str, Answer]
) -> Server[Any]:
    """Make a server that answers methods; it says that it can do what they are for."""
    more: dict[str, Any] = {"title": name} if _TWO else {}
    server: Any = Server(name, version=version, instructions=instructions, **more)
    for method, answer in answers.items():
        kind, params = _METHODS[method]
        result = getattr(_TYPES, f"{kind}Result")
        if _TWO:
            server.add_request_handler(
                method, getattr(_TYPES, params), _handler_of_2(answer, result)
            )
        else:
            request = getattr(_TYPES, f"{kind}Request")
            server.request_handlers[request] = _handler_of_1(server, answer, result)
    return server  # type: ignore[no-any-return]


def _handler_of_2(answer: Answer, result: Any) -> Callable[[Any, Any], Awaitable[Any]]:
    async def handle(context: Any, params: Any) -> Any:
        return result.model_validate(await _answered(answer, params, context.request))

    return handle


def _handler_of_1(server: Any, answer: Answer, result: Any) -> Callable[[Any], Awaitable[Any]]:
    async def handle(request: Any) -> Any:
        http = server.request_context.request
        made = result.model_validate(await _answered(answer, request.params, http))
        return _TYPES.ServerResult(made)

    return handle


async def _answered(answer: Answer, params: Any, request: Any) -> Json:
    try:
        return await answer(params, request)
    except ProtocolError as error:
        told = {"code": error.code, "message": error.message, "data": error.data}
        raise (_ERROR(**told) if _TWO else _ERROR(_TYPES.ErrorData(**told))) from None


async def run(server: Server[Any], incoming: Any, outgoing: Any) -> None:
    """Serve one client over streams of messages, until the incoming one ends."""
    await server.run(incoming, outgoing, server.create_initialization_options())


def http_manager(server: Server[Any], most: int) -> Any:
    """Make the part that answers HTTP requests, each on its own, with at most so many bytes."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    given: dict[str, Any] = {"json_response": True, "stateless": True}
    known = inspect.signature(StreamableHTTPSessionManager).parameters
    if "max_request_body_size" in known:
        given["max_request_body_size"] = most
    return StreamableHTTPSessionManager(server, **given)


# -- messages -------------------------------------------------------------------------------------


class NotMessage(Exception):
    """A line that is no message of JSON-RPC. ``json`` says whether it is JSON at all."""

    def __init__(self, *, json: bool) -> None:
        super().__init__("not a message")
        self.json = json


def parse(line: str) -> SessionMessage:
    """Read a message. Raises NotMessage."""
    try:
        if _TWO:
            return SessionMessage(
                _TYPES.jsonrpc_message_adapter.validate_json(line, by_name=False)
            )
        return SessionMessage(_TYPES.JSONRPCMessage.model_validate_json(line))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise NotMessage(json=first["type"] != "json_invalid") from None


def kind_of(message: SessionMessage) -> tuple[str, Any]:
    """Return what a message is: ``request``, ``notification`` or ``response``; and its content."""
    content: Any = getattr(message.message, "root", message.message)
    if isinstance(content, _TYPES.JSONRPCRequest):
        return "request", content
    if isinstance(content, _TYPES.JSONRPCNotification):
        return "notification", content
    return "response", content


def dump(message: SessionMessage) -> str:
    """Write a message, as JSON in one line."""
    return message.message.model_dump_json(by_alias=True, exclude_unset=True)
