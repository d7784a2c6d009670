# SPDX-License-Identifier: Apache-2.0
"""Social security numbers of the United States."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.libraries import library
from omsgrain.privacy.detectors.telling import Words

__all__ = ["SocialSecurityNumbers"]

WORDS = Words(
    words=(
        "ssn", "ssns", "ss#", "ssn#", "itin", "social security", "social security number",
        "social security no", "social-security number", "my social", "her social", "his social",
        "seguro social",
        "sozialversicherungsnummer", "sécurité sociale", "социального страхования",
        "社会安全号码", "社会保障番号", "사회보장번호", "tax id", "taxpayer id",
    ),
    ends=("socialsecuritynumber", "social_security_number", "socialsecurity", "_ssn"),
)  # fmt: skip

_DASHED = re.compile(r"(?<![\w.\0-])\d{3}-\d{2}-\d{4}(?![\w\0]|-\w|\.\d)", re.ASCII)
_TOLD = re.compile(r"(?<![\w\0])\d{3}([ .-]?)\d{2}\1\d{4}(?![\w\0])", re.ASCII)


class SocialSecurityNumbers:
    """With dashes and of numbers that are issued; after a word for one, any nine digits."""

    type = "ssn"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the numbers."""
        valid = library("stdnum.us.ssn").is_valid
        for found in _DASHED.finditer(text):
            if valid(found[0]):
                yield found.span()
        for found in _TOLD.finditer(text):
            if WORDS.told(text, found.start()):
                yield found.span()

    def find_under(self, key: str, text: str) -> Spans:
        """Yield the numbers in a text that stands under such a word."""
        if WORDS.name(key):
            for found in _TOLD.finditer(text):
                yield found.span()
