# SPDX-License-Identifier: Apache-2.0
"""Internet addresses, version 4 and 6."""

from __future__ import annotations

import ipaddress
import re

from omsgrain.privacy.detectors.detector import Spans

__all__ = ["IpAddresses"]

_V4 = re.compile(r"(?<![\w.\0])\d{1,3}(?:\.\d{1,3}){3}(?![\w\0]|\.\w)", re.ASCII)
_V6 = re.compile(r"[0-9A-Fa-f:.]{3,}")
_V6_MOST = 45
# What has four numbers with dots between as well.
_NUMBERED = re.compile(
    r"(?:versions?|ver|vers|release|build|firmware|oid|section|sections|chapter|clause|article|art|paragraph|kapitel|abschnitt|ziffer|artículo|sección|раздел|пункт|§|版本"
    r"|バージョン|버전|versión|versão|версия|chrome|safari|firefox|edge|opera)"
    r"[\s:=#/(\"']{0,3}(?:is|no|nr|number|to|v)?[\s:.]{0,2}$",
    re.IGNORECASE,
)
_PAIRS = re.compile(r"(?:[0-9A-Fa-f]{2}:){7}[0-9A-Fa-f]{2}")


class IpAddresses:
    """Whatever ``ipaddress`` reads, but versions, and the eight bytes of other identifiers."""

    type = "ip_address"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the addresses, without port or prefix length."""
        if "." in text:
            for found in _V4.finditer(text):
                before = text[max(0, found.start() - 24) : found.start()]
                if _is(ipaddress.IPv4Address, found[0]) and not _NUMBERED.search(before):
                    yield found.span()
        if ":" in text:
            yield from _v6(text)


def _v6(text: str) -> Spans:
    for run in _V6.finditer(text):
        start, end = run.span()
        # A sentence may end after it, and a list or a key begin before: "from: ::1".
        while end > start and text[end - 1] in ".:" and text[end - 2 : end] != "::":
            end -= 1
        if text[start] == ":" and text[start : start + 2] != "::":
            start += 1
        if not 3 <= end - start <= _V6_MOST or text.count(":", start, end) < 2:
            continue
        if _word(text, start - 1) or _word(text, end):
            continue
        address = text[start:end]
        if _is(ipaddress.IPv6Address, address) and _likely(address):
            yield start, end


def _likely(address: str) -> bool:
    """Tell it from a time, a name in C++ and other bytes with colons."""
    if _PAIRS.fullmatch(address) is not None:
        return False
    if not any(c.isdigit() for c in address):
        return False
    groups = [group for group in address.split(":") if group]
    return len(groups) >= 3 or len(groups[0]) == 4 or address == "::1" or "." in address


def _word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] in "_\0")


def _is(kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address], address: str) -> bool:
    try:
        kind(address)
    except ValueError:
        return False
    return True
