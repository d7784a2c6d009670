# SPDX-License-Identifier: Apache-2.0
"""The cost of an import of many records of one id: constant for each record.

Calls are counted, of Python and of C, and not seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import omsgrain as og
from omsgrain import formats
from omsgrain.crypto.keyring import KeyRing
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.mif_import import import_document
from support.aimem_imports import chunk, edge, made
from support.mif_imports import MAKERS, USER, opened
from support.mif_ld_documents import MINIMAL, spelled

FEW, MANY, BATCH = 40, 160, 20
MOST = 1.25
"""What a record of many may cost, by what one of few does."""


def time(number: int) -> str:
    return (datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=number)).isoformat()


def memories(version: int, number: int) -> bytes:
    maker = MAKERS[version]
    records = [maker.memory(1, f"text {i}") for i in range(number)]
    return json.dumps(maker.document(*records)).encode()


def todos(version: int, number: int) -> bytes:
    maker = MAKERS[version]
    records = [maker.todo(1, f"text {i}") for i in range(number)]
    return json.dumps(maker.document(todos=records)).encode()


def linked(number: int) -> bytes:
    return spelled([MINIMAL | {"content": f"text {i}"} for i in range(number)])


DOCUMENTS: dict[str, Callable[[int], bytes]] = {
    "mif2": lambda number: memories(0, number),
    "mif1": lambda number: memories(1, number),
    "todos": lambda number: todos(0, number),
    "mif-ld": linked,
}


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls."""
    counted = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


Opening = Callable[[], AbstractContextManager[og.GrainStore]]


@pytest.fixture(params=["memory", "sealed", "lmdb"])
def opening(request: pytest.FixtureRequest, ring: KeyRing, tmp_path: Path) -> Opening:
    """Opens empty stores of one kind."""
    count = iter(range(100))
    if request.param == "lmdb":
        return lambda: og.open(tmp_path / f"{next(count)}.omsg")
    return lambda: opened(ring if request.param == "sealed" else None)


def costs(
    opening: Opening, take: Callable[[og.GrainStore, int], object], number: int
) -> list[float]:
    """How many calls a record costs: when it comes, and when it comes again."""
    with opening() as store:
        return [calls(lambda: take(store, number)) / number for _ in range(2)]


def grows(opening: Opening, take: Callable[[og.GrainStore, int], object]) -> list[float]:
    """By how much a record of many costs more than one of few."""
    costs(opening, take, 2)  # what is loaded once
    few, many = (costs(opening, take, number) for number in (FEW, MANY))
    return [after / before for before, after in zip(few, many, strict=True)]


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite", "rename"])
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_records_of_one_id(opening: Opening, kind: str, strategy: str) -> None:
    data = {number: DOCUMENTS[kind](number) for number in (2, FEW, MANY)}
    format = "mif-ld" if kind == "mif-ld" else "auto"

    def take(store: og.GrainStore, number: int) -> None:
        read = formats.load(data[number], format=format)
        import_document(store, read, user_id=USER, merge_strategy=strategy, batch_size=BATCH)

    assert max(grows(opening, take)) < MOST


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite", "rename"])
def test_records_of_one_id_all_or_nothing(opening: Opening, strategy: str) -> None:
    data = {number: memories(0, number) for number in (2, FEW, MANY)}

    def take(store: og.GrainStore, number: int) -> None:
        import_document(store, data[number], merge_strategy=strategy, atomic=True)

    assert max(grows(opening, take)) < MOST


def test_edges_between_the_same_ends(opening: Opening) -> None:
    bundles = {
        number: made(
            chunk(1), chunk(2, "b"),
            edges=[edge(weight=i / number, created_at=time(i)) for i in range(number)],
        )
        for number in (2, FEW, MANY)
    }  # fmt: skip

    def take(store: og.GrainStore, number: int) -> None:
        import_bundle(store, bundles[number], batch_size=BATCH)

    assert max(grows(opening, take)) < MOST
