# SPDX-License-Identifier: Apache-2.0
"""Replace findings by markers in texts and in trees of JSON.

Spec: MIF 1.0 §6.1, MIF 2.0 §8
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from omsgrain.errors import SchemaError
from omsgrain.policy.rule_files import escaped
from omsgrain.privacy.detect import Span, in_bytes, spans
from omsgrain.privacy.detectors import DEFAULT
from omsgrain.privacy.detectors.base import Detector

Keep: TypeAlias = Collection[str] | Callable[[str], bool]
"""JSON pointers to leave unchanged, or a function that returns whether to leave one."""


def keeps(keep: Keep) -> Callable[[str], bool]:
    """Return a function that tests a pointer.

    ``*`` matches any key or index, as in ``/entities/*/type``. ``**`` at the end matches
    everything below, as in ``/embedding/**``. A pointer without a star at the end keeps the whole
    value.
    """
    if callable(keep):
        return keep
    pattern = _compiled(tuple(keep))
    return (lambda _: False) if pattern is None else lambda at: pattern.fullmatch(at) is not None


@lru_cache(maxsize=64)
def _compiled(pointers: tuple[str, ...]) -> re.Pattern[str] | None:
    if not pointers:
        return None
    return re.compile("|".join(map(_pattern, pointers)))


def _pattern(pointer: str) -> str:
    if not pointer.startswith("/"):
        raise SchemaError("invalid pointer in keep", field="/keep", expected="/a/*/b")
    parts = pointer[1:].split("/")
    below = parts[-1] == "**"
    names = [
        "[^/]*" if part == "*" else re.escape(part) for part in parts[: -1 if below else None]
    ]
    return "".join(f"/{name}" for name in names) + ("/.*" if below else "")


_NAME = re.compile(r"[A-Za-z_]{1,40}")
Redaction = dict[str, Any]


class Redacted(NamedTuple):
    """A redacted text."""

    text: str  # the text with markers
    # for each marker ``type``, ``original_length`` and ``position``, the last two in bytes of the
    # original in UTF-8
    redactions: list[Redaction]


@dataclass(frozen=True, slots=True)
class RedactedValue:
    """A redacted tree of JSON."""

    value: Any  # the tree; a copy, except for unchanged strings
    # the redactions of each string, by its pointer in the new tree
    found: dict[str, list[Redaction]] = field(default_factory=dict)
    # the redactions of each object key, by the pointer of its value in the new tree
    keys: dict[str, list[Redaction]] = field(default_factory=dict)
    # all types found, including those under a marker of another type
    types: frozenset[str] = frozenset()
    secrets: bool = False  # whether a finding grants access
    pii: bool = False  # whether a finding is about a person

    @property
    def changed(self) -> bool:
        return bool(self.types)

    @property
    def redacted_fields(self) -> list[str]:
        """The types found, as MIF lists them."""
        return sorted(self.types)


def marker(type: str) -> str:
    return f"[REDACTED:{type}]"


def redact_text(text: str, detectors: Sequence[Detector] = DEFAULT) -> Redacted:
    """Replace findings in a text; existing markers stay."""
    return _replaced(text, spans(text, detectors))


def redact_value(
    value: Any, detectors: Sequence[Detector] = DEFAULT, *, keep: Keep = ()
) -> RedactedValue:
    """Replace findings in all strings and object keys of a JSON tree.

    A key is evidence for its value: ``{"password": "x"}`` is redacted, and so is a ``value``
    beside a ``name`` or ``key``. Numbers stay. Keys that become equal are numbered.
    """
    return _TreeWalk(detectors, keeps(keep)).run(value)


def _replaced(text: str, found: list[Span]) -> Redacted:
    if not found:
        return Redacted(text, [])
    parts, redactions, at = [], [], 0
    for span, (start, end) in zip(found, in_bytes(text, found), strict=True):
        parts += [text[at : span.start], marker(span.types[0])]
        at = span.end
        redactions.append(
            {"type": span.types[0], "original_length": end - start, "position": [start, end]}
        )
    return Redacted("".join([*parts, text[at:]]), redactions)


class _Task(NamedTuple):
    """A value to copy into the new tree."""

    value: Any
    into: Any
    slot: Any
    pointer: str
    new_pointer: str
    key: str | None


class _TreeWalk:
    """One walk over a tree, without recursion, so that depth uses no stack."""

    def __init__(self, detectors: Sequence[Detector], kept: Callable[[str], bool]) -> None:
        self._detectors, self._kept = detectors, kept
        self._found: dict[str, list[Redaction]] = {}
        self._keys: dict[str, list[Redaction]] = {}
        self._types: set[str] = set()
        self._secrets = self._pii = False

    def run(self, value: Any) -> RedactedValue:
        root: list[Any] = [None]
        tasks = [_Task(value, root, 0, "", "", None)]
        while tasks:
            task = tasks.pop()
            new: Any = task.value
            if self._kept(task.pointer):
                pass
            elif isinstance(new, str):
                new = self._text(new, task)
            elif isinstance(new, dict):
                new = {}
                tasks += reversed(self._members(task, new))
            elif isinstance(new, list):
                new = [None] * len(new)
                tasks += reversed(_items(task, new))
            task.into[task.slot] = new
        types = frozenset(self._types)
        return RedactedValue(root[0], self._found, self._keys, types, self._secrets, self._pii)

    def _members(self, task: _Task, new: dict[str, Any]) -> list[_Task]:
        taken = set(task.value)
        numbers: dict[str, int] = {}
        named = _name(task.value)
        tasks = []
        for key, value in task.value.items():
            pointer = f"{task.pointer}/{escaped(key)}"
            name = key if self._kept(pointer) else self._name(key, task, taken, numbers)
            new[name] = None
            below = f"{task.new_pointer}/{escaped(name)}"
            label = named if named and key == "value" else key
            tasks.append(_Task(value, new, name, pointer, below, label))
        return tasks

    def _name(self, key: str, task: _Task, taken: set[str], numbers: dict[str, int]) -> str:
        if self._detectors is DEFAULT and _NAME.fullmatch(key) and _plain(key):
            return key
        found = spans(key, self._detectors)
        if not found:
            return key
        redacted = _replaced(key, found)
        name = base = redacted.text
        while name in taken:
            numbers[base] = numbers.get(base, 1) + 1
            name = f"{base}#{numbers[base]}"
        taken.add(name)
        self._keys[f"{task.new_pointer}/{escaped(name)}"] = redacted.redactions
        self._note(found)
        return name

    def _text(self, text: str, task: _Task) -> str:
        found = spans(text, self._detectors, task.key)
        if not found:
            return text
        redacted = _replaced(text, found)
        self._found[task.new_pointer] = redacted.redactions
        self._note(found)
        return redacted.text

    def _note(self, found: list[Span]) -> None:
        for span in found:
            self._types.update(span.types)
            self._secrets |= span.secret
            self._pii |= span.personal


@lru_cache(maxsize=4_096)
def _plain(name: str) -> bool:
    """Whether a name contains nothing to redact; cached, because documents repeat names."""
    return not spans(name)


def _items(task: _Task, new: list[Any]) -> list[_Task]:
    return [
        _Task(value, new, at, f"{task.pointer}/{at}", f"{task.new_pointer}/{at}", task.key)
        for at, value in enumerate(task.value)
    ]


def _name(value: dict[str, Any]) -> str | None:
    """Return the name of an object's ``value``, as in a list of settings."""
    name = value.get("name", value.get("key"))
    return name if isinstance(name, str) else None


EMBEDDINGS = ("embedding", "embeddings")
"""Members with a vector of the text, which would reveal the text."""


class Flags(NamedTuple):
    """The privacy flags of a document."""

    pii_detected: bool = False  # whether a finding is about a person
    secrets_detected: bool = False  # whether a finding grants access
    redacted_fields: tuple[str, ...] = ()  # the redacted types, sorted

    def __or__(self, other: Flags) -> Flags:
        """Combine the flags of two records or documents."""
        return Flags(
            self.pii_detected or other.pii_detected,
            self.secrets_detected or other.secrets_detected,
            tuple(sorted({*self.redacted_fields, *other.redacted_fields})),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the flags as MIF writes them in ``privacy``."""
        return {**self._asdict(), "redacted_fields": list(self.redacted_fields)}


class RedactedRecord(NamedTuple):
    """A redacted record."""

    record: dict[str, Any]  # the new record
    # the redactions of each string, by its pointer in the new record
    redactions: dict[str, list[Redaction]]
    # the redactions of each object key, by the pointer of its value
    keys: dict[str, list[Redaction]]
    flags: Flags
    dropped: tuple[str, ...]  # pointers of the removed embeddings

    @property
    def changed(self) -> bool:
        """Whether the record changed; the hash of its content may change too."""
        return bool(self.flags.redacted_fields)


def redact_record(record: dict[str, Any], *, keep: Keep = ()) -> RedactedRecord:
    """Redact every string of a record, and remove its embeddings if anything changed."""
    vectors = [name for name in EMBEDDINGS if name in record]
    rest = {name: value for name, value in record.items() if name not in vectors}
    found = redact_value(rest, keep=keep)
    flags = Flags(found.pii, found.secrets, tuple(found.redacted_fields))
    if not found.changed:
        return RedactedRecord(record, {}, {}, flags, ())
    dropped = tuple(f"/{name}" for name in vectors)
    return RedactedRecord(found.value, found.found, found.keys, flags, dropped)


class RecordScan(NamedTuple):
    """Findings in records that were not redacted: the flags for a document, and counts by type."""

    flags: Flags
    counts: dict[str, int]


def scan_records(records: Iterable[tuple[dict[str, Any], Keep]]) -> RecordScan:
    """Count findings in records, each with its pointers to leave out, without changing them."""
    flags, counts = Flags(), Counter[str]()
    for record, keep in records:
        found = redact_record(record, keep=keep)
        flags |= found.flags
        for several in (*found.redactions.values(), *found.keys.values()):
            counts.update(one["type"] for one in several)
    return RecordScan(flags._replace(redacted_fields=()), dict(sorted(counts.items())))
