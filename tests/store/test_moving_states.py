# SPDX-License-Identifier: Apache-2.0
"""States of grains travel to another store as claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import container
from omsgrain import errors as err
from omsgrain.store import export_filter, mg_files
from support.sync_stores import belief

LOCKED = {"mode": "locked"}
SOFT = {"mode": "soft_locked"}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[og.GrainStore, og.GrainStore]]:
    with og.open(tmp_path / "from.omsg") as source, og.open(tmp_path / "to.omsg") as target:
        yield source, target


def current(store: og.GrainStore) -> list[str]:
    return [hit.address for hit in store.query(subject="lamp").results]


Stores = tuple[og.GrainStore, og.GrainStore]


@pytest.mark.parametrize("moment", ["status", "_packed"])
def test_grains_removed_during_an_export_stay_out(
    stores: Stores, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = stores
    doomed = source.put(belief("0"))
    new = source.supersede(doomed, belief("1", 1))
    odd = source.put(belief("odd"))
    source.contest(odd)
    module = mg_files if moment == "_packed" else export_filter
    inner = getattr(module, moment)

    def late(*given: Any) -> Any:
        if source.exists(doomed):
            source.delete(doomed, reason="asked")
        return inner(*given)

    monkeypatch.setattr(module, moment, late)
    source.export_mg(tmp_path / "left.mg")
    container.verify(tmp_path / "left.mg")
    with container.read(tmp_path / "left.mg") as left:
        assert {left.address(n) for n in range(len(left))} == {new, odd}
        assert {*left.manifest} == {odd}


@pytest.mark.parametrize("chosen", [{}, {"subject": "lamp"}, {"current": True}])
def test_grains_put_during_an_export_wait_for_the_next(
    stores: Stores, tmp_path: Path, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rule was asked whether it may leave."""
    source, _ = stores
    there = source.put(belief("there"))
    inner = mg_files._packed

    def late(*given: Any) -> Any:
        privileged = {"structural_tags": ["profile:legal"], "legal:privilege": "work_product"}
        source.put(belief("late", 1, **privileged))
        return inner(*given)

    monkeypatch.setattr(mg_files, "_packed", late)
    assert source.export_mg(tmp_path / "left.mg", **chosen).grains == 1
    with container.read(tmp_path / "left.mg") as left:
        assert left.address(0) == there
    with pytest.raises(err.UnsupportedError):
        source.export_mg(tmp_path / "left.mg", **chosen)


def test_histories_travel(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    chain = [source.put(belief("0"))]
    for number in range(1, 4):
        chain.append(source.supersede(chain[-1], belief(str(number), number)))
    source.retract(source.put(belief("wrong")))
    source.contest(source.put(belief("odd")))
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.stored, report.claims, report.merged) == (6, 5, 5)
    assert (report.refused, report.waiting) == ([], 0)
    for grain in source:
        assert target.status(grain.address) == source.status(grain.address)
    assert current(target) == current(source)
    assert target.import_mg(tmp_path / "all.mg").merged == 0
    assert target.maintenance.check().ok


def test_a_justified_chain_travels(stores: Stores, tmp_path: Path) -> None:
    """Grains that claim to supersede come in by superseding, whatever their order in the file."""
    source, target = stores
    chain = [source.put(belief("0", 9, invalidation_policy=SOFT))]
    for number in range(1, 4):
        new = belief(str(number), 9 - number, invalidation_policy=SOFT)
        chain.append(source.supersede(chain[-1], new, justification="seen"))
    source.export_mg(tmp_path / "all.mg", sort=True)
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.stored, report.merged, report.errors) == (4, 3, [])
    assert [grain.address for grain in target.history(chain[0])] == chain
    assert len(list(target.reviews.pending())) == 3
    again = target.import_mg(tmp_path / "all.mg")
    assert (again.stored, again.duplicates, again.merged) == (0, 4, 0)


def test_verified_is_not_believed(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    address = source.put(belief("on"))
    source.trust.set_verification(address, "verified")
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.claims, report.merged) == (1, 0)
    assert target.status(address).verification_status == "unverified"


def test_reads_stay_where_they_were_counted(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    address = source.put(belief("on"))
    source.get(address)
    source.export_mg(tmp_path / "all.mg")
    target.import_mg(tmp_path / "all.mg")
    assert target.status(address).access_count == 0


def test_a_lie_about_a_locked_grain_is_refused(stores: Stores, tmp_path: Path) -> None:
    _, target = stores
    old = og.encode(belief("on", invalidation_policy=LOCKED))
    new = og.encode(belief("off", 1))
    lie = {og.address(old): {"superseded_by": og.address(new), "verification_status": "retracted"}}
    container.write(tmp_path / "lie.mg", [old, new], manifest=lie)
    report = target.import_mg(tmp_path / "lie.mg")
    assert (report.stored, report.merged) == (2, 0)
    assert [(a, type(e)) for a, e in report.refused] == [
        (og.address(old), err.InvalidationDeniedError)
    ]
    assert target.status(og.address(old)).superseded_by is None
    assert set(current(target)) == {og.address(old), og.address(new)}


def test_a_circle_is_refused(stores: Stores, tmp_path: Path) -> None:
    _, target = stores
    blobs = [og.encode(belief("on")), og.encode(belief("off", 1))]
    one, other = map(og.address, blobs)
    lie = {one: {"superseded_by": other}, other: {"superseded_by": one}}
    container.write(tmp_path / "circle.mg", blobs, manifest=lie)
    report = target.import_mg(tmp_path / "circle.mg")
    assert (report.stored, report.merged) == (2, 1)
    assert [error.code for _, error in report.refused] == ["ERR_SCHEMA"]
    assert len(current(target)) == 1
    assert target.maintenance.check().ok


def test_a_claim_about_an_absent_grain_waits(stores: Stores, tmp_path: Path) -> None:
    _, target = stores
    old, new = og.encode(belief("on")), og.encode(belief("off", 1))
    claim = {og.address(old): {"superseded_by": og.address(new)}}
    container.write(tmp_path / "part.mg", [old], manifest=claim)
    report = target.import_mg(tmp_path / "part.mg")
    assert (report.merged, report.waiting) == (0, 1)
    target.put(new)
    assert target.import_mg(tmp_path / "part.mg").merged == 1
    assert current(target) == [og.address(new)]


def test_claims_without_a_superseded_grain(stores: Stores, tmp_path: Path) -> None:
    _, target = stores
    blob = og.encode(belief("off", supersession_justification="seen"))
    container.write(tmp_path / "one.mg", [blob])
    report = target.import_mg(tmp_path / "one.mg", errors="collect")
    assert [item.error.code for item in report.errors] == ["ERR_SCHEMA"]
    assert len(target) == 0


@pytest.mark.parametrize("kept", ["with", "without"])
def test_privileged_grains_leave_only_under_a_hold(
    stores: Stores, tmp_path: Path, kept: str
) -> None:
    source, _ = stores
    privilege = {"legal:privilege": "attorney_client"}
    address = source.put(belief("x", structural_tags=["profile:legal"]) | privilege)
    filters: dict[str, Any] = {} if kept == "without" else {"subject": "lamp"}
    with pytest.raises(err.UnsupportedError):
        source.export_mg(tmp_path / "all.mg", **filters)
    assert not (tmp_path / "all.mg").exists()
    source.holds.add(address, authority="court", reason_code="litigation")
    assert source.export_mg(tmp_path / "all.mg", **filters).grains == 1


def test_filters_choose_what_leaves(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    old = source.put(belief("on"))
    source.supersede(old, belief("off", 1))
    source.put(belief("x", subject="door"))
    assert source.export_mg(tmp_path / "lamp.mg", subject="lamp").grains == 2
    assert source.export_mg(tmp_path / "now.mg", subject="lamp", current=True).grains == 1
    assert target.import_mg(tmp_path / "lamp.mg").merged == 1


def test_an_export_is_no_reading(stores: Stores, tmp_path: Path) -> None:
    source, _ = stores
    address = source.put(belief("on"))
    source.export_mg(tmp_path / "some.mg", subject="lamp")
    assert source.status(address).access_count == 0


def test_an_export_is_noted(stores: Stores, tmp_path: Path) -> None:
    source, _ = stores
    source.put(belief("on"))
    source.export_mg(tmp_path / "all.mg", purpose="move")
    entry = list(source.audit.entries())[-1]
    assert entry.operation == "export"
    assert entry.details == {"grains": 1, "purpose": "move"}


def test_states_before_a_refusal_are_kept(stores: Stores, tmp_path: Path) -> None:
    source, _ = stores
    old = source.put(belief("on"))
    source.retract(source.put(belief("wrong", 1)))
    new = source.supersede(old, belief("off", 2))
    source.put(belief("at home", 3, user_id="u1"))  # without the legal basis that the other wants
    source.export_mg(tmp_path / "all.mg")
    with og.open(tmp_path / "strict.omsg", policy="gdpr") as strict:
        with pytest.raises(err.SchemaError):
            strict.import_mg(tmp_path / "all.mg")
        assert current(strict) == [new]
        assert strict.maintenance.check().ok


def test_a_purpose_that_there_is_not(stores: Stores, tmp_path: Path) -> None:
    with pytest.raises(err.SchemaError):
        stores[0].export_mg(tmp_path / "x.mg", purpose="fun")  # type: ignore[arg-type]
