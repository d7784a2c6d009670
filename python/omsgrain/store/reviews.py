# SPDX-License-Identifier: Apache-2.0
"""Reviews: changes that a policy accepted, and that a person must review."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass

import msgpack

from omsgrain.errors import IntegrityError, NotFoundError, number_found
from omsgrain.storage.base import Writer
from omsgrain.storage.tables import REVIEWS, SEQUENCE
from omsgrain.store.context import StorePart


@dataclass(frozen=True, slots=True)
class Review:
    """A change that a policy accepted, and that a person must review.

    Attributes:
        number: its number for ``resolve``.
        operation: ``put``, ``supersede``, ``contest``, ``retract``, ``restrict`` or ``delete``.
        address: the changed grain.
        by: the grain that superseded it, if any.
        justification: the reason given.
        time: ms since 1970.
        rules: the rules that require the review.
    """

    number: int
    operation: str
    address: str
    by: str | None
    justification: str | None
    time: int
    rules: tuple[str, ...] = ()


def add(writer: Writer, review: Review) -> None:
    row = asdict(review)
    number = row.pop("number")
    writer.set_row(REVIEWS, SEQUENCE.pack(number), msgpack.packb(row))


def is_about(row: bytes, addresses: Collection[str]) -> bool:
    """Whether a row, even a damaged one, names one of the grains."""
    try:
        review = msgpack.unpackb(row)
        return review.get("address") in addresses or review.get("by") in addresses
    except (ValueError, TypeError, AttributeError):
        return any(address.encode() in row for address in addresses)


class Reviews(StorePart):
    """``store.reviews``: changes that await a review."""

    __slots__ = ()

    def pending(self) -> Iterator[Review]:
        """Iterate over pending reviews, oldest first.

        Raises:
            IntegrityError: a row is damaged.
        """
        with self._context.storage.read() as reader:
            rows = list(reader.rows(REVIEWS))
        try:
            return iter(
                [
                    Review(SEQUENCE.unpack(key)[0], **msgpack.unpackb(row, use_list=False))
                    for key, row in rows
                ]
            )
        except (struct.error, ValueError, TypeError):
            raise IntegrityError("the row of a review is damaged") from None

    def resolve(self, number: int) -> None:
        """Mark a review as done.

        Args:
            number: the number of the review.

        Raises:
            NotFoundError: no pending review has this number.
        """
        context = self._context
        key = SEQUENCE.pack(number) if type(number) is int and 0 <= number < 1 << 64 else None

        def work(writer: Writer) -> None:
            if key is None or writer.row(REVIEWS, key) is None:
                raise NotFoundError(
                    "no pending review has this number", found=number_found(number)
                )
            writer.set_row(REVIEWS, key, None)
            context.note(writer, "policy", [], reason_code="reviewed", details={"review": number})

        context.storage.write(work)
