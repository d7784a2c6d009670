# SPDX-License-Identifier: Apache-2.0
"""Real sensor readings and a robot's mission, from JSON to a second store.

It ingests, explains, tampers, queries, exports, supersedes, searches, encrypts, signs, erases and
converts. Each step makes a claim, and prints whether it holds; the exit code is 1 if one does not.

python examples/demo                    # in a temporary store
python examples/demo demo.omsg          # keeps the store, to look at it
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bundle import tell_bundle
from exchange import tell_exchange
from life import tell_life
from readings import tell_readings
from story import Story
from trust import tell_trust

DATA = Path(__file__).parents[1]


def main() -> int:
    """Run all chapters, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="demo", description="Run the main features on real data."
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, help="a new store; else a temporary one"
    )
    parser.add_argument("--json", action="store_true", help="print only the claims, as JSON")
    given = parser.parse_args()
    if given.directory is not None and given.directory.exists():
        parser.error(f"{str(given.directory)!r} exists; name a new directory")
    story = Story(quiet=given.json)
    with tempfile.TemporaryDirectory(prefix="omsgrain-demo-") as temporary:
        beside = Path(temporary)
        directory = given.directory or beside / "memory.omsg"
        tell_readings(story, directory, DATA)
        tell_exchange(story, directory, beside)
        tell_life(story, directory)
        tell_trust(story, directory, beside)
        tell_bundle(story, DATA, beside)
    story.end()
    if given.json:
        print(json.dumps({"ok": story.ok, "checks": story.checks}))
    return 0 if story.ok else 1


if __name__ == "__main__":
    sys.exit(main())
