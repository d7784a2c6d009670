# SPDX-License-Identifier: Apache-2.0
"""Wheels for all machines that have one. Run by ``make wheels``.

Linux builds the wheels for Linux and macOS, with zig as linker and C compiler; macOS and Windows
build their own. Each wheel is then checked: its files, its tag by auditwheel, its use of the
stable ABI by abi3audit. Exits as ``make audit`` does: 1 if a wheel is wrong, 3 if none is wrong
but a target could not be built.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from release import contents
from release.audit import ROOT, Look, Run, last_line, report, run

#: A target of Rust, and the platform tag of its wheel. docs/how-to/install.md says which of them
#: have run, and the matrix of CI has each.
TARGETS: Mapping[str, str] = {
    "x86_64-unknown-linux-gnu": "manylinux_2_17_x86_64",
    "aarch64-unknown-linux-gnu": "manylinux_2_17_aarch64",
    "armv7-unknown-linux-gnueabihf": "manylinux_2_17_armv7l",
    "x86_64-unknown-linux-musl": "musllinux_1_2_x86_64",
    "aarch64-unknown-linux-musl": "musllinux_1_2_aarch64",
    "armv7-unknown-linux-musleabihf": "musllinux_1_2_armv7l",
    "x86_64-apple-darwin": "macosx_10_12_x86_64",
    "aarch64-apple-darwin": "macosx_11_0_arm64",
    "x86_64-pc-windows-msvc": "win_amd64",
}
_SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "windows": "Windows"}
_ZIG = {"Linux", "Darwin"}  # systems that zig links for, on Linux
_LIBC_TAG = re.compile(r"((?:many|musl)linux)_(\d+)_(\d+)_(\w+)")


def system_of(target: str) -> str:
    """Return the system that a target is for, as Python names it."""
    return next(system for word, system in _SYSTEMS.items() if f"-{word}" in target)


def has_library(run: Run, target: str) -> bool:
    """Tell whether Rust's standard library for a target is installed."""
    sysroot = run(["rustc", "--print", "sysroot"])
    return (
        sysroot.code == 0 and Path(sysroot.out.strip(), "lib", "rustlib", target, "lib").is_dir()
    )


def command_of(target: str, dist: Path) -> list[str]:
    """Return the command that builds the wheel of a target."""
    command = ["maturin", "build", "--release", "--target", target, "--out", str(dist)]
    if platform.system() == "Linux":
        command += ["--zig"]
    if libc := _LIBC_TAG.fullmatch(TARGETS[target]):
        command += ["--compatibility", "_".join(libc.group(1, 2, 3))]
    return command


def fits(found: str, tag: str) -> bool:
    """Tell whether a wheel that asks for the libc of ``found`` runs wherever ``tag`` promises."""
    asked, promised = _LIBC_TAG.fullmatch(found), _LIBC_TAG.fullmatch(tag)
    if asked is None or promised is None or asked.group(1, 4) != promised.group(1, 4):
        return False
    return tuple(map(int, asked.group(2, 3))) <= tuple(map(int, promised.group(2, 3)))


def faults(run: Run, wheel: Path, tag: str) -> Iterator[str]:
    """Say what auditwheel and abi3audit find wrong with a wheel."""
    if _LIBC_TAG.fullmatch(tag):
        # The libc of this machine is not that of the target, so auditwheel looks for none.
        shown = run(["auditwheel", "show", "--json", "--ldpaths", os.devnull, str(wheel)])
        try:
            about = json.loads(shown.out)
            found, others = about["sym_tag"], set(about["external_libs"])
        except (ValueError, KeyError, TypeError):
            yield f"auditwheel: {last_line(shown)}"
        else:
            others -= {"libc.so"} if tag.startswith("musl") else set()
            if others or not fits(found, tag):
                yield f"auditwheel: expected {tag}, found {' '.join([found, *sorted(others)])}"
    audited = run(["abi3audit", "--strict", "--report", str(wheel)])
    try:
        specs = json.loads(audited.out)["specs"].values()
        results = [one["result"] for spec in specs for one in spec["wheel"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        results = []
    if audited.code != 0 or len(results) != 1:
        yield f"abi3audit: {last_line(audited)}"
    for result in results:
        if not (result["is_abi3"] and result["is_abi3_baseline_compatible"]):
            yield f"abi3audit: expected {result['baseline']}, found {result['computed']}"


def looks(run: Run, dist: Path, tree: set[str], targets: Sequence[str]) -> Iterator[Look]:
    """Build targets into a directory, and check each wheel against the files of the tree."""
    for target in targets:
        what, system = f"{target} ({TARGETS[target]})", system_of(target)
        if platform.system() != system and not (platform.system() == "Linux" and system in _ZIG):
            yield Look(what, "NOT LOOKED AT", f"not built on {platform.system()}")
        elif not has_library(run, target):
            yield Look(what, "NOT LOOKED AT", f"rustup target add {target}")
        else:
            yield _built(run, what, target, dist, tree)


def _built(run: Run, what: str, target: str, dist: Path, tree: set[str]) -> Look:
    pattern = f"*{TARGETS[target]}*.whl"
    for old in dist.glob(pattern):
        old.unlink()
    built = run(command_of(target, dist))
    wheels = list(dist.glob(pattern))
    if built.code != 0 or len(wheels) != 1:
        return Look(what, "FOUND", f"not built\n{built.err}")
    (wheel,) = wheels
    wrong = [*contents.look(wheel, tree), *faults(run, wheel, TARGETS[target])]
    if wrong:
        return Look(what, "FOUND", "\n".join((wheel.name, *wrong)))
    return Look(what, "ok", f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")


def main(dist: Path, *targets: str) -> int:
    """Build and check all targets or a few, and say how it went."""
    if unknown := set(targets) - TARGETS.keys():
        sys.exit(f"{' '.join(sorted(unknown))}: expected some of {' '.join(TARGETS)}")
    dist.mkdir(parents=True, exist_ok=True)
    return report(looks(run, dist.resolve(), contents.tracked(ROOT), targets or tuple(TARGETS)))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
