# SPDX-License-Identifier: Apache-2.0
"""Personal data and secrets in an export: remove them, or warn of them.

A scan searches the same strings as redaction and changes nothing. Redaction searches every string
of the records and of the envelope. It leaves ids, references and times that look like ones. An id
that contains personal data, such as an e-mail address, is replaced, with all references to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from omsgrain.errors import UnsupportedError
from omsgrain.formats import times
from omsgrain.formats.document import Loss, fill
from omsgrain.formats.json_text import JsonTexts, pointer_to
from omsgrain.formats.mif import Mif, Reads
from omsgrain.formats.mif_ld.document import with_counters
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.formats.problems import Problem
from omsgrain.formats.records import Record
from omsgrain.interchange.references import LIKE_UUID, References

if TYPE_CHECKING:
    from omsgrain.privacy.redact import Flags, Keep

_FRESH: Final = UUID("0c1a2f3e-93f5-5b0d-8f61-6b2f0d6d7a55")
_WHOLE: Final = ("x_omsgrain",)
"""Members that carry a grain whole, where no detector sees into it."""
_CARRIED: Final = "omsgrain"
_TIMES: Final = frozenset(
    ("created", "modified", "timestamp", "compressedAt", "validFrom", "validUntil", "recordedAt",
     "lastAccessed", "lastReinforced", "date", "accessed", "retrievedAt")
)  # fmt: skip
"""The members of memories of MIF in JSON-LD that are times."""


class Redactor:
    """The handling of personal data and secrets in one export."""

    def __init__(self, *, redact: bool, scan: bool) -> None:
        self.warnings: list[Problem] = []
        self._redact, self._scan = redact, scan

    def finish(
        self, envelope: Record, arrays: Mapping[str, JsonTexts], format: Mif
    ) -> tuple[Record, Flags | None]:
        """Finish a document of MIF 1.0 or 2.0: redact or scan it, and put it together."""
        flags: Flags | None
        if self._redact:
            envelope, arrays, flags = self._redacted(envelope, arrays, format)
        else:
            flags = self._scanned(_searched(envelope, arrays, format))
        whole = fill(envelope, arrays)
        privacy = None if flags is None else flags.to_dict()
        return format.finished(whole, arrays, privacy), flags

    def finish_corpus(
        self, document: Record, reads: Mapping[str, Reads], counters: Mapping[str, Any]
    ) -> tuple[Record, Flags | None]:
        """Finish a corpus of MIF in JSON-LD: count reads, and redact or scan its memories."""
        came = {"volatile": counters}
        records = []
        for one in document["records"]:
            counted = with_counters(came, one["payload"])
            records.append({**one, "payload": MIF_LD.with_reads(counted, "memory", reads)})
        flags: Flags | None
        if self._redact:
            records, flags = self._redacted_memories(records)
            # The members around records are ours, and hold grains at most.
            document = {name: one for name, one in document.items() if name != "extensions"}
        else:
            bare = (_without_grain(one["payload"]) for one in records)
            flags = self._scanned((one, _times(one)) for one in bare)
        return {**document, "records": records}, flags

    def losses(self, losses: list[Loss]) -> list[Loss]:
        """Redact the losses too: their ids and field names can contain personal data."""
        if not self._redact:
            return losses
        from omsgrain.privacy.redact import redact_text

        def said(text: str) -> str:
            return redact_text(text).text

        return [replace(one, record=said(one.record), field=said(one.field)) for one in losses]

    def _scanned(self, records: Iterable[tuple[Record, Keep]]) -> Flags | None:
        """The findings of a scan; None if it is off, or a library for it is missing."""
        from omsgrain.privacy.redact import scan_records

        if not self._scan:
            return None
        try:
            seen = scan_records(records)
        except UnsupportedError as error:
            says = "the document was not searched for personal data and secrets"
            self.warnings.append(Problem("not_scanned", "", says, expected=error.expected))
            return None
        if seen.counts:
            found = ", ".join(f"{number} {kind}" for kind, number in seen.counts.items())
            says = f"the document has personal data or secrets: {found}"
            self.warnings.append(Problem("personal_data", "", says, found=found))
        return seen.flags

    def _redacted(
        self, envelope: Record, arrays: Mapping[str, JsonTexts], format: Mif
    ) -> tuple[Record, dict[str, JsonTexts], Flags]:
        from omsgrain.privacy.redact import Flags, redact_record, redact_value

        leads = _told_ids(arrays, format, lambda text: redact_value(text).changed)
        ids = [(format.arrays[at], one["id"]) for at, array in arrays.items()
               for one in array if isinstance(one.get("id"), str)]  # fmt: skip
        references = References(format, leads, ids)
        flags = Flags(bool(leads))
        done: dict[str, JsonTexts] = {}
        for at, array in arrays.items():
            kind = format.arrays[at]
            done[at] = JsonTexts()
            for record in array:
                moved = references.of_record(kind, _bare(record))
                own = leads.get((kind, str(moved.get("id"))))
                if own is not None:
                    moved = {**moved, "id": own}
                told = redact_record(moved, keep=_structure(moved, format))
                flags |= told.flags
                done[at].append(_listed(told.record, told.redactions) if told.changed else moved)
        moved = references.of_envelope(_bare_around(envelope))
        around = redact_value(moved, keep=_structure(moved, format))
        flags |= Flags(around.pii, around.secrets, tuple(around.redacted_fields))
        return around.value, done, flags

    def _redacted_memories(self, records: list[Record]) -> tuple[list[Record], Flags]:
        from omsgrain.privacy.redact import Flags, redact_record

        flags, done = Flags(), []
        for record in records:
            bare = _without_grain(record["payload"])
            told = redact_record(bare, keep=_times(bare))
            flags |= told.flags
            done.append({**record, "payload": told.record if told.changed else bare})
        return done, flags


def _searched(
    envelope: Record, arrays: Mapping[str, JsonTexts], format: Mif
) -> Iterator[tuple[Record, Keep]]:
    """The values that redaction searches: each record, and the rest of the document."""
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
    """Make new ids for those with personal data, by kind and id, in the order of the document."""
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
    """Add the list of redactions to a record: of its content, then of its fields."""
    listed = record.get("redactions")
    found = list(listed) if isinstance(listed, list) else []
    found += redactions.get("/content", [])
    for pointer, several in redactions.items():
        if pointer != "/content":
            found += [{**one, "field": pointer} for one in several]
    return {**record, "redactions": found} if found else record


def _structure(value: Record, format: Mif) -> Callable[[str], bool]:
    """Return a test for the pointers of ids, references and times that look like ones.

    It is a function, because a member called ``*`` would be a pattern in a list of pointers.
    """
    found = (
        at
        for at, name, text in _strings(value, "", "")
        if name in format.formed and (LIKE_UUID.fullmatch(text) or times.parse(text) is not None)
    )
    return frozenset(found).__contains__


def _times(memory: Record) -> Callable[[str], bool]:
    """Return a test for the pointers of times, which look like telephone numbers to some."""
    found = (
        at
        for at, name, text in _strings(memory, "", "")
        if name in _TIMES and at.endswith(f"/{name}") and times.parse(text, floating=True)
    )
    return frozenset(found).__contains__


def _strings(value: Any, at: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the strings in a value: the pointer, the name of the member, and the text."""
    if isinstance(value, str):
        yield at, name, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _strings(one, at + pointer_to((key,)), key)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _strings(one, f"{at}/{i}", name)


def _without_grain(memory: Record) -> Record:
    said = memory.get("extensions")
    if not isinstance(said, dict) or _CARRIED not in said:
        return memory
    kept = {name: one for name, one in said.items() if name != _CARRIED}
    rest = {name: one for name, one in memory.items() if name != "extensions"}
    return {**rest, "extensions": kept} if kept else rest
