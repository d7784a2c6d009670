# SPDX-License-Identifier: Apache-2.0
"""An order to erase a person, as it stands in the queue: enough to go on after a crash.

The names of the person stand nowhere: the queue has the marks of their tombstones, and whoever
goes on makes the mark of every name that he meets. That takes a look into each grain, and so is
left to those who go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from omsgrain.engine.rights.selector import Found, Identities, Selection
from omsgrain.errors import IntegrityError
from omsgrain.store import due, tombstones
from omsgrain.store.base import Reader, Store
from omsgrain.store.due import Due

__all__ = ["ERASE", "RELEASE", "SCRUB", "Marked", "Order", "Sought", "under_way"]

ERASE: Final = "erase"
"""The kind of an erasure under way."""
RELEASE: Final = "release"
"""The kind of what was kept by a hold, or for a time, and goes when that ends."""
SCRUB: Final = due.SCRUB
"""The kind of a compaction: free pages still have bytes of what was erased."""

_KNOWN = 10_000  # names that are remembered


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be erased.

    Attributes:
        numbers: of the keys.
        marks: of the names.
        last: the last number that the store had given; what came later is new.
        reason_code: a word for the reason.
        mentions: also what only bears the name.
        tenant: what belongs to another user stays, and the rest goes that bears the name.
        ciphertext: also what nobody can read any more.
        seqs: grains that were kept, of a release.
    """

    numbers: tuple[bytes, ...]
    marks: tuple[bytes, ...]
    last: int
    reason_code: str
    mentions: bool = False
    ciphertext: bool = False
    seqs: tuple[int, ...] = ()
    tenant: bool = False

    def takes(self, found: Found) -> bool:
        """Whether a grain about the person is to go."""
        return not found.other if self.tenant else found.own or self.mentions

    def what(self, kind: str) -> dict[str, Any]:
        """The entry of the queue."""
        return {"kind": kind, **asdict(self)}

    def covers(self, other: Order) -> bool:
        """Whether all that another one waits for is waited for by this one."""
        return {*other.seqs} <= {*self.seqs} and {*other.numbers} <= {*self.numbers}

    @classmethod
    def of(cls, entry: Due) -> Order:
        """Read an entry of the queue.

        Raises:
            IntegrityError: it is damaged.
        """
        what = {name: value for name, value in entry.what.items() if name != "kind"}
        try:
            for name in ("numbers", "marks", "seqs"):
                what[name] = tuple(what[name])
            return cls(**what)
        except (KeyError, TypeError):
            pass
        raise IntegrityError("an erasure that is due cannot be read: its row is damaged")


def under_way(reader: Reader, name: str) -> int:
    """The last number that an erasure of a name still has to look at; 0 if none is under way.

    Raises:
        IntegrityError: the queue is damaged.
    """
    marks = {tombstones.mark(key, "identity", name) for key in tombstones.keys(reader)}
    if not marks:
        return 0
    orders = (Order.of(entry) for entry in due.due(reader) if entry.kind == ERASE)
    return max((one.last for one in orders if not marks.isdisjoint(one.marks)), default=0)


class Marked(Identities):
    """The names of a person of which only marks are known.

    Args:
        keys: those of tombstones: the marks were made with one of them.
        marks: of the names.
    """

    __slots__ = ("_keys", "_known", "_marks")

    def __init__(self, keys: tuple[bytes, ...], marks: tuple[bytes, ...]) -> None:
        self._names = frozenset()
        self._keys = keys
        self._marks = frozenset(marks)
        self._known: dict[str, bool] = {}  # grains say the same names again and again

    def __contains__(self, item: object) -> bool:
        """Whether a string is one of the names."""
        if not isinstance(item, str):
            return False
        found = self._known.get(item)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            marks = (tombstones.mark(key, "identity", item) for key in self._keys)
            found = any(mark in self._marks for mark in marks)
            self._known[item] = found
        return found


class Sought(Selection):
    """The grains about a person of whom only marks are known: all are looked into."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Found]:
        """Walk from the start."""
        self.unopened = self.destroyed = 0
        store: Store = self.store
        with store.read() as reader:
            after, last = 0, reader.last_seq()
        while after < last:
            with store.read() as reader:
                seqs = [seq for seq, _ in reader.page(after) if seq <= last]
                found = [f for seq in seqs if (f := self._look(reader, seq))]
            if not seqs:
                return
            yield from found
            after = seqs[-1]
