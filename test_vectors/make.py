# SPDX-License-Identifier: Apache-2.0
"""Write the vectors: `python test_vectors/make.py`.

A vector that exists is frozen. If what its source gives now is something else, nothing is written
and the exit code is 1; --force overwrites, for vectors that were never released. --check writes
nothing and also fails on files that no source gives.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from source import (  # noqa: E402
    aimem,
    flags,
    mif,
    mif_ld,
    oms,
    refused_codec,
    refused_read,
    refused_write,
    types,
    values,
)

AREAS = (oms, types, values, flags, refused_read, refused_codec, refused_write, aimem,
         mif, mif_ld)  # fmt: skip


def build() -> dict[Path, str]:
    """Path and text of every vector."""
    files: dict[Path, str] = {}
    for area in AREAS:
        for vector in area.vectors():
            path = HERE / f"{vector['id']}.json"
            if path in files:
                raise ValueError(f"{vector['id']} stands twice")
            files[path] = json.dumps(vector, ensure_ascii=False, indent=2) + "\n"
    return files


def main() -> int:
    """Compare with what is there, then write what is new."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--force", action="store_true", help="overwrite vectors that changed")
    options = parser.parse_args()
    files = build()
    there = set(HERE.rglob("*.json"))
    differ = {p for p in there & set(files) if p.read_text(encoding="utf-8") != files[p]}
    new, stray = set(files) - there, there - set(files)
    for title, paths in (("changed", differ), ("stray", stray), ("new", new)):
        for path in sorted(paths):
            print(f"{title}: {path.relative_to(HERE)}")
    if stray or (differ and not options.force) or (options.check and new | differ):
        return 1
    if not options.check:
        for path in new | differ:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    print(f"{len(files)} vectors, {len(new)} new, {len(differ)} overwritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
