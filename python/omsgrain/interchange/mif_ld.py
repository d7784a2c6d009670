# SPDX-License-Identifier: Apache-2.0
"""A corpus of MIF in JSON-LD that was written of a store, before it leaves.

It says how often memories were read by now, and nothing that nobody else should see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from omsgrain.formats import times
from omsgrain.formats.base import Reads
from omsgrain.formats.mif_ld.document import with_counters
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.formats.records import Record

if TYPE_CHECKING:
    from omsgrain.privacy.detectors.base import Detector
    from omsgrain.privacy.redact import Flags, Keep, RecordScan

_CARRIED: Final = "omsgrain"
_TIMES: Final = frozenset(
    ("created", "modified", "timestamp", "compressedAt", "validFrom", "validUntil", "recordedAt",
     "lastAccessed", "lastReinforced", "date", "accessed", "retrievedAt")
)  # fmt: skip


def finished(
    document: Record,
    reads: Mapping[str, Reads],
    counters: Mapping[str, Any],
    *,
    redact: bool,
    scan: Callable[[Iterable[tuple[Record, Keep]]], RecordScan | None],
    detectors: Sequence[Detector] | None,
) -> tuple[Record, Flags | None]:
    """Finish a corpus."""
    came = {"volatile": counters}
    records = [
        {**one, "payload": MIF_LD.with_reads(with_counters(came, one["payload"]), "memory", reads)}
        for one in document["records"]
    ]  # fmt: skip
    flags: Flags | None
    if redact:
        records, flags = _redacted(records, detectors)
        # What stands around records is ours, and holds grains at most.
        document = {name: one for name, one in document.items() if name != "extensions"}
    else:
        bare = (_without_grain(one["payload"]) for one in records)
        found = scan((one, frozenset(_kept(one, "")).__contains__) for one in bare)
        flags = None if found is None else found.flags
    return {**document, "records": records}, flags


def _redacted(
    records: list[Record], detectors: Sequence[Detector] | None
) -> tuple[list[Record], Flags]:
    from omsgrain.privacy.detectors import DEFAULT
    from omsgrain.privacy.redact import Flags, redact_record

    looked_for = DEFAULT if detectors is None else detectors
    flags, done = Flags(), []
    for record in records:
        bare = _without_grain(record["payload"])
        keep = frozenset(_kept(bare, "")).__contains__  # no patterns: a member may be called *
        told = redact_record(bare, keep=keep, detectors=looked_for)
        flags |= told.flags
        done.append({**record, "payload": told.record if told.changed else bare})
    return done, flags


def _without_grain(memory: Record) -> Record:
    said = memory.get("extensions")
    if not isinstance(said, dict) or _CARRIED not in said:
        return memory
    kept = {name: one for name, one in said.items() if name != _CARRIED}
    rest = {name: one for name, one in memory.items() if name != "extensions"}
    return {**rest, "extensions": kept} if kept else rest


def _kept(value: Any, at: str) -> Iterator[str]:
    """Pointers of times, which look like telephone numbers to some."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        step = f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if isinstance(one, dict | list):
            yield from _kept(one, step)
        elif key in _TIMES and isinstance(one, str) and times.parse(one, floating=True):
            yield step
