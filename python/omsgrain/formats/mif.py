# SPDX-License-Identifier: Apache-2.0
"""MIF: what its versions have in common, and what MIF 1.0 and 2.0 have.

MIF says nowhere what a checksum is made of. So a checksum of others is kept as it is and never
refused. Ours is SHA-256 of the canonical text of the document without it, and says so: beside it
stands ``"checksum_of": "document"``. A document that says that and has another checksum was
changed, and is refused. The checksum of the reference implementation is made of counts.
Spec: RFC 8785
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from omsgrain.errors import OmsError
from omsgrain.formats import times
from omsgrain.formats.base import Format, Records
from omsgrain.formats.convert.base import NOT_ASKED
from omsgrain.formats.document import (
    Import,
    Loss,
    Manifest,
    RecordItem,
    Vector,
    fill,
    gathered,
    lift,
    manifest,
    owner_of,
)
from omsgrain.formats.json_text import Style, digest, of_bytes, pieces, steps_of, value_at
from omsgrain.formats.problems import (
    FIRSTS,
    MOST,
    DocumentError,
    DocumentFindings,
    Problem,
    Verdict,
)
from omsgrain.formats.records import Record, RecordTable, created_at_of, object_of, text_of
from omsgrain.formats.schema import DocumentChecker, SchemaField

ChecksumVerdict = Literal["matched-jcs", "matched-shodh-counts", "unknown"]
"""``matched-jcs``: it is made of all that the document says. ``matched-shodh-counts``: of how many
records it has, which says nothing about what is in them. ``unknown``: of something else, or of
another document."""
MEMBER: Final = "checksum"
_OF, _DOCUMENT = "checksum_of", "document"
PLURALS: Final = {
    "memory": "memories",
    "entity": "entities",
    "relationship": "relationships",
    "episode": "episodes",
    "todo": "todos",
    "project": "projects",
    "reminder": "reminders",
    "node": "nodes",
    "edge": "edges",
    "consent": "consents",
}


@dataclass(frozen=True, slots=True)
class Checksums:
    place: str  # the member that has the checksum
    # gives those that the reference implementation may write
    of_counts: Callable[[Mapping[str, Any]], Collection[str]]

    def of_document(self, document: Mapping[str, Any]) -> str:
        """The checksum that omsgrain writes, whatever the document says of itself."""
        whole = dict(document)
        if isinstance(around := whole.get(self.place), dict):
            whole[self.place] = {name: value for name, value in around.items() if name != MEMBER}
        return f"sha256:{digest(whole)}"

    def verify(self, document: Mapping[str, Any]) -> ChecksumVerdict | None:
        """Say what the checksum of a document was made of; None if it has none."""
        around = document.get(self.place)
        given = around.get(MEMBER) if isinstance(around, dict) else None
        if not isinstance(given, str) or not given:
            return None
        given = given.lower()
        if given in self.of_counts(document):
            return "matched-shodh-counts"
        try:
            return "matched-jcs" if given == self.of_document(document) else "unknown"
        except OmsError:
            return "unknown"

    def sealed(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A document of our own with a new checksum, at the end of the member."""
        said = document.get(self.place) or {}
        around = {name: value for name, value in said.items() if name not in (MEMBER, _OF)}
        whole = {**document, self.place: around}
        around[_OF] = _DOCUMENT
        around[MEMBER] = self.of_document(whole)
        return whole

    def own(self, document: Mapping[str, Any]) -> bool:
        """Whether a document says that its checksum is made as ours is."""
        around = document.get(self.place)
        return isinstance(around, dict) and around.get(_OF) == _DOCUMENT and MEMBER in around

    def current(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document as it is written again: a checksum of our own is that of what it says now."""
        return self.sealed(document) if self.own(document) else document


class Mif(Format):
    """A version of MIF."""

    table: ClassVar[RecordTable]
    # the member of a record that is its embedding, if that is taken out where none leave
    embedding_member: ClassVar[str | None] = None
    # of each kind the members that hold ids of other records, and of which kind these are; a
    # member of a member with a slash
    references: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    renamed: ClassVar[frozenset[str]] = frozenset()  # kinds with an id that ``rename`` changes
    single: ClassVar[frozenset[str]] = frozenset()  # pointers of records outside of arrays, as /a
    layouts: ClassVar[tuple[str, ...]] = ("json",)  # of an export
    no_exports: ClassVar[tuple[str, ...]] = ()  # how its files end that are no export
    # whether a field of a grain says what its memory says, in the words of it
    says_content: ClassVar[bool] = True
    in_pieces: ClassVar[bool] = True  # whether a document can be written record by record
    formed: ClassVar[frozenset[str]] = frozenset()  # members that are ids, references or times

    @property
    def exported(self) -> Mapping[str, str]:
        """The kinds of the records of an export, by pointer of their array."""
        return self.arrays

    def without_embedding(self, record: Record) -> tuple[Record, list[Loss]]:
        member = self.embedding_member
        if member is None or not isinstance(record.get(member), dict):
            return record, []
        left = {name: value for name, value in record.items() if name != member}
        return left, [Loss(str(record.get("id", "")), member, NOT_ASKED)]

    def check_file(self, file: Path, passphrase: str | None = None) -> DocumentFindings:
        verdict = self.validate(self.read_bytes(file), passphrase)
        problems = (*verdict.faults, *verdict.problems)
        counts: dict[str, int] = {}
        for pointer in self.arrays:
            value = value_at(verdict.document, pointer)
            if isinstance(value, list):
                counts[pointer.rpartition("/")[2]] = len(value)
        return DocumentFindings(
            str(file), self.name, counts, problems, verdict.total, verdict.warnings
        )

    @abstractmethod
    def validate(self, data: bytes, passphrase: str | None) -> Verdict:
        """Say all that is wrong with a document."""

    def left_out(self, found: Import) -> list[Loss]:
        bad: dict[tuple[str, int | None, int | None], Problem] = {}
        for one in found.problems:
            bad.setdefault((*self.place_of(one.pointer), one.line), one)
        return [Loss(one.pointer, "record", f"it was skipped: {one.rule}")
                for one in bad.values()]  # fmt: skip

    def place_of(self, pointer: str) -> tuple[str, int | None]:
        """The array and the number of the record that a pointer leads to, or into."""
        for array in self.arrays:
            if pointer.startswith(f"{array}/") and array not in self.single:
                digits = pointer[len(array) + 1 :].split("/", 1)[0]
                if digits.isdecimal():
                    return array, int(digits)
        single = next((one for one in self.single if f"{pointer}/".startswith(f"{one}/")), None)
        return (pointer, None) if single is None else (single, 0)

    def record_at(self, pointer: str) -> tuple[str, str]:
        """The pointer and the kind of the record that a pointer leads into."""
        array, at = self.place_of(pointer)
        kind = self.arrays.get(array, "record")
        return (array if at is None or array in self.single else f"{array}/{at}"), kind

    def order(self, pointer: str) -> Any:
        """The place of a record, to compare with those of others in its document."""
        array, at = self.place_of(pointer)
        arrays = list(self.arrays)
        return (arrays.index(array) if array in arrays else len(arrays)), at or 0

    @abstractmethod
    def reads_of(
        self, envelope: Mapping[str, Any], id: str | None, record: Callable[[], Record]
    ) -> Reads | None:
        """How often a memory of a document was read; None if nothing says so."""

    def with_reads(self, record: Record, kind: str, reads: Mapping[str, Reads]) -> Record:
        """A record that says how often it was read by now, by id, where it has a place for it."""
        return record

    def pieces(self, document: dict[str, Any], layout: str) -> Iterator[bytes]:
        """A document by pieces, in UTF-8."""
        return pieces(document)

    def finished(
        self, document: dict[str, Any], arrays: Mapping[str, Any], privacy: dict[str, Any] | None
    ) -> dict[str, Any]:
        """An export with what it says of itself: what was found in it, counts, checksum."""
        return document


class Reads(NamedTuple):
    """How often a record was read, and when last in ms since 1970."""

    times: int
    last: int | None

    @classmethod
    def of(cls, count: Any, at: Any) -> Reads | None:
        instant = times.parse(at, floating=True) if isinstance(at, str) else None
        last = None if instant is None or instant.seconds < 0 else instant.millis
        number = count if type(count) is int and count > 0 else 0
        return cls(number, last) if number or last is not None else None

    def said_in(self, record: Record, count: str, at: str) -> Record:
        """A record that says it in members of these names; the same time keeps its spelling."""
        made, said = dict(record), record.get(at)
        if self.times or count in record:
            made[count] = self.times
        instant = times.parse(said, floating=True) if isinstance(said, str) else None
        if self.last is not None and (instant is None or instant.millis != self.last):
            made[at] = times.spell(self.last)
        return made


def with_room(envelope: dict[str, Any], pointers: Iterable[str]) -> dict[str, Any]:
    """The envelope with a place for each of some arrays."""
    for pointer in pointers:
        *way, last = steps_of(pointer)
        if not way:
            envelope = envelope if last in envelope else envelope | {last: []}
            continue
        inner = envelope.get(way[0]) or {}
        envelope = envelope | {way[0]: inner if last in inner else inner | {last: []}}
    return envelope


@dataclass(slots=True)
class Parsed:
    document: Any  # the parsed value
    layout: str | None = None  # its layout, where its version has several
    # line numbers of the records, by array pointer; only for JSON lines
    lines: dict[str, list[int]] | None = None
    problems: tuple[Problem, ...] = ()  # lines that are not records
    warnings: tuple[Problem, ...] = ()  # defects that are accepted with a warning
    left_out: int = 0  # number of lines that are not records

    def line(self, pointer: str, i: int) -> int | None:
        """The line number of a record in JSON lines; else None."""
        lines = (self.lines or {}).get(pointer)
        # Records in the header precede those of the lines.
        return None if lines is None or i >= len(lines) else lines[i]


class MifDocument(NamedTuple):
    """A document without its bad records."""

    envelope: dict[str, Any]  # the document with its arrays of records emptied
    records: dict[str, list[RecordItem]]  # the good ones, by the pointer of their array, in order
    layout: str | None = None  # how it was laid out, where its version has several layouts
    problems: tuple[Problem, ...] = ()  # what is wrong with the records that were left out
    warnings: tuple[Problem, ...] = ()  # what was accepted although it looks wrong


def formed_of(
    shapes: Mapping[str, Iterable[SchemaField]], references: Mapping[str, Mapping[str, str]]
) -> frozenset[str]:
    """The members of records that are ids, references or times."""
    formed = {field.name for shape in shapes.values() for field in shape if field.form}
    return frozenset(formed | {path.split("/")[-1] for of in references.values() for path in of})


class VersionedMif(Mif):
    """A version of MIF whose document is one object with arrays of records: MIF 1.0 and 2.0."""

    # the member that says whose the records are, and when they were exported
    around: ClassVar[str]
    checksums: ClassVar[Checksums]  # those of its documents
    checker: ClassVar[type[DocumentChecker]]

    @abstractmethod
    def parsed(self, data: bytes, limits: Any, layout: Any) -> Parsed:
        """Read a document."""

    def apart(self, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Split a document into envelope and records; the inverse of `together`."""
        envelope, arrays = lift(document, self.arrays)
        for pointer in self.single:
            record = document.get(pointer[1:])
            if isinstance(record, dict):
                envelope = {**envelope, pointer[1:]: {}}
                arrays[pointer] = [record]
        return envelope, arrays

    def validate(
        self, data: bytes, passphrase: str | None = None, limits: Any = None, layout: Any = None
    ) -> Verdict:
        try:
            parsed = self.parsed(data, limits or self.limits, layout)
        except DocumentError as error:
            return Verdict(error.problems, (), (), error.total)
        checker = self.checker()
        found = self._checked(parsed, checker)
        total = checker.faults.total + checker.problems.total + parsed.left_out
        faults, problems = tuple(checker.faults.found), found.problems[:MOST]
        return Verdict(faults, problems, found.warnings, total, parsed.document)

    def taken(self, parsed: Parsed) -> MifDocument:
        """A document without its bad records, which are reported."""
        checker = self.checker(FIRSTS)
        found = self._checked(parsed, checker)
        checker.refuse()
        return found

    def _checked(self, parsed: Parsed, checker: DocumentChecker) -> MifDocument:
        document, sums = parsed.document, self.checksums
        if not checker.document(document, None if parsed.lines is None else 1):
            return MifDocument({}, {}, parsed.layout)
        envelope, arrays = self.apart(document)
        records = self._good(parsed, arrays, checker)
        where, own = f"/{self.around}/checksum", sums.own(document) and not parsed.left_out
        if not parsed.left_out:
            checker.counts(document)
        if own and sums.verify(document) != "matched-jcs":
            says = checker.rules["checksum_mismatch"]
            checker.faults.add(Problem("checksum_mismatch", where, says))
        elif not own and (says := checker.told.get("unknown_checksum", "")):
            if sums.verify(document) == "unknown":
                checker.warnings.add(Problem("unknown_checksum", where, says))
        problems = (*parsed.problems, *checker.problems.found)
        warnings = (*parsed.warnings, *checker.warnings.found)
        return MifDocument(envelope, records, parsed.layout, problems, warnings)

    def _good(
        self, parsed: Parsed, arrays: Mapping[str, Sequence[Any]], checker: DocumentChecker
    ) -> dict[str, list[RecordItem]]:
        """Check the records of a document; return the good ones."""
        records: dict[str, list[RecordItem]] = {}
        for pointer, array in arrays.items():
            kind, items = self.arrays[pointer], []
            for i, value in enumerate(array):
                line = parsed.line(pointer, i)
                item = checker.record(kind, value, f"{pointer}/{i}", line)
                if item is not None:
                    items.append(item)
            records[pointer] = items
        for pointer, array in arrays.items():
            # A value that is kept without being understood refers to nothing.
            taken = {id(one.value) for one in records[pointer]}
            for i, value in enumerate(array):
                if id(value) in taken:
                    checker.refers(self.arrays[pointer], value, f"{pointer}/{i}")
        return records

    def imported(
        self,
        data: bytes,
        found: MifDocument,
        style: Style | None,
        *,
        user_id: str | None,
        exact: bool,
    ) -> Import:
        around, warnings = object_of(found.envelope, self.around), found.warnings
        owner, unnamed = owner_of(around.get("user_id"), user_id)
        if unnamed:
            says, where = self.checker.told["owner_not_kept"], f"/{self.around}/user_id"
            warnings = (*warnings, Problem("owner_not_kept", where, says))
        made = gathered(self.table, found.records, owner, self.vector)
        when = text_of(around, "created_at")
        created_at = 0 if when is None else created_at_of(when)
        known = self.export_name(around.get("id")) or of_bytes(data)
        whole = Manifest(self.name, known, found.envelope, made.arrays, style, layout=found.layout)
        text = data if exact and style is None else None
        more = manifest(whole, created_at=created_at, user_id=owner, text=text)
        grains = [*made.grains.values(), *more]
        return Import(self.name, grains, made.vectors, warnings, found.problems)

    def together(self, envelope: dict[str, Any], arrays: Records) -> dict[str, Any]:
        """Put the records back into the envelope, in the original key order."""
        single = {at[1:]: array[0] for at, array in arrays.items() if at in self.single and array}
        inner = {at: array for at, array in arrays.items() if at not in self.single}
        return {**fill(envelope, inner), **single}

    def assembled(
        self, envelope: dict[str, Any], arrays: Records, *, summed: bool
    ) -> dict[str, Any]:
        whole = self.together(self.counted(with_room(envelope, arrays), arrays), arrays)
        return self.checksums.sealed(whole) if summed else self.current(whole)

    def counted(
        self, envelope: dict[str, Any], arrays: Mapping[str, Iterable[Any]]
    ) -> dict[str, Any]:
        """An envelope whose counts are those of the records."""
        return envelope

    def export_name(self, id: Any) -> str | None:
        """The id of an export, by which its manifest is found; None if it has none."""
        # No index has a name that begins with a byte order mark.
        return id if isinstance(id, str) and not id.startswith("\ufeff") else None

    @abstractmethod
    def vector(self, item: RecordItem) -> Vector | None:
        """The vector of a record's embedding; None if there is none."""

    def current(self, document: dict[str, Any]) -> dict[str, Any]:
        return self.checksums.current(document)


# -- what other systems say in an envelope --------------------------------------------------------


VENDORS: Final = "vendor_extensions"
OURS: Final = "omsgrain"
_GRAINS: Final = "grains"


def vendor_keys(envelope: Mapping[str, Any]) -> set[str]:
    """All keys below the names of the systems, at any depth."""
    return set(_keys(_systems(envelope).values()))


def without_keys(envelope: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """An envelope without the values under some keys; the names of the systems stay."""
    systems = _systems(envelope)
    if not systems or not gone:
        return dict(envelope)
    left = frozenset(gone)
    return {**envelope, VENDORS: {name: _without(one, left) for name, one in systems.items()}}


def merged_vendors(several: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The members of the systems in several envelopes; the later of two values of one key.

    Carried grains are left out: no system says them.
    """
    whole: dict[str, Any] = {}
    for envelope in several:
        systems = dict(_systems(envelope))
        own = systems.pop(OURS, None)
        if isinstance(own, dict) and (rest := {k: v for k, v in own.items() if k != _GRAINS}):
            systems[OURS] = rest
        whole = overlaid(whole, systems)
    return whole


def overlaid(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two objects as one, at all depths; of two values of one key the other's."""
    whole = dict(one)
    for name, value in other.items():
        before = whole.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = overlaid(before, value)
        whole[name] = value
    return whole


def _systems(envelope: Mapping[str, Any]) -> dict[str, Any]:
    found = envelope.get(VENDORS)
    return found if isinstance(found, dict) else {}


def _keys(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield from value
            yield from _keys(value.values())
        elif isinstance(value, list):
            yield from _keys(value)


def _without(value: Any, gone: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, gone) for name, one in value.items() if name not in gone}
    if isinstance(value, list):
        return [_without(one, gone) for one in value]
    return value
