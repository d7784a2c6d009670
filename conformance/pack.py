# SPDX-License-Identifier: Apache-2.0
"""Pack the rules of conformance into the package: `python conformance/pack.py`.

The package has each file of this directory on one line and compressed, an eighth of its size.
--check writes nothing; it exits with 1 if a packed file is missing or is not that of its source.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
PACKED = SOURCES.parent / "python/omsgrain/conformance/rules"


def write(name: str, text: str, check: bool = False) -> bool:
    """Pack a text, unless the package has it already. Return whether the package had it.

    The texts are compared, not the bytes: versions of zlib compress differently.
    """
    path = PACKED / f"{name}.json.gz"
    if path.exists() and gzip.decompress(path.read_bytes()) == text.encode():
        return True
    if check:
        print(f"old: {path.relative_to(SOURCES.parent)}")
    else:
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return False


def packed(source: Path) -> str:
    """Return a file of rules on one line."""
    rules = json.loads(source.read_text(encoding="utf-8"))
    return json.dumps(rules, ensure_ascii=False, separators=(",", ":"))


def main() -> int:
    """Pack each file of this directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    sources = sorted(SOURCES.glob("*.json"))
    had = [write(source.stem, packed(source), check) for source in sources]
    return int(check and not all(had))


if __name__ == "__main__":
    sys.exit(main())
