# SPDX-License-Identifier: Apache-2.0
"""Findings with their places, at a cost linear in the length of the text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.privacy.detect import in_bytes, spans
from omsgrain.privacy.detectors import DEFAULT, Detector, detectors_of
from omsgrain.privacy.detectors.base import IGNORED, MARKER, library, lower, views
from omsgrain.privacy.detectors.custom import pattern_detector
from omsgrain.privacy.redact import redact_text, redact_value
from support.privacy_corpus import corpus

KEY = "0123456789abcdef" * 2


class Found(NamedTuple):
    """Something found: its type, and where it is in bytes of UTF-8."""

    type: str
    start: int
    end: int


def detect(text: str, detectors: Sequence[Detector] = DEFAULT) -> list[Found]:
    found = spans(text, detectors)
    return [
        Found(span.types[0], *at) for span, at in zip(found, in_bytes(text, found), strict=True)
    ]


PIECES = sorted({text.text for text in corpus()})


def test_the_example_of_the_format() -> None:
    redacted = redact_text(f"API key is {KEY}")
    assert redacted.text == "API key is [REDACTED:api_key]"
    # The format's own sample says 12, which is not where the key begins.
    assert redacted.redactions == [
        {"type": "api_key", "original_length": 32, "position": [11, 43]}
    ]


def test_offsets_are_bytes_of_the_original() -> None:
    text = "Grüße 😀 an bob@example.com und café@example.com."
    found = detect(text)
    raw = text.encode()
    assert [raw[f.start : f.end].decode() for f in found] == [
        "bob@example.com",
        "café@example.com",
    ]
    assert found[0] == Found("email", 16, 31)


def test_overlapping_matches_become_one() -> None:
    text = "token=abcdef12-202-555-0143-rest"
    assert redact_text(text).text == "token=[REDACTED:api_key]"
    text = "password: bob@example.com"
    assert redact_text(text).text == "password: [REDACTED:password]"


def test_the_first_detector_gives_the_type() -> None:
    words = pattern_detector("word", r"[a-z]{1,20}@example")
    text = "bob@example.com"
    assert redact_text(text, [*DEFAULT, words]).text == "[REDACTED:email]"
    assert redact_text(text, [words, *DEFAULT]).text == "[REDACTED:word]"


def test_markers_stay() -> None:
    text = "mail [REDACTED:email], password: [REDACTED:password], api key is [REDACTED:api_key]"
    assert detect(text) == []
    mixed = "token=[REDACTED:phone]-rest x@example.com"
    assert "[REDACTED:phone]" in redact_text(mixed).text
    assert "x@example.com" not in redact_text(mixed).text


def test_a_marker_hides_nothing() -> None:
    hidden = "[REDACTED:+12025550143]"
    assert "2025550143" not in redact_text(hidden).text


@given(st.lists(st.sampled_from(PIECES), max_size=4), st.sampled_from(["", " ", "\n", ",", "-"]))
def test_redacted_twice_is_redacted_once(pieces: list[str], between: str) -> None:
    once = redact_text(between.join(pieces)).text
    assert redact_text(once).text == once


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    redacted = redact_text(text)
    at, parts = 0, []
    raw = text.encode("utf-8", "surrogatepass")
    for item in redacted.redactions:
        start, end = item["position"]
        assert at <= start < end <= len(raw)
        assert item["original_length"] == end - start
        parts += [raw[at:start], f"[REDACTED:{item['type']}]".encode()]
        at = end
    whole = b"".join([*parts, raw[at:]])
    assert whole == redacted.text.encode("utf-8", "surrogatepass")


PIECED = st.lists(
    st.sampled_from(["&#64;", "&amp;#x40;", "&nbsp;", "&no;", "\u200b", "\ufdfa", "\uff41", "\0",
                     "[REDACTED:email]", "a", "bob@example.com"]) | st.text(max_size=3),
    max_size=30,
).map("".join)  # fmt: skip


@given(PIECED)
def test_each_place_of_a_view_leads_back(text: str) -> None:
    assert len(lower(text)) == len(text)
    for view in views(text):
        starts = [view.places(at, at + 1) for at in range(len(view.text))]
        assert starts == sorted(starts)
        assert all(0 <= start < end <= len(text) for start, end in starts)


@given(PIECED)
def test_redacting_folded_texts_again_changes_nothing(text: str) -> None:
    once = redact_text(text).text
    assert redact_text(once).text == once


def _ignored() -> list[str]:
    found = []
    for part in re.findall("(.)(?:-(.))?", IGNORED):
        found += [chr(code) for code in range(ord(part[0]), ord(part[1] or part[0]) + 1)]
    return found


def test_nothing_unseen_hides_an_address() -> None:
    unseen = _ignored()
    assert len(unseen) == 4_174  # Default_Ignorable_Code_Point of Unicode 15
    assert {"\u200b", "\u2060", "\ufeff", "\u00ad", "\ufe0f", "\U000e0041"} <= set(unseen)
    for odd in unseen:
        assert redact_text(f"to b{odd}ob@exam{odd}ple.com.").text == "to [REDACTED:email]."


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("4111 1\u200b111 1111 1111", "[REDACTED:credit_card]"),
        ("GB82 WEST 12\u206034 5698 7654 32", "[REDACTED:iban]"),
        ("gh\ufeffp_16C7e42F292c6912E7710c838347Ae178B4a", "[REDACTED:api_key]"),
        ("bo\0b@example.com", "[REDACTED:email]"),
        ("bob&#64;example.com", "[REDACTED:email]"),
        ("bob&#064example.com", "[REDACTED:email]"),
        ("bob&#x40;example.com", "[REDACTED:email]"),
        ("bob&commat;example&period;com", "[REDACTED:email]"),
        ("bob&amp;#64;example.com", "[REDACTED:email]"),
        ("b&shy;ob&#8203;@example.com", "[REDACTED:email]"),
        ("004930123456", "[REDACTED:phone]"),
        ("DE89.3704.0044.0532.0130.00.", "[REDACTED:iban]."),
        ("\uff42\uff4f\uff42\uff20example\uff0ecom", "[REDACTED:email]"),
        ("\u24d1\u24de\u24d1@example.com", "[REDACTED:email]"),
        # A word that ends at a zero-width space still ends there.
        ("x\u200b4111111111111111\u200bx", "x\u200b[REDACTED:credit_card]\u200bx"),
        # What is left is as it was, with all that nobody sees.
        ("a\u200bb&amp; b\u00adob@example.com \ufeff&#64;",
         "a\u200bb&amp; [REDACTED:email] \ufeff&#64;"),
    ],
)  # fmt: skip
def test_what_a_reader_takes_for_it(text: str, redacted: str) -> None:
    assert redact_text(text).text == redacted


def test_places_in_folded_text_lead_to_the_original_bytes() -> None:
    text = "é\u200b mail b\u200bob&#64;example.com!"
    (found,) = detect(text)
    assert text.encode()[found.start : found.end].decode() == "b\u200bob&#64;example.com"


def test_a_disguised_key_reveals_its_value() -> None:
    tree = {"pass\u200bword": "open sesame", "\uff50\uff41\uff53\uff53\uff57\uff44": "swordfish"}
    found = redact_value(tree)
    assert [*found.value] == [*tree]
    assert {*found.value.values()} == {"[REDACTED:password]"}


def test_lone_surrogates() -> None:
    text = "\ud800 bob@example.com"
    assert detect(text) == [Found("email", 4, 19)]


def test_numbers_of_a_region() -> None:
    text = "ruf 030 23125014 an"
    assert detect(text) == []
    assert [f.type for f in detect(text, detectors_of("DE"))] == ["phone"]
    assert detect("order 2025550143") == []


@pytest.mark.parametrize("module", ["phonenumbers", "stdnum.us.ssn", "stdnum.iban"])
def test_without_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError) as error:
        detect("nothing at all")
    assert "'privacy'" in (error.value.expected or "")
    monkeypatch.undo()
    library.cache_clear()


def test_a_detector_of_ones_own() -> None:
    badge = pattern_detector("badge", r"\bEMP-\d+")
    assert redact_text("I am EMP-00123.", [badge]).text == "I am [REDACTED:badge]."
    named = pattern_detector("pin", r"\bPIN[: ]{1,3}(?P<value>\d{4})\b", secret=True)
    assert redact_text("PIN: 4821!", [*DEFAULT, named]).text == "PIN: [REDACTED:pin]!"

    class Shouts:
        type, secret = "shout", False

        def find(self, text: str) -> Iterator[tuple[int, int]]:
            yield from ((i, i + 1) for i, c in enumerate(text) if c == "!")

    assert redact_text("hey!", [Shouts()]).text == "hey[REDACTED:shout]"


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$", r"(a|a)*b", r"(a|aa)+$", r"(.*)x", r"\w+@\w+", r"(\w{1,50}){1,50}x", r"(a)\1",
        r"a{1,1000}a{1,1000}b", r"(?=(a+)+b)x", "x*", "", "(", r"[a-z]{1,200}[a-z]{1,200}x",
    ],
)  # fmt: skip
def test_patterns_that_may_take_long(pattern: str) -> None:
    with pytest.raises(SchemaError):
        pattern_detector("own", pattern)


@pytest.mark.parametrize("type", ["", "A", "a b", "x" * 33, "a]"])
def test_types_that_would_break_a_marker(type: str) -> None:
    with pytest.raises(SchemaError):
        pattern_detector(type, "abc")
    assert MARKER.fullmatch(f"[REDACTED:{type}]") is None


HOSTILE: dict[str, Any] = {
    "ats": "@", "pairs": "a@", "emails": "a@b.cc ", "dots": "a.", "one domain": "a@b.",
    "quotes": '"',
    "digits": "1", "groups": "1 ", "fours": "4111 ", "dashes": "1-", "cards": "card 1 1 ",
    "plus": "+", "plus ones": "+1 ", "abroad": "+49 1 ", "zeros": "00", "phone words": "tel ",
    "phones": "tel 1 ", "brackets": "(((", "eyJ": "eyJ", "jwt": "eyJaaaaaaaaaa.", "sk": "sk-",
    "sk a": "sk-a-", "ghp": "ghp_", "sendgrid": "SG.aaaaaaaaaaaaaaaaaaaa", "begin": "-----BEGIN ",
    "private": "-----BEGIN PRIVATE KEY-----", "base64": "A", "password": "password",
    "passwords": "password:", "is": "password is ", "for": "password for a b c d ",
    "=": "password=a;",
    "quoted": "password: 'a \"", "keys": "api key is ", "token": "token=", "schemes": "://",
    "users": "://a:", "user": "x://aaaaaaaa", "colons": ":", "six": "a:b::", "four": "1.1.",
    "version": "version 1.1.1.1 ", "iban": "GB82 ", "ibans": "AA11AA11 ", "ssn": "123-45-",
    "bearer": "bearer ", "basic": "authorization: basic ", "marker": "[REDACTED:",
    "markers": "[REDACTED:a]",
    "spaces": " ", "newlines": "\n", "han": "密码是", "marks": "é", "wide": "\uff11", "nul": "\0",
    "backslash": "\\", "percent": "%40", "arabic": "٤١١١ ", "sig": "?sig=",
    "unseen": "a\u200b", "unseen alone": "\u200b", "entities": "&#64;", "ands": "&",
    "escaped": "&amp;", "escaped twice": "&#38;#", "ligatures": "\ufdfa", "0049": "0049301 ",
    "0049 word": "order 004930123456 ", "iban dots": "DE89.3704.", "curl": "-u a:",
    "cli": "--pass a",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end(name: str, long: bool) -> None:
    size = 1_000_000 if long else 25_000
    text = HOSTILE[name] * (size // len(HOSTILE[name]))
    for tail in ("", "!", "x", "\0"):
        redact_text(text + tail)
