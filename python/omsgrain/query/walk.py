# SPDX-License-Identifier: Apache-2.0
"""The walk that answers a query: over the shortest list, in order, the others looked up.

Every filter names a term, and every term has its grains in order of time. The value that places a
grain is the same under all its terms (``rust/core/src/index_rows.rs``), so a query walks the
shortest list and asks of each grain whether it is in the others: no list is loaded, nothing is
sorted, and a page of ten reads about ten rows where most grains match.
"""

from __future__ import annotations

import heapq
import json
import re
import unicodedata
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import isqrt
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from omsgrain import _core
from omsgrain.errors import UnsupportedError
from omsgrain.formats.source import KEY, NAMESPACES, STATE, is_beside
from omsgrain.grain import Grain
from omsgrain.query.filters import FOREVER, LONG_NAMESPACE, Conditions, Term, ValueRange
from omsgrain.query.value_range import GATHERED
from omsgrain.query.value_range import places as value_places
from omsgrain.query.where import passes
from omsgrain.search.words import words_of
from omsgrain.storage.base import Reader, Which, misplaced
from omsgrain.storage.records import PAST, unpack
from omsgrain.storage.tables import SEQUENCE, STATES

if TYPE_CHECKING:
    from omsgrain.storage.encrypted import DecryptingReader


def holds(states: Reader, seq: int, grain: Grain, asked: Conditions) -> bool:
    """Tell whether a grain with a sequence number is all that is asked; no list is read."""
    return (
        state_holds(states, seq, asked)
        and asked.low <= created(grain) < asked.high
        and all(equal(grain, name, value) for name, value in asked.equal.items())
        and tests_hold(grain, asked)
        and (asked.bookkeeping or not is_beside(grain))
    )


def state_holds(states: Reader, seq: int, asked: Conditions) -> bool:
    """Tell whether the state of a grain is what is asked; the grain itself is not read."""
    if not asked.stateful:
        return asked.current is None or states.is_past(seq) is not asked.current
    state = unpack(states.row(STATES, SEQUENCE.pack(seq)))
    if state.bits & asked.hidden or (asked.current is False and not state.bits & PAST):
        return False
    if asked.status is not None and state.verification_status != asked.status:
        return False
    if asked.alive_at is not None and is_over(state.expires_at, asked.alive_at):
        return False
    end = state.system_valid_to
    return asked.known_at is None or end is None or end > asked.known_at


def is_over(end: int | None, now: int) -> bool:
    """Tell whether an end of life has come."""
    return end is not None and end <= now


def living(reader: Reader, asked: Conditions, clock: Callable[[], int] | None) -> Conditions:
    """The conditions without the grains whose end of life has come, if there may be any."""
    due = None if clock is None else reader.first_due()
    if due is None or clock is None or not is_over(due, now := clock()):
        return asked
    return asked._replace(alive_at=now)


Ended: TypeAlias = Callable[[int], bool]
"""Tells of a sequence number whether the end of its grain's life has come."""


def ended(reader: Reader, clock: Callable[[], int]) -> Ended | None:
    """Return what tells of a grain that its life is over; None if no grain's is."""
    due, now = reader.first_due(), clock()
    if not is_over(due, now):
        return None
    return lambda seq: is_over(unpack(reader.row(STATES, SEQUENCE.pack(seq))).expires_at, now)


def tests_hold(grain: Grain, asked: Conditions) -> bool:
    """Tell whether a grain says what is asked where no index answers; its state is not read.

    Spec: OMS §5.6: a time span that lacks an end is open there
    """
    fields = grain.fields
    if asked.prefix is not None:
        namespace = fields.get("namespace")
        if not (isinstance(namespace, str) and namespace.startswith(asked.prefix)):
            return False
    if asked.words and not words_of(fields).issuperset(asked.words):
        return False
    if asked.where and not passes(fields, asked.where):
        return False
    if asked.min_confidence is not None:
        confidence = fields.get("confidence")
        if not isinstance(confidence, int | float) or isinstance(confidence, bool):
            return False
        if confidence < asked.min_confidence:
            return False
    if asked.valid_at is not None:
        begin, end = _time(fields.get("valid_from")), _time(fields.get("valid_to"))
        if begin is not None and begin > asked.valid_at:
            return False
        if end is not None and end < asked.valid_at:
            return False
    if asked.known_at is not None:
        begin = _time(fields.get("system_valid_from"))
        if (_time(fields.get("created_at")) or 0 if begin is None else begin) > asked.known_at:
            return False
    return True


def equal(grain: Grain, name: str, value: Any) -> bool:
    """Tell whether a grain has exactly the value that a filter by equality asks for."""
    if name == "type":
        return bool(grain.header.type_byte == value)
    if name == "tag":
        tags = grain.get("structural_tags")
        return isinstance(tags, list) and value in tags
    if name == "origin":
        return value in origins(grain)
    found = grain.get(name)
    if name == "object" and not isinstance(value, str) and found is not None:
        # Only Python takes 1, 1.0 and True for equal; their keys differ.
        return found == value and _core.term(name, found) == _core.term(name, value)
    return bool(found == value)


_HASH = re.compile("[0-9a-f]{64}")


def origins(grain: Grain) -> tuple[str, ...]:
    """The ``id`` of the side channel, and ``sha256:`` with its ``h``: the hash of a record's text.

    Absent and unsuitable values are left out (``rust/core/src/index_rows.rs``).
    """
    value = grain.get(KEY)
    if not isinstance(value, bytes):
        return ()
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(read, dict):
        return ()
    name, hash_ = read.get("id"), read.get("h")
    names = [unicodedata.normalize("NFC", name)] if isinstance(name, str) else []
    if isinstance(hash_, str) and _HASH.fullmatch(hash_):
        names.append(f"sha256:{hash_}")
    return tuple(dict.fromkeys(names))


def _time(value: Any) -> int | None:
    """A time in ms; None if it is none: an opaque grain may have anything there."""
    if isinstance(value, int) and not isinstance(value, bool) and value < 1 << 63:
        return value
    return None


def created(grain: Grain) -> int:
    """The time of a grain's place, in ms."""
    return min(max(0, _time(grain.get("created_at")) or 0), FOREVER - 1)


ALL = Term((), _core.term("all", None))
_STATE = Term(("type",), _core.term("type", STATE))
_BESIDE = {name: Term(("namespace",), _core.term("namespace", name)) for name in NAMESPACES}
_ALL_BESIDE = list(_BESIDE.values())
TOGETHER = 256  # grains read at a time: their rows and their blobs are in memory together
_OPEN = 64  # lists that are walked at the same time
_PATIENCE = 4_096  # grains that are tested before a range is walked after all
_FEW, _SHARE = 1_024, 16  # places of a range that are worth sorting, see `_choose_range`
INDEX_IT = ", or an indexed path (store.paths.add)"
"""Advice to the caller of a refused query; the command line and HTTP have words of their own."""
_COUNTED = 16  # lists whose grains are counted at a time


def is_opened(terms: Reader) -> TypeGuard[DecryptingReader]:
    """Tell whether sealed grains are open in a snapshot."""
    return terms.raw is not terms


class Walk:
    """How a query is answered on a snapshot: the list that is walked, and what is asked of each.

    Nothing here keeps an iterator. One that is left half-way has to die with the caller's
    reference, and not in some later collection of cycles: it keeps its snapshot open.
    """

    __slots__ = (
        "_asked",
        "_beside",
        "_keys",
        "_newest",
        "_others",
        "_plain",
        "_range",
        "_ranged",
        "_reads",
        "_terms",
        "_unsure",
        "_walked_term",
        "_which",
        "blobs",
        "passed",
        "rows",
        "tested",
    )

    def __init__(self, terms: Reader, asked: Conditions, newest: bool) -> None:
        self.rows = 0  # how many rows of the list were read
        self.blobs = 0  # how many grains were read
        self.passed = 0  # how many bookkeeping grains that match were left out
        self._terms = terms
        self._asked = asked
        self._newest = newest
        self._which = asked.which
        self._beside = lists_beside(asked)
        walked, self._keys, others = self._choose()
        self._range = self._ranged = None
        if asked.between:
            self._range, self._ranged = self._choose_range()
            if self._ranged is not None:
                others = [term for term in asked.terms if not term.prefix]
                walked, self._keys = Term((self._ranged.name,), b""), ()
        self._walked_term, self._others = walked, others
        # the filters that no index answers, tested on each grain that is left
        self.tested = asked.tested
        if asked.prefix is not None and (
            not walked.prefix or any(key.startswith(LONG_NAMESPACE) for key in self._keys)
        ):
            # Compared where its list is not walked, or lists of other namespaces are.
            self.tested = ("namespace", *asked.tested)
        self._unsure: dict[str, Any] = {}
        for term in (walked, *others):
            if term.hashed and not term.prefix:
                self._unsure.update({name: asked.equal[name] for name in term.names})
        self._reads = asked.reads or bool(self._unsure) or len(self.tested) > len(asked.tested)
        self._plain = not (others or asked.bounded or asked.stateful)

    @property
    def name(self) -> str:
        return " ".join(self._walked_term.names) or "all"

    @property
    def looked_up(self) -> tuple[str, ...]:
        return tuple([" ".join(term.names) for term in self._others])

    @property
    def estimate(self) -> int:
        if self._ranged is not None:
            first, last = self._ranged.first, self._ranged.last
            return self._terms.count_between(first, last, self._which, GATHERED)
        return sum(self._terms.term_counts([(key, self._which) for key in self._keys]))

    def places(self, start: bytes | None) -> Iterator[bytes]:
        """Walk from behind a place: what is within the bounds, in all lists, and of that state."""
        if self._plain:
            return self._walked(start)
        return self._chosen(start)

    def _chosen(self, start: bytes | None) -> Iterator[bytes]:
        """Walk those places of the list that the other filters leave."""
        asked, newest, which = self._asked, self._newest, self._which
        others = [term.key for term in self._others]
        low, high = _edge(asked.low), _edge(asked.high)
        if asked.bounded:
            edge = high if newest else low
            if start is None or (start > edge if newest else start < edge):
                start = edge
        terms, has, stateful = self._terms, self._terms.has_term, asked.stateful
        for place in self._walked(start):
            self.rows += 1
            if place < low if newest else place >= high:
                return
            for key in others:
                if not has(key, place, which):
                    break
            else:
                if not stateful or state_holds(terms, int.from_bytes(place[12:], "big"), asked):
                    yield place

    def page(self, places: Iterator[bytes], most: int) -> tuple[list[tuple[bytes, Grain]], bool]:
        """Read the next grains that match, up to ``most``, and tell whether any more match."""
        if len(self._keys) == 1:
            others = [term.key for term in self._others]
            self._terms.expect_places(most, others, self._asked.stateful)
        found: list[tuple[bytes, Grain]] = []
        if self._reads:
            found = list(islice(self.matches(places), most + 1))
            return found[:most], len(found) > most
        # One grain more is read where it may be a bookkeeping grain, which only the grain says.
        # Elsewhere its place tells enough.
        beside, wanted = bool(self._beside), most + bool(self._beside)
        while len(found) < wanted:
            page = list(islice(places, min(wanted - len(found), TOGETHER)))
            if not page:
                return found, False
            self.rows += len(page) if self._plain else 0
            there = self._terms.grains_at(page)
            self.blobs += len(there)
            if beside:
                # Only states are asked: nearly every grain is none.
                kept = [one for one in there if one[1].blob[2] != STATE or not is_beside(one[1])]
                self.passed += len(there) - len(kept)
                there = kept
            found = found + there if found else there
        if beside:
            return found[:most], True
        more = next(places, None) is not None
        self.rows += more and self._plain
        return found, more

    def matches(self, places: Iterator[bytes]) -> Iterator[tuple[bytes, Grain]]:
        read, asked, reads, unsure = self._terms.grain, self._asked, self._reads, self._unsure
        for place in places:
            self.rows += self._plain
            grain = read(int.from_bytes(place[12:], "big"))
            if grain is None:
                continue
            self.blobs += 1
            if asked.most is not None and self.blobs > asked.most:
                raise too_many(asked.most)
            if not _core.all_placed([place], [grain.address]):
                raise misplaced()
            if reads and not (
                tests_hold(grain, asked)
                and all(equal(grain, name, value) for name, value in unsure.items())
            ):
                continue
            if self._beside and is_beside(grain):
                self.passed += not reads
                continue
            yield place, grain

    def seqs(self) -> set[int]:
        """The sequence numbers of all that match; grains are read only where they must be."""
        places = self.places(None)
        found = {place for place, _ in self.matches(places)} if self._reads else set(places)
        found.difference_update(self._bookkeeping())
        return {int.from_bytes(place[12:], "big") for place in found}

    def count(self, places: Iterator[bytes], met: int = 0) -> int:
        """Count those that match, reading them only where it must be."""
        if self._reads:
            return met + sum(1 for _ in self.matches(places))
        return met + sum(1 for _ in places) - self._count_beside()

    def _count_beside(self) -> int:
        return sum(1 for _ in self._bookkeeping())

    def _bookkeeping(self) -> Iterator[bytes]:
        asked, own = self._asked, [("type",), ("namespace",)]
        kept = [term for term in self._asked.terms if term.names not in own]
        for term in () if self._reads else there(self._terms, self._beside, self._which):
            narrower = asked._replace(terms=(*kept, _STATE, term), prefix=None, bookkeeping=True)
            walk = Walk(self._terms, narrower, self._newest)
            found = walk.matches(walk.places(None))
            yield from (place for place, grain in found if is_beside(grain))

    def total(self) -> int | None:
        """How many match from the start of the list; None where only a walk can tell.

        What the counts of a snapshot have too many are grains that every count has too many: if
        there are none among all grains, there are none among those of a term.
        """
        if self._others or self.tested or self._unsure or self._asked.bounded:
            return None
        if self._asked.alive_at is not None:
            return None
        own = [(key, self._which) for key in self._keys]
        kinds: tuple[Which, ...] = ("all",) if self._which == "all" else ("current", "past")
        every = [(ALL.key, kind) for kind in kinds]
        beside = [(term.key, self._which) for term in self._beside]
        counts = iter(self._terms.term_counts([*own, *every, *beside]))
        total, whole = sum(islice(counts, len(own))), sum(islice(counts, len(every)))
        if whole != self._terms.count():
            return None
        return total - self._count_beside() if any(counts) else total

    def _choose(self) -> tuple[Term, Sequence[bytes], list[Term]]:
        """Find the shortest list: its term, the keys that make it up, and the other terms."""
        terms, which = self._terms, self._which
        exact = [term for term in self._asked.terms if not term.prefix]
        if len(exact) == len(self._asked.terms) <= 1:
            term = exact[0] if exact else ALL
            return term, (term.key,), []
        counts = terms.term_counts([(term.key, which) for term in exact])
        counted = sorted((count, i) for i, count in enumerate(counts))
        others = [exact[i] for _, i in counted]
        for term in self._asked.terms:
            if term.prefix:
                keys = self._spread(term, counted[0][0] if counted else None)
                if keys is not None:
                    return term, keys, others
        return others[0], (others[0].key,), others[1:]

    def _choose_range(self) -> tuple[ValueRange | None, ValueRange | None]:
        """Find the shortest range, and the same again if it is to be walked.

        To sort the places of a range costs as much as it has. To walk the list and test each
        grain costs as much as it takes to fill a page, on the average. Few of the grains of a
        long list pass where a range has far fewer than they are.
        """
        terms, asked, which = self._terms, self._asked, self._which
        if asked.terms:
            length = sum(terms.term_counts([(key, which) for key in self._keys]))
        else:
            length = terms.count()
        most = min(length, _FEW + _SHARE * isqrt(length), GATHERED)
        counts = [
            (terms.count_between(one.first, one.last, which, most + 1), n)
            for n, one in enumerate(asked.between)
        ]
        count, n = min(counts)
        return asked.between[n], asked.between[n] if count <= most else None

    def _spread(self, term: Term, most: int | None) -> list[bytes] | None:
        """Find the keys with a prefix; None as soon as they have more grains than ``most``."""
        found = (key for one in term.starts for key in self._terms.keys(one, self._which))
        keys: list[bytes] = []
        count = 0
        while part := list(islice(found, _COUNTED)):
            keys += part
            if most is not None:
                count += sum(self._terms.term_counts([(key, self._which) for key in part]))
                if count >= most:
                    return None
        return keys

    def _walked(self, start: bytes | None) -> Iterator[bytes]:
        """Walk the list, or several as if they were one."""
        if self._ranged is not None:
            return value_places(self._terms, self._ranged, start, self._newest, self._which)
        if self._range is not None:
            return self._then_range(self._range, start)
        return self._listed(start)

    def _then_range(self, found: ValueRange, start: bytes | None) -> Iterator[bytes]:
        """Walk the list, and the range from where the list has proved to have few that pass."""
        last, n = start, 0
        for last in islice(self._listed(start), _PATIENCE):
            n += 1
            yield last
        if n < _PATIENCE:
            return
        has, which = self._terms.has_term, self._which
        keys = self._keys if self._asked.terms else ()
        for place in value_places(self._terms, found, last, self._newest, which):
            if not keys or any(has(key, place, which) for key in keys):
                yield place

    def _listed(self, start: bytes | None) -> Iterator[bytes]:
        terms, keys, newest, which = self._terms, self._keys, self._newest, self._which
        if len(keys) == 1:
            return terms.places(keys[0], start, newest, which)
        if len(keys) <= _OPEN:
            lists = [terms.places(key, start, newest, which) for key in keys]
            return heapq.merge(*lists, reverse=newest)
        return self._by_seeking(start)

    def _by_seeking(self, start: bytes | None) -> Iterator[bytes]:
        """Walk many lists, none of which stays open: one more seek for each place."""
        newest = self._newest

        def head(key: bytes, after: bytes | None) -> bytes | None:
            return next(self._terms.places(key, after, newest, self._which), None)

        firsts = ((head(key, start), key) for key in self._keys)
        waiting = sorted((place, key) for place, key in firsts if place is not None)
        while waiting:
            place, key = waiting.pop(-1 if newest else 0)
            yield place
            if (following := head(key, place)) is not None:
                insort(waiting, (following, key))


def too_many(most: int) -> UnsupportedError:
    """Make the error for a query that reads grain after grain for one page."""
    return UnsupportedError(
        "no index answers this: too many grains would be read",
        field="/where",
        expected="another filter, bounds in time, or scan=True" + INDEX_IT,
        found=f"more than {most:,} grains",
    )


def lists_beside(asked: Conditions) -> list[Term]:
    """The lists of namespaces that may hold bookkeeping grains that are to be left out."""
    if asked.bookkeeping or asked.equal.get("type", STATE) != STATE:
        return []
    name, prefix = asked.equal.get("namespace"), asked.prefix or ""
    if name is None and not prefix:
        return _ALL_BESIDE
    return [
        term
        for namespace, term in _BESIDE.items()
        if name in (None, namespace) and namespace.startswith(prefix)
    ]


def there(terms: Reader, lists: Sequence[Term], which: Which) -> list[Term]:
    counts = terms.term_counts([(one.key, which) for one in lists]) if lists else []
    return [one for one, count in zip(lists, counts, strict=True) if count]


def _edge(ms: int) -> bytes:
    """The place behind all earlier grains."""
    return ms.to_bytes(6, "big") + bytes(10)
