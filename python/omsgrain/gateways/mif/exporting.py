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
from typing import TYPE_CHECKING, Any, Final

from omsgrain import formats
from omsgrain.counts import counted
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats import times
from omsgrain.formats.across.build import Options
from omsgrain.formats.document import Added, Dump, Loss, parted
from omsgrain.formats.mif1.consent import STAYS
from omsgrain.formats.problems import Problem
from omsgrain.formats.texts import Texts
from omsgrain.formats.vendors import MEMBER, OURS, together
from omsgrain.gateways.mif import linked
from omsgrain.gateways.mif.choosing import Chosen, Wanted, choose
from omsgrain.gateways.mif.finishing import finished
from omsgrain.gateways.mif.foreign import FORMAT
from omsgrain.gateways.mif.gathering import Gathered, gathered
from omsgrain.gateways.mif.report import PLURALS
from omsgrain.gateways.mif.versions import version
from omsgrain.gateways.mif.written import spell

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.privacy import Purpose
    from omsgrain.privacy.detect import Detector
    from omsgrain.privacy.paths import Keep
    from omsgrain.privacy.records import Flags, Scan

__all__ = ["ExportReport", "export_document", "export_pieces"]

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

    Args:
        store: where from.
        user_id: whose memory; nobody else's grains are read.
        format: ``mif2``, ``mif1`` or ``mif-ld``.
        layout: of MIF 1.0: ``json``, ``yaml`` or ``jsonl``.
        include_embeddings: whether they leave; content can be guessed from them.
        include_graph: whether entities, and what relates them, leave.
        since: a time with an offset: only what was created then or later.
        redact_pii: take secrets and personal data out of every string, and the embeddings of what
            changed. Grains then leave as what the format can say of them, and never whole.
        scan: without ``redact_pii``, look for the same, write in ``privacy`` whether something was
            found, and warn. It takes about 0.3 ms a record.
        detectors: what is looked for, if not what ``privacy.detect`` looks for.
        strict: nothing that is no member of the format; the report tells what is lost by it.
        purpose: why, for the rules of presets and profiles, and of consents.
        now: ms since 1970, instead of the clock.
        actor: who exports, for the audit trail, if it is another than the store's.
        local: with memories of MIF in JSON-LD that are of the namespace ``_local``.
        shape: of MIF in JSON-LD: that memories are to have; by default their own, else 0.1.
        alive: called for each page that is read; it raises what shall end the export.

    Returns:
        The document in UTF-8; nothing is read from the store for it any more. All that it cannot
        hold, and the report.

    Raises:
        SchemaError: an argument.
        UnsupportedError: a rule keeps a grain here, and ``rule`` names it: ``consent:sharing`` is
            that of a consent; or a library is missing.
        KeyMissingError: grains are sealed, and it cannot be told whose they are.
        ErasedError: the user was erased meanwhile.
        StoreError: grains were removed or restricted meanwhile.
    """
    version(format)  # or it is told here that there is no such one
    if layout != "json" and (format != "mif1" or layout not in ("yaml", "jsonl")):
        expected = "json; of MIF 1.0 also yaml and jsonl"
        raise SchemaError("no such layout", field="/layout", expected=expected)
    if shape is not None and format != linked.FORMAT:
        raise SchemaError("only MIF in JSON-LD has shapes", field="/shape", found=format)
    if not user_id:
        raise SchemaError("nobody says whose memory is exported", field="/user_id")
    if purpose not in ("move", "access", "transfer", "sale"):
        expected = "move, access, transfer or sale"
        raise SchemaError("no such purpose", field="/purpose", expected=expected)
    if not store._store.readonly:
        store._write_counts()
    wanted = Wanted(format, include_embeddings, include_graph, _instant(since))
    chosen = choose(store, user_id, wanted, purpose, alive)
    made = store._settings.clock() if now is None else now
    grains = len(chosen.grains)
    look = _Look(scan and not redact_pii, detectors)
    if format == linked.FORMAT:
        document, losses, flags = _linked(
            chosen, user_id, made, strict or redact_pii, redact_pii, look, local, shape
        )
    else:
        options = Options(
            include_embeddings,
            strict or redact_pii,
            user=user_id,
            exported_at=times.spell(made),
            checksum=False,
        )
        found = gathered(chosen, format, options, local=local)
        found, losses = _with_foreign(store, user_id, found, format, chosen, strict)
        document, flags = finished(
            found.envelope,
            found.arrays,
            format,
            redact=redact_pii,
            scan=look,
            detectors=detectors,
        )
    losses = [*losses, *(Loss(one, "consent", STAYS) for one in chosen.consents)]
    losses += chosen.around.losses(format, {"files": ()} if format == linked.FORMAT else document)
    if redact_pii:
        losses = _told(losses, detectors)
    report = _report(format, document, losses, chosen)
    report.privacy = None if flags is None else flags.to_dict()
    report.withheld = chosen.memory.withheld()
    report.warnings = look.warnings
    chosen.memory.check()
    _note(store, report, purpose, grains, chosen, redact_pii, actor)
    return spell(document, format, layout), losses, report


class _Look:
    """Searches records that leave as they are, and has the warnings about what it found."""

    def __init__(self, wanted: bool, detectors: Sequence[Detector] | None) -> None:
        self.detectors = detectors
        self.warnings: list[Problem] = []
        self._wanted = wanted

    def __call__(self, records: Iterable[tuple[dict[str, Any], Keep]]) -> Scan | None:
        """Search records; None if that is not wanted, or a library for it is missing."""
        from omsgrain.privacy.detect import DEFAULT
        from omsgrain.privacy.records import scan_records

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
    user_id: str,
    made: int,
    strict: bool,
    redact: bool,
    look: _Look,
    local: bool,
    shape: str | None,
) -> tuple[dict[str, Any], list[Loss], Flags | None]:
    """A corpus of MIF in JSON-LD, what it cannot hold, and what was found in it."""
    dumped = formats.dump(
        chosen.grains.values(),
        format=linked.FORMAT,
        vectors=chosen.vectors,
        user_id=user_id,
        exported_at=times.spell(made),
        embeddings=chosen.embeddings,
        strict=strict,
        local=local,
        **({} if shape is None else {"shape": shape}),
    )
    document, flags = linked.finished(
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
    found: Gathered,
    format: str,
    chosen: Chosen,
    strict: bool,
) -> tuple[Gathered, list[Loss]]:
    """A document with what other systems say of what is in it, and what it cannot say."""
    if format != FORMAT or not chosen.foreign:
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
    from omsgrain.privacy.detect import DEFAULT
    from omsgrain.privacy.redact import redact_text

    looked_for = DEFAULT if detectors is None else detectors

    def said(text: str) -> str:
        return redact_text(text, looked_for).text

    return [replace(one, record=said(one.record), field=said(one.field)) for one in losses]


def _report(
    format: str, document: dict[str, Any], losses: list[Loss], chosen: Chosen
) -> ExportReport:
    report = ExportReport(format, passed_over=chosen.passed_over)
    arrays = {"/records": "memory"} if format == linked.FORMAT else version(format).arrays
    for pointer, kind in arrays.items():
        array: Any = document
        for name in pointer.split("/")[1:]:
            array = array.get(name) if isinstance(array, dict) else None
        if isinstance(array, list | Texts):
            report.counts[kind] = len(array)
    lost, added = parted(losses)
    report.losses, report.lost, report.added = lost[:MOST], len(lost), added[:MOST]
    return report


def _note(
    store: GrainStore,
    report: ExportReport,
    purpose: str,
    grains: int,
    chosen: Chosen,
    redacted: bool,
    actor: str | None,
) -> None:
    """Note the export in the audit trail: how much of what sort, and not whose."""
    if store._store.readonly:
        return
    told: dict[str, int | str] = {
        "format": report.format,
        "grains": grains,
        "redacted": int(redacted),
        "purpose": purpose,
    }
    if report.withheld:
        told["withheld"] = sum(report.withheld.values())
    if chosen.rules:
        told["review"] = ",".join(sorted(chosen.rules))[:256]
    store._store.write(lambda w: store._note(w, "export", [], details=told, actor=actor))
