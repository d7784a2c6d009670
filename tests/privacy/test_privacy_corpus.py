# SPDX-License-Identifier: Apache-2.0
"""How much of the labelled corpus is found; ``pytest -s`` prints it."""

from __future__ import annotations

import re

import pytest

from omsgrain.privacy.detectors import DEFAULT
from omsgrain.privacy.detectors.secrets import PROVIDERS
from omsgrain.privacy.redact import redact_text
from support.markdown_page import table
from support.paths import ROOT
from support.privacy_corpus import DISGUISES, FILE, Labelled, corpus, disguised, measure, total

PAGE = ROOT / "docs" / "privacy.md"
# Of each type: the least precision, the least recall.
FLOORS = {
    "api_key": (0.95, 0.95),
    "credit_card": (0.95, 0.95),
    "email": (0.95, 0.95),
    "iban": (0.95, 0.95),
    "ip_address": (0.95, 0.95),
    "password": (0.95, 0.9),
    "phone": (0.95, 0.95),
    "private_key": (0.95, 0.95),
    "ssn": (0.95, 0.9),
    "token": (0.95, 0.95),
}


def test_precision_and_recall() -> None:
    figures = measure(corpus())
    print(f"\n{'type':12} {'labelled':>8} {'precision':>9} {'recall':>6}")
    for type, found in figures.items():
        print(f"{type:12} {found.labelled:8} {found.precision:9.3f} {found.recall:6.3f}")
    assert set(figures) == {detector.type for detector in DEFAULT} == set(FLOORS)
    for type, (precision, recall) in FLOORS.items():
        assert figures[type].precision >= precision, type
        assert figures[type].recall >= recall, type


def test_the_corpus_is_worth_it() -> None:
    texts = corpus()
    assert len(texts) >= 300
    assert sum(not text.labels for text in texts) >= 100
    assert len({text.lang for text in texts}) >= 20
    assert all(found.labelled >= 8 for found in measure(texts).values())


@pytest.mark.parametrize("text", corpus(), ids=lambda text: text.lang)
def test_no_residue(text: Labelled) -> None:
    redacted = redact_text(text.text)
    for value in text.values():
        assert value not in redacted.text
    assert redact_text(redacted.text).text == redacted.text


def test_the_file_holds_no_key_in_one_piece() -> None:
    raw = FILE.read_text("utf-8")
    joined = "\n".join(text.text for text in corpus())
    for provider in PROVIDERS:
        for prefix in provider.prefixes:
            whole = re.compile(rf"(?<![A-Za-z0-9]){re.escape(prefix)}(?:{provider.body.pattern})")
            assert whole.search(raw) is None, provider.name
    assert "PRIVATE KEY-----" in joined
    assert re.search(r"BEGIN [A-Z ]*PRIVATE KEY-----.+END", raw) is None


def test_figures_in_the_docs() -> None:
    rows = table(PAGE, "type", "labelled", "precision", "recall")
    assert rows == [
        [type, str(found.labelled), f"{found.precision:.2f}", f"{found.recall:.2f}"]
        for type, found in measure(corpus()).items()
    ]


def test_disguises_in_the_docs() -> None:
    rows = table(PAGE, "written with", "labelled", "precision", "recall")
    found = {how: total(measure(disguised(how))) for how in DISGUISES}
    assert rows == [
        [how, str(of.labelled), f"{of.precision:.2f}", f"{of.recall:.2f}"]
        for how, of in {"nothing of it": total(measure(corpus())), **found}.items()
    ]
    assert all(of.precision >= 0.95 and of.recall >= 0.93 for of in found.values())


def test_providers_in_the_docs() -> None:
    listed = {provider.name for provider in PROVIDERS}
    text = " ".join(PAGE.read_text("utf-8").split())
    assert all(name in text for name in listed)


def test_types_in_the_docs() -> None:
    rows = table(PAGE, "type", "what is found", "secret")
    secret = {detector.type: detector.secret for detector in DEFAULT}
    assert {row[0]: row[2] == "yes" for row in rows} == secret
