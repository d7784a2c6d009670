# SPDX-License-Identifier: Apache-2.0
"""Which entity and namespace a text or a file suggests, by the patterns of an ontology.

A suggestion is a pattern that hits, and no more: ontologies give a threshold of confidence, but
nothing says how confidence comes about, so none is made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain.errors import UnsupportedError, packages_of
from omsgrain.formats.ontology.model import Ontology, choose_namespace, choose_type

if TYPE_CHECKING:
    from omsgrain.formats.ontology.integrity import Faults
    from omsgrain.formats.ontology.load import Known

INSTRUCTIONS: Final = 2_000
"""Of one compiled pattern. A hostile one of this size takes half a second for a million bytes."""
_MEMORY: Final = 8 << 20  # for the states of one; with less of it RE2 turns to its slow way


class RegexError(ValueError):
    """A pattern that cannot be used; its text says why, without the pattern."""


class Regex(NamedTuple):
    """A compiled pattern.

    Attributes:
        size: of its program, in instructions.
        search: finds the first hit in bytes of UTF-8: where it begins and ends; None if none.
    """

    size: int
    search: Any

    def find(self, text: bytes) -> tuple[int, int] | None:
        """Where the first hit begins and ends, in bytes."""
        found = self.search(text)
        return None if found is None else (found.start(), found.end())


def of_regex(source: str) -> Regex:
    """Compile a regex, to be found anywhere."""
    try:
        import re2  # type: ignore[import-untyped]
    except ImportError:
        raise UnsupportedError("google-re2 is not installed",
                               expected=packages_of("formats")) from None  # fmt: skip
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False  # it would write the pattern to stderr
    options.never_capture = True
    try:
        # Bytes, for their offsets cost nothing; the pattern is UTF-8 all the same.
        made = re2.compile(source.encode(), options)
    except UnicodeEncodeError:
        raise RegexError("half of a surrogate pair") from None
    except re2.error as error:
        raise RegexError(_reason(error)) from None
    if made.programsize > INSTRUCTIONS:
        raise RegexError("too large")
    return Regex(made.programsize, made.search)


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else b""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return text.partition(":")[0]  # what follows is of the pattern


def of_glob(source: str) -> Regex:
    r"""Compile a glob, to be found as the whole of a path.

    ``*`` and ``?`` stay within one name, ``**`` goes through directories, ``[a-z]``, ``[!a-z]``
    and ``{one,other}`` choose, ``\`` takes the next character as it is. A glob without ``/``
    is one of names, in any directory.
    """
    parts, at, deep = [], 0, 0
    while at < len(source):
        one = source[at]
        at += 1
        if one == "*":
            if source.startswith("**/", at - 1) and (at == 1 or source[at - 2] in "/{,"):
                parts.append("(?:.*/)?")
                at += 2
            elif source.startswith("*", at):
                parts.append(".*")
                at += 1
            else:
                parts.append("[^/]*")
        elif one == "?":
            parts.append("[^/]")
        elif one == "[":
            end = source.find("]", at + 2 if source[at : at + 1] in ("!", "^") else at + 1)
            if end < 0:
                raise RegexError("missing ]")
            parts.append(_choice(source[at:end]))
            at = end + 1
        elif one == "{":
            deep += 1
            parts.append("(?:")
        elif one == "}" and deep:
            deep -= 1
            parts.append(")")
        elif one == "," and deep:
            parts.append("|")
        elif one == "\\" and at < len(source):
            parts.append(_literal(source[at]))
            at += 1
        else:
            parts.append(_literal(one))
    if deep:
        raise RegexError("missing }")
    before = "" if "/" in source else "(?:.*/)?"
    return of_regex(rf"(?s)\A{before}(?:{''.join(parts)})\z")


def _choice(inside: str) -> str:
    negative = inside[:1] in ("!", "^")
    listed = inside[1:] if negative else inside
    safe = "".join(one if one == "-" else _literal(one) for one in listed)
    return f"[^/{safe}]" if negative else f"[{safe}]"


def _literal(one: str) -> str:
    return one if one.isalnum() or ord(one) > 127 else f"\\x{{{ord(one):x}}}"


PROGRAMS: Final = 50_000
"""Instructions of all patterns of an ontology; the time of a search is this times the text."""


class Pattern(NamedTuple):
    """A pattern of an ontology.

    Attributes:
        ontology: the id of the ontology that it stands in.
        pointer: where it stands there.
        enabled: whether that ontology wants its patterns used.
        content: what a text must hold; None if that does not matter.
        file: what a file must be called; None if that does not matter.
        source: what is written: the regex or the glob, or both.
        entity: the type that it suggests.
        namespaces: those that it suggests.
        context: what the ontology says of it.
    """

    ontology: str
    pointer: str
    enabled: bool
    content: Regex | None
    file: Regex | None
    source: str
    entity: str | None
    namespaces: tuple[str, ...]
    context: str | None


class Suggestion(NamedTuple):
    """A pattern that hit.

    Attributes:
        entity: the type that it suggests; None if only a namespace.
        namespace: that it suggests, as it is to be used; None if only a type.
        pattern: the regex or the glob that hit.
        kind: what it was tried on: ``content``, ``file``, or ``content+file``.
        memory_type: the type of memory to make; None if nothing says one.
        ontology: the id of the ontology that the pattern stands in.
        pointer: where it stands there.
        written: the namespace as it is written, before ``replaces``.
        at: where the text that was hit begins and ends, in bytes of UTF-8; None for a file.
        context: what the ontology says of the pattern.
    """

    entity: str | None
    namespace: str | None
    pattern: str
    kind: str
    memory_type: str | None
    ontology: str
    pointer: str
    written: str | None
    at: tuple[int, int] | None
    context: str | None


def suggest(
    text: str | None, file_name: str | None, known: Known, *, enabled_only: bool = True
) -> list[Suggestion]:
    """What an ontology suggests for a text, for a file, or for both.

    Args:
        text: the content; None if there is none.
        file_name: the path of the file, with ``/``; None if there is none.
        known: the ontology, of `Library.get` or `Library.known`.
        enabled_only: leave out patterns of ontologies whose discovery is not enabled, which is
            how it is unless they say so.

    Returns:
        A suggestion for each pattern that hits, and for each of its namespaces: the ontology's
        own first, then those of the nearest that it extends. A pattern with a regex and a glob
        hits if both do.
    """
    data = None if text is None else text.encode(errors="replace")
    name = None if file_name is None else file_name.removeprefix("./").encode(errors="replace")
    found: list[Suggestion] = []
    for pattern in known.patterns:
        if enabled_only and not pattern.enabled:
            continue
        at = None
        if pattern.content is not None:
            at = None if data is None else pattern.content.find(data)
            if at is None:
                continue
        if pattern.file is not None and (name is None or pattern.file.find(name) is None):
            continue
        found += _suggestions(known, pattern, at)
    return found


def _suggestions(
    known: Known, pattern: Pattern, at: tuple[int, int] | None
) -> Iterator[Suggestion]:
    kinds = [("content", pattern.content), ("file", pattern.file)]
    kind = "+".join(name for name, regex in kinds if regex is not None)
    for written in pattern.namespaces or (None,):
        space = None if written is None else choose_namespace(known.scope, written)
        yield Suggestion(
            pattern.entity,
            space,
            pattern.source,
            kind,
            choose_type(known.scope, entity=pattern.entity, namespace=space),
            pattern.ontology,
            pattern.pointer,
            written,
            at,
            pattern.context,
        )


def patterns_of(ontology: Ontology, told: Faults) -> tuple[Pattern, ...]:
    """Compile the patterns of an ontology; what cannot be used is told, and left out."""
    left = PROGRAMS
    made: list[Pattern] = []
    for group in ("patterns", "content_patterns", "file_patterns"):
        listed = ontology.discovery.get(group)
        for at, one in enumerate(listed if isinstance(listed, list) else ()):
            if not isinstance(one, dict):
                continue
            pattern = _compiled(ontology, group, f"/discovery/{group}/{at}", one, told)
            if pattern is None:
                continue
            left -= sum(regex.size for regex in (pattern.content, pattern.file) if regex)
            if left < 0:
                told.tell("ONT-LARGE", pattern.pointer, "patterns; the rest is never tried",
                          expected=f"at most {PROGRAMS} instructions")  # fmt: skip
                return tuple(made)
            made.append(pattern)
    return tuple(made)


_KEYS: Final = {
    "patterns": (("content_pattern", of_regex), ("file_pattern", of_glob)),
    "content_patterns": (("pattern", of_regex), (None, of_regex)),
    "file_patterns": ((None, of_regex), ("pattern", of_regex)),  # a regex here too
}


def _compiled(
    ontology: Ontology, group: str, pointer: str, one: dict[str, Any], told: Faults
) -> Pattern | None:
    regexes: list[Regex | None] = []
    sources: list[str] = []
    for key, compile in _KEYS[group]:
        source = None if key is None else one.get(key)
        if not isinstance(source, str):
            regexes.append(None)
            continue
        try:
            regexes.append(compile(source))
        except RegexError as error:
            told.tell("ONT-REGEX", f"{pointer}/{key}", str(error))
            return None
        sources.append(source)
    entity, context = one.get("suggest_entity"), one.get("context")
    keys = ("suggest_namespace",) if group == "patterns" else ("namespace", "namespaces")
    spaces: list[str] = []
    for key in keys:
        value = one.get(key)
        spaces += [path for path in (value if isinstance(value, list) else [value])
                   if isinstance(path, str)]  # fmt: skip
    if not sources or not (isinstance(entity, str) or spaces):
        told.tell("ONT-PATTERN", pointer)
        return None
    return Pattern(
        ontology.id,
        pointer,
        ontology.enabled,
        regexes[0],
        regexes[1],
        " + ".join(sources),
        entity if isinstance(entity, str) else None,
        tuple(dict.fromkeys(spaces)),
        context if isinstance(context, str) else None,
    )
