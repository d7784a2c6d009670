# SPDX-License-Identifier: Apache-2.0
"""Run the erasures that are due: withdrawn consents, retention periods, unfinished orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import KeyMissingError, OmsError, StoreError
from omsgrain.grain import Grain
from omsgrain.policy.decide import is_privileged
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import DUE, HOLDS, SEQUENCE
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, destroyed
from omsgrain.store.privacy import consent as consents
from omsgrain.store.privacy import removal
from omsgrain.store.privacy.erasure import run_request, scrub_due
from omsgrain.store.privacy.removal import remove_grains

_PAGE = 1_000  # grains a transaction: as many as an entry of the audit trail can name
_DAY = 86_400_000
_CODES = {erasure_queue.CONSENT: "consent_withdrawn", erasure_queue.RETENTION: "retention_over"}
"""The kinds that are about grains, and the word for the reason."""


@dataclass(frozen=True, slots=True)
class DueErasure:
    """An erasure that is to be done.

    Attributes:
        deadline: when it must have been done, ms since 1970.
        kind: ``consent``: a consent was withdrawn; ``retention``: the terms that it was imported
            under end; other kinds are parts of erasing a person.
        address: the grain, if it is about one.
        overdue: the deadline is over.
    """

    deadline: int
    kind: str
    address: str | None
    overdue: bool


@dataclass(frozen=True, slots=True)
class DueReport:
    """What ``run_due`` did.

    Attributes:
        erased: how many grains are gone because a consent was withdrawn.
        expired: how many are gone because a preset, or the terms that they were imported under,
            keep them no longer.
        dropped: entries that had nothing to erase any more: the grain was gone, or the consent
            stands again.
        finished: entries of other kinds that were done.
        kept: grains that stay, restricted, with the rule that keeps them.
        waiting: entries of other kinds that could not be done yet; and erasures that are done but
            for grains that could not be looked into, for want of a key or by damage.
        scrub_due: by when the files must be free of what was erased, ms since 1970; until then
            their free space can hold its bytes. None: nothing waits for that.
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
        """Whether nothing that was due is left; what ``scrub_due`` tells of may be due later."""
        return not self.kept and not self.waiting


def due_erasures(context: Context, until: int | None = None) -> list[DueErasure]:
    """Return the erasures that are queued, by their deadlines."""
    now = context.settings.clock()
    with context.storage.read() as reader:
        return [
            DueErasure(
                entry.deadline, entry.kind, _address(reader, entry.seq), entry.deadline <= now
            )
            for entry in erasure_queue.due(reader, until)
        ]


def retention_due(context: Context, now: int | None = None) -> Iterator[str]:
    """Walk the grains that the preset keeps no longer, by its rules on how long at most."""
    return (address for _, address in _expired(context, _time(context, now)))


def run_due(context: Context, *, now: int | None = None, everything: bool = False) -> DueReport:
    """Erase what is due: what withdrawn consents allowed, and what may be kept no longer."""
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
    """Erase what is due: how many, how many entries were void, and what stays."""
    gone: dict[int, bytes] = {}
    kept: list[tuple[str, str]] = []
    restricted: list[bytes] = []
    dropped = 0
    stands: dict[int, bool] = {}  # by the number of the consent
    for entry in page:
        if entry.seq is None or writer.row(DUE, entry.key) is None:
            continue  # somebody else has done it
        address = _address(writer, entry.seq)
        given: int | None = entry.what.get("consent")
        if given is not None and given not in stands:
            stands[given] = _stands(context, writer, given)
        back = given is not None and stands[given]
        if address is None or destroyed(writer, entry.seq) or back:
            dropped += 1
            erasure_queue.done(writer, entry.key)
            continue
        rule = _refusal(context, writer, entry.seq, now)
        if rule is None:
            gone[entry.seq] = bytes.fromhex(address)
            erasure_queue.done(writer, entry.key)
            continue
        kept.append((address, rule))
        if (digest := lifecycle.restrict(writer, entry.seq, True)) is not None:
            restricted.append(digest)
    if gone:
        _remove(context, writer, gone, code)
        context.note(writer, "erase", list(gone.values()), reason_code=code)
    if restricted:
        context.note(writer, "restrict", restricted, reason_code=code)
    return len(gone), dropped, kept


def _remove(
    context: Context,
    writer: Writer,
    seqs: Iterable[int],
    reason_code: str,
    *,
    tombstone: bool = True,
) -> None:
    remove_grains(
        writer, context.settings, list(seqs), reason_code=reason_code, tombstone=tombstone
    )


def _stands(context: Context, writer: Writer, given: int) -> bool:
    """Whether a consent was given again since the entry was made."""
    try:
        return consents.stands(writer, given)
    except KeyMissingError:
        return False  # it was withdrawn when somebody could read it


def _refusal(context: Context, writer: Writer, seq: int, now: int) -> str | None:
    """The rule that keeps a grain from what nobody asks for by name; None if it may go."""
    try:
        grain = writer.grain(seq)
        if grain is None or grain.sealed:
            return "key"
        if grain.type == "consent":
            return "consent"
        if is_privileged(grain):
            return "privilege"
        return removal.refusal(writer, context.settings, grain, now)
    except StoreError:
        raise
    except OmsError as error:  # damaged: what keeps it cannot be told
        return error.code


def _expired(context: Context, now: int) -> Iterator[tuple[int, str]]:
    """The grains that the preset keeps no longer: number and address."""
    from omsgrain.policy.rules import Expire

    preset = context.settings.preset
    if preset is None or not any(isinstance(rule, Expire) for rule in preset.rules):
        return
    with context.storage.read() as reader:
        after, last = 0, reader.last_seq()
    while after < last:
        with context.storage.read() as reader:
            seqs = [seq for seq, _ in reader.page(after)]
            page = [(seq, g.address) for seq in seqs if (g := _lapsed(context, reader, seq, now))]
        if not seqs:
            return
        yield from page
        after = seqs[-1]


def _lapsed(context: Context, reader: Reader, seq: int, now: int) -> Grain | None:
    """The grain with a number, if the preset keeps it no longer and nobody holds it."""
    preset = context.settings.preset
    try:
        grain = reader.grain(seq)
        if grain is None or grain.sealed or preset is None or not preset.due(grain, now):
            return None
    except StoreError:
        raise
    except OmsError:  # damaged, or no key: `check` tells it
        return None
    return grain if reader.row(HOLDS, SEQUENCE.pack(seq)) is None else None


def _expire(context: Context, now: int) -> int:
    """Remove what the preset keeps no longer; how many grains."""
    expired = _expired(context, now)
    count = 0
    while page := [seq for seq, _ in islice(expired, _PAGE)]:
        count += context.storage.write(partial(_remove_expired, context, page=page, now=now))
    return count


def _remove_expired(context: Context, writer: Writer, page: Sequence[int], now: int) -> int:
    gone: dict[int, bytes] = {}
    for seq in page:
        grain = _lapsed(context, writer, seq, now)
        if grain is not None and _refusal(context, writer, seq, now) is None:
            gone[seq] = bytes.fromhex(grain.address)
    if gone:
        # No tombstones: that it was kept long enough is no order to refuse it.
        _remove(context, writer, gone, "retention", tombstone=False)
        context.note(writer, "delete", list(gone.values()), reason_code="retention")
    return len(gone)


def _queue_scrub(writer: Writer, now: int) -> None:
    if not any(entry.kind == erasure_queue.SCRUB for entry in erasure_queue.due(writer)):
        erasure_queue.add(writer, now + erasure_queue.WITHIN * _DAY, {"kind": erasure_queue.SCRUB})


def _time(context: Context, now: int | None) -> int:
    return context.settings.clock() if now is None else now


def _address(reader: Reader, seq: int | None) -> str | None:
    """The address under which a grain is stored."""
    blob = None if seq is None else reader.blob_at(seq)
    return None if blob is None else _core.address(blob)
