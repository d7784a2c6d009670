# SPDX-License-Identifier: Apache-2.0
"""Broken MIF 1.0 documents in each layout: a clear error or what is left, and nothing else."""

from __future__ import annotations

import json
import random

import pytest

from omsgrain import formats
from omsgrain.errors import UnsupportedError
from omsgrain.formats import DocumentError, sniff
from omsgrain.formats.mif1 import document
from omsgrain.formats.mif1.check import Layout
from omsgrain.formats.mif1.format import MIF1
from support.mif1_documents import PUBLISHED, SEP

LAYOUTS: list[Layout] = ["json", "yaml", "jsonl"]
BITS = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"- ",
    b"*a",
    b"&a ",
    b"!!",
    b"\n",
    b"\\u",
    b"1e9",
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_document_that_was_cut_short(layout: Layout) -> None:
    data = document.spell(PUBLISHED, layout)
    for end in range(0, len(data) - 2, 7):
        cut = data[:end]
        try:
            loaded = MIF1.load(cut, layout=layout)
        except DocumentError:
            continue
        # YAML has no end of its own, so a part of it can be whole.
        assert layout == "yaml" and loaded.format == "mif1"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_document_that_was_changed(layout: Layout, long: bool) -> None:
    rng = random.Random(layout)
    data = document.spell(SEP, layout)
    for _ in range(4_000 if long else 150):
        at, size = rng.randrange(len(data)), rng.choice([0, 1, 2, 30])
        noise = rng.choice([*BITS, rng.randbytes(2)])
        changed = data[:at] + noise + data[at + size :]
        try:
            loaded = MIF1.load(changed)
        except DocumentError as error:
            assert error.problems[0].rule and error.code == "ERR_FORMAT"
            continue
        read = document.parse(changed).document
        if not loaded.problems:
            again = document.parse(formats.dump(loaded, format="mif1").data).document
            assert json.dumps(again) == json.dumps(read)


@pytest.mark.parametrize("text", [b"x: 1\n", b"", b"\x00", b"[1]", b'{"x":"mif_version"}'])
def test_what_is_none_of_them(text: bytes) -> None:
    with pytest.raises(UnsupportedError):
        sniff(text)
