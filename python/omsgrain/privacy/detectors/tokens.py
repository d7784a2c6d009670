# SPDX-License-Identifier: Apache-2.0
"""Tokens by their form: JWTs, and what an Authorization header carries."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.folding import lower

__all__ = ["BearerTokens", "Jwts"]


class Jwts:
    """JSON Web Tokens: a header that begins with ``{"``, a payload, a signature that may lack."""

    type = "token"
    secret = True

    _PARTS = re.compile(r"[\w-]{10,}\.[\w-]{4,}(?:\.[\w-]*){0,3}", re.ASCII)

    def find(self, text: str) -> Spans:
        """Yield the tokens.

        Cost: linear; one begins only where no letter of a token stands before.
        """
        at = text.find("eyJ")
        while at >= 0:
            end = at + 3
            if at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "-_"):
                if found := self._PARTS.match(text, at):
                    end = found.end()
                    yield at, end - (text[end - 1] == ".")
            at = text.find("eyJ", end)


class BearerTokens:
    """``Bearer x`` and ``Authorization: Basic x``."""

    type = "token"
    secret = True

    _BEARER = re.compile(r"[ \t]{1,4}([\w.~+/-]{16,}={0,2})", re.ASCII)
    _HEADER = re.compile(
        r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?:bearer|basic|token|digest|apikey|bot|key)"
        r"[ \t]{1,4}([\w.~+/:-]{6,}={0,2})",
        re.ASCII | re.IGNORECASE,
    )

    def find(self, text: str) -> Spans:
        """Yield the tokens, without the words before."""
        small = lower(text)
        for word, then in (("bearer", self._BEARER), ("authorization", self._HEADER)):
            at = small.find(word)
            while at >= 0:
                end = at + len(word)
                if found := then.match(text, end):
                    start, end = found.span(1)
                    # After the bare word, prose may follow: "bearer authentication-method".
                    if word == "authorization" or any(c.isdigit() for c in found[1]):
                        yield start, end - (found[1][-1] == ".")
                at = small.find(word, end)

    def find_under(self, key: str, text: str) -> Spans:
        """Yield what a header of that name holds."""
        if key.lower() in ("authorization", "proxy-authorization", "cookie", "set-cookie"):
            first, space, rest = text.strip().partition(" ")
            start = text.find(rest) if space and first.isalpha() else 0
            if len(text) - start >= 6 and "\0" not in text:
                yield start, len(text)
