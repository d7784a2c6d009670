# SPDX-License-Identifier: Apache-2.0
"""The outcome of a record of a document: one table, by what is stored and by strategy.

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

A record whose text is stored under another id, and whose own id holds nothing, is imported with
`overwrite` as a record of that other id.

The newer one is told by ``updated_at``, or else by ``version``. The older one joins the history
before what is stored, which stays current. Kinds of records without a text of their own, such as
todos, have no duplicates: with other fields they are what memories are with another text.
Spec: MIF 1.0 §8, MIF 2.0 §6

AIMEM has the strategy `newest`: by ``created_at`` a newer record supersedes an older one, and all
else is a conflict, for which nothing is done. Spec: AIMEM §3.2, §5.1
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from omsgrain.errors import SchemaError

MifStrategy: TypeAlias = Literal["skip_duplicates", "overwrite", "rename"]
Strategy: TypeAlias = MifStrategy | Literal["newest"]
STRATEGIES: Final[tuple[MifStrategy, ...]] = get_args(MifStrategy)
"""The strategies for MIF."""

Fate: TypeAlias = Literal[
    "imported",
    "inserted",
    "unchanged",
    "updated",
    "older",
    "duplicate",
    "renamed",
    "refused",
    "erased",
    "conflict",
]
Reason: TypeAlias = Literal[
    "invalid",
    "same_text",
    "same_text_here",
    "newer_here",
    "newer_stored",
    "another_user",
    "created_at_conflict",
    "field_conflict",
    "older",
    "dna_conflict",
    "withdrawn",
    "erased",
    "refused",
]
REASONS: Final[dict[Reason, str]] = {
    "invalid": "it breaks a rule of its format",
    "same_text": "a record with the same text is stored",
    "same_text_here": "an earlier record of the document has the same text",
    "newer_here": "it was superseded here by a newer version",
    "newer_stored": "what is stored under its id is newer, and stays; it joins the history",
    "another_user": "it carries a grain of another user",
    "created_at_conflict": "other content, and the same created_at",
    "field_conflict": "other fields, and no newer created_at",
    "older": "other content or fields than what is stored, and an older created_at",
    "dna_conflict": "DNA-class or pinned: superseded only when that is allowed",
    "withdrawn": "what is stored was superseded, retracted or restricted here",
    "erased": "it was erased, and comes back only when that is allowed",
    "refused": "a policy of the store or of a grain in it refuses",
}
"""Why a record is not stored as it came, or is left out. The other records are not touched."""

Own: TypeAlias = Literal[
    "nothing", "same", "fields", "text", "newer", "older", "superseded", "withdrawn", "protected"
]
"""What is stored under the id of a record: nothing; the same; the same text with other fields;
another text, which can be newer or older; a newer version with the record in its history; only
what was withdrawn; what must not be superseded silently."""
Target: TypeAlias = Literal["own", "twin"]


class Decision(NamedTuple):
    """The outcome of a record.

    Attributes:
        fate: what is done with it.
        reason: why it is not stored as it came.
        target: what it supersedes: what has its id, or what has its text.
        fields: those that differ, of a ``field_conflict``; the first twenty.
    """

    fate: Fate
    reason: Reason | None = None
    target: Target | None = None
    fields: tuple[str, ...] = ()


IMPORTED: Final = Decision("imported")
INSERTED: Final = Decision("inserted")
UNCHANGED: Final = Decision("unchanged")
UPDATED: Final = Decision("updated", None, "own")
_TWIN_UPDATED = Decision("updated", None, "twin")
_DUPLICATE = Decision("duplicate", "same_text")
_SUPERSEDED = Decision("unchanged", "newer_here")
_RENAMED = Decision("renamed")
_BEHIND = Decision("older", "newer_stored")
_WITHDRAWN = Decision("refused", "withdrawn")

_TABLE: Final[dict[tuple[Own, bool], tuple[Decision, Decision, Decision]]] = {
    ("nothing", False): (IMPORTED, IMPORTED, IMPORTED),
    ("nothing", True): (_DUPLICATE, _TWIN_UPDATED, _DUPLICATE),
    ("same", False): (UNCHANGED, UNCHANGED, UNCHANGED),
    ("fields", False): (_DUPLICATE, UPDATED, _DUPLICATE),
    ("text", False): (UPDATED, UPDATED, _RENAMED),
    ("text", True): (_DUPLICATE, UPDATED, _DUPLICATE),
    ("newer", False): (_BEHIND, UPDATED, _RENAMED),
    ("newer", True): (_DUPLICATE, UPDATED, _DUPLICATE),
    ("superseded", False): (_SUPERSEDED, _SUPERSEDED, _SUPERSEDED),
    ("withdrawn", False): (_WITHDRAWN, _WITHDRAWN, _WITHDRAWN),
}
"""By what is stored under the id, and whether the same text is current under another."""
NEWEST: Final[dict[Own, Decision]] = {
    "nothing": INSERTED,
    "same": UNCHANGED,
    "older": UPDATED,
    "text": Decision("conflict", "created_at_conflict"),
    "fields": Decision("conflict", "field_conflict"),
    "newer": Decision("conflict", "older"),
    "withdrawn": Decision("conflict", "withdrawn"),
    "protected": Decision("conflict", "dna_conflict"),
}
"""By what is stored under the id: another text, or other fields, have the same ``created_at``."""


def decide(strategy: Strategy, own: Own, twin: bool = False) -> Decision:
    """Decide the outcome of a record that was checked."""
    if strategy == "newest":
        return NEWEST[own]
    row = _TABLE.get((own, twin)) or _TABLE[own, False]
    return row[STRATEGIES.index(strategy)]


def strategy(name: str) -> MifStrategy:
    """Return the strategy of that name."""
    for known in STRATEGIES:
        if known == name:
            return known
    raise SchemaError(
        "not a way to merge", field="/merge_strategy", expected=", ".join(STRATEGIES)
    )
