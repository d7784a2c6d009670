# SPDX-License-Identifier: Apache-2.0
"""Suggests an entity type and namespace for a text or file, by an ontology's patterns.

A suggestion is a matching pattern, without a confidence: ontologies give a threshold, but no
specification defines how to compute the confidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omsgrain.errors import library
from omsgrain.formats.ontology.model import Ontology, choose_namespace, choose_type
from omsgrain.formats.records import objects_at

if TYPE_CHECKING:
    from omsgrain.formats.ontology.integrity import Judgement
    from omsgrain.formats.ontology.load import Known

INSTRUCTIONS: Final = 2_000
"""Limit for one pattern. A hostile pattern of this size takes 0.5 s for a million bytes."""
_MEMORY: Final = 8 << 20  # bytes for RE2's states; with less, RE2 falls back to a slow engine


class RegexError(ValueError):
    """The pattern is invalid. The message has the reason, without the pattern."""


class Regex(NamedTuple):
    size: int  # of its program, in instructions
    search: Any  # finds the first match in UTF-8 bytes; None if there is none

    def find(self, text: bytes) -> tuple[int, int] | None:
        """Return the start and end of the first match, in bytes."""
        found = self.search(text)
        return None if found is None else (found.start(), found.end())


def of_regex(source: str) -> Regex:
    """Compile a regular expression that can match anywhere."""
    re2 = library("formats", "re2", "google-re2 is not installed")
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False  # it would write the pattern to stderr
    options.never_capture = True
    try:
        # With bytes, RE2 need not convert offsets; the pattern still is UTF-8.
        made = re2.compile(source.encode(), options)
    except UnicodeEncodeError:
        raise RegexError("a lone surrogate") from None
    except re2.error as error:
        raise RegexError(_reason(error)) from None
    if made.programsize > INSTRUCTIONS:
        raise RegexError("too large")
    return Regex(made.programsize, made.search)


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else b""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return text.partition(":")[0]  # the rest shows the pattern


def of_glob(source: str) -> Regex:
    r"""Compile a glob that must match a whole path.

    ``*`` and ``?`` match within one name, ``**`` matches across directories. ``[a-z]``, ``[!a-z]``
    and ``{one,other}`` choose; ``\`` escapes the next character. A glob without ``/`` matches the
    file name in any directory.
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
"""Limit for all patterns of an ontology. Search time grows with it and with the text."""


class Pattern(NamedTuple):
    ontology: str  # the id of its ontology
    pointer: str  # its JSON pointer in that ontology
    enabled: bool  # whether that ontology enables its patterns
    content: Regex | None  # matches the text; None if any text matches
    file: Regex | None  # matches the file's path; None if any path matches
    source: str  # the regex, the glob, or both
    entity: str | None  # the suggested entity type
    namespaces: tuple[str, ...]  # the suggested namespaces
    context: str | None  # the ontology's comment on it


class Suggestion(NamedTuple):
    entity: str | None  # the suggested entity type; None if it suggests only a namespace
    # the suggested namespace after ``replaces``; None if it suggests only a type
    namespace: str | None
    pattern: str  # the regex or glob that matched
    kind: str  # where it matched: ``content``, ``file``, or ``content+file``
    memory_type: str | None  # the memory type to use; None if the ontology names none
    ontology: str  # the id of the pattern's ontology
    pointer: str  # its JSON pointer in that ontology
    written: str | None  # the suggested namespace before ``replaces``
    # start and end of the match in the text, in UTF-8 bytes; None for a file
    at: tuple[int, int] | None
    context: str | None  # the ontology's comment on the pattern


def suggest(
    text: str | None, file_name: str | None, known: Known, *, enabled_only: bool = True
) -> list[Suggestion]:
    """Return an ontology's suggestions for a text, a file, or both.

    Args:
        text: the content; None if there is none.
        file_name: the path of the file, with ``/``; None if there is none.
        known: the ontology, from `Library.get` or `Library.known`.
        enabled_only: skip patterns of ontologies that do not enable discovery.

    Returns:
        A suggestion for each matching pattern and each of its namespaces: the ontology's own
        first, then those of the nearest extended ontology. A pattern with a regex and a glob
        matches if both do.
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


def patterns_of(ontology: Ontology, report: Judgement) -> tuple[Pattern, ...]:
    """Compile an ontology's patterns; skip invalid ones and report them."""
    left = PROGRAMS
    made: list[Pattern] = []
    for group in ("patterns", "content_patterns", "file_patterns"):
        for at, one in objects_at(ontology.discovery, group):
            pattern = _compiled(ontology, group, f"/discovery/{group}/{at}", one, report)
            if pattern is None:
                continue
            left -= sum(regex.size for regex in (pattern.content, pattern.file) if regex)
            if left < 0:
                report.add("ONT-LARGE", pattern.pointer, "patterns; the rest are not used",
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
    ontology: Ontology, group: str, pointer: str, one: dict[str, Any], report: Judgement
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
            report.add("ONT-REGEX", f"{pointer}/{key}", str(error))
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
        report.add("ONT-PATTERN", pointer)
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
