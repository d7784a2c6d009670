# SPDX-License-Identifier: Apache-2.0
"""The URL of a store in PostgreSQL; what is shown of it has no password.

    postgresql://robots@hub.example:5432/memory?tenant=fleet7

It is a URL as libpq reads it, with one parameter more: ``tenant``, whose part of the database it
is. Where it has no password, libpq looks into ``PGPASSWORD`` and ``~/.pgpass``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from omsgrain.errors import SchemaError, UnsupportedError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = ("postgresql", "postgres")
_TENANT = "tenant"
_EXPECTED = "postgresql://USER@HOST/DATABASE"


def is_url(where: object) -> bool:
    """Whether this has the form of a URL, and not of a path."""
    return isinstance(where, str) and _SCHEME.match(where) is not None


_WRITTEN = "user, password, hosts and database with @ : / ? written as %40 %3A %2F %3F"
_HOST = r"(?:\[[^]@/?]*\]|[^]@/?:,[]*)(?::\d*)?"
_UNSENT = re.compile("[\0\ud800-\udfff]")
_REST = re.compile(
    rf"(?:[^@/?]*@)?{_HOST}(?:,{_HOST})*(?:/[^@/?]*)?(?:\?(?:[^=&]+=[^&]*(?:&|$))*)?"
)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Where a store in PostgreSQL is.

    Attributes:
        shown: the URL without passwords and options, for people.
        secret: the URL as the driver takes it: without the tenant, with the password if it has
            one. Never show it.
        tenant: whose part of the database; None for the one that has no name.
    """

    shown: str
    secret: str = field(repr=False)
    tenant: str | None = None

    @classmethod
    def parse(cls, text: str) -> StoreUrl:
        """Read a URL."""
        found = _SCHEME.match(text)
        if found is None:
            raise SchemaError("not the URL of a store", expected=_EXPECTED)
        scheme = found[1].lower()
        if scheme not in _SCHEMES:
            raise UnsupportedError(
                "no store is opened by such a URL", expected=_EXPECTED, found=f"{scheme}://"
            )
        if not (is_whole(text[found.end() :]) and can_be_sent(text)):
            raise SchemaError("not a URL that can be read", expected=_WRITTEN)
        rest, _, query = text[found.end() :].partition("?")
        authority, slash, database = rest.partition("/")
        login, at, hosts = authority.rpartition("@")
        user = login.partition(":")[0]
        options = [one for one in query.split("&") if one]
        named = [one.partition("=")[2] for one in options if _name(one) == _TENANT]
        if len(named) > 1:
            raise SchemaError("a store is of one tenant", field="/tenant", found="several")
        tenant = _decoded(named[0]) if named else None
        kept = "&".join(one for one in options if _name(one) != _TENANT)
        shown = f"postgresql://{user}{at}{hosts}{slash}{database}"
        return cls(
            shown=shown + (f"?{_TENANT}={named[0]}" if named else ""),
            secret=f"postgresql://{rest}" + (f"?{kept}" if kept else ""),
            tenant=tenant,
        )

    def __str__(self) -> str:
        """The URL without its password."""
        return self.shown


def is_whole(rest: str) -> bool:
    """Tell whether what is behind the scheme reads in one way only.

    A password with such signs as they are would be taken for a host or a path, and shown.
    """
    return _REST.fullmatch(rest) is not None


def can_be_sent(text: str) -> bool:
    """Tell whether a database takes a text: without NUL, and Unicode."""
    return _UNSENT.search(text) is None


def _name(option: str) -> str:
    return unquote(option.partition("=")[0])


def _decoded(value: str) -> str:
    try:
        tenant = unquote(value, errors="strict")
    except UnicodeDecodeError:
        tenant = ""
    if not (tenant and can_be_sent(tenant)):
        raise SchemaError("not a tenant", field="/tenant", expected="a name in UTF-8")
    return tenant
