# SPDX-License-Identifier: Apache-2.0
"""The service that calls share: the open store, the user, their rights."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

import omsgrain as og
from omsgrain.errors import OmsError, SchemaError, UnsupportedError

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose

T = TypeVar("T")
Json = dict[str, Any]
"""An object that ``json.dumps`` accepts."""

READ: Final = "export"
"""The scope of tools that read. Scopes are those of tokens (``omsgrain.storage.tokens``)."""
ALL_SCOPES: Final = frozenset(("import", READ, "admin"))


@dataclass(frozen=True, slots=True)
class McpOptions:
    user: str  # the user whose memory it serves
    # the directory below which documents are read and written; None: no files
    root: Path | None = None
    readonly: bool = False  # change neither the store nor files
    scopes: frozenset[str] = ALL_SCOPES  # what the client may do
    purpose: Purpose = "transfer"  # the purpose of exports, for the rules of a policy
    signed_only: bool = False  # refuse imports, which cannot have a signature here
    document: int = 100 << 20  # the most bytes of an imported document
    # the most bytes of a document that is returned as text; larger ones go to a file
    answer: int = 16 << 20
    line: int = 256 << 20  # the most bytes of one message
    at_work: int = 8  # calls that run at once


RULES: Final[dict[str, tuple[type[OmsError], str]]] = {
    "unknown_argument": (SchemaError, "unknown argument of this tool"),
    "missing_argument": (SchemaError, "an argument is missing"),
    "invalid_argument": (SchemaError, "invalid value of this argument"),
    "read_only": (UnsupportedError, "the server was started with --readonly"),
    "missing_scope": (UnsupportedError, "the token lacks the scope"),
    "signature_missing": (UnsupportedError, "the server imports only signed documents"),
    "no_root": (UnsupportedError, "the server was started without --root, and accepts no paths"),
    "outside_root": (UnsupportedError, "the path is not below the server's root"),
    "no_file": (UnsupportedError, "no readable file is at the path"),
    "file_exists": (UnsupportedError, "the file exists, or cannot be written"),
    "too_large": (UnsupportedError, "the document is too large"),
    "line_too_long": (UnsupportedError, "the message is too long"),
    "answer_too_large": (UnsupportedError, "the document is too large for a response"),
}
"""The rules of the server: the error of each, and its message."""


class ServerDefect(OmsError):
    """A defect of the server; its log has the details."""

    code: ClassVar[str] = "ERR_OMS"


def refuse(
    rule: str, *, field: str | None = None, expected: str | None = None, found: str | None = None
) -> OmsError:
    """Return the error of a rule of the server."""
    error, says = RULES[rule]
    return error(says, field=field, expected=expected, found=found, rule=rule)


class ProtocolError(Exception):
    """An error of the protocol: the method fails, not a tool."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Cancelled(Exception):
    """The client of a call is gone, and its work must stop."""


def answer(value: Json, text: str | None = None) -> Json:
    """Make the result of a tool: JSON, and text for clients that read only text."""
    said = json.dumps(value, ensure_ascii=False) if text is None else text
    return {"content": [{"type": "text", "text": said}], "structuredContent": value}


def refused(error: OmsError) -> Json:
    return answer({"error": error.to_dict()}, str(error)) | {"isError": True}


_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = _NO_LINK | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FILE  # a pipe must not block
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
_BY_STEPS: Final = os.open in os.supports_dir_fd


class Root:
    """The directory below which documents are read and written."""

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None else path.resolve(strict=True)

    @property
    def is_open(self) -> bool:
        return self._path is not None

    def read(self, path: str, most: int, *, field: str) -> bytes:
        with self._parent(path, field) as (directory, name):
            try:
                number = os.open(name, _READ, dir_fd=directory)
            except (OSError, ValueError):
                raise refuse("no_file", field=field) from None
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                os.close(number)
                raise refuse("no_file", field=field)
            with open(number, "rb") as file:
                data = b"" if found.st_size > most else file.read(most + 1)
            if found.st_size > most or len(data) > most:
                raise refuse("too_large", field=field, expected=f"at most {most} bytes")
            return data

    def find(self, path: str, most: int, *, field: str) -> bytes | None:
        """Read the beginning of a file, if it exists; arguments are those of `read`."""
        with self._parent(path, field) as (directory, name), suppress(FileNotFoundError):
            number = os.open(name, _READ, dir_fd=directory)
            with open(number, "rb") as file:
                regular = stat.S_ISREG(os.fstat(number).st_mode)
                return file.read(most + 1) if regular else b""
        return None

    def write(self, path: str, data: bytes, *, field: str) -> str:
        """Write a new file, which only its owner may read."""
        with self._parent(path, field) as (directory, name):
            partial = os.path.join(os.path.dirname(name), f".{token_hex(8)}.partial")
            try:
                number = os.open(partial, _WRITE, 0o600, dir_fd=directory)
            except OSError:
                raise refuse("file_exists", field=field) from None
            try:
                with open(number, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                try:  # never overwrite a file
                    os.link(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
                except (OSError, ValueError):
                    raise refuse("file_exists", field=field) from None
            finally:
                with suppress(OSError):
                    os.unlink(partial, dir_fd=directory)
            return self._below(path, field).as_posix()

    @contextmanager
    def _parent(self, path: str, field: str) -> Iterator[tuple[int | None, str]]:
        """Yield the open directory of a file, and the name of the file in it."""
        below = self._below(path, field)
        assert self._path is not None
        if not _BY_STEPS:
            yield None, os.fspath(self._path / below)
            return
        try:
            directory = os.open(self._path, _DIRECTORY)
        except OSError:
            raise refuse("no_file", field=field) from None
        try:
            for step in below.parts[:-1]:
                try:
                    inner = os.open(step, _DIRECTORY | _NO_LINK, dir_fd=directory)
                except OSError:
                    raise refuse("no_file", field=field) from None
                os.close(directory)
                directory = inner
            yield directory, below.name
        finally:
            os.close(directory)

    def _below(self, path: str, field: str) -> Path:
        """Return a path relative to the root, without links on its way."""
        if self._path is None:
            raise refuse("no_root", field=field)
        try:
            found = Path(os.path.realpath(self._path / path)).relative_to(self._path)
        except (OSError, ValueError, RuntimeError):
            raise refuse("outside_root", field=field) from None
        if not found.parts:
            raise refuse("no_file", field=field)
        return found


class Work(Protocol):
    """Runs the work of calls in threads."""

    async def run(self, function: Callable[[], T], *, large: bool) -> T:
        """Run something in a thread."""

    def alive(self) -> None:
        """End the work of a call, in its thread, if its client is gone."""


class McpService:
    """The memory of one user, for the calls of one client."""

    def __init__(self, store: og.GrainStore, options: McpOptions, work: Work) -> None:
        self.store = store
        self.options = options
        self.user = options.user
        self.root = Root(options.root)
        self.work = work
        readonly = options.scopes & {READ}
        self.scopes = readonly if options.readonly else options.scopes

    def check_scopes(self, needed: frozenset[str]) -> None:
        """Refuse what the client may not do."""
        if needed - self.options.scopes:
            raise refuse("missing_scope", expected=" and ".join(sorted(needed)))
        if needed - self.scopes:
            raise refuse("read_only")
