# SPDX-License-Identifier: Apache-2.0
"""Write the vectors: `python test_vectors/make.py`.

A vector that exists is frozen. If what its source gives now is something else, nothing is written
and the exit code is 1; --force overwrites, for vectors that were never released. --check writes
nothing and also fails on files that no source gives.

What the package needs of them, and of tests/data, to try its own rules, is packed into one file of
the package.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests"), str(HERE.parent / "conformance")]

import pack  # noqa: E402
from source import (  # noqa: E402
    aimem,
    around,
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

DATA = HERE.parent / "tests" / "data"
LONG = 10_000  # characters of a bundle that is not packed
OF_GRAINS = (oms, types, values, flags, refused_read, refused_codec, refused_write)
AREAS = (oms, types, values, flags, refused_read, refused_codec, refused_write, aimem,
         mif, mif_ld, around)  # fmt: skip


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


def packed() -> str:
    """What the package carries: vectors of grains, of bytes around them, and of bundles."""
    grains = [vector for area in OF_GRAINS for vector in area.vectors()]
    others = {
        name: json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("ed25519_edges", "sealed")
    }
    del others["sealed"]["grains"]  # which are vectors
    told = {"made_by", "checked_by"}
    bundles = [v for v in aimem.vectors() if v["id"].startswith("aimem/good/")]
    bundles = [vector for vector in bundles if len(vector["bundle"]) < LONG]
    lines = [{k: v for k, v in vector.items() if k not in told} for vector in grains]
    whole = {"vectors": lines + around.vectors() + bundles, **others}
    rows = {
        name: "[\n" + ",\n".join(map(_line, value)) + "\n]"
        if isinstance(value, list)
        else _line(value)
        for name, value in whole.items()
    }
    return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in rows.items()) + "\n}\n"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
    if not pack.write("vectors", packed(), options.check) and options.check:
        return 1
    if not options.check:
        for path in new | differ:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    print(f"{len(files)} vectors, {len(new)} new, {len(differ)} overwritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
