# SPDX-License-Identifier: Apache-2.0
"""JSON values under names in a store; each change of a value is a version."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import is_normalized

from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.query.times import now
from omsgrain.search.words import split
from omsgrain.store import lifecycle
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from omsgrain import GrainStore
    from omsgrain.grain import Grain
    from omsgrain.query.filters import Filters
    from omsgrain.search.vectors import Vector

_RELATION: Final = "has_value"
_FORGOTTEN: Final = "forgotten"
_BY_AGENT: Final = "deleted by an agent"
_DELETED_AT_ONCE: Final = 1_000  # the limit of GrainStore.delete_many
_WORDS: Final = 64  # of a question
_DEPTH: Final = 16  # levels of a value that a grain holds as they are
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def framework(module: str, package: str) -> Any:
    """Import a module of a framework."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        text = f"{package} is not installed"
        raise UnsupportedError(text, expected=f"pip install {package}") from None


class _Clock:
    """Milliseconds since 1970, never the same twice in this process, so that order is kept."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self, after: int = 0) -> int:
        """Return the time now, or the first one after all that were returned before."""
        with self._lock:
            self._last = max(now(), self._last + 1, after + 1)
            return self._last


CLOCK: Final = _Clock()


def pack(value: Any) -> Any:
    """Return a JSON value as a grain can hold it without a loss; some become JSON text.

    A grain holds text in NFC, integers of 64 bits, and no null in a map.
    """
    if isinstance(value, str) and _exact(value, 0):
        return value
    if _exact(value, 1):
        return {"value": value}
    try:
        return {"json": json.dumps(value, separators=(",", ":"))}
    except (TypeError, ValueError, RecursionError):
        expected = "text, numbers, lists and maps with text as keys"
        raise SchemaError("the value is not JSON", expected=expected) from None


def unpack(held: Any) -> Any:
    """Return the value that ``pack`` was given."""
    if isinstance(held, str):
        return held
    return json.loads(held["json"]) if "json" in held else _thawed(held.get("value"))


def _same(held: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON, where 1, 1.0 and true differ."""
    one, two = (json.dumps(_thawed(value), sort_keys=True) for value in (held, other))
    return one == two


def _thawed(value: Any) -> Any:
    """Return a value of a grain with dicts and lists of its own, which a caller may change."""
    if isinstance(value, Mapping):
        return {name: _thawed(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_thawed(inner) for inner in value]
    return value


def _exact(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is str:
        return is_normalized("NFC", value) and not any("\ud800" <= c <= "\udfff" for c in value)
    if kind is bool:
        return True
    if kind is int:
        return bool(_LEAST <= value <= _MOST)
    if kind is float:
        return isfinite(value)
    if depth > _DEPTH:
        return False
    if kind is dict:
        return all(
            type(name) is str and _exact(name, depth) and _exact(inner, depth + 1)
            for name, inner in value.items()
        )
    return kind is list and all(_exact(inner, depth + 1) for inner in value)


class Entry(NamedTuple):
    """A value under a name.

    Attributes:
        address: the address of its grain.
        created_at: when this version was made, in ms since 1970.
    """

    name: str
    value: Any
    address: str
    created_at: int


class Entries:
    """The values of one namespace of a user. A newer value supersedes the older one.

    Args:
        store: an open store.
        user: whose values they are.
        namespace: where they are.

    Raises:
        SchemaError: a name is no text, or a value is not JSON.
        InvalidationDeniedError: a hold or a policy forbids to supersede or delete a value.
    """

    __slots__ = ("_lock", "namespace", "store", "user")

    def __init__(self, store: GrainStore, user: str, namespace: str) -> None:
        self.store = store
        self.user = user
        self.namespace = namespace
        self._lock = threading.RLock()

    def get(self, name: str) -> Entry | None:
        """Return the current value under a name."""
        found = self._current(name)
        return _entry(found[0]) if found else None

    def all(self, tag: str | None = None) -> Iterator[Entry]:
        """Iterate over the current values, or those with a tag; those that changed last first."""
        seen: set[str] = set()
        for grain in self.store.iter_query(namespace=self.namespace, user_id=self.user, tag=tag):
            entry = _entry(grain)
            if entry.name not in seen:
                seen.add(entry.name)
                yield entry

    def set(self, name: str, value: Any) -> str:
        """Store a value under a name, and return its address. An equal value stays as it is.

        Args:
            name: any text.
            value: any JSON value.
        """
        return self._change([(name, pack(value), name)])[0]

    def set_many(
        self,
        values: Mapping[str, Any],
        *,
        renamed: Mapping[str, str] | None = None,
        vectors: Mapping[str, Vector] | None = None,
        tags: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Store several values, and rename others with their history, in one transaction.

        Args:
            values: JSON values by name.
            renamed: new names by the old ones. A name without a value is left out.
            vectors: vectors of values by name, with the namespace as the name of their model. The
                vector of an equal value is replaced in a transaction of its own.
            tags: tags of values by name; an equal value keeps those that it has.
        """
        changes = [(name, pack(value), name) for name, value in values.items()]
        for old, new in (renamed or {}).items():
            found = self._current(old)
            if found:
                changes.append((new, found[0]["object"], old))
        self._change(changes, vectors, tags)

    def _change(
        self,
        changes: Sequence[tuple[str, Any, str]],
        vectors: Mapping[str, Vector] | None = None,
        tags: Mapping[str, Sequence[str]] | None = None,
    ) -> list[str]:
        """Store values, each a name, the value and the name that it supersedes."""
        addresses: list[str] = []
        beside = [
            {self.namespace: vectors[name]} if vectors and name in vectors else None
            for name, _, _ in changes
        ]
        items: dict[int, tuple[dict[str, Any], Filters]] = {}
        with self._lock:
            for i, (name, held, before) in enumerate(changes):
                there = self._current(before)
                addresses.append(there[0].address if there else "")
                if len(there) == 1 and name == before and _same(there[0]["object"], held):
                    continue
                latest = max((grain["created_at"] for grain in there), default=0)
                replaced: Filters = {
                    "subject": _subject(before),
                    "namespace": self.namespace,
                    "user_id": self.user,
                }
                fields = self._fields(name, held, latest)
                if tags and name in tags:
                    fields["structural_tags"] = list(tags[name])
                items[i] = fields, replaced
            if items:
                stored = lifecycle.replace_many(
                    context_of(self.store), [*items.values()], vectors=[beside[i] for i in items]
                )
                for i, address in zip(items, stored, strict=True):
                    addresses[i] = address
            equal = [
                (addresses[i], vector[self.namespace])
                for i, vector in enumerate(beside)
                if vector is not None and i not in items
            ]
            if equal:
                self.store.vectors.add_many(equal, model=self.namespace)
        return addresses

    def delete(self, names: Iterable[str]) -> int:
        """Delete values with all their versions; return how many names had one."""
        with self._lock:
            found = [grains for name in names if (grains := self._current(name))]
            delete_versions(self.store, chain.from_iterable(found))
        return len(found)

    def history(self, name: str) -> list[Entry]:
        """Return all versions of a value, the oldest first, those under former names too."""
        versions = {
            version.address: version
            for grain in self._current(name)
            for version in self.store.history(grain.address)
        }
        return [_entry(grain) for grain in versions.values()]

    def _current(self, name: str) -> list[Grain]:
        page = self.store.query(
            subject=_subject(name), namespace=self.namespace, user_id=self.user
        )
        return [hit.grain for hit in page.results]

    def _fields(self, name: str, held: Any, after: int) -> dict[str, Any]:
        return {
            "type": "belief",
            "subject": _subject(name),
            "relation": _RELATION,
            "object": held,
            "confidence": 1.0,
            "namespace": self.namespace,
            "user_id": self.user,
            "created_at": CLOCK.next(after),
        }


def delete(store: GrainStore, addresses: Iterable[str], *, forget: bool = True) -> None:
    """Delete grains, up to 1,000 in a transaction; no import brings back what is forgotten."""
    why: dict[str, str] = {"reason": _BY_AGENT, "erased": _FORGOTTEN} if forget else {}
    left = iter(addresses)
    while some := list(islice(left, _DELETED_AT_ONCE)):
        store.delete_many(some, **why)


def delete_versions(store: GrainStore, grains: Iterable[Grain], *, forget: bool = True) -> None:
    """Delete grains with all their versions."""
    versions = {v.address: None for one in list(grains) for v in store.history(one.address)}
    delete(store, versions, forget=forget)


def question(text: str) -> str | None:
    """Return the words of a text without marks of a search, such as those of a message."""
    words = dict.fromkeys(split(text))
    return " ".join(list(words)[:_WORDS]) or None


def _entry(grain: Grain) -> Entry:
    subject = grain["subject"]
    name = json.loads(subject) if subject.startswith('"') else subject
    return Entry(name, unpack(grain["object"]), grain.address, grain["created_at"])


def _subject(name: str) -> str:
    """Return the subject for a name; a name that no subject can hold is a JSON string."""
    if not isinstance(name, str):
        raise SchemaError("a name is a text", field="/name", found=type(name).__name__)
    return name if name and name[0] != '"' and _exact(name, 0) else json.dumps(name)
