# SPDX-License-Identifier: Apache-2.0
"""A bounded history: grains leave the store by age or by size, oldest first.

The index has all grains by the time of their creation; encrypted ones, which hide it, count from
when they were stored. A step reads the next of them, and removes in one transaction those that no
rule keeps. It leaves one entry of the audit trail, drops the entries about the grains that are
gone (``storage/audit/gaps.py``), and writes no tombstones: the grains may come in again.

The index rows of a grain are in pages all over the file, so a step of 16,000 grains writes hardly
more pages than one of 1,000; and the rows of new grains are in the same pages. So a step is long,
and writes the waiting index rows too. Once a store is full, the next one follows when as many
grains have come, and not at once: LMDB cannot use yet the pages that the one before has freed.

LMDB lists the pages that a step frees in pages that lie in a row. Where the free ones are
scattered it takes them from the end of the file, which so grows by about a hundredth while all
grains of a store are replaced. Near the limit, or when much of it is free, it is compacted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from omsgrain import _core
from omsgrain.errors import OmsError, StoreError
from omsgrain.grain import Grain
from omsgrain.query.filters import FOREVER, conditions
from omsgrain.query.walk import holds
from omsgrain.storage.audit import gaps, times
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import GUARDS, HOLDS, KEPT, LINEAGES, SEALED, SEQUENCE
from omsgrain.store import policy_context
from omsgrain.store.history_limits import HistoryLimits, HistoryReport
from omsgrain.store.privacy import removal

if TYPE_CHECKING:
    from omsgrain.store.context import Context

REASON: Final = "history"
"""The reason code of the entries in the audit trail."""
STEP = 1_000
"""Grains in a step behind another."""
FIRST_STEP = 16_384
"""Grains in the first step of a run at the most; a put waits for it."""

_ALL = _core.term("all", None)  # all grains that are not encrypted
_STEP_BYTES = 32 << 20  # grains of a step, about; all of them are in memory
_TOGETHER = 64  # grains read at once
_PART = 32  # a first step has this part of the grains
_CITES = ("derived_from", "link")  # kinds of terms that hold the address of another grain
_GROWTH = 32  # larger by this part of the size, grains leave, however few came
_FAR = 16  # too large by this part of the size, as many grains leave as seem to have to
_PULL = 8  # too large by a hundredth, 8 in a hundred more leave than came
_SHARE = 256  # a writer bounds the history itself once it has put this part of the size
_AGAIN = 16_384  # grains removed until those are looked at again that came late or were kept
_AGAIN_SECONDS = 600.0
_USABLE = 2  # commits until LMDB can use the pages again that one replaced
_SURELY = 4  # and until it can, also if a snapshot was open meanwhile
_LOOK_SECONDS = 1.0  # a full store is looked at so often, and whenever that much was put
_NAMED = 4_096  # of the removed grains were versions of others: their lineages are looked at
_ENTRIES = 4  # of the audit trail that are looked at for each grain of a step
_CLOSE, _FREE = 32, 0.25  # a file is compacted if it is so close to the size, and so much is free,
_LARGE, _MOSTLY = 2, 0.35  # or if it is larger than a half, and even more is free;
_TURNS = 4  # after that when so many times as many grains have left as it had,
_COMPACT_BYTES = 1 << 30  # and never if more is to be copied, while a put waits


class AgePosition(NamedTuple):
    """How far a walk over the grains by age has come."""

    place: bytes | None  # in the index, of the last grain that was not encrypted
    seq: int  # the number of the last encrypted grain

    @property
    def time(self) -> int:
        """When the last grain was created that was not encrypted, ms."""
        return 0 if self.place is None else int.from_bytes(self.place[:6], "big")


_BEGIN = AgePosition(None, 0)


class HistoryLimiter:
    """Keeps a store within limits. Threads may share it: one of them works at a time.

    Attributes:
        every: seconds after which it looks for grains that aged out, without a put too.
    """

    def __init__(self, limits: HistoryLimits) -> None:
        self._limits = limits
        self.every = None if limits.keep is None else min(max(limits.keep / 100_000, 1.0), 60.0)
        self._lock = threading.Lock()
        self._stored = 0  # bytes put since the last look
        self._looked = time.monotonic()  # when that was
        self._stepped = -_LOOK_SECONDS  # when it last removed grains
        self._level: Level | None = None  # after grains left because of the size
        self._aged_at: float | None = None  # when it last removed all that had aged out
        self._at = _BEGIN  # the last grains that were looked at
        self._begun = 0.0  # when it was at the oldest grain
        self._removed = self._passed = 0  # grains removed, and kept, since then
        # removed grains whose lineages are still named; so many are enough for a look at all
        self._named = self._many_named = 0
        self._until_compact = 0  # so many grains leave before the next compaction

    def stored(self, context: Context, size: int) -> None:
        """Count what was put. A writer that is faster than the background bounds the history."""
        if self._limits.max_bytes is not None:
            self._stored += size
            if self._has_much():
                with suppress(StoreError):  # the put is done; one without room reports a full disk
                    self.run(context)

    def _has_much(self) -> bool:
        return self._stored >= (self._limits.max_bytes or 0) // _SHARE

    def look(self, context: Context, still: Callable[[], bool]) -> None:
        """Remove what is beyond the limits, in the background: not at each of its calls."""
        if (
            self._level is None
            or self._is_aging()
            or self._has_much()
            or time.monotonic() - self._looked >= _LOOK_SECONDS
        ):
            self.run(context, still)

    def run(
        self,
        context: Context,
        still: Callable[[], bool] = lambda: True,
        *,
        whole: bool = False,
        most: int | None = None,
    ) -> tuple[int, Counter[str]]:
        """Remove what is beyond the limits, in so many steps at the most.

        With ``whole``, look at all old grains, those too that were kept before. Returns the number
        of removed grains, and the rules that kept others.
        """
        kept = Counter[str]()
        removed = 0
        with self._lock:
            self._stored, self._looked = 0, time.monotonic()
            if whole or self._is_due_again():
                self._restart()
            if whole:
                self._aged_at = None
                self._level = None
            first = True
            while still() and most != 0:
                done = self._step(context, first, whole)
                if done is None:
                    break
                first = False
                removed += done.gone
                kept.update(done.kept)
                most = None if most is None else most - 1
                if done.level is not None and not whole:
                    self._level = done.level
                    break
            if removed and self._limits.max_bytes is not None and not whole:
                self._until_compact -= removed
                if self._until_compact <= 0:
                    self._compact_if_large(context, self._limits.max_bytes)
        return removed, kept

    def _compact_if_large(self, context: Context, size: int) -> None:
        figures = context.inner.stats()
        file, free = figures.file_bytes, figures.free_bytes
        close = file > size - size // _CLOSE and free > file * _FREE
        scattered = file > size // _LARGE and free > file * _MOSTLY
        if (close or scattered) and file - free <= _COMPACT_BYTES:
            self._until_compact = _TURNS * figures.grains  # also if it fails: it takes long
            with suppress(OmsError):
                context.inner.compact()

    def _is_due_again(self) -> bool:
        return (
            self._removed >= max(self._passed, _AGAIN)
            or time.monotonic() - self._begun >= _AGAIN_SECONDS
        )

    def _restart(self) -> None:
        self._at, self._begun = _BEGIN, time.monotonic()
        self._removed = self._passed = 0

    def _step(self, context: Context, first: bool, whole: bool) -> Step | None:
        """Remove some grains; None if there is nothing to do."""
        # All in one write transaction. While a snapshot is open, no page that a put replaces can
        # be used again, and a put replaces about ten.
        work = partial(self._remove, context, first, whole)
        done = context.storage.write(work, alone=True)
        if done.all_aged:
            self._aged_at = time.monotonic()
        if done.looked:
            self._stepped = time.monotonic()
            self._named += done.named
            if done.lineages is not None:
                self._named, self._many_named = 0, max(_NAMED, done.lineages // 4)
            self._at = done.at
            self._removed += done.gone
            self._passed += done.looked - done.gone
        elif done.wanted and self._removed:
            self._restart()  # what was kept so far may go now
        else:
            return None
        return done

    def _remove(self, context: Context, first: bool, whole: bool, writer: Writer) -> Step:
        """Remove the next grains that are beyond the limits, in a transaction of its own.

        ``first``: no step of this run came before. ``whole``: the run waits for nothing.
        """
        limits, at, now = self._limits, self._at, context.settings.clock()
        count = writer.count()
        most = min(FIRST_STEP, max(STEP, count // _PART)) if first else STEP
        page, wanted, full = GrainPage(at, {}), 0, None
        aging = self._is_aging()
        if limits.keep is not None and aging:
            page = next_page(writer, at, now - limits.keep, most)
        all_aged = aging and not page.grains
        if not page.grains and limits.max_bytes is not None:
            full, excess = Level.of(writer, limits)
            # Not while the pages that the last step or run of the index freed cannot be used yet.
            # Without a further put that would be so for ever; and large batches bring many runs.
            far = excess >= limits.max_bytes // _FAR
            late = far and time.monotonic() - self._stepped >= _LOOK_SECONDS
            flushed, removed = writer.commits_since()
            waits = removed < _USABLE or (flushed < _SURELY and not far)
            if whole or late or not waits:
                wanted = _for_size(limits.max_bytes, excess, full, self._level, most)
            page = next_page(writer, at, None, wanted)
        if not page.grains:
            return Step(all_aged, at, wanted)
        writer.flush(len(page.grains) // 2)
        named = len(writer.some_rows(LINEAGES, [SEQUENCE.pack(seq) for seq in page.grains]))
        gone, kept = remove_page(context, writer, limits, page, now)
        if full is not None:
            full = full._replace(grains=count - gone) if gone else None
        lineages = None
        if named and self._named + named > self._many_named:
            lineages = policy_context.forget_lineages(writer, max(page.grains))
        return Step(all_aged, page.at, wanted, len(page.grains), gone, kept, full, named, lineages)

    def _is_aging(self) -> bool:
        """Whether to look for grains that aged out."""
        if self.every is None:
            return False
        return self._aged_at is None or time.monotonic() - self._aged_at >= self.every


class GrainPage(NamedTuple):
    """The next grains of a walk by age, by their numbers; None for those that cannot be read."""

    at: AgePosition
    grains: dict[int, Grain | None]
    encrypted: bool = False  # whether they are, all of them; or none is


class Level(NamedTuple):
    """How much a store had when grains had left because of its size.

    The next ones leave when it has grown. Until then new rows fill the pages of the index, which
    hardly got fewer when others left.
    """

    grains: int
    used: int  # bytes of the file

    @classmethod
    def of(cls, writer: Writer, limits: HistoryLimits) -> tuple[Level, int]:
        """Return that of now, and by how many bytes the store is too large."""
        used, blobs = writer.file_use()
        return cls(writer.count(), used), limits.excess(used, blobs)


class Step(NamedTuple):
    """The result of a step."""

    all_aged: bool  # no grain is left that aged out, but for kept ones
    at: AgePosition  # the last grains that it looked at
    wanted: int = 0  # grains that had to leave because of the size
    looked: int = 0  # grains that it looked at
    gone: int = 0  # grains that it removed
    kept: Mapping[str, int] = MappingProxyType({})  # the rules that kept others
    level: Level | None = None  # if the store is full, and no further step has to follow
    named: int = 0  # grains that it looked at whose lineages are named
    lineages: int | None = None  # rows of lineages, if it dropped those of grains that are gone


def _for_size(size: int, excess: int, here: Level, level: Level | None, most: int) -> int:
    """Return how many grains leave now because of the size of a store.

    Once it is full, as many as came since the last step; more while it is too large, and fewer
    while it is not.
    """
    if level is None or abs(excess) >= size // _FAR:
        far = for_size(excess, here.used, here.grains)
        return max(most, min(far, FIRST_STEP)) if excess > 0 else 0
    grown = here.grains - level.grains
    if grown < most and here.used - level.used < size // _GROWTH:
        return 0
    grown = max(grown, STEP)
    return min(FIRST_STEP, grown + _PULL * grown * excess // size)


def for_size(excess: int, used: int, grains: int) -> int:
    """Return about how many of the grains must go."""
    return 0 if excess <= 0 or not grains else max(STEP, excess * grains // used)


def next_page(reader: Reader, at: AgePosition, horizon: int | None, most: int) -> GrainPage:
    """Return the next grains by age, after others; with a horizon, those created before it, ms.

    The time inside an encrypted grain is hidden: it counts as created when it was stored.
    """
    end = FOREVER if horizon is None else horizon
    sealed = _next_sealed(reader, at.seq)
    if sealed is not None and (plain := _next_place(reader, at.place)) is not None:
        # No encrypted grain leaves before an older one in plain text, nor the other way.
        first = times.stored_at(reader, sealed)
        if first is None or first > int.from_bytes(plain[:6], "big"):
            end, sealed = min(end, FOREVER if first is None else first + 1), None
        else:
            end = min(end, int.from_bytes(plain[:6], "big") + 1)
    if sealed is not None:
        upto = times.last_before(reader, end)
        keys = (key for key, _ in reader.rows(SEALED, SEQUENCE.pack(at.seq)))
        numbers = (SEQUENCE.unpack(key)[0] for key in islice(keys, max(most, 0)))
        seqs = list(takewhile(lambda seq: seq <= upto, numbers))
        grains = _read(reader, seqs)
        at = at._replace(seq=max(grains, default=at.seq))
    else:
        # Below the decryption, which would look for the grains of each user.
        before = max(end, 0).to_bytes(7, "big")[1:]
        walk = takewhile(
            lambda place: place[:6] < before, reader.raw.places(_ALL, at.place, False)
        )
        places = list(islice(walk, max(most, 0)))
        grains = _read(reader, [seq_at(place) for place in places])
        at = at._replace(place=max(places[: len(grains)], default=at.place))
    return GrainPage(at, grains, sealed is not None)


def _read(reader: Reader, seqs: list[int]) -> dict[int, Grain | None]:
    """Return the first of some grains: those that fit into the memory of a step."""
    read: dict[int, Grain | None] = {}
    left = _STEP_BYTES
    for start in range(0, len(seqs), _TOGETHER):
        part = seqs[start : start + _TOGETHER]
        found = removal.sound_many(reader, part)
        read.update((seq, found.get(seq)) for seq in part)
        left -= sum(len(grain.blob) for grain in found.values())
        if left <= 0:
            break
    return read


def _next_sealed(reader: Reader, seq: int) -> int | None:
    row = next(reader.rows(SEALED, SEQUENCE.pack(seq)), None)
    return None if row is None else int(SEQUENCE.unpack(row[0])[0])


def _next_place(reader: Reader, place: bytes | None) -> bytes | None:
    return next(reader.raw.places(_ALL, place, False), None)


def seq_at(place: bytes) -> int:
    return int.from_bytes(place[12:], "big")


def remove_page(
    context: Context, writer: Writer, limits: HistoryLimits, page: GrainPage, now: int
) -> tuple[int, Counter[str]]:
    """Remove those grains of a page that no rule keeps; return their number, and the rules."""
    grains = {seq: grain for seq, grain in page.grains.items() if grain is not None}
    kept = rules_of(context, writer, limits, grains, now)
    leaving = sorted(seq for seq in grains if seq not in kept)
    found = {seq: removal.GrainAddresses.of(grains[seq], page.encrypted) for seq in leaving}
    gone = removal.remove_named(
        writer, context.settings, found, reason_code=REASON, tombstone=False
    )
    if gone and context.settings.audit:
        details: dict[str, int | str] = {}
        stated = gaps.drop(writer, page.at.time // 1_000, page.at.seq, _ENTRIES * len(grains))
        if stated is not None:
            details[gaps.STATED] = stated
        if limits.keep is not None:
            details["keep"] = limits.keep
        if limits.max_bytes is not None:
            details["max_bytes"] = limits.max_bytes
        if limits.where:  # its names alone: the values may name a person
            details["keep_where"] = ",".join(sorted(limits.where))
        context.note(writer, "retain", gone, reason_code=REASON, details=details)
    rules = Counter(kept.values())
    if damaged := len(page.grains) - len(grains):
        rules["damaged"] += damaged
    return len(gone), rules


def rules_of(
    context: Context, reader: Reader, limits: HistoryLimits, grains: Mapping[int, Grain], now: int
) -> dict[int, str]:
    """Return the rules that keep some of these grains."""
    unopened = {seq: grain for seq, grain in grains.items() if grain.sealed}
    opened = grains
    if unopened:
        opened = {seq: grain for seq, grain in grains.items() if seq not in unopened}
    kept = removal.kept_by_rules(reader, context.settings, opened, now, "compact")
    if unopened:
        kept |= _kept_unopened(context, reader, limits, unopened)
    if limits.where is not None:
        asked = conditions(limits.where, lambda: now)
        for seq, grain in opened.items():
            if seq not in kept and holds(reader, seq, grain, asked):
                kept[seq] = "keep_where"
    if limits.cited:
        for seq, grain in grains.items():
            if seq not in kept and _is_cited(reader, grain, grains.keys()):
                kept[seq] = "cited"
    return kept


def _kept_unopened(
    context: Context, reader: Reader, limits: HistoryLimits, grains: Mapping[int, Grain]
) -> dict[int, str]:
    """Return the rules that keep encrypted grains which no key opens here.

    A grain that was encrypted here has a row if it may have to be kept (``KEPT``). All others go,
    unopened, unless a filter or a preset would have to read them.
    """
    keys = {SEQUENCE.pack(seq): seq for seq in grains}
    held = reader.some_rows(HOLDS, list(keys))
    numbers = reader.some_rows(SEALED, list(keys))
    unsure = (
        limits.where is not None
        or context.settings.delegation
        or removal.keeps_by_kind(context.settings)
        or next(reader.rows(GUARDS), None) is not None
    )
    kept: dict[int, str] = {}
    for key, seq in keys.items():
        if key in held:
            kept[seq] = "hold"
        elif grains[seq].type in ("consent", "goal"):
            kept[seq] = "key"
        elif unsure or key not in numbers:
            kept[seq] = "key"
        elif reader.row(KEPT, numbers[key] + key) is not None:
            kept[seq] = "key"
    return kept


def _is_cited(reader: Reader, grain: Grain, leaving: Container[int]) -> bool:
    """Whether a grain outside ``leaving`` cites a grain, by either address of an encrypted one."""
    for address in {grain.address, _core.address(grain.blob)}:
        for kind in _CITES:
            term = _core.term(kind, address)
            if any(seq_at(place) not in leaving for place in reader.places(term, None, True)):
                return True
    return False


def retain(context: Context, limits: HistoryLimits, dry_run: bool) -> HistoryReport:
    """Bring a store within limits, or count what would go."""
    if dry_run:
        removed, kept, complete = _preview(context, limits)
        figures = context.inner.stats()
    else:
        removed, kept = HistoryLimiter(limits).run(context, whole=True)
        figures = context.inner.stats()
        used = figures.file_bytes - figures.free_bytes
        complete = limits.excess(used, figures.blob_bytes) <= 0
    rules = tuple(sorted(kept.items()))
    return HistoryReport(removed, rules, figures.file_bytes, figures.free_bytes, complete)


def _preview(context: Context, limits: HistoryLimits) -> tuple[int, Counter[str], bool]:
    now, figures = context.settings.clock(), context.inner.stats()
    at = _BEGIN
    used = figures.file_bytes - figures.free_bytes
    wanted = for_size(limits.excess(used, figures.blob_bytes), used, figures.grains)
    horizon = None if limits.keep is None else now - limits.keep
    removed, kept = 0, Counter[str]()
    while horizon is not None or removed < wanted:
        with context.storage.read() as reader:
            most = STEP if horizon is not None else min(STEP, wanted - removed)
            page = next_page(reader, at, horizon, most)
            grains = {seq: grain for seq, grain in page.grains.items() if grain is not None}
            rules = rules_of(context, reader, limits, grains, now)
        at = page.at
        if page.grains:
            kept.update(rules.values())
            removed += len(grains) - len(rules)
        elif horizon is not None:
            horizon = None
        else:
            break
    return removed, kept, removed >= wanted
