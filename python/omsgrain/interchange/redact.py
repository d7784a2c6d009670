# SPDX-License-Identifier: Apache-2.0
"""The last steps of an export: redaction or a scan, and what is counted.

A scan searches the same strings as redaction and changes nothing. Redaction looks into every
string of every record, and of what stands around them. Structure stays: ids, references and times,
where they look like that. An id that tells something, such as an e-mail address, becomes a fresh
one, and all references to it lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from omsgrain.formats import times
from omsgrain.formats.base import Mif, Reads
from omsgrain.formats.document import fill
from omsgrain.formats.json_text import JsonTexts
from omsgrain.formats.mif_ld.document import with_counters
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.formats.records import Record
from omsgrain.interchange.references import LIKE_UUID, References

if TYPE_CHECKING:
    from omsgrain.privacy.detectors.base import Detector
    from omsgrain.privacy.redact import Flags, Keep, RecordScan

_FRESH: Final = UUID("0c1a2f3e-93f5-5b0d-8f61-6b2f0d6d7a55")
_WHOLE: Final = ("x_omsgrain",)
"""Members that carry a grain whole, where no detector sees into it."""
_CARRIED: Final = "omsgrain"


def finished(
    envelope: Record,
    arrays: Mapping[str, JsonTexts],
    format: Mif,
    *,
    redact: bool,
    scan: Callable[[Iterable[tuple[Record, Keep]]], RecordScan | None],
    detectors: Sequence[Detector] | None,
) -> tuple[Record, Flags | None]:
    """Finish a document."""
    flags: Flags | None
    if redact:
        envelope, arrays, flags = _redacted(envelope, arrays, format, detectors)
    else:
        found = scan(_searched(envelope, arrays, format))
        flags = None if found is None else found.flags
    whole = fill(envelope, arrays)
    privacy = None if flags is None else flags.to_dict()
    return format.finished(whole, arrays, privacy), flags


# -- redaction ------------------------------------------------------------------------------------


def _redacted(
    envelope: Record,
    arrays: Mapping[str, JsonTexts],
    found: Mif,
    detectors: Sequence[Detector] | None,
) -> tuple[Record, dict[str, JsonTexts], Flags]:
    from omsgrain.privacy.detectors import DEFAULT
    from omsgrain.privacy.redact import Flags, redact_record, redact_value

    looked_for = DEFAULT if detectors is None else detectors
    leads = _told_ids(arrays, found, lambda text: redact_value(text, looked_for).changed)
    ids = [(found.arrays[at], one["id"]) for at, array in arrays.items()
           for one in array if isinstance(one.get("id"), str)]  # fmt: skip
    references = References(found, leads, ids)
    flags = Flags(bool(leads))
    done: dict[str, JsonTexts] = {}
    for at, array in arrays.items():
        kind = found.arrays[at]
        done[at] = JsonTexts()
        for record in array:
            moved = references.of_record(kind, _bare(record))
            own = leads.get((kind, str(moved.get("id"))))
            if own is not None:
                moved = {**moved, "id": own}
            told = redact_record(moved, keep=_structure(moved, found), detectors=looked_for)
            flags |= told.flags
            done[at].append(_listed(told.record, told.redactions) if told.changed else moved)
    moved = references.of_envelope(_bare_around(envelope))
    around = redact_value(moved, looked_for, keep=_structure(moved, found))
    flags |= Flags(around.pii, around.secrets, tuple(around.redacted_fields))
    return around.value, done, flags


def _searched(
    envelope: Record, arrays: Mapping[str, JsonTexts], format: Mif
) -> Iterator[tuple[Record, Keep]]:
    """What redaction would search: each record, what is around them, and what stays of it."""
    for array in arrays.values():
        for record in array:
            bare = _bare(record)
            yield bare, _structure(bare, format)
    around = _bare_around(envelope)
    yield around, _structure(around, format)


def _bare(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in _WHOLE}


def _bare_around(envelope: Record) -> Record:
    vendors = envelope.get("vendor_extensions")
    if not isinstance(vendors, dict) or _CARRIED not in vendors:
        return envelope
    kept = {name: value for name, value in vendors.items() if name != _CARRIED}
    return {**envelope, "vendor_extensions": kept}


def _told_ids(
    arrays: Mapping[str, JsonTexts], found: Mif, tells: Callable[[str], bool]
) -> dict[tuple[str, str], str]:
    """Fresh ids for those that tell something, by kind and id, in the order of the document."""
    leads: dict[tuple[str, str], str] = {}
    for at, array in arrays.items():
        for record in array:
            name = record.get("id")
            if not isinstance(name, str) or LIKE_UUID.fullmatch(name) or not tells(name):
                continue
            key = found.arrays[at], name
            leads.setdefault(key, str(uuid5(_FRESH, f"{key[0]} {len(leads)}")))
    return leads


def _listed(record: Record, redactions: Mapping[str, list[Record]]) -> Record:
    """A record with the list of what was taken out: of its content, and then of its fields."""
    listed = record.get("redactions")
    found = list(listed) if isinstance(listed, list) else []
    found += redactions.get("/content", [])
    for pointer, several in redactions.items():
        if pointer != "/content":
            found += [{**one, "field": pointer} for one in several]
    return {**record, "redactions": found} if found else record


def _structure(value: Record, format: Mif) -> Callable[[str], bool]:
    """Tell which pointers are those of an id, a reference or a time that looks like one.

    A function, as a member called ``*`` would be a pattern among pointers.
    """
    return frozenset(_structural(value, "", None, format.formed)).__contains__


def _structural(value: Any, at: str, name: str | None, names: frozenset[str]) -> Iterator[str]:
    if isinstance(value, str):
        if name in names and (LIKE_UUID.fullmatch(value) or times.parse(value) is not None):
            yield at
    elif isinstance(value, dict):
        for key, one in value.items():
            step = key.replace("~", "~0").replace("/", "~1")
            yield from _structural(one, f"{at}/{step}", key, names)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _structural(one, f"{at}/{i}", name, names)


_TIMES: Final = frozenset(
    ("created", "modified", "timestamp", "compressedAt", "validFrom", "validUntil", "recordedAt",
     "lastAccessed", "lastReinforced", "date", "accessed", "retrievedAt")
)  # fmt: skip


def finished_corpus(
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
        records, flags = _redacted_memories(records, detectors)
        # What stands around records is ours, and holds grains at most.
        document = {name: one for name, one in document.items() if name != "extensions"}
    else:
        bare = (_without_grain(one["payload"]) for one in records)
        found = scan((one, frozenset(_kept(one, "")).__contains__) for one in bare)
        flags = None if found is None else found.flags
    return {**document, "records": records}, flags


def _redacted_memories(
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
