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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omsgrain.engine.base import now
from omsgrain.errors import SchemaError, SignatureError, UnsupportedError
from omsgrain.sync import bundle_file, parts
from omsgrain.sync.asking import by_keys, onward, whole
from omsgrain.sync.bundle_file import BundleFile, Head, write_file
from omsgrain.sync.local import LocalPeer
from omsgrain.sync.peer import (
    EVERYTHING,
    ITEMS,
    LACKS,
    START,
    VERSION,
    Batch,
    GrainState,
    Greeting,
    Hello,
    Item,
    Peer,
    Position,
    Refusal,
    Right,
    Space,
    Taken,
    Terms,
)
from omsgrain.sync.report import Count, OnProgress, Passed, Step, SyncReport
from omsgrain.sync.scope import Scope

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver

__all__ = ["UNSIGNED", "is_bundle", "take_bundle", "write_bundle"]

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
    names = Scope(namespaces).namespaces
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
    head = Head(
        bundle_file.VERSION,
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
) -> Terms:
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
    return Terms(may, signer, signer is not None and signer in {one.did for one in states})


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
    lacks = peer.lacking("grains", [Item(one) for one in named[:ITEMS]]) if named else b""
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
    if greeting.version != VERSION:
        raise UnsupportedError(
            "another version of the rules of sync",
            expected=str(VERSION),
            found=str(greeting.version),
        )
    if right is None and not {*greeting.rights} - {"give"}:
        raise UnsupportedError("the store does not allow this", expected="grains")
    if right is not None and right not in greeting.rights:
        raise UnsupportedError("the store does not allow this", expected=right)


def _check_answer(
    told: Head, greeting: Greeting, names: Sequence[str] | None, *, given: bool
) -> None:
    if told.store == greeting.store:
        raise SchemaError("the file came from this store", expected="one that came from the other")
    if not told.store:
        raise SchemaError("the file came from a store that cannot remember what it took")
    if told.to not in (b"", greeting.store):
        raise SchemaError("the file answers another store")
    if given and names != told.namespaces:
        raise SchemaError("the file is of other namespaces", field="/namespaces")


def _check_file(head: Head, greeting: Greeting) -> None:
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


def _fresh(batch: Batch, head: Head, seen: Position | None) -> Batch | None:
    """What of a batch is to be taken; nothing of one that was."""
    if batch.until is None or seen is None or head.anew:
        return batch
    if head.since != START and batch.until.seq <= seen.seq:
        return None
    # A file from the start may be an old one: what was taken since stays remembered.
    return replace(batch, until=None) if batch.until.seq < seen.seq else batch


def _batches(peer: Peer, hello: Hello, first: Batch, stones: bytes) -> Iterator[Batch]:
    """All batches of a file: holds, so that no erasure passes one; erasures; what came since.

    Args:
        peer: the store.
        hello: whom the file is for.
        first: the first of what came since.
        stones: digest of all tombstones; nothing, if they are to stay out.
    """
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
        taken = Taken(stored=stored, states=states, tombstones=stones)
        count.add(step, taken, sum(map(len, batch.grains)))
        yield replace(batch, withheld=(), rest=())


def _tried(peer: Peer, batch: Batch) -> Taken:
    """What taking a batch would bring, as far as can be told without."""
    items = [Item(digest) for digest in dict.fromkeys(parts.digests(batch.grains))]
    new = 0
    for at in range(0, len(items), ITEMS):
        new += peer.lacking("grains", items[at : at + ITEMS]).count(LACKS)
    return Taken(stored=new, duplicates=len(items) - new)
