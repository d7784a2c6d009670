# SPDX-License-Identifier: Apache-2.0
"""The configuration files of programs: an entry is added, and all else stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import FormatError, OmsError, UnsupportedError
from omsgrain.mcp.clients import CLIENTS
from support.mcp_lines import HELLO
from support.shell import USAGE, Shell, exit_code

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENTRY = {"command": "/opt/omsgrain", "args": ["mcp", 'a "b" \\ \u00fc']}
JSON, TOML = CLIENTS["cursor"], CLIENTS["codex"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CODEX_HOME", "APPDATA", "OMSGRAIN_STORE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "name", "place"),
    [
        ("linux", "claude", ".config/Claude/claude_desktop_config.json"),
        ("darwin", "claude", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "AppData/Roaming/Code/User/mcp.json"),
        ("linux", "claude-code", ".claude.json"),
        ("darwin", "cursor", ".cursor/mcp.json"),
        ("win32", "codex", ".codex/config.toml"),
    ],
)
def test_paths(
    home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, name: str, place: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert CLIENTS[name].path() == home / place


def test_paths_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "c"))
    assert CLIENTS["codex"].path() == home / "c" / "config.toml"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "x"))
    assert CLIENTS["vscode"].path() == home / "x" / "Code" / "User" / "mcp.json"


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_new_file_has_the_entry_alone(tmp_path: Path, client: Any) -> None:
    path, entry = tmp_path / "new" / "file", client.entry([ENTRY["command"], *ENTRY["args"]])
    assert client.add(path, "one", entry)
    text = path.read_text("utf-8")
    assert text == client.text("one", entry)
    read: Any = tomllib.loads if client.toml else json.loads
    assert read(text) == {client.section: {"one": entry}}
    assert not client.add(path, "one", entry)
    assert client.add(path, "two", entry)
    assert read(path.read_text("utf-8")) == {client.section: {"one": entry, "two": entry}}
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


def test_other_entries_of_json_stay(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    mine: dict[str, Any] = {"x": {"command": "y"}}
    other: dict[str, Any] = {
        "z": [1, 2.5, None, {"\u00e9": "\u4e2d"}],
        "mcpServers": mine,
        "a": {},
    }
    for text in (json.dumps(other), "\ufeff" + json.dumps(other, ensure_ascii=False)):
        path.write_text(text, "utf-8")
        path.chmod(0o640)
        assert JSON.add(path, "one", ENTRY)
        found = json.loads(path.read_text("utf-8"))
        assert [*found] == [*other]
        assert found == {**other, "mcpServers": {**mine, "one": ENTRY}}
        if os.name == "posix":
            assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["mcp.json"]


def test_every_byte_of_toml_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for text in (
        '# mine\nmodel = "m"  # a comment\n\n[mcp_servers.x]\ncommand = "y"\n[other]\na = 1',
        "a = 1\r\n[mcp_servers.x]\r\ncommand = 'y'\r\n",
        "\n\n# empty\n",
    ):
        path.write_bytes(text.encode())
        before = tomllib.loads(text.replace("\r\n", "\n"))
        assert TOML.add(path, "one", ENTRY)
        new = path.read_bytes().decode()
        assert new.startswith(text.lstrip("\n"))
        servers = {**before.get("mcp_servers", {}), "one": ENTRY}
        assert tomllib.loads(new.replace("\r\n", "\n")) == before | {"mcp_servers": servers}


@pytest.mark.parametrize(
    ("client", "data"),
    [
        (JSON, b"{"),
        (JSON, b'{"a": 1, // a comment\n "b": 2}'),
        (JSON, b'{"a": 1,}'),
        (JSON, b'{"a": 1, "a": 2}'),
        (JSON, b'{"a": NaN}'),
        (JSON, b'{"a": 1e999}'),
        (JSON, b'{"a": "\\ud800"}'),
        (JSON, b"[]"),
        (JSON, b"\xff"),
        (JSON, b"[" * 100_000),
        (JSON, b'{"mcpServers": []}'),
        (TOML, b"a = "),
        (TOML, b"mcp_servers = 1"),
        (TOML, b'mcp_servers = { x = { command = "y" } }'),
        (JSON, b'{"mcpServers": {"one": {"command": "mine"}}}'),
        (TOML, b'[mcp_servers.one]\ncommand = "mine"\n'),
    ],
)
def test_what_cannot_be_added_to_is_refused_and_not_changed(
    tmp_path: Path, client: Any, data: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(OmsError) as refused:
        client.add(path, "one", ENTRY)
    kind = UnsupportedError if b"mine" in data else FormatError
    assert refused.value.code == kind.code
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    path, real = tmp_path / "mcp.json", tmp_path / "dotfiles" / "mcp.json"
    real.write_text("{}")
    path.symlink_to(real)
    assert JSON.add(path, "one", ENTRY)
    assert path.is_symlink()
    assert json.loads(real.read_text("utf-8")) == {"mcpServers": {"one": ENTRY}}


def test_the_installed_command_serves(
    home: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the arguments of the call, from any directory."""
    og.open(home / "m.omsg").close()
    (home / "docs").mkdir()
    monkeypatch.chdir(home)
    given = ("m.omsg", "--user", "ada", "--root", "docs", "--readonly", "--document-limit", "1MB")
    assert shell("mcp", *given, "--install", "cursor", "--name", "mine") == 0
    entry = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["mine"]
    words = ["mcp", str(home / "m.omsg"), "--user", "ada", "--root", str(home / "docs")]
    assert entry["args"][-9:] == [*words, "--readonly", "--document-limit", "1000000"]
    done = subprocess.run(
        [entry["command"], *entry["args"]], input=HELLO, capture_output=True, cwd="/"
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "omsgrain"


def test_print_writes_nothing(home: Path, shell: Shell) -> None:
    said = shell.json("mcp", "--install", "codex", "--print")
    assert said["path"] == str(home / ".codex" / "config.toml")
    assert said["entry"]["args"][-1] == "mcp"
    assert os.listdir(home) == []


def test_calls_that_install_nothing(home: Path, shell: Shell) -> None:
    assert shell("mcp", "--print") == USAGE
    assert shell("mcp", "--install", "emacs") == USAGE
    assert shell("mcp", "--install", "cursor", "--name", "a b") == USAGE
    url = "postgresql://ada:secret@host/memory"
    assert shell("mcp", url, "--user", "ada", "--create", "--install", "cursor") == USAGE
    missing = ("mcp", home / "none.omsg", "--user", "ada", "--install", "cursor")
    assert shell(*missing) == exit_code("ERR_STORE")
    assert os.listdir(home) == []
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("// mine")
    assert shell("mcp", "--install", "cursor") == exit_code("ERR_FORMAT")
    assert (home / ".cursor" / "mcp.json").read_text() == "// mine"
