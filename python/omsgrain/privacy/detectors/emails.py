# SPDX-License-Identifier: Apache-2.0
"""E-mail addresses, those with letters of any script too (RFC 6531)."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.folding import MARKS, NO_SPACES

__all__ = ["Emails"]

_AT = re.compile(r"@|%40")
_SIGNS = rf"\w{MARKS}.!#$%&'*+/=?^`{{|}}~-"
# Read from the @ to the left. Text in a script without spaces runs on to an address in ASCII, so
# such letters belong to an address only if the one beside the @ is of them too.
_LOCAL = re.compile(rf"(?:(?![{NO_SPACES}])[{_SIGNS}])+")
_LOCAL_ANY = re.compile(rf"[{_SIGNS}]+")
_QUOTED = re.compile(r'"[^"\n\0]{1,64}"')
_END = rf"(?:[^\W_]|[{MARKS}])"
_LABEL = rf"[^\W_](?:[\w{MARKS}-]{{0,61}}{_END})?"
_DOMAIN = re.compile(rf"(?:(?![{NO_SPACES}])[\w{MARKS}.-])+")
_DOMAIN_ANY = re.compile(rf"[\w{MARKS}.-]+")
_HOST = re.compile(
    rf"{_LABEL}(?:\.{_LABEL})*\.(?:xn--[A-Za-z0-9-]{{1,59}}|(?:[^\W\d_]|[{MARKS}]){{2,63}})"
)
_LITERAL = re.compile(r"\[(?:IPv6:)?[0-9A-Fa-f.:]{3,45}\]")
_IMAGE = re.compile(r"\dx\.(?:png|jpe?g|gif|webp|svg|avif)", re.IGNORECASE)
_STARTS = "'`{|}*/=?&#!$^~.%"
MOST_HOST = 253


class Emails:
    """An ``@`` with a name before it and a domain after it."""

    type = "email"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the addresses, without ``mailto:``.

        Cost: linear; from one @ no further than to the next.
        """
        past = 0
        ats = list(_AT.finditer(text))
        for n, at in enumerate(ats):
            most = ats[n + 1].start() if n + 1 < len(ats) else len(text)
            end = _domain_end(text, at.end(), min(most, at.end() + MOST_HOST))
            start = _local_start(text, past, at.start())
            past = at.end()
            if end is not None and start is not None and not _no_email(text, start, at, end):
                yield start, end


def _domain_end(text: str, start: int, most: int) -> int | None:
    if literal := _LITERAL.match(text, start):
        return literal.end()
    plain = text[start : start + 1].isascii()
    run = (_DOMAIN if plain else _DOMAIN_ANY).match(text, start, most)
    host = run and _HOST.match(text, start, run.end())
    return host.end() if host else None


def _local_start(text: str, past: int, at: int) -> int | None:
    if at > past and text[at - 1] == '"':
        open_ = text.rfind('"', max(past, at - 66), at - 1)
        return open_ if open_ >= 0 and _QUOTED.fullmatch(text, open_, at) else None
    backwards = text[past:at][::-1]
    run = (_LOCAL if backwards[:1].isascii() else _LOCAL_ANY).match(backwards)
    if run is None:
        return None
    name = run[0][::-1]
    # What stands before in code, markup or a URL: ?to=bob@example.com
    for sign in "=&?/|":
        if sign in name:
            name = name[name.rfind(sign) + 1 :]
    name = name.lstrip(_STARTS)
    return at - len(name) if name else None


def _no_email(text: str, start: int, at: re.Match[str], end: int) -> bool:
    """Tell a user in a URL, a repository for scp and a picture of twice the size."""
    if _IMAGE.fullmatch(text, at.end(), end) is not None:
        return True
    if at[0] != "@":
        return False
    if text[start : at.start()].lower() == "git":
        return True
    before = text[max(0, start - 300) : start]
    scheme = before.rfind("://")
    return scheme >= 0 and not any(c in "/?# \t\n\r\0\"'<>,;" for c in before[scheme + 3 :])
