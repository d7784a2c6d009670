# SPDX-License-Identifier: Apache-2.0
"""The release notes of a version: its section of CHANGELOG.md. Run by ``make release-notes``.

A tag names the version again, so it is compared with the one place that says it: Cargo.toml.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - \d{4}-\d\d-\d\d)?$", re.MULTILINE)
_VERSION = re.compile(r"^\[workspace\.package\]\nversion = \"([^\"]+)\"$", re.MULTILINE)


class NoNotes(Exception):
    """There is nothing to release under this name."""


def version_of(manifest: str) -> str:
    """The version in the text of the workspace's Cargo.toml."""
    found = _VERSION.search(manifest)
    if found is None:
        raise NoNotes("Cargo.toml has no version at the top of [workspace.package]")
    return found[1]


def section(changelog: str, version: str) -> str:
    """What a changelog says of a version, without its heading.

    Raises:
        NoNotes: it has no such section, or an empty one.
    """
    headings = list(_HEADING.finditer(changelog))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] == version:
            end = len(changelog) if after is None else after.start()
            if text := changelog[heading.end() : end].strip():
                return text + "\n"
    raise NoNotes(f"CHANGELOG.md says nothing of {version}")


def notes(root: Path, tag: str | None) -> str:
    """The notes of the version in a tree.

    Args:
        root: the tree.
        tag: what is released, ``v1.2.3``; None for what comes next, released or not.

    Raises:
        NoNotes: the tag is not that of the version, or the changelog has no section for it.
    """
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    version = version_of((root / "Cargo.toml").read_text("utf-8"))
    if tag is not None:
        if tag != f"v{version}":
            raise NoNotes(f"the tag is {tag}, and Cargo.toml says {version}")
        return section(changelog, version)
    try:
        return section(changelog, version)
    except NoNotes:
        return section(changelog, "Unreleased")


if __name__ == "__main__":
    try:
        sys.stdout.write(notes(ROOT, sys.argv[1] if len(sys.argv) > 1 else None))
    except NoNotes as error:
        sys.exit(str(error))
