# SPDX-License-Identifier: Apache-2.0
"""Phrases as SQL: which rows can have them, which have them, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from omsgrain.search.postgres.rows import cut, lexeme
from omsgrain.search.query import Phrase, Query
from omsgrain.text.fields import COLUMNS, WEIGHTS
from omsgrain.text.words import pairs

__all__ = ["Asked", "asked_of", "narrowed"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A phrase, as the tables are asked for it.

    Attributes:
        words: the words that the table has for it.
        prefix: the last one is only the beginning of a word.
        name: of its parameter.
    """

    words: tuple[str, ...]
    prefix: bool
    name: str

    @property
    def pattern(self) -> str:
        """What stands in a column of a grain that has it, and nowhere else."""
        return f" {'  '.join(self.words)}" + ("" if self.prefix else " ")

    @property
    def given(self) -> dict[str, object]:
        """Its parameters."""
        return {self.name: self.pattern, f"{self.name}_size": len(self.pattern.encode())}

    @property
    def told(self) -> bool:
        """Whether the words of a row alone tell that it has the phrase."""
        return len(self.words) == 1

    @property
    def times(self) -> str:
        """How often a row has it, by the weights of the columns."""
        each = (
            f"{weight}::float8 * (octet_length({column}) - octet_length(replace({column}, "
            f"%({self.name})s, ''))) / %({self.name}_size)s"
            for column, weight in zip(COLUMNS, WEIGHTS, strict=True)
        )
        return f"({' + '.join(each)})"

    @property
    def has(self) -> str:
        """Whether a row has it."""
        return f"({' OR '.join(f'strpos({c}, %({self.name})s) > 0' for c in COLUMNS)})"

    def tsquery(self, store_id: int) -> str:
        """What the words of a row must have."""
        *head, last = (lexeme(store_id, word) for word in self.words)
        return f"({' & '.join([*head, f'{last}:*' if self.prefix else last])})"


def asked_of(phrase: Phrase, name: str) -> Asked:
    """Say how the tables are asked for a phrase."""
    words = pairs(phrase.words) if phrase.joined else phrase.words
    return Asked(tuple(map(cut, words)), phrase.prefix, name)


def narrowed(store_id: int, query: Query, asked: dict[Phrase, Asked]) -> str:
    """A tsquery that every match of a query fulfils, and few others do."""
    if query.required:
        return " & ".join(asked[phrase].tsquery(store_id) for phrase in query.required)
    return " | ".join(asked[phrase].tsquery(store_id) for phrase in query.optional)
