# SPDX-License-Identifier: Apache-2.0
"""Keys and tokens that their provider made easy to tell, by a prefix."""

from __future__ import annotations

import re
from typing import NamedTuple

from omsgrain.privacy.detectors.detector import Spans

__all__ = ["PROVIDERS", "Provider", "ProviderKeys"]


class Provider(NamedTuple):
    """The keys of one provider.

    Attributes:
        name: of the provider.
        prefixes: what they begin with; found by plain search, so they keep the rest cheap.
        body: what comes after, as a pattern of which no part can match in two ways.
        before: letters of the key that stand before the prefix.
    """

    name: str
    prefixes: tuple[str, ...]
    body: re.Pattern[str]
    before: int = 0


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
    # OpenAI, Anthropic, OpenRouter, DeepSeek and others. One part is long, or "sk-learn" is a key.
    _row(
        "OpenAI, Anthropic and alike",
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
    """The keys of ``PROVIDERS``."""

    type = "api_key"
    secret = True

    def find(self, text: str) -> Spans:
        """Yield the keys with their prefix; without it, if it is the name of a value.

        Cost: linear; what one search has looked at is not looked at again for the same prefix.
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
