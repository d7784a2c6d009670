# SPDX-License-Identifier: Apache-2.0
"""How a defect is mended: what was most likely meant, in words of the format only."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Final

from omsgrain.formats.mif_ld.codes import CODES
from omsgrain.formats.mif_ld.defects import Defect
from omsgrain.formats.mif_ld.shape import Shape

__all__ = ["ENTITIES", "RELATIONS", "hint_of", "meant"]

RELATIONS: Final = (
    "RelatesTo", "DerivedFrom", "Supersedes", "ConflictsWith", "PartOf", "Implements", "Uses",
    "Created", "MentionedIn",
)  # fmt: skip
"""The types of relationships of shape 0.1; those of 1.x are spelled in lower case with hyphens."""
ENTITIES: Final = ("Person", "Organization", "Technology", "Concept", "File")
"""The types of entities that need no ontology."""

_OTHER_NAMES: Final = {
    "type": ("relationshipType", "citationType", "documentType"),
    "role": ("citationRole",),
    "relationshiptype": ("type",),
    "decayrate": ("halfLife",),
}
"""What members are called in Markdown, or in the other shape."""
_LONGEST: Final = 80


def _folded(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


_KEBABS: Final = {name: re.sub("(?<!^)([A-Z])", r"-\1", name).lower() for name in RELATIONS}
_RELATIONS: Final = {_folded(name): name for name in RELATIONS} | {"createdby": "Created"}


def meant(key: str, known: tuple[str, ...]) -> str | None:
    """The member that a key was most likely to be, of those that can be there; else None."""
    if len(key) > _LONGEST:
        return None
    folded = _folded(key.rpartition(":")[2])
    by_fold = {_folded(name): name for name in known}
    if folded in by_fold:
        return by_fold[folded]
    for name in _OTHER_NAMES.get(folded, ()):
        if name in known:
            return name
    close = get_close_matches(folded, by_fold, n=1, cutoff=0.8)
    return by_fold[close[0]] if close else None


def hint_of(defect: Defect, shape: Shape | None) -> str:
    """One or two sentences on how the defect is mended.

    Args:
        defect: what it is.
        shape: of the memory, if it is one.
    """
    value, code = defect.value, defect.code
    if code == "MIF-MISSING":
        names = defect.argument
        if isinstance(names, list):
            return f"Add {' or '.join(one['required'][0] for one in names)}."
        return f"Add {names}."
    if code == "MIF-KEY":
        name = meant(value, defect.argument)
        if name is None:
            return CODES[code].hint
        snake = " Names with _ belong to the Markdown of 0.1." if "_" in value else ""
        return f"Did you mean {name}?{snake}"
    if code == "MIF-VALUE":
        kinds = defect.argument
        return f"Write {kinds if isinstance(kinds, str) else ' or '.join(kinds)}."
    if code == "MIF-DATE" and defect.argument == "date":
        return "Needs a day, without time: 2026-01-26."
    if code == "MIF-ID" and "entity" in defect.argument:
        return "Use the urn:mif:entity: prefix."
    if code == "MIF-REL":
        return _of_relation(value, shape)
    if code == "MIF-NS" and isinstance(value, str):
        return f"{_of_namespace(value)} {CODES[code].hint}"
    if code == "MIF-ENTITY" and isinstance(value, str):
        return _of_entity(value) or CODES[code].hint
    return CODES[code].hint


def _of_relation(value: Any, shape: Shape | None) -> str:
    name = _RELATIONS.get(_folded(value)) if isinstance(value, str) else None
    if name is None:
        return CODES["MIF-REL"].hint
    if shape == "1.x":
        return f"MIF 1.x expects {_KEBABS[name]}."
    return f"MIF 0.1 expects {name} (or prefix:Name)."


def _of_namespace(value: str) -> str:
    wrong = re.search(r"[^a-zA-Z0-9_/-]", value)
    if wrong is not None:
        return f"Character {wrong.start() + 1} is not allowed."
    return "No part between two / may be empty." if value else "It is empty."


def _of_entity(value: str) -> str | None:
    known = {_folded(name): name for name in ENTITIES}
    name = known.get(_folded(value))
    if name is not None:
        return f"Did you mean {name}?"
    if re.fullmatch(r"[a-z][a-z0-9-]*", value.lower()):
        return "Write the name of the ontology's type in lower case."
    return None
