# SPDX-License-Identifier: Apache-2.0
"""One sync: who says what to whom, and in which order.

    greet, share    who is there; the keys of tombstones
    holds           both ways, so that no erasure passes one
    erasures        both ways
    grains, states  from where the other's feed was left; by ranges, where the histories differ

Each batch is one commit of who takes it. What is cut off is gone on from by the next sync.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omsgrain.errors import (
    ErasedError,
    NotFoundError,
    RangeError,
    SchemaError,
    UnsupportedError,
)
from omsgrain.sync.asking import by_keys, onward
from omsgrain.sync.comparing import lacked, shares_none
from omsgrain.sync.peer import (
    LACKS,
    START,
    VERSION,
    Batch,
    Greeting,
    Hello,
    Item,
    Peer,
    Refusal,
    Right,
    Space,
    Taken,
)
from omsgrain.sync.report import Count, Direction, OnProgress, Step, SyncReport
from omsgrain.sync.scope import Scope

__all__ = ["sync"]


def sync(
    source: Peer,
    target: Peer,
    *,
    namespaces: Iterable[str] | None = None,
    direction: Direction = "both",
    full: bool = False,
    dry_run: bool = False,
    progress: OnProgress | None = None,
) -> SyncReport:
    """Bring two stores together: what one has and the other has not, and what became of it.

    It can be cut off at any point, and run again: what was taken by then is not sent again.

    Args:
        source: one side, such as a robot's store.
        target: the other, such as a hub.
        namespaces: only grains of these; ``robots:*`` is all that begin with ``robots:``.
        direction: ``both``, ``push`` to the target, or ``pull`` from it.
        full: compare the stores, even if the feed of each could be gone on from: it offers again
            what was refused, and finds what was deleted.
        dry_run: change nothing, and tell how many grains would cross. Ids are made where there
            are none yet, what was cut off before is finished, and a store notes in its audit trail
            what it gave to be counted, unless its peer was told not to.
        progress: called after each batch.

    Raises:
        SchemaError: an unknown direction or a bad choice of namespaces; or both sides are one
            store.
        UnsupportedError: the sides speak different versions, or one gives or takes nothing.
        StoreError: a store is read-only, full or broken; what was taken by then stays.

    Spec: OMS §9
    """
    if direction not in ("both", "push", "pull"):
        raise SchemaError("no such direction", field="/direction", expected="both, push or pull")
    scope = Scope(namespaces)
    first = source.greet(Hello(b"", scope.namespaces))
    theirs = target.greet(Hello(first.store, scope.namespaces))
    ours = source.greet(Hello(theirs.store, scope.namespaces))
    _check(ours, theirs)
    left = _Side(source, ours, Hello(ours.store, scope.namespaces))
    right = _Side(target, theirs, Hello(theirs.store, scope.namespaces))
    sent, received = Count("sent", progress), Count("received", progress)
    passes = []
    if direction != "pull":
        passes.append(_Pass(left, right, sent, dry_run))
    if direction != "push":
        passes.append(_Pass(right, left, received, dry_run))
    for one in passes:
        one.check()
    if not dry_run and (ours.keys != theirs.keys or not ours.keys):
        _share(left, right, sent)
    if any(one.has_erasures(full) for one in passes):
        for one in passes:
            one.holds()
        for one in passes:
            one.erasures(full)
    for one in passes:
        one.look(full)
    for one in passes:
        one.grains()
    return SyncReport(sent.passed(), received.passed(), dry_run)


def _check(ours: Greeting, theirs: Greeting) -> None:
    for one in (ours, theirs):
        if one.version != VERSION:
            raise UnsupportedError(
                "another version of the rules of sync",
                expected=str(VERSION),
                found=str(one.version),
            )
    if ours.store and ours.store == theirs.store:
        raise SchemaError("a store does not sync with itself, nor with a copy of its own file")


_LIVING: frozenset[Right] = frozenset(("grains", "states", "restrictions", "holds"))
"""Rights to bring what is not erased."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a sync.

    Attributes:
        peer: what answers.
        greeting: what it said first.
        hello: how it says who it is.
    """

    peer: Peer
    greeting: Greeting
    hello: Hello


def _share(left: _Side, right: _Side, count: Count) -> None:
    """Let each side know the other's erasures; where there were none, one key serves both."""
    before = left.peer.share(()) if left.greeting.keys else ()
    theirs = right.peer.share(before)
    mine = left.peer.share(theirs)
    erases = all("erasures" in side.greeting.rights for side in (left, right))
    if erases and theirs and mine and not {*before, *mine} <= {*theirs}:
        count.refuse((Refusal("erasure", b"", RangeError.code),))


class _Pass:
    """What goes one way.

    Args:
        giver: from where.
        taker: where to.
        count: of what goes.
        dry_run: change nothing.
    """

    def __init__(self, giver: _Side, taker: _Side, count: Count, dry_run: bool) -> None:
        self._giver, self._taker, self._count = giver, taker, count
        self._dry_run = dry_run
        self._rights = frozenset(taker.greeting.rights)
        self._linear = False

    def check(self) -> None:
        """Refuse to begin what cannot end.

        Raises:
            UnsupportedError: one side gives nothing, or the other takes nothing.
        """
        if "give" not in self._giver.greeting.rights:
            raise UnsupportedError("a store does not let its grains be read", expected="give")
        if not self._rights - {"give"}:
            raise UnsupportedError("a store takes nothing", expected="grains")

    def holds(self) -> None:
        """Bring holds, so that they are there before erasures come."""
        if "holds" in self._rights and not self._dry_run:
            self._bring("holds", "holds", self._lacked("holds"))

    def has_erasures(self, full: bool) -> bool:
        """Whether the giver may have erased what the taker does not know of."""
        mine, theirs = self._giver.greeting, self._taker.greeting
        known = () if full else (theirs.followed,)
        told = mine.tombstones not in (b"", theirs.tombstones, *known)
        return told and "erasures" in self._rights

    def erasures(self, full: bool) -> None:
        """Bring tombstones."""
        if not self.has_erasures(full):
            return
        items = self._lacked("tombstones")
        if self._dry_run:
            self._count.add("erasures", Taken(tombstones=len(items)))
            return
        self._bring("tombstones", "erasures", items)
        given = self._giver
        if given.greeting.store:
            end = Batch(given.greeting.store, given.hello.namespaces)
            self._take("erasures", replace(end, followed=given.greeting.tombstones))

    def look(self, full: bool) -> None:
        """Find out if the feed can be followed, before grains cross: they would be in both."""
        self._linear = bool(self._rights & _LIVING) and not full and self._is_linear()

    def grains(self) -> None:
        """Bring grains with their states."""
        if self._rights & _LIVING and not (self._linear and self._follow()):
            self._compare()

    def _is_linear(self) -> bool:
        """Whether the feed can be gone on from, or followed from its start."""
        giver, taker = self._giver, self._taker
        if not self._is_known():
            return False
        if taker.greeting.seen is not None:
            return True
        if not (taker.greeting.grains and giver.greeting.grains):
            return True  # a new robot must not make its hub look at all it has
        return shares_none(giver.peer, taker.peer, giver.greeting.grains, taker.hello)

    def _is_known(self) -> bool:
        """Whether the taker still has what the giver took from it, and so need not be given.

        It has not if it was restored from a backup.
        """
        seen = self._giver.greeting.seen
        if seen is None or "give" not in self._rights:
            return True
        return self._taker.peer.changes(seen, self._giver.hello, 0).known

    def _follow(self) -> bool:
        """Go on from where the feed was left; False if that is not in it any more."""
        at = self._taker.greeting.seen or START
        for batch in onward(self._giver.peer, at, self._taker.hello):
            if not batch.known:
                return False
            self._offer("grains", batch)
        return True

    def _compare(self) -> None:
        """Find what differs, and bring that; then the feed can be gone on from."""
        self._count.compared = True
        end = self._giver.greeting.position
        waiting = self._bring("grains", "grains", self._lacked("grains"))
        while waiting:  # those that supersede others may have come before these
            found = self._bring("grains", "grains", [Item(key) for key in waiting])
            if len(found) >= len(waiting):
                break
            waiting = found
        if waiting:
            code = NotFoundError.code
            self._count.refuse(tuple(Refusal("grain", key, code) for key in waiting))
        if "grains" in self._rights:
            self._bring("signatures", "grains", self._lacked("signatures"))
        self._bring("states", "states", self._lacked("states"))
        given = self._giver
        if not self._dry_run and given.greeting.store:
            self._take("states", Batch(given.greeting.store, given.hello.namespaces, until=end))

    def _lacked(self, space: Space) -> list[Item]:
        giver, taker = self._giver, self._taker
        items, erased = lacked(giver.peer, taker.peer, space, taker.hello, giver.hello)
        code = ErasedError.code
        self._count.refuse(tuple(Refusal("grain", key, code) for key in erased))
        return items

    def _bring(self, space: Space, step: Step, items: Sequence[Item]) -> list[bytes]:
        """Bring items by their keys; those that wait for others."""
        if space == "grains" and self._dry_run:
            self._count.add(step, Taken(stored=len(items)))
            return []
        if self._dry_run:
            return []
        keys = [item.key for item in items]
        batches = by_keys(self._giver.peer, space, keys, self._taker.hello)
        return [one for batch in batches for one in self._offer(step, batch)]

    def _offer(self, step: Step, batch: Batch) -> tuple[bytes, ...]:
        """Give a batch to the taker, without what it does not take; those that wait."""
        self._count.refuse(batch.withheld)
        rights = self._rights
        batch = replace(
            batch,
            grains=batch.grains if "grains" in rights else (),
            states=batch.states if rights & {"states", "holds", "restrictions"} else (),
            withheld=(),
            rest=(),
        )
        if self._dry_run:
            return self._try(batch)
        if batch.grains or batch.states or batch.tombstones or batch.until is not None:
            return self._take(step, batch).waiting
        return ()

    def _take(self, step: Step, batch: Batch) -> Taken:
        taken = self._taker.peer.take(batch)
        self._count.add(step, taken, sum(map(len, batch.grains)))
        return taken

    def _try(self, batch: Batch) -> tuple[bytes, ...]:
        """Count what of a batch would be new."""
        from omsgrain.container.check import address

        digests = dict.fromkeys(bytes.fromhex(address(grain)) for grain in batch.grains)
        items = [Item(digest) for digest in digests]
        answers = self._taker.peer.lacking("grains", items) if items else b""
        new = answers.count(LACKS)
        size = sum(map(len, batch.grains))
        self._count.add("grains", Taken(stored=new, duplicates=len(items) - new), size)
        return ()
