# SPDX-License-Identifier: Apache-2.0
"""areev, the other store of memory grains, as the rows S use it.

It keeps each grain as the same blob at the same address, with an index of triples. Its telemetry
is off; its text index is on for searches only. Its input is JSON, ready before the clock starts.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import omsgrain as og
from benches import data, peer

NAME = "areev (no text index)"
BATCH = 1_000
SHARE = 50  # it gets one grain where we get so many: it syncs to the disk for each new term


def opened(directory: Path, *, index_text: bool = False) -> Any:
    """A new file of it."""
    path = str(directory / "areev.db")
    areev = peer.module("areev")
    return areev.Areev(path, ns="warehouse:zone-3", telemetry="off", index_text=index_text)


def part(grains: list[data.Fields]) -> list[data.Fields]:
    """What it gets of so many grains: at least one batch."""
    return grains[: max(BATCH, len(grains) // SHARE)]


def calls(grains: list[data.Fields]) -> list[str]:
    """What to pass to ``add``: one JSON text a batch."""
    orjson = peer.module("orjson")
    items = [
        {
            "grain_type": "fact",
            "fields": {name: value for name, value in grain.items() if name != "type"},
        }
        for grain in grains
    ]
    return [orjson.dumps(items[i : i + BATCH]).decode() for i in range(0, len(items), BATCH)]


def add(db: Any, texts: list[str]) -> list[str]:
    """Store the grains, a batch a transaction; gives their addresses."""
    orjson = peer.module("orjson")
    return list(chain.from_iterable(orjson.loads(db.add_batch(text)) for text in texts))


def addresses(grains: list[data.Fields]) -> list[str]:
    """What ``add`` has to give: it writes beliefs by their older name."""
    facts = ({**grain, "type": "fact"} for grain in grains)
    return og.encode_many(facts, keep_type_name=True).addresses
