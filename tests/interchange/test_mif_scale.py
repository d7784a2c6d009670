# SPDX-License-Identifier: Apache-2.0
"""Documents of 10 and of 100 MB into a store and out of it, in a bounded part of their own size.

Memory is measured as ``make bench`` does: what a process has taken beside the map of its store.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain.formats.mif1 import document as layouts
from omsgrain.interchange.mif_export import export_mif
from omsgrain.interchange.mif_import import import_document
from omsgrain.interchange.parse import Trusted, read_document
from support.mif_large import USER, Large
from support.paths import ROOT, TESTS

LEAST = 120_000_000
"""Bytes of anonymous memory: the interpreter, its modules, what a store keeps of its index."""
IMPORT, EXPORT, KEPT, WORDS = 7, 4, 3, 25
"""How many bytes there may be for each byte of the document; of one in the words of another
format all records are objects for a while."""

WORK = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[1:4]
from benches.sampler import Sampler
from test_mif_scale import done
what, store, file, format = sys.argv[4], *map(Path, sys.argv[5:7]), sys.argv[7]
began = time.monotonic()
with Sampler() as sampler:
    told = done(what, store, file, format)
print(sampler.peak, round(1_000 * (time.monotonic() - began)), *told)
"""


def work(
    what: str, store: Path, file: Path, format: str = "mif2", *, apart: bool = True
) -> list[int]:
    """Import or export in a process of its own: peak memory, milliseconds and report."""
    if not apart:
        return [0, 0, *done(what, store, file, format)]
    paths = [ROOT, TESTS, TESTS / "interchange"]
    command = [sys.executable, "-c", WORK, *paths, what, store, file, format]
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return [*map(int, ended.stdout.split())]


def done(what: str, store: Path, file: Path, format: str) -> list[int]:
    """Imported, unchanged and refused records; or what was lost in an export."""
    if what == "kept":
        with og.open(store) as grains:
            told = export_mif(grains, file, user_id=USER, document="exp_1a2b")
        return [told[1].lost]
    if what == "export":
        with og.open(store) as grains:
            return [export_mif(grains, file, user_id=USER, format=format)[1].lost]
    document = read_document(file, USER, Trusted())
    with og.open(store) as grains:
        report = import_document(grains, document)
    return [report.count("imported"), report.count("unchanged"), len(report.errors)]


def marks(records: Iterable[Any]) -> Counter[bytes]:
    """Records, by what they say."""
    return Counter(
        sha256(_core.canonical_json(json.dumps(record).encode())).digest() for record in records
    )


def records_of(data: bytes, format: str) -> list[Any]:
    """The records of a document, of those kinds that the large one has."""
    document = json.loads(data) if format == "mif2" else layouts.parse(data).document
    graph = document["knowledge_graph" if format == "mif2" else "graph"]
    names = ("entities", "relationships") if format == "mif2" else ("nodes", "edges")
    arrays = [document["memories"], document["todos"], *(graph[name] for name in names)]
    return [record for array in arrays for record in array]


CASES = [("mif2", "json"), ("mif1", "json"), ("mif1", "jsonl")]


@pytest.mark.parametrize(("format", "layout"), CASES)
def test_a_large_document(
    tmp_path: Path, long: bool, capsys: pytest.CaptureFixture[str], format: str, layout: str
) -> None:
    sizes = [12_000, 118_000] if long else [400]
    apart = long or layout == "jsonl"
    for memories in sizes:
        large = Large(memories)
        end = f".mif.{layout}"
        ends = (".omsg", end, f"-out{end}")
        store, file, out = (tmp_path / f"{memories}{name}" for name in ends)
        size = large.write(file, format, layout)
        expected = marks(large.records(format))
        taken, took, imported, unchanged, errors = work("import", store, file, apart=apart)
        assert (imported, unchanged, errors) == (expected.total(), 0, 0)
        given, gave, lost = work("export", store, out, format, apart=apart)
        assert lost == (format == "mif2")  # a member of its graph that MIF 2.0 does not know
        assert marks(records_of(out.read_bytes(), format)) == expected
        out.unlink()
        again, gave_again, lost = work("kept", store, out, format, apart=apart)
        assert lost == 0
        assert marks(records_of(out.read_bytes(), format)) == expected
        if long:
            with capsys.disabled():
                print(
                    f"\n{format} {layout}, {size / 1e6:.0f} MB, {expected.total()} records: import"
                    f" {took / 1e3:.0f} s, {taken / 1e6:.0f} MB; export {gave / 1e3:.0f} s,"
                    f" {given / 1e6:.0f} MB; as it came {gave_again / 1e3:.0f} s,"
                    f" {again / 1e6:.0f} MB"
                )
        assert taken < LEAST + IMPORT * size
        assert given < LEAST + EXPORT * size
        assert again < LEAST + KEPT * size
        out.unlink()
    if not long:
        assert work("import", store, file, apart=False)[2:] == [0, expected.total(), 0]


def test_a_document_of_another_format_leaves_whole(tmp_path: Path, long: bool) -> None:
    large = Large(12_000 if long else 200)
    store, file, out = tmp_path / "m.omsg", tmp_path / "m.mif.json", tmp_path / "out.mif.json"
    size = large.write(file, "mif2")
    work("import", store, file, apart=long)
    taken, *_ = work("export", store, out, "mif1", apart=long)
    assert len(json.loads(out.read_bytes())["memories"]) == sum(1 for _ in large.memories("mif1"))
    again = tmp_path / "again.omsg"
    _, _, imported, _, errors = work("import", again, out, apart=long)
    assert errors == 0
    with og.open(store, readonly=True) as one, og.open(again, readonly=True) as other:
        addresses = {grain.address for grain in one if grain.get("namespace") == "mif2"}
        assert {grain.address for grain in other if grain.type != "state"} <= addresses
    assert imported
    assert taken < LEAST + WORDS * size
