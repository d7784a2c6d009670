# SPDX-License-Identifier: Apache-2.0
"""From MIF to AIMEM and back: the bundle carries what AIMEM cannot hold, or reports it as lost.

    python examples/mif_to_aimem.py examples/garden.mif.json

Each record becomes a grain, and a grain becomes a record of the other format. By default the
bundle carries the whole grains in extension members, so a conversion back gives the same
document. With `strict` it carries none: the bundle has only members of the format, and each field
without a place in it is reported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from omsgrain import formats


def main(arguments: list[str]) -> int:
    """Convert there and back; the exit code is 1 if the document is another one then."""
    source = Path(arguments[0]).read_bytes()
    memory = formats.load(source)
    print(f"{memory.format}: {len(memory.grains)} grains")

    bundle = formats.dump(memory, format="aimem", user_id="ada", embeddings=True)
    there = formats.load(bundle.data)
    print(f"{there.format}: {len(bundle.data)} bytes, {len(bundle.losses)} fields lost")

    back = formats.dump(there, format=memory.format, embeddings=True)
    same = bool(json.loads(back.data) == json.loads(source))
    print(f"back in {memory.format}: {'the same document' if same else 'another document'}")

    plain = formats.dump(memory, format="aimem", user_id="ada", strict=True)
    lost = sorted({loss.field for loss in plain.losses})
    print(f"strict: {len(plain.data)} bytes, lost: {', '.join(lost)}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
