# SPDX-License-Identifier: Apache-2.0
"""Find and redact personal data and secrets in grains and documents.

detectors/   find secrets and personal data in a text
detect       the findings of all detectors, without overlaps
redact       replace findings by markers in texts, JSON and records
presets/     rules that apply together: gdpr, hipaa, ccpa, sox, and permanent ones
"""

from omsgrain.policy.presets import BUILT_IN, Explained, Preset, explain, load
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
