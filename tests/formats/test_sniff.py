# SPDX-License-Identifier: Apache-2.0
"""Detection of a document's format from its beginning or its end, whole or broken."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from omsgrain.errors import UnsupportedError
from omsgrain.formats import sniff
from omsgrain.formats.mif1 import document as layouts
from omsgrain.formats.table import sniff_file
from support.conversion_pairs import BUNDLE
from support.mif1_documents import PUBLISHED, SEP
from support.mif2_documents import FULL

LARGE = [{"id": str(i), "content": "x" * 50} for i in range(3_000)]


def text(document: Any, **more: Any) -> bytes:
    return json.dumps(document, **more).encode()


GOOD = [
    (BUNDLE.read_bytes(), "aimem"),
    (text(FULL), "mif2"),
    (text(FULL, indent=2, sort_keys=True), "mif2"),
    (text({"memories": LARGE, "mif_version": "2.0"}), "mif2"),
    (text({"memories": LARGE, "mif_version": "1.0", "todos": []}), "mif1"),
    (text({"memories": LARGE, "mif_version": "2.0", "z": LARGE}), "mif2"),
    (text({"x": {"mif_version": "1.0"}, "mif_version": "2.4", "memories": []}), "mif2"),
    (text({"x": '"mif_version": "2.0"', "mif_version": "1.0"}), "mif1"),
    (text({"memories": LARGE, "mif_version": "1.0", "x": {"mif_version": "2.0"}}), "mif1"),
    (text(SEP), "mif1"),
    (text({"mif_version": 1.0, "memories": []}), "mif1"),
    (b"\xef\xbb\xbf" + text(FULL), "mif2"),
    (layouts.spell(PUBLISHED, "yaml"), "mif1"),
    (layouts.spell(PUBLISHED, "jsonl"), "mif1"),
    (text({"$schema": SEP["$schema"], "mif_version": "1.0", "encryption": {}}), "mif1"),
]
BROKEN = [
    (text(FULL)[:80], "mif2"),
    (text(FULL)[:-1], "mif2"),
    (text(SEP)[:90], "mif1"),
    (text(FULL).replace(b"2026", b"NaN", 1), "mif2"),
    (text({"mif_version": "3.0", "memories": []}), "mif2"),
    (text({"mif_version": "10.0", "memories": []}), "mif2"),
    (BUNDLE.read_bytes()[:400], "aimem"),
    (b'{"mif_version": "2.0", "memories": ' + b"[" * 10_000, "mif2"),
]
UNKNOWN = [b"", b"{}", b"[]", b"\x00\x01", b"hello: world", text({"version": "2.0"}),
           text({"x": {"mif_version": "2.0"}}), b'{"mif_version": null}', b"{" * 5]  # fmt: skip


@pytest.mark.parametrize(("data", "format"), GOOD + BROKEN, ids=range(len(GOOD + BROKEN)))
def test_the_format_is_detected(tmp_path: Path, data: bytes, format: str) -> None:
    assert sniff(data) == format
    file = tmp_path / "x"
    file.write_bytes(data)
    assert sniff_file(file) == format


@pytest.mark.parametrize("data", UNKNOWN, ids=range(len(UNKNOWN)))
def test_unknown_content_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)
    with pytest.raises(UnsupportedError):
        sniff(data)
    with pytest.raises(UnsupportedError):
        sniff_file(file)


def test_lines() -> None:
    assert layouts.layout_of(layouts.spell(PUBLISHED, "jsonl")) == "jsonl"


def test_a_large_document_is_not_parsed() -> None:
    memories = text(LARGE * 40)
    data = b'{"memories":' + memories + b',"mif_version":"2.0"}'
    tracemalloc.start()
    assert sniff(data) == "mif2"
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < len(data) // 4


def test_a_pipe_is_not_taken_for_an_empty_file() -> None:
    out, into = os.pipe()
    os.write(into, b'{"mif_version":"2.0","memories":[]}')
    os.close(into)
    try:
        with pytest.raises(UnsupportedError) as error:
            sniff_file(Path(f"/dev/fd/{out}"))
    finally:
        os.close(out)
    assert error.value.found == "a pipe"
