# SPDX-License-Identifier: Apache-2.0
"""The container vectors: small files with what a reader must find in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from containers import saved
from omsgrain import container
from support.paths import TEST_DATA

FILES = sorted((TEST_DATA / "containers").glob("*.json"))
GOOD = [path.stem for path in FILES if path.stem.startswith("good-")]
BAD = [path.stem for path in FILES if path.stem.startswith("bad-")]


def load(name: str) -> dict[str, Any]:
    path = next(path for path in FILES if path.stem == name)
    vector: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return vector


def test_there_are_vectors() -> None:
    assert len(GOOD) >= 15
    assert len(BAD) >= 21


@pytest.mark.parametrize("name", GOOD)
def test_good(tmp_path: Path, name: str) -> None:
    vector = load(name)
    path = saved(tmp_path, bytes.fromhex(vector["file"]))
    with container.read(path) as found:
        assert [grain.hex() for grain in found] == vector["grains"]
        assert [found.address(i) for i in range(len(found))] == vector["addresses"]
        assert found.manifest == vector["manifest"]
        assert found.flags == vector["flags"]
        assert found.codec == ("none", "zstd", "lz4")[vector["codec"]]
        assert found.verify() == container.ContainerReport(len(vector["grains"]))
        if vector["codec"] == 0:  # packed bytes are the library's affair
            again = tmp_path / "again.mg"
            header = found.header
            container.write(
                again,
                found,
                manifest=vector["manifest"],
                sort=header.sorted,
                dedupe=header.deduplicated,
            )
            assert again.read_bytes().hex() == vector["file"]


@pytest.mark.parametrize("name", BAD)
def test_bad(tmp_path: Path, name: str) -> None:
    vector = load(name)
    path = saved(tmp_path, bytes.fromhex(vector["file"]))
    first = container.verify(path, errors="collect").problems[0]
    found = {"part": first.part, "number": first.number, "code": first.error.code}
    assert found == vector["wrong"]
