# SPDX-License-Identifier: Apache-2.0
"""Personal data and secrets: what is found of them in grains and documents, and taken out.

detectors/   what finds secrets and personal data in a text
detect       what all of them find, without overlaps
redact       texts, trees of JSON and records with markers in the place of it
presets/     rules that are in force together: gdpr, hipaa, ccpa, sox, and those always in force
"""

from omsgrain.policy.presets import (
    BUILT_IN,
    Explained,
    Preset,
    explain,
    load,
)
from omsgrain.policy.rules import PURPOSES, PolicyRule, Purpose

__all__ = [
    "BUILT_IN",
    "PURPOSES",
    "Explained",
    "PolicyRule",
    "Preset",
    "Purpose",
    "explain",
    "load",
]


def __dir__() -> list[str]:
    return __all__
