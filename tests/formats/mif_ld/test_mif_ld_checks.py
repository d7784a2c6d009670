# SPDX-License-Identifier: Apache-2.0
"""Forms of texts: days, times, URIs, durations; patterns as ECMAScript has them."""

from __future__ import annotations

import datetime as dt
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.formats import times
from omsgrain.formats.mif_ld import schema


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2026-01-26", True), ("2024-02-29", True), ("2000-02-29", True), ("0000-02-29", True),
        ("1900-02-29", False), ("2026-02-29", False), ("2026-04-31", False), ("2026-00-01", False),
        ("2026-01-00", False), ("2026-1-1", False), ("20260126", False), ("2026-01-26\n", False),
        ("2026-01-26T00:00:00Z", False), ("\u0662026-01-26", False), ("", False),
    ],
)  # fmt: skip
def test_days(text: str, good: bool) -> None:
    assert schema.date(text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("1998-12-31T23:59:60Z", True), ("1998-12-31T15:59:60.123-08:00", True),
        ("1999-01-01T00:29:60+00:30", True), ("1998-12-31T23:58:60Z", False),
        ("1998-12-31T22:59:60Z", False), ("1998-12-31T23:59:61Z", False),
        ("2026-01-26T23:59:59+23:59", True), ("2026-01-26T00:00:00+24:00", False),
        ("2026-01-26T00:00:00+00:60", False), ("2026-01-26T00:00:00+01", False),
        ("2026-01-26t00:00:00z", True), ("2026-01-26 00:00:00Z", False),
        ("2026-01-26T00:00:00,5Z", False), ("2026-01-26T00:00:00.Z", False),
        ("2026-01-26T00:00:00." + "9" * 1000 + "Z", True), ("2026-01-26T00:00:00", False),
    ],
)  # fmt: skip
def test_times(text: str, good: bool) -> None:
    assert schema.date_time(text) is good


@given(st.dates(), st.times(), st.sampled_from(["Z", "z", "+01:00", "-12:45"]))
def test_every_day_and_time_of_the_calendar(day: dt.date, time: dt.time, offset: str) -> None:
    assert schema.date(day.isoformat())
    text = f"{day.isoformat()}T{time.isoformat()}{offset}"
    assert schema.date_time(text)
    assert times.parse(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org", "http://", "a:", "urn:isbn:0451450523", "mailto:a@example.org",
        "ftp://u:p@h:21/p;x=1?q#f", "file:///x", "tag:a,2026:b", "data:,x%20y", "a://b?c?d#e/?",
        "http://[::1]/", "http://[1:2:3:4:5:6:7:8]", "http://[::ffff:192.0.2.1]", "http://[v1.a:b]",
        "http://[1::8]", "http://[::]", "http://h:/", "x-1+2.3:y",
    ],
)  # fmt: skip
def test_uris(text: str) -> None:
    assert schema.uri(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "/path", "//example.org", "1a:b", ":x", "http://a b", "http://caf\u00e9", "a:\\",
        "a:%zz", "a:%2", "http://[1:2:3]", "http://[::1", "http://[:::]", "http://[1::2::3]",
        "http://[::1.2.3.400]", "http://h:80a/", "http://a[b]", "a:#b#c", "a:<b>", "a:b\n", "a:|",
        "http://example.org/{id}", "bar,baz:foo",
    ],
)  # fmt: skip
def test_no_uris(text: str) -> None:
    assert not schema.uri(text)


@given(st.text(max_size=20))
def test_a_uri_has_a_scheme(text: str) -> None:
    if schema.uri(text):
        assert urlsplit(text).scheme
        assert text.isascii()


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("P1D", True), ("P2W", True), ("PT1H", True), ("P1Y2M3DT4H5M6.5S", True), ("P0.5D", True),
        ("PT0,5S", True), ("P1Y2D", True), ("P0D", True), ("P", False), ("PT", False),
        ("P1DT", False), ("P1W2D", False), ("P1.5Y2D", False), ("P1H", False), ("PT1D", False),
        ("p1d", False), ("-P1D", False), ("P-1D", False), ("1D", False), ("P1D\n", False),
        ("P\u0661D", False), ("Pfoo", False),
    ],
)  # fmt: skip
def test_durations(text: str, good: bool) -> None:
    assert schema.duration(text) is good


@pytest.mark.parametrize(
    ("pattern", "text", "good"),
    [
        ("^a$", "a", True), ("^a$", "a\n", False), (r"^\d$", "1", True),
        (r"^\d$", "\u0661", False),
        ("^.$", "\r", False), ("^.$", "\u2028", False), ("^.$", "x", True), ("^[$.]$", "$", True),
        (r"^\.\$$", ".$", True), (r"^[\d.]+$", "1.2", True), ("b", "abc", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str, text: str, good: bool) -> None:
    assert (schema.pattern(pattern).search(text) is not None) is good
