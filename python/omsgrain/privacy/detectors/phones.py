# SPDX-License-Identifier: Apache-2.0
"""Phone numbers of any country."""

from __future__ import annotations

import re
from typing import Any

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.folding import lower
from omsgrain.privacy.detectors.libraries import library
from omsgrain.privacy.detectors.telling import Words

__all__ = ["Phones"]

WORDS = Words(
    words=(
        "phone", "phone number", "tel", "telephone", "mobile", "cell", "cellphone", "call",
        "call me", "text me", "contact number", "my number", "her number",
        "his number", "fax", "whatsapp", "sms", "landline", "hotline", "dial", "ring",
        "telefon", "telefonnummer", "rufnummer", "handy", "handynummer", "mobil", "mobilnummer",
        "festnetz", "durchwahl", "ruf mich an", "anrufen", "téléphone", "portable",
        "tél", "fixe", "appelez",
        "teléfono", "telefono", "móvil", "movil", "celular", "llámame", "llame", "llamar",
        "telefone", "telemóvel", "ligue", "cellulare", "chiamami", "telefoon", "mobiel", "bel",
        "telefonu", "telefonie", "komórka", "zadzwoń", "mobilní", "puhelin", "puhelinnumero",
        "matkapuhelin", "telefonszám", "telefonum", "cep", "điện thoại", "sđt", "telepon", "hp",
        "nomor", "simu", "телефон", "тел", "моб", "мобильный", "звоните", "позвоните",
        "τηλέφωνο", "τηλ", "κινητό", "טלפון", "נייד", "هاتف", "جوال", "تلفون",
        "رقم الهاتف", "تلفن",
        "موبایل", "फ़ोन", "फोन", "मोबाइल", "ফোন", "โทร", "โทรศัพท์", "เบอร์",
        "电话", "電話", "手机", "手機", "致电", "携帯", "전화", "전화번호", "휴대폰", "핸드폰",
        "연락처",
    ),
    ends=("phonenumber", "phone_number", "telefonnummer", "mobilephone"),
)  # fmt: skip

# With the country in front: +49 or 0049.
_ABROAD = re.compile(
    r"(?<![\w+\0])(?:\+|00(?=[1-9]))[ ]?\(?[1-9](?:[ ().\-/]{0,3}\d){6,14}(?!\d)",
    re.ASCII,
)
# A number padded with zeros looks like 00 and a country; a word of counting says what it is.
_COUNTED = re.compile(
    r"(?:\b(?:order|invoice|ticket|case|ref|reference|item|id|sku|part|serial|batch|lot|article"
    r"|customer|account|barcode|ean|gtin|isbn|auftrag|rechnung|kunde|artikel|vorgang|bestellung"
    r"|commande|facture|pedido|factura|fattura|ordine)\w{0,12}|[#=_])"
    r"[\s:.#=(\"']{0,3}(?:(?:no|nr|num|number|nummer|id|is)\b[\s:.]{0,3}){0,2}$",
    re.IGNORECASE,
)
# As North America writes them; nothing else looks so. 555 is no area, but what people invent.
_AMERICAN = re.compile(
    r"(?<![\w.\0+-])(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d-)\d{3}-\d{4}(?![\w\0]|[.-]\d)",
    re.ASCII,
)
# At home: seven to fifteen digits, with signs between. What it means is left to the word before.
_DIGITS = r"\(?\d(?:[ ()./\-]{0,3}\d){6,14}(?![\w\0]|[.,-]\d)"
_HOME = re.compile(rf"(?<![\w.,\0+-]){_DIGITS}", re.ASCII)
_TOLD = re.compile(rf"\+?{_DIGITS}", re.ASCII)
# Of two words that begin alike, the longer one is tried first.
_FILL = "|".join(
    sorted(
        (
            "number numbers num no nr nº n° № is are was at me us on a home work office main "
            "direct new old line or text ist lautet unter meine nummer es mi número numero numéro "
            "est al au le à é do da il mio è номер мой по номеру jest er är number's mobile cell "
            ": هو है नंबर 號碼 号码 号 號 번호 番号 は 是 为 為 는 은 で に mein ma mon meu o el "
            "nomor saya numarası numaram số là เบอร์ คือ αριθμός"  # noqa: RUF001
        ).split(),
        key=len,
        reverse=True,
    )
)
_BETWEEN = re.compile(
    rf"""["')\]*_]{{0,2}}(?:[\s.:;,=#>*_"'(-]{{0,3}}(?:{_FILL})(?![A-Za-z\u00c0-\u024f])){{0,4}}"""
    rf"""[\s.:,=#>*_"'(-]{{0,4}}"""
)
_NO_PHONE = re.compile(
    r"(?:19|20)\d\d[-./ ]\d\d?[-./ ]\d\d?(?!\d).*|\d\d?[./-]\d\d?[./-](?:19|20)\d\d(?!\d).*"
    r"|(?:\d{1,3}\.){3}\d{1,3}|(\d)(?:\D*\1)*"
)
_DIGIT = re.compile(r"\d", re.ASCII)
_GROUPS = re.compile(r"[ ().\-/]+(?=\d)")
_TRIES = 5


class Phones:
    """Numbers with their country anywhere, others after a word for a phone.

    Args:
        region: a country by its two letters, such as ``DE``: numbers as they are dialled there are
            found anywhere too.
    """

    type = "phone"
    secret = False

    def __init__(self, region: str | None = None) -> None:
        self.region = region

    def find(self, text: str) -> Spans:
        """Yield the numbers.

        Cost: linear, but a number that is none costs some tens of microseconds.
        """
        phones = library("phonenumbers")
        if _DIGIT.search(text) is None:
            return
        if "+" in text or "00" in text:
            yield from _abroad(phones, text)
        for found in _AMERICAN.finditer(text):
            yield found.span()
        yield from _told(text)
        if self.region is not None:
            yield from _at_home(phones, text, self.region)

    def find_under(self, key: str, text: str) -> Spans:
        """Yield the numbers in a text that stands under a word for a phone."""
        if WORDS.name(key):
            for found in _HOME.finditer(text):
                if _NO_PHONE.fullmatch(found[0]) is None:
                    yield found.span()


def _abroad(phones: Any, text: str) -> Spans:
    found = _ABROAD.search(text)
    while found is not None:
        end = None if _counted(text, found) else _valid(phones, found[0], None)
        past = found.end() if end is None else found.start() + end
        if end is not None:
            yield found.start(), past
        found = _ABROAD.search(text, past)


def _counted(text: str, found: re.Match[str]) -> bool:
    if found[0][0] == "+" or not found[0].isdigit():
        return False
    return _COUNTED.search(text[max(0, found.start() - 40) : found.start()]) is not None


def _at_home(phones: Any, text: str, region: str) -> Spans:
    found = _HOME.search(text)
    while found is not None:
        end = None if _NO_PHONE.fullmatch(found[0]) else _valid(phones, found[0], region)
        past = found.end() if end is None else found.start() + end
        if end is not None:
            yield found.start(), past
        found = _HOME.search(text, past)


def _told(text: str) -> Spans:
    for ends in WORDS.places(lower(text)):
        for end in ends:
            between = _BETWEEN.match(text, end)
            start = between.end() if between else end
            # The last of what stands between may be the bracket that opens the number.
            start -= start > end and text[start - 1] == "("
            found = _TOLD.match(text, start)
            if found and _NO_PHONE.fullmatch(found[0]) is None:
                yield found.span()


def _valid(phones: Any, candidate: str, region: str | None) -> int | None:
    """Where the longest number ends that begins the candidate; groups after it are left."""
    for _ in range(_TRIES):
        if len(_DIGIT.findall(candidate)) < 7:
            return None
        if _is_number(phones, candidate, region):
            return len(candidate)
        cuts = [m.start() for m in _GROUPS.finditer(candidate)]
        if not cuts:
            return None
        candidate = candidate[: cuts[-1]]
    return None


def _is_number(phones: Any, candidate: str, region: str | None) -> bool:
    number = "+" + candidate[2:] if region is None and candidate[:2] == "00" else candidate
    try:
        parsed = phones.parse(number, region)
    except phones.NumberParseException:
        return False
    return bool(phones.is_valid_number(parsed))
