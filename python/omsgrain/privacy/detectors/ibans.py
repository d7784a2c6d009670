# SPDX-License-Identifier: Apache-2.0
"""International bank account numbers (ISO 13616)."""

from __future__ import annotations

import re
from functools import cache

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.libraries import library

__all__ = ["Ibans"]

# In one, or in groups of four with a space, a dash or a dot between.
_RUN = re.compile(
    r"(?<![A-Za-z0-9\0])[A-Za-z]{2}\d{2}"
    r"(?:[A-Za-z0-9]{11,30}|(?:[ .-][A-Za-z0-9]{4}){2,7}(?:[ .-][A-Za-z0-9]{1,3})?)"
    r"(?![A-Za-z0-9])",
    re.ASCII,
)
_SIZES = re.compile(r"(\d+)!")


class Ibans:
    """Of the countries that have them, with their length, their form and their check digits."""

    type = "iban"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the numbers; what stands in groups after one is left."""
        valid = library("stdnum.iban").is_valid
        run = _RUN.search(text)
        while run is not None:
            past = run.start() + 1
            number = _cut(run[0], _length(run[0][:2].upper()))
            if number and valid(number, check_country=False):
                past = run.start() + len(number)
                yield run.start(), past
            run = _RUN.search(text, past)


@cache
def _length(country: str) -> int:
    """Letters and digits of a country's numbers; 0 if it has none."""
    ((_, known), *_rest) = library("stdnum.numdb").get("iban").info(country)
    return 4 + sum(map(int, _SIZES.findall(known["bban"]))) if known else 0


def _cut(run: str, length: int) -> str | None:
    """So many letters and digits of what may have more groups after it."""
    if not length:
        return None
    size = 0
    for at, letter in enumerate(run):
        size += letter not in " .-"
        if size == length:
            return run[: at + 1] if run[at + 1 : at + 2] in ("", " ", ".", "-") else None
    return None
