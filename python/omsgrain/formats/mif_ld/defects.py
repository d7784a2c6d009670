# SPDX-License-Identifier: Apache-2.0
"""What a schema does not allow, as it is found: without words, and of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omsgrain.formats.problems import MOST

__all__ = ["Defect", "Defects"]


class Defect:
    """Something that the schema does not allow.

    Attributes:
        code: of which kind it is.
        keyword: of the schema, that found it.
        argument: what the schema gives the keyword; of a closed object, its members.
        value: what stands there; of a key that cannot be, the key.
        way: the keys that lead there, the last first.
    """

    __slots__ = ("argument", "code", "keyword", "value", "way")

    def __init__(self, code: str, keyword: str, argument: Any, value: Any) -> None:
        self.code = code
        self.keyword = keyword
        self.argument = argument
        self.value = value
        self.way: list[str | int] = []


class Defects:
    """Some defects; a thousand are held, the rest counted, or a document could fill the memory."""

    __slots__ = ("found", "more")

    def __init__(self, found: Iterable[Defect] = ()) -> None:
        self.found = list(found)
        self.more = 0

    def take(self, others: Defects, key: str | int | None = None) -> None:
        """Take those of a part in as well, which stands under the key."""
        if key is not None:
            for one in others.found:
                one.way.append(key)
        room = MOST - len(self.found)
        self.found += others.found[:room]
        self.more += others.more + max(len(others.found) - room, 0)
