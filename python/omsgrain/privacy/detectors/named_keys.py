# SPDX-License-Identifier: Apache-2.0
"""Keys and tokens that a word names: ``api_key = x``, ``API key is x``, and under such a key."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.telling import PLACEHOLDER, Words, said

__all__ = ["NamedKeys"]

_SURE = tuple(
    f"{first}{between}{second}"
    for first, second in (
        ("api", "key"), ("api", "token"), ("api", "secret"), ("access", "key"), ("secret", "key"),
        ("private", "key"), ("signing", "key"), ("encryption", "key"), ("account", "key"),
        ("shared access", "key"), ("sharedaccess", "key"), ("license", "key"),
        ("client", "secret"),
        ("app", "secret"), ("consumer", "secret"), ("webhook", "secret"), ("access", "token"),
        ("auth", "token"), ("refresh", "token"), ("session", "token"), ("bot", "token"),
        ("access key", "id"), ("secret access", "key"), ("deploy", "token"), ("bearer", "token"),
    )
    for between in (" ", "_", "-", "")
)  # fmt: skip
WORDS = Words(
    words=(
        "api-schlüssel", "schlüssel", "clé api", "clé d'api", "clave api", "clave de api",
        "clave de la api", "chave de api", "chave da api", "chiave api", "api-sleutel", "ключ api",
        "api ключ", "api-ключ", "токен", "klucz api", "api anahtarı", "jeton", "apikey",  # noqa: RUF001
        "api 密钥", "api密钥", "密钥", "令牌", "apiキー", "トークン", "api 키", "토큰",
        "khóa api", "مفتاح api", "api कुंजी",
    ),
    ends=(*_SURE, "secret", "token"),
)  # fmt: skip

# At least eight letters of those that keys are made of.
_LETTERS = re.compile(r"[A-Za-z0-9_\-./+=~!@#$%^*:|]{8,4096}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.Z+-]*")
_MANY_PLAIN = re.compile(r"[A-Za-z]{16,}|[0-9]{20,}|[0-9-]{24,}")
_WORDS = re.compile(r"(?:[A-Za-z]{2,}|\d{1,4})(?:[-_./:](?:[A-Za-z]{2,}|\d{1,4}))*")


class NamedKeys:
    """Values after such words, if they look like a key."""

    type = "api_key"
    secret = True

    def find(self, text: str) -> Spans:
        """Yield the values, without the words before."""
        for value in said(text, WORDS):
            word = text[value.start : value.end]
            if looks_secret(word, value.join == "sign"):
                if value.join != "space" or len(word) >= 20:
                    yield value.start, value.end

    def find_under(self, key: str, text: str) -> Spans:
        """Yield the whole text, if it looks like a key."""
        bare = text.strip()
        if bare and len(bare) <= 4096 and WORDS.name(key) and looks_secret(bare):
            start = text.index(bare)
            yield start, start + len(bare)


def looks_secret(value: str, sign: bool = True) -> bool:
    """Tell a key from a name, a path, a time or a placeholder.

    After a sign, a long name with a number is taken for one too: ``secret: my-secret-value-1``.
    """
    if _LETTERS.fullmatch(value) is None or "://" in value:
        return False
    if PLACEHOLDER.fullmatch(value) is not None or _TIME.fullmatch(value) is not None:
        return False
    if _MANY_PLAIN.fullmatch(value) is not None:
        return True
    if _WORDS.fullmatch(value) is not None and not (sign and len(value) >= 16):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
