# SPDX-License-Identifier: Apache-2.0
"""How fast a bridge is, and which of its parts: `python -m benches.bridge [N] [--doc]`.

With real brokers from Debian's packages, on this machine: publisher to broker (each message
confirmed), broker to bridge (fetched and acknowledged, nothing stored), the commit alone, and all
of it, once from a queue that was full before and once while the publisher is at work. --doc puts
the table into docs/bridge.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import omsgrain as og
from benches import data, machine, page
from benches.measure import check
from benches.room import room
from omsgrain.bridge.broker import Credentials, broker
from omsgrain.server.log import Log
from omsgrain.store.take_messages import take

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "bridge.md"
BATCH = 1_000
HEADS = ("broker", "messages", "publisher to broker", "broker to bridge", "commit",
         "bridge, from a full queue", "of its time: store / waiting / settling",
         "all at the same time")  # fmt: skip


def main() -> int:
    """Measure and print; with --doc write the page."""
    parser = argparse.ArgumentParser(prog="python -m benches.bridge", description=__doc__)
    parser.add_argument("messages", nargs="?", type=int, default=50_000)
    parser.add_argument("--doc", action="store_true", help="write docs/bridge.md")
    options = parser.parse_args()
    sys.path.append(str(ROOT / "tests"))  # which can install and start brokers
    rows = []
    # On a disk, beside this file: /tmp may be memory.
    with room() as directory:
        for kind in ("mqtt", "nats"):
            for form in ("blobs", "JSON"):
                rows.append(_row(kind, form, options.messages, directory / kind / form))
                print(" | ".join(rows[-1]), flush=True)
    about = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "versions": machine.versions(),
    }
    load = f" Load of the five minutes before the end: {os.getloadavg()[1]:.1f}."
    if options.doc:
        parts = {"bridge": page.table(HEADS, rows), "bridge-about": page.about(about) + load}
        page.fill(PAGE, parts)
    return 0


def _row(kind: str, form: str, many: int, directory: Path) -> list[str]:
    grains = data.standard(many)
    made = [og.encode(g) if form == "blobs" else json.dumps(g).encode() for g in grains]
    directory.mkdir(parents=True)
    commit = _timed(lambda: _commit(directory / "alone.omsg", made))
    site = _site(kind, directory / "broker")
    try:
        session = _subscribed(site, directory / "hub.omsg")
        publish = _timed(lambda: site.publish(made))
        fetched = _timed(lambda: _drain(site, many))
        site.publish(made)
        queued, counts = _bridge(site, directory / "hub.omsg", many)
        parts = [counts[f"{name}_seconds"] for name in ("commit", "gather", "settle")]
        publisher = threading.Thread(target=site.publish, args=(made,))
        publisher.start()
        together, _ = _bridge(site, directory / "other.omsg", many)
        publisher.join()
        check(session, "the broker knows the bridge")
    finally:
        site.close()
    rates = [
        f"{many / seconds:,.0f}/s" for seconds in (publish, fetched, commit, queued, together)
    ]
    shares = " / ".join(f"{part / sum(parts):.0%}" for part in parts)
    return [kind.upper(), f"{many:,} {form}", *rates[:4], shares, rates[4]]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _commit(path: Path, made: list[bytes]) -> None:
    with og.open(path) as store:
        for start in range(0, len(made), BATCH):
            taken = take(store, made[start : start + BATCH])
            check(taken.stored == len(made[start : start + BATCH]), "all are new")


def _site(kind: str, directory: Path) -> Any:
    from support.bridge_processes import MqttSite, NatsSite

    site: Any = MqttSite(directory) if kind == "mqtt" else NatsSite(directory)
    site.start()
    return site


def _subscribed(site: Any, path: Path) -> bool:
    """Let the broker make the session, or the consumer."""
    from support.bridge_processes import Bridging

    with Bridging(path, *site.options, "--dead-letter", site.dead) as bridge:
        while "subscribed" not in bridge._read():
            bridge.until(lambda _: True)
        return bridge.end(signal.SIGTERM) == 0


def _drain(site: Any, many: int) -> None:
    """Fetch and acknowledge, and store nothing."""
    log = Log(stream=io.StringIO())
    url = site.options[1]
    source: Any
    if url.startswith("mqtt"):
        from omsgrain.bridge.mqtt import Mqtt, shared

        where = broker(url, ("mqtt",), Credentials())
        source = Mqtt(where, "hub1", [shared("robots/+/memory", "hub")], log)
    else:
        from omsgrain.bridge.nats import Nats

        where = broker(url, ("nats",), Credentials())
        source = Nats(where, log, stream="MEMORY", durable="hub")
    done = 0
    try:
        while done < many:
            found = source.fetch(BATCH, 1.0)
            source.settle(found, ())
            done += len(found)
    finally:
        source.close()


def _bridge(site: Any, path: Path, many: int) -> tuple[float, dict[str, Any]]:
    """Run a bridge until it has acknowledged so many; how long it took, and its last report."""
    from support.bridge_processes import Bridging

    with Bridging(path, *site.options, "--dead-letter", site.dead) as bridge:
        told = bridge.until(lambda told: bool(told["messages"]))
        start, before = time.perf_counter(), told["acknowledged"]
        bridge.until(lambda told: bool(told["acknowledged"] >= many))
        seconds = time.perf_counter() - start
        check(bridge.end(signal.SIGTERM) == 0, "it ends well")
        check(bridge.last["stored"] == many, "all are stored")
    return seconds * many / max(1, many - before), bridge.last


if __name__ == "__main__":
    sys.exit(main())
