# SPDX-License-Identifier: Apache-2.0
"""LangGraph's labels and keys as texts of a grain, which are NFC and have no ``:*`` at the end."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from urllib.parse import quote, unquote

from omsgrain.errors import SchemaError

_ASCII = "".join(map(chr, range(128)))
_MARKS = {ord(mark): quote(mark, safe="") for mark in "%:\0"} | {ord("*"): "%2A"}


def spell(text: str) -> str:
    """Spell any text so that ``read`` returns it exactly."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        spelled = text.translate(_MARKS)
    else:
        spelled = quote(text.translate(_MARKS), safe=_ASCII)
    try:
        spelled.encode()
    except UnicodeEncodeError:
        raise SchemaError("a name is not Unicode", expected="text without surrogates") from None
    return spelled


def read(spelled: str) -> str:
    return unquote(spelled)


def joined(root: str, labels: Iterable[str]) -> str:
    """Join labels to a namespace. Each ends with a colon, so a prefix ends at a label."""
    return root + "".join(f"{spell(label)}:" for label in labels)


def split(root: str, namespace: str) -> tuple[str, ...]:
    return tuple(map(read, namespace[len(root) :].split(":")[:-1]))
