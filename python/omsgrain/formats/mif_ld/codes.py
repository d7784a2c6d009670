# SPDX-License-Identifier: Apache-2.0
"""Every kind of defect of a document: its stable code, what it says, and how it is mended.

A defect is found by a keyword of a schema; which code it has, the keyword says, or ``x-code``
beside it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["BY_KEYWORD", "CODES", "Code", "code_of", "phrase"]


class Code(NamedTuple):
    """One kind of defect.

    Attributes:
        says: what it is.
        hint: how it is mended, where nothing better is known.
        keywords: of the schemas, that find it; none, if other checks do.
        warning: whether it never refuses a document.
    """

    says: str
    hint: str
    keywords: tuple[str, ...] = ()
    warning: bool = False


CODES: Final[dict[str, Code]] = {
    # the document
    "MIF-KIND": Code(
        "nothing that is known", "Give it an @type, or say what kind it is to be."
    ),
    "MIF-SHAPE": Code(
        "members of shape 0.1 beside those of 1.x", "Write the whole document in one shape."
    ),
    "MIF-CONTEXT": Code(
        "not a JSON-LD context", "Use a URI, an object, or an array of such.", ("anyOf",)
    ),
    "MIF-CLASS": Code(
        "another @type than stands here", "Use the @type as it is written.", ("const", "contains")
    ),
    "MIF-MISSING": Code("a required member is missing", "Add it.", ("required",)),
    "MIF-KEY": Code(
        "a member that this object cannot have",
        "Remove it, or move it into extensions or metadata.",
        ("additionalProperties",),
    ),
    "MIF-VALUE": Code("a value of another JSON type", "Write a value of that type.", ("type",)),
    # texts with a form
    "MIF-ID": Code("not a URN of MIF", "Use the urn:mif: prefix.", ("pattern",)),
    "MIF-TYPE": Code(
        "not a type of memory",
        "Put finer categories into namespace, such as _semantic/facts.",
        ("enum",),
    ),
    "MIF-NS": Code(
        "not a namespace", "Use letters, digits, _ and -, separated by /.", ("pattern",)
    ),
    "MIF-DATE": Code(
        "not a time or a day of RFC 3339",
        "Needs date, T, time and offset: 2026-01-26T00:00:00Z.",
        ("format",),
    ),
    "MIF-DURATION": Code(
        "not a duration of ISO 8601", "Write it like P90D, P2W or PT12H.", ("pattern",)
    ),
    "MIF-URI": Code(
        "not an absolute URI", "Begin with a scheme, and escape what a URI cannot have.",
        ("format",),
    ),
    "MIF-NAME": Code(
        "not a name of the ontology's",
        "Begin with a lower-case letter; use lower-case letters, digits and -.",
        ("pattern",),
    ),
    "MIF-VERSION": Code("not a version", "Write three numbers: 1.0.0.", ("pattern",)),
    # words
    "MIF-WORD": Code("not a word that is known here", "Use one of the words.", ("enum",)),
    "MIF-REL": Code(
        "not a type of relationship",
        "Use one of the words, or prefix:Name for one of your own.",
        ("anyOf", "pattern"),
    ),
    "MIF-ENTITY": Code(
        "not a type of entity",
        "Use one of the words, or the name of the ontology's type in lower case.",
        ("anyOf", "pattern"),
    ),
    "MIF-CITATION": Code(
        "not a type or a role of a citation",
        "Use one of the words, or prefix:name for one of your own.",
        ("anyOf",),
    ),
    "MIF-AUTHOR": Code(
        "not an author", "Use a text, an EntityReference, or an array of those.", ("anyOf",)
    ),
    "MIF-PROV": Code(
        "not something that provenance can name", "Use a text, or an object with @id.", ("anyOf",)
    ),
    # sizes
    "MIF-RANGE": Code(
        "a number out of range", "Use a number in the range.", ("minimum", "maximum")
    ),
    "MIF-EMPTY": Code("nothing where something must be", "Say something, or leave it out.",
                      ("minLength", "minItems")),
    "MIF-LONG": Code("a text that is too long", "Shorten it.", ("maxLength",)),
    "MIF-DUPLICATE": Code("the same twice", "Leave out the second.", ("uniqueItems",)),
    # what the schemas let pass
    "MIF-ORDER": Code("times in the wrong order", "Check both times.", warning=True),
    "MIF-CONFIDENCE": Code(
        "confidence outside the range of its sourceType", "Check both.", warning=True
    ),
    "MIF-LOCAL": Code(
        "a memory that must not leave", "Memories in _local are not exported.", warning=True
    ),
    "MIF-TYPES": Code(
        "memoryType and conceptType disagree", "Make both the same; conceptType counts.",
        warning=True,
    ),
    "MIF-DECAY": Code(
        "a decay that cannot be computed", "Add the duration that its model needs.", warning=True
    ),
    "MIF-STRENGTH": Code(
        "two names of one strength", "Keep currentStrength.", warning=True
    ),
    "MIF-REF": Code(
        "a reference that is not followed",
        "The schemas of citations and entities are in the package; nothing is fetched.",
        warning=True,
    ),
}  # fmt: skip
"""The code of each kind of defect. In mode extra, the others too can be warnings."""

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
"""The code where the schema says none."""
_OWN: Final = frozenset(("pattern", "enum", "anyOf"))


def code_of(keyword: str, argument: Any, own: str | None) -> str:
    """The code of a defect.

    Args:
        keyword: which one found it.
        argument: what the schema gives it.
        own: ``x-code`` of the schema.
    """
    if own is not None and keyword in _OWN:
        return own
    return "MIF-URI" if (keyword, argument) == ("format", "uri") else BY_KEYWORD[keyword]


def phrase(keyword: str, argument: Any) -> str:
    """What must be, in the words that validators of JSON Schema use."""
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
    """The keyword that says most of a branch."""
    for keyword in ("enum", "pattern", "format"):
        if keyword in branch:
            return keyword, branch[keyword]
    if "required" in branch:
        return "required", branch["required"][0]
    return "type", branch.get("type", "object")
