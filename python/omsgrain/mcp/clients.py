# SPDX-License-Identifier: Apache-2.0
"""The configuration files of the programs that start a server: where they are, and one more entry.

A file keeps all its other entries. Comments are not JSON: a file with some is refused, since they
would be lost. Files of TOML are only appended to.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from omsgrain.durable import NewFiles, private_files
from omsgrain.errors import FormatError, UnsupportedError
from omsgrain.mcp.service import Json

_MOST: Final = 64 << 20
_BY_HAND: Final = "add the entry by hand: --print prints it"


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A program that starts servers of MCP."""

    title: str  # its name, for people
    section: str  # the member of its configuration with the servers
    place: tuple[str, ...]  # the parts of the path of its file
    in_home: bool = True  # below the user's home, or else the system's place for configurations
    typed: bool = False  # whether an entry names its transport
    toml: bool = False  # whether the file is TOML, or else JSON
    variable: str | None = None  # the environment variable with the directory of the file

    def path(self) -> Path:
        """Return the path of the configuration file of this user."""
        if self.variable is not None and (named := os.environ.get(self.variable)):
            return Path(named) / self.place[-1]
        return (Path.home() if self.in_home else _settings()).joinpath(*self.place)

    def entry(self, command: list[str]) -> Json:
        """Return the entry of a server that a command starts."""
        entry: Json = {"command": command[0], "args": command[1:]}
        return {"type": "stdio"} | entry if self.typed else entry

    def text(self, name: str, entry: Json) -> str:
        """Return the configuration with the entry alone."""
        if self.toml:
            return _table(self.section, name, entry)
        return _dumped({self.section: {name: entry}})

    def add(self, path: Path, name: str, entry: Json) -> bool:
        """Add an entry to a file; return False if it is there already."""
        path = path.resolve()  # a link stays a link
        old = _read(path)
        known = (_toml if self.toml else _json)(old)
        servers = known.get(self.section, {})
        if not isinstance(servers, dict):
            raise FormatError(f"{self.section} is no table", expected=_BY_HAND)
        if name in servers:
            if servers[name] == entry:
                return False
            raise UnsupportedError(
                f"the configuration has another entry {name!r}",
                expected="another --name, or remove the entry first",
            )
        wanted = known | {self.section: {**servers, name: entry}}
        if self.toml:
            gap = "" if not old or old.endswith("\n") else "\n"
            new = f"{old}{gap}\n{_table(self.section, name, entry)}".lstrip("\n")
            if _toml(new) != wanted:  # an inline table cannot be continued
                raise FormatError(f"{self.section} cannot be continued", expected=_BY_HAND)
        else:
            new = _dumped(wanted)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with private_files(), NewFiles(replace=True) as files:
            files.add(path, [new.encode()])
        return True


CLIENTS: Final[Mapping[str, ClientProgram]] = {
    "claude": ClientProgram(
        "Claude Desktop", "mcpServers", ("Claude", "claude_desktop_config.json"), in_home=False
    ),
    "claude-code": ClientProgram("Claude Code", "mcpServers", (".claude.json",), typed=True),
    "cursor": ClientProgram("Cursor", "mcpServers", (".cursor", "mcp.json")),
    "vscode": ClientProgram(
        "VS Code", "servers", ("Code", "User", "mcp.json"), in_home=False, typed=True
    ),
    "codex": ClientProgram(
        "Codex", "mcp_servers", (".codex", "config.toml"), toml=True, variable="CODEX_HOME"
    ),
}
"""The programs by the names that ``omsgrain mcp --install`` knows."""


def server_command() -> list[str]:
    """Return the command of this installation: such programs often have no PATH of a shell."""
    script = Path(sys.executable).with_name("omsgrain.exe" if os.name == "nt" else "omsgrain")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "omsgrain"]


def _settings() -> Path:
    """Return the directory of the system for configurations of the user's programs."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _read(path: Path) -> str:
    """Return the text of a file; empty if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise FormatError("the configuration is too large", expected=f"at most {_MOST} bytes")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise FormatError("the configuration is no text in UTF-8", expected=_BY_HAND) from None


def _json(text: str) -> Json:
    if not text.strip():
        return {}
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        says = "the configuration is no JSON; comments and trailing commas are none"
        raise FormatError(says, line=line, expected=_BY_HAND) from None
    if not isinstance(found, dict):
        raise FormatError("the configuration is no object of JSON", expected=_BY_HAND)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    """Make an object; one of two equal members would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is given twice")
    return found


def _refused(text: str) -> Any:
    raise ValueError(text)  # NaN and Infinity


def _dumped(value: Json) -> str:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        text.encode()
    except (ValueError, RecursionError):
        says = "the configuration has values that cannot be written again"
        raise FormatError(says, expected=_BY_HAND) from None
    return text


def _toml(text: str) -> Json:
    if sys.version_info >= (3, 11):
        import tomllib  # not for a server that starts
    else:
        import tomli as tomllib
    try:
        found: Json = tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError):
        raise FormatError("the configuration is no TOML", expected=_BY_HAND) from None
    return found


def _table(section: str, name: str, entry: Json) -> str:
    quoted = partial(json.dumps, ensure_ascii=False)  # of the strings of TOML, too
    lines = [f"{key} = {quoted(value)}" for key, value in entry.items()]
    return "\n".join([f"[{section}.{name}]", *lines]) + "\n"
