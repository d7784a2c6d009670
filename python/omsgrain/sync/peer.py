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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from omsgrain.counts import counted

__all__ = [
    "EVERYTHING",
    "HAS",
    "ITEMS",
    "LACKS",
    "SIZE",
    "START",
    "VERSION",
    "WAS_ERASED",
    "Batch",
    "GrainState",
    "Greeting",
    "Hello",
    "HoldTurn",
    "Item",
    "Peer",
    "Position",
    "Range",
    "Refusal",
    "Right",
    "Space",
    "Taken",
    "Terms",
    "Tombstone",
]

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
class Item:
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
class HoldTurn:
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
    holds: tuple[HoldTurn, ...] = ()


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
class Terms:
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
class Taken:
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

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Item, ...]:
        """Return the items whose keys begin with one of these; arguments as of ``ranges``.

        Raises:
            RangeError: they are more than a hundred times ``ITEMS``.
        """
        ...

    def lacking(self, space: Space, items: Sequence[Item]) -> bytes:
        """Tell of each item whether it is here, a byte each: HAS, LACKS or WAS_ERASED."""
        ...

    def give(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """Return items by their keys, at the most ``ITEMS``; those that are gone are left out.

        What does not fit into a batch is named in ``rest``: ask for that again.
        """
        ...

    def take(self, batch: Batch) -> Taken:
        """Take a batch. What is refused is told, and does not stop the rest.

        Raises:
            StoreError: read-only, full or broken; nothing of the batch was taken.
            UnsupportedError: there is something in it that this peer does not let the other do.
        """
        ...

    def close(self) -> None:
        """Let go of what was opened for the sync; a second call does nothing."""
        ...
