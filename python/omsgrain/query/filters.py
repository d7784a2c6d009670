# SPDX-License-Identifier: Apache-2.0
"""The filters of queries: their names and kinds, and the conditions that they become."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from omsgrain import _core
from omsgrain.errors import SchemaError, see_range
from omsgrain.query import times
from omsgrain.query import where as values
from omsgrain.query.times import Time
from omsgrain.query.where import ValueTest, ValueTests
from omsgrain.registry import TYPES
from omsgrain.search.words import split
from omsgrain.storage.base import Which
from omsgrain.storage.records import PAST, RETRACTED, SUPERSEDED, Verification

FOREVER = 1 << 47
"""Ms; beyond the ``created_at`` of every place."""

_HASHED = (0xFE, 0xFF)  # second byte of a key whose term is too long for it
LONG_NAMESPACE = b"n\xff"
"""The first bytes of the keys of namespaces too long for a key."""


class Term(NamedTuple):
    """A list of the index that answers filters; of a prefix, several lists."""

    names: tuple[str, ...]  # the filters
    key: bytes  # the key of the list, or what the keys of all lists begin with
    prefix: bool = False  # whether it is a prefix

    @property
    def hashed(self) -> bool:
        """Whether what is found must be compared with the grain itself."""
        return len(self.key) > 2 and self.key[1] in _HASHED  # two bytes are a type and its kind

    @property
    def starts(self) -> tuple[bytes, ...]:
        """The first bytes of a prefix's keys; a key has a long namespace's hash."""
        return (LONG_NAMESPACE,) if self.hashed else (self.key, LONG_NAMESPACE)


class ValueRange(NamedTuple):
    """The lists of the index between two keys: one for each value at an indexed path."""

    name: str  # the path
    first: bytes
    last: bytes


class Conditions(NamedTuple):
    """All that a query asks of a grain; ``conditions`` makes it."""

    equal: Mapping[str, Any]  # filters by equality, with their values as a grain holds them
    prefix: str | None  # what the namespace begins with
    terms: tuple[Term, ...]  # the lists of the index that answer them
    current: bool | None  # True for what counts now, False for what does so no more, None for both
    bookkeeping: bool  # also the grains that documents left beside their records
    sealed: bool  # also the sealed grains that are open here
    low: int = 0  # created at this time or later, in ms
    high: int = FOREVER  # created before this time
    valid_at: int | None = None  # true at this time, in ms
    known_at: int | None = None  # known at this time, in ms
    status: Verification | None = None  # the verification status
    min_confidence: float | None = None  # the least confidence
    words: tuple[str, ...] = ()  # all of these words are in its texts, folded
    where: tuple[ValueTest, ...] = ()  # what the values inside it must pass
    most: int | None = None  # of grains that may be read for a page
    alive_at: int | None = None  # those whose end of life has not come then, in ms
    tested: tuple[str, ...] = ()  # those of the filters that no index answers
    ages: Mapping[str, int] = MappingProxyType({})  # filters given as ages, in ms before now
    between: tuple[ValueRange, ...] = ()  # what the index has of the values inside
    indexed: bool = False  # whether the index answers all of `where`

    @property
    def names(self) -> tuple[str, ...]:
        """All filters given, but for bounds in ``created_at``."""
        namespace = () if self.prefix is None else ("namespace",)
        return (*self.equal, *namespace, *self.tested)

    @property
    def bounded(self) -> bool:
        return self.low > 0 or self.high < FOREVER

    @property
    def which(self) -> Which:
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
        return not (self.status is None and self.known_at is None and self.alive_at is None)

    @property
    def reads(self) -> bool:
        """Whether a grain must be read to tell; if its namespace must be, the walk knows."""
        return self.tested not in ((), ("verification_status",))

    @property
    def ranges(self) -> tuple[str, ...]:
        """Filters for ranges, which blind rows cannot answer."""
        given = {
            "created_after": self.low > 0,
            "created_before": self.high < FOREVER,
            "namespace": self.prefix is not None,
            "valid_at": self.valid_at is not None,
            "known_at": self.known_at is not None,
            "min_confidence": self.min_confidence is not None,
        }
        if self.where and not self.indexed:
            given |= dict.fromkeys(self.tested_values, True)
        return tuple(name for name, asked in given.items() if asked)

    @property
    def scans(self) -> bool:
        """Whether each grain of the store would be read."""
        return not (self.terms or self.between or self.bounded) and bool(self.tested)

    @property
    def tested_values(self) -> tuple[str, ...]:
        """The filters that are tests of values."""
        return tuple(name for name in self.tested if name == "where" or FILTERS[name].field)

    def parts(self) -> tuple[object, ...]:
        """An identity of these conditions that does not depend on the filters' order."""
        terms = sorted([(term.key, term.prefix) for term in self.terms])
        ages = {name: (ms, "ago") for name, ms in self.ages.items()}  # their times move on
        rest = (
            ages.get("created_after", self.low),
            ages.get("created_before", self.high),
            self.current,
            ages.get("valid_at", self.valid_at),
            ages.get("known_at", self.known_at),
            self.status,
            self.min_confidence,
            self.words,
            self.tested,
            *([self.where] if self.where else []),
        )
        return (rest, terms, *(["bookkeeping"] if self.bookkeeping else []))


class Filters(TypedDict, total=False):
    """The filters of ``query`` and of all else that chooses grains. Those absent filter nothing.

    Attributes:
        type: name of a grain type, or its byte.
        namespace: the whole namespace, or ``robots:*`` for all that begin with ``robots:``.
        subject: the subject; with ``relation`` and ``object`` any of the eight patterns.
        relation: the relation.
        object: the object: a string, or what else the grain holds there.
        user_id: the user.
        session_id: the session.
        run_id: the run.
        tag: one of the structural tags.
        origin: the id that the grain had in a document of another format, such as a URN.
        created_after: created at this time or later: ms since 1970, an aware datetime or RFC 3339
            text; or an age: a timedelta, or text such as ``1h`` or ``7d``.
        created_before: created before this time, so that neighbouring spans share no grain.
        valid_at: true at this time, by ``valid_from`` and ``valid_to``.
        known_at: held to be so by the store at this time: neither later than it learned it nor
            after it was superseded.
        current: True: no grains that were superseded, retracted or restricted. False: only those.
            None: all.
        verification_status: what verification found.
        min_confidence: at least this confidence, 0 to 1.
        bookkeeping: also the grains that keep what is around the records of documents.
        words: all of these words are in its texts, whatever their case and order.
        observer_id: the observer: a sensor, an agent.
        observer_type: the kind of observer, such as ``lidar``.
        goal_state: the state of the goal.
        tool_name: the tool of the action.
        author_did: the DID of the agent that wrote the grain.
        entity_id: the external id of the entity.
        role: the speaker of the message.
        is_error: whether the action failed.
        where: what fields, and values inside ``object`` and ``context``, must be:
            ``{"object.celsius": {"gt": 2.5}, "context.room": "lab"}``. The operators are eq, ne,
            gt, gte, lt and lte; a value alone means eq. ``store.paths`` has an index for it.
        sealed: with False sealed grains are left out. By default they are found too, if the keys
            of the store open them. Ranges (times, confidence, a namespace that ends in ``:*``)
            then need a user_id.
    """

    type: str | int | None
    namespace: str | None
    subject: str | None
    relation: str | None
    object: Any
    user_id: str | None
    session_id: str | None
    run_id: str | None
    tag: str | None
    origin: str | None
    created_after: Time | None
    created_before: Time | None
    valid_at: Time | None
    known_at: Time | None
    current: bool | None
    verification_status: Verification | None
    min_confidence: float | None
    bookkeeping: bool
    words: str | None
    observer_id: str | None
    observer_type: str | None
    goal_state: str | None
    tool_name: str | None
    author_did: str | None
    entity_id: str | None
    role: str | None
    is_error: bool | None
    where: ValueTests | None
    sealed: bool


FilterKind: TypeAlias = Literal[
    "type", "text", "value", "time", "current", "status", "fraction", "flag", "words", "where",
    "bool",
]  # fmt: skip


class Filter(NamedTuple):
    kind: FilterKind  # of its values
    says: str  # what it asks for, in a few words
    indexed: bool = True  # whether an index answers it; else each grain is tested
    equal: bool = False  # whether it compares a field of the grain for equality
    field: bool = False  # the same, as a test in `where` does


FILTERS: dict[str, Filter] = {
    "type": Filter("type", "the type of the grain", equal=True),
    "namespace": Filter("text", "the namespace of the grain", equal=True),
    "subject": Filter("text", "the subject of the grain", equal=True),
    "relation": Filter("text", "the relation of the grain", equal=True),
    "object": Filter("value", "the object of the grain", equal=True),
    "user_id": Filter("text", "the user_id of the grain", equal=True),
    "session_id": Filter("text", "the session_id of the grain", equal=True),
    "run_id": Filter("text", "the run_id of the grain", equal=True),
    "tag": Filter("text", "the tag of the grain", equal=True),
    "origin": Filter("text", "the origin of the grain", equal=True),
    "created_after": Filter("time", "created then or later"),
    "created_before": Filter("time", "created before"),
    "valid_at": Filter("time", "true at this time", indexed=False),
    "known_at": Filter("time", "held to be so at this time", indexed=False),
    "current": Filter("current", "past grains too?"),
    "verification_status": Filter("status", "what verification found", indexed=False),
    "min_confidence": Filter("fraction", "the least confidence", indexed=False),
    "bookkeeping": Filter("flag", "bookkeeping grains of documents too?"),
    "words": Filter("words", "all of these words are in it", indexed=False),
    "observer_id": Filter("text", "the observer", indexed=False, field=True),
    "observer_type": Filter("text", "the kind of observer", indexed=False, field=True),
    "goal_state": Filter("text", "the state of the goal", indexed=False, field=True),
    "tool_name": Filter("text", "the tool of the action", indexed=False, field=True),
    "author_did": Filter("text", "the DID of the author", indexed=False, field=True),
    "entity_id": Filter("text", "the external id of the entity", indexed=False, field=True),
    "role": Filter("text", "the speaker of the message", indexed=False, field=True),
    "is_error": Filter("bool", "whether the action failed", indexed=False, field=True),
    "where": Filter("where", "what fields, and values inside them, must be", indexed=False),
    "sealed": Filter("flag", "sealed grains too?"),
}
"""All filters by name."""
_TESTED = tuple(name for name, one in FILTERS.items() if not one.indexed)
_TIMES = tuple(name for name, one in FILTERS.items() if one.kind == "time")
_FIELDS = tuple(name for name, one in FILTERS.items() if one.field)
_EQUAL = frozenset(name for name, one in FILTERS.items() if one.equal)
_VALUES = tuple([name for name in FILTERS if name not in ("current", "bookkeeping", "sealed")])
"""Those without a default."""


def conditions(given: Mapping[str, Any], clock: Callable[[], int] = times.now) -> Conditions:
    """Check what is asked, by name; ages count from the time of the clock."""
    if not given.keys() <= FILTERS.keys():
        unknown = ascii(min(given.keys() - FILTERS.keys()))[1:-1][:60]
        raise SchemaError("unknown filter", field=f"/{unknown}", expected=", ".join(FILTERS))
    current = given.get("current", True)
    bookkeeping, sealed = _flag(given, "bookkeeping", False), _flag(given, "sealed", True)
    asked = {n: given[n] for n in _VALUES if n in given and given[n] is not None}
    if not (current is None or isinstance(current, bool)):
        raise _wrong("current", "True, False or None", current)
    if asked.keys() <= _EQUAL:  # the commonest questions
        equal, terms = _terms(asked)
        prefix = equal.pop("namespace") if _has_prefix(terms) else None
        return Conditions(equal, prefix, terms, current, bookkeeping, sealed)
    ages = {name: ms for name in _TIMES if (ms := times.age(asked.get(name))) is not None}
    now = clock() if ages else 0
    low = _bound("created_after", asked.pop("created_after", None), now, 0)
    high = _bound("created_before", asked.pop("created_before", None), now, FOREVER)
    tested = tuple([name for name in _TESTED if name in asked])
    valid_at = known_at = status = confidence = None
    words: tuple[str, ...] = ()
    where: tuple[ValueTest, ...] = ()
    if tested:
        valid_at = _millis("valid_at", asked.pop("valid_at", None), now)
        known_at = _millis("known_at", asked.pop("known_at", None), now)
        status = _status(asked.pop("verification_status", None))
        confidence = _confidence(asked.pop("min_confidence", None))
        words = _words(asked.pop("words", None))
        where = values.parse(asked.pop("where")) if "where" in asked else ()
        fields = [name for name in _FIELDS if name in asked]
        where += tuple([_field_test(name, asked.pop(name)) for name in fields])
    if known_at is not None and current is False:
        raise SchemaError(
            "what was known at a time was current then",
            field="/current",
            expected="True or None beside known_at",
        )
    equal, terms = _terms(asked)
    prefix = equal.pop("namespace") if _has_prefix(terms) else None
    return Conditions(
        equal,
        prefix,
        terms,
        current,
        bookkeeping,
        sealed,
        low=low,
        high=high,
        valid_at=valid_at,
        known_at=known_at,
        status=status,
        min_confidence=confidence,
        words=words,
        where=where,
        tested=tested,
        ages=ages,
    )


def _field_test(name: str, value: object) -> ValueTest:
    if FILTERS[name].kind == "bool":
        if not isinstance(value, bool):
            raise _wrong(name, "True or False", value)
        return ValueTest((name,), "eq", value)
    return ValueTest((name,), "eq", _nfc(_text(name, value)))


def _flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    if name not in given:
        return default
    value = given[name]
    if not (value is None or isinstance(value, bool)):
        raise _wrong(name, "True or False", value)
    return default if value is None else value


def _terms(asked: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Term, ...]]:
    """The filters by equality with values as a grain holds them, and their lists."""
    equal: dict[str, Any] = {}
    terms = []
    pair = "subject" in asked and "relation" in asked
    if pair:
        names = ("subject", "relation")
        subject, relation = (_text(name, asked[name]) for name in names)
        terms.append(Term(names, _core.term("subject relation", subject, relation)))
    for name, value in asked.items():
        if name == "type":
            value = _type_byte(value)
        elif name != "object":
            value = _text(name, value)
        prefix = name == "namespace" and value.endswith(":*")
        if prefix:
            value = value[:-1]
        if not (pair and name in ("subject", "relation")):
            terms.append(Term((name,), _core.term(name, value), prefix))
        equal[name] = _nfc(value)
    return equal, tuple(terms)


def _has_prefix(terms: tuple[Term, ...]) -> bool:
    return True in [term.prefix for term in terms]


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON can spell lone surrogates
            raise SchemaError("a filter that is not Unicode", field=f"/{name}") from None
    return value


def _wrong(name: str, expected: str, value: object) -> SchemaError:
    return SchemaError(
        "a filter of the wrong kind",
        field=f"/{name}",
        expected=expected,
        found=type(value).__name__,
    )


def _type_byte(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 255:
        return value
    for kind in TYPES:
        if value == kind.name or value in kind.legacy or value in kind.later:
            return kind.byte
    raise SchemaError(
        "no such grain type",
        field="/type",
        expected=", ".join(t.name for t in TYPES) + ", or a type byte",
    )


def _millis(name: str, value: Time | None, now: int) -> int | None:
    return None if value is None else times.millis(value, field=f"/{name}", now=now)


def _bound(name: str, value: Time | None, now: int, default: int) -> int:
    ms = _millis(name, value, now)
    return default if ms is None else min(max(0, ms), FOREVER)


def _status(value: Any) -> Verification | None:
    if value is not None and value not in get_args(Verification):
        raise SchemaError(
            "no such status",
            field="/verification_status",
            expected=", ".join(get_args(Verification)),
        )
    status: Verification | None = value
    return status


def _confidence(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("min_confidence", "a number from 0 to 1", value)
    see_range("min_confidence", value, 0, 1)
    return float(value)


def _words(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    found = tuple(sorted(set(split(_text("words", value)))))
    if not found:
        raise SchemaError("no word to look for", field="/words", expected="at least one word")
    return found


def _nfc(value: Any) -> Any:
    """A value as a grain holds it."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {_nfc(key): _nfc(item) for key, item in value.items() if item is not None}
    return [_nfc(item) for item in value] if isinstance(value, list | tuple) else value
