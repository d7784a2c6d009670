# SPDX-License-Identifier: Apache-2.0
"""Private keys in PEM, and in the armour of OpenPGP."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans

__all__ = ["PrivateKeys"]


class PrivateKeys:
    """From ``-----BEGIN ... PRIVATE KEY-----`` to its end; without one, as far as base64 goes."""

    type = "private_key"
    secret = True

    _BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
    _END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
    # Line breaks may be written as \n, as in JSON within a text.
    _BREAK = r"(?:\s|\\[nr])"
    _BODY = re.compile(
        rf"{_BREAK}*(?:[A-Za-z0-9+/=]{{20,}}{_BREAK}*){{1,100000}}[A-Za-z0-9+/=]{{0,19}}"
    )

    def find(self, text: str) -> Spans:
        """Yield the keys, with their first and last line.

        Cost: linear; what one key covers is not looked at again, and no end is looked for twice.
        """
        begin = self._BEGIN.search(text) if "-----BEGIN" in text else None
        end = begin and self._END.search(text, begin.end())
        while begin is not None:
            after = self._BEGIN.search(text, begin.end())
            if end is not None and end.start() < begin.end():
                end = self._END.search(text, begin.end())
            if end is not None and (after is None or end.start() < after.start()):
                yield begin.start(), end.end()
            elif body := self._BODY.match(text, begin.end()):
                yield begin.start(), body.end()
            begin = after
