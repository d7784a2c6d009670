# SPDX-License-Identifier: Apache-2.0
"""Regexes and globs of strangers, in an engine that never goes back: RE2.

Its time is the length of the text times the size of the pattern, so both are bounded. It has no
look-around and no references back; what needs them is told when it is compiled, and never tried.
Letters count as they are written; a pattern that does not care says ``(?i)``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from omsgrain.errors import UnsupportedError, packages_of

__all__ = ["INSTRUCTIONS", "Regex", "RegexError", "of_glob", "of_regex"]

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
    """Compile a regex, to be found anywhere.

    Raises:
        RegexError: it cannot be used.
        UnsupportedError: there is no RE2.
    """
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

    Raises:
        RegexError: it cannot be used.
        UnsupportedError: there is no RE2.
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
