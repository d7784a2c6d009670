# SPDX-License-Identifier: Apache-2.0
"""The memory of a user as a MIF document of either version, written afresh.

What was a record leaves as it was; what never was one, through what the formats have in common.
What the document says of itself, such as counts, times and checksums, is made anew. What was
superseded, retracted or restricted stays here, and so does all that is being erased.
Spec: MIF 2.0 §1, §8; MIF 1.0 §2, §6
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain import formats
from omsgrain.counts import counted
from omsgrain.errors import FormatError, SchemaError, UnsupportedError
from omsgrain.formats import times
from omsgrain.formats.base import Mif, Reads
from omsgrain.formats.convert import convert
from omsgrain.formats.convert.base import NOT_ASKED, BuildOptions
from omsgrain.formats.convert.gather import heap
from omsgrain.formats.convert.mif2 import METADATA, about
from omsgrain.formats.document import Added, Dump, Loss, Vector, lift, parted
from omsgrain.formats.json_text import JsonTexts, drained
from omsgrain.formats.mif1.document import STAYS, is_consent
from omsgrain.formats.problems import MEMBER, OURS, Problem, together
from omsgrain.formats.source import Source, checking, getter, is_beside
from omsgrain.formats.table import FORMATS, version
from omsgrain.grain import Grain, as_put
from omsgrain.interchange.documents import Foreign, ManifestList
from omsgrain.interchange.redact import finished, finished_corpus
from omsgrain.interchange.report import PLURALS, note_export
from omsgrain.interchange.user_memory import MemoryPage, UserMemory, check_purpose
from omsgrain.store import export_filter
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.privacy.detectors.base import Detector
    from omsgrain.privacy.redact import Flags, Keep, RecordScan
    from omsgrain.store import GrainStore

_GRAPH: Final = frozenset(("entity", "relationship", "episode", "node", "edge", "chunk_entity"))
"""Kinds of records that are no memory and nothing to be done."""


class ExportRequest(NamedTuple):
    """What is wanted of a user's memory; ``export_document`` says what it means."""

    format: Mif
    embeddings: bool
    graph: bool
    since: times.Instant | None


@dataclass(slots=True)
class Chosen:
    """What leaves.

    Attributes:
        memory: it is of; asked again before anything leaves.
        grains: by plain address, in the order of their arrival, opened, with what belongs to them.
        own: the kinds of those that were records of the format already, by plain address.
        parts: of these, by plain address.
        vectors: the embeddings of the others, by plain address.
        reads: of records that were read, by kind and id.
        rules: by which somebody should look at it.
        passed_over: how many grains are no memory of their own.
        consents: the addresses of those among them that are the consent of a document.
        foreign: what other systems say in documents that are kept.
        around: what these documents say of themselves.
        embeddings: whether embeddings leave.
    """

    memory: UserMemory
    grains: dict[str, Grain] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)
    vectors: dict[str, Vector] = field(default_factory=dict)
    reads: dict[str, Reads] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    passed_over: int = 0
    consents: list[str] = field(default_factory=list)
    foreign: Foreign = field(default_factory=Foreign)
    around: ManifestList = field(default_factory=ManifestList)
    embeddings: bool = False


def choose(
    store: GrainStore,
    user_id: str,
    wanted: ExportRequest,
    purpose: Purpose,
    alive: Callable[[], None] = lambda: None,
) -> Chosen:
    """Read what leaves, and refuse what may not."""
    memory = UserMemory(store, user_id, alive, purpose)
    chosen, settings = Chosen(memory, embeddings=wanted.embeddings), context_of(store).settings

    def look(page: MemoryPage, seq: int, grain: Grain) -> None:
        allowed = is_consent(grain)
        if allowed or is_beside(grain):
            chosen.passed_over += 1
            if allowed:
                chosen.consents.append(grain.address)
            kept = chosen.around.add(grain, page.get)
            if kept is not None and (
                chosen.foreign.add(kept, grain, page.get) or FORMATS[kept.format].counters
            ):
                chosen.rules.update(export_filter.check(settings, grain, page.held(seq), purpose))
            return
        source = Source.of(grain)
        if not _is_wanted(grain, source, wanted):
            if source is not None:
                chosen.foreign.stays(source.id)
            return
        chosen.rules.update(export_filter.check(settings, grain, page.held(seq), purpose))
        # A sealed grain stands under an address of its own; it leaves as what it says.
        plain = as_put(grain)
        chosen.grains[plain.address] = plain
        own = source is not None and source.format == wanted.format.name
        if source is not None:
            for address in source.parts:
                part = as_put(page.get(address))
                chosen.grains[part.address] = part
            if own:
                chosen.own[plain.address] = source.kind
                chosen.parts.update(source.parts)
            count, last = page.reads(seq)
            if count or last:
                chosen.reads[source.id] = Reads(count, last)
        if wanted.embeddings and not own:  # a record of MIF has its own in itself
            for model in page.models:
                data = page.vector(seq, model)
                if data is not None:
                    chosen.vectors[plain.address] = Vector(model.name, data)

    for _ in memory.each(memory.seqs, look, strict=False):
        pass
    return chosen


def _is_wanted(grain: Grain, source: Source | None, wanted: ExportRequest) -> bool:
    if source is not None and source.kind in _GRAPH and not wanted.graph:
        return False
    if wanted.since is None:
        return True
    return _created(grain) >= wanted.since.millis


def _created(grain: Grain) -> int:
    created = grain.get("created_at", 0)
    return created if type(created) is int else 0


Record = dict[str, Any]
_NO_PLACE = "only its document knows where it stood"


class GatheredDocument(NamedTuple):
    """A document that is not put together yet.

    Attributes:
        envelope: what stands around its records, with room for them.
        arrays: the records, by pointer.
        losses: what it cannot hold.
    """

    envelope: Record
    arrays: dict[str, JsonTexts]
    losses: list[Loss]


def gathered(
    chosen: Chosen, format: Mif, options: BuildOptions, *, local: bool
) -> GatheredDocument:
    """Make records of what leaves."""
    pointers = {kind: pointer for pointer, kind in format.arrays.items()}
    lost = [Loss(at, kind, _NO_PLACE) for at, kind in chosen.own.items() if kind not in pointers]
    with checking():
        if chosen.grains.keys() <= chosen.own.keys() | chosen.parts:
            found = _own(chosen, format, options, pointers)
        else:
            found = _all(chosen, format, options, local)
    return found._replace(losses=[*lost, *found.losses])


def _own(
    chosen: Chosen, format: Mif, options: BuildOptions, pointers: dict[str, str]
) -> GatheredDocument:
    """Records of the format, one by one."""
    places = [pointers[kind] for kind in chosen.own.values() if kind in pointers]
    envelope = convert.shell(chosen.grains, format, options, dict.fromkeys(places))
    arrays = {pointer: JsonTexts() for pointer in dict.fromkeys(("/memories", *places))}
    losses: list[Loss] = []
    table, get = format.table, getter(chosen.grains)
    for address, kind in chosen.own.items():
        grain = chosen.grains[address]
        if address not in chosen.parts:
            del chosen.grains[address]
        found = table.from_grain(grain, get)
        if found is None:
            raise FormatError("a grain is not the record that it was", field=f"/{address}")
        if kind in pointers:
            record = _asked(found[1], format.embedding_member, options, losses)
            arrays[pointers[kind]].append(format.with_reads(record, kind, chosen.reads))
    chosen.grains.clear()
    return GatheredDocument(envelope, arrays, losses)


def _asked(
    record: Record, member: str | None, options: BuildOptions, losses: list[Loss]
) -> Record:
    """A record without its embedding, if that was not asked for."""
    if options.embeddings or member is None or not isinstance(record.get(member), dict):
        return record
    losses.append(Loss(str(record.get("id", "")), member, NOT_ASKED))
    return {name: value for name, value in record.items() if name != member}


def _all(chosen: Chosen, format: Mif, options: BuildOptions, local: bool) -> GatheredDocument:
    """Records of any format, and of none."""
    from omsgrain.formats.mif_ld.document import without_local

    grains: list[Grain] = list(chosen.grains.values())
    chosen.grains.clear()
    stay: list[Loss] = []
    if not local:
        grains, stay = without_local(grains)
    looked = heap(grains)
    if chosen.foreign:  # importance, say, which has a place in the other version
        told = {OURS: {METADATA: about(chosen.foreign.envelope())}}
        looked.said[chosen.foreign.format.name] = {MEMBER: told}
    del grains
    document, losses = convert.tree(looked, format, chosen.vectors, options)
    del looked
    envelope, lists = lift(document, [at for at in format.arrays if at not in format.single])
    del document
    arrays = {}
    for pointer, listed in lists.items():
        kind = format.arrays[pointer]
        arrays[pointer] = JsonTexts(_each(listed, kind, format, chosen))
    return GatheredDocument(envelope, arrays, [*stay, *losses])


def _each(listed: list[Record], kind: str, format: Mif, chosen: Chosen) -> Iterable[Record]:
    for page in drained(listed):
        for record in page:
            yield format.with_reads(record, kind, chosen.reads)


MOST: Final = 1_000
"""Losses that are listed; all are counted."""


@dataclass(slots=True)
class ExportReport:
    """What became of an export.

    Attributes:
        format: ``mif2`` or ``mif1``.
        counts: how many records of each kind left.
        losses: what the format cannot hold of what left; the first thousand.
        lost: how many there are.
        added: what the format needs and the memory does not say; the first thousand.
        passed_over: grains that are no memory of their own: parts of records, duplicates, lists.
        privacy: the flags that the document has: whether something was found, and what was taken
            out. None if nobody looked.
        withheld: how many memories a restriction or the end of their retention keeps back, by
            reason; none for ``access``.
        warnings: one if a scan found personal data or secrets that left, with kinds and counts and
            no text (``personal_data``), or if a library for it is missing (``not_scanned``).
    """

    format: str
    counts: dict[str, int] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    lost: int = 0
    added: list[Added] = field(default_factory=list)
    passed_over: int = 0
    privacy: dict[str, Any] | None = None
    withheld: dict[str, int] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)

    __repr__ = counted

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        told: dict[str, Any] = {"format": self.format}
        for kind, number in self.counts.items():
            told[f"{PLURALS.get(kind, kind)}_exported"] = number
        told["losses"] = [asdict(one) for one in self.losses]
        told["lost"] = self.lost
        told["added"] = [asdict(one) for one in self.added]
        told["withheld"] = self.withheld
        told["warnings"] = [one.to_dict() for one in self.warnings]
        return told if self.privacy is None else told | {"privacy": self.privacy}


def export_document(store: GrainStore, user_id: str, **options: Any) -> tuple[Dump, ExportReport]:
    """Export a user's memory as one document, which is in memory; all else as `export_pieces`."""
    found, losses, report = export_pieces(store, user_id, **options)
    return Dump(b"".join(found), *parted(losses)), report


def export_pieces(
    store: GrainStore,
    user_id: str,
    *,
    format: str = "mif2",
    layout: str = "json",
    include_embeddings: bool = False,
    include_graph: bool = True,
    since: str | None = None,
    redact_pii: bool = False,
    scan: bool = True,
    detectors: Sequence[Detector] | None = None,
    strict: bool = False,
    purpose: Purpose = "transfer",
    now: int | None = None,
    actor: str | None = None,
    local: bool = False,
    shape: str | None = None,
    alive: Callable[[], None] = lambda: None,
) -> tuple[Iterator[bytes], list[Loss], ExportReport]:
    """Export a user's memory as one document, by pieces.

    The same store and the same ``now`` give the same document. Of one as large as the memory
    itself its records are in memory once, as text; where some of them have to be told in the
    words of another format, all of them also as objects for a while.
    """
    to = version(format)
    if layout not in to.layouts:
        expected = ", ".join(to.layouts)
        raise SchemaError(f"{to.title} has no such layout", field="/layout", expected=expected)
    to.refuse(shape=shape)
    if not user_id:
        raise SchemaError("nobody says whose memory is exported", field="/user_id")
    check_purpose(purpose)
    if not context_of(store).storage.readonly:
        context_of(store).write_counts()
    wanted = ExportRequest(to, include_embeddings, include_graph, _instant(since))
    chosen = choose(store, user_id, wanted, purpose, alive)
    made = context_of(store).settings.clock() if now is None else now
    grains = len(chosen.grains)
    look = _RecordSearch(scan and not redact_pii, detectors)
    if not to.in_pieces:
        document, losses, flags = _linked(
            chosen, to, user_id, made, strict or redact_pii, redact_pii, look, local, shape
        )
    else:
        options = BuildOptions(
            include_embeddings,
            strict or redact_pii,
            user=user_id,
            exported_at=times.spell(made),
            checksum=False,
        )
        found = gathered(chosen, to, options, local=local)
        found, losses = _with_foreign(store, user_id, found, to, chosen, strict)
        document, flags = finished(
            found.envelope,
            found.arrays,
            to,
            redact=redact_pii,
            scan=look,
            detectors=detectors,
        )
    losses = [*losses, *(Loss(one, "consent", STAYS) for one in chosen.consents)]
    losses += chosen.around.losses(to, document)
    if redact_pii:
        losses = _told(losses, detectors)
    report = _report(to, document, losses, chosen)
    report.privacy = None if flags is None else flags.to_dict()
    report.withheld = chosen.memory.withheld()
    report.warnings = look.warnings
    chosen.memory.check()
    told = {"format": to.name, "grains": grains, "redacted": int(redact_pii), "purpose": purpose}
    note_export(store, told, report.withheld, chosen.rules, actor)
    return to.pieces(document, layout), losses, report


class _RecordSearch:
    """Searches records that leave as they are, and has the warnings about what it found."""

    def __init__(self, wanted: bool, detectors: Sequence[Detector] | None) -> None:
        self.detectors = detectors
        self.warnings: list[Problem] = []
        self._wanted = wanted

    def __call__(self, records: Iterable[tuple[dict[str, Any], Keep]]) -> RecordScan | None:
        """Search records; None if that is not wanted, or a library for it is missing."""
        from omsgrain.privacy.detectors import DEFAULT
        from omsgrain.privacy.redact import scan_records

        if not self._wanted:
            return None
        try:
            seen = scan_records(records, DEFAULT if self.detectors is None else self.detectors)
        except UnsupportedError as error:
            says = "the document was not searched for personal data and secrets"
            self.warnings.append(Problem("not_scanned", "", says, expected=error.expected))
            return None
        if seen.counts:
            found = ", ".join(f"{number} {kind}" for kind, number in seen.counts.items())
            says = f"the document has personal data or secrets: {found}"
            self.warnings.append(Problem("personal_data", "", says, found=found))
        return seen


def _linked(
    chosen: Chosen,
    to: Mif,
    user_id: str,
    made: int,
    strict: bool,
    redact: bool,
    look: _RecordSearch,
    local: bool,
    shape: str | None,
) -> tuple[dict[str, Any], list[Loss], Flags | None]:
    """A corpus of MIF in JSON-LD, what it cannot hold, and what was found in it."""
    dumped = formats.dump(
        chosen.grains.values(),
        format=to.name,
        vectors=chosen.vectors,
        user_id=user_id,
        exported_at=times.spell(made),
        embeddings=chosen.embeddings,
        strict=strict,
        local=local,
        **({} if shape is None else {"shape": shape}),
    )
    document, flags = finished_corpus(
        json.loads(dumped.data),
        chosen.reads,
        chosen.around.counters(),
        redact=redact,
        scan=look,
        detectors=look.detectors,
    )
    return document, [*dumped.losses, *dumped.added], flags


def _instant(since: str | None) -> times.Instant | None:
    if since is None:
        return None
    instant = times.parse(since) if isinstance(since, str) else None
    if instant is None:
        expected = "such as 2026-01-15T10:00:00Z"
        raise SchemaError("not a time with an offset", field="/since", expected=expected)
    return instant


def _with_foreign(
    store: GrainStore,
    user_id: str,
    found: GatheredDocument,
    format: Mif,
    chosen: Chosen,
    strict: bool,
) -> tuple[GatheredDocument, list[Loss]]:
    """A document with what other systems say of what is in it, and what it cannot say."""
    if not format.vendors or not chosen.foreign:
        return found, found.losses
    ids = {one["id"] for array in found.arrays.values() for one in array
           if isinstance(one, dict) and isinstance(one.get("id"), str)}  # fmt: skip
    said = chosen.foreign.said(store, user_id, ids)
    if strict:
        said.pop(OURS, None)
    if said:
        around = {**found.envelope, MEMBER: together(said, found.envelope.get(MEMBER, {}))}
        found = found._replace(envelope=around)
    return found, found.losses


def _told(losses: list[Loss], detectors: Sequence[Detector] | None) -> list[Loss]:
    """What is lost, without what is taken out: ids and names of fields can tell it."""
    from omsgrain.privacy.detectors import DEFAULT
    from omsgrain.privacy.redact import redact_text

    looked_for = DEFAULT if detectors is None else detectors

    def said(text: str) -> str:
        return redact_text(text, looked_for).text

    return [replace(one, record=said(one.record), field=said(one.field)) for one in losses]


def _report(
    format: Mif, document: dict[str, Any], losses: list[Loss], chosen: Chosen
) -> ExportReport:
    report = ExportReport(format.name, passed_over=chosen.passed_over)
    for pointer, kind in format.exported.items():
        array: Any = document
        for name in pointer.split("/")[1:]:
            array = array.get(name) if isinstance(array, dict) else None
        if isinstance(array, list | JsonTexts):
            report.counts[kind] = len(array)
    lost, added = parted(losses)
    report.losses, report.lost, report.added = lost[:MOST], len(lost), added[:MOST]
    return report
