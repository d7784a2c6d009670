# SPDX-License-Identifier: Apache-2.0
"""The contract of a peer, one side of a sync, and the values that cross between two of them.

    hello        who the store is, how far it has read the other's feed, what the other may do
    tombstones   exchange the keys of tombstones, so that each store knows the other's erasures
    changes      what came after a position of the feed, as a batch
    ranges       digests over ranges of addresses, to find where two stores differ
    listing      the items of some ranges
    missing      which of some items the store lacks
    get          some items, as a batch
    put          write a batch: one commit, all or nothing

A peer never hands out its files or the key of a sealed grain. Every value is bytes, text, a number
or a tuple of these; ``protocol`` turns them into bytes and back, for any transport.
Spec: OMS §9, §11
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from omsgrain.counts import counted

VERSION: Final = 1
"""Version of these rules. Peers of different versions do not sync."""
SIZE: Final = 4 << 20
"""About how many bytes of grains a batch has; a larger first grain is sent all the same."""
ITEMS: Final = 1_000
"""The most items in a batch, in a question or in an answer; also the most ranges."""
GRAINS: Final = 8 * ITEMS
"""The most grains, and the most states, of a batch: a grain is there once for each signer."""
ID: Final = 16
"""Bytes of the id of a store."""
KEY: Final = 32
"""Bytes of the key of an item."""
PLACE: Final = 4
"""Bytes of an offset behind a key: where a piece of the item begins."""

Space: TypeAlias = Literal["grains", "signatures", "states", "holds", "tombstones"]
"""What is compared by ranges. The key of a tombstone is its mark, of all others an address."""

Right: TypeAlias = Literal[
    "give", "grains", "states", "holds", "releases", "restrictions", "erasures"
]
"""What a peer allows the other side: to read (``give``), and to write grains, states (superseded,
contested, retracted), holds, ends of holds, restrictions and their ends, erasures."""

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
"""Answers of ``missing``: the store has the item in this version, or not, or it erased it."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the feed of a store.

    Attributes:
        seq: the last sequence number that was read.
        mark: digest of the row at that number. Where it differs, this is another store, or one
            restored from a backup, with another history.
    """

    seq: int
    mark: bytes


START: Final = Position(0, b"")


@dataclass(frozen=True, slots=True)
class Hello:
    """How the other side introduces itself.

    Attributes:
        store: id of its store; empty if unknown.
        namespaces: sync only these; None is all.
    """

    store: bytes = b""
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Greeting:
    """How a peer answers a ``Hello``.

    Attributes:
        store: id of the store, 16 random bytes; empty if the store cannot keep one. Then no side
            remembers the sync.
        version: version of the rules.
        position: the end of its feed.
        grains: how many it has.
        seen: how far it has read the feed of the other side, in these namespaces.
        rights: what it allows the other side.
        keys: digest of its keys of tombstones; empty without any.
        tombstones: digest of its tombstones that may belong to these namespaces.
        holds: digest of its holds.
        followed: digest of the other side's tombstones when it last had all of them.
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
        version: 8 bytes of the digest of signatures, a state, holds or a tombstone; empty for a
            grain.
        seq: its place in the order of arrival; 0 if it does not matter.
    """

    key: bytes
    version: bytes = b""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class HoldToggle:
    """The hold of an authority on a grain, or its end.

    Attributes:
        authority: who holds.
        epoch: odd if the hold is on, even if it ended. The higher of two is the later.
        reason_code: a word for the reason; empty if it ended.
        since: ms since 1970; 0 if it ended.
    """

    authority: str
    epoch: int
    reason_code: str = ""
    since: int = 0


@dataclass(frozen=True, slots=True)
class GrainState:
    """The state of a grain as one store tells others. For the receiver it is a claim.

    Attributes:
        address: 32 bytes.
        successors: addresses of the grains that superseded it, sorted; the mark of an erased one.
        valid_to: ``system_valid_to``, ms since 1970. It follows from the successors, and counts
            only if these cannot be read.
        status: ``verified``, ``contested``, ``retracted`` or empty. Other stores accept
            ``verified`` only from those that they trust.
        restricted: odd if it is restricted, even if not any more. The higher of two is the later.
        holds: present and past holds, sorted.
    """

    address: bytes
    successors: tuple[bytes, ...] = ()
    valid_to: int | None = None
    status: Literal["", "verified", "contested", "retracted"] = ""
    restricted: int = 0
    holds: tuple[HoldToggle, ...] = ()


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That something was erased; it does not say what.

    Attributes:
        mark: HMAC under a key of tombstones, 32 bytes.
        at: when, ms since 1970.
        reason_code: a word for the reason.
        times: how often.
        hint: 2 bytes of a hash of the namespace; empty if unknown.
    """

    mark: bytes
    at: int
    reason_code: str
    times: int = 1
    hint: bytes = b""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a store did not accept, or did not give.

    Attributes:
        part: ``grain``, ``state``, ``hold``, ``restriction``, ``erasure``.
        address: of the grain, 32 bytes.
        code: ``ERR_...``.
        rule: the rule of a policy, a preset or a profile that it breaks.
    """

    part: Literal["grain", "state", "hold", "restriction", "erasure"]
    address: bytes
    code: str
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """On which terms a store accepts a batch.

    Attributes:
        rights: what the other side may write; the store skips the rest of a state.
        signer: the DID that provably signed the batch; None without one.
        trusted: accept its verification statuses.
    """

    rights: frozenset[Right] = frozenset(EVERYTHING)
    signer: str | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Grains, states and tombstones that a store writes in one commit.

    Attributes:
        store: id of the store that gives them.
        namespaces: as in ``Hello``.
        grains: blobs, and envelopes of signed grains, in order of arrival; a sealed grain stays
            sealed, and a grain is there once for each of its signers.
        states: of these grains, and of others that the receiver should have.
        tombstones: of what was erased.
        until: the position in the feed that this batch reaches; None: do not remember one.
        taken: how far the giver has read the feed of the receiver.
        withheld: grains that a rule keeps in the store that gives.
        rest: keys that were asked for and did not fit. In a batch of the feed: grains whose states
            are not complete.
        more: more batches follow.
        followed: digest of all tombstones of the giver, once this batch completes them.
        known: the feed has the position that was asked for. Otherwise the batch is empty, and the
            stores are compared by ranges.
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
    """What a store did with a batch.

    Attributes:
        stored: new grains.
        duplicates: grains that it had.
        states: grains whose state changed, or that got a further signature.
        tombstones: new tombstones.
        erased: grains that it removed because of them.
        refused: what it did not accept.
        waiting: superseding grains, 32 bytes each, whose predecessors it does not have.
        unproven: signatures that it kept although it could not resolve the signer.
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

    def hello(self, hello: Hello) -> Greeting:
        """Introduce the store, after finishing an interrupted erasure.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def tombstones(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """Adopt keys of tombstones, 32 bytes each, and return all keys of the store.

        Whoever has the keys can test names and addresses against tombstones. So they cross only
        between stores that trust each other, and never in the clear. A peer that does not share
        its keys returns none. If no store has a key, one is made.
        """
        ...

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """Return what came after a position of the feed.

        Args:
            since: the position up to which it was read.
            hello: who asks; what came from that store is left out.
            size: about how many bytes of grains; 0: only check the position.
        """
        ...

    def ranges(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Range, ...]:
        """Return the ranges of items whose keys begin with the prefixes, in that order.

        Args:
            space: of what.
            prefixes: lower-case hexadecimal digits; an empty one is the range of all.
            hello: who asks.
        """
        ...

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[SyncItem, ...]:
        """Return the items whose keys begin with one of the prefixes.

        Raises:
            RangeError: they are more than a hundred times ``ITEMS``.
        """
        ...

    def missing(self, space: Space, items: Sequence[SyncItem]) -> bytes:
        """Return a byte for each item: HAS, LACKS or WAS_ERASED."""
        ...

    def get(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """Return items by their keys, at most ``ITEMS``, without those that are gone.

        ``rest`` names those that did not fit; ask for them again.
        """
        ...

    def put(self, batch: Batch) -> BatchResult:
        """Write a batch. What is refused is listed and does not stop the rest.

        Raises:
            StoreError: read-only, full or broken; nothing of the batch was written.
            UnsupportedError: the peer does not allow something in it.
        """
        ...

    def close(self) -> None:
        """Close what was opened for the sync; a second call does nothing."""
        ...
