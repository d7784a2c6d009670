# SPDX-License-Identifier: Apache-2.0
"""What becomes of a record that comes: a table of what is stored, by strategy.

    what is stored under its id                   skip_duplicates  overwrite         rename
    nothing                                       imported         imported          imported
    nothing; a native grain has the text          duplicate        updates that one  duplicate
    the same record                               unchanged        unchanged         unchanged
    the same text, other fields                   duplicate        updated           duplicate
    another text                                  updated          updated           renamed
    another text, that is newer by what both say  older            updated           renamed
    another text; the same one under another id   duplicate        updated           duplicate
    a newer version, and this one in its history  unchanged        unchanged         unchanged
    only what was withdrawn here                  refused          refused           refused

A record whose text is stored under another id, and whose own id holds nothing, is taken with
`overwrite` as a record of that other id.

What both say is their ``updated_at``, or else their ``version``. What is older joins the history
before what is stored, which stays current. Kinds of records without a text of their own, such as
todos, have no duplicates: with other fields they are what memories are with another text.
Spec: MIF 1.0 §8, MIF 2.0 §6
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from omsgrain.errors import SchemaError

Strategy: TypeAlias = Literal["skip_duplicates", "overwrite", "rename"]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)

Fate: TypeAlias = Literal[
    "imported", "unchanged", "updated", "older", "duplicate", "renamed", "refused", "erased"
]
Reason: TypeAlias = Literal[
    "invalid",
    "same_text",
    "same_text_here",
    "newer_here",
    "newer_stored",
    "withdrawn",
    "erased",
    "refused",
    "another_user",
]
REASONS: Final[dict[Reason, str]] = {
    "invalid": "it breaks a rule of its format",
    "same_text": "a record with the same text is stored",
    "same_text_here": "an earlier record of the document has the same text",
    "newer_here": "it was superseded here by a newer version",
    "newer_stored": "what is stored under its id is newer, and stays; it joins the history",
    "withdrawn": "what is stored was superseded, retracted or restricted here",
    "erased": "it was erased, and comes back only when that is allowed",
    "refused": "a policy of the store or of a grain in it refuses",
    "another_user": "it carries a grain of another user",
}
"""Why a record is not stored as it came, or is left out. The other records are not touched."""

Own: TypeAlias = Literal["nothing", "same", "fields", "text", "newer", "older", "withdrawn"]
"""What is stored under the id of a record."""
Target: TypeAlias = Literal["own", "twin"]


class Decision(NamedTuple):
    """What becomes of a record.

    Attributes:
        fate: that.
        reason: why it is not stored as it came.
        target: what it supersedes: what has its id, or what has its text.
    """

    fate: Fate
    reason: Reason | None = None
    target: Target | None = None


_IMPORTED = Decision("imported")
_UNCHANGED = Decision("unchanged")
_UPDATED = Decision("updated", None, "own")
_TWIN_UPDATED = Decision("updated", None, "twin")
_DUPLICATE = Decision("duplicate", "same_text")
_OLDER = Decision("unchanged", "newer_here")
_RENAMED = Decision("renamed")
_BEHIND = Decision("older", "newer_stored")
_WITHDRAWN = Decision("refused", "withdrawn")

_TABLE: Final[dict[tuple[Own, bool], tuple[Decision, Decision, Decision]]] = {
    ("nothing", False): (_IMPORTED, _IMPORTED, _IMPORTED),
    ("nothing", True): (_DUPLICATE, _TWIN_UPDATED, _DUPLICATE),
    ("same", False): (_UNCHANGED, _UNCHANGED, _UNCHANGED),
    ("fields", False): (_DUPLICATE, _UPDATED, _DUPLICATE),
    ("text", False): (_UPDATED, _UPDATED, _RENAMED),
    ("text", True): (_DUPLICATE, _UPDATED, _DUPLICATE),
    ("newer", False): (_BEHIND, _UPDATED, _RENAMED),
    ("newer", True): (_DUPLICATE, _UPDATED, _DUPLICATE),
    ("older", False): (_OLDER, _OLDER, _OLDER),
    ("withdrawn", False): (_WITHDRAWN, _WITHDRAWN, _WITHDRAWN),
}
"""By what is stored under the id, and whether the same text is current under another."""


def decide(strategy: Strategy, own: Own, twin: bool) -> Decision:
    """Decide what becomes of a record that was checked."""
    row = _TABLE.get((own, twin)) or _TABLE[own, False]
    return row[STRATEGIES.index(strategy)]


def strategy(name: str) -> Strategy:
    """Take a strategy that was asked for."""
    for known in STRATEGIES:
        if known == name:
            return known
    raise SchemaError(
        "not a way to merge", field="/merge_strategy", expected=", ".join(STRATEGIES)
    )
