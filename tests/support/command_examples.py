# SPDX-License-Identifier: Apache-2.0
"""The examples of all commands, and a directory in which they can be typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import omsgrain as og
from omsgrain.cli.command import Manual
from omsgrain.crypto import open_signed
from support.bag_files import write_mcap
from support.doc_terminal import typed
from support.minimal_grains import minimal
from support.paths import ROOT

TENANT = "6f1c3d7a-58b2-4c0e-9d41-0a7e52b8c936"  # that of the bundle in examples/
INDENT = "    "


def examples(command: Manual) -> list[str]:
    """The command lines among the examples of a page; a line that goes on is one."""
    lines, joined = [], ""
    for line in command.examples:
        if line.startswith(INDENT):
            joined += line.strip().removesuffix("\\")
            if not line.endswith("\\"):
                lines.append(joined)
                joined = ""
    assert not joined, joined
    return lines


def world(place: Path) -> dict[str, str]:
    """Make all that the examples name in a directory, which is the current one.

    Returns:
        What stands in the examples -> what is meant.
    """
    for name in ("robot-7.aimem.json", "garden-notes.yaml", "watering.memory.json"):
        shutil.copy(ROOT / "examples" / name, place)
    shutil.copy(ROOT / "examples/mission.jsonl", place / "grains.jsonl")
    shutil.copy(ROOT / "examples/garden.mif.json", place / "notes.mif.json")
    for name in ("examples", "test_vectors"):
        (place / name).symlink_to(ROOT / name)
    for name in ("documents", "received"):
        (place / name).mkdir()
    for name in ("chain.pem", "key.pem", "token"):
        (place / name).write_text("omg_x\n")
    (place / "readings.csv").write_text("ts,device,temp\n1768471200,t-7,21.5\n1768471260,t-7,22\n")
    write_mcap(place / "drive.mcap")
    (place / "names.txt").write_text("ada\n")
    (place / "newer.json").write_text(json.dumps(minimal("belief", object="19 degrees")))
    rules = '[[require]]\nid = "room"\nfields = ["x:room"]\nreason = "r"\nsource = "s"\n'
    (place / "house-rules.toml").write_text(f'name = "house"\ntitle = "House"\n\n{rules}')
    _do(
        "keys master master.key",
        "keys create people.keys --master master.key",
        "keygen signer.pem --json > signer.json",
        "ingest memory.omsg grains.jsonl",
        "ingest --suggest readings.csv > readings.toml",
        "import memory.omsg robot-7.aimem.json",
        "convert watering.memory.json notes/ --layout directory",
        "convert watering.memory.json notes/valve.memory.md",
        "export memory.omsg robot.mg --run mission-7",
        "export memory.omsg received/robot.mg",
        "ingest robot.omsg grains.jsonl",
        "ingest hub.omsg grains.jsonl",
        "backup memory.omsg backup.omsg",
        "backup memory.omsg --to backups",
        "sign robot.mg --key signer.pem",
        "sign robot-7.aimem.json --key signer.pem",
    )
    (place / "signer.pub").write_text(json.loads((place / "signer.json").read_text())["did"])
    with og.open("memory.omsg") as store:
        addresses = {
            "ADDRESS": store.put(minimal("belief", user_id="ada")),
            "OLD": store.put(minimal("belief", subject="b")),
            "CONSENT": store.put(minimal("consent")),
        }
        soft = {"mode": "soft_locked"}
        locked = store.put(minimal("belief", subject="a", invalidation_policy=soft))
        store.supersede(locked, minimal("belief", object="b"), justification="seen")
        addresses["NUMBER"] = str(next(iter(store.reviews.pending())).number)
        (place / "grain.mg").write_bytes(store.get(addresses["ADDRESS"]).blob)
    (place / "event.mg").write_bytes(og.encode(minimal("event")))
    _do("sign event.mg --key signer.pem -o signed.cose", "ingest memory.omsg signed.cose")
    addresses["SIGNED"] = open_signed((place / "signed.cose").read_bytes()).grain.address
    return addresses | {"TENANT": TENANT}


def _do(*lines: str) -> None:
    for line in lines:
        code, said = typed(f"omsgrain {line}")
        assert code == 0, (line, said)
