# SPDX-License-Identifier: Apache-2.0
"""What comes into a store: dicts, grains and blobs, made into blobs that it may take.

A dict is encoded, a blob or a grain is verified in full: canonical form, schema, address. Either
way a grain that claims to supersede another is refused, since only superseding may do that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import Any, TypeAlias

from omsgrain import _core, registry
from omsgrain.batch import GrainBatch, ItemError, ItemWarning, encode_many
from omsgrain.errors import SchemaError
from omsgrain.grain import Grain, options

__all__ = ["Intake", "Item", "Pair", "intakes", "superseding", "take_one"]

Item: TypeAlias = Mapping[str, Any] | bytes | bytearray | memoryview
"""What can be put: fields, a grain (which is a mapping too) or a blob."""

Pair: TypeAlias = tuple[bytes, bytes]
"""A digest and its blob."""

_COMPRESSED = 0x04  # bit of the second header byte


@dataclass(frozen=True, slots=True)
class Intake:
    """What became of some items.

    Attributes:
        pairs: one entry an item, in their order; None where it was refused.
        errors: the refusals, by position.
        warnings: what is allowed but looks like a mistake.
    """

    pairs: list[Pair | None]
    errors: list[ItemError]
    warnings: list[ItemWarning]


def take_one(item: Item, *, replacing: bool = False) -> tuple[Pair, list[str]]:
    """Make one item a pair; the texts are warnings.

    Args:
        item: fields, a grain or a blob.
        replacing: it may claim to supersede another.

    Raises:
        OmsError: the refusal.
    """
    blob = _blob_of(item)
    if blob is None:
        blob, notes = _core.encode(item, options())  # type: ignore[arg-type]  # refuses what is no map
    else:
        _core.check(blob)
        notes = []
    if not replacing:
        for error in superseding([blob]).values():
            raise error
    return (sha256(blob).digest(), blob), notes


def intakes(items: Iterable[Item] | GrainBatch, size: int) -> Iterator[Intake]:
    """Make many items pairs, ``size`` at a time, on all cores.

    The good grains of a ``GrainBatch`` come from the core, so only their claims are looked at.
    """
    if isinstance(items, GrainBatch):
        intake = _from_batch(items)
        for start in range(0, len(intake.pairs), size):
            end = start + size
            errors = [error for error in intake.errors if start <= error.index < end]
            yield Intake(intake.pairs[start:end], errors, [])
        return
    source = iter(items)
    first = 0
    while chunk := list(islice(source, size)):
        yield _take(chunk, first)
        first += len(chunk)


def _take(items: Sequence[Item], first: int) -> Intake:
    intake = Intake([None] * len(items), [], [])
    given: dict[int, bytes] = {}
    fields: dict[int, Item] = {}
    for index, item in enumerate(items):
        blob = _blob_of(item)
        if blob is None:
            fields[index] = item
        else:
            given[index] = blob
    if fields:
        _encode(fields, intake, first)
    if given:
        _verify(given, intake, first)
    _refuse_superseding(intake, first)
    intake.errors.sort(key=lambda error: error.index)
    return intake


def _from_batch(batch: GrainBatch) -> Intake:
    intake = Intake(list(zip(batch.digests, batch.blobs, strict=True)), [], [])
    _refuse_superseding(intake, 0)
    return intake


def _blob_of(item: object) -> bytes | None:
    if isinstance(item, Grain):
        return item.blob  # perhaps read leniently, so it is verified like any other
    return bytes(item) if isinstance(item, bytes | bytearray | memoryview) else None


def _encode(fields: dict[int, Item], intake: Intake, first: int) -> None:
    places = list(fields)
    batch = encode_many(fields.values(), errors="collect")  # type: ignore[arg-type]
    for index, digest, blob in zip(batch.indices, batch.digests, batch.blobs, strict=True):
        intake.pairs[places[index]] = (digest, blob)
    intake.errors.extend(
        ItemError(first + places[bad.index], None, bad.error) for bad in batch.errors
    )
    intake.warnings.extend(
        ItemWarning(first + places[note.index], None, note.message) for note in batch.warnings
    )


def _verify(given: dict[int, bytes], intake: Intake, first: int) -> None:
    places, blobs = list(given), list(given.values())
    digests, wrong = _core.check_many(blobs)
    for place, digest, blob in zip(places, digests, blobs, strict=True):
        intake.pairs[place] = (digest, blob)
    for index, error in wrong:
        intake.pairs[places[index]] = None
        intake.errors.append(ItemError(first + places[index], None, error))


def _refuse_superseding(intake: Intake, first: int) -> None:
    blobs = [b"" if pair is None else pair[1] for pair in intake.pairs]
    for index, error in superseding(blobs).items():
        intake.pairs[index] = None
        intake.errors.append(ItemError(first + index, None, error))


def superseding(blobs: Sequence[bytes]) -> dict[int, SchemaError]:
    """Find the grains that claim to supersede another, by position. Spec: OMS §23."""
    names, marked = _marks()
    if not any(blob[1:2] and blob[1] & _COMPRESSED for blob in blobs):
        if marked(b"".join(blobs)) is None:  # one fast search; nearly every batch ends here
            return {}
    found = {}
    for index, blob in enumerate(blobs):
        if blob and (blob[1] & _COMPRESSED or marked(blob)):
            fields = _core.decode(blob)
            for name in names:
                if name in fields:
                    found[index] = SchemaError(
                        "the grain claims to supersede another; put it with supersede()",
                        field=f"/{name}",
                    )
                    break
    return found


@cache
def _marks() -> tuple[tuple[str, ...], Callable[[bytes], object]]:
    """The fields of a superseding grain, and a search for their keys as the codecs write them."""
    fields = [field for field in registry.FIELDS if field.supersede_only]
    keys = [field.short.encode() for field in fields]
    # A string of up to 23 bytes is head plus length, then the bytes: MessagePack 0xA0, CBOR 0x60.
    marks = [bytes([head + len(key)]) + key for key in keys for head in (0xA0, 0x60)]
    return tuple(field.name for field in fields), re.compile(
        b"|".join(map(re.escape, marks))
    ).search
