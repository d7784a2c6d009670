# SPDX-License-Identifier: Apache-2.0
"""Access tokens for the network, each for a tenant or for a sync peer.

    key     SHA-256 of the token, 32 bytes
    value   MessagePack map:
            "n"  name             "c"  when it was created, ms
            "t"  tenant, or nil   "r"  when it was revoked, ms; absent while it is valid
            "s"  list of scopes   "w"  list of namespaces; absent for all

The token itself is not stored. It is 32 random bytes, so its hash needs no salt, and a look-up by
its hash takes the same time for every guess.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, get_args

import msgpack

from omsgrain.errors import IntegrityError, NotFoundError, SchemaError
from omsgrain.query.times import now
from omsgrain.storage import audit
from omsgrain.storage.base import Reader, Storage, Writer
from omsgrain.storage.location import Where, location_of
from omsgrain.storage.tables import TOKENS

Scope = Literal["import", "export", "admin", "sync:read", "sync:write", "sync:admin"]
"""What a token permits: import, export, erase (admin). For sync peers: fetch; send grains and
states; send holds, restrictions and erasures. No scope includes another."""
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
SYNC: Final[frozenset[Scope]] = frozenset({"sync:read", "sync:write", "sync:admin"})
"""Scopes of sync peers, which cannot be combined with others: peers sync namespaces or the whole
store, but not a tenant."""
PREFIX: Final = "omg_"
"""Prefix of every token, so that secret scanners recognize it."""

_BYTES = 32
_TOKEN = re.compile(r"omg_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LONE = re.compile("[\ud800-\udfff]")  # an argument with bytes that are not UTF-8
_SELDOM = 3_600_000  # ms after which to record the use of a token again
_MOST_TENANT = 1_024
_MOST_NAMESPACE = 256
_MOST_NAMESPACES = 64


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, without its secret."""

    name: str  # its name; no two valid tokens have the same name
    tenant: str | None  # the tenant whose memory it opens; None for a sync peer
    scopes: tuple[Scope, ...]  # what it permits
    created: int  # ms since 1970
    revoked: int | None = None  # when it was revoked, ms since 1970; None if it was not
    namespaces: tuple[str, ...] = ()  # the namespaces that it opens; empty for all
    expires: int | None = None  # when it expires, ms since 1970; None if it does not
    # when it was last used, ms since 1970, to about an hour; None if never
    used: int | None = field(default=None, compare=False)

    def holds(self, now: int) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class Tokens:
    """The access tokens of a store. Changes apply to all processes at once."""

    def __init__(
        self,
        store: Storage,
        *,
        actor: str | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock

    def add(
        self,
        name: str,
        tenant: str | None,
        scopes: Iterable[str],
        *,
        namespaces: Iterable[str] = (),
        expires: int | None = None,
    ) -> str:
        """Create a token; returns its secret."""
        if _NAME.fullmatch(name) is None:
            expected = "1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore"
            raise SchemaError("invalid token name", field="/name", expected=expected)
        wanted = set(scopes)
        if not wanted or not wanted <= set(SCOPES):
            raise SchemaError("unknown scopes", field="/scopes", expected=", ".join(SCOPES))
        ordered: tuple[Scope, ...] = tuple(scope for scope in SCOPES if scope in wanted)
        only = tuple(sorted(set(namespaces)))
        if wanted & SYNC and not wanted <= SYNC:
            expected = ", ".join(sorted(SYNC))
            raise SchemaError(
                "sync scopes cannot be combined with other scopes",
                field="/scopes",
                expected=expected,
            )
        _check_reach(tenant, wanted <= SYNC, only)
        now = self._clock()
        if expires is not None and expires <= now:
            raise SchemaError(
                "the token would be expired already",
                field="/expires",
                expected="a time in the future",
            )
        secret = PREFIX + base64.urlsafe_b64encode(os.urandom(_BYTES)).rstrip(b"=").decode()
        token = Token(name, tenant, ordered, now, namespaces=only, expires=expires)

        def work(writer: Writer) -> None:
            if _live(writer, name, now) is not None:
                raise SchemaError("a valid token has this name already", field="/name")
            writer.set_row(TOKENS, _key(secret), _pack(token))
            self._note(writer, "token_added", name)

        self._store.write(work)
        return secret

    def find(self, secret: str) -> Token | None:
        if not is_token(secret):
            return None
        with self._store.read() as reader:
            row = reader.row(TOKENS, _key(secret))
        token = None if row is None else _unpack(row)
        return token if token is not None and token.holds(self._clock()) else None

    def is_use_due(self, token: Token) -> bool:
        return token.used is None or self._clock() - token.used >= _SELDOM

    def note_use(self, secret: str) -> None:
        """Record the use of a token, at most once an hour."""

        def work(writer: Writer) -> None:
            row = writer.row(TOKENS, _key(secret))
            token = None if row is None else _unpack(row)
            if token is not None and self.is_use_due(token):
                writer.set_row(TOKENS, _key(secret), _pack(replace(token, used=self._clock())))

        self._store.write(work)

    def list(self) -> list[Token]:
        with self._store.read() as reader:
            found = [_unpack(row) for _, row in reader.rows(TOKENS)]
        return sorted(found, key=lambda token: (token.created, token.name))

    def revoke(self, name: str, *, forget: bool = False) -> None:
        def work(writer: Writer) -> None:
            rows = [(key, _unpack(row)) for key, row in writer.rows(TOKENS)]
            mine = [(key, token) for key, token in rows if token.name == name]
            live = [(key, token) for key, token in mine if token.revoked is None]
            if not (mine if forget else live):
                raise NotFoundError("no valid token has this name")
            for key, token in mine if forget else live:
                ended = replace(token, revoked=self._clock())
                writer.set_row(TOKENS, key, None if forget else _pack(ended))
            self._note(writer, "token_forgotten" if forget else "token_revoked", name)

        self._store.write(work)

    def count(self, tenants: Iterable[str]) -> int:
        whose = frozenset(tenants)
        now = self._clock()
        return sum(1 for one in self.list() if one.holds(now) and one.tenant in whose)

    def forget(self, tenants: Iterable[str]) -> int:
        whose = frozenset(tenants)

        def work(writer: Writer) -> int:
            rows = [(key, _unpack(row)) for key, row in writer.rows(TOKENS)]
            theirs = [(key, token) for key, token in rows if token.tenant in whose]
            for key, token in theirs:
                writer.set_row(TOKENS, key, None)
                self._note(writer, "token_forgotten", token.name)
            return len(theirs)

        return self._store.write(work)

    def _note(self, writer: Writer, reason: str, name: str) -> None:
        """Add an audit entry with the token's name, without its tenant and its hash."""
        audit.append(
            writer,
            operation="key",
            actor=self._actor,
            time=self._clock(),
            reason_code=reason,
            details={"token": name},
        )


@contextmanager
def open_tokens(
    where: Where, *, readonly: bool = False, actor: str | None = None
) -> Iterator[Tokens]:
    """Open the tokens of an existing store, without its keys."""
    location = location_of(where)
    location.must_exist()  # otherwise an empty directory would become a store
    with closing(location.open(readonly=readonly)) as storage:
        yield Tokens(storage, actor=actor)


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def _check_reach(tenant: str | None, syncs: bool, namespaces: tuple[str, ...]) -> None:
    if syncs and tenant is not None:
        expected = "namespaces, or the whole store"
        raise SchemaError("a sync token has no tenant", field="/tenant", expected=expected)
    if not syncs and namespaces:
        expected = " or ".join(sorted(SYNC))
        raise SchemaError("namespaces need sync scopes", field="/namespaces", expected=expected)
    if not syncs and (tenant is None or not _is_name(tenant, _MOST_TENANT)):
        expected = f"a tenant of 1 to {_MOST_TENANT:,} characters; sync scopes have none"
        raise SchemaError("invalid tenant", field="/tenant", expected=expected)
    if len(namespaces) > _MOST_NAMESPACES or not all(
        _is_name(name, _MOST_NAMESPACE) for name in namespaces
    ):
        expected = f"at most {_MOST_NAMESPACES}, each of 1 to {_MOST_NAMESPACE} characters"
        raise SchemaError("invalid namespaces", field="/namespaces", expected=expected)


def _is_name(text: str, most: int) -> bool:
    return 1 <= len(text) <= most and _LONE.search(text) is None


def _key(secret: str) -> bytes:
    return sha256(secret.encode("ascii")).digest()


def _live(reader: Reader, name: str, now: int) -> Token | None:
    tokens = (_unpack(row) for _, row in reader.rows(TOKENS))
    return next((t for t in tokens if t.name == name and t.holds(now)), None)


def _pack(token: Token) -> bytes:
    row: dict[str, Any] = {
        "n": token.name,
        "t": token.tenant,
        "s": list(token.scopes),
        "c": token.created,
    }
    more = {
        "r": token.revoked,
        "w": list(token.namespaces) or None,
        "e": token.expires,
        "u": token.used,
    }
    row |= {name: value for name, value in more.items() if value is not None}
    packed: bytes = msgpack.packb(row)
    return packed


def _unpack(row: bytes) -> Token:
    try:
        found = msgpack.unpackb(row)
        name, tenant, scopes = found["n"], found["t"], found["s"]
        created, namespaces = found["c"], found.get("w", [])
        revoked, expires, used = (found.get(name) for name in "reu")
        sound = (
            isinstance(name, str)
            and set(scopes) <= set(SCOPES)
            and (tenant is None if set(scopes) <= SYNC else isinstance(tenant, str))
            and isinstance(namespaces, list)
            and all(isinstance(one, str) for one in namespaces)
            and type(created) is int
            and all(one is None or type(one) is int for one in (revoked, expires, used))
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise IntegrityError("the row of a token is damaged")
    only = tuple(namespaces)
    return Token(name, tenant, tuple(scopes), created, revoked, only, expires, used)
