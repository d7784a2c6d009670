# SPDX-License-Identifier: Apache-2.0
"""The conditions of a query, in the form that the index and the tests of a grain need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from omsgrain.store.base import Which
from omsgrain.store.state import PAST, RETRACTED, SUPERSEDED, Verification

__all__ = ["FOREVER", "LONG_NAMESPACE", "TESTED", "Conditions", "Term"]

TESTED = ("valid_at", "known_at", "verification_status", "min_confidence", "words")
"""The filters that no index answers."""

FOREVER = 1 << 47
"""Ms; beyond the ``created_at`` of every place."""

_HASHED = (0xFE, 0xFF)  # second byte of a key whose term is too long to stand in it
LONG_NAMESPACE = b"n\xff"
"""What the keys of namespaces begin with that are too long to stand in one."""


class Term(NamedTuple):
    """A list of the index that answers filters; of a prefix, several lists.

    Attributes:
        names: the filters.
        key: the key of the list, or what the keys of all lists begin with.
        prefix: whether it is a prefix.
    """

    names: tuple[str, ...]
    key: bytes
    prefix: bool = False

    @property
    def hashed(self) -> bool:
        """Whether what is found must be compared with the grain itself."""
        return len(self.key) > 2 and self.key[1] in _HASHED  # two bytes are a type and its kind

    @property
    def starts(self) -> tuple[bytes, ...]:
        """What the keys of a prefix begin with: a long namespace stands by its hash."""
        return (LONG_NAMESPACE,) if self.hashed else (self.key, LONG_NAMESPACE)


class Conditions(NamedTuple):
    """All that a query asks of a grain; ``conditions`` makes it.

    Attributes:
        equal: filters by equality, with their values as a grain holds them.
        prefix: what the namespace begins with.
        terms: the lists of the index that answer them.
        low: created at this time or later, in ms.
        high: created before this time.
        current: True for what counts now, False for what does so no more, None for both.
        valid_at: true at this time, in ms.
        known_at: known at this time, in ms.
        status: the verification status.
        min_confidence: the least confidence.
        words: all of these words are in its texts, folded.
        tested: those of the filters that no index answers.
        bookkeeping: also the grains that documents left beside their records.
    """

    equal: Mapping[str, Any]
    prefix: str | None
    terms: tuple[Term, ...]
    low: int
    high: int
    current: bool | None
    valid_at: int | None
    known_at: int | None
    status: Verification | None
    min_confidence: float | None
    words: tuple[str, ...]
    tested: tuple[str, ...]
    bookkeeping: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All filters given, but for bounds in ``created_at``."""
        namespace = () if self.prefix is None else ("namespace",)
        return (*self.equal, *namespace, *self.tested)

    @property
    def bounded(self) -> bool:
        """Whether there are bounds in ``created_at``."""
        return self.low > 0 or self.high < FOREVER

    @property
    def which(self) -> Which:
        """The grains to look among."""
        if self.status == "retracted" and self.known_at is None:
            return "past"
        if self.current is None or self.known_at is not None:
            return "all"
        return "current" if self.current else "past"

    @property
    def hidden(self) -> int:
        """Bits of a state that leave a grain out."""
        if not self.current:
            return 0
        bits = PAST if self.known_at is None else PAST & ~SUPERSEDED
        return bits & ~RETRACTED if self.status == "retracted" else bits

    @property
    def stateful(self) -> bool:
        """Whether a list of the index cannot tell what the state of a grain must be."""
        return self.status is not None or self.known_at is not None

    @property
    def reads(self) -> bool:
        """Whether a grain must be read to tell; if its namespace must be, the walk knows."""
        return self.tested not in ((), ("verification_status",))

    @property
    def ranges(self) -> tuple[str, ...]:
        """What is no question for something exact, so that blind rows cannot answer it."""
        given = {
            "created_after": self.low > 0,
            "created_before": self.high < FOREVER,
            "namespace": self.prefix is not None,
            "valid_at": self.valid_at is not None,
            "known_at": self.known_at is not None,
            "min_confidence": self.min_confidence is not None,
        }
        return tuple(name for name, asked in given.items() if asked)

    @property
    def scans(self) -> bool:
        """Whether each grain of the store would be read."""
        return not self.terms and not self.bounded and bool(self.tested)

    def parts(self) -> tuple[object, ...]:
        """What tells these conditions from others; the order of the filters does not."""
        terms = sorted([(term.key, term.prefix) for term in self.terms])
        return (self[3:-1], terms, *(["bookkeeping"] if self.bookkeeping else []))
