# SPDX-License-Identifier: Apache-2.0
"""Blobs in the dialect of another engine: read for inspection, imported as conforming grains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
import oracle
from containers import make, saved
from omsgrain import container, errors
from support.shell import Shell

AT = 1_768_471_200_000
PARENT = "ab" * 32
#: What the engine writes, by its type byte; `c` stands in every type.
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "a tool without input": (5, {"t": "tool", "tn": "ls", "cnt": "a.txt", "iserr": False}),
    "a tool without anything": (5, {"t": "tool", "tn": "ls", "stdout": "x", "xcode": 0}),
    "a definition": (
        5, {"t": "tool", "aknd": "definition", "tn": "ls", "tdesc": "d", "ischema": {}},
    ),
    "one parent": (1, {"t": "fact", "s": "a", "r": "b", "o": "c", "df": PARENT}),
    "a consensus": (
        9, {"t": "consensus", "pobs": ["x"], "thr": 2.0, "agrc": 2, "disc": 0, "dgrains": PARENT},
    ),
    "a goal": (7, {"t": "goal", "desc": "d", "gs": "active", "pri": "high", "crit": "done"}),
    "a graph": (4, {"t": "workflow", "nodes": ["a", "b"], "edges": [{"src": "a", "dst": "b"}]}),
    "an observation": (
        6, {"t": "observation", "oid": "i", "otype": "lidar", "omode": "realtime",
            "oscope": "private"},
    ),
    "states": (
        1, {"t": "fact", "s": "a", "r": "b", "o": "c", "sb": PARENT, "vstatus": "verified"},
    ),
}  # fmt: skip


def foreign(name: str, flags: int = 0) -> bytes:
    kind, fields = CASES[name]
    payload = oracle.pack_msgpack({"c": 1.0, "ca": AT, **fields})
    return bytes([1, flags, kind, 0, 0]) + (AT // 1000).to_bytes(4, "big") + payload


@pytest.mark.parametrize("flags", [0, 32], ids=["plain", "flag of AI"])
@pytest.mark.parametrize("name", CASES)
def test_a_blob_of_the_other_engine(name: str, flags: int) -> None:
    blob = foreign(name, flags)
    with pytest.raises(errors.OmsError):
        og.decode(blob)
    shown = og.decode(blob, strict=False)
    assert shown.fields["confidence"] == 1.0 and shown.warnings
    grain = og.Grain.adapt(blob)
    assert grain == og.Grain.adapt(blob)
    og.verify(grain.blob, grain.address)
    assert grain.fields["x_original"] == blob
    assert grain.fields["derived_from"][0] == og.address(blob)
    assert grain.fields["created_at"] == AT
    assert not grain.header.flags & 32


def test_what_is_converted_kept_and_added() -> None:
    def adapted(name: str) -> dict[str, Any]:
        found = dict(og.Grain.adapt(foreign(name)).fields)
        return {
            k: v for k, v in found.items() if k not in ("x_original", "confidence", "created_at")
        }

    tool = adapted("a tool without anything")
    assert (tool["input"], tool["exit_code"], tool["x_added"]) == (
        {}, 0, ["content", "input", "is_error"],
    )  # fmt: skip
    assert adapted("a definition")["action_phase"] == "definition"
    assert adapted("one parent")["derived_from"][1:] == [PARENT]
    consensus = adapted("a consensus")
    assert (consensus["threshold"], consensus["dissent_grains"]) == (2, [PARENT])
    goal = adapted("a goal")
    assert (goal["criteria"], goal["x_foreign"]) == (["done"], {"priority": "high"})
    assert adapted("a graph")["steps"] == ["a", "b"]
    seen = adapted("an observation")
    assert (seen["observation_mode"], seen["x_foreign"]) == (
        "real_time", {"observation_scope": "private"},
    )  # fmt: skip
    assert adapted("states")["x_foreign"] == {
        "superseded_by": PARENT, "verification_status": "verified",
    }  # fmt: skip


def test_a_blob_that_conforms_stays() -> None:
    blob = og.encode({"type": "reasoning", "created_at": 0})
    assert og.Grain.adapt(blob).blob == blob


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x01\x00\x01",
        foreign("one parent")[:-1],
        foreign("one parent", 1),
        b"\x01\x00\x01" + bytes(7),
    ],
    ids=range(5),
)
def test_blobs_that_cannot_be_adapted(blob: bytes) -> None:
    with pytest.raises(errors.OmsError):
        og.Grain.adapt(blob)


def test_a_file_of_them(tmp_path: Path) -> None:
    good = og.encode({"type": "reasoning", "created_at": 0})
    blobs = [good, *(foreign(name, 32) for name in CASES)]
    path = saved(tmp_path, make(blobs))
    with og.open(tmp_path / "store.omsg") as store:
        with pytest.raises(errors.OmsError):
            store.import_mg(path)
        assert len(store) == 0
        report = store.import_mg(path, adapt=True)
        assert (report.stored, report.errors) == (len(blobs), [])
        assert og.address(good) in {grain.address for grain in store.iter_query()}
        assert store.import_mg(path, adapt=True).duplicates == len(blobs)
        copy = tmp_path / "copy.mg"
        store.export_mg(copy)
        assert container.verify(copy).ok


def test_blobs_that_cannot_be_adapted_are_refused_by_position(tmp_path: Path) -> None:
    blobs = [foreign("a goal"), b"\x01\x00\x01" + bytes(7), foreign("states")]
    path = saved(tmp_path, make(blobs))
    with og.open(tmp_path / "store.omsg") as store:
        with pytest.raises(errors.OmsError):
            store.import_mg(path, adapt=True)
        assert len(store) == 0
        report = store.import_mg(path, adapt=True, errors="collect")
        assert (report.stored, [item.index for item in report.errors]) == (2, [1])
        data = path.read_bytes()
        saved(tmp_path, data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(errors.IntegrityError):
            store.import_mg(path, adapt=True, errors="collect")


def test_the_command(tmp_path: Path, shell: Shell) -> None:
    path = saved(tmp_path, make([foreign("one parent")]))
    store = str(tmp_path / "other.omsg")
    assert shell.error("import", store, str(path))[0] != 0
    shell.json("import", store, str(path), "--adapt")
    assert shell.json("query", store, "--subject", "a")["results"]
