# SPDX-License-Identifier: Apache-2.0
"""What one side of a sync answers, and the values that cross between two.

    greet      who it is, how far it has taken the other's feed, what it lets the other do
    share      the keys of tombstones, so that one store knows what the other erased
    changes    what came after a position of its feed, as a batch
    ranges     digests over ranges of addresses: where two stores differ
    listing    the items of a range
    lacking    which of some items are not here
    give       some items, as a batch
    take       a batch: one commit, all of it or nothing

A store is never asked for its files, and no key of a sealed grain is part of any answer. Every
value is bytes, text, a number, or a tuple of such: ``wire.pack`` and ``wire.unpack`` bring one to
bytes and back, over any transport. Spec: OMS §9, §11
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias

from omsgrain.counts import counted
from omsgrain.errors import RangeError, SchemaError
from omsgrain.store.holds import LONGEST

VERSION: Final = 1
"""Of these rules. Two peers of different versions do not sync."""

SIZE: Final = 4 << 20
"""Bytes of grains in a batch, about; the first always comes."""

ITEMS: Final = 1_000
"""Items in a batch, a listing's question or an answer, at the most; ranges as many."""

Space: TypeAlias = Literal["grains", "signatures", "states", "holds", "tombstones"]
"""What is compared by ranges: grains by their addresses, signatures, states and holds by the
addresses of the grains that have them, tombstones by their marks."""

Right: TypeAlias = Literal[
    "give", "grains", "states", "holds", "releases", "restrictions", "erasures"
]
"""What a peer lets the other do: be given what it has; bring grains, states (superseded by what,
contested, retracted), holds, the ends of holds, restrictions and their ends, erasures."""

EVERYTHING: Final[tuple[Right, ...]] = (
    "give",
    "grains",
    "states",
    "holds",
    "releases",
    "restrictions",
    "erasures",
)

HAS, LACKS, WAS_ERASED = 0, 1, 2
"""Answers of ``lacking``: it is here, as it is told; it is not, or not so; it was erased here."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the feed of a store.

    Attributes:
        seq: the last sequence number that was taken.
        mark: what stood there: where something else does, the store was restored or is another
            one, and its history is not the one that was taken.
    """

    seq: int
    mark: bytes


START: Final = Position(0, b"")


@dataclass(frozen=True, slots=True)
class Hello:
    """Who asks for a greeting.

    Attributes:
        store: id of the store on the other side; nothing if it is not known yet.
        namespaces: sync these only; None: all.
    """

    store: bytes = b""
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who answers.

    Attributes:
        store: id of the store, 16 random bytes; nothing where none can be kept: then nothing is
            remembered of the sync.
        version: of these rules.
        position: the end of its feed.
        grains: how many it has.
        seen: how far it has taken the feed of who asks, in these namespaces.
        rights: what it lets the other do.
        keys: digest of the keys of its tombstones; nothing without any.
        tombstones: digest of its tombstones, as far as they may be of these namespaces.
        holds: digest of its holds.
        followed: digest that the tombstones of who asks had when all of them were taken here.
    """

    store: bytes
    version: int
    position: Position
    grains: int
    seen: Position | None
    rights: tuple[Right, ...]
    keys: bytes
    tombstones: bytes
    holds: bytes
    followed: bytes = b""


@dataclass(frozen=True, slots=True)
class Range:
    """The items whose keys begin with some hexadecimal digits.

    Attributes:
        count: how many.
        digest: the first 16 bytes of BLAKE3 over their keys and versions, sorted.
    """

    count: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class SyncItem:
    """Something that two stores may both have.

    Attributes:
        key: 32 bytes: an address, or the mark of a tombstone.
        version: of signatures, a state, holds or a tombstone, 8 bytes of their digest; nothing of
            a grain.
        seq: where it stands in the order of arrival, for those who ask for it; 0: nowhere.
    """

    key: bytes
    version: bytes = b""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class HoldToggle:
    """The hold of an authority on a grain, or the end of one.

    Attributes:
        authority: who gave it.
        turn: odd: it stands; even: it ended. The higher of two is the later.
        reason_code: a word for the reason; empty if it ended.
        since: ms since 1970; 0 if it ended.
    """

    authority: str
    turn: int
    reason_code: str = ""
    since: int = 0


@dataclass(frozen=True, slots=True)
class GrainState:
    """What became of a grain, as far as others are told. To who takes it, it is a claim.

    Attributes:
        address: 32 bytes.
        successors: what superseded it, sorted; of what was erased, its mark.
        valid_to: ``system_valid_to``, ms since 1970. It follows from the successors, and counts
            only where these cannot be read.
        status: ``verified``, ``contested``, ``retracted``, or nothing. That a grain was verified
            is the judgement of one store: others believe only whom they were told to trust.
        restricted: odd: it is restricted; even: it is not, any more. The higher of two is the
            later.
        holds: who holds it, and who did, sorted.
    """

    address: bytes
    successors: tuple[bytes, ...] = ()
    valid_to: int | None = None
    status: Literal["", "verified", "contested", "retracted"] = ""
    restricted: int = 0
    holds: tuple[HoldToggle, ...] = ()


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That something was erased, and nothing that says what it was.

    Attributes:
        mark: HMAC under a key of tombstones, 32 bytes.
        at: when, ms since 1970.
        reason_code: a word for the reason.
        times: how often.
        hint: 2 bytes of a hash of the namespace; nothing where it is not known.
    """

    mark: bytes
    at: int
    reason_code: str
    times: int = 1
    hint: bytes = b""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was not taken, or not given.

    Attributes:
        part: ``grain``, ``state``, ``hold``, ``restriction``, ``erasure``.
        address: of the grain, 32 bytes.
        code: ``ERR_...``.
        rule: the rule of a policy, a preset or a profile that was broken.
    """

    part: Literal["grain", "state", "hold", "restriction", "erasure"]
    address: bytes
    code: str
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """On which terms a store takes what comes.

    Attributes:
        rights: what the other side may bring; the rest of a state is passed over.
        signer: the DID that is proved to have signed what comes; None: nobody is.
        trusted: that a grain was verified there is believed.
    """

    rights: frozenset[Right] = frozenset(EVERYTHING)
    signer: str | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Something to take: one commit.

    Attributes:
        store: id of the store that gives it.
        namespaces: as of ``Hello``.
        grains: blobs, and envelopes of signed ones; in order of arrival, sealed ones sealed. A
            grain stands here once for each of its signers.
        states: of these, and of others that are to be there already.
        tombstones: what was erased.
        until: how far the feed is taken with this; None: the taker remembers nothing.
        taken: how far the giver has taken the feed of the taker.
        withheld: grains that a rule keeps in the store that gives.
        rest: keys that were asked for, and did not fit; of a batch of the feed, the grains of
            whose states there is more to ask for.
        more: there is more to come.
        followed: with this batch all tombstones of the giver are taken: their digest.
        known: the position that was asked from stands in the feed. If not, the batch is empty, and
            the stores are compared by ranges.
    """

    store: bytes
    namespaces: tuple[str, ...] | None = None
    grains: tuple[bytes, ...] = ()
    states: tuple[GrainState, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    until: Position | None = None
    taken: Position | None = None
    withheld: tuple[Refusal, ...] = ()
    rest: tuple[bytes, ...] = ()
    more: bool = False
    known: bool = True
    followed: bytes = b""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch.

    Attributes:
        stored: grains that were new.
        duplicates: grains that were there.
        states: grains of which the state changed, or that got a further signature.
        tombstones: tombstones that were new.
        erased: grains that were removed for them.
        refused: what the store does not take.
        waiting: grains that name others which are not here: superseding ones, 32 bytes each.
        unproven: signatures that were kept whose signers could not be resolved.
    """

    stored: int = 0
    duplicates: int = 0
    states: int = 0
    tombstones: int = 0
    erased: int = 0
    refused: tuple[Refusal, ...] = ()
    waiting: tuple[bytes, ...] = ()
    unproven: int = 0

    __repr__ = counted


class Peer(Protocol):
    """One side of a sync."""

    def greet(self, hello: Hello) -> Greeting:
        """Say who is here, after finishing what was cut off.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def share(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """Take over keys of tombstones, 32 bytes each, and tell all that are here.

        Whoever has them can try names and addresses against tombstones, so they cross only
        between stores that trust one another, and never in the clear. A peer that does not share
        answers with none. Where there are none at all, one is made.
        """
        ...

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """Return what came after a position of the feed, but for what came from who asks.

        Args:
            since: up to where it was taken.
            hello: who asks; what came here from that store is left out.
            size: bytes of grains, about; 0: only tell whether the position is known.
        """
        ...

    def ranges(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Range, ...]:
        """Return the ranges of items whose keys begin so, in the order asked.

        Args:
            space: of what.
            prefixes: hexadecimal digits, lower case; the empty one is the range of all.
            hello: who asks.
        """
        ...

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[SyncItem, ...]:
        """Return the items whose keys begin with one of these; arguments as of ``ranges``.

        Raises:
            RangeError: they are more than a hundred times ``ITEMS``.
        """
        ...

    def lacking(self, space: Space, items: Sequence[SyncItem]) -> bytes:
        """Tell of each item whether it is here, a byte each: HAS, LACKS or WAS_ERASED."""
        ...

    def give(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """Return items by their keys, at the most ``ITEMS``; those that are gone are left out.

        What does not fit into a batch is named in ``rest``: ask for that again.
        """
        ...

    def take(self, batch: Batch) -> BatchResult:
        """Take a batch. What is refused is told, and does not stop the rest.

        Raises:
            StoreError: read-only, full or broken; nothing of the batch was taken.
            UnsupportedError: there is something in it that this peer does not let the other do.
        """
        ...

    def close(self) -> None:
        """Let go of what was opened for the sync; a second call does nothing."""
        ...


ID: Final = 16
"""Bytes of the id of a store."""
_KEY, _MARK, _DIGEST, _VERSION, _HINT = 32, 32, 32, 32, 2  # bytes, of some at the most
_WORD, _NAME, _NAMESPACES = 256, 1_024, 1_000
PLACE: Final = 4
"""Bytes of the place where a piece of an item begins."""
_LAST: Final = 2**63 - 1
GRAINS: Final = 8 * ITEMS
"""Grains of a batch at the most, and states: of a grain there is one for each signer."""
_LISTED: Final = 100 * ITEMS
_DIGITS: Final = frozenset("0123456789abcdef")


def check(value: Any) -> None:
    """See that a value is one that can be."""
    if isinstance(value, tuple):
        check_count(value, _LISTED)
        for one in value:
            check(one)
    elif (known := _CHECKS.get(type(value))) is not None:
        known(value)


def check_count(items: Sequence[Any], most: int = ITEMS) -> None:
    """Refuse more than so many at once."""
    if len(items) > most:
        raise RangeError("too many at once", expected=f"at most {most}", found=str(len(items)))


def check_keys(keys: Sequence[bytes]) -> None:
    """See that these are keys of items, or of pieces of them, and not too many."""
    check_count(keys)
    _places(keys)


def check_prefixes(prefixes: Sequence[str]) -> None:
    """See that these are beginnings of keys, and not too many; errors as of ``check``."""
    check_count(prefixes)
    if any(len(one) > 2 * _KEY or not _DIGITS.issuperset(one) for one in prefixes):
        raise SchemaError("not the beginning of an address", expected="hexadecimal digits")


def _all(keys: Iterable[bytes], size: int) -> None:
    for key in keys:
        if len(key) != size:
            raise SchemaError("not so many bytes", expected=str(size), found=str(len(key)))


def _places(keys: Iterable[bytes]) -> None:
    """See that each is a key, or a key with the place where a piece of the item begins."""
    for key in keys:
        if len(key) not in (_KEY, _KEY + PLACE):
            raise SchemaError("not the key of an item", expected=f"{_KEY} bytes")


def _store(id_: bytes) -> None:
    if id_:
        _all([id_], ID)


def _text(text: str | None, most: int = _WORD) -> None:
    if text is not None and len(text) > most:
        raise RangeError("a text is too long", expected=f"at most {most} letters")


def _number(number: int, least: int = 0) -> None:
    _integer(number)
    if not least <= number <= _LAST:
        raise RangeError("a number is out of range", expected=f"{least} to {_LAST}")


def _turn(number: int) -> None:
    """One that is too high is refused alone, and not all that came with it."""
    _integer(number)
    if not 0 <= number < 1 << 64:
        raise RangeError("a number is out of range", expected="0 to 2^64 - 1")


def _integer(number: int) -> None:
    """A peer in Python can hold any value; a stored row with another type cannot be read again."""
    if type(number) is not int:
        raise SchemaError("not an integer", found=type(number).__name__)


def _at_most(data: bytes, size: int) -> None:
    if len(data) > size:
        raise SchemaError("too many bytes", expected=f"at most {size}", found=str(len(data)))


def _namespaces(names: tuple[str, ...] | None) -> None:
    if names is not None:
        check_count(names, _NAMESPACES)
        for name in names:
            _text(name, _NAME)


def _position(value: Position | None) -> None:
    if value is not None:
        _number(value.seq)
        _at_most(value.mark, _MARK)


def _hello(value: Hello) -> None:
    _store(value.store)
    _namespaces(value.namespaces)


def _greeting(value: Greeting) -> None:
    _store(value.store)
    _number(value.version)
    _number(value.grains)
    _position(value.position)
    _position(value.seen)
    for digest in (value.keys, value.tombstones, value.holds, value.followed):
        _at_most(digest, _DIGEST)


def _range(value: Range) -> None:
    _number(value.count)
    _at_most(value.digest, _DIGEST)


def _item(value: SyncItem) -> None:
    _all([value.key], _KEY)
    _at_most(value.version, _VERSION)
    _number(value.seq)


def _hold(value: HoldToggle) -> None:
    _text(value.authority, LONGEST)
    _text(value.reason_code)
    _turn(value.turn)
    _number(value.since)


def _state(value: GrainState) -> None:
    _all([value.address, *value.successors], _KEY)
    check_count(value.successors, _LISTED)
    check_count(value.holds, _LISTED)
    if value.valid_to is not None:
        _number(value.valid_to, -_LAST)
    _turn(value.restricted)
    for hold in value.holds:
        _hold(hold)


def _tombstone(value: Tombstone) -> None:
    _all([value.mark], _KEY)
    _text(value.reason_code)
    _number(value.at)
    _number(value.times, 1)
    _at_most(value.hint, _HINT)


def _refusal(value: Refusal) -> None:
    _all([value.address], _KEY)
    _text(value.code)
    _text(value.rule)


def _batch(value: Batch) -> None:
    _store(value.store)
    _namespaces(value.namespaces)
    _position(value.until)
    _position(value.taken)
    for many in (value.grains, value.states, value.tombstones, value.withheld):
        check_count(many, GRAINS)
    check_count(value.rest, _LISTED)
    _places(value.rest)
    _at_most(value.followed, _DIGEST)
    for one in (*value.states, *value.tombstones, *value.withheld):
        check(one)


def _taken(value: BatchResult) -> None:
    for number in (
        value.stored,
        value.duplicates,
        value.states,
        value.tombstones,
        value.erased,
        value.unproven,
    ):
        _number(number)
    check_count(value.waiting, GRAINS)
    check_count(value.refused, 4 * GRAINS)
    _all(value.waiting, _KEY)
    check(value.refused)


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    Hello: _hello,
    Greeting: _greeting,
    Position: _position,
    Range: _range,
    SyncItem: _item,
    HoldToggle: _hold,
    GrainState: _state,
    Tombstone: _tombstone,
    Refusal: _refusal,
    Batch: _batch,
    BatchResult: _taken,
}
