# SPDX-License-Identifier: Apache-2.0
"""Texts that are searched for secrets and personal data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz.target import Run, Target
from omsgrain.privacy.detect import spans
from omsgrain.privacy.detectors.base import views
from omsgrain.privacy.redact import marker, redact_text, redact_value
from support.privacy_corpus import DISGUISES, corpus, disguised


@contextmanager
def _redact(room: Path) -> Iterator[Run]:
    """A text; every place of a view leads back, and nothing outside the spans is changed."""

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        for view in views(text):
            before = 0
            for at in range(len(view.text)):
                start, end = view.places(at, at + 1)
                assert before <= start < end <= len(text)
                before = start
        parts, at = [], 0
        for span in spans(text):
            assert at <= span.start < span.end <= len(text)
            parts += [text[at : span.start], marker(span.types[0])]
            at = span.end
        once = redact_text(text).text
        assert once == "".join([*parts, text[at:]])
        assert redact_text(once).text == once

    yield run


def _refused(name: str) -> None:
    """Refuse NaN, which equals nothing, not even itself."""
    raise ValueError(name)


@contextmanager
def _tree(room: Path) -> Iterator[Run]:
    """JSON; what is redacted has nothing left to redact."""

    def run(data: bytes) -> None:
        try:
            tree = json.loads(data, parse_constant=_refused)
        except (ValueError, RecursionError):
            return
        once = redact_value(tree)
        assert redact_value(once.value).value == once.value
        assert once.changed or once.value == tree

    yield run


def _texts() -> list[bytes]:
    hidden = [text.text for how in DISGUISES for text in disguised(how)[::9]]
    return [text.encode() for text in [*(text.text for text in corpus()[::3]), *hidden]]


def _trees() -> list[bytes]:
    texts = [text.text for text in corpus()]
    keys = ("password", "phone", "api_key", "Authorization", "ssn", "card", "name", "value", "x")
    return [
        json.dumps({key: texts[at + n] for n, key in enumerate(keys)}, ensure_ascii=False).encode()
        for at in range(0, len(texts) - len(keys), 23)
    ]


TARGETS = {"redact": Target(_redact, _texts), "redact tree": Target(_tree, _trees, "json")}
