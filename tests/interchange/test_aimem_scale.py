# SPDX-License-Identifier: Apache-2.0
"""A memory of a million chunks through import and export, killed half-way, in little memory.

Memory is measured as ``make bench`` does: what a process has taken beside the map of its store.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.fields import Kind
from support.aimem_imports import chunk, edge, entity, link
from support.aimem_strategies import TENANT
from support.paths import ROOT

MOST = 300_000_000
"""Bytes of anonymous memory, the interpreter and its modules included."""
BATCH = 1_000

WORK = """
import os, sys
sys.path.insert(0, sys.argv[1])
import omsgrain as og
from benches.sampler import Sampler
from omsgrain.store import import_batch
from omsgrain.interchange.aimem_export import export_stream
from omsgrain.interchange.aimem_import import import_bundle
what, path, file, tenant, batches = sys.argv[2], *sys.argv[3:6], int(sys.argv[6])
record, done = import_batch.record, 0
def counted(*args, **options):
    global done
    if done == batches:
        os.kill(os.getpid(), 9)
    done += 1
    return record(*args, **options)
import_batch.record = counted
told = []
with Sampler() as sampler, og.open(path) as store:
    if what == "import":
        with open(file, "rb") as source:
            summary = import_bundle(store, source)
        told = [summary.count("chunk", fate) for fate in ("inserted", "unchanged")]
        told.append(summary.total_conflicts)
    else:
        with open(file, "wb") as target:
            for piece in export_stream(store, tenant):
                target.write(piece)
print(sampler.peak, *told)
"""


def records(count: int, kind: Kind) -> Iterator[dict[str, Any]]:
    """As many chunks, and a twentieth of each other kind."""
    if kind == "chunk":
        for n in range(count):
            yield chunk(n, f"number {n} is about the weather of day {n % 365}", tags=["weather"])
        return
    for n in range(0, count, 20):
        if kind == "edge":
            yield edge(n, (n * 7 + 1) % count)
        elif kind == "entity":
            yield entity(f"e{n}", name=f"day {n % 365}", kind="concept")
        else:
            yield link(n, f"e{n}")


def work(what: str, path: Path, file: Path, batches: int = -1) -> list[int] | None:
    """Import or export in a process; return its report, or None if it was killed."""
    command = [sys.executable, "-c", WORK, ROOT, what, path, file, TENANT, batches]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode == -9:
        return None
    assert done.returncode == 0, done.stderr
    return [*map(int, done.stdout.split())]


def test_a_large_memory(tmp_path: Path, long: bool, capsys: pytest.CaptureFixture[str]) -> None:
    count = 1_000_000 if long else 2_000
    file, path, out = tmp_path / "b.ndjson", tmp_path / "m.omsg", tmp_path / "out.ndjson"
    envelope = {
        "format": "aimem-bundle",
        "version": "1",
        "producer": "p",
        "tenant_id": TENANT,
        "exported_at": "2026-04-01T09:30:00Z",
        "scope": "FULL",
    }
    with file.open("wb") as target:
        for line in document.write_lines(envelope, lambda kind: records(count, kind)):
            target.write(line)
    half = count // BATCH // 2
    assert work("import", path, file, half) is None
    with og.open(path, readonly=True) as store:
        assert len(store) == half * BATCH
    told = work("import", path, file)
    assert told is not None
    peak, inserted, unchanged, conflicts = told
    assert (inserted + unchanged, unchanged, conflicts) == (count, half * BATCH, 0)
    exported = work("export", path, out)
    assert exported is not None
    with out.open("rb") as source:
        assert document.scan(source).counts == dict.fromkeys(
            ("edge", "entity", "chunk_entity"), len(range(0, count, 20))
        ) | {"chunk": count}
        source.seek(0)
        assert json.loads(source.readline())["tenant_id"] == TENANT
    with og.open(path, readonly=True) as store:
        assert len(store) == count + 3 * len(range(0, count, 20))
    if long:
        with capsys.disabled():
            print(
                f"\n{count} chunks: at most {peak / 1e6:.0f} MB to import and "
                f"{exported[0] / 1e6:.0f} MB to export, beside the map of the store"
            )
    assert peak < MOST and exported[0] < MOST
