# SPDX-License-Identifier: Apache-2.0
"""What the versions of MIF do not have in common, for imports and exports: one row each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from omsgrain.errors import SchemaError

if TYPE_CHECKING:
    from omsgrain.formats.records import RecordTable

NAMES: Final = ("mif2", "mif1", "mif-ld")
"""All of them."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the format.

    Attributes:
        name: as ``formats.load`` takes it.
        table: its kinds of records as grains.
        arrays: the kinds of records, by pointer of the array that they stand in.
        references: of each kind the members that hold ids of other records, and of which kind
            these are; a member of a member with a slash.
        renamed: the kinds that have an id of their own, which ``rename`` changes.
        single: pointers of records that stand in no array.
    """

    name: str
    table: RecordTable
    arrays: dict[str, str]
    references: dict[str, dict[str, str]]
    renamed: frozenset[str]
    single: frozenset[str] = frozenset()

    def place_of(self, pointer: str) -> tuple[str, int | None]:
        """The array and the number of the record that a pointer leads to, or into."""
        for array in self.arrays:
            if pointer.startswith(f"{array}/") and array not in self.single:
                digits = pointer[len(array) + 1 :].split("/", 1)[0]
                if digits.isdecimal():
                    return array, int(digits)
        single = next((one for one in self.single if f"{pointer}/".startswith(f"{one}/")), None)
        return (pointer, None) if single is None else (single, 0)


@cache
def version(name: str) -> Version:
    """The row of a version."""
    if name == "mif2":
        from omsgrain.formats.mif2.check import REFERENCES
        from omsgrain.formats.mif2.records import TABLE

        arrays = {
            "/memories": "memory",
            "/knowledge_graph/entities": "entity",
            "/knowledge_graph/relationships": "relationship",
            "/knowledge_graph/episodes": "episode",
            "/todos": "todo",
            "/projects": "project",
            "/reminders": "reminder",
        }
        return Version(name, TABLE, arrays, REFERENCES, frozenset(REFERENCES))
    if name == "mif1":
        from omsgrain.formats.mif1.check import REFERENCES as REFERENCES1
        from omsgrain.formats.mif1.records import TABLE as TABLE1

        arrays = {
            "/memories": "memory",
            "/todos": "todo",
            "/graph/nodes": "node",
            "/graph/edges": "edge",
            "/consent": "consent",
        }
        renamed = frozenset(("memory", "todo"))
        return Version(name, TABLE1, arrays, REFERENCES1, renamed, frozenset(("/consent",)))
    if name == "mif-ld":
        from omsgrain.formats.mif_ld.records import TABLE as TABLE_LD

        # The URNs of memories are names: none of them is given another one.
        return Version(name, TABLE_LD, {"/memories": "memory"}, {}, frozenset())
    expected = "mif2, mif1 or mif-ld"
    raise SchemaError("not a version of MIF", field="/format", expected=expected)
