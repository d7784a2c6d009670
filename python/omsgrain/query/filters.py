# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a store: the filters by name, checked and made conditions."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, get_args

from omsgrain import _core
from omsgrain.errors import OmsError, RangeError, SchemaError, number_found
from omsgrain.registry import TYPES
from omsgrain.search.words import split
from omsgrain.storage.base import Which
from omsgrain.storage.records import PAST, RETRACTED, SUPERSEDED, Verification

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


Time: TypeAlias = int | datetime | str
"""Ms since 1970, an aware datetime, or RFC 3339 text."""

FILTERS = (
    "type",
    "namespace",
    "subject",
    "relation",
    "object",
    "user_id",
    "session_id",
    "run_id",
    "tag",
    "origin",
)
"""The filters by equality, by name."""
CONDITIONS = (*FILTERS, "created_after", "created_before", "current", "bookkeeping", *TESTED)
"""All that a query can ask of a grain, by name."""
_KNOWN = frozenset(CONDITIONS)
_EQUAL = frozenset(FILTERS)


def conditions(given: Mapping[str, Any]) -> Conditions:
    """Check what is asked, by name."""
    if not given.keys() <= _KNOWN:
        unknown = ascii(min(given.keys() - _KNOWN))[1:-1][:60]
        raise SchemaError("unknown filter", field=f"/{unknown}", expected=", ".join(CONDITIONS))
    current = given.get("current", True)
    asked = {n: value for n, value in given.items() if value is not None and n != "current"}
    bookkeeping = asked.pop("bookkeeping", False)
    if not isinstance(bookkeeping, bool):
        raise _wrong("bookkeeping", "True or False", bookkeeping)
    if not (current is None or isinstance(current, bool)):
        raise _wrong("current", "True, False or None", current)
    if asked.keys() <= _EQUAL:  # the commonest questions
        equal, terms = _terms(asked)
        prefix = equal.pop("namespace") if _has_prefix(terms) else None
        return Conditions(
            equal, prefix, terms, 0, FOREVER, current, None, None, None, None, (), (), bookkeeping
        )
    low = _bound("created_after", asked.pop("created_after", None), 0)
    high = _bound("created_before", asked.pop("created_before", None), FOREVER)
    tested = tuple([name for name in TESTED if name in asked])
    valid_at = known_at = status = confidence = None
    words: tuple[str, ...] = ()
    if tested:
        valid_at = _millis("valid_at", asked.pop("valid_at", None))
        known_at = _millis("known_at", asked.pop("known_at", None))
        status = _status(asked.pop("verification_status", None))
        confidence = _confidence(asked.pop("min_confidence", None))
        words = _words(asked.pop("words", None))
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
        low,
        high,
        current,
        valid_at,
        known_at,
        status,
        confidence,
        words,
        tested,
        bookkeeping,
    )


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


def _millis(name: str, value: Time | None) -> int | None:
    if value is None:
        return None
    try:
        return _core.millis(value)
    except OmsError as error:
        error.field = f"/{name}"
        raise


def _bound(name: str, value: Time | None, default: int) -> int:
    ms = _millis(name, value)
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
    if not 0 <= value <= 1:  # NaN neither
        raise RangeError(
            "no confidence is so",
            field="/min_confidence",
            expected="0 to 1",
            found=number_found(value),
        )
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
