# SPDX-License-Identifier: Apache-2.0
"""Passwords: where a word tells, and in addresses (``scheme://user:password@host``)."""

from __future__ import annotations

import re

from omsgrain.privacy.detectors.detector import Spans
from omsgrain.privacy.detectors.telling import PLACEHOLDER, Said, Words, said

__all__ = ["PasswordsInAddresses", "PasswordsTold"]

WORDS = Words(
    words=(
        "pass", "pwd", "pw", "pass word", "clave", "senha", "parola", "hasło", "haslo", "heslo",
        "jelszó", "geslo", "lozinka", "salasana", "şifre", "sifre", "parole", "mật khẩu",
        "kata sandi", "sandi", "סיסמה", "סיסמא", "पासवर्ड", "รหัสผ่าน",
        "كلمة المرور", "كلمة السر", "رمز عبور", "κωδικός",
        "密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호",
    ),
    ends=(
        "password", "passwd", "passphrase", "passcode", "pass phrase", "contraseña", "contrasena",
        "mot de passe", "passwort", "kennwort", "palavra-passe", "wachtwoord", "lösenord",
        "passord", "adgangskode", "пароль", "пароля", "паролем",
    ),
)  # fmt: skip

# What follows "password is" without being one.
_NO_PASSWORD = frozenset(
    (
        "must should may at minimum min max expire required optional wrong incorrect "
        "invalid expired correct valid weak strong short long too not the a an in on by "
        "for from with very so also now never always only still already stored hashed "
        "salted encrypted kept saved sent used set reset changed being been managed empty "
        "missing needed mandatory case-sensitive case sensitive same different unique "
        "important my your his her our their its this that what when where why how if no "
        "and or but because something nothing anything about going hard easy safe secure "
        "forgotten lost gone visible log login access connect be get use enter open "
        "unlock protect falsch richtig abgelaufen erforderlich ungültig zu nicht sicher "
        "unsicher vergessen incorrecta correcta obligatoria requerida necesaria errónea "
        "segura débil obligatoire incorrecte faux nécessaire facultatif expiré oublié "
        "requis trop obrigatória necessária inválida errada expirada obbligatoria errata "
        "scaduta sbagliata verplicht onjuist verkeerd wymagane nieprawidłowe обязателен "
        "неверный неверен"
    ).split()
)
_TELLING_LETTERS = re.compile(r"\d|[^\w\s'\u2019-]|_|[a-z][A-Z]")
_ENDS_HERE = re.compile(r"\s*(?:[.!,;)\n]|$)")
_CLI = re.compile(
    r"--(?:password|passwd|passphrase|pass|pwd)[ \t]{1,4}([^\s\0\"'-][^\s\0\"']{2,255})"
)
_CURL = re.compile(r"(?:-u|--user)[ \t=]{1,2}[\"']?[\w.@-]{1,64}:([^\s\0\"']{3,255})")
MOST_UNDER_A_KEY = 256
"""Code points of a text that is a password as a whole, because of its key."""


_SSHPASS = re.compile(r"sshpass[ \t]{1,4}-p[ \t]{0,2}([^\s\0\"']{3,255})")


class PasswordsTold:
    """``password: x``, ``password is x``, ``--password x``, and a text under such a key."""

    type = "password"
    secret = True

    def find(self, text: str) -> Spans:
        """Yield the values, without the words before."""
        for value in said(text, WORDS):
            if _is_password(text, value):
                yield value.start, value.end
        for option in (_CLI, _CURL, _SSHPASS) if "-" in text else ():
            for found in option.finditer(text):
                if PLACEHOLDER.fullmatch(found[1]) is None:
                    yield found.span(1)

    def find_under(self, key: str, text: str) -> Spans:
        """Yield the whole text."""
        if 0 < len(text) <= MOST_UNDER_A_KEY and WORDS.name(key):
            if PLACEHOLDER.fullmatch(text) is None and "\0" not in text:
                yield 0, len(text)


class PasswordsInAddresses:
    """The password in the part of a URL before ``@``."""

    type = "password"
    secret = True

    _RUN = re.compile(r"[^\s\0\"'<>`]{1,2000}")
    _USER = re.compile(r"[^/?#:@]{0,200}:")

    def find(self, text: str) -> Spans:
        """Yield the passwords, without the names before.

        Cost: linear; an address ends where the next begins.
        """
        at = text.find("://")
        while at >= 0:
            start = at + 3
            at = text.find("://", start)
            run = self._RUN.match(text, start, len(text) if at < 0 else at)
            user = run and self._USER.match(text, start, run.end())
            if run is None or user is None:
                continue
            # One that holds / or @ unescaped, against the rule, is taken up to the last @.
            host = text.rfind("@", user.end(), run.end())
            path = text.find("/", user.end(), run.end())
            port = 0 <= path < host and text[user.end() : path].isdigit()
            if host > user.end() and not port:
                password = text[user.end() : host]
                if PLACEHOLDER.fullmatch(password) is None:
                    yield user.end(), host


def _is_password(text: str, value: Said) -> bool:
    word = text[value.start : value.end]
    if PLACEHOLDER.fullmatch(word) is not None or word.startswith(("/", "~/", "./")):  # pwd
        return False
    if value.join == "space":
        return len(word) >= 6 and _mixed(word)
    if value.quoted or text[value.start - 1] == "=":
        return len(word) >= 3
    if value.join == "sign":
        return len(word) >= 3 and word.lower() not in _NO_PASSWORD
    if word.lower() in _NO_PASSWORD or len(word) < 4:
        return False
    # After "is", a plain word is one only at the end of the sentence.
    return _TELLING_LETTERS.search(word) is not None or bool(_ENDS_HERE.match(text, value.end))


def _mixed(word: str) -> bool:
    return any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
