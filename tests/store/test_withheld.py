# SPDX-License-Identifier: Apache-2.0
"""Withheld grains are counted, and the person still gets them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import container
from omsgrain.crypto.keyring import KeyRing
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.export import AimemExportReport
from omsgrain.interchange.mif_export import export_document
from support.mif_imports import MAKERS, USER, opened
from support.shell import Shell

MIF1 = MAKERS[1]
OVER = {"retention_days": 1, "timestamp": "2020-01-01T00:00:00Z"}
TENANT: dict[str, Any] = {"tenant_id": "urn:example:ada"}
WITHHELD = {"retention over": 2, "restricted": 1}


def fill(store: og.GrainStore) -> None:
    """Two memories whose time is over, one that is restricted, one that is free."""
    MIF1.take(store, MIF1.memory(1, "tea"), MIF1.memory(2, "milk"), consent=OVER)
    MIF1.take(store, MIF1.memory(3, "water"), MIF1.memory(4, "juice"), keep_document=False)
    water = next(one for one in store if one.get("object") == "water")
    store.privacy.restrict(water.address, reason_code="dispute")


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, ring: KeyRing) -> Iterator[og.GrainStore]:
    with opened(ring if request.param == "sealed" else None) as store:
        fill(store)
        yield store


@pytest.mark.parametrize("format", ["mif2", "mif1", "mif-ld"])
def test_a_document_says_how_many_memories_stay(store: og.GrainStore, format: str) -> None:
    dump, report = export_document(store, USER, format=format)
    assert (b"juice" in dump.data, b"tea" in dump.data, b"water" in dump.data) == (1, 0, 0)
    assert report.withheld == report.to_dict()["withheld"] == WITHHELD


@pytest.mark.parametrize("format", ["mif2", "mif1", "mif-ld"])
def test_a_person_gets_what_others_do_not(store: og.GrainStore, format: str) -> None:
    dump, report = export_document(store, USER, format=format, purpose="access")
    assert all(text in dump.data for text in (b"juice", b"tea", b"milk", b"water"))
    assert report.withheld == {}


def test_a_person_never_gets_another_persons_memory(store: og.GrainStore) -> None:
    MIF1.take(store, MIF1.memory(7, "not hers"), consent=OVER, user_id="grace")
    dump, _ = export_document(store, USER, purpose="access")
    assert b"not hers" not in dump.data
    assert export_document(store, USER)[1].withheld == WITHHELD


@pytest.mark.parametrize("purpose", ["transfer", "access"])
def test_a_bundle_says_it_too(store: og.GrainStore, purpose: Any) -> None:
    report = AimemExportReport()
    (made,) = export_bundle(store, USER, report=report, purpose=purpose, **TENANT)
    texts = {one["content"] for one in made.to_dict()["chunks"]}
    everything = {"tea", "milk", "water", "juice"}
    assert texts == (everything if purpose == "access" else {"juice"})
    assert report.withheld == ({} if purpose == "access" else WITHHELD)


@pytest.mark.parametrize("filters", [{}, {"user_id": USER}])
def test_a_container_counts_grains(
    store: og.GrainStore, tmp_path: Path, filters: dict[str, Any]
) -> None:
    shared = store.export_mg(tmp_path / "a.mg", **filters)
    own = store.export_mg(tmp_path / "b.mg", purpose="access", **filters)
    assert own.withheld == {}
    assert shared.withheld["restricted"] == 1
    assert own.grains == shared.grains + sum(shared.withheld.values())
    with container.read(tmp_path / "b.mg") as file:
        assert len(list(file)) == own.grains


@pytest.mark.parametrize("name", ["ada.mif.json", "ada.jsonld", "ada.aimem.json", "ada.mg"])
def test_the_command_prints_what_stays(shell: Shell, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.omsg"
    with og.open(path) as store:
        fill(store)
    whose = ["--tenant", USER, "--tenant-id", "urn:example:ada"]
    more = whose if name.endswith("aimem.json") else ["--user", USER]
    more += ["--format", "mif-ld"] if name.endswith("jsonld") else []
    assert shell("export", path, tmp_path / name, *more) == 0
    assert b"withheld: 1, restricted" in shell.err
    assert re.search(rb"withheld: [2-9], retention over", shell.err)
    more.append("--replace")
    assert shell("export", path, tmp_path / name, *more, "--purpose", "access") == 0
    assert b"withheld" not in shell.err
    assert shell.json("export", path, tmp_path / name, *more)["withheld"]["restricted"] == 1
