# SPDX-License-Identifier: Apache-2.0
"""What is kept of documents of any format, without what it says of a record that goes.

A document says it around its records, under the record's id, as other systems do; in grains that
went along whole, under their addresses; and in its text, where that was kept as it came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from omsgrain.engine.recording import Step
from omsgrain.errors import FormatError, NotFoundError, OmsError
from omsgrain.formats import FORMATS
from omsgrain.formats.document import KIND, beside, keyed, manifest, open_manifest
from omsgrain.formats.mif1.fields import SHAPES as MIF1
from omsgrain.formats.mif2.fields import SHAPES as MIF2
from omsgrain.formats.source import Source
from omsgrain.formats.vendors import MEMBER
from omsgrain.grain import Grain
from omsgrain.store.due import RETENTION

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.engine.sources import Snapshot

__all__ = ["trimmed"]

_PAGE: Final = 100  # grains, each of which can be 1 MiB of a document
_NAMED: Final = frozenset(
    field.name for shapes in (MIF1, MIF2) for shape in shapes.values() for field in shape
)
"""Members that the formats name: one is where it is, whatever the ids of records are."""


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
        recorded = store.record(steps, user_id=user_id, since=since, allow_erased=True)
        for done in recorded.outcomes:
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
    envelope = _without(found.envelope, ids | addresses)
    if envelope == found.envelope and not (found.text and lists):
        return None
    return manifest(
        replace(found, envelope=envelope, text=()),
        created_at=whole["created_at"],
        user_id=user_id,
        keyed=known - ids,
    )


def _without(envelope: dict[str, Any], gone: frozenset[str]) -> dict[str, Any]:
    """What stands around the records, without what stands there under some names."""
    left: dict[str, Any] = _cleaned({k: v for k, v in envelope.items() if k != MEMBER}, gone)
    if MEMBER not in envelope:
        return left
    systems = envelope[MEMBER]
    if isinstance(systems, dict):  # the names of the systems are no ids
        systems = {name: _cleaned(one, gone) for name, one in systems.items()}
    return {name: systems if name == MEMBER else left[name] for name in envelope
            if name == MEMBER or name in left}  # fmt: skip


def _cleaned(value: Any, gone: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            name: _cleaned(one, gone)
            for name, one in value.items()
            if name not in gone or name in _NAMED
        }
    if isinstance(value, list):
        return [_cleaned(one, gone) for one in value if not _is_of(one, gone)]
    return value


def _is_of(value: Any, gone: frozenset[str]) -> bool:
    """Whether one of several objects is about a record that goes."""
    names = (value.get(name) for name in ("id", "@id")) if isinstance(value, dict) else ()
    return any(isinstance(name, str) and name in gone for name in names)


def _manifests(store: GrainStore, user_id: str) -> Iterator[Grain]:
    for format in FORMATS:
        cursor: str | None = None
        while True:
            page = store.query(
                user_id=user_id,
                type="state",
                namespace=format,
                current=None,
                bookkeeping=True,
                limit=_PAGE,
                cursor=cursor,
            )
            for hit in page.results:
                source = Source.of(hit.grain)
                if source is not None and source.kind == KIND:
                    yield hit.grain
            cursor = page.next_cursor
            if cursor is None:
                break
