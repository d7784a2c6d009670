# SPDX-License-Identifier: Apache-2.0
"""Detectors of secrets and personal data in a text.

base       the protocol, the text as detectors see it, and words that announce a value
secrets    private keys, tokens, provider keys, named keys and passwords
numbers    payment cards, IBANs, social security numbers
personal   e-mail addresses, IP addresses, phone numbers
custom     your own detectors
"""

from __future__ import annotations

from omsgrain.privacy.detectors.base import Detector
from omsgrain.privacy.detectors.custom import PatternDetector, pattern_detector
from omsgrain.privacy.detectors.numbers import Cards, Ibans, SocialSecurityNumbers
from omsgrain.privacy.detectors.personal import Emails, IpAddresses, Phones
from omsgrain.privacy.detectors.secrets import (
    BearerTokens,
    Jwts,
    NamedKeys,
    NamedPasswords,
    PasswordsInAddresses,
    PrivateKeys,
    ProviderKeys,
)

__all__ = [
    "DEFAULT",
    "Detector",
    "PatternDetector",
    "detectors_of",
    "pattern_detector",
]


def detectors_of(region: str | None = None) -> tuple[Detector, ...]:
    """Return all detectors; earlier ones name the marker where findings overlap.

    With a country code, phone numbers in that country's national format are found too.
    """
    return (
        PrivateKeys(),
        ProviderKeys(),
        Jwts(),
        BearerTokens(),
        NamedKeys(),
        NamedPasswords(),
        PasswordsInAddresses(),
        Cards(),
        SocialSecurityNumbers(),
        Ibans(),
        Emails(),
        Phones(region),
        IpAddresses(),
    )


DEFAULT: tuple[Detector, ...] = detectors_of()
