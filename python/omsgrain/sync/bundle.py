# SPDX-License-Identifier: Apache-2.0
"""Sync by file, for machines without a network: write the news, import it elsewhere, answer.

    write_bundle(peer_of_a, "a.mg")                     everything, for any store
    take_bundle("a.mg", peer_of_b)
    write_bundle(peer_of_b, "b.mg", answers="a.mg")     what a lacks, and how far b has read a
    take_bundle("b.mg", peer_of_a)
    write_bundle(peer_of_a, "a2.mg", answers="b.mg")    only what is new since

A file names the store it comes from, the store it is for, and the part of the feed that it covers.
Importing it twice changes nothing. The import refuses a file for another store, and one that skips
a part of the feed: grains would be missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
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
from omsgrain.sync import protocol
from omsgrain.sync.local import LocalPeer
from omsgrain.sync.peer import (
    EVERYTHING,
    GRAINS,
    ID,
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
)
from omsgrain.sync.reconcile import NamespaceScope, listed
from omsgrain.sync.run import (
    Count,
    OnProgress,
    Passed,
    Step,
    SyncReport,
    by_keys,
    check_version,
    onward,
    whole,
    would_store,
)

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.trust import Trust

T = TypeVar("T", "BundleHead", "BundleTail", "Batch")

VERSION: Final = 1
"""The version of the file format."""
_PART: Final = 512 << 10  # bytes of a value in one record: a grain has at most 1 MiB
_PARTS: Final = 64
_MOST_KEYS = 1_000
_BATCH: Final = 256 << 20  # bytes of grains: SIZE, and a grain of 1 MiB for each of its signers

_Kind = Literal["head", "batch", "tail"]


@dataclass(frozen=True, slots=True)
class BundleHead:
    """The head of a file."""

    version: int  # the version of the file format
    store: bytes  # the id of the store that wrote it; empty if it has none
    # the id of the store that it is for; grains from that store are left out. Empty: any store.
    to: bytes
    namespaces: tuple[str, ...] | None  # only grains of these; None: all
    since: Position  # it contains everything after this position in the feed
    from_start: bool  # it begins from the start, since the history of the store changed
    taken: Position | None  # how far the store has read the feed of the store that this is for
    tombstones: bytes  # the digest of its tombstones; empty without any
    # the digest of the tombstones of the store that this is for, when all were read
    followed: bytes
    keys: tuple[bytes, ...]  # the keys of tombstones, with ``share_keys``
    written: int  # the time, ms since 1970


@dataclass(frozen=True, slots=True)
class BundleTail:
    """The end of a file."""

    until: Position  # it contains everything up to this position
    batches: int  # the number of batches
    grains: int  # the number of grains in all batches


def write_file(
    path: Path, head: BundleHead, batches: Iterable[Batch]
) -> tuple[WrittenContainer, BundleTail]:
    """Write a file, in several parts if it is too large for one."""
    tails: list[BundleTail] = []

    def records() -> Iterator[bytes]:
        tail = BundleTail(head.since, 0, 0)
        yield from _records("head", head, head.written)
        for batch in batches:
            rest = replace(batch, grains=())
            yield from _records("batch", rest, head.written, len(batch.grains))
            yield from batch.grains
            until = tail.until if batch.until is None else batch.until
            tail = BundleTail(until, tail.batches + 1, tail.grains + len(batch.grains))
        tails.append(tail)
        yield from _records("tail", tail, head.written)

    written = container.write(path, records(), codec="zstd", check=False)
    return written, tails[0]


def _records(
    kind: _Kind, value: BundleHead | BundleTail | Batch, at: int, grains: int = 0
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
    """An open file; every byte and every count is verified."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._files: list[container.Container] = []
        try:
            for part in container.parts(path):
                self._files.append(container.read(part))
                self._files[-1].verify()
            if (first := next(self._grains(), None)) is None or not is_sync_record(first):
                raise SchemaError("this .mg file was not written by a sync", expected=SYNC_TYPE)
            self.head: BundleHead = _BundleReader(self._grains()).record("head", BundleHead)[0]
            for _ in self.batches():  # verify all before the first batch is used
                pass
        except BaseException:
            self.close()
            raise

    def signer(self, trust: Trust | None = None, resolver: Resolver | None = None) -> str | None:
        """Return the signer of the whole file; arguments and errors are those of ``signer_of``."""
        from omsgrain.crypto.detached import signer_of

        return signer_of(((one.path, one.inside.data) for one in self._files), trust, resolver)

    def batches(self) -> Iterator[Batch]:
        reading = _BundleReader(self._grains())
        reading.record("head", BundleHead)
        seen = BundleTail(self.head.since, 0, 0)
        while reading.next_kind() == "batch":
            batch, count = reading.record("batch", Batch)
            if batch.grains or (batch.store, batch.namespaces) != (
                self.head.store,
                self.head.namespaces,
            ):
                raise CorruptError("a batch belongs to another file")
            batch = replace(batch, grains=reading.grains(count))
            until = seen.until if batch.until is None else batch.until
            seen = BundleTail(until, seen.batches + 1, seen.grains + count)
            yield batch
        tail, _ = reading.record("tail", BundleTail)
        if tail != seen or reading.next_kind() is not None:
            raise CorruptError("the counts at the end of the file are wrong")

    def close(self) -> None:
        while self._files:
            self._files.pop().close()

    def __enter__(self) -> BundleFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _grains(self) -> Iterator[bytes]:
        return chain.from_iterable(self._files)


class _BundleReader:
    """Reads the records and grains of a file."""

    def __init__(self, grains: Iterator[bytes]) -> None:
        self._grains = grains
        self._ahead: bytes | None = next(grains, None)

    def next_kind(self) -> str | None:
        """The kind of the next record; None at the end."""
        if self._ahead is None:
            return None
        return str(_fields(self._ahead).get("record"))

    def record(self, kind: _Kind, cls: type[T]) -> tuple[T, int]:
        """Read a record; return it and how many grains follow."""
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
                and 0 <= grains <= GRAINS
                and isinstance(many, int)
                and len(parts) < many <= _PARTS
            ):
                raise CorruptError("a record has the wrong kind", expected=kind)
            parts.append(value)
            self._ahead = next(self._grains, None)
            if len(parts) == many:
                return _value(cls, b"".join(parts)), grains

    def grains(self, count: int) -> tuple[bytes, ...]:
        found: list[bytes] = []
        size = 0
        for _ in range(count):
            if self._ahead is None:
                raise CorruptError("grains of a batch are missing")
            if is_sync_record(self._ahead):
                raise CorruptError("a record where a grain is expected")
            size += len(self._ahead)
            if size > _BATCH:
                expected = f"at most {_BATCH} bytes of grains"
                raise TooLargeError("the batch is too large", expected=expected)
            found.append(self._ahead)
            self._ahead = next(self._grains, None)
        return tuple(found)


def _fields(blob: bytes) -> dict[str, object]:
    if not is_sync_record(blob):
        raise CorruptError("a grain where a record is expected")
    fields: dict[str, object] = _core.decode(blob)
    return fields


def _value(cls: type[T], data: bytes) -> T:
    if cls is BundleHead and data[1:2] != bytes([VERSION]):  # the version is its first field
        raise UnsupportedError("another version of sync files", expected=str(VERSION))
    value = protocol.unpack_value(cls, data)
    if isinstance(value, BundleHead):
        protocol.check((value.since, value.taken or value.since))
        protocol.check_count(value.keys, _MOST_KEYS)
        if any(len(one) not in (0, ID) for one in (value.store, value.to)):
            raise CorruptError("not the id of a store")
    elif isinstance(value, BundleTail):
        protocol.check(value.until)
    else:
        protocol.check(value)
    return value


UNSIGNED: Final[tuple[Right, ...]] = ("grains", "states")
"""The rights of a file without a trusted signature."""

_SUFFIX = ".mg"


def is_bundle(text: str) -> bool:
    """Whether this side of a sync is a file, by its name."""
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
    """Write what a store has and another lacks to a file.

    Args:
        peer: The store.
        path: The file; an existing one is replaced at the end.
        answers: A file from the other store; the new file leaves out what that store has. Without
            it the file contains everything, for any store.
        namespaces: Only grains of these; by default those of ``answers``.
        full: Write from the start, even if the other store has read some.
        share_keys: Include the keys of tombstones, so that the other store can apply erasures.
            Anyone with the file can then test names against tombstones.
        dry_run: Write nothing; count what would be written.
        progress: Called after each batch.
        clock: Returns the time in ms since 1970.

    Raises:
        SchemaError: ``answers`` came from this store, or answers another; or has other namespaces.
        OmsError: ``answers`` is torn, changed, or not a sync file.
        StoreError: The store cannot be read, or the file cannot be written.
    """
    names = NamespaceScope(namespaces).namespaces
    greeting = peer.hello(Hello(b"", names))
    _check(greeting, "give")
    other, since = b"", START
    known: tuple[bytes, ...] = (b"",)
    if answers is not None:
        with BundleFile(answers) as file:
            answered = file.head
        _check_answer(answered, greeting, names, given=namespaces is not None)
        other, names, since = answered.store, answered.namespaces, answered.taken or START
        if not full:
            known = (b"", answered.tombstones, answered.followed)
    hello = Hello(other, names)
    if other:
        greeting = peer.hello(hello)
    first = peer.changes(START if full else since, hello)
    from_start = not first.known
    if full or from_start:
        since = START
    if from_start:
        first = peer.changes(START, hello)
    head = BundleHead(
        VERSION,
        greeting.store,
        other,
        names,
        since,
        from_start,
        greeting.seen,
        greeting.tombstones,
        greeting.followed,
        peer.tombstones(()) if share_keys else (),
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
    """Import a file into a store; each batch is a commit.

    You can repeat an interrupted import. The states in the file are claims.

    Args:
        path: The file, or the common name of its parts.
        peer: The store.
        rights: What the file may change. By default everything with a trusted signature, and
            grains and states without one. Only signed files end holds.
        trust: DIDs, or files of public keys. One of them must have signed the file, as
            ``FILE.sig``.
        trust_state_from: DIDs, or files of public keys. If one of them signed the file, its
            verification statuses are accepted.
        resolver: Finds the key of a DID other than did:key.
        dry_run: Change nothing; count the grains that would be new.
        progress: Called after each batch.

    Raises:
        SignatureError: The file has no trusted signature, or one that does not verify.
        SchemaError: The file came from this store, is for another one, or skips a part of the
            feed; or ``rights`` let an unsigned file end holds.
        OmsError: The file is torn, changed, or not a sync file; nothing was imported.
        StoreError: The store is read-only, full or broken; batches written before stay.
    """
    with BundleFile(path) as file:
        terms = _terms(file, rights, list(trust), list(trust_state_from), resolver)
        if isinstance(peer, LocalPeer):
            peer = peer.narrowed(terms)
        head = file.head
        greeting = peer.hello(Hello(head.store, head.namespaces))
        _check(greeting, None)
        _check_file(head, greeting)
        lets = terms.rights.intersection(greeting.rights)
        if head.keys and not dry_run and "erasures" in lets:
            peer.tombstones(head.keys)
        count = Count("sent", progress)
        for batch in file.batches():
            fresh = _fresh(batch, head, greeting.seen)
            if fresh is None:
                continue
            step: Step = "erasures" if batch.tombstones else "grains"
            fresh = _let(fresh, peer, terms.rights, lets, count)
            taken = would_store(peer, fresh) if dry_run else peer.put(fresh)
            count.add(step, taken, sum(map(len, fresh.grains)))
        return SyncReport(count.passed(), Passed(), dry_run)


def _terms(
    file: BundleFile,
    rights: Iterable[Right] | None,
    trust: Sequence[str | Path],
    trust_state_from: Sequence[str | Path],
    resolver: Resolver | None,
) -> PeerTerms:
    """Return the terms on which a file is imported; errors are those of ``take_bundle``."""
    from omsgrain.crypto.trust import Trust

    trusted, states = Trust.load(trust, resolver).keys, Trust.load(trust_state_from, resolver).keys
    signer = file.signer(Trust((*trusted, *states)), resolver)
    if trusted and signer not in {one.did for one in trusted}:
        raise SignatureError(
            "the file has no trusted signature",
            rule="signature_missing" if signer is None else "signature_untrusted",
        )
    may = frozenset((EVERYTHING if trusted else UNSIGNED) if rights is None else rights)
    if not may <= set(EVERYTHING):
        raise SchemaError("rights: unknown right", field="/rights", expected=", ".join(EVERYTHING))
    if "releases" in may and not trusted:
        raise SchemaError(
            "an unsigned file cannot end holds",
            field="/rights",
            expected="a signature of a trusted DID",
        )
    return PeerTerms(may, signer, signer is not None and signer in {one.did for one in states})


def _let(
    batch: Batch, peer: Peer, rights: frozenset[Right], lets: frozenset[Right], count: Count
) -> Batch:
    """Return the part of a batch that the rights allow; count each refused kind once."""
    refused: list[Literal["erasure", "grain", "hold"]] = []
    if batch.tombstones and "erasures" not in lets:
        refused.append("erasure")
        batch = replace(batch, tombstones=(), followed=b"")
    if batch.grains and "grains" not in lets:
        refused.append("grain")
        batch = replace(batch, grains=())
    if "holds" not in rights and any(state.holds for state in batch.states):
        refused.append("hold")
    count.refuse(tuple(Refusal(part, b"", UnsupportedError.code, "rights") for part in refused))
    if isinstance(peer, LocalPeer):
        return batch  # this peer checks the rest itself
    named = [state.address for state in batch.states if state.restricted]
    lacks = peer.missing(named[:ITEMS]) if named else b""
    new = {one for one, answer in zip(named, lacks, strict=False) if answer == LACKS}
    return replace(batch, states=tuple(_let_state(one, rights, new) for one in batch.states))


def _let_state(state: GrainState, rights: frozenset[Right], new: Collection[bytes]) -> GrainState:
    """Return the part of a state that the rights allow, for a peer without terms."""
    if "states" not in rights:
        state = replace(state, successors=(), valid_to=None, status="")
    if "restrictions" not in rights:
        state = replace(state, restricted=state.restricted % 2 if state.address in new else 0)
    holds = state.holds if "holds" in rights else ()
    if "releases" not in rights:
        holds = tuple(one for one in holds if one.epoch % 2)
    return replace(state, holds=holds)


def _check(greeting: Greeting, right: Right | None) -> None:
    """Refuse a store with another version, or without the right."""
    check_version(greeting)
    if right is None and not {*greeting.rights} - {"give"}:
        raise UnsupportedError("the store does not allow this", expected="grains")
    if right is not None and right not in greeting.rights:
        raise UnsupportedError("the store does not allow this", expected=right)


def _check_answer(
    head: BundleHead, greeting: Greeting, names: Sequence[str] | None, *, given: bool
) -> None:
    if head.store == greeting.store:
        raise SchemaError("the file came from this store", expected="a file from the other store")
    if not head.store:
        raise SchemaError("the store that wrote the file cannot remember what it read")
    if head.to not in (b"", greeting.store):
        raise SchemaError("the file answers another store")
    if given and names != head.namespaces:
        raise SchemaError("the file is of other namespaces", field="/namespaces")


def _check_file(head: BundleHead, greeting: Greeting) -> None:
    """Refuse a file that is not for this store, or skips a part of the feed."""
    if head.store and head.store == greeting.store:
        raise SchemaError("the file came from this store")
    if head.to not in (b"", greeting.store):
        raise SchemaError("the file is for another store")
    since, seen = head.since, greeting.seen
    if since == START:
        return
    if seen is None or seen.seq < since.seq or (seen.seq == since.seq and seen != since):
        raise SchemaError(
            "the file skips a part of the feed",
            expected="import first the files written before it",
        )


def _fresh(batch: Batch, head: BundleHead, seen: Position | None) -> Batch | None:
    """Return the batch to write; None if it was written before."""
    if batch.until is None or seen is None or head.from_start:
        return batch
    if head.since != START and batch.until.seq <= seen.seq:
        return None
    # A file from the start may be old: keep the later position.
    return replace(batch, until=None) if batch.until.seq < seen.seq else batch


def _batches(peer: Peer, hello: Hello, first: Batch, stones: bytes) -> Iterator[Batch]:
    """Yield all batches of a file: holds, then erasures, then the rows since."""
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
            for batch in onward(peer, first.until, hello):
                if batch.until or batch.grains or batch.states:  # the last may be empty
                    yield batch


def _all(peer: Peer, space: Literal["holds", "tombstones"], hello: Hello) -> Iterator[Batch]:
    """Yield all items of a kind, in batches."""
    yield from by_keys(peer, space, listed(peer, space, hello), hello)


def _counted(batches: Iterable[Batch], count: Count) -> Iterator[Batch]:
    for batch in batches:
        count.refuse(batch.withheld)
        stored, states, stones = map(len, (batch.grains, batch.states, batch.tombstones))
        step: Step = "erasures" if stones else "grains"
        taken = BatchResult(stored=stored, states=states, tombstones=stones)
        count.add(step, taken, sum(map(len, batch.grains)))
        yield replace(batch, withheld=(), rest=())
