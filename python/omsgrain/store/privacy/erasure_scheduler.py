# SPDX-License-Identifier: Apache-2.0
"""Doing the erasures that are due: what consents allowed, and what presets keep no longer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import KeyMissingError, OmsError, StoreError
from omsgrain.grain import Grain
from omsgrain.policy.export import is_privileged
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import DUE, HOLDS, SEQUENCE
from omsgrain.store import lifecycle
from omsgrain.store.base import Base
from omsgrain.store.policy_context import destroyed
from omsgrain.store.privacy import consent as consents
from omsgrain.store.privacy import removal
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
    """What ``run_due_erasures`` did.

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


class Running(Base):
    """The part of a GrainStore that does the erasures that are due."""

    def due_erasures(self, until: int | None = None) -> list[DueErasure]:
        """Return the erasures that are queued, by their deadlines.

        Args:
            until: only those that must have been done by then, ms since 1970.
        """
        now = self._settings.clock()
        with self._store.read() as reader:
            return [
                DueErasure(
                    entry.deadline, entry.kind, _address(reader, entry.seq), entry.deadline <= now
                )
                for entry in erasure_queue.due(reader, until)
            ]

    def retention_due(self, now: int | None = None) -> Iterator[str]:
        """Walk the grains that the preset keeps no longer, by its rules on how long at most.

        Consents are never due, nothing that is held, and nothing that must still be kept.

        Args:
            now: ms since 1970, instead of the clock.
        """
        return (address for _, address in self._expired(_time(self, now)))

    def run_due_erasures(self, *, now: int | None = None, everything: bool = False) -> DueReport:
        """Erase what is due: what withdrawn consents allowed, and what may be kept no longer.

        What a hold or a minimum retention keeps stays in the queue, restricted, and is named in
        the report. If the consent stands again the entry is dropped and the grain stays
        restricted, for nobody can tell whether it was restricted for another reason, too. Call it
        once a day or so; what has crashed half way goes on with the next call. Free pages
        of the files can still hold the bytes: ``scrub_due`` says by when a later call, or
        ``compact`` before it, writes the files anew.

        Args:
            now: ms since 1970, instead of the clock.
            everything: also what is queued for later.

        Raises:
            StoreError: read-only, full or broken; what was erased by then stays erased.

        Spec: OMS §9
        """
        at = _time(self, now)
        with self._store.read() as reader:
            entries = list(erasure_queue.due(reader, None if everything else at))
        counts = {"erased": 0, "dropped": 0, "finished": 0, "waiting": 0}
        kept: list[tuple[str, str]] = []
        expired = 0
        for kind in _CODES:
            grains = [entry for entry in entries if entry.kind == kind]
            for start in range(0, len(grains), _PAGE):
                page = grains[start : start + _PAGE]
                gone, dropped, stay = self._store.write(
                    partial(self._erase, page=page, now=at, code=_CODES[kind])
                )
                if kind == erasure_queue.CONSENT:
                    counts["erased"] += gone
                else:
                    expired += gone
                counts["dropped"] += dropped
                kept += stay
        for entry in entries:
            if entry.kind not in _CODES:
                counts["finished" if self._run(entry, at) else "waiting"] += 1
        expired += self._expire(at)
        if counts["erased"] or expired:
            self._store.write(partial(_queue_scrub, now=at))
        return DueReport(**counts, expired=expired, kept=tuple(kept), scrub_due=self._scrub_due())

    def _scrub_due(self) -> int | None:
        """By when the files must be written anew; None if nothing asks for that."""
        with self._store.read() as reader:
            entries = (
                entry for entry in erasure_queue.due(reader) if entry.kind == erasure_queue.SCRUB
            )
            return next((entry.deadline for entry in entries), None)

    def _run(self, entry: erasure_queue.QueuedErasure, now: int) -> bool:
        """Do an entry of another kind, and take it out; False if it must wait."""
        return False

    def _erase(
        self, writer: Writer, page: Sequence[erasure_queue.QueuedErasure], now: int, code: str
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
                stands[given] = self._stands(writer, given)
            back = given is not None and stands[given]
            if address is None or destroyed(writer, entry.seq) or back:
                dropped += 1
                erasure_queue.done(writer, entry.key)
                continue
            rule = self._refusal(writer, entry.seq, now)
            if rule is None:
                gone[entry.seq] = bytes.fromhex(address)
                erasure_queue.done(writer, entry.key)
                continue
            kept.append((address, rule))
            if (digest := lifecycle.restrict(writer, entry.seq, True)) is not None:
                restricted.append(digest)
        if gone:
            self._remove(writer, gone, code)
            self._note(writer, "erase", list(gone.values()), reason_code=code)
        if restricted:
            self._note(writer, "restrict", restricted, reason_code=code)
        return len(gone), dropped, kept

    def _remove(
        self, writer: Writer, seqs: Iterable[int], reason_code: str, *, tombstone: bool = True
    ) -> None:
        remove_grains(
            writer, self._settings, list(seqs), reason_code=reason_code, tombstone=tombstone
        )

    def _stands(self, writer: Writer, given: int) -> bool:
        """Whether a consent was given again since the entry was made."""
        try:
            return consents.stands(writer, given)
        except KeyMissingError:
            return False  # it was withdrawn when somebody could read it

    def _refusal(self, writer: Writer, seq: int, now: int) -> str | None:
        """The rule that keeps a grain from what nobody asks for by name; None if it may go."""
        try:
            grain = writer.grain(seq)
            if grain is None or grain.sealed:
                return "key"
            if grain.type == "consent":
                return "consent"
            if is_privileged(grain):
                return "privilege"
            return removal.refusal(writer, self._settings, grain, now)
        except StoreError:
            raise
        except OmsError as error:  # damaged: what keeps it cannot be told
            return error.code

    def _expired(self, now: int) -> Iterator[tuple[int, str]]:
        """The grains that the preset keeps no longer: number and address."""
        from omsgrain.policy.retention import Expire

        preset = self._settings.preset
        if preset is None or not any(isinstance(rule, Expire) for rule in preset.rules):
            return
        with self._store.read() as reader:
            after, last = 0, reader.last_seq()
        while after < last:
            with self._store.read() as reader:
                seqs = [seq for seq, _ in reader.page(after)]
                page = [(seq, g.address) for seq in seqs if (g := self._lapsed(reader, seq, now))]
            if not seqs:
                return
            yield from page
            after = seqs[-1]

    def _lapsed(self, reader: Reader, seq: int, now: int) -> Grain | None:
        """The grain with a number, if the preset keeps it no longer and nobody holds it."""
        preset = self._settings.preset
        try:
            grain = reader.grain(seq)
            if grain is None or grain.sealed or preset is None or not preset.due(grain, now):
                return None
        except StoreError:
            raise
        except OmsError:  # damaged, or no key: `check` tells it
            return None
        return grain if reader.row(HOLDS, SEQUENCE.pack(seq)) is None else None

    def _expire(self, now: int) -> int:
        """Remove what the preset keeps no longer; how many grains."""
        expired = self._expired(now)
        count = 0
        while page := [seq for seq, _ in islice(expired, _PAGE)]:
            count += self._store.write(partial(self._remove_expired, page=page, now=now))
        return count

    def _remove_expired(self, writer: Writer, page: Sequence[int], now: int) -> int:
        gone: dict[int, bytes] = {}
        for seq in page:
            grain = self._lapsed(writer, seq, now)
            if grain is not None and self._refusal(writer, seq, now) is None:
                gone[seq] = bytes.fromhex(grain.address)
        if gone:
            # No tombstones: that it was kept long enough is no order to refuse it.
            self._remove(writer, gone, "retention", tombstone=False)
            self._note(writer, "delete", list(gone.values()), reason_code="retention")
        return len(gone)


def _queue_scrub(writer: Writer, now: int) -> None:
    if not any(entry.kind == erasure_queue.SCRUB for entry in erasure_queue.due(writer)):
        erasure_queue.add(writer, now + erasure_queue.WITHIN * _DAY, {"kind": erasure_queue.SCRUB})


def _time(store: Base, now: int | None) -> int:
    return store._settings.clock() if now is None else now


def _address(reader: Reader, seq: int | None) -> str | None:
    """The address under which a grain is stored."""
    blob = None if seq is None else reader.blob_at(seq)
    return None if blob is None else _core.address(blob)
