# SPDX-License-Identifier: Apache-2.0
"""Spells of did:key, made by hand."""

from __future__ import annotations


def multikey(data: bytes) -> str:
    """Any bytes in multibase base58btc, by its definition."""
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = alphabet[digit] + text
    return "z" + "1" * (len(data) - len(data.lstrip(b"\0"))) + text
