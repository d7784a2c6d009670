# SPDX-License-Identifier: Apache-2.0
"""``Memory``: the memory of an agent about one user, in any store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import omsgrain as og
from omsgrain.errors import RangeError, SchemaError
from omsgrain.memory import verbs
from omsgrain.memory.embedder import BATCH, Embed, Embedder
from omsgrain.memory.factors import Factors
from omsgrain.memory.record import UserGrains, values_of
from omsgrain.memory.trace import traced
from omsgrain.memory.verbs import About
from omsgrain.query import times
from omsgrain.store.context import context_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.grain import Grain
    from omsgrain.query.filters import Filters
    from omsgrain.query.query import Page
    from omsgrain.query.times import Time

_SHORT: Final = 8  # characters of an address
_CITED: Final = 50  # memories that a context chooses from
_MESSAGE: Final = ("role", "content", "created_at", "model")


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that a recall found.

    Attributes:
        text: its text; of more than 8,000 characters the beginning.
        address: the address of its grain.
        type: its type, such as "observation" or "decision"; of another grain the grain's type.
        created_at: when it was made.
        score: how well it matches: 1 for the best; None without a question.
        why: a piece of the text with the words that match in brackets; "near in meaning" if only
            the vector matches; "newest" without a question.
    """

    text: str
    address: str
    type: str
    created_at: datetime
    score: float | None
    why: str


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """One version of a memory.

    Attributes:
        current: whether no newer version replaced it, and it was not retracted.
        superseded_by: the address of the newer version.
    """

    text: str
    address: str
    type: str
    created_at: datetime
    current: bool
    superseded_by: str | None


class MemoryView:
    """A read-only view of one user's memory, of now or of an earlier time.

    Attributes:
        store: the store.
        user: the ``user_id`` of all that it finds.
        at: the time whose knowledge it shows; None: now.
    """

    __slots__ = ("_embedder", "at", "store", "user")

    def __init__(
        self,
        store: og.GrainStore,
        user: str,
        *,
        at: Time | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.store = store
        self.user = user
        self.at = at
        self._embedder = embedder

    def recall(
        self,
        question: str | None = None,
        *,
        limit: int = 5,
        at: Time | None = None,
        since: Time | None = None,
        types: Sequence[str] | None = None,
        vector_weight: float | None = None,
        half_life_days: float | None = None,
        importance_weight: float = 0.0,
    ) -> list[Recalled]:
        """Find memories: those that match a question, the best first; without one the newest.

        The question is text, with the marks of ``GrainStore.search``: ``+word``, ``-word``,
        ``"two words"``, ``begin*``. Age and importance count only if you ask for them; without a
        question, nothing but the time counts.

        Args:
            question: the words to find.
            limit: how many, 1 to 100.
            at: recall only memories that the store knew at this time: ms since 1970, an aware
                datetime, or RFC 3339 text; or how long ago, as a timedelta or text such as ``7d``.
            since: only memories from this time on, such as ``1h``: the last hour.
            types: only these types, of memories or of grains.
            vector_weight: with ``embed``, the share of the vector in the rank, 0 to 1; by default
                that of ``GrainStore.search``.
            half_life_days: a memory that is so many days older than another counts half as much,
                one twice as much older a quarter.
            importance_weight: how much the importance counts, 0 to 1. At 1, a memory of importance
                0 counts nothing; one without importance counts as 0.5.

        Raises:
            RangeError: a number is out of range.
            SchemaError: the question has no word, or a time is invalid.
        """
        if isinstance(types, str):
            raise SchemaError("types are a list", field="/types", found="one text")
        asked: Filters = {
            "known_at": self.at if at is None else at,
            "created_after": since,
        }
        found = verbs.matches(
            self.store,
            self.user,
            question,
            limit=limit,
            types=types,
            filters=asked,
            embedder=self._embedder,
            factors=Factors(vector_weight, half_life_days, importance_weight),
        )
        return [
            Recalled(
                text=values["content"],
                address=match.grain.address,
                type=values["type"],
                created_at=_when(match.grain),
                score=match.score,
                why=match.snippet or ("newest" if question is None else "near in meaning"),
            )
            for match, values in found
        ]

    def search(self, text: str, *, limit: int = 10) -> Page:
        """Search the user's grains as ``GrainStore.search`` does, with whole grains as results."""
        return self.store.search(text, limit=limit, user_id=self.user, known_at=self.at)

    def context(
        self,
        question: str | None = None,
        *,
        budget: int = 2_000,
        count: Callable[[str], int] = len,
    ) -> str:
        """Return the memories about a question as a block of text for a prompt.

        Each memory is a line: the beginning of its address in brackets, its date, its text. The
        best come first. A memory that does not fit is left out. The texts are data that anybody
        may have written: present them to a model as notes, not as instructions.

        Args:
            question: as for ``recall``.
            budget: the largest size of the block.
            count: returns the size of a text: characters by default, or a tokenizer's tokens.

        Raises:
            RangeError: the budget is below 1.
            SchemaError: the question has no word.
        """
        if budget < 1:
            raise RangeError("the budget is too small", field="/budget", expected="at least 1")
        found = self.recall(question, limit=_CITED)
        short = _short([one.address for one in found])
        block = ""
        for one, name in zip(found, short, strict=True):
            text = " ".join(one.text.split())
            line = f"[{name}] {one.created_at:%Y-%m-%d} {text}"
            longer = f"{block}\n{line}" if block else line
            if count(longer) <= budget:
                block = longer
        return block


class Memory(MemoryView):
    """The memory of an agent about one user.

    >>> import omsgrain as og
    >>> with og.Memory("agent.omsg", user="ada") as memory:
    ...     address = memory.remember("Ada likes green tea.")
    ...     memory.recall("tea")[0].text
    'Ada likes green tea.'

    Any number of processes can use one store. With keys, memories are encrypted under the key of
    the user.
    """

    __slots__ = ("_owns",)

    def __init__(
        self,
        store: og.GrainStore | str | os.PathLike[str],
        *,
        user: str,
        keys: KeyRing | None = None,
        embed: Embed | None = None,
    ) -> None:
        """Open the memory of a user. The store is made if it is missing.

        Args:
            store: an open store, which stays open when the memory is closed; or where to open
                one: a path, ":memory:", or the URL of a database in PostgreSQL.
            user: the ``user_id`` of all that it reads and writes.
            keys: encrypt the memories; for a path or URL only.
            embed: a function from a list of texts to a list of vectors. It can have ``model``,
                the name of the model, and ``dimension``. With it ``recall`` also finds memories
                by meaning.

        Raises:
            SchemaError: an argument of another kind.
            StoreError: as for ``omsgrain.open``.
        """
        if not isinstance(user, str) or not user.strip():
            raise SchemaError("a memory belongs to a user", field="/user", expected="a name")
        self._owns = not isinstance(store, og.GrainStore)
        if isinstance(store, og.GrainStore):
            if keys is not None:
                expected = "the keys of the open store"
                raise SchemaError("an open store has its keys", field="/keys", expected=expected)
        else:
            store = og.open(store, keys=keys)
        super().__init__(store, user, embedder=None if embed is None else Embedder(embed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, if the memory opened it."""
        if self._owns:
            self.store.close()

    def remember(
        self,
        text: str,
        *,
        type: str | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Store a memory, and return its address. A text that is known is not stored twice.

        Args:
            text: the memory, at most 100,000 characters.
            type: "observation" by default; or "decision", "learning", "error", "context",
                "conversation", or any word.
            tags: words to find it by.
            importance: 0 to 1.
            metadata: more about it, as JSON.

        Raises:
            RangeError, SchemaError, FormatError: an argument is invalid. Nothing was stored.
            StoreError: the store is read-only, full or damaged.
        """
        about = About(type, tags, importance, metadata)
        grain, _ = verbs.keep(self.store, self.user, text, about, embedder=self._embedder)
        return grain.address

    @traced("create_memory", count=len)
    def remember_messages(
        self, messages: Iterable[Mapping[str, Any]], *, session: str | None = None
    ) -> list[str]:
        """Store the messages of a conversation, an Event each, and return their addresses.

        All are stored with their vectors, or none. ``store.graph.thread(session)`` returns a
        session in order.

        Args:
            messages: each with ``role`` and ``content``, which is a text or a list of blocks;
                optional are ``created_at`` (ms since 1970) and ``model``. The context of the
                grain keeps the other members of a message.
            session: the session that they belong to; a new one by default.

        Raises:
            SchemaError: a message is not of this form.
            StoreError: the store is read-only, full or damaged.
        """
        session = session or str(uuid4())
        now = int(datetime.now(timezone.utc).timestamp() * 1000)
        grains = [
            _event(message, number, now + number, session, self.user)
            for number, message in enumerate(messages)
        ]
        embedder = self._embedder
        texts = [str(grain.get("content", "")) for grain in grains]
        vectors = None
        if embedder is not None:
            made = embedder.vectors([text or " " for text in texts])
            vectors = [{embedder.model: vector} for vector in made]
        report = self.store.put_many(grains, vectors=vectors)
        return [address for address in report.addresses if address is not None]

    def as_of(self, time: Time) -> MemoryView:
        """Return a read-only view of the memory as it was at a time.

        It shows each memory as it was before later updates, and no later memory. No view shows a
        forgotten or erased memory.
        """
        at = times.millis(time, field="/time", now=context_of(self.store).settings.clock())
        return MemoryView(self.store, self.user, at=at, embedder=self._embedder)

    def update(self, address: str, text: str) -> str:
        """Replace the text of a memory with a newer version, and return its address.

        The newer version keeps the id, the type and the tags; ``history`` lists both.

        Args:
            address: the memory, by the address of any version, or by its id.
            text: the new text.

        Raises:
            NotFoundError: the user has no such memory, or it has no current version.
            RangeError: the text is empty or too long.
            StoreError: the store is read-only, full or damaged.
        """
        about = About()
        grain, _ = verbs.keep(
            self.store, self.user, text, about, replaces=address, embedder=self._embedder
        )
        return grain.address

    def forget(self, address: str, *, reason: str | None = None) -> None:
        """Delete a memory with all its versions, and its copies in imported documents.

        Args:
            address: the memory, by the address of any version, or by its id.
            reason: for the audit trail.

        Raises:
            NotFoundError: the user has no such memory.
            PolicyError: a hold, a retention or a policy refuses. Nothing was deleted.
        """
        self.forget_many([address], reason=reason)

    def forget_many(self, addresses: Iterable[str], *, reason: str | None = None) -> None:
        """Delete several memories as ``forget`` does: all of them, or none."""
        if isinstance(addresses, str):
            raise SchemaError("addresses are a list", field="/addresses", found="one text")
        verbs.forget_many(self.store, self.user, addresses, reason=reason)

    def history(self, address: str) -> list[MemoryVersion]:
        """Return all versions of a memory, the oldest first.

        Raises:
            NotFoundError: the user has no such memory.
        """
        owned = UserGrains(self.store, self.user)
        return [
            MemoryVersion(
                text=values["content"],
                address=grain.address,
                type=values["type"],
                created_at=_when(grain),
                current=values["current"],
                superseded_by=values.get("superseded_by"),
            )
            for grain in owned.versions(address)
            for values in [verbs.whole(self.store, owned, grain)]
        ]

    def reembed(self) -> int:
        """Store vectors for the memories that have none of this model; return how many.

        Call it after a change of the model, or to add vectors to an older store.

        Raises:
            SchemaError: the memory was opened without ``embed``.
        """
        if self._embedder is None:
            raise SchemaError("there is no embed", field="/embed", expected="a function")
        owned = UserGrains(self.store, self.user)
        grains = self.store.iter_query(user_id=self.user)
        texts = (
            (grain.address, values_of(grain, owned.get)["content"])
            for grain in grains
            if owned.has_content(grain)
        )
        done = 0
        while batch := list(islice(texts, BATCH)):
            done += self._embedder.reembed(self.store, batch)
        return done


def _when(grain: Grain) -> datetime:
    return datetime.fromtimestamp(grain["created_at"] / 1000, timezone.utc)


def _short(addresses: Sequence[str]) -> list[str]:
    """Return the beginnings of addresses, long enough to tell them apart."""
    size = _SHORT
    while len({address[:size] for address in addresses}) < len(addresses):
        size += 4
    return [address[:size] for address in addresses]


def _event(
    message: Mapping[str, Any], number: int, now: int, session: str, user: str
) -> dict[str, Any]:
    """Return the fields of the Event of a message."""
    at = f"/messages/{number}"
    if not isinstance(message, Mapping):
        raise SchemaError("a message is a mapping", field=at, found=type(message).__name__)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise SchemaError("a message has a role", field=f"{at}/role", expected="a text")
    fields: dict[str, Any] = {
        "type": "event",
        "role": role,
        "created_at": message.get("created_at", now),
        "session_id": session,
        "user_id": user,
    }
    if isinstance(content, str):
        fields["content"] = content
    elif isinstance(content, Sequence) and all(isinstance(one, Mapping) for one in content):
        texts = (one.get("text") for one in content)
        fields["content"] = "\n".join(text for text in texts if isinstance(text, str))
        fields["content_blocks"] = [dict(one) for one in content]
    elif content is not None:
        expected = "a text, or a list of blocks"
        raise SchemaError("a message has a content", field=f"{at}/content", expected=expected)
    if isinstance(model := message.get("model"), str):
        fields["model_id"] = model
    more = {name: value for name, value in message.items() if name not in _MESSAGE}
    if more:
        fields["context"] = more
    return fields
