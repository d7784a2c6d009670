# SPDX-License-Identifier: Apache-2.0
"""The common part of the formats of other systems.

Each format reads a file of another system and translates its records into a document of MIF 2.0:
memories, entities and relationships. From there on it is imported, verified and converted as any
such document. Fields without a place in MIF stay in the ``metadata`` of their memory, under the
name of the format. A value without any place is reported by its name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final
from uuid import NAMESPACE_URL, uuid5

from omsgrain import _core
from omsgrain.formats import json_text, times
from omsgrain.formats.base import Format
from omsgrain.formats.convert.mif2 import HUB
from omsgrain.formats.document import Added, Import, Loss
from omsgrain.formats.json_text import spell
from omsgrain.formats.mif import Parsed
from omsgrain.formats.mif2.check import VERSION
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.problems import FIRSTS, MOST, DocumentError, DocumentFindings, Problem
from omsgrain.formats.records import Record

RULES: Final = {
    "not_lines": "the line is not a JSON object",
    "not_record": "the value is no record of this format",
    "unknown_kind": "the kind of record is unknown",
    "missing_field": "a required field is missing",
    "no_text": "the record has no text",
    "too_many": "the file has too many records",
    "not_text": "the file is not text in UTF-8",
    "not_front_matter": "the front matter is not valid YAML",
    "symlink": "a symbolic link is not followed",
    "too_deep": "the directory is nested too deeply",
}
"""Rules of all these formats; a record that breaks one is skipped and reported."""
TIMELESS: Final = "time_missing"
LEFT_OUT: Final = "left_out"
EPOCH: Final = "1970-01-01T00:00:00Z"
"""The time of a record whose file names none: each import must give the same grains."""
_SPACE: Final = uuid5(NAMESPACE_URL, "urn:omsgrain:foreign")
_ARRAYS: Final = {"memories": "/memories", "entities": "/knowledge_graph/entities",
                  "relationships": "/knowledge_graph/relationships"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForeignLimits(json_text.JsonLimits):
    """The limits of a reader; a document is a file, or all files of a directory."""

    depth: int = 64
    records: int = 1_000_000  # memories, entities and relationships
    files: int = 10_000  # files of a directory


LIMITS: Final = ForeignLimits()


class Translation:
    """A document of MIF 2.0 while the records of another system become its records."""

    def __init__(self, format: ForeignFormat, limits: ForeignLimits = LIMITS) -> None:
        self.limits = limits
        self._format, self._left = format, limits.records
        self._records: dict[str, list[Record]] = {name: [] for name in _ARRAYS}
        self._pointers: dict[str, str] = {}  # the place of each record in the file
        self._lines: dict[str, int | None] = {}
        self._problems: list[Problem] = []
        self._dropped: list[Problem] = []
        self._without_time = 0
        self._first_without_time: tuple[str, int | None] | None = None

    def parse_lines(self, data: bytes) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The object of each line, with its number and its pointer; bad lines are skipped."""
        json_text.bounded(data, self.limits.document)
        for number, line in enumerate(data.removeprefix(json_text.MARK).split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                value = self.limits.parse(line)
            except DocumentError as error:
                for one in error.problems:
                    self._skipped(replace(one, pointer=f"/{number - 1}", line=number))
                continue
            if isinstance(value, dict):
                yield number, f"/{number - 1}", value
            else:
                self.skip("not_lines", f"/{number - 1}", number)

    def memory(
        self,
        key: Iterable[str],
        content: Any,
        at: str,
        *,
        rest: Mapping[str, Any],
        line: int | None = None,
        id: Any = None,
        created_at: Any = None,
        updated_at: Any = None,
        **members: Any,
    ) -> None:
        """Add a memory; a record without a text is skipped.

        The key makes it the same memory in the next import; an id is kept if it is a UUID. The
        rest are fields that MIF has no place for: they become metadata. A member that is None is
        missing.
        """
        if not isinstance(content, str) or not content.strip():
            return self.skip("no_text", at, line)
        name = self._format.name
        own = isinstance(id, str) and times.is_uuid(id)
        record: Record = {
            "id": id if own else self.id_of("memory", *key),
            "content": content,
            "created_at": time_of(created_at) or EPOCH,
        }
        if (changed := time_of(updated_at)) is not None:
            record["updated_at"] = changed
        if record["created_at"] == EPOCH:
            self._without_time += 1
            self._first_without_time = self._first_without_time or (at, line)
        times_said = {"created_at": created_at, "updated_at": updated_at}
        unread = {field: said for field, said in times_said.items()
                  if said is not None and time_of(said) is None}  # fmt: skip
        kept = {**rest, **unread}
        metadata = {**members.pop("metadata", {}), **({name: kept} if kept else {})}
        record["source"] = {"source_type": name, **members.pop("source", {})}
        record |= {member: value for member, value in members.items() if value is not None}
        if metadata:
            record["metadata"] = metadata
        self._add("memories", record, at, line)

    def entity(self, name: str, at: str, *, line: int | None = None, **members: Any) -> None:
        record = {"id": name, "name": name, **members}
        self._add("entities", record, at, line)

    def relationship(
        self, start: str, relation: str, end: str, at: str, *, line: int | None = None
    ) -> None:
        id = self.id_of("relationship", start, relation, end)
        record = {"id": id, "source_entity_id": start, "target_entity_id": end,
                  "relation_type": relation}  # fmt: skip
        self._add("relationships", record, at, line)

    def id_of(self, *key: str) -> str:
        """The UUID of a record: the same at each import."""
        return str(uuid5(_SPACE, "\0".join((self._format.name, *key))))

    def skip(self, rule: str, at: str, line: int | None = None) -> None:
        """Leave out a record that breaks a rule."""
        self._skipped(Problem(rule, at, RULES[rule], line=line))

    def lose(self, rule: str, at: str, says: str, line: int | None = None) -> None:
        """Report a value that MIF has no place for; at most as many as may be bad."""
        if len(self._dropped) < FIRSTS:
            self._dropped.append(Problem(rule, at, says, line=line))

    def left_out(self, what: str, count: int, at: str, why: str) -> None:
        """Report values that are no memory, by their name and number."""
        if count:
            self.lose(LEFT_OUT, at, f"{what}, {count}: {why}")

    def imported(self, user_id: str | None) -> Import:
        """The document as grains, with the places of its records in the file."""
        arrays = self._records
        document: dict[str, Any] = {
            "mif_version": VERSION,
            "generator": {"name": self._format.name, "version": "unknown"},
            "memories": arrays["memories"],
            "knowledge_graph": {name: arrays[name] for name in ("entities", "relationships")},
        }
        if self._first_without_time is not None:
            at, line = self._first_without_time
            count = counted_noun(self._without_time, "memory has", "memories have")
            self.lose(TIMELESS, at, f"{count} no time: {EPOCH} is used", line)
        data = spell(document)
        found = MIF2.taken(Parsed(document))
        made = MIF2.imported(data, found, None, user_id=user_id, exact=False)
        return replace(
            made,
            origin=self._format.name,
            pointers=self._pointers,
            warnings=tuple(map(self._placed, made.warnings)),
            problems=(*self._problems, *map(self._placed, made.problems)),
            dropped=tuple(self._dropped),
        )

    def _skipped(self, problem: Problem) -> None:
        self._problems.append(problem)
        if len(self._problems) > FIRSTS:
            raise DocumentError(self._problems)

    def _add(self, name: str, record: Record, at: str, line: int | None) -> None:
        self._left -= 1
        if self._left < 0:
            most = f"at most {self.limits.records}"
            raise DocumentError([Problem("too_many", at, RULES["too_many"], most, line=line)])
        pointer = f"{_ARRAYS[name]}/{len(self._records[name])}"
        self._records[name].append(record)
        self._pointers[pointer], self._lines[pointer] = at, line

    def _placed(self, problem: Problem) -> Problem:
        """A problem of the translated document, at the place of its record in the file."""
        array, at = MIF2.place_of(problem.pointer)
        pointer = f"{array}/{at}"
        if pointer not in self._pointers:
            return problem
        inner = problem.pointer[len(pointer) :]
        return replace(problem, pointer=self._pointers[pointer], line=self._lines[pointer],
                       expected=problem.expected or inner or None)  # fmt: skip


class ForeignFormat(Format):
    """A format of another system. It is read only: its records become those of MIF 2.0."""

    limits = LIMITS
    arrays: ClassVar[Mapping[str, str]] = {}
    hub = HUB
    said_by_type: ClassVar[frozenset[str]] = frozenset()
    suffixes: ClassVar[tuple[str, ...]] = ()
    writes = False
    translated = True

    @abstractmethod
    def translate(self, data: bytes, into: Translation) -> None:
        """Make records of the bytes of a file."""

    def load(
        self, data: bytes, *, user_id: str | None = None, limits: ForeignLimits = LIMITS
    ) -> Import:
        into = Translation(self, limits)
        self.translate(data, into)
        return into.imported(user_id)

    def left_out(self, found: Import) -> list[Loss]:
        skipped = [Loss(one.pointer, "record", f"it was skipped: {one.rule}")
                   for one in found.problems]  # fmt: skip
        return skipped + [
            Added(one.pointer, "created_at", one.message)
            if one.rule == TIMELESS
            else Loss(one.pointer, one.rule, one.message)
            for one in found.dropped
        ]

    def check_file(self, file: Path, passphrase: str | None = None) -> DocumentFindings:
        self.refuse(passphrase=passphrase)
        return self.checked(str(file), lambda: self.load_file(file))

    def checked(self, name: str, load: Callable[[], Import]) -> DocumentFindings:
        """The findings of a load: the records that it skipped, or why it failed."""
        try:
            found = load()
        except DocumentError as error:
            return DocumentFindings(name, self.name, {}, error.problems, error.total)
        counts = {
            kind: sum(pointer.startswith(f"{array}/") for pointer in found.pointers)
            for kind, array in _ARRAYS.items()
        }
        warnings = (*found.warnings, *found.dropped)
        total = len(found.problems)
        return DocumentFindings(name, self.name, counts, found.problems[:MOST], total, warnings)


def time_of(value: Any) -> str | None:
    """A time as MIF spells it; one without an offset is in UTC. None if it is no time."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    text = value.strip()
    if times.parse(text) is not None:
        return text
    if times.parse(text, floating=True) is None:
        return None
    return f"{text.replace(' ', 'T')}Z" if ":" in text else f"{text}T00:00:00Z"


def members_of(text: bytes, *names: str) -> dict[str, Any]:
    """Members of the first object in a JSON text, which may be cut short.

    None stands for a value that is not a text.
    """
    start = text.find(b"{")
    return {} if start < 0 else dict(_core.json_members(text[start:], list(names), []))


def counted_noun(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
