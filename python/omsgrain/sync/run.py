# SPDX-License-Identifier: Apache-2.0
"""A sync: the requests between two sides, in their order.

The other side can be any program: the sync fails if its responses make no progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from omsgrain.counts import counted
from omsgrain.errors import NotFoundError, RangeError, SchemaError, StoreError, UnsupportedError
from omsgrain.sync.batch import digests
from omsgrain.sync.peer import (
    ITEMS,
    KEY,
    LACKS,
    SHORT,
    START,
    VERSION,
    Batch,
    BatchResult,
    Greeting,
    Hello,
    Kind,
    Peer,
    Position,
    Refusal,
    Right,
    Space,
)
from omsgrain.sync.reconcile import NamespaceScope, differences, pays, short_keys, sorted_out

_PIECES = 10_000  # the most responses with a piece of one item


def by_keys(peer: Peer, kind: Kind, keys: Sequence[bytes], hello: Hello) -> Iterator[Batch]:
    """Request items by their keys; ``more`` of a batch says whether others follow."""
    left, pieces = list(keys), 0
    reached: dict[bytes, bytes] = {}
    while left:
        page, left = left[:ITEMS], left[ITEMS:]
        batch = peer.get(kind, page, hello)
        fresh = {*batch.rest} - {*page}
        asked = {key[:KEY]: key for key in page}
        pieces += bool(fresh)
        if {*page} <= {*batch.rest} or pieces > _PIECES:
            raise _endless()
        for key in fresh:  # a whole key for a short one, or a piece further on
            before = asked.get(key[:SHORT]) or asked.get(key[:KEY]) or reached.get(key[:KEY])
            if before is None and kind == "grains" and len(key) > KEY:
                before = key[:KEY]  # the state of a grain that a requested one superseded
            if before is None or key <= before:
                raise _endless()
            reached[key[:KEY]] = key
        left = [*batch.rest, *left]
        yield replace(batch, until=None, rest=(), more=bool(left))


def whole(peer: Peer, batch: Batch, hello: Hello) -> Iterator[Batch]:
    """Yield a batch of the feed and the items that did not fit; the last one has ``until``."""
    if not batch.rest:
        yield batch
        return
    yield replace(batch, until=None, rest=(), more=True)
    for part in by_keys(peer, "states", batch.rest, hello):
        yield replace(part, more=True)
    last = Batch(batch.store, batch.namespaces, until=batch.until, taken=batch.taken)
    yield replace(last, more=batch.more)


def onward(peer: Peer, at: Position, hello: Hello) -> Iterator[Batch]:
    """Read a feed from a position to its end; a batch without ``more`` is the last."""
    while True:
        batch = peer.changes(at, hello)
        if batch.until is not None and batch.until.seq <= at.seq:
            raise _endless()
        yield from whole(peer, batch, hello)
        if batch.until is None or not batch.more:
            return
        at = batch.until


def _endless() -> StoreError:
    return StoreError("the other store sends the same rows again and again")


Direction: TypeAlias = Literal["both", "push", "pull"]
"""``push``: from the source to the target; ``pull``: the other way; ``both``: first push."""

Way: TypeAlias = Literal["sent", "received"]

Step = Literal["holds", "erasures", "grains", "states"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a sync.

    Attributes:
        way: ``sent`` from the source to the target, or ``received``.
        step: The present step.
        grains: Grains sent in this direction so far.
        bytes: Their bytes.
    """

    way: Way
    step: Step
    grains: int
    bytes: int


OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Passed:
    """Counts of one direction.

    Attributes:
        grains: Grains that were new to the receiver; in a dry run, those that would be.
        duplicates: Grains that it had.
        bytes: Bytes of all grains that were sent.
        states: States that changed something.
        tombstones: New tombstones.
        erased: Grains removed because of them.
        unproven: Signatures whose signers could not be resolved.
        batches: Commits.
        compared: Whether the stores were compared by ranges; otherwise the feed was read.
        refused: Items that the receiver refused, or that a rule kept in the other store.
    """

    grains: int = 0
    duplicates: int = 0
    bytes: int = 0
    states: int = 0
    tombstones: int = 0
    erased: int = 0
    unproven: int = 0
    batches: int = 0
    compared: bool = False
    refused: tuple[Refusal, ...] = ()

    __repr__ = counted


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of a sync.

    Attributes:
        sent: From the source to the target.
        received: From the target to the source.
        dry_run: Nothing was changed.
    """

    sent: Passed = field(default_factory=Passed)
    received: Passed = field(default_factory=Passed)
    dry_run: bool = False

    __repr__ = counted

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """Items that either side refused or kept."""
        return (*self.sent.refused, *self.received.refused)

    @property
    def changed(self) -> bool:
        """Whether anything changed on either side."""
        return any(
            one.grains or one.states or one.tombstones or one.erased
            for one in (self.sent, self.received)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        return {
            "sent": _values(self.sent),
            "received": _values(self.received),
            "dry_run": self.dry_run,
        }


def _values(passed: Passed) -> dict[str, Any]:
    values = asdict(passed)
    values["refused"] = [
        {"part": one.part, "address": one.address.hex(), "code": one.code}
        | ({} if one.rule is None else {"rule": one.rule})
        for one in passed.refused
    ]
    return values


class Count:
    def __init__(self, way: Way, progress: OnProgress | None) -> None:
        self._way, self._progress = way, progress
        self._passed = Passed()
        self._refused: dict[tuple[str, bytes], Refusal] = {}
        self.compared = False

    def add(self, step: Step, taken: BatchResult, size: int = 0) -> None:
        passed = self._passed
        same = ("duplicates", "states", "tombstones", "erased", "unproven")
        passed = self._passed = replace(
            passed,
            grains=passed.grains + taken.stored,
            bytes=passed.bytes + size,
            batches=passed.batches + 1,
            **{name: getattr(passed, name) + getattr(taken, name) for name in same},
        )
        self.refuse(taken.refused)
        if self._progress is not None:
            moved = passed.grains + passed.duplicates
            self._progress(Progress(self._way, step, moved, passed.bytes))

    def refuse(self, refused: tuple[Refusal, ...]) -> None:
        """Count refusals, each once."""
        self._refused.update({(one.part, one.address): one for one in refused})

    def passed(self) -> Passed:
        refused = tuple(self._refused.values())
        return replace(self._passed, compared=self.compared, refused=refused)


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
    """Sync two stores: grains that one side lacks, their states, and erasures.

    You can repeat an interrupted sync; it does not write twice.

    Args:
        source: One side, such as a robot's store.
        target: The other side, such as a hub.
        namespaces: Only grains of these; ``robots:*`` matches all that begin with ``robots:``.
        direction: ``both``, ``push`` to the target, or ``pull`` from it.
        full: Compare the stores, even if reading the feeds would do. It offers refused grains
            again, and finds deleted ones.
        dry_run: Change nothing; count the grains that would be sent. It still creates the ids of
            the stores and finishes interrupted erasures. A store writes an audit entry for the
            grains that it sent, unless its peer has ``notes="never"``.
        progress: Called after each batch.

    Raises:
        SchemaError: An unknown direction, bad namespaces, or one store on both sides.
        UnsupportedError: The sides have different versions, or one sends or accepts nothing.
        StoreError: A store is read-only, full or broken; batches written before stay.

    Spec: OMS §9
    """
    if direction not in ("both", "push", "pull"):
        raise SchemaError("unknown direction", field="/direction", expected="both, push or pull")
    scope = NamespaceScope(namespaces)
    first = source.hello(Hello(b"", scope.namespaces))
    theirs = target.hello(Hello(first.store, scope.namespaces))
    ours = source.hello(Hello(theirs.store, scope.namespaces))
    for greeting in (ours, theirs):
        check_version(greeting)
    if ours.store and ours.store == theirs.store:
        raise SchemaError("both sides are the same store")
    left = _SyncParty(source, ours, Hello(ours.store, scope.namespaces))
    right = _SyncParty(target, theirs, Hello(theirs.store, scope.namespaces))
    sent, received = Count("sent", progress), Count("received", progress)
    comparison = _Comparison(left, right)
    passes = []
    if direction != "pull":
        passes.append(_Pass(left, right, comparison, sent, dry_run))
    if direction != "push":
        passes.append(_Pass(right, left, comparison, received, dry_run))
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


def check_version(greeting: Greeting) -> None:
    """Refuse a store with another version of the rules."""
    if greeting.version != VERSION:
        raise UnsupportedError(
            "the other side has another version of the sync rules",
            expected=str(VERSION),
            found=str(greeting.version),
        )


_LIVING: frozenset[Right] = frozenset(("grains", "states", "restrictions", "holds"))
"""Rights to write anything but erasures."""


class _SyncParty(NamedTuple):
    """One side of a sync: its first response, and how it introduces itself."""

    peer: Peer
    greeting: Greeting
    hello: Hello


def _share(left: _SyncParty, right: _SyncParty, count: Count) -> None:
    """Exchange the keys of tombstones; without any, both sides adopt one new key."""
    before = left.peer.tombstones(()) if left.greeting.keys else ()
    theirs = right.peer.tombstones(before)
    mine = left.peer.tombstones(theirs)
    erases = all("erasures" in side.greeting.rights for side in (left, right))
    if erases and theirs and mine and not {*before, *mine} <= {*theirs}:
        count.refuse((Refusal("erasure", b"", RangeError.code),))


class _Comparison:
    """The differences of two sides, found once for both directions."""

    def __init__(self, left: _SyncParty, right: _SyncParty) -> None:
        remote = left.peer.remote and not right.peer.remote
        self._first, self._second = (right, left) if remote else (left, right)
        self._found: dict[Space, tuple[bytes, bytes]] = {}
        self._pays: bool | None = None

    def ids(self, space: Space, giver: _SyncParty) -> tuple[bytes, bytes]:
        """Return the ids that only a side has, and those that only the other has."""
        if space not in self._found:
            first, second = self._first, self._second
            self._found[space] = differences(
                lambda message: first.peer.reconcile(space, message, second.hello, True),
                lambda message: second.peer.reconcile(space, message, first.hello, False),
            )
        have, need = self._found[space]
        return (have, need) if giver is self._first else (need, have)

    def pays(self) -> bool:
        """Whether the sides seem to share enough grains; otherwise the feeds are read."""
        first, second = self._first, self._second
        if self._pays is None:
            sample = first.peer.reconcile("grains", b"", second.hello, True).sample
            answers = second.peer.missing(sample) if sample else b""
            self._pays = pays(answers, first.greeting.grains, second.greeting.grains)
        return self._pays


class _Pass:
    def __init__(
        self,
        giver: _SyncParty,
        taker: _SyncParty,
        comparison: _Comparison,
        count: Count,
        dry_run: bool,
    ) -> None:
        self._giver, self._taker, self._count = giver, taker, count
        self._comparison, self._dry_run = comparison, dry_run
        self._rights = frozenset(taker.greeting.rights)
        self._linear = False

    def check(self) -> None:
        """Refuse a direction that the rights do not allow."""
        if "give" not in self._giver.greeting.rights:
            raise UnsupportedError("a store does not allow reading its grains", expected="give")
        if not self._rights - {"give"}:
            raise UnsupportedError("a store accepts nothing", expected="grains")

    def holds(self) -> None:
        """Send holds, before erasures."""
        if "holds" in self._rights and not self._dry_run:
            self._send("holds", "holds", self._lacked("holds"))

    def has_erasures(self, full: bool) -> bool:
        """Whether the sender may have tombstones that the receiver lacks."""
        mine, theirs = self._giver.greeting, self._taker.greeting
        known = () if full else (theirs.followed,)
        unknown = mine.tombstones not in (b"", theirs.tombstones, *known)
        return unknown and "erasures" in self._rights

    def erasures(self, full: bool) -> None:
        if not self.has_erasures(full):
            return
        keys = self._lacked("tombstones")
        if self._dry_run:
            self._count.add("erasures", BatchResult(tombstones=len(keys)))
            return
        self._send("tombstones", "erasures", keys)
        given = self._giver
        if given.greeting.store:
            end = Batch(given.greeting.store, given.hello.namespaces)
            self._put("erasures", replace(end, followed=given.greeting.tombstones))

    def look(self, full: bool) -> None:
        """Decide whether to read the feed, before this sync changes the stores."""
        self._linear = bool(self._rights & _LIVING) and not full and self._is_linear()

    def grains(self) -> None:
        if self._rights & _LIVING and not (self._linear and self._follow()):
            self._compare()

    def _is_linear(self) -> bool:
        """Whether the feed can be read from the last position, or from its start."""
        giver, taker = self._giver, self._taker
        seen = giver.greeting.seen
        if seen is not None and "give" in self._rights:
            # After a restore, the receiver may lack what the sender read from it.
            if not taker.peer.changes(seen, giver.hello, 0).known:
                return False
        if taker.greeting.seen is not None:
            return True
        if not (taker.greeting.grains and giver.greeting.grains):
            return True  # an empty store needs no comparison
        return not self._comparison.pays()

    def _follow(self) -> bool:
        """Read the feed from the last position; False if that position is gone."""
        at = self._taker.greeting.seen or START
        for batch in onward(self._giver.peer, at, self._taker.hello):
            if not batch.known:
                return False
            self._offer("grains", batch)
        return True

    def _compare(self) -> None:
        """Send the differences; the next sync reads the feed from here."""
        self._count.compared = True
        end = self._giver.greeting.position
        grains, changed = sorted_out(*self._comparison.ids("grains", self._giver))
        waiting = self._send("grains", "grains", grains)
        while waiting:  # superseding grains that arrived before their predecessors
            found = self._send("grains", "grains", waiting)
            if len(found) >= len(waiting):
                break
            waiting = found
        if waiting:
            code = NotFoundError.code
            self._count.refuse(tuple(Refusal("grain", key, code) for key in waiting))
        self._send("states", "states", changed)
        given = self._giver
        if not self._dry_run and given.greeting.store:
            self._put("states", Batch(given.greeting.store, given.hello.namespaces, until=end))

    def _lacked(self, space: Space) -> list[bytes]:
        mine, _ = self._comparison.ids(space, self._giver)
        return short_keys(mine)

    def _send(self, kind: Kind, step: Step, keys: Sequence[bytes]) -> list[bytes]:
        """Send items by their keys; return the addresses of those that wait for others."""
        if self._dry_run:
            if kind == "grains":
                self._count.add(step, BatchResult(stored=len(keys)))
            return []
        batches = by_keys(self._giver.peer, kind, keys, self._taker.hello)
        return [one for batch in batches for one in self._offer(step, batch)]

    def _offer(self, step: Step, batch: Batch) -> tuple[bytes, ...]:
        """Send a batch without what the rights exclude; return the grains that wait."""
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
            self._count.add("grains", would_store(self._taker.peer, batch), _size(batch))
            return ()
        if batch.grains or batch.states or batch.tombstones or batch.until is not None:
            return self._put(step, batch).waiting
        return ()

    def _put(self, step: Step, batch: Batch) -> BatchResult:
        taken = self._taker.peer.put(batch)
        self._count.add(step, taken, _size(batch))
        return taken


def _size(batch: Batch) -> int:
    return sum(map(len, batch.grains))


def would_store(peer: Peer, batch: Batch) -> BatchResult:
    """Count how many grains of a batch would be new to a peer."""
    addresses = list(dict.fromkeys(digests(batch.grains)))
    new = 0
    for at in range(0, len(addresses), ITEMS):
        new += peer.missing(addresses[at : at + ITEMS]).count(LACKS)
    return BatchResult(stored=new, duplicates=len(addresses) - new)
