# SPDX-License-Identifier: Apache-2.0
"""The limits of the history of a store: an age, a size, and what stays.

The size is that of the data file. New grains use its free pages, and it shrinks only when the
store compacts itself. A part of it stays free, because LMDB writes a changed page elsewhere before
it frees the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from omsgrain.counts import counted
from omsgrain.errors import OmsError, RangeError, SchemaError, UnsupportedError, number_found
from omsgrain.query.filters import conditions
from omsgrain.query.times import age
from omsgrain.storage.location import Budget, bytes_of

if TYPE_CHECKING:
    from omsgrain.query.filters import Filters

LEAST_BYTES = 16 << 20
"""The smallest size: an empty store has a part of it."""

# An eighth of the size is left free, or more where the index needs it.
_ROOM = 8
_LEAST_ROOM = 8 << 20  # or a quarter of the size
_MOST_ROOM = 384 << 20  # the pages that the rows of 32,000 grains touch
_LEAST_RUN = 2_048  # grains in a sorted run of the index
_RUN = 16 << 10  # bytes of the size for each grain of a run
_LONGEST = 1 << 42  # ms; 139 years


def duration_of(keep: timedelta | str) -> int:
    """Return a duration in ms."""
    expected = "more than 0: a text such as 90m, 36h or 7d, or a timedelta"
    found = age(keep)
    if found is None:
        raise SchemaError("not a duration", field="/keep", expected=expected)
    if not 0 < found <= _LONGEST:
        raise RangeError("the duration is out of range", field="/keep", expected=expected)
    return found


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """The limits of the history of a store."""

    keep: int | None  # the age at which grains leave, ms; None for any age
    max_bytes: int | None  # the size of the data file at the most; None for any size
    where: Mapping[str, Any] | None  # filters whose grains stay; None if no filter keeps grains
    cited: bool  # whether a grain stays that another grain of the store cites

    @classmethod
    def of(
        cls,
        keep: timedelta | str | None,
        max_bytes: int | str | None,
        keep_where: Filters | None,
        keep_cited: bool,
    ) -> HistoryLimits | None:
        """Check the arguments of ``open``; None if nothing bounds the history."""
        given: Mapping[str, Any] = keep_where or {}
        if keep_where is not None and not (isinstance(given, Mapping) and given):
            raise SchemaError("no filter", field="/keep_where", expected="a dict of filters")
        if type(keep_cited) is not bool:
            raise SchemaError("not a choice", field="/keep_cited", expected="a bool")
        if keep is None and max_bytes is None:
            if given or keep_cited:
                raise SchemaError(
                    "nothing to keep grains from", field="/keep", expected="keep or max_bytes too"
                )
            return None
        if given:
            try:
                conditions(given)
            except OmsError as error:
                error.field = f"/keep_where{error.field or ''}"
                raise
        size = None if max_bytes is None else bytes_of(max_bytes, "/max_bytes")
        if size is not None and not LEAST_BYTES <= size < 1 << 62:
            raise RangeError(
                "no size for a store",
                field="/max_bytes",
                expected=f"{LEAST_BYTES} bytes (16MiB) or more",
                found=number_found(size),
            )
        return cls(
            None if keep is None else duration_of(keep),
            size,
            dict(given) or None,
            keep_cited,
        )

    def tighten(self, budget: Budget | None) -> Budget | None:
        """Return a budget whose sorted runs are small beside the file: each is written at once."""
        if self.max_bytes is None:
            return budget
        budget = budget or Budget()
        return replace(budget, run=min(budget.run, max(_LEAST_RUN, self.max_bytes // _RUN)))

    def excess(self, used: int, blobs: int) -> int:
        """Return by how many bytes a store is too large, by the bytes of the file that are in use.

        All of them but the blobs count as index, which has to be there twice while a step replaces
        its pages.
        """
        if self.max_bytes is None:
            return 0
        index = used - blobs
        room = max(self.max_bytes // _ROOM, min(_LEAST_ROOM, self.max_bytes // 4))
        room = max(room, min(index + index // 8, _MOST_ROOM))
        return used - self.max_bytes + room


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The result of ``maintenance.retain``.

    Attributes:
        removed: number of removed grains. After a dry run, of those that would go; a number for
            size is an estimate.
        kept: the rules that kept old grains, each with their number: "keep_where", "cited",
            "hold", "consent", "privilege", "key" (an encrypted grain that its key must judge),
            or a rule of a policy or a preset.
        file_bytes: size of the data file; 0 in memory and in PostgreSQL.
        free_bytes: bytes of it that new grains use again.
        complete: whether the store is within its limits.
    """

    removed: int
    kept: tuple[tuple[str, int], ...]
    file_bytes: int
    free_bytes: int
    complete: bool

    __repr__ = counted


def must_have_file(limits: HistoryLimits, has_file: bool) -> None:
    """Refuse a size where the store has no file of its own."""
    if limits.max_bytes is not None and not has_file:
        raise UnsupportedError(
            "a store in memory or in PostgreSQL has no file to bound",
            field="/max_bytes",
            expected="keep alone",
        )
