# SPDX-License-Identifier: Apache-2.0
"""Erase grains that other stores erased.

A tombstone does not name the erased grain. It has only two bytes of a hash of the grain's
namespace, if that is known. So for new tombstones the store computes the marks of all its grains
in these namespaces, some microseconds each. A grain under a hold or a minimum retention is
restricted, and ``store.privacy.run_due`` erases it when that ends. A locked grain about no person
stays in use.

A sync also removes the bytes of grains whose key was destroyed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import InvalidationDeniedError
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import blind_index, erasure_queue, records, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import DUE, HOLDS, MARK, META, SEQUENCE, TOMBSTONES, pieces
from omsgrain.store import lifecycle
from omsgrain.store.context import context_of
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.erasure import RELEASE, SCRUB, ErasureRequest
from omsgrain.sync import states
from omsgrain.sync.peer import KEY, Refusal, Tombstone

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

_PAGE = 500  # grains in a transaction
_SCANNED = 10_000  # grains in a snapshot
_HEAD, _HINT = 5, 2  # bytes of the header up to the namespace hash; bytes
_LUMP = 1 << 18  # of that hash
_REASON = "sync"
_ERASING = b"sync.erasing."
_DAY = 86_400_000
_WITHIN = 30  # days until the bytes must be gone from free pages


def take_tombstones(writer: Writer, stones: Sequence[Tombstone]) -> int:
    """Write tombstones and the search for their grains; return how many are new.

    Of two tombstones with the same mark, the earlier time and the higher count are kept.
    """
    tombstones.key(writer)  # a store with tombstones has its own key
    fresh, changed = [], 0
    for stone in stones:
        row = writer.row(TOMBSTONES, stone.mark)
        if row is None:
            fresh.append(stone.mark)
            stone = replace(stone, times=min(stone.times, records.JUMP))
        else:
            mine = states.tombstone_of(stone.mark, row)
            first = min(mine, stone, key=lambda one: (one.at, one.reason_code))
            most = min(mine.times + records.JUMP, records.MOST)
            times = min(max(mine.times, stone.times), most)
            hint = min(filter(None, (mine.hint, stone.hint)), default=b"")
            stone = Tombstone(stone.mark, first.at, first.reason_code, times, hint)
        made = tombstones.row_of(stone.at, stone.reason_code, stone.times, stone.hint)
        if made != row:
            writer.set_row(TOMBSTONES, stone.mark, made)
            changed += 1
    add_erasing(writer, fresh)
    return changed


def add_erasing(writer: Writer, marks: Sequence[bytes]) -> None:
    """Add marks whose grains must be searched."""
    if marks:
        last = max((key for key, _ in writer.rows(META, prefix=_ERASING)), default=None)
        number = 0 if last is None else SEQUENCE.unpack(last[len(_ERASING) :])[0] + 1
        writer.set_row(META, _ERASING + SEQUENCE.pack(number), b"".join(marks))


def erasing(reader: Reader) -> set[bytes]:
    return {mark for _, row in reader.rows(META, prefix=_ERASING) for mark in pieces(row, KEY)}


def clear_erasing(writer: Writer, done: Container[bytes]) -> None:
    """Remove marks whose search is done; keep those added since."""
    for key, row in list(writer.rows(META, prefix=_ERASING)):
        left = b"".join(mark for mark in pieces(row, KEY) if mark not in done)
        if left != row:
            writer.set_row(META, key, left or None)


def erase_marked(store: GrainStore) -> tuple[int, tuple[Refusal, ...]]:
    """Remove the grains of new tombstones; return how many, and the rules that keep others."""
    with context_of(store).storage.read() as reader:
        marks = erasing(reader)
        hints = _hints(reader, marks)
        shared = tombstones.keys(reader)
        after, last = 0, reader.last_seq()
    erased, kept = 0, list[Refusal]()
    while marks and after < last:
        with context_of(store).storage.read() as reader:
            after = _passed_over(reader, after, hints)
            page = [(seq, blob) for seq, blob in reader.page(after, _SCANNED) if seq <= last]
            known = list(_addresses(reader, page, hints))
        digests = [digest for _, digest in known]
        doomed = list(
            {
                seq: None
                for key in shared
                for (seq, _), mark in zip(known, tombstones.marks(key, digests), strict=True)
                if mark in marks
            }
        )
        if not page:
            break
        for start in range(0, len(doomed), _PAGE):
            part = partial(_erase, store=store, seqs=doomed[start : start + _PAGE])
            gone, stay = context_of(store).storage.write(part)
            erased, kept = erased + gone, kept + stay
        after = page[-1][0]
    if marks:
        context_of(store).storage.write(partial(clear_erasing, done=marks))
    return erased, tuple(kept)


def erase_released(store: GrainStore) -> int:
    """Remove unreadable grains whose hold ended.

    ``store.privacy.run_due`` removes the readable ones.
    """
    gone = 0
    with context_of(store).storage.read() as reader:
        entries = [
            entry
            for entry in erasure_queue.due(reader)
            if entry.kind == RELEASE
            and entry.what.get("reason_code") == _REASON
            and any(_is_blind_and_free(reader, seq) for seq in ErasureRequest.of(entry).seqs)
        ]
    for entry in entries:
        gone += context_of(store).storage.write(partial(_release, store=store, entry=entry))
    return gone


def _release(writer: Writer, store: GrainStore, entry: erasure_queue.QueuedErasure) -> int:
    if writer.row(DUE, entry.key) is None:
        return 0  # another process has removed it
    erasure_queue.done(writer, entry.key)
    return _erase(writer, store, ErasureRequest.of(entry).seqs)[0]


def _hints(reader: Reader, marks: Iterable[bytes]) -> frozenset[bytes] | None:
    """Return the namespace hashes in the headers of the grains to erase; None: any."""
    rows = ((mark, reader.row(TOMBSTONES, mark)) for mark in marks)
    hints = {b"" if row is None else states.tombstone_of(mark, row).hint for mark, row in rows}
    return frozenset(hints) if all(len(hint) == _HINT for hint in hints) else None


def _passed_over(reader: Reader, after: int, hints: frozenset[bytes] | None) -> int:
    """Skip to where a grain with one of the hints may be near.

    Rows without their numbers are read five times as fast as ``page`` reads grains.
    """
    while hints is not None and (found := reader.marked_rows(after, _LUMP)) is not None:
        rows, end = found
        heads = {row[MARK : MARK + _HEAD] for row in rows}
        if not rows or any(_may_be(head, hints) for head in heads):
            break
        after = end
    return after


def _may_be(head: bytes, hints: frozenset[bytes]) -> bool:
    """Whether a grain may have one of the hints, by the beginning of its header."""
    return head[3:_HEAD] in hints or bool(head[1] & ENCRYPTED_BIT)


def _addresses(
    reader: Reader, page: list[tuple[int, bytes]], hints: frozenset[bytes] | None
) -> Iterator[tuple[int, bytes]]:
    """Return the addresses of grains that may have one of the hints; for a sealed grain both."""
    if hints is not None:
        page = [row for row in page if _may_be(row[1], hints)]
    digests = _core.address_many([blob for _, blob in page])
    for (seq, blob), address in zip(page, digests, strict=True):
        yield seq, bytes.fromhex(address)
        if blob[1] & ENCRYPTED_BIT:
            names = removal.names_of(reader, seq)
            if names is not None and names.plain is not None:
                yield seq, names.plain


def _erase(writer: Writer, store: GrainStore, seqs: Sequence[int]) -> tuple[int, list[Refusal]]:
    """Remove grains, and restrict those that a rule keeps; return how many, and which stay."""
    now = context_of(store).settings.clock()
    gone: dict[int, bytes] = {}
    kept: dict[int, Refusal] = {}
    stays: list[Refusal] = []
    for seq in seqs:
        names = removal.names_of(writer, seq)
        if names is None:
            continue
        rule, locked = _refusal(writer, store, seq, now)
        if rule is None:
            gone[seq] = names.stored
            continue
        refused = Refusal("erasure", names.stored, InvalidationDeniedError.code, rule)
        if locked:
            stays.append(refused)  # it is about no person and stays in use
            continue
        kept[seq] = refused
        if lifecycle.restrict(writer, seq, True) is not None:
            context_of(store).note(writer, "restrict", [names.stored], reason_code=_REASON)
    removal.remove_grains(writer, context_of(store).settings, gone, reason_code=_REASON)
    if gone:
        context_of(store).note(writer, "erase", list(gone.values()), reason_code=_REASON)
        if not any(entry.kind == SCRUB for entry in erasure_queue.due(writer)):
            erasure_queue.add(writer, now + _WITHIN * _DAY, {"kind": SCRUB})
    if kept:
        waiting = ErasureRequest((), (), 0, _REASON, seqs=tuple(kept))
        erasure_queue.add(writer, now, waiting.what(RELEASE))
    return len(gone), [*kept.values(), *stays]


def _is_blind_and_free(reader: Reader, seq: int) -> bool:
    grain = removal.readable(reader, seq)
    held = reader.row(HOLDS, SEQUENCE.pack(seq)) is not None
    return grain is not None and grain.sealed and not held


def _refusal(reader: Reader, store: GrainStore, seq: int, now: int) -> tuple[str | None, bool]:
    """Return the rule that keeps a grain, and whether it is a lock on a grain about no person.

    Only a hold keeps an unreadable grain.
    """
    grain, settings = removal.readable(reader, seq), context_of(store).settings
    if grain is None or grain.sealed:
        held = reader.row(HOLDS, SEQUENCE.pack(seq)) is not None
        return ("hold" if held else None), False
    kept = removal.refusal(reader, settings, grain, now)
    if kept is not None:
        return kept, False
    locked = removal.lock(reader, settings, grain, now)
    return locked, locked is not None


def sweep_destroyed(store: GrainStore) -> int:
    """Remove the grains whose keys were destroyed; return how many."""
    context, swept = context_of(store), 0
    for number in key_destruction.destroyed_here(context):
        while gone := context.storage.write(partial(_sweep, store=store, number=number)):
            swept += gone
    return swept


def _sweep(writer: Writer, store: GrainStore, number: bytes) -> int:
    free = (
        seq
        for seq in blind_index.seqs_of(writer, number)
        if writer.row(HOLDS, SEQUENCE.pack(seq)) is None
    )
    removed = removal.remove_grains(
        writer, context_of(store).settings, islice(free, _PAGE), reason_code="key_destroyed"
    )
    if removed:
        context_of(store).note(writer, "erase", removed, reason_code="key_destroyed")
    return len(removed)
