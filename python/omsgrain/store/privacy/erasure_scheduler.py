# SPDX-License-Identifier: Apache-2.0
"""Run due erasures: withdrawn consents, ended retentions, interrupted requests.

After a restore, ``replay_erasures`` removes what the backup brought back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import KeyMissingError, OmsError, StoreError
from omsgrain.grain import Grain
from omsgrain.header import created_seconds
from omsgrain.policy.decide import is_privileged
from omsgrain.query import times
from omsgrain.storage import erasure_queue, tombstones
from omsgrain.storage.base import Reader, Transactions, Writer
from omsgrain.storage.tables import DUE, GUARDS, HOLDS, SEQUENCE, TOMBSTONES
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, destroyed
from omsgrain.store.policy_context import is_bound
from omsgrain.store.privacy import consent as consents
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.erasure import run_request, scrub_due, sweep

if TYPE_CHECKING:
    from omsgrain.query.times import Time

_PAGE = 10_000  # grains per transaction, which is one entry of the audit trail
_DAY = 86_400_000
_RESTORED = "restore"  # the reason code
_CODES = {
    erasure_queue.CONSENT: "consent_withdrawn",
    erasure_queue.RETENTION: "retention_over",
    erasure_queue.EXPIRY: "expired",
}
"""The kinds that concern single grains, with their reason codes."""


@dataclass(frozen=True, slots=True)
class DueErasure:
    """A queued erasure.

    Attributes:
        deadline: the time by which it must be done, ms since 1970.
        kind: ``consent`` (a consent was withdrawn), ``retention`` (the retention of an imported
            grain ends), ``expiry`` (the life of a grain ends), or a step of erasing a person.
        address: the grain, if it concerns a single one.
        overdue: whether the deadline has passed.
    """

    deadline: int
    kind: str
    address: str | None
    overdue: bool


@dataclass(frozen=True, slots=True)
class DueReport:
    """The result of ``run_due``.

    Attributes:
        erased: number of grains erased because a consent was withdrawn.
        expired: number of grains removed because their life or their retention ended, by a preset
            or by the terms of their import.
        dropped: entries without effect: the grain was gone, or the consent is valid again.
        finished: completed entries of other kinds.
        kept: grains that stay, restricted, each with the rule that keeps it.
        waiting: entries of other kinds that cannot be completed yet, including erasures with
            unreadable grains: their key is missing, or they are damaged.
        scrub_due: deadline for rewriting the files, ms since 1970; until then, free pages can
            contain erased bytes. None if no rewrite is pending.
    """

    erased: int = 0
    expired: int = 0
    dropped: int = 0
    finished: int = 0
    kept: tuple[tuple[str, str], ...] = ()
    waiting: int = 0
    scrub_due: int | None = None

    __repr__ = counted

    @property
    def complete(self) -> bool:
        """Whether nothing due is left. ``scrub_due`` may be later."""
        return not self.kept and not self.waiting


def due_erasures(context: Context, until: Time | None) -> list[DueErasure]:
    now = context.settings.clock()
    latest = None if until is None else times.millis(until, field="/until", now=now, ahead=True)
    with context.storage.read() as reader:
        return [
            DueErasure(
                entry.deadline, entry.kind, _address(reader, entry.seq), entry.deadline <= now
            )
            for entry in erasure_queue.due(reader, latest)
        ]


def retention_due(context: Context, now: Time | None) -> Iterator[str]:
    """Return the addresses of grains whose retention by the preset ended."""
    return (lapsed.grain.address for lapsed in _lapsed(context, _time(context, now)))


def run_due(context: Context, now: Time | None, everything: bool) -> DueReport:
    at = _time(context, now)
    with context.storage.read() as reader:
        entries = list(erasure_queue.due(reader, None if everything else at))
    counts = {"erased": 0, "dropped": 0, "finished": 0, "waiting": 0}
    kept: list[tuple[str, str]] = []
    expired = 0
    for kind in _CODES:
        grains = [entry for entry in entries if entry.kind == kind]
        for start in range(0, len(grains), _PAGE):
            page = grains[start : start + _PAGE]
            gone, dropped, stay = context.storage.write(
                partial(_erase, context, page=page, now=at, code=_CODES[kind])
            )
            if kind == erasure_queue.CONSENT:
                counts["erased"] += gone
            else:
                expired += gone
            counts["dropped"] += dropped
            kept += stay
    for entry in entries:
        if entry.kind not in _CODES:
            counts["finished" if run_request(context, entry, at) else "waiting"] += 1
    expired += _expire(context, at)
    if counts["erased"] or expired:
        context.storage.write(partial(_queue_scrub, now=at))
    return DueReport(**counts, expired=expired, kept=tuple(kept), scrub_due=scrub_due(context))


def _erase(
    context: Context,
    writer: Writer,
    page: Sequence[erasure_queue.QueuedErasure],
    now: int,
    code: str,
) -> tuple[int, int, list[tuple[str, str]]]:
    """Erase due grains; returns their number, the number of void entries, and the kept grains."""
    gone: dict[int, bytes] = {}
    kept: list[tuple[str, str]] = []
    restricted: list[bytes] = []
    dropped = 0
    valid: dict[int, bool] = {}  # by the number of the consent
    there = writer.some_rows(DUE, [entry.key for entry in page]).keys()
    page = [entry for entry in page if entry.seq is not None and entry.key in there]
    rules = _refusals(context, writer, [entry.seq or 0 for entry in page], now)
    for entry in page:
        seq = entry.seq or 0
        grain, rule = rules[seq]
        given: int | None = entry.what.get("consent")
        if given is not None and given not in valid:
            valid[given] = _is_valid(context, writer, given)
        back = given is not None and valid[given]
        address = _address(writer, seq) if grain is None else grain.address
        if address is None or back or (rule == "key" and destroyed(writer, seq)):
            dropped += 1
            erasure_queue.done(writer, entry.key)
        elif rule is None:
            gone[seq] = bytes.fromhex(address)
            erasure_queue.done(writer, entry.key)
        else:
            kept.append((address, rule))
            if (digest := lifecycle.restrict(writer, seq, True)) is not None:
                restricted.append(digest)
    if gone:
        # Expired grains may come in again.
        expired = code == _CODES[erasure_queue.EXPIRY]
        removal.remove_grains(
            writer, context.settings, gone, reason_code=code, tombstone=not expired
        )
        context.note(writer, "erase", list(gone.values()), reason_code=code)
    if restricted:
        context.note(writer, "restrict", restricted, reason_code=code)
    return len(gone), dropped, kept


def _is_valid(context: Context, writer: Writer, given: int) -> bool:
    """Whether a consent was given again after the entry was queued."""
    try:
        return consents.is_valid(writer, given)
    except KeyMissingError:
        return False  # it was withdrawn while it was readable


def _refusals(
    context: Context, reader: Reader, seqs: Sequence[int], now: int
) -> dict[int, tuple[Grain | None, str | None]]:
    """Return grains, each with the rule that keeps it from automatic removal, or None."""
    grains: dict[int, Grain] = {}
    found: dict[int, tuple[Grain | None, str | None]] = {}
    for seq in seqs:
        try:
            grain = reader.grain(seq)
            if grain is not None:
                grains[seq] = grain
            found[seq] = (grain, "key" if grain is None else None)
        except StoreError:
            raise
        except OmsError as error:  # damaged: its rules are unknown
            found[seq] = (None, error.code)
    for seq, rule in removal.kept_by_rules(reader, context.settings, grains, now).items():
        found[seq] = (grains[seq], rule)
    return found


class _Lapsed(NamedTuple):
    """A grain whose retention by the preset ended."""

    seq: int
    grain: Grain
    bound: bool  # a policy or a privilege may keep it


def _lapsed(context: Context, now: int) -> Iterator[_Lapsed]:
    """Return the grains whose retention by the preset ended and that are not held."""
    preset = context.settings.preset
    shortest = None if preset is None else preset.shortest
    if preset is None or shortest is None:
        return
    latest = (now - shortest) // 1_000  # seconds, as the header has it
    with context.storage.read() as reader:
        after, last = 0, reader.last_seq()
    while after < last:
        with context.storage.read() as reader:
            page = reader.page(after)
            old = [seq for seq, blob in page if created_seconds(blob) <= latest]
            grains = removal.readable_many(reader, old)
            held = reader.some_rows(HOLDS, [SEQUENCE.pack(seq) for seq in grains]).keys()
        if not page:
            return
        for seq, grain in grains.items():
            if grain.sealed or SEQUENCE.pack(seq) in held:
                continue
            if preset.due(grain, now):
                bound = is_bound(grain) or is_privileged(grain)
                yield _Lapsed(seq, grain, bound)
        after = page[-1][0]


def _expire(context: Context, now: int) -> int:
    lapsed = _lapsed(context, now)
    count = 0
    while page := list(islice(lapsed, _PAGE)):
        count += context.storage.write(partial(_remove_lapsed, context, page=page, now=now))
    return count


def _remove_lapsed(context: Context, writer: Writer, page: Sequence[_Lapsed], now: int) -> int:
    """Remove grains that have lapsed, which a new hold or policy may keep."""
    held = writer.some_rows(HOLDS, [SEQUENCE.pack(one.seq) for one in page]).keys()
    guarded = context.settings.delegation or next(writer.rows(GUARDS), None) is not None
    doubtful = [one.seq for one in page if guarded or one.bound or SEQUENCE.pack(one.seq) in held]
    kept = {seq for seq, (_, rule) in _refusals(context, writer, doubtful, now).items() if rule}
    # No tombstones: the end of a retention does not forbid a new import.
    gone = removal.remove_grains(
        writer,
        context.settings,
        [one.seq for one in page if one.seq not in kept],
        reason_code="retention",
        tombstone=False,
    )
    if gone:
        context.note(writer, "delete", gone, reason_code="retention")
    return len(gone)


def _queue_scrub(writer: Writer, now: int) -> None:
    if not any(entry.kind == erasure_queue.SCRUB for entry in erasure_queue.due(writer)):
        erasure_queue.add(writer, now + erasure_queue.WITHIN * _DAY, {"kind": erasure_queue.SCRUB})


def _time(context: Context, now: Time | None) -> int:
    clock = context.settings.clock()
    return clock if now is None else times.millis(now, field="/now", now=clock)


def _address(reader: Reader, seq: int | None) -> str | None:
    blob = None if seq is None else reader.blob_at(seq)
    return None if blob is None else _core.address(blob)


def replay_erasures(context: Context, other: Transactions) -> int:
    """Import the tombstones of another store, and remove the grains that they name."""
    with other.read() as reader:
        records, rows = tombstones.key_records(reader), list(reader.rows(TOMBSTONES))
    gone = 0
    if any(records):
        context.storage.write(partial(_take_over, records=records, rows=rows))
        with context.storage.read() as reader:
            after, last = 0, reader.last_seq()
        while after < last:
            with context.storage.read() as reader:
                seqs = [seq for seq, _ in reader.page(after, _PAGE) if seq <= last]
                names = _names(reader, seqs)
                known = tombstones.refused(reader, list(names.values()))
            if not seqs:
                break
            if doomed := [seq for i, seq in enumerate(names) if i in known]:
                gone += context.storage.write(partial(_remove_again, context, seqs=doomed))
            after = seqs[-1]
    _sweep_destroyed(context)
    return gone


def _remove_again(context: Context, writer: Writer, seqs: Sequence[int]) -> int:
    gone = removal.remove_grains(writer, context.settings, seqs, reason_code=_RESTORED)
    if gone:
        context.note(writer, "erase", gone, reason_code=_RESTORED)
    return len(gone)


def _sweep_destroyed(context: Context) -> None:
    """Remove the rows about grains whose key was destroyed."""
    for number in key_destruction.destroyed_here(context):
        sweep(context, number, partial(_drop_beside, context))


def _drop_beside(context: Context, writer: Writer, seqs: Sequence[int]) -> int:
    found = [one for seq in seqs if (one := key_destruction.opened(writer, seq, None))]
    names = [name for name, _ in found]
    removal.forget_talk(writer, context.settings, names, reason_code=_RESTORED)
    key_destruction.drop_beside(writer, seqs)
    return len(names)


def _take_over(
    writer: Writer, records: Sequence[bytes], rows: Sequence[tuple[bytes, bytes]]
) -> None:
    tombstones.import_keys(writer, records)
    writer.set_rows(TOMBSTONES, rows)


def _names(reader: Reader, seqs: Sequence[int]) -> dict[int, bytes]:
    """Return the plain digests of grains, and the stored digests of unreadable ones.

    Grains whose key is known to be destroyed are left out: they are erased already.
    """
    found: dict[int, bytes] = {}
    for seq in seqs:
        one = removal.names_of(reader, seq)
        if one is not None and one.plain is not None:
            found[seq] = one.plain
        elif one is not None and not destroyed(reader, seq):
            found[seq] = one.stored
    return found
