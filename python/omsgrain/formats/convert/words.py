# SPDX-License-Identifier: Apache-2.0
"""What one format calls what another one calls otherwise.

Where both have a word for the same thing, one stands for the other, both ways. Where a format has
none, its nearest is written, and the word is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from omsgrain.formats.aimem.fields import EDGE_TYPES, ENTITY_KINDS, NAME
from omsgrain.formats.aimem.fields import MEMORY_TYPES as AIMEM_TYPES
from omsgrain.formats.mif1.check import EDGE_TYPES as MIF1_EDGES
from omsgrain.formats.mif1.check import MEMORY_TYPES as MIF1_TYPES

CHUNK_TYPES: Final = {name: name for name in AIMEM_TYPES} | {
    "fact": "observation",
    "goal": "intention",
}
"""AIMEM's kinds of memory by their names in the model."""
_CHUNKS: Final = {name: own for own, name in CHUNK_TYPES.items()}
_FACTS: Final = frozenset(
    (None, "", "fact", "learning", "discovery", "pattern", "context", "semantic")
)

NEAREST_PASCAL: Final = {
    "preference": "Pattern",
    "pitfall": "Error",
    "procedure": "Learning",
    "episodic": "Conversation",
    "procedural": "Learning",
}
"""What MIF 1.0 has no word for, by what comes nearest; all else is an Observation."""

OWN_EDGES: Final = {name: name for name in EDGE_TYPES} | {
    "hebbian": "semantic_association",
    "temporal": "temporal_sequence",
}
"""AIMEM's types of edges by their names in the model, which MIF 1.0 has too."""
OWN_KINDS: Final = {name: name for name in ENTITY_KINDS} | {"place": "location"}
"""AIMEM's kinds of entities by their names in the model."""

BELIEFS: Final = {
    "mg:prefers": "preference",
    "mg:avoids": "pitfall",
    "aimem:decided": "decision",
    "aimem:identity": "identity",
    "mif:decided": "decision",
    "mif:pattern": "pattern",
}
"""What kind of memory a belief is, by its relation."""
KNOWS: Final = "mg:knows"

_BANDS: Final = ((0.8, "critical"), (0.5, "important"))
_SHOWN: Final = {"critical": 0.9, "important": 0.6, "standard": 0.3}


def aimem_memory(name: str | None) -> str:
    """The kind of memory that AIMEM has for one of the model."""
    if name == "procedural":
        return "procedure"
    return _CHUNKS.get(name or "") or ("fact" if name in _FACTS else "episodic")


def from_aimem(word: str, words: Mapping[str, str]) -> str:
    """A word of AIMEM in the model; those of other makers stand there as ``x-...``."""
    if word in words:
        return words[word]
    bare = word.removeprefix("x-")
    return word if bare in words.values() or bare.startswith("x-") else bare


def own(name: str | None, words: Mapping[str, str]) -> str:
    """A word of the model in AIMEM; the way back of `from_aimem`."""
    for word, known in words.items():
        if known == name:
            return word
    if not name or len(name) > NAME - 2:
        return "x-unknown"
    return name if name.startswith("x-") and len(name) > 2 else f"x-{name}"


def mif1_memory(name: str | None) -> str:
    """The type of memory that MIF 1.0 has for one of the model."""
    pascal = _pascal(name or "")
    if pascal in MIF1_TYPES:
        return pascal
    return NEAREST_PASCAL.get(name or "", "Observation")


def mif1_edge(name: str | None) -> str:
    """The type of edge that MIF 1.0 has for one of the model."""
    return name if name in MIF1_EDGES else MIF1_EDGES[0]


def snake(word: str) -> str:
    """``CodeEdit`` as ``code_edit``; what is spelled in another way stays."""
    split = re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower()
    return split if _pascal(split) == word else word


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def cased(word: str) -> str:
    """``PERSON`` as ``person``; what is spelled in another way stays."""
    return word.lower() if word.lower().upper() == word else word


def shown(name: str) -> str:
    """The way back of `cased`."""
    return name.upper() if name.upper().lower() == name else name


def priority_of(importance: float | None) -> str | None:
    """The priority of an importance, by the bands of the SEP. Spec: MIF 1.0 §3.2."""
    if importance is None:
        return None
    return next((name for least, name in _BANDS if importance >= least), "standard")


def importance_of(priority: str | None) -> float | None:
    """An importance in the middle of the band of a priority; its way back is `priority_of`."""
    return None if priority is None else _SHOWN.get(priority)


SAID_BY_TYPE: Final = frozenset(
    (KNOWS, *(name for name, word in BELIEFS.items() if snake(mif1_memory(word)) == word))
)
"""The relations of beliefs that a type of memory says."""
