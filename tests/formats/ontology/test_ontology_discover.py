# SPDX-License-Identifier: Apache-2.0
"""Suggestions for texts and files; a hostile pattern cannot hang."""

from __future__ import annotations

import re
import time
from fnmatch import translate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.formats.ontology.discover import (
    INSTRUCTIONS,
    PROGRAMS,
    RegexError,
    of_glob,
    of_regex,
    suggest,
)
from omsgrain.formats.ontology.load import Known
from support.ontology_files import kind, library, of, only, ontology, told

SHOP = library("workshop.yaml").known[0]
MILLION = "a" * 1_000_000 + "b"


def hits(text: str | None, name: str | None = None, known: Known = SHOP) -> list[tuple[Any, ...]]:
    return [(one.entity, one.namespace, one.kind, one.pointer)
            for one in suggest(text, name, known)]  # fmt: skip


def test_a_suggestion_says_what_hit_and_where() -> None:
    (one,) = suggest("Clean the lathe today.", None, SHOP)
    assert one.entity == "machine" and one.namespace == "_semantic/entities"
    assert one.pattern == r"\b(lathe|mill)s?\b" and one.kind == "content"
    assert (one.ontology, one.pointer) == ("workshop", "/discovery/patterns/0")
    assert one.memory_type == "semantic" and one.at == (10, 15)


def test_places_are_bytes_of_utf8() -> None:
    text = "Größe der mill"
    (one,) = suggest(text, None, SHOP)
    assert one.at is not None
    assert text.encode()[slice(*one.at)] == b"mill"


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("The Lathe", None, []),  # letters count as they are written
        ("nothing", None, []),
        (None, "shop/repairs/one.md",
         [("repair", "_runbooks/repairs", "file", "/discovery/patterns/1")]),
        ("spindle", None, []),  # a pattern with both needs both
        (None, "logs/today.log", []),
        ("SPINDLE", "logs/today.log",
         [("lathe", None, "content+file", "/discovery/patterns/2")]),
        ("we chose", None,
         [(None, "_semantic/decisions", "content", "/discovery/content_patterns/0"),
          (None, "_semantic/entities", "content", "/discovery/content_patterns/0")]),
        (None, "manual/mill.pdf",
         [("machine", "_semantic/entities", "file", "/discovery/file_patterns/0")]),
        (None, "manual/mill.pdf.txt", []),
        (None, None, []),
        ("", "", []),
    ],
)  # fmt: skip
def test_what_is_suggested(text: str | None, name: str | None, expected: list[Any]) -> None:
    assert hits(text, name) == expected


def test_a_namespace_that_is_replaced_is_suggested_as_the_new_one() -> None:
    (one,) = suggest(None, "repairs/one.md", SHOP)
    assert (one.written, one.namespace) == ("_procedural/repairs", "_runbooks/repairs")
    assert one.memory_type == "procedural"


def test_patterns_come_down_from_what_is_extended_if_enabled_there() -> None:
    known = library("garden.json", "base.yaml").known[0]
    assert [(one.ontology, one.entity) for one in suggest("a control", None, known)] == [
        ("base", "control")
    ]
    quiet = ontology("quiet", discovery={"patterns": [
        {"content_pattern": "x", "suggest_entity": "a"}]})  # fmt: skip
    below = only(ontology("below", "quiet"), quiet)
    assert suggest("x", None, below) == []
    assert len(suggest("x", None, below, enabled_only=False)) == 1


# -- globs ----------------------------------------------------------------------------------------

GLOBS = [
    ("*.md", "a.md", True),
    ("*.md", "x/y/a.md", True),
    ("*.md", "a.mdx", False),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/b/a.py", False),
    ("src/*.py", "x/src/a.py", False),
    ("src/**/*.py", "src/a.py", True),
    ("src/**/*.py", "src/b/c/a.py", True),
    ("src/**", "src/b/c/a.py", True),
    ("**/tests/**", "x/tests/a", True),
    ("**/tests/**", "tests/a", True),
    ("**/tests/**", "x/testsa/a", False),
    ("**", "any/thing", True),
    ("a?c", "abc", True),
    ("a?c/x", "a/c/x", False),
    ("[ab]*.txt", "b1.txt", True),
    ("[!ab]*.txt", "b1.txt", False),
    ("[!ab].txt", "c.txt", True),
    ("d/[!a]", "d/", False),
    ("{one,two}.md", "two.md", True),
    ("{one,two}.md", "three.md", False),
    ("{src,lib}/**/*.rs", "lib/x/y.rs", True),
    ("a.b", "aXb", False),
    (r"a\*b", "a*b", True),
    (r"a\*b", "axb", False),
    ("(a+)+$", "(a+)+$", True),
    ("größe-*", "größe-1", True),
    ("a,b}", "a,b}", True),
    ("*.md", "a.MD", False),
]


@pytest.mark.parametrize(("glob", "path", "expected"), GLOBS)
def test_globs(glob: str, path: str, expected: bool) -> None:
    assert (of_glob(glob).find(path.encode()) is not None) == expected


@given(
    st.text("ab*?.[]!-", min_size=1, max_size=6).filter(
        lambda g: (
            "**" not in g
            and not re.search(r"\[[^\]]*(?:\Z|-|\[)", g)
            and "[]" not in g
            and "[!]" not in g
        )
    ),
    st.text("ab.!-", max_size=6),
)
def test_globs_of_one_name_are_those_of_the_shell(glob: str, name: str) -> None:
    expected = re.fullmatch(translate(glob), name) is not None
    assert (of_glob(glob).find(name.encode()) is not None) == expected


@pytest.mark.parametrize("glob", ["[a", "{a,b", "a[", "[!"])
def test_a_glob_that_is_none_is_refused(glob: str) -> None:
    with pytest.raises(RegexError):
        of_glob(glob)


# -- regexes of strangers -------------------------------------------------------------------------


def test_an_invalid_pattern_is_reported_and_never_used() -> None:
    found = library("broken-regex.yaml")
    assert told(found.reports[0].warnings) == [
        *[("ONT-REGEX", f"/discovery/patterns/{n}/content_pattern") for n in range(4)],
        ("ONT-REGEX", "/discovery/patterns/4/file_pattern"),
        ("ONT-REGEX", "/discovery/file_patterns/0/pattern"),
    ]
    assert [one.source for one in found.known[0].patterns] == [
        "(a+)+$", "(a|aa)+$", "(.*a){12}$",
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["(?<=a)b", "(?=a)", r"(a)\1", "[", "(", "a{2000}", "\ud800"])
def test_a_regex_that_needs_more_than_linear_time_is_refused(source: str) -> None:
    with pytest.raises(RegexError) as caught:
        of_regex(source)
    assert source not in str(caught.value)


def test_a_million_letters_against_hostile_patterns_end_at_once() -> None:
    known = library("broken-regex.yaml").known[0]
    begun = time.process_time()
    assert suggest(MILLION, "a" * 10_000, known) == []
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("source", ["(?:a?){900}b$", "(?:.*a.{200}Q)", "[a-q][^u-z]{13}x"])
def test_patterns_as_large_as_they_may_be_end_too(source: str) -> None:
    begun = time.process_time()
    of_regex(source).find(MILLION[:200_000].encode() + b"\n")
    assert time.process_time() - begun < 1


def test_patterns_are_bounded_each_and_together() -> None:
    with pytest.raises(RegexError):
        of_regex("(?:a?b?){900}")
    one = {"content_pattern": "(?:a?){900}", "suggest_entity": "thing"}
    size = of_regex("(?:a?){900}").size
    assert size <= INSTRUCTIONS
    found = of(ontology(entity_types=[kind("thing")], discovery={"patterns": [one] * 100}))
    most = PROGRAMS // size
    assert told(found.reports[0].problems) == [("ONT-LARGE", f"/discovery/patterns/{most}")]
    assert len(found.known[0].patterns) == most


@given(st.text("ab(|)*+?[]^$\\{}1,.-é/", max_size=12), st.text("ab1/é\n", max_size=30))
def test_any_text_is_a_regex_or_refused(source: str, text: str) -> None:
    for compile in (of_regex, of_glob):
        try:
            found = compile(source).find(text.encode())
        except RegexError:
            continue
        assert found is None or 0 <= found[0] <= found[1] <= len(text.encode())


def test_half_of_a_pair_in_a_text_is_no_crash() -> None:
    assert hits("mill \ud800", "a\ud800.md") == hits("mill")
