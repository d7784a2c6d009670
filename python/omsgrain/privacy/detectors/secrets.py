# SPDX-License-Identifier: Apache-2.0
"""Find keys, tokens and passwords by their label or by their form."""

from __future__ import annotations

import re
from typing import NamedTuple

from omsgrain.privacy.detectors.base import PLACEHOLDER, LabelledValue, Spans, Words, lower, said

_SURE = tuple(
    f"{first}{between}{second}"
    for first, second in (
        ("api", "key"), ("api", "token"), ("api", "secret"), ("access", "key"), ("secret", "key"),
        ("private", "key"), ("signing", "key"), ("encryption", "key"), ("account", "key"),
        ("shared access", "key"), ("sharedaccess", "key"), ("license", "key"),
        ("client", "secret"),
        ("app", "secret"), ("consumer", "secret"), ("webhook", "secret"), ("access", "token"),
        ("auth", "token"), ("refresh", "token"), ("session", "token"), ("bot", "token"),
        ("access key", "id"), ("secret access", "key"), ("deploy", "token"), ("bearer", "token"),
    )
    for between in (" ", "_", "-", "")
)  # fmt: skip
WORDS = Words(
    words=(
        "api-schlüssel", "schlüssel", "clé api", "clé d'api", "clave api", "clave de api",
        "clave de la api", "chave de api", "chave da api", "chiave api", "api-sleutel", "ключ api",
        "api ключ", "api-ключ", "токен", "klucz api", "api anahtarı", "jeton", "apikey",  # noqa: RUF001
        "api 密钥", "api密钥", "密钥", "令牌", "apiキー", "トークン", "api 키", "토큰",
        "khóa api", "مفتاح api", "api कुंजी",
    ),
    ends=(*_SURE, "secret", "token"),
)  # fmt: skip

# At least eight characters of those in keys.
_LETTERS = re.compile(r"[A-Za-z0-9_\-./+=~!@#$%^*:|]{8,4096}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.Z+-]*")
_MANY_PLAIN = re.compile(r"[A-Za-z]{16,}|[0-9]{20,}|[0-9-]{24,}")
_WORDS = re.compile(r"(?:[A-Za-z]{2,}|\d{1,4})(?:[-_./:](?:[A-Za-z]{2,}|\d{1,4}))*")


class NamedKeys:
    """Values after a word for a key, if they look like a key."""

    type = "api_key"
    secret = True

    def find(self, text: str) -> Spans:
        for value in said(text, WORDS):
            word = text[value.start : value.end]
            if looks_secret(word, value.join == "sign"):
                if value.join != "space" or len(word) >= 20:
                    yield value.start, value.end

    def find_under(self, key: str, text: str) -> Spans:
        bare = text.strip()
        if bare and len(bare) <= 4096 and WORDS.name(key) and looks_secret(bare):
            start = text.index(bare)
            yield start, start + len(bare)


def looks_secret(value: str, sign: bool = True) -> bool:
    """Return whether a value looks like a key, not like a name, path, time or placeholder.

    After a sign, a long name with a number counts too: ``secret: my-secret-value-1``.
    """
    if _LETTERS.fullmatch(value) is None or "://" in value:
        return False
    if PLACEHOLDER.fullmatch(value) is not None or _TIME.fullmatch(value) is not None:
        return False
    if _MANY_PLAIN.fullmatch(value) is not None:
        return True
    if _WORDS.fullmatch(value) is not None and not (sign and len(value) >= 16):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


PASSWORD_WORDS = Words(
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

# Words that follow "password is" without being a password.
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
"""Maximum code points of a text that its key marks as a password."""


_SSHPASS = re.compile(r"sshpass[ \t]{1,4}-p[ \t]{0,2}([^\s\0\"']{3,255})")


class NamedPasswords:
    """``password: x``, ``password is x``, ``--password x``, and a text under such a key."""

    type = "password"
    secret = True

    def find(self, text: str) -> Spans:
        for value in said(text, PASSWORD_WORDS):
            if _is_password(text, value):
                yield value.start, value.end
        for option in (_CLI, _CURL, _SSHPASS) if "-" in text else ():
            for found in option.finditer(text):
                if PLACEHOLDER.fullmatch(found[1]) is None:
                    yield found.span(1)

    def find_under(self, key: str, text: str) -> Spans:
        if 0 < len(text) <= MOST_UNDER_A_KEY and PASSWORD_WORDS.name(key):
            if PLACEHOLDER.fullmatch(text) is None and "\0" not in text:
                yield 0, len(text)


class PasswordsInAddresses:
    """Passwords in URLs, before the ``@``."""

    type = "password"
    secret = True

    _RUN = re.compile(r"[^\s\0\"'<>`]{1,2000}")
    _USER = re.compile(r"[^/?#:@]{0,200}:")

    def find(self, text: str) -> Spans:
        """Yield the passwords, without the user names.

        Cost: linear; a URL ends where the next one begins.
        """
        at = text.find("://")
        while at >= 0:
            start = at + 3
            at = text.find("://", start)
            run = self._RUN.match(text, start, len(text) if at < 0 else at)
            user = run and self._USER.match(text, start, run.end())
            if run is None or user is None:
                continue
            # An invalid password with an unescaped / or @ ends at the last @.
            host = text.rfind("@", user.end(), run.end())
            path = text.find("/", user.end(), run.end())
            port = 0 <= path < host and text[user.end() : path].isdigit()
            if host > user.end() and not port:
                password = text[user.end() : host]
                if PLACEHOLDER.fullmatch(password) is None:
                    yield user.end(), host


def _is_password(text: str, value: LabelledValue) -> bool:
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
    # After "is", a plain word counts only at the end of the sentence.
    return _TELLING_LETTERS.search(word) is not None or bool(_ENDS_HERE.match(text, value.end))


def _mixed(word: str) -> bool:
    return any(c.isdigit() for c in word) and any(c.isalpha() for c in word)


class PrivateKeys:
    """From ``-----BEGIN ... PRIVATE KEY-----`` to its end, or to the end of the base64 text."""

    type = "private_key"
    secret = True

    _BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
    _END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
    # A text can contain JSON, where line breaks are written as \n.
    _BREAK = r"(?:\s|\\[nr])"
    _BODY = re.compile(
        rf"{_BREAK}*(?:[A-Za-z0-9+/=]{{20,}}{_BREAK}*){{1,100000}}[A-Za-z0-9+/=]{{0,19}}"
    )

    def find(self, text: str) -> Spans:
        """Yield the keys with their first and last lines.

        Cost: linear; a found key and a found end are not searched again.
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


class Provider(NamedTuple):
    """The key format of a provider."""

    name: str
    prefixes: tuple[str, ...]  # how its keys begin; a plain search for them keeps the cost low
    body: re.Pattern[str]  # a pattern for the rest, in which no part can match in two ways
    before: int = 0  # number of characters of the key before the prefix


def _row(name: str, prefixes: str, body: str, before: int = 0) -> Provider:
    return Provider(name, tuple(prefixes.split()), re.compile(body, re.ASCII), before)


_WORD = "[A-Za-z0-9]"
_URL = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
PROVIDERS = (
    _row("AWS", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _row("AWS Bedrock", "ABSK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    _row("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_WORD}{{20,}}"),
    _row("GitHub", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    _row(
        "GitLab",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- GR1348941",
        r"[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]{2,})*",
    ),
    _row(
        "Slack",
        "xoxb- xoxa- xoxp- xoxr- xoxs- xoxe- xoxo- xoxc- xoxd- xapp-",
        r"[\w%-]{10,}(?:\.[\w%-]+)*",
    ),
    _row("Slack", "hooks.slack.com/", r"(?:services|workflows|triggers)/[\w/-]{20,}"),
    _row(
        "Stripe",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ pk_live_ pk_test_",
        rf"{_WORD}{{10,}}",
    ),
    _row("Stripe", "whsec_", r"[A-Za-z0-9+/]{24,}={0,2}"),
    _row("Google", "AIza", rf"{_URL}{{30,}}"),
    _row("Google", "ya29.", rf"{_URL}{{20,}}(?:\.{_URL}+)*"),
    _row("Google", "GOCSPX-", rf"{_URL}{{20,}}"),
    # OpenAI, Anthropic, OpenRouter, DeepSeek and others. One part must be long: "sk-learn" is no
    # key.
    _row(
        "OpenAI, Anthropic and similar",
        "sk-",
        rf"(?:{_WORD}{{1,15}}[_-]){{0,12}}{_WORD}{{16,}}{_URL}*",
    ),
    _row("Groq", "gsk_", rf"{_WORD}{{20,}}"),
    _row("xAI", "xai-", rf"{_WORD}{{20,}}"),
    _row("Perplexity", "pplx-", rf"{_WORD}{{20,}}"),
    _row("Replicate", "r8_", rf"{_WORD}{{20,}}"),
    _row("Hugging Face", "hf_ api_org_", rf"{_WORD}{{20,}}"),
    _row("npm", "npm_", rf"{_WORD}{{20,}}"),
    _row("PyPI", "pypi-AgE", rf"{_URL}{{40,}}"),
    _row("RubyGems", "rubygems_", rf"{_HEX}{{48,}}"),
    _row("crates.io", "cio", rf"{_WORD}{{32}}(?!{_WORD})"),
    _row("Docker", "dckr_pat_ dckr_oat_", rf"{_URL}{{20,}}"),
    _row("SendGrid", "SG.", rf"{_URL}{{16,}}\.{_URL}{{20,}}"),
    _row("Twilio", "AC SK", rf"{_HEX}{{32}}(?!{_WORD})"),
    _row("Mailgun", "key-", rf"{_HEX}{{32}}(?!{_WORD})"),
    _row("Azure", "AccountKey= SharedAccessKey= accountkey=", r"[A-Za-z0-9+/]{40,}={0,2}"),
    _row("Azure", "?sig= &sig=", r"[A-Za-z0-9%+/_-]{40,}={0,2}"),
    _row("Azure", "7Q~ 8Q~", r"[\w.~-]{31,34}(?![\w~-])", before=3),
    _row("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", rf"{_HEX}{{64}}"),
    _row("Shopify", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),
    _row("Square", "sq0atp- sq0csp- EAAAE", rf"{_URL}{{22,}}"),
    _row("Databricks", "dapi", rf"{_HEX}{{32}}(?:-\d)?(?!{_WORD})"),
    _row("HashiCorp", "hvs. hvb. hvr.", rf"{_URL}{{24,}}"),
    _row("Atlassian", "ATATT3 ATCTT3 ATBB", r"[\w=-]{20,}"),
    _row("Notion", "ntn_ secret_", rf"{_WORD}{{40,}}"),
    _row("Linear", "lin_api_ lin_oauth_", rf"{_WORD}{{32,}}"),
    _row("Postman", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    _row("Figma", "figd_ figo_", rf"{_URL}{{32,}}"),
    _row("Grafana", "glsa_ glc_", r"[\w+/=]{32,}"),
    _row("New Relic", "NRAK- NRJS- NRII-", rf"{_URL}{{19,}}"),
    _row("Sentry", "sntrys_ sntryu_", r"[\w+/=-]{40,}"),
    _row("Tailscale", "tskey-", r"[a-z]{2,12}-[A-Za-z0-9-]{16,}"),
    _row("Supabase", "sbp_ sb_secret_", rf"{_URL}{{20,}}"),
    _row("PlanetScale", "pscale_", r"[a-z]{2,10}_[\w.=-]{30,}"),
    _row("age", "AGE-SECRET-KEY-1", r"[0-9A-Z]{50,}"),
)


class ProviderKeys:
    """Keys with a format of ``PROVIDERS``."""

    type = "api_key"
    secret = True

    def find(self, text: str) -> Spans:
        """Yield the keys with their prefix, or without it if the prefix is a label.

        Cost: linear; matched text is not searched again for the same prefix.
        """
        for provider in PROVIDERS:
            for prefix in provider.prefixes:
                if prefix in text:
                    yield from _keys(text, prefix, provider)


def _keys(text: str, prefix: str, provider: Provider) -> Spans:
    at = text.find(prefix)
    while at >= 0:
        start, end = at - provider.before, at + len(prefix)
        if start == 0 or (start > 0 and not (_letter(prefix[0]) and _letter(text[start - 1]))):
            if found := provider.body.match(text, end):
                yield end if prefix[-1] == "=" else start, found.end()
                end = found.end()
        at = text.find(prefix, end)


def _letter(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()


class Jwts:
    """JSON Web Tokens: a header that begins with ``{"``, a payload, and perhaps a signature."""

    type = "token"
    secret = True

    _PARTS = re.compile(r"[\w-]{10,}\.[\w-]{4,}(?:\.[\w-]*){0,3}", re.ASCII)

    def find(self, text: str) -> Spans:
        """Yield the tokens.

        Cost: linear; a token begins only after a character that tokens cannot contain.
        """
        at = text.find("eyJ")
        while at >= 0:
            end = at + 3
            if at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "-_"):
                if found := self._PARTS.match(text, at):
                    end = found.end()
                    yield at, end - (text[end - 1] == ".")
            at = text.find("eyJ", end)


class BearerTokens:
    """``Bearer x`` and ``Authorization: Basic x``."""

    type = "token"
    secret = True

    _BEARER = re.compile(r"[ \t]{1,4}([\w.~+/-]{16,}={0,2})", re.ASCII)
    _HEADER = re.compile(
        r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?:bearer|basic|token|digest|apikey|bot|key)"
        r"[ \t]{1,4}([\w.~+/:-]{6,}={0,2})",
        re.ASCII | re.IGNORECASE,
    )

    def find(self, text: str) -> Spans:
        small = lower(text)
        for word, then in (("bearer", self._BEARER), ("authorization", self._HEADER)):
            at = small.find(word)
            while at >= 0:
                end = at + len(word)
                if found := then.match(text, end):
                    start, end = found.span(1)
                    # Prose may follow the bare word: "bearer authentication-method".
                    if word == "authorization" or any(c.isdigit() for c in found[1]):
                        yield start, end - (found[1][-1] == ".")
                at = small.find(word, end)

    def find_under(self, key: str, text: str) -> Spans:
        if key.lower() in ("authorization", "proxy-authorization", "cookie", "set-cookie"):
            first, space, rest = text.strip().partition(" ")
            start = text.find(rest) if space and first.isalpha() else 0
            if len(text) - start >= 6 and "\0" not in text:
                yield start, len(text)
