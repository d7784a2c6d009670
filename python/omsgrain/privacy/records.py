# SPDX-License-Identifier: Apache-2.0
"""Records of a format, redacted as an export needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from omsgrain.privacy.detect import DEFAULT, Detector
from omsgrain.privacy.paths import Keep
from omsgrain.privacy.redact import Redaction, redact_value

__all__ = ["EMBEDDINGS", "Flags", "RedactedRecord", "Scan", "redact_record", "scan_records"]

EMBEDDINGS = ("embedding", "embeddings")
"""Members that hold a vector made of the text. It would still tell what the text was."""


class Flags(NamedTuple):
    """What a document says about its privacy.

    Attributes:
        pii_detected: something is about a person.
        secrets_detected: something gives access to something.
        redacted_fields: the types that were found, sorted.
    """

    pii_detected: bool = False
    secrets_detected: bool = False
    redacted_fields: tuple[str, ...] = ()

    def __or__(self, other: Flags) -> Flags:
        """Both: of two records, of a document and one more."""
        return Flags(
            self.pii_detected or other.pii_detected,
            self.secrets_detected or other.secrets_detected,
            tuple(sorted({*self.redacted_fields, *other.redacted_fields})),
        )

    def to_dict(self) -> dict[str, Any]:
        """As MIF writes it in ``privacy``."""
        return {**self._asdict(), "redacted_fields": list(self.redacted_fields)}


class RedactedRecord(NamedTuple):
    """A record without what was found.

    Attributes:
        record: the new record.
        redactions: of each string, by its pointer in the new record.
        keys: of each key of an object, by the pointer of its value.
        flags: what was found.
        dropped: pointers of the embeddings that were taken out.
    """

    record: dict[str, Any]
    redactions: dict[str, list[Redaction]]
    keys: dict[str, list[Redaction]]
    flags: Flags
    dropped: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the record is another one now; its content's hash may be too."""
        return bool(self.flags.redacted_fields)


def redact_record(
    record: dict[str, Any],
    *,
    keep: Keep = (),
    detectors: Sequence[Detector] = DEFAULT,
    embeddings: Collection[str] = EMBEDDINGS,
) -> RedactedRecord:
    """Redact every string of a record, and drop its embeddings if one of them changed.

    Args:
        record: an object of JSON.
        keep: pointers to what is structure: ids, times, types. See ``redact_value``.
        detectors: which.
        embeddings: members of the record that hold a vector. They are not searched.

    Raises:
        UnsupportedError: a library that a detector needs is not installed.
    """
    vectors = [name for name in embeddings if name in record]
    rest = {name: value for name, value in record.items() if name not in vectors}
    found = redact_value(rest, detectors, keep=keep)
    flags = Flags(found.pii, found.secrets, tuple(found.redacted_fields))
    if not found.changed:
        return RedactedRecord(record, {}, {}, flags, ())
    dropped = tuple(f"/{name}" for name in vectors)
    return RedactedRecord(found.value, found.found, found.keys, flags, dropped)


class Scan(NamedTuple):
    """What was found in records, and left there.

    Attributes:
        pii_detected: something is about a person.
        secrets_detected: something gives access to something.
        counts: how often each type was found.
    """

    pii_detected: bool
    secrets_detected: bool
    counts: dict[str, int]

    @property
    def flags(self) -> Flags:
        """What a document says about it: nothing was redacted."""
        return Flags(self.pii_detected, self.secrets_detected)


def scan_records(
    records: Iterable[tuple[dict[str, Any], Keep]], detectors: Sequence[Detector] = DEFAULT
) -> Scan:
    """Look for the same in records, and change none.

    Args:
        records: each with what is structure in it, as ``redact_record`` takes them.
        detectors: which.

    Raises:
        UnsupportedError: a library that a detector needs is not installed.
    """
    flags, counts = Flags(), Counter[str]()
    for record, keep in records:
        found = redact_record(record, keep=keep, detectors=detectors)
        flags |= found.flags
        for several in (*found.redactions.values(), *found.keys.values()):
            counts.update(one["type"] for one in several)
    return Scan(flags.pii_detected, flags.secrets_detected, dict(sorted(counts.items())))
