# SPDX-License-Identifier: Apache-2.0
"""Errors of the database as StoreError: what it was, and nothing of what was stored.

The database's own words may repeat values of rows, so only their codes are passed on. Where it
could not be reached at all there is no code; what the operating system said is told then.
"""

from __future__ import annotations

import re

import psycopg

from omsgrain.errors import AccessDeniedError, DiskFullError, StoreError
from omsgrain.store.postgres.place import Place

__all__ = [
    "RefusedError",
    "failure",
    "is_away",
    "is_broken",
    "is_clash",
    "is_coming",
    "is_own",
    "uncertain",
]

_CLASHES = {"40001", "40P01", "CR000"}
"""Transactions that came in each other's way: nothing was written, and it may go better again."""

_AWAY = {"57P01", "57P02", "57P03", "57P05", "08000", "08001", "08003", "08006", "53300"}
"""The server is going, gone or coming, or has no room for one more connection."""

_UNTOLD = {"08007", "40003"}
"""The server does not know itself what became of a commit."""

_OUT_OF_TIME = {"25P03", "25P04"}
"""The server has ended a transaction that did nothing for too long, or took too long."""

# Before there is a connection, the driver has no code for what the server says, only its words:
# in English here. A server that speaks otherwise is waited for only once a store is open.
_COMING = re.compile(
    "the database system is"
    "|too many (clients|connections)|connection slots are reserved|no more connections allowed"
)

_OWN = {"22", "23", "54"}
"""Classes of errors in values, in what rows must be, and in how much one statement may be."""

_KNOWN = {
    "55P03": "another process writes to the store, or writes its tables anew, and does not end,",
    "57014": "one statement took too long, or was ended by somebody,",
    "53100": "the disk of the database is full",
    "42501": "the role may not do that in the database",
    "25006": "the database only lets itself be read",
}
_REASON = re.compile(r"(?:FATAL:|failed:)\s*(.*)", re.DOTALL)
_LONGEST = 200


def is_clash(error: psycopg.Error) -> bool:
    """Whether the transaction was taken back because of others, and may be run again."""
    return error.sqlstate in _CLASHES


def is_own(error: psycopg.Error) -> bool:
    """Whether it lies in what was asked for, and so says nothing about other works."""
    return (error.sqlstate or "")[:2] in _OWN


def is_away(error: psycopg.Error) -> bool:
    """Whether the server is away, and may come back."""
    if error.sqlstate is not None:
        return error.sqlstate in _AWAY | _UNTOLD
    return isinstance(error, psycopg.OperationalError)


def is_broken(error: psycopg.Error, closed: bool) -> bool:
    """Whether a transaction was lost with its connection, and may be run again.

    Args:
        error: what the driver raised.
        closed: the connection went with it. Whoever stands between (PgBouncer) has codes of its
            own for that, so the code alone does not tell.
    """
    return is_away(error) or (closed and error.sqlstate not in _OUT_OF_TIME)


def is_coming(error: psycopg.Error) -> bool:
    """Whether the server says that it is about to come, or that others have to go first."""
    return _COMING.search(str(error)) is not None


class RefusedError(StoreError):
    """The database refused, or could not be reached: that says nothing about what is stored."""


class FullError(RefusedError, DiskFullError):
    """The disk of the database is full."""


class DeniedError(RefusedError, AccessDeniedError):
    """The role may not do that, or nobody may write to the database."""


_KINDS: dict[str, type[RefusedError]] = {
    "53100": FullError,
    "42501": DeniedError,
    "25006": DeniedError,
}


def failure(place: Place, doing: str, error: psycopg.Error) -> RefusedError:
    """Make the error for something that the database refused.

    Args:
        place: which database.
        doing: what was tried, as in "could not ...".
        error: what the driver raised.
    """
    state = error.sqlstate
    message = _KNOWN.get(state or "", f"could not {doing}")
    if state is None:
        match = _REASON.search(str(error))
        text = place.cleaned(match[1] if match else str(error))[:_LONGEST]
        found = text or type(error).__name__
    else:
        try:
            found = f"{psycopg.errors.lookup(state).__name__} ({state})"
        except KeyError:
            found = state
    kind = _KINDS.get(state or "", RefusedError)
    return kind(f"{message} at {place.shown!r}", found=found)


def uncertain(place: Place) -> StoreError:
    """Make the error for a commit whose answer was lost, and whose end cannot be told."""
    return StoreError(
        f"the connection to {place.shown!r} broke while it committed: "
        "what was written may be stored, or not; look before you write it again",
        expected="an answer to the commit",
    )
