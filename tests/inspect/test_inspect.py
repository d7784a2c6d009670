# SPDX-License-Identifier: Apache-2.0
"""``omsgrain inspect``: what the page shows of stores and files, good and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import container, inspect
from omsgrain.crypto import Ed25519Signer, sign
from omsgrain.inspect.tally import Newest, TimeColumns
from support.minimal_grains import minimal
from support.shell import TIME, Shell, belief

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\u202e"


def shown(page: Path) -> dict[str, Any]:
    """The data of a page, as its script reads it."""
    text = page.read_text("utf-8")
    inside = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    values: dict[str, Any] = json.loads(inside)
    return values


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Eight grains: three are versions, one is signed again, one is restricted."""
    path = tmp_path / "memory.omsg"
    signer = Ed25519Signer.generate()
    with og.open(path) as grains:
        first = grains.put(belief(1, relation="likes", object="tea"))
        second = grains.supersede(first, belief(1, relation="likes", object="mint tea"))
        grains.supersede(second, belief(1, relation="likes", object=HOSTILE))
        grains.put(minimal("event", content=HOSTILE))
        signed = grains.put(belief(2, relation="knows", object="s1"))
        grains.sign(signed, signer, iat=TIME // 1000)
        grains.put(og.encode(belief(3), sensitivity="phi"))
        grains.privacy.restrict(grains.put(belief(4, object="private")), reason_code="gdpr-18")
    return path


def test_store(shell: Shell, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert shell.json("inspect", store, "-o", page) == {
        "file": str(page), "grains": 8, "verified": 8, "problems": 0,
    }  # fmt: skip
    values = shown(page)
    assert values["types"] == {"belief": 7, "event": 1}
    assert values["sensitivity"] == [7, 0, 0, 1]
    assert sum(sum(one["types"].values()) for one in values["times"]["columns"]) == 8
    assert [one["ok"] for one in values["checks"]] == [True, True]
    chain, signed = values["chains"]
    assert len(signed["versions"]) == 2
    assert [one["head"] for one in chain["versions"]] == [False, False, True]
    assert [one["standing"] for one in chain["versions"]] == ["superseded"] * 2 + ["current"]
    assert ["s2", "knows", "s1"] in [
        [values["graph"]["nodes"][a]["name"], relation, values["graph"]["nodes"][b]["name"]]
        for a, relation, b, _ in values["graph"]["links"]
    ]
    assert [[one["proven"] for one in by] for by in values["signers"].values()] == [[True]]


def test_restricted_is_left_out(shell: Shell, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shell.json("inspect", store, "-o", page)
    assert shown(page)["restricted"] == 1
    assert "private" not in page.read_text()


def test_content_of_grains_cannot_run(shell: Shell, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shell.json("inspect", store, "-o", page)
    text = page.read_text()
    assert text.count("<script") == 2 and "<img" not in text
    assert HOSTILE in [one["says"] for one in shown(page)["shown"]]
    assert "script-src 'sha256-" in text and "http://" not in text.replace("http://www.w3.org", "")


def test_header_and_fields_are_explained(shell: Shell, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shell.json("inspect", store, "-o", page, "--grains", 1)
    (newest,) = shown(page)["shown"]
    assert [part["name"] for part in newest["header"]] == [
        "version", "flags", "type", "ns_hash", "created_at",
    ]  # fmt: skip
    assert "phi" in newest["header"][1]["meaning"]
    assert {part["name"] for part in newest["fields"]} >= {"subject", "relation", "object"}
    assert bytes.fromhex(newest["dump"])[:1] == b"\x01"


def test_container(shell: Shell, tmp_path: Path) -> None:
    file, page = tmp_path / "g.mg", tmp_path / "page.html"
    blobs = [og.encode(belief(n)) for n in range(5)]
    old, new = (og.address(blob) for blob in blobs[:2])
    container.write(file, blobs, manifest={old: {"superseded_by": new}})
    assert shell.json("inspect", file, "-o", page)["verified"] == 5
    values = shown(page)
    assert values["kind"] == "container" and len(values["shown"]) == 5
    assert [one["address"] for one in values["chains"][0]["versions"]] == [old, new]


def test_damaged_container(shell: Shell, tmp_path: Path) -> None:
    file, page = tmp_path / "g.mg", tmp_path / "page.html"
    container.write(file, [og.encode(belief(n)) for n in range(5)])
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    assert shell.json("inspect", file, "-o", page)["problems"] > 0
    assert {one["code"][:4] for one in shown(page)["failures"]} == {"ERR_"}


def test_damaged_blob(shell: Shell, tmp_path: Path) -> None:
    file, page = tmp_path / "one.mg", tmp_path / "page.html"
    file.write_bytes(og.encode(belief(1))[:-3])
    assert shell.json("inspect", file, "-o", page)["problems"] == 1
    (one,) = shown(page)["shown"]
    assert one["error"]["code"] == shown(page)["failures"][0]["code"] == "ERR_CORRUPT"
    assert len(one["header"]) == 5


def test_envelope(shell: Shell, tmp_path: Path) -> None:
    file, page = tmp_path / "one.cose", tmp_path / "page.html"
    signer = Ed25519Signer.generate()
    file.write_bytes(sign(og.encode(belief(1)), signer))
    assert shell.json("inspect", file, "-o", page)["verified"] == 1
    (one,) = shown(page)["shown"]
    assert [by["signer"] for by in one["signers"]] == [signer.did]


def test_no_header(shell: Shell, tmp_path: Path) -> None:
    file, page = tmp_path / "short.mg", tmp_path / "page.html"
    file.write_bytes(b"\x01\x00")
    assert shell.json("inspect", file, "-o", page)["problems"] == 1
    assert [one["code"] for one in shown(page)["failures"]] == ["ERR_TOO_SHORT"]


def test_not_grains(shell: Shell, tmp_path: Path) -> None:
    file, page = tmp_path / "a.txt", tmp_path / "page.html"
    file.write_bytes(b"hello")
    assert shell.error("inspect", file, "-o", page)[1]["code"] == "ERR_UNSUPPORTED"
    assert not page.exists()


def test_a_page_is_not_written_over(shell: Shell, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert shell.error("inspect", store, "-o", page)[1]["code"] == "EEXIST"
    assert page.read_text() == "mine"
    assert shell("inspect", store, "-o", page, "--replace") == 0


def test_times_stay_few_however_long() -> None:
    times = TimeColumns()
    for n in range(4_000):
        times.add(n * 1_000_003 % 2**32, "event")
    values = times.values()
    assert len(values["columns"]) <= 140
    assert sum(one["types"]["event"] for one in values["columns"]) == 4_000


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omsgrain.inspect.tally._BYTES", 1_000)
    newest = Newest(10)
    for n in range(100):
        newest.add(og.decode(og.encode(belief(n))))
    assert sum(len(grain.blob) for grain in newest) <= 1_000
    assert next(iter(newest))["subject"] == "s99"


def test_long_values_are_cut(tmp_path: Path) -> None:
    file = tmp_path / "one.mg"
    many = {f"k{n}": "v" for n in range(500)}
    file.write_bytes(og.encode(belief(1, object="x" * 100_000, context=many)))
    assert len(inspect.page(inspect.inspect(file))) < 60_000


def test_damaged_store(shell: Shell, store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    data = (store / "data.mdb").read_bytes()
    (store / "data.mdb").write_bytes(data.replace(b"private", b"PRIVATE"))
    assert shell.json("inspect", store, "-o", page)["problems"] > 0
    assert not shown(page)["checks"][0]["ok"]


def test_no_store(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    _, error = shell.error("inspect", tmp_path / "empty", "-o", tmp_path / "page.html")
    assert error["code"] in ("ERR_STORE", "ERR_NOT_FOUND")
    assert not (tmp_path / "page.html").exists()
