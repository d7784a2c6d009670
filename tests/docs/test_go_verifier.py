# SPDX-License-Identifier: Apache-2.0
"""The verifier in Go agrees with the vectors, and with the core about damaged grains."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from random import Random

import pytest

import omsgrain as og
from support.paths import ROOT
from support.servers.debian import needed

pytestmark = pytest.mark.services
SOURCE = ROOT / "examples/verifier.go"
PAGE = ROOT / "docs/how-to/implement.md"


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = needed("golang-go", "go")
    place = tmp_path_factory.mktemp("go")
    environment = {
        "PATH": "/usr/bin:/bin",
        "GO111MODULE": "off",
        "GOCACHE": str(place / "cache"),
        "GOPATH": str(place / "path"),
    }
    subprocess.run([go, "vet", SOURCE], check=True, env=environment)
    built = place / "verifier"
    subprocess.run([go, "build", "-o", built, SOURCE], check=True, env=environment)
    return built


def said(verifier: Path, *arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run([verifier, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def test_it_agrees_with_the_vectors(verifier: Path) -> None:
    code, line = said(verifier, ROOT / "test_vectors")
    assert code == 0, line
    assert line in PAGE.read_text("utf-8")
    agree, tables, _, wrong = map(int, re.findall(r"\d+", line))
    assert agree > 100 and tables < 30 and wrong == 0


def test_it_refuses_what_the_core_refuses(verifier: Path, tmp_path: Path) -> None:
    random, file = Random(7), tmp_path / "grain.mg"
    fields = {"type": "event", "content": "the lamp works", "created_at": 1_768_471_200_000}
    blob = og.encode(
        fields | {"namespace": "robots:7", "importance": 0.5, "readings": [1, -40, 2.5, "x"]}
    )
    file.write_bytes(blob)
    assert said(verifier, file, og.address(blob)) == (0, "verified")
    refused = 0
    for _ in range(200):
        damaged = bytearray(blob)
        damaged[random.randrange(len(blob))] ^= 1 << random.randrange(8)
        file.write_bytes(damaged)
        code, line = said(verifier, file, og.address(blob))
        assert (code, line.split(":")[0]) != (0, "verified")
        # With the address of the damaged bytes only their form is judged.
        code, line = said(verifier, file, og.address(bytes(damaged)))
        try:
            og.decode(bytes(damaged))
        except og.errors.OmsError:
            refused += 1
        else:
            assert code == 0 or line.startswith("not read"), line
    assert refused > 50
