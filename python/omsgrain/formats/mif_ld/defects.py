# SPDX-License-Identifier: Apache-2.0
"""The defects of a document: their codes, places and hints, and the verdict."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from omsgrain.formats.json_text import kind_of as json_text_kind_of
from omsgrain.formats.json_text import pointer_to, shown_key
from omsgrain.formats.mif_ld.markdown import KEBAB
from omsgrain.formats.mif_ld.records import Shape
from omsgrain.formats.problems import MOST, DocumentError, Problem

CODES: Final[dict[str, str]] = {
    # the document
    "MIF-KIND": "Add an @type, or name the kind.",
    "MIF-SHAPE": "Write the whole document in one shape.",
    "MIF-CONTEXT": "Use a URI, an object, or an array of them.",
    "MIF-CLASS": "Use the @type as it is written.",
    "MIF-MISSING": "Add it.",
    "MIF-KEY": "Remove it, or move it into extensions or metadata.",
    "MIF-VALUE": "Write a value of that type.",
    # texts with a form
    "MIF-ID": "Use the urn:mif: prefix.",
    "MIF-TYPE": "Put finer categories into namespace, such as _semantic/facts.",
    "MIF-NS": "Use letters, digits, _ and -, separated by /.",
    "MIF-DATE": "Write date, T, time and offset: 2026-01-26T00:00:00Z.",
    "MIF-DURATION": "Write it like P90D, P2W or PT12H.",
    "MIF-URI": "Begin with a scheme and escape invalid characters.",
    "MIF-NAME": "Begin with a lower-case letter; use lower-case letters, digits and -.",
    "MIF-VERSION": "Write three numbers: 1.0.0.",
    # words
    "MIF-WORD": "Use one of the listed words.",
    "MIF-REL": "Use one of the listed words, or prefix:Name for your own.",
    "MIF-ENTITY": "Use one of the listed words, or the ontology type's name in lower case.",
    "MIF-CITATION": "Use one of the listed words, or prefix:name for your own.",
    "MIF-AUTHOR": "Use a string, an EntityReference, or an array of them.",
    "MIF-PROV": "Use a string, or an object with @id.",
    # sizes
    "MIF-RANGE": "Use a number in the range.",
    "MIF-EMPTY": "Add a value, or remove the member.",
    "MIF-LONG": "Shorten it.",
    "MIF-DUPLICATE": "Remove the second one.",
    # what the schemas let pass: only ever warnings
    "MIF-ORDER": "Check both times.",
    "MIF-CONFIDENCE": "Check both.",
    "MIF-LOCAL": "Memories in _local stay in the store.",
    "MIF-TYPES": "Make both the same; conceptType counts.",
    "MIF-DECAY": "Add the duration that its model needs.",
    "MIF-STRENGTH": "Keep currentStrength.",
    "MIF-REF": "The package has the schemas of citations and entities and fetches nothing.",
}
"""Kinds of defects by code, with the usual remedy. In mode extra, errors can be warnings too."""

BY_KEYWORD: Final[dict[str, str]] = {
    "required": "MIF-MISSING",
    "additionalProperties": "MIF-KEY",
    "type": "MIF-VALUE",
    "const": "MIF-CLASS",
    "contains": "MIF-CLASS",
    "enum": "MIF-WORD",
    "pattern": "MIF-WORD",
    "anyOf": "MIF-VALUE",
    "format": "MIF-DATE",
    "minimum": "MIF-RANGE",
    "maximum": "MIF-RANGE",
    "minLength": "MIF-EMPTY",
    "minItems": "MIF-EMPTY",
    "maxLength": "MIF-LONG",
    "uniqueItems": "MIF-DUPLICATE",
}
"""Keyword -> default code, if the schema names none."""
_OWN: Final = frozenset(("pattern", "enum", "anyOf"))


def code_of(keyword: str, argument: Any, own: str | None) -> str:
    if own is not None and keyword in _OWN:
        return own
    return "MIF-URI" if (keyword, argument) == ("format", "uri") else BY_KEYWORD[keyword]


def phrase(keyword: str, argument: Any) -> str:
    return f"must {_phrase(keyword, argument)}"


def _phrase(keyword: str, argument: Any) -> str:
    if keyword == "anyOf":
        parts = dict.fromkeys(_phrase(*_telling(branch)) for branch in argument)
        return " or ".join(parts).replace(" or be ", " or ")
    if keyword == "type":
        return "be " + (argument if isinstance(argument, str) else " or ".join(argument))
    if keyword == "contains":
        return f"contain {argument['const']}"
    words = {
        "required": f"have required property '{argument}'",
        "additionalProperties": "NOT have additional properties",
        "const": f"be equal to constant {argument}",
        "enum": "be equal to one of " + (", ".join(argument) if keyword == "enum" else ""),
        "pattern": f'match pattern "{argument}"',
        "format": f"match format {argument}",
        "minimum": f"be >= {argument}",
        "maximum": f"be <= {argument}",
        "minLength": f"NOT have fewer than {argument} characters",
        "maxLength": f"NOT have more than {argument} characters",
        "minItems": f"NOT have fewer than {argument} items",
        "uniqueItems": "NOT have duplicate items",
    }
    return words[keyword]


def _telling(branch: dict[str, Any]) -> tuple[str, Any]:
    """Return the most informative keyword of a branch, with its argument."""
    for keyword in ("enum", "pattern", "format"):
        if keyword in branch:
            return keyword, branch[keyword]
    if "required" in branch:
        return "required", branch["required"][0]
    return "type", branch.get("type", "object")


SHOWN: Final = 60
"""Shown characters of a value."""
Way = tuple[str | int, ...]
"""The keys from the document's root to a place."""


@dataclass(frozen=True, slots=True)
class LintFinding(Problem):
    hint: str = ""  # what to do
    severity: str = "error"  # ``error`` or ``warning``
    # the value found, shortened. It is content, so `to_dict` and `repr` omit it
    value: str | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {**Problem.to_dict(self), "hint": self.hint, "severity": self.severity}


@dataclass(frozen=True, slots=True)
class MifLdVerdict:
    findings: tuple[Problem, ...] = ()  # at most a thousand errors, sorted by place
    warnings: tuple[Problem, ...] = ()  # at most a thousand warnings
    total: int = 0  # the number of errors
    # in mode lenient, errors of citations that are left out of the memory
    dropped: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return self.total == 0

    def raise_any(self) -> None:
        if self.findings:
            raise DocumentError(list(self.findings), self.total)


def finding(
    code: str,
    way: Way,
    says: str,
    value: Any,
    hint: str | None = None,
    *,
    severity: str = "error",
) -> LintFinding:
    shown = [key if isinstance(key, int) else shown_key(key) for key in way]
    return LintFinding(
        code,
        pointer_to(shown),
        f"{_name(shown)} {says}",
        found=None if value is None else json_text_kind_of(value),
        hint=CODES[code] if hint is None else hint,
        severity=severity,
        value=None if value is None else _shown(value),
    )


def warning(
    code: str, way: Way, says: str, value: Any = None, hint: str | None = None
) -> LintFinding:
    return finding(code, way, says, value, hint, severity="warning")


def place_of(problem: Problem) -> tuple[int, list[tuple[int, str]], str, str]:
    """Return a sort key for a problem: by place, with numbers in numeric order."""
    keys = [(len(key) if key.isdecimal() else 0, key) for key in problem.pointer.split("/")]
    return problem.line or 0, keys, problem.rule, problem.message


def _name(way: Sequence[str | int]) -> str:
    if not way:
        return "document"
    if isinstance(way[-1], int) and len(way) > 1:
        return f"{way[-2]}/{way[-1]}"
    return str(way[-1])


class _Short(reprlib.Repr):
    """Shortens large values at low cost."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = SHOWN
        self.maxlong = SHOWN


_REPR: Final = _Short()


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{json_text_kind_of(value)} of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 4 * SHOWN:
        return json_text_kind_of(value)  # Python refuses to format very large integers
    return _REPR.repr(value)[:SHOWN]


class SchemaDefect(NamedTuple):
    """A value that breaks the schema."""

    way: Way  # the keys of its path
    code: str
    keyword: str  # the schema keyword that found it
    argument: Any  # the keyword's argument; for a closed object, its members
    value: Any  # the value found; for an unknown key, the key


class Defects:
    """A list of defects; it keeps a thousand and counts the rest, to bound the memory."""

    __slots__ = ("found", "more")

    def __init__(self) -> None:
        self.found: list[SchemaDefect] = []
        self.more = 0

    def add(self, one: SchemaDefect) -> None:
        if len(self.found) < MOST:
            self.found.append(one)
        else:
            self.more += 1

    def take(self, others: Defects) -> None:
        for one in others.found:
            self.add(one)
        self.more += others.more


RELATIONS: Final = tuple(KEBAB)
"""Relationship types of shape 0.1."""
ENTITIES: Final = ("Person", "Organization", "Technology", "Concept", "File")
"""Entity types that need no ontology."""

_OTHER_NAMES: Final = {
    "type": ("relationshipType", "citationType", "documentType"),
    "role": ("citationRole",),
    "relationshiptype": ("type",),
    "decayrate": ("halfLife",),
}
"""Names of members in Markdown or in the other shape -> possible names in JSON."""
_LONGEST: Final = 80


def _folded(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


_RELATIONS: Final = {_folded(name): name for name in RELATIONS} | {"createdby": "Created"}


def meant(key: str, known: tuple[str, ...]) -> str | None:
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


def hint_of(defect: SchemaDefect, shape: Shape | None) -> str:
    value, code = defect.value, defect.code
    if code == "MIF-MISSING":
        names = defect.argument
        if isinstance(names, list):
            return f"Add {' or '.join(one['required'][0] for one in names)}."
        return f"Add {names}."
    if code == "MIF-KEY":
        name = meant(value, defect.argument)
        if name is None:
            return CODES[code]
        snake = " Names with _ belong to the Markdown of 0.1." if "_" in value else ""
        return f"Did you mean {name}?{snake}"
    if code == "MIF-VALUE":
        kinds = defect.argument
        return f"Write {kinds if isinstance(kinds, str) else ' or '.join(kinds)}."
    if code == "MIF-DATE" and defect.argument == "date":
        return "Write a day without a time: 2026-01-26."
    if code == "MIF-ID" and "entity" in defect.argument:
        return "Use the urn:mif:entity: prefix."
    if code == "MIF-REL":
        return _of_relation(value, shape)
    if code == "MIF-NS" and isinstance(value, str):
        return f"{_of_namespace(value)} {CODES[code]}"
    if code == "MIF-ENTITY" and isinstance(value, str):
        return _of_entity(value) or CODES[code]
    return CODES[code]


def _of_relation(value: Any, shape: Shape | None) -> str:
    name = _RELATIONS.get(_folded(value)) if isinstance(value, str) else None
    if name is None:
        return CODES["MIF-REL"]
    if shape == "1.x":
        return f"MIF 1.x expects {KEBAB[name]}."
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
