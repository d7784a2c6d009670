# SPDX-License-Identifier: Apache-2.0
"""What finds secrets and personal data in a text, a file for each family.

base       what a detector is; the text as detectors see it; words that tell what comes after
secrets    private keys, tokens, keys of providers, keys and passwords that a word names
numbers    payment cards, IBANs, social security numbers
personal   e-mail addresses, IP addresses, phone numbers
custom     detectors of one's own
"""

from __future__ import annotations

from omsgrain.privacy.detectors.base import Detector, KeyAware
from omsgrain.privacy.detectors.custom import PatternDetector, pattern_detector
from omsgrain.privacy.detectors.numbers import Cards, Ibans, SocialSecurityNumbers
from omsgrain.privacy.detectors.personal import Emails, IpAddresses, Phones
from omsgrain.privacy.detectors.secrets import (
    BearerTokens,
    Jwts,
    NamedKeys,
    PasswordsInAddresses,
    PasswordsTold,
    PrivateKeys,
    ProviderKeys,
)

__all__ = [
    "DEFAULT",
    "Detector",
    "KeyAware",
    "PatternDetector",
    "detectors_of",
    "pattern_detector",
]


def detectors_of(region: str | None = None) -> tuple[Detector, ...]:
    """All detectors, the first before the others where they overlap.

    Args:
        region: a country by its two letters, whose phone numbers are found as they are dialled
            there.
    """
    return (
        PrivateKeys(),
        ProviderKeys(),
        Jwts(),
        BearerTokens(),
        NamedKeys(),
        PasswordsTold(),
        PasswordsInAddresses(),
        Cards(),
        SocialSecurityNumbers(),
        Ibans(),
        Emails(),
        Phones(region),
        IpAddresses(),
    )


DEFAULT: tuple[Detector, ...] = detectors_of()
