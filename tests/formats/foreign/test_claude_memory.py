# SPDX-License-Identifier: Apache-2.0
"""Memory directories of Claude: which files are memories, and links that lead elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omsgrain import formats
from omsgrain.errors import FormatError, SchemaError
from omsgrain.formats.foreign.base import ForeignLimits
from omsgrain.formats.foreign.claude_memory import CLAUDE_MEMORY
from omsgrain.formats.foreign.directory import DirectoryFormat
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.table import sniff_directory
from support.foreign_files import USER, fates, imported, texts
from support.mif_imports import opened
from support.shell import Shell

MEMORY = "# Ada\n\nLikes green tea.\n"


def tree(root: Path, **files: str | bytes) -> Path:
    """Write files; two underscores in a name are a slash, one before the suffix a point."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_md", ".md").replace("_DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def skipped(root: Path) -> list[tuple[str, str]]:
    found = CLAUDE_MEMORY.load_directory(root, user_id=USER)
    return [(one.rule, one.pointer) for one in found.problems]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("memories", {"ada_md": MEMORY}),
        ("notes", {"MEMORY_md": MEMORY, "tea_md": MEMORY}),
        ("project", {"CLAUDE_md": MEMORY}),
        ("project", {"_DOTclaude__CLAUDE_md": MEMORY}),
        ("project", {"_DOTclaude__rules__tests_md": MEMORY}),
    ],
)
def test_directories_that_are_recognized(tmp_path: Path, name: str, files: dict[str, str]) -> None:
    assert sniff_directory(tree(tmp_path / name, **files)) == "claude-memory"


def test_other_directories_keep_their_format(tmp_path: Path) -> None:
    front = "---\nid: a\ntype: semantic\ncreated: 2026-03-01T08:00:00Z\n---\nWater.\n"
    assert sniff_directory(tree(tmp_path / "memories", a_md=front)) == "mif-ld"
    assert sniff_directory(tree(tmp_path / "notes", a_md=MEMORY)) == "mif-ld"


def test_of_a_project_only_instructions_are_read(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "project",
        CLAUDE_md="Use tabs.",
        sub__CLAUDE_md="Use spaces.",
        _DOTclaude__rules__tests_md="Seed them.",
        _DOTgit__CLAUDE_md="No.",
        README_md="A project.",
    )
    with opened() as store:
        report = imported(store, root)
        assert texts(store) == ["Seed them.", "Use spaces.", "Use tabs."]
    messages = [one.message for one in report.warnings if one.rule == "left_out"]
    assert messages == ["files, 1: no files of this format"]


def test_an_edited_file_supersedes_its_memory(tmp_path: Path) -> None:
    root = tree(tmp_path / "memories", ada_md=MEMORY, tea_md="Tea.")
    with opened() as store:
        imported(store, root)
        (root / "ada.md").write_text(MEMORY + "And coffee.\n", "utf-8")
        os.utime(root / "ada.md", (1_800_000_000, 1_800_000_000))
        os.utime(root / "tea.md", (1_800_000_000, 1_800_000_000))
        assert sorted(fates(imported(store, root))) == ["duplicate", "updated"]
        assert texts(store) == [MEMORY + "And coffee.\n", "Tea."]


def test_links_and_other_files_are_reported(tmp_path: Path) -> None:
    secret = tree(tmp_path / "elsewhere", secret_md="secret")
    root = tree(tmp_path / "memories", ada_md=MEMORY, photo=b"\xff\xd8", _DOThidden="x")
    (root / "link.md").symlink_to(secret / "secret.md")
    (root / "away").symlink_to(secret, target_is_directory=True)
    os.mkfifo(root / "pipe")
    assert skipped(root) == [
        ("symlink", "/away"), ("symlink", "/link.md"), ("not_text", "/photo")
    ]  # fmt: skip
    with opened() as store:
        imported(store, root)
        assert texts(store) == [MEMORY]
    assert [path.name for path in CLAUDE_MEMORY.files_in(root)] == ["ada.md", "photo"]


def test_imports_of_other_files_are_reported(tmp_path: Path) -> None:
    root = tree(tmp_path / "p", CLAUDE_md="See @docs/style.md and @~/x, not a@b.c or @ada.\n")
    found = CLAUDE_MEMORY.load_directory(root, user_id=USER)
    (one,) = found.dropped
    assert (one.rule, one.pointer) == ("left_out", "/CLAUDE.md")
    assert one.message.startswith("imports of other files, 2:")


def test_limits(tmp_path: Path) -> None:
    root = tree(tmp_path / "memories", a_md=MEMORY, b_md=MEMORY, c__d__e_md="deep")
    with pytest.raises(SchemaError):
        CLAUDE_MEMORY.load_directory(root, limits=ForeignLimits(files=2))
    with pytest.raises(DocumentError) as refused:
        CLAUDE_MEMORY.load_directory(root, limits=ForeignLimits(document=30))
    assert refused.value.rule == "too_large"
    found = CLAUDE_MEMORY.load_directory(root, limits=ForeignLimits(depth=1))
    assert [(one.rule, one.pointer) for one in found.problems] == [("too_deep", "/c~1d")]


def test_an_unreadable_name_is_skipped(tmp_path: Path) -> None:
    root = tree(tmp_path / "memories", a_md=MEMORY)
    (Path(os.fsdecode(os.fsencode(root) + b"/b\xff.md"))).write_text("x", "utf-8")
    assert [rule for rule, _ in skipped(root)] == ["not_text"]


def test_a_file_is_no_directory() -> None:
    with pytest.raises(SchemaError):
        formats.load(b"text", format="claude-memory")


def test_formats_of_directories_have_two_methods(tmp_path: Path) -> None:
    assert isinstance(CLAUDE_MEMORY, DirectoryFormat)
    with pytest.raises(FormatError):
        CLAUDE_MEMORY.load_directory(
            tree(tmp_path / "memories", a_md=MEMORY), limits=ForeignLimits(records=0)
        )


def test_the_command_line_reads_a_directory(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "memories", ada_md=MEMORY)
    shell = Shell(capfdbinary, monkeypatch)
    assert shell.json("import", tmp_path / "s.omsg", root, "--user", USER)["errors"] == []
    assert shell.json("verify", root)["documents"][0]["format"] == "claude-memory"
    (root / "b.md").write_bytes(b"\xff")
    assert shell("verify", root) == FormatError.exit_code
    assert shell("validate", root) == FormatError.exit_code
