# SPDX-License-Identifier: Apache-2.0
"""Sync by file, for machines without a network: write what is new, take it in elsewhere, answer.

    write_bundle(peer_of_a, "a.mg")                     everything, for any store
    take_bundle("a.mg", peer_of_b)
    write_bundle(peer_of_b, "b.mg", answers="a.mg")     what a has not, and how far b has taken a
    take_bundle("b.mg", peer_of_a)
    write_bundle(peer_of_a, "a2.mg", answers="b.mg")    only what is new since

A file says from which store it comes, for which it is, and which part of the feed it covers. One
that is taken twice changes nothing, one that comes too early is refused, and so is one for another
store: what it leaves out would be missing there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from omsgrain import _core, container
from omsgrain.container.write import WrittenContainer
from omsgrain.errors import (
    CorruptError,
    SchemaError,
    SignatureError,
    TooLargeError,
    UnsupportedError,
)
from omsgrain.grain import encode
from omsgrain.store.context import now
from omsgrain.store.prepared import SYNC_BYTE, SYNC_TYPE, is_sync_record
from omsgrain.sync import parts, peer, protocol
from omsgrain.sync.local import LocalPeer
from omsgrain.sync.parts import NamespaceScope
from omsgrain.sync.peer import (
    EVERYTHING,
    ITEMS,
    LACKS,
    START,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    Peer,
    PeerTerms,
    Position,
    Refusal,
    Right,
    Space,
    SyncItem,
)
from omsgrain.sync.peer import VERSION as peer_VERSION
from omsgrain.sync.run import Count, OnProgress, Passed, Step, SyncReport, by_keys, onward, whole

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.trust import Trust

T = TypeVar("T", "BundleHead", "Tail", "Batch")

VERSION: Final = 1
"""Of the file."""
_PART: Final = 512 << 10  # bytes of a value in one record: a grain has at most 1 MiB
_PARTS: Final = 64
_MOST_KEYS = 1_000
_BATCH: Final = (
    256 << 20
)  # bytes of its grains: SIZE, and a grain of 1 MiB for each of its signers

_Kind = Literal["head", "batch", "tail"]


@dataclass(frozen=True, slots=True)
class BundleHead:
    """What a file says of itself first.

    Attributes:
        version: of the file.
        store: id of the store that it comes from; nothing of one that has none.
        to: id of the store that it is for: what came from there is left out. Nothing: for any.
        namespaces: it has only grains of these; None: of all.
        since: the position in the feed of the store from which on it has everything.
        anew: it begins from the start, since the feed is not the one that was taken before.
        taken: how far the store has taken the feed of the one that this is for.
        tombstones: digest of its tombstones; nothing without any.
        followed: digest of those of the one that this is for, when all were taken.
        keys: of tombstones, if they were to go along.
        written: when, ms since 1970.
    """

    version: int
    store: bytes
    to: bytes
    namespaces: tuple[str, ...] | None
    since: Position
    anew: bool
    taken: Position | None
    tombstones: bytes
    followed: bytes
    keys: tuple[bytes, ...]
    written: int


@dataclass(frozen=True, slots=True)
class Tail:
    """What a file says of itself last.

    Attributes:
        until: the position up to which it has everything.
        batches: how many there are.
        grains: how many are in them.
    """

    until: Position
    batches: int
    grains: int


def write_file(
    path: Path, head: BundleHead, batches: Iterable[Batch]
) -> tuple[WrittenContainer, Tail]:
    """Write a file, or several parts of it if one cannot hold all."""
    tails: list[Tail] = []

    def records() -> Iterator[bytes]:
        tail = Tail(head.since, 0, 0)
        yield from _records("head", head, head.written)
        for batch in batches:
            told = replace(batch, grains=())
            # An older store may have taken a record as a grain: among grains none is readable.
            grains = [grain for grain in batch.grains if not is_sync_record(grain)]
            yield from _records("batch", told, head.written, len(grains))
            yield from grains
            until = tail.until if batch.until is None else batch.until
            tail = Tail(until, tail.batches + 1, tail.grains + len(grains))
        tails.append(tail)
        yield from _records("tail", tail, head.written)

    written = container.write(path, records(), codec="zstd", check=False)
    return written, tails[0]


def _records(
    kind: _Kind, value: BundleHead | Tail | Batch, at: int, grains: int = 0
) -> Iterator[bytes]:
    data = protocol.pack_value(value)
    parts = [data[i : i + _PART] for i in range(0, len(data), _PART)]
    for number, part in enumerate(parts):
        fields = {
            "type": SYNC_TYPE,
            "created_at": at,
            "record": kind,
            "value": part,
            "part": number,
            "of": len(parts),
            "grains": grains if number == len(parts) - 1 else 0,
        }
        yield encode(fields, type_byte=SYNC_BYTE)


class BundleFile:
    """A file that was opened; every byte of it was verified, and every count."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._files: list[container.Container] = []
        try:
            for part in container.parts(path):
                self._files.append(container.read(part))
                self._files[-1].verify()
            if (first := next(self._grains(), None)) is None or not is_sync_record(first):
                raise SchemaError("a .mg file, and none of a sync", expected=SYNC_TYPE)
            self.head: BundleHead = _BundleReader(self._grains()).record("head", BundleHead)[0]
            for _ in self.batches():  # all of it is sound before the first batch is used
                pass
        except BaseException:
            self.close()
            raise

    def signer(self, trust: Trust | None = None, resolver: Resolver | None = None) -> str | None:
        """Return who has signed every byte of it; arguments and errors as of ``signer_of``."""
        from omsgrain.crypto.detached import signer_of

        return signer_of(((one.path, one.inside.data) for one in self._files), trust, resolver)

    def batches(self) -> Iterator[Batch]:
        """Walk its batches."""
        reading = _BundleReader(self._grains())
        reading.record("head", BundleHead)
        seen = Tail(self.head.since, 0, 0)
        while reading.next_kind() == "batch":
            batch, count = reading.record("batch", Batch)
            if batch.grains or (batch.store, batch.namespaces) != (
                self.head.store,
                self.head.namespaces,
            ):
                raise CorruptError("a batch of another file")
            batch = replace(batch, grains=reading.grains(count))
            until = seen.until if batch.until is None else batch.until
            seen = Tail(until, seen.batches + 1, seen.grains + count)
            yield batch
        tail, _ = reading.record("tail", Tail)
        if tail != seen or reading.next_kind() is not None:
            raise CorruptError("the end of the file does not fit what stands before")

    def close(self) -> None:
        """Let go of it."""
        while self._files:
            self._files.pop().close()

    def __enter__(self) -> BundleFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _grains(self) -> Iterator[bytes]:
        return chain.from_iterable(self._files)


class _BundleReader:
    """A walk through the records and grains of a file."""

    def __init__(self, grains: Iterator[bytes]) -> None:
        self._grains = grains
        self._ahead: bytes | None = next(grains, None)

    def next_kind(self) -> str | None:
        """The kind of the record that comes next; None at the end."""
        if self._ahead is None:
            return None
        return str(_fields(self._ahead).get("record"))

    def record(self, kind: _Kind, cls: type[T]) -> tuple[T, int]:
        """The next record, and how many grains follow it."""
        parts: list[bytes] = []
        many: object = None
        while True:
            if self._ahead is None:
                raise CorruptError("the end of the file is missing", expected=kind)
            fields = _fields(self._ahead)
            value, grains = fields.get("value"), fields.get("grains")
            many = many if parts else fields.get("of")
            place = (kind, len(parts), many)
            if (fields.get("record"), fields.get("part"), fields.get("of")) != place or not (
                isinstance(value, bytes)
                and isinstance(grains, int)
                and 0 <= grains <= peer.GRAINS
                and isinstance(many, int)
                and len(parts) < many <= _PARTS
            ):
                raise CorruptError("a record of another kind", expected=kind)
            parts.append(value)
            self._ahead = next(self._grains, None)
            if len(parts) == many:
                return _value(cls, b"".join(parts)), grains

    def grains(self, count: int) -> tuple[bytes, ...]:
        """So many grains."""
        found: list[bytes] = []
        size = 0
        for _ in range(count):
            if self._ahead is None:
                raise CorruptError("grains of a batch are missing")
            if is_sync_record(self._ahead):
                raise CorruptError("a record where a grain of a batch should stand")
            size += len(self._ahead)
            if size > _BATCH:
                expected = f"at most {_BATCH} bytes of grains"
                raise TooLargeError("a batch is larger than is taken", expected=expected)
            found.append(self._ahead)
            self._ahead = next(self._grains, None)
        return tuple(found)


def _fields(blob: bytes) -> dict[str, object]:
    if not is_sync_record(blob):
        raise CorruptError("a grain where a record should stand")
    fields: dict[str, object] = _core.decode(blob)
    return fields


def _value(cls: type[T], data: bytes) -> T:
    if cls is BundleHead and data[1:2] != bytes([VERSION]):  # its first field
        raise UnsupportedError("a file of another version of sync", expected=str(VERSION))
    value = protocol.unpack_value(cls, data)
    if isinstance(value, BundleHead):
        peer.check((value.since, value.taken or value.since))
        peer.check_count(value.keys, _MOST_KEYS)
        if any(len(one) not in (0, peer.ID) for one in (value.store, value.to)):
            raise CorruptError("not the id of a store")
    elif isinstance(value, Tail):
        peer.check(value.until)
    else:
        peer.check(value)
    return value


UNSIGNED: Final[tuple[Right, ...]] = ("grains", "states")
"""What a file may bring that nobody who is trusted has signed."""

_SUFFIX = ".mg"
_LISTED: Final = 50 * ITEMS
_DIGITS = "0123456789abcdef"


def is_bundle(text: str) -> bool:
    """Whether one side of a sync is named as a file."""
    return text.lower().endswith(_SUFFIX) and "://" not in text


def write_bundle(
    peer: Peer,
    path: str | os.PathLike[str],
    *,
    answers: str | os.PathLike[str] | None = None,
    namespaces: Iterable[str] | None = None,
    full: bool = False,
    share_keys: bool = False,
    dry_run: bool = False,
    progress: OnProgress | None = None,
    clock: Callable[[], int] = now,
) -> SyncReport:
    """Write what a store has, and another has not, to a file.

    Args:
        peer: the store.
        path: the file; one that is there is replaced when all is written.
        answers: a file that came from the other store: what that has is left out. Without one,
            all there is goes along, for any store.
        namespaces: only grains of these; those of ``answers`` by default.
        full: from the start, even if the other store has taken some.
        share_keys: put the keys of tombstones in, so that the other store knows what was erased
            here. Who has the file can then try names against what was erased.
        dry_run: write nothing, and tell how much it would be.
        progress: called after each batch.
        clock: gives the time in ms since 1970.

    Raises:
        SchemaError: ``answers`` came from this store, or answers another; or has other namespaces.
        OmsError: ``answers`` is torn, changed, or no file of a sync.
        StoreError: the store cannot be read, or the file not written.
    """
    names = NamespaceScope(namespaces).namespaces
    greeting = peer.greet(Hello(b"", names))
    _check(greeting, "give")
    other, since = b"", START
    known: tuple[bytes, ...] = (b"",)
    if answers is not None:
        with BundleFile(answers) as file:
            told = file.head
        _check_answer(told, greeting, names, given=namespaces is not None)
        other, names, since = told.store, told.namespaces, told.taken or START
        if not full:
            known = (b"", told.tombstones, told.followed)
    hello = Hello(other, names)
    if other:
        greeting = peer.greet(hello)
    first = peer.changes(START if full else since, hello)
    anew = not first.known
    if full or anew:
        since = START
    if anew:
        first = peer.changes(START, hello)
    head = BundleHead(
        VERSION,
        greeting.store,
        other,
        names,
        since,
        anew,
        greeting.seen,
        greeting.tombstones,
        greeting.followed,
        peer.share(()) if share_keys else (),
        clock(),
    )
    count = Count("sent", progress)
    stones = b"" if greeting.tombstones in known else greeting.tombstones
    batches = _counted(_batches(peer, hello, first, stones), count)
    if dry_run:
        for _ in batches:
            pass
    else:
        write_file(Path(path), head, batches)
    return SyncReport(count.passed(), Passed(), dry_run)


def take_bundle(
    path: str | os.PathLike[str],
    peer: Peer,
    *,
    rights: Iterable[Right] | None = None,
    trust: Iterable[str | Path] = (),
    trust_state_from: Iterable[str | Path] = (),
    resolver: Resolver | None = None,
    dry_run: bool = False,
    progress: OnProgress | None = None,
) -> SyncReport:
    """Take a file into a store; each of its batches is a commit.

    Taking that was cut off can be run again. What the file says of states is a claim.

    Args:
        path: the file, or the name that its parts have in common.
        peer: the store.
        rights: what the file may bring. Without it a file that somebody who is trusted has signed
            may bring everything, and any other grains and states. Holds are ended by signed files
            alone.
        trust: DIDs, or files of public keys, one of which must have signed the file, as
            ``FILE.sig``.
        trust_state_from: DIDs, or files of public keys: that a grain was verified is believed if
            one of them has signed the file.
        resolver: finds the key of a DID that is no did:key.
        dry_run: change nothing, and tell how many grains would be new.
        progress: called after each batch.

    Raises:
        SignatureError: nobody who is trusted has signed it, or a signature does not hold.
        SchemaError: the file came from this store, is for another one, or goes on from what was
            not taken yet; or an unsigned one is to end holds.
        OmsError: it is torn, changed, or no file of a sync; nothing was taken.
        StoreError: the store is read-only, full or broken; what was taken by then stays.
    """
    with BundleFile(path) as file:
        terms = _terms(file, rights, list(trust), list(trust_state_from), resolver)
        if isinstance(peer, LocalPeer):
            peer = peer.narrowed(terms)
        head = file.head
        greeting = peer.greet(Hello(head.store, head.namespaces))
        _check(greeting, None)
        _check_file(head, greeting)
        lets = terms.rights.intersection(greeting.rights)
        if head.keys and not dry_run and "erasures" in lets:
            peer.share(head.keys)
        count = Count("sent", progress)
        for batch in file.batches():
            fresh = _fresh(batch, head, greeting.seen)
            if fresh is None:
                continue
            step: Step = "erasures" if batch.tombstones else "grains"
            fresh = _let(fresh, peer, terms.rights, lets, count)
            taken = _tried(peer, fresh) if dry_run else peer.take(fresh)
            count.add(step, taken, sum(map(len, fresh.grains)))
        return SyncReport(count.passed(), Passed(), dry_run)


def _terms(
    file: BundleFile,
    rights: Iterable[Right] | None,
    trust: Sequence[str | Path],
    trust_state_from: Sequence[str | Path],
    resolver: Resolver | None,
) -> PeerTerms:
    """On which terms a file is taken; errors as of ``take_bundle``."""
    from omsgrain.crypto.trust import Trust

    trusted, states = Trust.load(trust, resolver).keys, Trust.load(trust_state_from, resolver).keys
    signer = file.signer(Trust((*trusted, *states)), resolver)
    if trusted and signer not in {one.did for one in trusted}:
        raise SignatureError(
            "nobody who is trusted has signed the file",
            rule="signature_missing" if signer is None else "signature_untrusted",
        )
    may = frozenset((EVERYTHING if trusted else UNSIGNED) if rights is None else rights)
    if not may <= set(EVERYTHING):
        raise SchemaError("no such right", field="/rights", expected=", ".join(EVERYTHING))
    if "releases" in may and not trusted:
        raise SchemaError(
            "an unsigned file ends no hold",
            field="/rights",
            expected="one of those who are trusted",
        )
    return PeerTerms(may, signer, signer is not None and signer in {one.did for one in states})


def _let(
    batch: Batch, peer: Peer, rights: frozenset[Right], lets: frozenset[Right], count: Count
) -> Batch:
    """What of a batch its file may bring; what it may not is counted, once of each kind."""
    over: list[Refusal] = []
    if batch.tombstones and "erasures" not in lets:
        over.append(Refusal("erasure", b"", UnsupportedError.code, "rights"))
        batch = replace(batch, tombstones=(), followed=b"")
    if batch.grains and "grains" not in lets:
        over.append(Refusal("grain", b"", UnsupportedError.code, "rights"))
        batch = replace(batch, grains=())
    if "holds" not in rights and any(state.holds for state in batch.states):
        over.append(Refusal("hold", b"", UnsupportedError.code, "rights"))
    count.refuse(tuple(over))
    if isinstance(peer, LocalPeer):
        return batch  # it looks at the rest itself
    named = [state.address for state in batch.states if state.restricted]
    lacks = peer.lacking("grains", [SyncItem(one) for one in named[:ITEMS]]) if named else b""
    new = {one for one, answer in zip(named, lacks, strict=False) if answer == LACKS}
    return replace(batch, states=tuple(_let_state(one, rights, new) for one in batch.states))


def _let_state(told: GrainState, rights: frozenset[Right], new: Collection[bytes]) -> GrainState:
    """What of a state may be brought to a store that cannot know who brings it."""
    if "states" not in rights:
        told = replace(told, successors=(), valid_to=None, status="")
    if "restrictions" not in rights:
        told = replace(told, restricted=told.restricted % 2 if told.address in new else 0)
    holds = told.holds if "holds" in rights else ()
    if "releases" not in rights:
        holds = tuple(one for one in holds if one.turn % 2)
    return replace(told, holds=holds)


def _check(greeting: Greeting, right: Right | None) -> None:
    """See that a store has the same rules, and gives, or takes something at all."""
    if greeting.version != peer_VERSION:
        raise UnsupportedError(
            "another version of the rules of sync",
            expected=str(peer_VERSION),
            found=str(greeting.version),
        )
    if right is None and not {*greeting.rights} - {"give"}:
        raise UnsupportedError("the store does not allow this", expected="grains")
    if right is not None and right not in greeting.rights:
        raise UnsupportedError("the store does not allow this", expected=right)


def _check_answer(
    told: BundleHead, greeting: Greeting, names: Sequence[str] | None, *, given: bool
) -> None:
    if told.store == greeting.store:
        raise SchemaError("the file came from this store", expected="one that came from the other")
    if not told.store:
        raise SchemaError("the file came from a store that cannot remember what it took")
    if told.to not in (b"", greeting.store):
        raise SchemaError("the file answers another store")
    if given and names != told.namespaces:
        raise SchemaError("the file is of other namespaces", field="/namespaces")


def _check_file(head: BundleHead, greeting: Greeting) -> None:
    """See that a file is for this store, and comes in its turn."""
    if head.store and head.store == greeting.store:
        raise SchemaError("the file came from this store")
    if head.to not in (b"", greeting.store):
        raise SchemaError("the file is for another store, and leaves out what that one has")
    since, seen = head.since, greeting.seen
    if since == START:
        return
    if seen is None or seen.seq < since.seq or (seen.seq == since.seq and seen != since):
        raise SchemaError(
            "the file goes on from what was not taken here",
            expected="the files that were written before it, first",
        )


def _fresh(batch: Batch, head: BundleHead, seen: Position | None) -> Batch | None:
    """What of a batch is to be taken; nothing of one that was."""
    if batch.until is None or seen is None or head.anew:
        return batch
    if head.since != START and batch.until.seq <= seen.seq:
        return None
    # A file from the start may be an old one: what was taken since stays remembered.
    return replace(batch, until=None) if batch.until.seq < seen.seq else batch


def _batches(peer: Peer, hello: Hello, first: Batch, stones: bytes) -> Iterator[Batch]:
    """All batches of a file: holds, so that no erasure passes one; erasures; what came since."""
    if stones:
        yield from _all(peer, "holds", hello)
        late: Batch | None = None
        for batch in _all(peer, "tombstones", hello):
            if late is not None:
                yield replace(late, more=True)
            late = batch
        if late is not None:
            yield replace(late, more=False, followed=stones if late.store else b"")
    if first.until is not None:
        yield from whole(peer, first, hello)
        if first.more:
            yield from filter(_says, onward(peer, first.until, hello))


def _says(batch: Batch) -> bool:
    """Whether there is anything in a batch; the last of a feed may be empty."""
    return bool(batch.until or batch.grains or batch.states)


def _all(peer: Peer, space: Space, hello: Hello) -> Iterator[Batch]:
    """Everything of a kind, in batches."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        if peer.ranges(space, [prefix], hello)[0].count > _LISTED:
            waiting += [prefix + digit for digit in _DIGITS]
            continue
        keys = [item.key for item in peer.listing(space, [prefix], hello)]
        yield from by_keys(peer, space, keys, hello)


def _counted(batches: Iterable[Batch], count: Count) -> Iterator[Batch]:
    for batch in batches:
        count.refuse(batch.withheld)
        stored, states, stones = map(len, (batch.grains, batch.states, batch.tombstones))
        step: Step = "erasures" if stones else "grains"
        taken = BatchResult(stored=stored, states=states, tombstones=stones)
        count.add(step, taken, sum(map(len, batch.grains)))
        yield replace(batch, withheld=(), rest=())


def _tried(peer: Peer, batch: Batch) -> BatchResult:
    """What taking a batch would bring, as far as can be told without."""
    items = [SyncItem(digest) for digest in dict.fromkeys(parts.digests(batch.grains))]
    new = 0
    for at in range(0, len(items), ITEMS):
        new += peer.lacking("grains", items[at : at + ITEMS]).count(LACKS)
    return BatchResult(stored=new, duplicates=len(items) - new)
