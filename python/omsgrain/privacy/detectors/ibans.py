# SPDX-License-Identifier: Apache-2.0
"""International bank account numbers (ISO 13616)."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.libraries import library

__all__ = ["Ibans"]

LEAST = 15
"""Letters and digits of the shortest, of Norway."""

# In one, or in groups of four with a space or a dash between.
_RUN = re.compile(
    r"(?<![A-Za-z0-9\0])[A-Za-z]{2}\d{2}"
    r"(?:[A-Za-z0-9]{11,30}|(?:[ -][A-Za-z0-9]{4}){2,7}(?:[ -][A-Za-z0-9]{1,3})?)(?![A-Za-z0-9])",
    re.ASCII,
)


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
            number = run[0]
            while len(number) >= LEAST:
                if _checked(number) and valid(number, check_country=False):
                    past = run.start() + len(number)
                    yield run.start(), past
                    break
                number = number[: max(number.rfind(" "), number.rfind("-"), 0)]
            run = _RUN.search(text, past)


def _checked(number: str) -> bool:
    """Tell whether the check digits fit; the library, which is slower, tells the rest."""
    bare = number.replace(" ", "").replace("-", "")
    return int("".join([str(int(c, 36)) for c in bare[4:] + bare[:4]])) % 97 == 1
