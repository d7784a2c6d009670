# SPDX-License-Identifier: Apache-2.0
"""What is known against the crates and packages that we depend on. Run by ``make audit``.

What could not be looked at is said, and is no success: databases of advisories are on the network,
and not every machine reaches them. Exits 0 if all was looked at and nothing was found, 1 if
something was found, 3 if nothing was found but a part could not be looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("requirements/*.txt"))
#: What has a lock of its own; the members of a workspace share one.
WORKSPACES = [
    lock.with_name("Cargo.toml")
    for lock in (ROOT / "Cargo.lock", *sorted(ROOT.glob("rust/*/Cargo.lock")))
]
#: Flaws that do not reach us. docs/dependencies.md says why not.
KNOWN = ("CVE-2024-23342",)
FOUND, UNSEEN = 1, 3

State: TypeAlias = Literal["ok", "FOUND", "NOT LOOKED AT"]


@dataclass(frozen=True, slots=True)
class Look:
    """One thing that was looked at, or was to be.

    Attributes:
        what: it.
        state: how it ended.
        said: what was found, or why it could not be looked at.
    """

    what: str
    state: State
    said: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended; ``code`` is None where there is no such program."""

    code: int | None
    out: str
    err: str


Run: TypeAlias = Callable[[Sequence[str]], Ran]


def run(command: Sequence[str]) -> Ran:
    """Run a program in the root of the tree."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return Ran(None, "", f"{command[0]}: not found")
    return Ran(done.returncode, done.stdout, done.stderr)


def crates(run: Run) -> Iterator[Look]:
    """Licences, sources and advisories of crates, with cargo-deny."""
    names = "licences, sources and versions of crates", "advisories about crates"
    if run(["cargo", "deny", "--version"]).code != 0:
        for name in names:
            yield Look(name, "NOT LOOKED AT", "cargo install --locked cargo-deny")
        return
    yield _denied(run, names[0], "bans", "licenses", "sources")
    fetched = run(["cargo", "deny", "fetch", "db"])
    if fetched.code != 0:
        yield Look(names[1], "NOT LOOKED AT", last_line(fetched))
        return
    yield _denied(run, names[1], "advisories")


def _denied(run: Run, name: str, *checks: str) -> Look:
    for manifest in WORKSPACES:
        ran = run([
            "cargo", "deny", "--locked", "--manifest-path", str(manifest),
            "--config", str(ROOT / "deny.toml"), "check", *checks,
        ])  # fmt: skip
        if ran.code != 0:
            return Look(name, "FOUND", f"{manifest.relative_to(ROOT)}\n{ran.err}")
    return Look(name, "ok", f"{len(WORKSPACES)} workspaces")


def packages(run: Run, tool: str = "pip-audit") -> Iterator[Look]:
    """Advisories about what is locked for Python, with pip-audit."""
    for lock in LOCKS:
        name = f"advisories about {lock.relative_to(ROOT).as_posix()}"
        ran = run([
            tool, "--require-hashes", "--disable-pip", "--requirement", str(lock),
            "--format", "json", "--progress-spinner", "off",
            *(word for flaw in KNOWN for word in ("--ignore-vuln", flaw)),
        ])  # fmt: skip
        yield _audited(name, ran)


def _audited(name: str, ran: Ran) -> Look:
    """It ends with 1 also where it reached nobody; then it does not say what it looked at."""
    try:
        found = json.loads(ran.out)["dependencies"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return Look(name, "NOT LOOKED AT", last_line(ran))
    known = [
        f"{one['name']} {one['version']}: {flaw['id']}, mended in {flaw['fix_versions'] or 'none'}"
        for one in found
        for flaw in one.get("vulns", ())
    ]
    if known:
        return Look(name, "FOUND", "\n".join(known))
    skipped = [f"{one['name']}: {one['skip_reason']}" for one in found if "skip_reason" in one]
    if skipped or not found or ran.code != 0:
        return Look(name, "NOT LOOKED AT", "\n".join(skipped) or last_line(ran))
    return Look(name, "ok", f"{len(found)} packages")


def last_line(ran: Ran) -> str:
    """Return the last line that a program wrote about an error."""
    lines = [line.strip() for line in ran.err.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def verdict(looks: Sequence[Look]) -> int:
    """The exit code."""
    states = {look.state for look in looks}
    return FOUND if "FOUND" in states else UNSEEN if states != {"ok"} else 0


def report(looks: Iterable[Look]) -> int:
    """Print each, as soon as it is known. Returns the exit code."""
    seen = []
    for look in looks:
        seen.append(look)
        first, *more = look.said.splitlines() or [""]
        print(f"{look.state:<14}{look.what}: {first}", *more, sep="\n  ", flush=True)
    return verdict(seen)


def main(tool: str = "pip-audit") -> int:
    """Look, and say what was seen."""
    code = report(chain(crates(run), packages(run, tool)))
    if code == UNSEEN:
        print("Nothing was found in what could be looked at. The rest is not known.")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
