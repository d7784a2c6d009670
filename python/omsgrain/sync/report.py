# SPDX-License-Identifier: Apache-2.0
"""What a sync did, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from omsgrain.counts import counted
from omsgrain.sync.peer import Refusal, Taken

__all__ = [
    "Count",
    "Direction",
    "OnProgress",
    "Passed",
    "Progress",
    "Step",
    "SyncReport",
    "Way",
]

Direction: TypeAlias = Literal["both", "push", "pull"]
"""``push``: from the source to the target; ``pull``: the other way; ``both``: one after the
other."""

Way: TypeAlias = Literal["sent", "received"]

Step = Literal["holds", "erasures", "grains", "states"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sync is.

    Attributes:
        way: ``sent`` from the source to the target, or ``received``.
        step: what it is at.
        grains: how many grains have crossed this way.
        bytes: their bytes.
    """

    way: Way
    step: Step
    grains: int
    bytes: int


OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Passed:
    """What went one way.

    Attributes:
        grains: that were new to who took them; of a dry run, those that would be.
        duplicates: that were there.
        bytes: of all grains that crossed.
        states: that changed something.
        tombstones: that were new.
        erased: grains that were removed for them.
        unproven: signatures whose signers could not be resolved.
        batches: how many commits it took.
        compared: the stores were compared by ranges; else the feed was gone on from.
        refused: what was not taken, or is kept in the store that gives.
    """

    grains: int = 0
    duplicates: int = 0
    bytes: int = 0
    states: int = 0
    tombstones: int = 0
    erased: int = 0
    unproven: int = 0
    batches: int = 0
    compared: bool = False
    refused: tuple[Refusal, ...] = ()

    __repr__ = counted


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did.

    Attributes:
        sent: from the source to the target.
        received: from the target to the source.
        dry_run: nothing was changed.
    """

    sent: Passed = field(default_factory=Passed)
    received: Passed = field(default_factory=Passed)
    dry_run: bool = False

    __repr__ = counted

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """What either side did not take or give."""
        return (*self.sent.refused, *self.received.refused)

    @property
    def changed(self) -> bool:
        """Whether anything changed on either side."""
        return any(
            one.grains or one.states or one.tombstones or one.erased
            for one in (self.sent, self.received)
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return {
            "sent": _values(self.sent),
            "received": _values(self.received),
            "dry_run": self.dry_run,
        }


def _values(passed: Passed) -> dict[str, Any]:
    values = asdict(passed)
    values["refused"] = [
        {"part": one.part, "address": one.address.hex(), "code": one.code}
        | ({} if one.rule is None else {"rule": one.rule})
        for one in passed.refused
    ]
    return values


class Count:
    """What goes one way, while it goes."""

    def __init__(self, way: Way, progress: OnProgress | None) -> None:
        self._way, self._progress = way, progress
        self._numbers = dict.fromkeys(
            ("grains", "duplicates", "bytes", "states", "tombstones", "erased", "unproven"), 0
        )
        self._batches = 0
        self._refused: dict[tuple[str, bytes], Refusal] = {}
        self.compared = False

    def add(self, step: Step, taken: Taken, size: int = 0) -> None:
        """Count a batch that was taken."""
        numbers = self._numbers
        numbers["grains"] += taken.stored
        numbers["duplicates"] += taken.duplicates
        numbers["bytes"] += size
        numbers["states"] += taken.states
        numbers["tombstones"] += taken.tombstones
        numbers["erased"] += taken.erased
        numbers["unproven"] += taken.unproven
        self._batches += 1
        self.refuse(taken.refused)
        if self._progress is not None:
            moved = numbers["grains"] + numbers["duplicates"]
            self._progress(Progress(self._way, step, moved, numbers["bytes"]))

    def refuse(self, refused: tuple[Refusal, ...]) -> None:
        """Count what was refused, each once."""
        self._refused.update({(one.part, one.address): one for one in refused})

    def passed(self) -> Passed:
        """What went this way."""
        return Passed(
            **self._numbers,
            batches=self._batches,
            compared=self.compared,
            refused=tuple(self._refused.values()),
        )
