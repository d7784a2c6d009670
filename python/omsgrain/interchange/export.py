# SPDX-License-Identifier: Apache-2.0
"""Exports of a user's memory in any format: the rules, and the report.

An export reads the user's current grains. Consents and the kept parts of documents are no memory;
the export counts them, and collects the documents' own members. It checks each exported grain by
the rules for exports, and adds an entry to the audit trail. Each format chooses its grains and
makes records of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omsgrain.counts import counted
from omsgrain.errors import FormatError, NotFoundError
from omsgrain.formats.aimem.records import FORMAT
from omsgrain.formats.base import Format
from omsgrain.formats.convert.base import lost
from omsgrain.formats.document import Added, Loss, Manifest, open_manifest
from omsgrain.formats.mif import PLURALS
from omsgrain.formats.mif1.document import STAYS, is_consent
from omsgrain.formats.problems import Problem
from omsgrain.formats.source import Get, is_beside
from omsgrain.formats.table import FORMATS
from omsgrain.grain import Grain
from omsgrain.interchange.user_memory import MemoryPage, UserMemory
from omsgrain.query import times
from omsgrain.store import export_filter
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.times import Time
    from omsgrain.store import GrainStore

Take: TypeAlias = Callable[[MemoryPage, int, Grain], None]
"""Takes a grain of a page, with its number in the store."""
TakeDocument: TypeAlias = Callable[[MemoryPage, int, Grain, Manifest], None]
"""Takes the grain that lists a document, and the list."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    # whether embeddings leave; they can tell what they were made of
    include_embeddings: bool = False
    # no member that the format does not define; the report tells what is lost by it
    strict: bool = False
    now: int | None = None  # ms since 1970, instead of the clock
    since: Time | None = None  # only what was made at this time or later
    # why, for the rules of presets and profiles, as with ``export_mg``
    purpose: Purpose = "transfer"

    def __post_init__(self) -> None:
        export_filter.check_purpose(self.purpose)

    def _spell_since(self) -> None:
        """Write an age as the time that it means now."""
        now = times.now() if self.now is None else self.now
        object.__setattr__(self, "since", times.spelled(self.since, field="/since", now=now))


MOST_LOSSES: Final = 1_000
"""Losses that are listed; all are counted."""


@dataclass(slots=True)
class ExportReport:
    format: str
    counts: dict[str, int] = field(default_factory=dict)  # how many records of each kind left
    # what the format cannot hold of what left, or what stays for another reason; the first
    # thousand
    losses: list[Loss] = field(default_factory=list)
    lost: int = 0  # how many losses there are
    # what the format needs and the memory does not say; the first thousand
    added: list[Added] = field(default_factory=list)
    # grains that are no memory of their own: parts of records, duplicates, lists
    passed_over: int = 0
    # the flags that the document has: whether something was found, and what was taken out. None if
    # the document was not searched
    privacy: dict[str, Any] | None = None
    # how many memories a restriction or the end of their retention keeps back, by reason; none for
    # ``access``
    withheld: dict[str, int] = field(default_factory=dict)
    # one if a scan found personal data or secrets that left, with kinds and counts and no text
    # (``personal_data``), or if a library for it is missing (``not_scanned``)
    warnings: list[Problem] = field(default_factory=list)
    # the id of the document that left as it was imported; None for all memory
    document: str | None = None

    __repr__ = counted

    def lose(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            if isinstance(loss, Added):
                if len(self.added) < MOST_LOSSES:
                    self.added.append(loss)
                continue
            self.lost += 1
            if len(self.losses) < MOST_LOSSES:
                self.losses.append(loss)

    def to_dict(self) -> dict[str, Any]:
        lost = {"losses": [asdict(one) for one in self.losses], "lost": self.lost}
        if self.document is not None:
            return {"document": self.document, **lost}
        told: dict[str, Any] = {"format": self.format}
        for kind, number in self.counts.items():
            told[f"{PLURALS.get(kind, kind)}_exported"] = number
        told |= lost
        told["added"] = [asdict(one) for one in self.added]
        told["withheld"] = self.withheld
        told["warnings"] = [one.to_dict() for one in self.warnings]
        return told if self.privacy is None else told | {"privacy": self.privacy}


@dataclass(slots=True)
class AimemExportReport(ExportReport):
    """The report of an export of bundles; give an empty one to be filled."""

    format: str = FORMAT
    producers: tuple[str, ...] = ()
    # who has named what leaves; of bundles that are not together the same
    named: tuple[str, ...] = ()
    # how often each field is lost; of all losses
    lost_fields: Counter[str] = field(default_factory=Counter)
    added_fields: Counter[str] = field(default_factory=Counter)  # how often each field was added

    __repr__ = counted

    def lose(self, losses: Iterable[Loss]) -> None:
        losses = list(losses)
        for loss in losses:
            fields = self.added_fields if isinstance(loss, Added) else self.lost_fields
            fields[loss.field] += 1
        ExportReport.lose(self, losses)


@dataclass(frozen=True, slots=True)
class ExportedFile:
    path: Path
    bytes: int  # its size
    producer: str | None = None  # of a bundle, whose identifiers are in it
    # the DID of who signed it, in the file beside it; None if it is not signed
    signed_by: str | None = None


class Export:
    """An export under way."""

    def __init__(
        self,
        store: GrainStore,
        user_id: str,
        purpose: Purpose,
        alive: Callable[[], None] = lambda: None,
        origin: str | None = None,
    ) -> None:
        self.memory = UserMemory(store, user_id, alive, purpose, origin)
        self.rules: set[str] = set()  # by which somebody should review the export
        self._store, self._purpose = store, purpose

    def allow(self, grain: Grain, held: bool) -> None:
        """Refuse a grain that a rule keeps in the store; ``held`` tells whether a hold does."""
        settings = context_of(self._store).settings
        self.rules.update(export_filter.check(settings, grain, held, self._purpose))

    def audit(
        self, told: Mapping[str, Any], actor: str | None, withheld: Mapping[str, int]
    ) -> None:
        """Note the export in the audit trail."""
        context = context_of(self._store)
        export_filter.note_export(context, told, self._purpose, self.rules, withheld, actor)


class MemoryExport(Export):
    """An export of all memory of a user."""

    def __init__(
        self,
        store: GrainStore,
        user_id: str,
        to: Format,
        asked: ExportOptions,
        report: ExportReport,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, user_id, asked.purpose, alive)
        self.to, self.report, self.around = to, report, ManifestList()
        self.now = context_of(store).settings.clock() if asked.now is None else asked.now
        self._consents: list[Loss] = []

    def choose(self, take: Take, take_document: TakeDocument | None = None) -> None:

        def look(page: MemoryPage, seq: int, grain: Grain) -> None:
            allowed = is_consent(grain)
            if not allowed and not is_beside(grain):
                take(page, seq, grain)
                return
            self.report.passed_over += 1
            if allowed:
                self._consents.append(Loss(grain.address, "consent", STAYS))
            manifest = self.around.add(grain, page.get)
            if manifest is not None and take_document is not None:
                take_document(page, seq, grain, manifest)

        for _ in self.memory.each(self.memory.seqs, look, strict=False):
            pass
        self.report.withheld = self.memory.withheld()

    def allow_at(self, page: MemoryPage, seq: int, grain: Grain) -> None:
        """Refuse a grain of a page that a rule keeps in the store."""
        if export_filter.is_ruled(context_of(self._store).settings, grain):
            self.allow(grain, page.held(seq))

    def lost_around(self, envelope: Mapping[str, Any]) -> list[Loss]:
        """List the consents, and the documents' own members that the export leaves out."""
        return [*self._consents, *self.around.losses(self.to, envelope)]


_COUNTERS: Final = "volatile"
_COUNTED: Final = frozenset(("temporal/accessCount", "temporal/lastAccessed"))
"""The counters of a memory that the store itself keeps."""
_OTHERS: Final = "vendor_extensions/"
"""Extensions of other systems; MIF 2.0 has a place for them."""


class ManifestList:
    """The documents' own members, in order of arrival."""

    def __init__(self) -> None:
        self._documents: list[Manifest] = []

    def add(self, grain: Grain, get: Get) -> Manifest | None:
        """Add the manifest of a document; None if the grain is none that can be read."""
        try:
            found = open_manifest(grain, get)
        except (NotFoundError, FormatError):  # something of it was erased
            return None
        if found is not None:
            self._documents.append(replace(found, arrays={}, text=()))
        return found

    def counters(self) -> dict[str, Any]:
        """The counters of memories of MIF in JSON-LD, by ``@id``; the last document counts."""
        found: dict[str, Any] = {}
        for one in self._documents:
            said = one.envelope.get(_COUNTERS) if FORMATS[one.format].counters else None
            found |= said if isinstance(said, dict) else {}
        return found

    def losses(self, to: Format, envelope: Mapping[str, Any]) -> list[Loss]:
        """The documents' own members that an export leaves out."""
        there = to.hub.read([], envelope).document
        found: dict[tuple[str, str], None] = {}
        for one in self._documents:
            of = FORMATS[one.format]
            # The export has an id and a time of its own.
            around = replace(of.hub.read([], one.envelope).document, id="", user=None,
                             exported_at=None)  # fmt: skip
            for name, _ in lost(around, there, None, of.hub.loss_names, to.title):
                kept = to.vendors and name.startswith(_OTHERS)
                if not kept and name not in to.made_anew:
                    found[one.id, name] = None
            if of.counters and not to.counters:
                found |= dict.fromkeys((one.id, name) for name in self._counted(one))
        return [Loss(id, name, STAYS) for id, name in found]

    def _counted(self, one: Manifest) -> Iterator[str]:
        """The names of the counters in a document that the store does not keep."""
        for listed in (one.envelope.get(_COUNTERS) or {}).values():
            for difference in listed:
                yield from (at for at in _pointers(difference, "") if at not in _COUNTED)


def _pointers(difference: Any, at: str) -> Iterator[str]:
    """The paths of the members that a difference adds."""
    if not isinstance(difference, dict):
        return
    for name, inner in (difference.get("~") or {}).items():
        yield from _pointers(inner, f"{at}{name}/")
    for name, value in (difference.get("+") or {}).items():
        if isinstance(value, dict):
            yield from _pointers({"+": value}, f"{at}{name}/")
        else:
            yield f"{at}{name}"
