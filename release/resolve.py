# SPDX-License-Identifier: Apache-2.0
"""Whether omsgrain with all extras fits beside large frameworks. Run by ``make resolve``.

For each framework alone, uv resolves ``omsgrain[all]`` and the framework together, and installs
nothing. The newest release is that of a resolution without omsgrain; an older one beside omsgrain
is a conflict too. Exits as ``make audit`` does: 0 if all was tried and fits, 1 if something
excludes a framework, 3 if nothing does but a part could not be tried.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.audit import ROOT, Look, Ran, Run, last_line, report, run

FRAMEWORKS = (
    "crewai",
    "google-adk",
    "langchain-mcp-adapters",
    "langgraph",
    "llama-index-core",
    "openai-agents",
    "strands-agents",
)
#: A Python that all of them support.
PYTHON = "3.12"
_CONFLICT = "No solution found"


def looks(run: Run, frameworks: Sequence[str] = FRAMEWORKS) -> Iterator[Look]:
    """Resolve each framework alone, then beside omsgrain."""
    with tempfile.TemporaryDirectory(prefix="omsgrain-resolve-") as folder:
        for name in frameworks:
            alone = Path(folder) / f"{name}.in"
            alone.write_text(f"{name}\n", "utf-8")
            yield _beside(run, name, alone)


def _beside(run: Run, name: str, alone: Path) -> Look:
    what = f"omsgrain[all] beside {name}"
    newest = _resolved(run, str(alone))
    if (version := _version(newest, name)) is None:
        return Look(what, "NOT LOOKED AT", last_line(newest))
    both = _resolved(run, str(ROOT / "pyproject.toml"), str(alone), "--extra", "all")
    found = _version(both, name)
    if found == version:
        return Look(what, "ok", version)
    if found is not None:
        return Look(what, "FOUND", f"{found} is the newest that fits, and not {version}")
    if _CONFLICT in both.err:
        return Look(what, "FOUND", both.err)
    return Look(what, "NOT LOOKED AT", last_line(both))


def _resolved(run: Run, *words: str) -> Ran:
    return run([
        "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate",
        "--python-version", PYTHON, *words,
    ])  # fmt: skip


def _version(ran: Ran, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}==(\S+)", ran.out, re.MULTILINE)
    return found[1] if ran.code == 0 and found else None


if __name__ == "__main__":
    sys.exit(report(looks(run)))
