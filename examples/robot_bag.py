# SPDX-License-Identifier: Apache-2.0
"""A robot's black box: its recording and what it believed, in one signed MCAP file.

The program records a drive of ten seconds as an MCAP file, as a recorder of another vendor would.
It stores ten readings a second of two topics, and concludes from the lowest voltage that the robot
must charge. It writes recording and grains into one file, signs it, and verifies it as a reader
does who trusts the robot's key.
Run it with `python examples/robot_bag.py`, or `python examples/robot_bag.py drive.mcap` to keep
the recording. It needs the extra `mcap`.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from mcap.writer import Writer

import omsgrain as og
from omsgrain.crypto import Ed25519Signer
from omsgrain.crypto.detached import sign_file, signature_path
from omsgrain.crypto.trust import Trust
from omsgrain.interchange.bag import BagReport, BagSelection
from omsgrain.interchange.bag_import import import_bag
from omsgrain.interchange.mcap_export import export_mcap
from omsgrain.interchange.verify import VerifyOptions, verify_file

START = 1_768_471_200_000_000_000  # 2026-01-15T10:00:00Z in nanoseconds
SECOND = 1_000_000_000


def record(path: Path) -> None:
    """Record a drive: 100 messages of the IMU a second, 10 of the battery, 1 image."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start("", "a recorder")
        channels = {}
        for topic in ("/imu", "/battery", "/camera"):
            name = topic[1:].capitalize()
            schema = writer.register_schema(name, "jsonschema", b'{"type": "object"}')
            encoding = "jpeg" if topic == "/camera" else "json"
            channels[topic] = writer.register_channel(topic, encoding, schema)
        for n in range(1_000):
            time = START + n * SECOND // 100
            messages = {"/imu": {"yaw": round(math.sin(n / 100), 4), "moving": n < 900}}
            if n % 10 == 0:
                messages["/battery"] = {"volts": round(25 - n / 1_000 + (n > 800), 3)}
            for topic, values in messages.items():
                data = json.dumps(values).encode()
                writer.add_message(channels[topic], time, data, time, n)
            if n % 100 == 0:
                writer.add_message(channels["/camera"], time, bytes(5_000), time, n)
        writer.finish()


def lowest(store: og.GrainStore) -> og.Grain:
    """Find the reading of the battery with the fewest volts."""
    readings = store.iter_query(subject="/battery")
    return min(readings, key=lambda one: float(one["object"]["volts"]))


def conclude(store: og.GrainStore, reading: og.Grain) -> str:
    """Store a belief that names the reading it comes from."""
    return store.put(
        og.Belief(
            subject="robot-7",
            relation="must",
            object="charge",
            confidence=0.9,
            derived_from=[reading.address],
            created_at=reading["created_at"],
        )
    )


def main() -> None:
    with TemporaryDirectory() as folder:
        bag = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder, "drive.mcap")
        record(bag)
        selection, report = BagSelection(every="100ms"), BagReport()
        with og.open(Path(folder, "robot.omsg"), actor="robot-7") as store:
            for _ in import_bag(store, bag, selection, report=report):
                pass  # each step is on the disk
            for one in report.topics.values():
                counts = f"{one.observed} stored, {one.skipped} between samples"
                print(f"{one.topic}: {one.messages} messages, {counts}, {one.left_out} left out")
            found = lowest(store)
            place = found["context"]["bag"]
            print(f"lowest: {found['object']['volts']} V, message {place['sequence']} of the bag")
            conclude(store, found)
            box = Path(folder, "box.mcap")
            written = export_mcap(store, box, merge=bag)
        print(f"box: {written.grains} grains, {written.merged} messages of the recording")
        robot = Ed25519Signer.generate()
        signature_path(box).write_bytes(sign_file(box, robot))
        checked = verify_file(box, VerifyOptions(trust=Trust.load([robot.did])))
        print(f"verified: {checked.verified} grains, {len(checked.failures)} failures")


if __name__ == "__main__":
    main()
