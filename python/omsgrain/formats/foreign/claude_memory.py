# SPDX-License-Identifier: Apache-2.0
"""The memory directories of Claude: those of the memory tool, and those of Claude Code.

The memory tool keeps text files of any layout in a directory ``memories``. Claude Code keeps
``MEMORY.md`` and further notes in one directory, and instructions in the files ``CLAUDE.md``,
``CLAUDE.local.md`` and ``.claude/rules`` of a project. Each file becomes a memory; the next import
knows it by its path.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final

from omsgrain.formats.foreign.base import Translation
from omsgrain.formats.foreign.directory import DirectoryFormat, TextFile
from omsgrain.formats.mif_ld.markdown import is_markdown

_INSTRUCTIONS: Final = frozenset(("CLAUDE.md", "CLAUDE.local.md"))
_INDEX: Final = "MEMORY.md"
_DIRECTORY: Final = "memories"
_RULES: Final = (".claude", "rules")
_IMPORT = re.compile(r"(?:^|(?<=\s))@(?=\S*[./]\w)[\w~./-]+", re.MULTILINE)
_HEAD: Final = 4 << 10


class ClaudeMemory(DirectoryFormat):
    name = "claude-memory"
    title = "a memory directory of Claude"

    def sniff_directory(self, root: Path) -> bool:
        if (root / _INDEX).is_file() or _is_project(root):
            return True
        return root.name == _DIRECTORY and not any(map(_is_of_mif, root.rglob("*")))

    def is_file(self, root: Path, name: str) -> bool:
        path = PurePosixPath(name)
        if not _is_project(root):
            return not any(part.startswith(".") for part in path.parts)
        rule = path.parts[:2] == _RULES and path.suffix == ".md"
        return path.name in _INSTRUCTIONS or rule

    def file(self, file: TextFile, into: Translation) -> None:
        if count := len(_IMPORT.findall(file.text)):
            into.left_out("imports of other files", count, file.pointer, "they are not followed")
        into.memory(
            (file.name,),
            file.text,
            file.pointer,
            rest={"path": file.name},
            created_at=file.changed,
            updated_at=file.changed,
            external_id=file.name,
        )


def _is_project(root: Path) -> bool:
    """Whether a directory is a project, most of whose files are no memory."""
    names = (*_INSTRUCTIONS, f"{_RULES[0]}/CLAUDE.md", "/".join(_RULES))
    return any((root / name).exists() for name in names)


def _is_of_mif(path: Path) -> bool:
    """Whether a file is a memory of MIF in JSON-LD, whose directories can have any name."""
    if path.name.endswith((".memory.json", ".memory.md")):
        return True
    if path.suffix != ".md" or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as source:
        return is_markdown(source.read(_HEAD))


CLAUDE_MEMORY: Final = ClaudeMemory()
