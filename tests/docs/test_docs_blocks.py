# SPDX-License-Identifier: Apache-2.0
"""No block of a page escapes: each is run, read, parsed or looked at, in the order of the page."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from support.doc_blocks import NOT_RUN, PAGES, Reader, counts, kind, known, why_not
from support.markdown_page import fences
from support.paths import ROOT

TRIED = [page for page in PAGES if counts(page)]


@pytest.mark.parametrize("page", TRIED, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))  # no page touches the reader's own
    reader = Reader(page, tmp_path)
    try:
        for block in fences(page):
            reader.try_block(block)
    finally:
        reader.close()


def test_each_block_is_of_a_known_kind() -> None:
    """All blocks of a page are counted, most of all are run, and of the others it is said why."""
    all_of = [(page, block) for page in TRIED for block in fences(page)]
    kinds = [kind(page, block) for page, block in all_of]
    assert set(kinds) == {"run", "read", "parsed", "drawn"}
    assert sum(counts(page).total() for page in TRIED) == len(all_of)
    assert kinds.count("run") > 3 * kinds.count("read") + kinds.count("drawn")
    reasons = {why_not(page, block) for page, block in all_of} - {None}
    assert reasons == set(NOT_RUN.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_command_is_outside_of_a_block(page: Path) -> None:
    """Indented commands are no blocks; commands within a line exist."""
    text = page.read_text("utf-8")
    inside = {n for f in fences(page) for n in range(f.line - 1, f.line + f.text.count("\n") + 1)}
    prose = "\n".join(line for n, line in enumerate(text.splitlines(), 1) if n not in inside)
    assert not re.search(r"^ {4,}(\$ |>>> |omsgrain |pip |python |curl )", prose, re.MULTILINE)
    for span in re.findall(r"(?<!`)`omsgrain ([^`]+)`", prose.replace("\n", " ")):
        words = shlex.split(re.sub(r"\s*(>|\||\.\.\.|…).*", "", span).replace("'", ""))
        if words and re.fullmatch("[a-z]+", words[0]):
            known(words)
