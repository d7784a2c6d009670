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

from omsgrain.privacy.detectors.cards import Cards
from omsgrain.privacy.detectors.custom import PatternDetector, pattern_detector
from omsgrain.privacy.detectors.detector import Detector, KeyAware
from omsgrain.privacy.detectors.emails import Emails
from omsgrain.privacy.detectors.ibans import Ibans
from omsgrain.privacy.detectors.ip_addresses import IpAddresses
from omsgrain.privacy.detectors.named_keys import NamedKeys
from omsgrain.privacy.detectors.passwords import PasswordsInAddresses, PasswordsTold
from omsgrain.privacy.detectors.phones import Phones
from omsgrain.privacy.detectors.private_keys import PrivateKeys
from omsgrain.privacy.detectors.providers import ProviderKeys
from omsgrain.privacy.detectors.ssn import SocialSecurityNumbers
from omsgrain.privacy.detectors.tokens import BearerTokens, Jwts

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
