# SPDX-License-Identifier: Apache-2.0
"""The contract of a peer, one side of a sync, and the values that cross between two of them.

    hello        the store's id, how far it has read the other's feed, the other's rights
    tombstones   exchange the keys of tombstones, so that each store can apply the other's erasures
    changes      the rows after a position of the feed, as a batch
    reconcile    a message of negentropy, to find where two stores differ
    missing      which of some grains the store lacks
    get          some items, as a batch
    put          write a batch: one commit, all or nothing

A peer never sends its files or the key of a sealed grain. Every value is bytes, text, a number or
a tuple of these; ``protocol`` turns them into bytes and back, for any transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, get_args

from omsgrain.counts import counted

VERSION: Final = 2
"""The version of these rules. Peers of different versions do not sync."""
SIZE: Final = 4 << 20
"""About how many bytes of grains a batch has; a larger first grain is sent too."""
ITEMS: Final = 1_000
"""The most items in a batch or a request."""
GRAINS: Final = 8 * ITEMS
"""The most grains, and the most states, of a batch; a grain occurs once for each signer."""
ID: Final = 16
"""Bytes of a store's id."""
KEY: Final = 32
"""Bytes of an item's key."""
PLACE: Final = 4
"""Bytes of an offset after a key: where a piece of the item begins."""
SHORT: Final = 6
"""Bytes of a shortened key. If it fits two items, a peer returns both."""
FRAME: Final = 1 << 20
"""About the most bytes of a message of a comparison."""
LEAST_FRAME: Final = 4096
"""The smallest limit of such a message."""

Space: TypeAlias = Literal["grains", "holds", "tombstones"]
"""The kinds of comparisons: of grains with signers and states, of holds, of tombstones."""

Kind: TypeAlias = Literal["grains", "states", "holds", "tombstones"]
"""What ``get`` returns. The key of a tombstone is its mark, all other keys are addresses."""

Right: TypeAlias = Literal[
    "give", "grains", "states", "holds", "releases", "restrictions", "erasures"
]
"""The rights of the other side: to read (``give``), and to write grains, states (superseded,
contested, retracted), holds, ends of holds, restrictions and their ends, erasures.
"""

EVERYTHING: Final[tuple[Right, ...]] = get_args(Right)

HAS, LACKS, WAS_ERASED = 0, 1, 2
"""Values that ``missing`` returns: the store has the grain, lacks it, or erased it."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the feed of a store.

    Attributes:
        seq: The last sequence number that was read.
        mark: A digest of the row at that number. Another digest means another store, or a store
            restored from a backup.
    """

    seq: int
    mark: bytes


START: Final = Position(0, b"")


@dataclass(frozen=True, slots=True)
class Hello:
    """How the other side introduces itself.

    Attributes:
        store: The id of its store; empty if unknown.
        namespaces: Sync only these; None is all.
    """

    store: bytes = b""
    namespaces: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Greeting:
    """How a peer answers a ``Hello``.

    Attributes:
        store: The id of the store, 16 random bytes; empty if the store cannot keep one. Then no
            side remembers the sync.
        version: The version of the rules.
        position: The end of its feed.
        grains: Its number of grains, in these namespaces if their index tells.
        seen: How far it has read the feed of the other side, in these namespaces.
        rights: The rights of the other side.
        keys: A digest of its keys of tombstones; empty without any.
        tombstones: A digest of its tombstones that may belong to these namespaces.
        holds: A digest of its holds.
        followed: A digest of the other side's tombstones when it last had all of them.
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
class Reconciled:
    """The response to a message of a comparison.

    An id has 32 bytes: the first 16 of an address or a mark, 8 of a digest of the state, the holds
    or the tombstone, and 8 of a digest of the signers. Without a state or signers these are zeros.

    Attributes:
        message: The next message of negentropy; a single byte if nothing is left to ask.
        have: For an initiator: ids that only this store has, joined.
        need: For an initiator: ids that only the other store has, joined.
        sample: With the first message about grains: the addresses of some of them.
    """

    message: bytes
    have: bytes = b""
    need: bytes = b""
    sample: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldToggle:
    """The hold of an authority on a grain, or its end.

    Attributes:
        authority: The authority of the hold.
        epoch: Odd if the hold is on, even if it ended. The higher of two is the later.
        reason_code: A word for the reason; empty if it ended.
        since: ms since 1970; 0 if it ended.
    """

    authority: str
    epoch: int
    reason_code: str = ""
    since: int = 0


@dataclass(frozen=True, slots=True)
class GrainState:
    """The state of a grain as one store sends it. For the receiver it is a claim.

    Attributes:
        address: 32 bytes.
        successors: The sorted addresses of the grains that superseded it; for an erased grain its
            mark.
        valid_to: ``system_valid_to``, ms since 1970. It follows from the successors, and counts
            only if these cannot be read.
        status: ``verified``, ``contested``, ``retracted`` or empty. Other stores accept
            ``verified`` only from stores that they trust.
        restricted: Odd if it is restricted, even if the restriction ended. The higher of two is
            the later.
        holds: Present and past holds, sorted.
    """

    address: bytes
    successors: tuple[bytes, ...] = ()
    valid_to: int | None = None
    status: Literal["", "verified", "contested", "retracted"] = ""
    restricted: int = 0
    holds: tuple[HoldToggle, ...] = ()


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The trace of an erasure; it does not name the erased grain.

    Attributes:
        mark: HMAC under a key of tombstones, 32 bytes.
        at: The time, ms since 1970.
        reason_code: A word for the reason.
        times: The number of erasures.
        hint: 2 bytes of a hash of the namespace; empty if unknown.
    """

    mark: bytes
    at: int
    reason_code: str
    times: int = 1
    hint: bytes = b""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An item that a store did not accept, or did not send.

    Attributes:
        part: ``grain``, ``state``, ``hold``, ``restriction``, ``erasure``.
        address: The address of the grain, 32 bytes.
        code: ``ERR_...``.
        rule: The rule of a policy, a preset or a profile that it breaks.
    """

    part: Literal["grain", "state", "hold", "restriction", "erasure"]
    address: bytes
    code: str
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """The terms on which a store accepts a batch."""

    # what the other side may write; the store skips the rest of a state
    rights: frozenset[Right] = frozenset(EVERYTHING)
    signer: str | None = None  # the verified signer of the batch; None without one
    trusted: bool = False  # accept its verification statuses


@dataclass(frozen=True, slots=True)
class Batch:
    """Grains, states and tombstones that a store writes in one commit.

    Attributes:
        store: The id of the sending store.
        namespaces: As in ``Hello``.
        grains: Blobs, and envelopes of signed grains, in order of arrival. A sealed grain stays
            sealed, and a grain occurs once for each of its signers.
        states: The states of these grains, and of others that the receiver may need.
        tombstones: The tombstones of erased grains.
        until: The position in the feed that this batch reaches; None: do not remember one.
        taken: How far the sender has read the feed of the receiver.
        withheld: Grains that a rule keeps in the sending store.
        rest: Requested keys that did not fit. In a batch of the feed: grains whose states are
            incomplete.
        more: More batches follow.
        followed: A digest of all tombstones of the sender, once this batch completes them.
        known: The feed has the requested position. Otherwise the batch is empty, and the stores
            are compared by ranges.
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
    """The result of writing a batch.

    Attributes:
        stored: New grains.
        duplicates: Grains that the store had.
        states: Grains whose state changed, or that got another signature.
        tombstones: New tombstones.
        erased: Grains removed because of them.
        refused: Refused items.
        waiting: Superseding grains, 32 bytes each, whose predecessors the store does not have.
        unproven: Signatures that it kept although it could not resolve the signer.
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
    """One side of a sync.

    Attributes:
        remote: Whether its responses cross a network.
    """

    @property
    def remote(self) -> bool: ...

    def hello(self, hello: Hello) -> Greeting:
        """Introduce the store, after finishing an interrupted erasure.

        Raises:
            StoreError: The store cannot be read.
        """
        ...

    def tombstones(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """Adopt keys of tombstones, 32 bytes each, and return all keys of the store.

        Anyone with the keys can test names and addresses against tombstones. So they are sent only
        between stores that trust each other, and only encrypted. A peer that does not share its
        keys returns none. If no store has a key, one is made.
        """
        ...

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """Return the rows after a position of the feed.

        Args:
            since: The last position that was read.
            hello: The introduction of the other side; rows from its store are left out.
            size: About how many bytes of grains; 0: only check the position.
        """
        ...

    def reconcile(
        self,
        space: Space,
        message: bytes,
        hello: Hello,
        initiator: bool = False,
        limit: int = FRAME,
    ) -> Reconciled:
        """Answer a message of negentropy version 1 about the items of this store.

        Args:
            space: The kind of comparison.
            message: The message of the other side; empty to begin a comparison.
            hello: The introduction of the other side.
            initiator: Whether this side began the comparison.
            limit: About how many bytes the response may have, from ``LEAST_FRAME`` to ``FRAME``.

        Raises:
            CorruptError: The message is not one of negentropy version 1.
        """
        ...

    def missing(self, addresses: Sequence[bytes]) -> bytes:
        """Return a byte for each grain: HAS, LACKS or WAS_ERASED."""
        ...

    def get(self, kind: Kind, keys: Sequence[bytes], hello: Hello) -> Batch:
        """Return items by their keys, at most ``ITEMS``, without those that are gone.

        A key may be shortened to ``SHORT`` bytes. ``rest`` has the keys of items that did not fit,
        not shortened; request them again.
        """
        ...

    def put(self, batch: Batch) -> BatchResult:
        """Write a batch. Refused items are listed and do not stop the rest.

        Raises:
            StoreError: The store is read-only, full or broken; nothing of the batch was written.
            UnsupportedError: The peer does not allow a part of it.
        """
        ...

    def close(self) -> None:
        """Close what was opened for the sync; a second call does nothing."""
        ...
