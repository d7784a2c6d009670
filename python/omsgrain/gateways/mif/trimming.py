# SPDX-License-Identifier: Apache-2.0
"""What is kept of documents, without what it says of a record that is forgotten.

A document says it in the data of other systems, under the record's id, and in its text, where that
was kept as it came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from omsgrain.engine.recording import Step
from omsgrain.errors import FormatError, NotFoundError, OmsError
from omsgrain.formats import vendors
from omsgrain.formats.document import beside, keyed, manifest, open_manifest
from omsgrain.gateways.mif.foreign import is_manifest
from omsgrain.grain import Grain
from omsgrain.store.due import RETENTION

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.engine.sources import Snapshot

__all__ = ["trimmed"]

_PAGE = 1_000  # grains


@contextmanager
def trimmed(
    store: GrainStore, user_id: str, ids: Collection[str], addresses: Collection[str]
) -> Iterator[list[str]]:
    """Put the documents of a user anew that say something of some records.

    Gives the addresses of what they were before, which the caller deletes with the records. If
    that is refused, all is as it was.

    Args:
        store: where.
        user_id: whose they are.
        ids: of the records.
        addresses: of what their grains say.

    Raises:
        OmsError: the store refuses what is to be put.
    """
    again: dict[Grain, list[Grain]] = {}
    for whole in _manifests(store, user_id):
        with store.sources(user_id) as snapshot:
            made = _again(snapshot, whole, user_id, frozenset(ids), frozenset(addresses))
        if made is not None:
            again[whole] = made
    if not again:
        yield []
        return
    # What they came under ends when it would have.
    ends = {one.address: one.deadline for one in store.due_erasures() if one.kind == RETENTION}
    steps = [
        Step("", None, one, until=ends.get(whole.address))
        for whole, made in again.items()
        for one in made
    ]
    old = dict.fromkeys(one for whole in again for one in (whole.address, *beside(whole)))
    put = [step.grain.address for step in steps if step.grain is not None]
    with store.sources(user_id) as snapshot:
        new = [one for one in put if snapshot.get(one) is None]
        gone = [one for one in old if one not in put and snapshot.get(one) is not None]
        since = snapshot.seq
    try:
        for done in store.record(steps, user_id=user_id, since=since, allow_erased=True):
            if done.error is not None:
                raise done.error
        yield gone
    except OmsError:
        with store.sources(user_id) as snapshot:
            new = [one for one in new if snapshot.get(one) is not None]
        store.delete_many(new)
        raise


def _again(
    snapshot: Snapshot, whole: Grain, user_id: str, ids: frozenset[str], addresses: frozenset[str]
) -> list[Grain] | None:
    """The grains of a manifest without what it says of the records; None if it says nothing."""

    def get(address: str) -> Grain:
        found = snapshot.get(address)
        if found is None:
            raise NotFoundError("a part of a document is not there")
        return found.grain

    try:
        found = open_manifest(whole, get)
        known = keyed(whole, get)
    except (NotFoundError, FormatError):  # it is given back to nobody any more
        return None
    if found is None:
        return None
    lists = any(not addresses.isdisjoint(listed) for listed in found.arrays.values())
    if not (vendors.keys(found.envelope) & ids or (found.text and lists)):
        return None
    envelope = vendors.without(found.envelope, ids)
    return manifest(
        replace(found, envelope=envelope, text=()),
        created_at=whole["created_at"],
        user_id=user_id,
        keyed=known - ids,
    )


def _manifests(store: GrainStore, user_id: str) -> Iterator[Grain]:
    cursor: str | None = None
    while True:
        page = store.query(user_id=user_id, type="state", current=None, limit=_PAGE, cursor=cursor)
        for hit in page.results:
            if is_manifest(hit.grain, "mif2") or is_manifest(hit.grain, "mif1"):
                yield hit.grain
        cursor = page.next_cursor
        if cursor is None:
            return
