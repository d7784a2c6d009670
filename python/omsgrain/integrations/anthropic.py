# SPDX-License-Identifier: Apache-2.0
"""The memory tool of the Anthropic SDK: files under ``/memories``, each edit a version."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from posixpath import dirname, normpath
from typing import TYPE_CHECKING, Any, Final

from omsgrain.errors import OmsError
from omsgrain.integrations.entries import Entries, Entry, framework
from omsgrain.memory.threads import in_thread

if TYPE_CHECKING:
    from omsgrain import Memory

_sdk: Any = framework("anthropic.lib.tools", "anthropic")

_ROOT: Final = "/memories"
_LINES: Final = 999_999
_WIDTH: Final = 6  # characters of a line number
_CONTEXT: Final = 2  # lines shown before and after an edit
_LEVELS: Final = 2  # of directories in a listing
_DIRECTORY: Final = "directory"
_UNITS: Final = "BKMG"


class MemoryFiles:
    """Text files and directories in a memory, by path, with answers for a model.

    Args:
        memory: an open memory.
        namespace: the namespace of the files.

    Raises:
        ToolError: a path or a text is wrong, with a sentence for the model. It is the SDK's.
    """

    def __init__(self, memory: Memory, namespace: str = "memories") -> None:
        self._entries = Entries(memory.store, memory.user, namespace)
        self._lock = threading.RLock()

    def view(self, path: str, lines: list[int] | None = None) -> str:
        """Return a file with line numbers, or the names and sizes in a directory."""
        text = self._text(_resolved(path))
        if text is None:
            return self._listing(path)
        shown, first = text.split("\n"), 1
        if len(shown) > _LINES:
            raise _sdk.ToolError(f"File {path} exceeds maximum line limit of {_LINES:,} lines.")
        if lines and len(lines) == 2:
            first = max(1, lines[0])
            shown = shown[first - 1 : len(shown) if lines[1] == -1 else lines[1]]
        numbered = _numbered(shown, first)
        return f"Here's the content of {path} with line numbers:\n{numbered}"

    def create(self, path: str, text: str) -> str:
        """Make a file and its directories."""
        file = _resolved(path)
        if self._text(file) is not None or self._is_directory(file):
            raise _sdk.ToolError(f"File {path} already exists")
        self._entries.set_many({**self._missing(file), file: text})
        return f"File created successfully at: {path}"

    def replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs once in a file."""
        file, text = self._file(path)
        places = list(_places(text, old))
        if not places:
            raise _sdk.ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if len(places) > 1 and text.count(old) > 1:
            numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
            raise _sdk.ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{numbers}. Please ensure it is unique"
            )
        changed = text[: places[0]] + new + text[places[0] + len(old) :]
        self._entries.set(file, changed)
        lines, line = changed.split("\n"), text.count("\n", 0, places[0])
        first = max(0, line - _CONTEXT)
        snippet = _numbered(lines[first : line + _CONTEXT + 1], first + 1)
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{snippet}"
        )

    def insert(self, path: str, line: int, text: str) -> str:
        """Insert a text after a line of a file; 0 is the beginning."""
        file, before = self._file(path)
        lines = before.removesuffix("\n").split("\n") if before else []
        if not 0 <= line <= len(lines):
            raise _sdk.ToolError(
                f"Invalid `insert_line` parameter: {line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        after = "\n".join(lines)
        self._entries.set(file, after if after.endswith("\n") else after + "\n")
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a directory with all in it, with all versions."""
        name = _resolved(path)
        if name == _ROOT:
            raise _sdk.ToolError(f"Cannot delete the {_ROOT} directory itself")
        names = [name] if self._text(name) is not None else self._below(name)
        if not names:
            raise _sdk.ToolError(f"The path {path} does not exist")
        self._entries.delete(names)
        return f"Successfully deleted {path}"

    def rename(self, old: str, new: str) -> str:
        """Rename or move a file, or a directory with all in it."""
        before, after = _resolved(old), _resolved(new)
        if before == _ROOT:
            raise _sdk.ToolError(f"Cannot rename the {_ROOT} directory itself")
        if self._text(after) is not None or self._is_directory(after):
            raise _sdk.ToolError(f"The destination {new} already exists")
        names = [before] if self._text(before) is not None else self._below(before)
        if not names:
            raise _sdk.ToolError(f"The path {old} does not exist")
        if after.startswith(f"{before}/"):
            raise _sdk.ToolError(f"The path {new} is inside {old}")
        moved = {name: after + name[len(before) :] for name in names}
        self._entries.set_many(self._missing(after), renamed=moved)
        return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        """Delete all files and directories."""
        self._entries.delete([entry.name for entry in self._entries.all()])
        return "All memory cleared"

    def history(self, path: str) -> list[Entry]:
        """Return all versions of a file, the oldest first, those under former paths too."""
        return self._entries.history(_resolved(path))

    def locked(self, work: Callable[..., str], *arguments: Any) -> str:
        """Call a method while no other thread changes the files; tell a model why it failed."""
        with self._lock:
            try:
                return work(*arguments)
            except OmsError as error:
                raise _sdk.ToolError(str(error)) from error

    def _text(self, path: str) -> str | None:
        """Return the text of a file; None if there is no file."""
        entry = None if path == _ROOT else self._entries.get(path)
        return None if entry is None else str(entry.value)

    def _file(self, path: str) -> tuple[str, str]:
        file = _resolved(path)
        text = self._text(file)
        if text is not None:
            return file, text
        if self._is_directory(file):
            raise _sdk.ToolError(f"The path {path} is not a file.")
        raise _sdk.ToolError(f"The path {path} does not exist. Please provide a valid path.")

    def _is_directory(self, path: str) -> bool:
        return path == _ROOT or self._entries.get(f"{path}/") is not None

    def _missing(self, path: str) -> dict[str, str]:
        """Return the directories above a path that are missing."""
        missing: dict[str, str] = {}
        above = dirname(path)
        while not self._is_directory(above):
            if self._text(above) is not None:
                raise _sdk.ToolError(f"The path {above} is not a directory")
            missing[f"{above}/"] = _DIRECTORY
            above = dirname(above)
        return missing

    def _below(self, path: str) -> list[str]:
        """Return the names of a directory and of all in it."""
        return sorted(
            entry.name for entry in self._entries.all() if entry.name.startswith(f"{path}/")
        )

    def _listing(self, path: str) -> str:
        directory = _resolved(path)
        if not self._is_directory(directory):
            raise _sdk.ToolError(f"The path {path} does not exist. Please provide a valid path.")
        sizes: dict[str, int] = {}  # by path below the directory; of a directory, of all in it
        for entry in self._entries.all():
            if not entry.name.startswith(f"{directory}/"):
                continue
            name = entry.name[len(directory) + 1 :]
            text = "" if entry.name.endswith("/") else str(entry.value)
            size = len(text.encode("utf-8", "surrogatepass"))
            sizes[name] = sizes.get(name, 0) + size
            for end in (i + 1 for i, c in enumerate(name[:-1]) if c == "/"):
                sizes[name[:end]] = sizes.get(name[:end], 0) + size
            sizes[""] = sizes.get("", 0) + (size if name else 0)
        shown = [f"{_size(sizes.pop('', 0))}\t{path}"]
        for name in sorted(sizes, key=lambda name: name.rstrip("/").split("/")):
            parts = name.rstrip("/").split("/")
            if len(parts) <= _LEVELS and not any(part.startswith(".") for part in parts):
                shown.append(f"{_size(sizes[name])}\t{path}/{name}")
        return (
            f"Here're the files and directories up to {_LEVELS} levels deep in {path}, "
            "excluding hidden items:\n" + "\n".join(shown)
        )


class MemoryTool(_sdk.BetaAbstractMemoryTool):
    """The memory tool over an ``omsgrain.Memory``, for ``client.beta.messages.tool_runner``.

    Each file is a grain of the memory's user. An edit supersedes it, so the history has all
    versions; ``delete`` deletes a file with all its versions.

    Args:
        memory: an open memory.
        namespace: the namespace of the files; two tools with the same one share their files.
        cache_control: as for the SDK's base class.

    Raises:
        ToolError: the command failed, with a sentence for the model. It is the SDK's.
    """

    def __init__(
        self, memory: Memory, *, namespace: str = "memories", cache_control: Any = None
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.files = MemoryFiles(memory, namespace)

    def view(self, command: Any) -> str:
        """Return a file with line numbers, or the names and sizes in a directory."""
        return self.files.locked(self.files.view, command.path, command.view_range)

    def create(self, command: Any) -> str:
        """Make a file and its directories."""
        return self.files.locked(self.files.create, command.path, command.file_text)

    def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once in a file."""
        arguments = command.path, command.old_str, command.new_str
        return self.files.locked(self.files.replace, *arguments)

    def insert(self, command: Any) -> str:
        """Insert a text after a line of a file."""
        arguments = command.path, command.insert_line, command.insert_text
        return self.files.locked(self.files.insert, *arguments)

    def delete(self, command: Any) -> str:
        """Delete a file, or a directory with all in it."""
        return self.files.locked(self.files.delete, command.path)

    def rename(self, command: Any) -> str:
        """Rename or move a file, or a directory with all in it."""
        return self.files.locked(self.files.rename, command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        """Delete all files and directories."""
        return self.files.locked(self.files.clear)


class AsyncMemoryTool(_sdk.BetaAsyncAbstractMemoryTool):
    """``MemoryTool`` for the asynchronous client; each command runs in a thread.

    Args:
        memory: an open memory.
        namespace: the namespace of the files; two tools with the same one share their files.
        cache_control: as for the SDK's base class.

    Raises:
        ToolError: the command failed, with a sentence for the model. It is the SDK's.
    """

    def __init__(
        self, memory: Memory, *, namespace: str = "memories", cache_control: Any = None
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.files = MemoryFiles(memory, namespace)

    # The commands need nothing but the files.
    view = in_thread(MemoryTool.view)
    create = in_thread(MemoryTool.create)
    str_replace = in_thread(MemoryTool.str_replace)
    insert = in_thread(MemoryTool.insert)
    delete = in_thread(MemoryTool.delete)
    rename = in_thread(MemoryTool.rename)
    clear_all_memory = in_thread(MemoryTool.clear_all_memory)


def _resolved(path: str) -> str:
    """Return a path without ``..`` and ``.``; one outside of the memory directory is refused."""
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise _sdk.ToolError(f"Path must start with {_ROOT}, got: {path}")
    name = normpath(path)
    if name != _ROOT and not name.startswith(f"{_ROOT}/"):
        raise _sdk.ToolError(f"Path {path} would escape {_ROOT} directory")
    if "\0" in name:
        raise _sdk.ToolError("A path has no NUL character")
    return name


def _places(text: str, part: str) -> list[int]:
    """Return where a part begins, overlapping ones too."""
    return [found.start() for found in re.finditer(f"(?={re.escape(part)})", text)]


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _size(size: int) -> str:
    """Return a size as a listing shows it: 0B, 12B, 1.5K."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    value = size / (1 << 10 * power)
    return f"{value:.0f}{_UNITS[power]}" if value == int(value) else f"{value:.1f}{_UNITS[power]}"
