# SPDX-License-Identifier: Apache-2.0
"""Bundles of areev and dejadb: grains as they are, what supersedes what, and broken bundles."""

from __future__ import annotations

import struct
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.errors import FormatError, OmsError
from omsgrain.formats.foreign.areev import AREEV
from omsgrain.formats.foreign.base import ForeignLimits
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.table import sniff_file
from omsgrain.interchange.grain_bundle import import_grains, read_bundle
from support.foreign_files import DATA
from support.mif_imports import opened
from support.shell import Shell

FILE = DATA / "areev.mgb"
BUNDLES = (FILE, DATA / "dejadb.mgb")
BLOB = og.encode({"type": "event", "content": "hello", "created_at": 1_000})


def operation(
    kind: int, blob: bytes, address: bytes | None = None, size: int | None = None
) -> bytes:
    name = sha256(blob).digest() if address is None else address
    return struct.pack("<BQ32sI", kind, 7, name, len(blob) if size is None else size) + blob


def bundle(*operations: bytes) -> bytes:
    return AREEV.magic + b"".join(operations)


def problems(data: bytes) -> list[tuple[str, str]]:
    return [(one.rule, one.pointer) for one in AREEV.read_grains(data).problems]


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_grains_are_imported_once(path: Path) -> None:
    assert sniff_file(path) == "areev"
    with opened() as store:
        first = import_grains(store, read_bundle(path))
        assert (first.stored, first.duplicates, first.merged) == (9, 0, 1)
        again = import_grains(store, read_bundle(path))
        assert (again.stored, again.duplicates, again.merged) == (0, 9, 0)
        (hit,) = store.query(subject="ada").results
        assert hit.grain["object"] == "jasmine tea"
        assert [one["object"] for one in store.history(hit.address)] == [
            "green tea", "jasmine tea"
        ]  # fmt: skip
        assert not store.query(subject="bob").results


def test_conforming_blobs_keep_their_address_and_others_are_kept_inside() -> None:
    read = read_bundle(FILE)
    data = FILE.read_bytes()
    for address, blob in read.blobs.items():
        grain = og.Grain(blob)
        assert grain.address == address
        original = grain.get("x_original", blob)
        assert original in data
        assert (original == blob) is (bytes.fromhex(address) in data)


def test_the_current_grains_convert() -> None:
    found = formats.load(FILE)
    assert len(found.grains) == 8
    assert {one.rule for one in found.dropped} == {"left_out", "superseded"}
    assert b"jasmine tea" in formats.dump(found, format="mif2", user_id="ada").data


def test_bad_operations_are_skipped() -> None:
    data = bundle(
        operation(1, BLOB),
        operation(1, BLOB),
        operation(1, BLOB[:-1] + b"x", sha256(BLOB).digest()[::-1]),
        operation(1, b"no grain"),
        operation(1, b"", bytes(32)),
        operation(2, BLOB),
        operation(3, b"", b"x" * 32),
        operation(1, b"", b"x" * 32),
    )
    assert problems(data) == [("hash_mismatch", "/2"), ("not_grain", "/3"), ("no_blob", "/4")]
    assert len(AREEV.read_grains(data).blobs) == 1


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"MGB2", "not_bundle"),
        (bundle(operation(1, BLOB))[:-1], "cut_off"),
        (bundle(operation(1, BLOB))[:30], "cut_off"),
        (bundle(operation(4, BLOB)), "unknown_operation"),
        (bundle(operation(1, BLOB, size=2 << 20)), "unknown_operation"),
    ],
)
def test_broken_bundles_are_refused(data: bytes, rule: str) -> None:
    with pytest.raises(DocumentError) as refused:
        AREEV.read_grains(data)
    assert refused.value.rule == rule


def test_limits() -> None:
    data = bundle(*[operation(1, BLOB)] * 3)
    for limits in (ForeignLimits(records=2), ForeignLimits(document=100)):
        with pytest.raises(DocumentError):
            AREEV.read_grains(data, limits)


@given(st.integers(0, 1_700), st.binary(max_size=8))
def test_a_mutation_gives_an_error_or_a_report(at: int, change: bytes) -> None:
    data = bytearray(FILE.read_bytes())
    data[at : at + len(change)] = change
    try:
        read = AREEV.read_grains(bytes(data))
    except OmsError:
        return
    assert all(og.Grain(blob).address == address for address, blob in read.blobs.items())


def test_the_command_line_reads_a_bundle(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(capfdbinary, monkeypatch)
    assert shell.json("import", tmp_path / "s.omsg", FILE)["stored"] == 9
    assert shell.json("verify", FILE)["documents"][0]["records"] == {"grains": 9}
    assert shell.json("convert", FILE, tmp_path / "x.mg")["grains"] == 8
    bad = tmp_path / "bad.mgb"
    bad.write_bytes(bundle(operation(1, b"no grain"), operation(1, BLOB)))
    assert shell("import", tmp_path / "t.omsg", bad) == FormatError.exit_code
    code, report = shell.refused("import", tmp_path / "t.omsg", bad, "--errors", "collect")
    assert (code, report["stored"]) == (FormatError.exit_code, 1)
    assert shell("import", tmp_path / "t.omsg", FILE, "--user", "ada") == 2
