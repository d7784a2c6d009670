# SPDX-License-Identifier: Apache-2.0
"""Where a database is: what a URL says, and how that is shown without its password."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from omsgrain.errors import StoreError
from omsgrain.store.url import is_whole

__all__ = ["Place"]

_SCHEMES = "postgresql://", "postgres://"
_SECRETS = "password", "sslpassword", "passfile", "oauth_client_secret"
# Connections whose other end is gone must not wait for hours. Keepalives are for those that wait
# for an answer; where a question has not arrived, none are sent: the user timeout is for these.
_QUESTION = "tcp_user_timeout"
_LEAST = 90  # seconds
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    _QUESTION: str(_LEAST * 1000),
    "application_name": "omsgrain",
}
_ALWAYS = {"client_encoding": "utf8"}  # or the driver gives bytes for the texts of some databases


@dataclass(frozen=True, slots=True)
class Place:
    """A database.

    Attributes:
        conninfo: what the driver needs to connect, with its secrets: never shown.
        shown: the same for people, without them.
        secrets: what must not be shown.
        timed: the URL says itself how long a question may be on its way.
    """

    conninfo: str
    shown: str
    secrets: tuple[str, ...]
    timed: bool

    def __repr__(self) -> str:
        return f"Place({self.shown!r})"

    @classmethod
    def of(cls, url: str) -> Place:
        """Read a URL.

        Raises:
            StoreError: it is none of a PostgreSQL database; what it says is not repeated.
        """
        if not url.startswith(_SCHEMES):
            raise StoreError("not the URL of a database", expected="postgresql://...")
        try:
            said = conninfo_to_dict(url) if is_whole(url.partition("://")[2]) else None
        except (psycopg.Error, UnicodeError):
            said = None  # the driver's own words repeat the URL, with its password
        if said is None:
            raise StoreError(
                "the URL of the database cannot be read",
                expected="postgresql://USER:PASSWORD@HOST:PORT/NAME?OPTION=VALUE",
            )
        secrets = tuple(str(said[name]) for name in _SECRETS if said.get(name))
        who = f"{said['user']}@" if said.get("user") else ""
        hosts = str(said.get("host") or said.get("hostaddr") or "").split(",")
        ports = str(said.get("port") or "").split(",")
        ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
        where = ",".join(f"{h}:{p}" if p else h for h, p in zip(hosts, ports, strict=True))
        shown = f"postgresql://{who}{where}/{said.get('dbname') or ''}"
        conninfo = make_conninfo("", **{**_DEFAULTS, **said, **_ALWAYS})
        return cls(conninfo, shown, secrets, timed=_QUESTION in said)

    def waiting(self, timeout: float, patience: float) -> Place:
        """Return the same for statements that may take so long.

        A server reads nothing while it is at work, or waits for a lock: to the operating system a
        long question behind a slow one is as one that does not arrive.

        Args:
            timeout: seconds that a statement may take; 0: as many as it likes.
            patience: seconds that one may wait for the turn of another writer.
        """
        if self.timed:
            return self
        longest = max(_LEAST, timeout + 30, patience + 30) if timeout else 0  # 0: the system's own
        given = {_QUESTION: str(math.ceil(longest * 1000))}
        return replace(self, conninfo=make_conninfo(self.conninfo, **given))

    def cleaned(self, text: str) -> str:
        """Return a text of the driver on one line, or nothing if a secret is in it."""
        if any(secret in text for secret in self.secrets):
            return ""
        return " ".join(text.split())
