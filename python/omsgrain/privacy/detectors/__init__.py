# SPDX-License-Identifier: Apache-2.0
"""What finds secrets and personal data in a text, a file for each family.

detector        what a detector is
folding         the text as detectors see it
telling         words that tell what comes after them
libraries       the libraries of the extra
private_keys, tokens, providers, named_keys, passwords        secrets
cards, ssn, ibans, emails, phones, ip_addresses               data about persons
custom          detectors of one's own
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
