# SPDX-License-Identifier: Apache-2.0
"""Errors of the database as StoreError: what it was, and nothing of what was stored.

The database's own words may repeat values of rows, so only their codes are passed on. Where it
could not be reached at all there is no code; what the operating system said is told then.
"""

from __future__ import annotations

import re

import psycopg

from omsgrain.errors import StoreError
from omsgrain.store.postgres.place import Place

__all__ = ["RefusedError", "failure", "is_away", "is_clash", "is_coming", "uncertain"]

_CLASHES = {"40001", "40P01", "CR000"}
"""Transactions that came in each other's way: nothing was written, and it may go better again."""

_AWAY = {"57P01", "57P02", "57P03", "08000", "08001", "08003", "08006", "53300"}
"""The server is going, gone or coming, or has no room for one more connection."""

_COMING = {"57P03", "53300"}

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


def is_away(error: psycopg.Error) -> bool:
    """Whether the server is away, and may come back."""
    if error.sqlstate is not None:
        return error.sqlstate in _AWAY
    return isinstance(error, psycopg.OperationalError)


def is_coming(error: psycopg.Error) -> bool:
    """Whether the server says that it is about to come, or that others have to go first."""
    # Before there is a connection, the driver has no code for what the server says.
    return error.sqlstate in _COMING or "the database system is" in str(error)


class RefusedError(StoreError):
    """The database refused, or could not be reached: that says nothing about what is stored."""


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
    return RefusedError(f"{message} at {place.shown!r}", found=found)


def uncertain(place: Place) -> StoreError:
    """Make the error for a commit whose answer was lost, and whose end cannot be told."""
    return StoreError(
        f"the connection to {place.shown!r} broke while it committed: "
        "what was written may be stored, or not; look before you write it again",
        expected="an answer to the commit",
    )
