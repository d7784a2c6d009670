# SPDX-License-Identifier: Apache-2.0
"""Find e-mail addresses in any script (RFC 6531), IP addresses and phone numbers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from omsgrain.privacy.detectors.base import MARKS, NO_SPACES, Spans, Words, library, lower

_AT = re.compile(r"@|%40")
_SIGNS = rf"\w{MARKS}.!#$%&'*+/=?^`{{|}}~-"
# Matched from the @ to the left. Text without spaces can precede an ASCII address, so letters of
# such scripts belong to an address only if the letter beside the @ is one of them.
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
    """E-mail addresses: a name, ``@`` and a domain."""

    type = "email"
    secret = False

    def find(self, text: str) -> Spans:
        """Yield the addresses, without ``mailto:``.

        Cost: linear; from one @, it reads only to the next one.
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
    # Cut what precedes it in code, markup or a URL: ?to=bob@example.com
    for sign in "=&?/|":
        if sign in name:
            name = name[name.rfind(sign) + 1 :]
    name = name.lstrip(_STARTS)
    return at - len(name) if name else None


def _no_email(text: str, start: int, at: re.Match[str], end: int) -> bool:
    """Return whether it is a user in a URL, an scp repository or an image file name."""
    if _IMAGE.fullmatch(text, at.end(), end) is not None:
        return True
    if at[0] != "@":
        return False
    if text[start : at.start()].lower() == "git":
        return True
    before = text[max(0, start - 300) : start]
    scheme = before.rfind("://")
    return scheme >= 0 and not any(c in "/?# \t\n\r\0\"'<>,;" for c in before[scheme + 3 :])


_V4 = re.compile(r"(?<![\w.\0])\d{1,3}(?:\.\d{1,3}){3}(?![\w\0]|\.\w)", re.ASCII)
_V6 = re.compile(r"[0-9A-Fa-f:.]{3,}")
_V6_MOST = 45
# Other things with four numbers and dots.
_NUMBERED = re.compile(
    r"(?:versions?|ver|vers|release|build|firmware|oid|section|sections|chapter|clause|article|art|paragraph|kapitel|abschnitt|ziffer|artículo|sección|раздел|пункт|§|版本"
    r"|バージョン|버전|versión|versão|версия|chrome|safari|firefox|edge|opera)"
    r"[\s:=#/(\"']{0,3}(?:is|no|nr|number|to|v)?[\s:.]{0,2}$",
    re.IGNORECASE,
)
_PAIRS = re.compile(r"(?:[0-9A-Fa-f]{2}:){7}[0-9A-Fa-f]{2}")


class IpAddresses:
    """IP addresses that ``ipaddress`` parses, without versions and other identifiers."""

    type = "ip_address"
    secret = False

    def find(self, text: str) -> Spans:
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
        # A sentence may end after the address, and a list or key may precede it: "from: ::1".
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
    """Return whether it is not a time, a C++ name or other bytes with colons."""
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

# International: +49 or 0049.
_ABROAD = re.compile(
    r"(?<![\w+\0])(?:\+|00(?=[1-9]))[ ]?\(?[1-9](?:[ ().\-/]{0,3}\d){6,14}(?!\d)",
    re.ASCII,
)
# A number padded with zeros looks like 00 and a country; a word before it reveals its kind.
_COUNTED = re.compile(
    r"(?:\b(?:order|invoice|ticket|case|ref|reference|item|id|sku|part|serial|batch|lot|article"
    r"|customer|account|barcode|ean|gtin|isbn|auftrag|rechnung|kunde|artikel|vorgang|bestellung"
    r"|commande|facture|pedido|factura|fattura|ordine)\w{0,12}|[#=_])"
    r"[\s:.#=(\"']{0,3}(?:(?:no|nr|num|number|nummer|id|is)\b[\s:.]{0,3}){0,2}$",
    re.IGNORECASE,
)
# North American format, which nothing else has. 555 is not an area code, but fictional.
_AMERICAN = re.compile(
    r"(?<![\w.\0+-])(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d-)\d{3}-\d{4}(?![\w\0]|[.-]\d)",
    re.ASCII,
)
# National: seven to fifteen digits with separators. It needs a word for a phone before it.
_DIGITS = r"\(?\d(?:[ ()./\-]{0,3}\d){6,14}(?![\w\0]|[.,-]\d)"
_HOME = re.compile(rf"(?<![\w.,\0+-]){_DIGITS}", re.ASCII)
_NAMED = re.compile(rf"\+?{_DIGITS}", re.ASCII)
# Among words with a common beginning, try the longer one first.
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
    """Phone numbers: international ones anywhere, others after a word for a phone."""

    type = "phone"
    secret = False

    def __init__(self, region: str | None = None) -> None:
        self.region = region

    def find(self, text: str) -> Spans:
        """Yield the numbers.

        Cost: linear, but a rejected candidate takes tens of microseconds.
        """
        phones = library("phonenumbers")
        if _DIGIT.search(text) is None:
            return
        if "+" in text or "00" in text:
            yield from _numbers(phones, text, _ABROAD, _counted, None)
        for found in _AMERICAN.finditer(text):
            yield found.span()
        yield from _labelled(text)
        if self.region is not None:
            yield from _numbers(phones, text, _HOME, _no_phone, self.region)

    def find_under(self, key: str, text: str) -> Spans:
        if WORDS.name(key):
            for found in _HOME.finditer(text):
                if _NO_PHONE.fullmatch(found[0]) is None:
                    yield found.span()


def _numbers(
    phones: Any,
    text: str,
    pattern: re.Pattern[str],
    is_other: Callable[[str, re.Match[str]], bool],
    region: str | None,
) -> Spans:
    """Yield the valid numbers among the matches of a pattern; search on after each."""
    found = pattern.search(text)
    while found is not None:
        end = None if is_other(text, found) else _valid(phones, found[0], region)
        past = found.end() if end is None else found.start() + end
        if end is not None:
            yield found.start(), past
        found = pattern.search(text, past)


def _counted(text: str, found: re.Match[str]) -> bool:
    if found[0][0] == "+" or not found[0].isdigit():
        return False
    return _COUNTED.search(text[max(0, found.start() - 40) : found.start()]) is not None


def _no_phone(_text: str, found: re.Match[str]) -> bool:
    return _NO_PHONE.fullmatch(found[0]) is not None


def _labelled(text: str) -> Spans:
    for ends in WORDS.places(lower(text)):
        for end in ends:
            between = _BETWEEN.match(text, end)
            start = between.end() if between else end
            # The last character between can be the opening bracket of the number.
            start -= start > end and text[start - 1] == "("
            found = _NAMED.match(text, start)
            if found and _NO_PHONE.fullmatch(found[0]) is None:
                yield found.span()


def _valid(phones: Any, candidate: str, region: str | None) -> int | None:
    """Return the end of the longest valid number at the start of the candidate."""
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
