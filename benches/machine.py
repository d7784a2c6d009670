# SPDX-License-Identifier: Apache-2.0
"""What the figures depend on: the machine, and the versions of everything that ran."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PEERS = (
    "omsgrain", "ormsgpack", "orjson", "cbor2", "libipld", "pycose",
    "lmdb", "rocksdict", "areev", "bm25s",
)  # fmt: skip
_CPUINFO = Path("/proc/cpuinfo")
_STATUS = Path("/proc/self/status")
_TELLING = ("avx2", "avx512f", "sha_ni", "sha2")


@cache
def _cpu() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty elsewhere than on Linux."""
    if not _CPUINFO.exists():
        return {}
    first = _CPUINFO.read_text(encoding="utf-8").split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def cpu_flags() -> set[str]:
    """What the processor can do, as Linux calls it."""
    return set((_cpu().get("flags") or _cpu().get("Features") or "").split())


def describe() -> dict[str, str]:
    """Machine and system."""
    model = _cpu().get("model name") or platform.processor() or "unknown"
    return {
        "cpu": model,
        "cores": str(os.cpu_count()),
        "cpu_flags": " ".join(flag for flag in _TELLING if flag in cpu_flags()),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "disk": _file_system(Path(__file__)),
        "load": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def versions() -> dict[str, str]:
    """Python and the packages measured."""
    found = {"python": platform.python_version()}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found | {"sqlite": sqlite3.sqlite_version, "git": _git()}


def _git() -> str:
    program = shutil.which("git")
    if program is None:
        return "absent"
    done = subprocess.run([program, "--version"], capture_output=True, check=True, text=True)
    return done.stdout.split()[2]


def anonymous() -> int:
    """Bytes of this process that are in memory and in no file: what it has beside maps.

    Where the system does not say so (Linux does), the most that it ever had in memory.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak << 10


def _file_system(path: Path) -> str:
    """The kind of file system that stores are measured on."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    rows = [line.split()[1:3] for line in mounts.read_text(encoding="utf-8").splitlines()]
    holding = [(where, kind) for where, kind in rows if path.is_relative_to(where)]
    return max(holding, key=lambda row: len(row[0]), default=("", "unknown"))[1]
