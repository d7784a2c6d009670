# SPDX-License-Identifier: Apache-2.0
"""Find payment card numbers, IBANs and social security numbers.

A card number has 12 to 19 digits, a known issuer's prefix, and a valid Luhn check digit.
"""

from __future__ import annotations

import re
from functools import cache

from omsgrain.privacy.detectors.base import Spans, Words, library

LEAST, MOST = 12, 19
WORDS = Words(
    words=(
        "card", "card no", "card number", "cc", "visa", "mastercard", "amex", "maestro", "karte",
        "carte", "tarjeta", "cartão", "carta", "kaart", "karta", "карта", "карты", "карту", "kort",
        "kartı", "thẻ", "कार्ड", "بطاقة", "卡号", "信用卡", "カード", "카드",  # noqa: RUF001
    ),
    ends=("kreditkarte", "kreditkartennummer", "cardnumber", "creditcard", "card_number"),
)  # fmt: skip

# Groups of digits with one separator between them, of any length.
_RUN = re.compile(r"(?<![\w.\0])\d+(?:[ .-]\d+)*(?![\w\0])", re.ASCII)
_GROUP = re.compile(r"\d+", re.ASCII)
# Groupings of card numbers: in fours, and as American Express, Diners and Maestro print them.
_SHAPES = {
    (4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 4, 4, 2), (4, 4, 4, 4, 1),
    (4, 4, 5), (4, 4, 4, 1), (4, 4, 4, 2), (4, 4, 4, 3), (6, 13), (8, 8), (4, 5, 6), (4, 12),
}  # fmt: skip
_FIRST = {shape[0] for shape in _SHAPES}
# Issuer prefixes with the lengths of their numbers: Visa, Mastercard, American Express, Discover,
# JCB, Diners, UnionPay, Mir, RuPay, Troy, Maestro.
_ISSUED = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)\d*(?<=^.{16})"
    r"|3[47]\d{13}|(?:6011|64[4-9]|65)\d{12,15}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|3(?:0[0-5]|095|[689])\d*(?<=^.{14})|62\d{14,17}|220[0-4]\d{12,15}|(?:60|81|82|508)\d*(?<=^.{16})"
    r"|9792\d{12}|(?:50|5[6-9]|6[0-9])\d*(?<=^.{16})",
    re.ASCII,
)
_MOST_NAMED = 40


class Cards:
    """Card numbers in usual groupings or ungrouped; after a word for a card, in any grouping."""

    type = "credit_card"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the numbers.

        Cost: linear; from each group, it reads at most 19 digits ahead.
        """
        for run in _RUN.finditer(text):
            if run.end() - run.start() >= LEAST:
                named = WORDS.before(text, run.start())
                yield from _cards(text, run.start(), run.end(), named)

    def find_under(self, key: str, text: str) -> Spans:
        if WORDS.name(key):
            for run in _RUN.finditer(text):
                if run.end() - run.start() >= LEAST:
                    yield from _cards(text, run.start(), run.end(), True)


def luhn(digits: str) -> bool:
    total = sum(map(int, digits[-1::-2]))
    total += sum(d * 2 - 9 * (d > 4) for d in map(int, digits[-2::-2]))
    return total % 10 == 0


def _cards(text: str, start: int, end: int, named: bool) -> Spans:
    groups = [m.span() for m in _GROUP.finditer(text, start, end)]
    first = 0
    while first < len(groups):
        named = named and first < _MOST_NAMED
        length = groups[first][1] - groups[first][0]
        if named or length in _FIRST or LEAST <= length <= MOST:
            last = _last(text, groups, first, named)
            if last is not None:
                yield groups[first][0], groups[last][1]
                first = last
        first += 1


def _last(text: str, groups: list[tuple[int, int]], first: int, named: bool) -> int | None:
    digits, best = "", None
    shape: tuple[int, ...] = ()
    for at in range(first, min(first + MOST, len(groups))):
        start, end = groups[at]
        if end - start + len(digits) > MOST:
            break
        digits += text[start:end]
        shape = (*shape, end - start)
        whole = len(shape) == 1 and not _decimal(text, start, end)
        if len(digits) >= LEAST and (named or whole or shape in _SHAPES):
            if (named or _ISSUED.fullmatch(digits)) and len(set(digits)) > 1 and luhn(digits):
                best = at
    return best


def _decimal(text: str, start: int, end: int) -> bool:
    after = text[end : end + 2]
    return text[start - 1 : start] == "." or (after[:1] == "." and after[1:].isdigit())


# Ungrouped, or in groups of four with a space, a dash or a dot between them.
_IBAN_RUN = re.compile(
    r"(?<![A-Za-z0-9\0])[A-Za-z]{2}\d{2}"
    r"(?:[A-Za-z0-9]{11,30}|(?:[ .-][A-Za-z0-9]{4}){2,7}(?:[ .-][A-Za-z0-9]{1,3})?)"
    r"(?![A-Za-z0-9])",
    re.ASCII,
)
_SIZES = re.compile(r"(\d+)!")


class Ibans:
    """IBANs with the length, form and check digits of their country."""

    type = "iban"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the numbers; further groups after a number are left out."""
        valid = library("stdnum.iban").is_valid
        run = _IBAN_RUN.search(text)
        while run is not None:
            past = run.start() + 1
            number = _cut(run[0], _length(run[0][:2].upper()))
            if number and valid(number, check_country=False):
                past = run.start() + len(number)
                yield run.start(), past
            run = _IBAN_RUN.search(text, past)


@cache
def _length(country: str) -> int:
    """Return the length of a country's IBANs; 0 if it has none."""
    ((_, known), *_rest) = library("stdnum.numdb").get("iban").info(country)
    return 4 + sum(map(int, _SIZES.findall(known["bban"]))) if known else 0


def _cut(run: str, length: int) -> str | None:
    """Return the first ``length`` letters and digits, if a group ends there."""
    if not length:
        return None
    size = 0
    for at, letter in enumerate(run):
        size += letter not in " .-"
        if size == length:
            return run[: at + 1] if run[at + 1 : at + 2] in ("", " ", ".", "-") else None
    return None


SSN_WORDS = Words(
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
_NAMED = re.compile(r"(?<![\w\0])\d{3}([ .-]?)\d{2}\1\d{4}(?![\w\0])", re.ASCII)


class SocialSecurityNumbers:
    """Issued numbers with dashes; after a word for one, any nine digits."""

    type = "ssn"
    secret = False

    def find(self, text: str) -> Spans:
        valid = library("stdnum.us.ssn").is_valid
        for found in _DASHED.finditer(text):
            if valid(found[0]):
                yield found.span()
        for found in _NAMED.finditer(text):
            if SSN_WORDS.before(text, found.start()):
                yield found.span()

    def find_under(self, key: str, text: str) -> Spans:
        if SSN_WORDS.name(key):
            for found in _NAMED.finditer(text):
                yield found.span()
