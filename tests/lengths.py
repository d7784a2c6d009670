# SPDX-License-Identifier: Apache-2.0
"""No source file is longer than 700 lines; those over 450 are named. Run by ``make check``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("rust", "python", "tests", "benches", "docs", "release", "test_vectors")
WARN, LIMIT = 450, 700


def lengths() -> list[tuple[int, Path]]:
    """Lines of each source file, longest first."""
    files = (
        p for room in ROOMS for e in ("rs", "py", "pyi") for p in (ROOT / room).rglob(f"*.{e}")
    )
    own = (p for p in files if "target" not in p.parts)
    return sorted(((len(p.read_bytes().splitlines()), p) for p in own), reverse=True)


if __name__ == "__main__":
    long = [(n, path.relative_to(ROOT)) for n, path in lengths() if n > WARN]
    for n, path in long:
        print(f"{path}: {n} lines{' (over the limit)' if n > LIMIT else ''}")
    sys.exit(any(n > LIMIT for n, _ in long))
