# SPDX-License-Identifier: Apache-2.0
"""The state of a grain, in rows beside its blob, which never changes.

A row of states-0 is one byte of bits, which the index needs, and a MessagePack map with the rest:

    "s"  the addresses that superseded it, 32 bytes each, sorted
    "t"  system_valid_to, ms
    "x"  expires_at, ms

A grain with the default state has no row. Read counts and holds are in tables of their own, so
that writing one does not lose the other.

A row of removals-0 says which grains were removed together, by the number of the event:

    ranges of the grains' numbers, rising. Each is a LEB128 number: twice the gap after the range
    before, plus one if a second number follows, with how many more grains the range has

A grain that an event or a state names has an event of its own instead, with a mark in place of
its address; one that merely got too old takes its events along. So a batch of those leaves a few
bytes, however many grains it had. Its ranges have no gaps but for grains that are there: they may
cover numbers of events, and of grains that were removed before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgpack

from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.storage import blind_index, erasure_queue
from omsgrain.storage.tables import (
    COUNTERS,
    DELETED,
    EVENT,
    EVENTS,
    HOLDS,
    META,
    MODELS,
    REMOVALS,
    SEALED,
    SEQUENCE,
    SIGNATURES,
    STATES,
    SUPERSEDES,
    TOGGLES,
    VECTORS,
    VEILED,
    Table,
    event_of,
)

if TYPE_CHECKING:
    from omsgrain.storage.base import Reader, Writer

REMOVED_RECORD = b"removed"
SUPERSEDED, RETRACTED, RESTRICTED, CONTESTED, VERIFIED = 1, 2, 4, 8, 16
PAST = SUPERSEDED | RETRACTED | RESTRICTED
"""Bits of a grain that is not current."""
_ALL = PAST | CONTESTED | VERIFIED

Verification = Literal["unverified", "verified", "contested", "retracted"]

_STATUS: dict[str, int] = {
    "unverified": 0,
    "verified": VERIFIED,
    "contested": CONTESTED,
    "retracted": RETRACTED,
}
_NAMED: dict[int, Verification] = {_STATUS[name]: name for name in get_args(Verification)}
_STATUS_BITS = RETRACTED | CONTESTED | VERIFIED
_ADDRESS = 32
_LONG = 32  # bytes after the number in a key, at the most
_MODEL = 4  # bytes of a model's number in the keys of vectors-0


@dataclass(frozen=True, slots=True)
class GrainStatus:
    """The status of a grain.

    Attributes:
        superseded_by: the lowest address among its successors.
        system_valid_to: until when it was current in the store, ms since 1970.
        verification_status: "unverified", "verified", "contested" or "retracted".
        access_count: number of reads by users; reads that other processes have not written yet are
            missing.
        last_accessed_at: time of the last read, ms since 1970.
        held: whether a hold protects it from being superseded, deleted or erased.
        restricted: whether it is restricted: kept, but not found by queries.
        successors: the addresses that superseded it, sorted; several after a fork.
        expires_at: its end of life, ms since 1970: from then on no query finds it, and
            ``privacy.run_due`` removes it.

    Spec: OMS §5.6
    """

    superseded_by: str | None = None
    system_valid_to: int | None = None
    verification_status: Verification = "unverified"
    access_count: int = 0
    last_accessed_at: int | None = None
    held: bool = False
    restricted: bool = False
    successors: tuple[str, ...] = ()
    expires_at: int | None = None

    @property
    def bits(self) -> int:
        """The state as bits for the index."""
        bits = _STATUS[self.verification_status]
        if self.superseded_by is not None or self.successors:
            bits |= SUPERSEDED
        return bits | RESTRICTED if self.restricted else bits


def pack(state: GrainStatus) -> bytes | None:
    """Make the row of a state, without reads and holds; None for the default state."""
    rest: dict[str, Any] = {}
    successors = sorted(set(state.successors))
    if state.superseded_by != (successors[0] if successors else None):
        raise SchemaError("superseded_by must be the lowest successor", field="/superseded_by")
    if successors:
        rest["s"] = [bytes.fromhex(address) for address in successors]
    if state.system_valid_to is not None:
        rest["t"] = state.system_valid_to
    if state.expires_at is not None:
        rest["x"] = state.expires_at
    if not state.bits and not rest:
        return None
    packed: bytes = msgpack.packb(rest)
    return bytes([state.bits]) + packed


def unpack(row: bytes | None) -> GrainStatus:
    if row is None:
        return GrainStatus()
    try:
        bits, rest = row[0], msgpack.unpackb(row[1:])
        status = _NAMED[bits & _STATUS_BITS]
        found = rest.get("s", [])
        until, ends = rest.get("t"), rest.get("x")
        sound = (
            bits & ~_ALL == 0
            and bool(bits & SUPERSEDED) == bool(found)
            and set(map(type, found)) <= {bytes}  # fast for thousands of successors
            and set(map(len, found)) <= {_ADDRESS}
            and (until is None or type(until) is int)
            and (ends is None or type(ends) is int)
        )
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise IntegrityError("the state of a stored grain is damaged")
    successors = tuple(map(bytes.hex, found))
    return GrainStatus(
        superseded_by=successors[0] if successors else None,
        system_valid_to=until,
        verification_status=status,
        restricted=bool(bits & RESTRICTED),
        successors=successors,
        expires_at=ends,
    )


def removed_digests(reader: Reader) -> set[bytes]:
    return {
        EVENT.unpack(row)[2]
        for _, row in reader.rows(EVENTS)
        if len(row) == EVENT.size and row[:1] == DELETED
    }


def forget(writer: Writer, seqs: Sequence[int]) -> None:
    """Delete the rows about grains in all tables of life STATE, before their blobs."""
    keys = [SEQUENCE.pack(seq) for seq in seqs]
    for table in (SUPERSEDES, SIGNATURES, TOGGLES):
        for row in rows_about(writer, table, keys):
            writer.set_row(table, row, None)
    for key, row in writer.some_rows(STATES, keys).items():
        try:
            state = unpack(row)
        except IntegrityError:
            state = GrainStatus()  # damage must not prevent an erasure
        successors = state.successors
        if state.expires_at is not None:
            erasure_queue.expire(writer, SEQUENCE.unpack(key)[0], state.expires_at, None)
        for new in writer.find([bytes.fromhex(address) for address in successors]):
            if new is not None:
                writer.set_row(SUPERSEDES, SEQUENCE.pack(new) + key, None)
        writer.set_row(STATES, key, None)
    for table in (COUNTERS, HOLDS):
        for key in writer.some_rows(table, keys):
            writer.set_row(table, key, None)
    if sealed := writer.some_rows(SEALED, keys):
        blind_index.forget(writer, sealed)
    forget_vectors(writer, seqs)


def rows_about(reader: Reader, table: Table, keys: Sequence[bytes]) -> list[bytes]:
    """Return the keys of a table that begin with one of some rising numbers.

    A table without rows costs one look-up, however many numbers there are.
    """
    found: list[bytes] = []
    at = 0
    while at < len(keys):
        for row, _ in reader.rows(table, prefix=keys[at]):
            found.append(row)
        following = next(reader.rows(table, after=keys[at] + b"\xff" * _LONG), None)
        if following is None:
            break
        at = max(at + 1, bisect_left(keys, following[0][: SEQUENCE.size]))
    return found


def forget_vectors(
    writer: Writer, seqs: Sequence[int], models: Sequence[bytes] | None = None
) -> None:
    """Delete vectors of grains, and each model with its last vector."""
    for table in (VECTORS, VEILED):
        for model in list(_models(writer, table) if models is None else models):
            rows = [model + SEQUENCE.pack(seq) for seq in seqs]
            gone = [row for row in rows if writer.row(table, row) is not None]
            for row in gone:
                writer.set_row(table, row, None)
            left = (next(writer.rows(one, prefix=model), None) for one in (VECTORS, VEILED))
            if gone and not any(left):
                _forget_model(writer, int.from_bytes(model, "big"))


def _models(reader: Reader, table: Table) -> Iterator[bytes]:
    """Return the prefix of each model's keys, with one look-up per model."""
    vector = next(reader.rows(table), None)
    while vector is not None:
        model = vector[0][:_MODEL]
        yield model
        vector = next(reader.rows(table, after=model + b"\xff" * SEQUENCE.size), None)


def _forget_model(writer: Writer, number: int) -> None:
    for key, row in list(writer.rows(MODELS)):
        with suppress(ValueError, TypeError, KeyError):  # damaged
            if msgpack.unpackb(row)["id"] == number:
                writer.set_row(MODELS, key, None)


RESTRICTION: Final = b"r"
MOST: Final = 1 << 32
"""The highest number that is written: no hold changes so often."""
JUMP: Final = 1 << 16
"""How far a number from another store can exceed the local one."""
_HOLD = b"h"
_NAME = 16


def hold_of(authority: str) -> bytes:
    return _HOLD + sha256(authority.encode("utf-8")).digest()[:_NAME]


def toggle_epoch(reader: Reader, seq: int, what: bytes, on: bool) -> int:
    row = reader.row(TOGGLES, SEQUENCE.pack(seq) + what)
    return int(on) if row is None else _read(row)[0]


def flip(writer: Writer, seq: int, what: bytes, on: bool, name: str = "") -> None:
    """Count a start or an end, now."""
    at = toggle_epoch(writer, seq, what, not on) + 1
    put(writer, seq, what, at if at <= MOST else at - 2, name)


def taken(mine: int, theirs: int) -> int:
    """Return the epoch to continue with, given that of another store.

    If it is on there, it is on here too, even with an impossible number. An end is believed only
    with a possible number.
    """
    if theirs <= min(mine + JUMP, MOST):
        return max(mine, theirs)
    return mine + 1 if theirs % 2 and not mine % 2 else mine


def counted(number: int) -> int:
    """Return a stored number; an impossible one counts as the start."""
    return number if number <= MOST else 2 - number % 2


def is_sound(row: bytes) -> bool:
    """Whether this or an earlier version wrote a row."""
    try:
        return _parsed(row)[0] > 1
    except IntegrityError:
        return False


def put(writer: Writer, seq: int, what: bytes, at: int, name: str = "") -> None:
    value = msgpack.packb([at, name]) if at > 1 else None
    writer.set_row(TOGGLES, SEQUENCE.pack(seq) + what, value)


def named(reader: Reader, seq: int) -> Iterator[tuple[str, int]]:
    for _, row in reader.rows(TOGGLES, prefix=SEQUENCE.pack(seq) + _HOLD):
        at, name = _read(row)
        yield name, at


def _read(row: bytes) -> tuple[int, str]:
    at, name = _parsed(row)
    return counted(at), name


def _parsed(row: bytes) -> tuple[int, str]:
    try:
        at, name = msgpack.unpackb(row)
    except (ValueError, TypeError):
        at = name = None
    if type(at) is not int or at < 1 or type(name) is not str:
        raise IntegrityError("the row with the holds and restrictions of a grain is damaged")
    return at, name


Ranges: TypeAlias = "list[tuple[int, int]]"
"""The first and the last number of each range."""


_BEYOND = 1 << 64  # above all numbers
_JOINED = 65_536  # numbers in a row that earlier ones have joined


def add_removal(writer: Writer, seqs: Iterable[int], *, join: bool = False) -> None:
    """Write the row of grains that were just removed.

    With ``join``, ranges become one where no grain is left between them, and earlier rows that
    are not much longer become a part of it: a bounded history removes grains for ever. Whoever
    has read an earlier row reads its numbers again.
    """
    found = ranges(sorted(seqs))
    if not found:
        return
    if join:
        found = _without_gaps(writer, found)
        while (before := writer.last_row(REMOVALS)) is not None:
            with suppress(IntegrityError):  # `check` reports it
                earlier = ranges_of(before[1])
                size, more = _numbers_in(found), _numbers_in(earlier)
                if more <= 2 * size and size + more <= _JOINED:
                    writer.set_row(REMOVALS, before[0], None)
                    found = _without_gaps(writer, sorted([*earlier, *found]))
                    continue
            break
    writer.set_row(REMOVALS, SEQUENCE.pack(writer.next_number()), pack_ranges(found))


def _numbers_in(found: Ranges) -> int:
    return sum(last - first + 1 for first, last in found)


def _without_gaps(reader: Reader, found: Ranges) -> Ranges:
    """Join rising ranges between which there is no grain."""
    joined = found[:1]
    there = 0  # the first grain behind the last one of them
    for first, last in found[1:]:
        start, end = joined[-1]
        if there <= end:
            there = next((seq for seq, _ in reader.page(end, 1)), _BEYOND)
        if there >= first:
            joined[-1] = start, max(last, end)
        else:
            joined.append((first, last))
    return joined


def count_removed(writer: Writer, grains: int) -> None:
    """Add to the number of grains that left the store."""
    total = removed_count(writer) + grains
    writer.set_row(META, REMOVED_RECORD, SEQUENCE.pack(total))


def removed_count(reader: Reader) -> int:
    """Return how many grains left the store since it was made, for any reason."""
    row = reader.row(META, REMOVED_RECORD)
    return 0 if row is None else int.from_bytes(row, "big")


def ranges(seqs: Sequence[int]) -> Ranges:
    """Return the ranges of rising numbers."""
    found: Ranges = []
    for _, run in groupby(enumerate(seqs), lambda one: one[1] - one[0]):
        numbers = [seq for _, seq in run]
        found.append((numbers[0], numbers[-1]))
    return found


def pack_ranges(found: Ranges) -> bytes:
    row, before = bytearray(), 0
    for first, last in found:
        _add_number(row, 2 * (first - before) + (last > first))
        if last > first:
            _add_number(row, last - first)
        before = last + 1
    return bytes(row)


def ranges_of(row: bytes) -> Ranges:
    """Parse a row."""
    parsed = _numbers_of(row)
    found: Ranges = []
    before = 0
    for number in parsed:
        first = last = before + number // 2
        if number % 2:
            more = next(parsed, 0)
            if more == 0:
                raise _broken()
            last += more
        found.append((first, last))
        before = last + 1
    if not found or before > 1 << 63:
        raise _broken()
    return found


def removed_numbers(reader: Reader, after: int, upto: int) -> Iterator[int]:
    """Return the numbers of grains that events in ``(after, upto]`` removed, in any order."""
    for key, row in reader.rows(EVENTS, SEQUENCE.pack(after)):
        if SEQUENCE.unpack(key)[0] > upto:
            break
        kind, seq, _ = event_of(row)
        if kind == DELETED:
            yield seq
    for number, found in removal_batches(reader, after):
        if number > upto:
            break
        for first, last in found:
            yield from range(first, last + 1)


def removal_batches(reader: Reader, after: int = 0) -> Iterator[tuple[int, Ranges]]:
    """Return the number of each batch after a number, and its ranges."""
    for key, row in reader.rows(REMOVALS, SEQUENCE.pack(after)):
        yield SEQUENCE.unpack(key)[0], ranges_of(row)


def _add_number(row: bytearray, number: int) -> None:
    while number > 0x7F:
        row.append(number & 0x7F | 0x80)
        number >>= 7
    row.append(number)


def _numbers_of(row: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in row:
        number |= (byte & 0x7F) << shift
        if byte > 0x7F:
            shift += 7
            if shift > 63:
                raise _broken()
        else:
            yield number
            number = shift = 0
    if shift or number:
        raise _broken()


def _broken() -> IntegrityError:
    return IntegrityError("a batch of removed grains is damaged")
