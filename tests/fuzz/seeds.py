# SPDX-License-Identifier: Apache-2.0
"""Seeds out of what is there: test_vectors, and the data of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
VECTORS = TESTS.parent / "test_vectors"
_LONGEST = 16 << 10  # bytes of a seed: longer ones are slow, and no different


@cache
def _vectors() -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(VECTORS.rglob("*.json"))]


def blobs() -> list[bytes]:
    """The grain of every vector that has one, good or to be refused."""
    found = []
    for vector in _vectors():
        text = vector.get("blob_hex") or vector.get("stages", {}).get("blob_hex")
        if text and len(text) < 2 * _LONGEST:
            found.append(bytes.fromhex(text))
    return found


def inputs() -> list[bytes]:
    """The fields of every vector, as a line of JSON."""
    given = (v.get("input_json") or json.dumps(v["input"]) for v in _vectors() if "input" in v)
    return [text.replace("\n", " ").encode() for text in given if len(text) < _LONGEST]


def documents(format: str, *layouts: str) -> list[bytes]:
    """The documents of a format, in some layouts or in all; good ones, and some of the others."""
    return [
        data
        for vector, data in _documents()
        if vector["format"] == format
        and (not layouts or vector["layout"] in layouts)
        and len(data) < _LONGEST
    ]


def _documents() -> Iterator[tuple[dict[str, Any], bytes]]:
    for vector in _vectors():
        if "document" in vector:
            yield vector, vector["document"].encode()
        elif "bundle" in vector:
            about = {"format": "aimem", "layout": vector["form"]}
            yield about, vector["bundle"].encode()


def containers() -> list[bytes]:
    """The .mg files of the tests' data, good and bad."""
    files = sorted((TESTS / "data" / "containers").glob("*.json"))
    found = (json.loads(path.read_bytes()) for path in files)
    return [bytes.fromhex(one["file"]) for one in found]


def ontologies() -> list[bytes]:
    """The ontologies of the tests' data."""
    folder = TESTS / "data" / "ontologies"
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()]
