# SPDX-License-Identifier: Apache-2.0
"""Changes by others while a MIF document is imported: records are decided again."""

from __future__ import annotations

from typing import Any

import pytest

import omsgrain as og
from omsgrain.store import import_batch
from support.mif_imports import MAKERS, USER, contents, current, fates


def test_concurrent_changes_are_decided_again(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another import gets between deciding and storing: by id, and by text."""
    maker, record, others = MAKERS[0], import_batch.record, [True]

    def late(*args: Any, **options: Any) -> Any:
        if others:
            others.pop()
            maker.take(store, maker.memory(1, "tea"), maker.memory(9, "milk"))
        return record(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(import_batch, "record", late)
        report = maker.take(
            store, maker.memory(1, "coffee"), maker.memory(2, "milk"), maker.memory(3, "water")
        )
    assert fates(report) == ["updated", "duplicate", "imported"]
    assert contents(store) == ["coffee", "milk", "water"]


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite"])
@pytest.mark.parametrize(
    ("native", "what", "wanted"),
    [
        (False, "retracted", ["refused"]),
        (False, "restricted", ["refused"]),
        (True, "retracted", ["imported"]),
        (True, "superseded", ["imported"]),
        (True, "deleted", ["imported"]),
    ],
)
def test_grains_that_became_past_are_not_superseded(
    store: og.GrainStore,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    native: bool,
    what: str,
    wanted: list[str],
) -> None:
    maker, record, others = MAKERS[0], import_batch.record, [True]
    fields = {"type": "event", "content": "coffee", "user_id": USER, "created_at": 1}
    if native:
        address = store.put(fields)
    else:
        maker.take(store, maker.memory(1, "tea"), keep_document=False)
        address = current(store, maker.id(1)).address

    def late(*args: Any, **options: Any) -> Any:
        if others:
            others.pop()
            if what == "retracted":
                store.trust.set_verification(address, "retracted")
            elif what == "restricted":
                store.privacy.restrict(address, reason_code="asked")
            elif what == "superseded":
                store.supersede(address, {**fields, "content": "cocoa"})
            else:
                store.delete(address)
        return record(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(import_batch, "record", late)
        report = maker.take(store, maker.memory(1, "coffee"), merge_strategy=strategy)
    if native and strategy == "skip_duplicates":
        wanted = ["duplicate"]  # it was one when that was decided
    assert fates(report) == wanted
    assert contents(store) == (["coffee"] if wanted == ["imported"] else [])
